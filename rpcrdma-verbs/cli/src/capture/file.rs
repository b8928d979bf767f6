//! Reads capture files, pcap and pcapng, as frames.
//!
//! A file that becomes damaged still yields the frames before: `read` returns the damage for the
//! summary, and fails only if the file is no capture or cannot be read. The memory for a block is
//! limited by `MAX_ROOM`. `packet` parses the frames.

use std::error::Error;
use std::io::Read;
use std::time::Duration;

use pcap_parser::{
    Block, IDB_MAGIC, InterfaceDescriptionBlock, Linktype, PcapBlockOwned, PcapError,
};

/// The initial buffer size for a block, and the maximum: one packet, or a block of keys or names.
const ROOM: usize = 1 << 16;
const MAX_ROOM: usize = 1 << 26;

/// A captured frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// The time since the epoch, or since another reference point; `None` if the file has none for
    /// the frame.
    pub(super) time: Option<Duration>,
    pub(super) link: Linktype,
    /// The captured bytes, which may be fewer than were sent.
    pub(super) bytes: &'a [u8],
    /// The length of the frame on the wire.
    length: u32,
}

impl Frame<'_> {
    /// Returns true if the end of the frame was not captured.
    pub(super) fn is_truncated(&self) -> bool {
        self.missing() > 0
    }

    /// Returns the number of bytes at the end of the frame that were not captured.
    pub(super) fn missing(&self) -> usize {
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        length.saturating_sub(self.bytes.len())
    }
}

/// An interface of a pcapng file.
#[derive(Clone, Copy)]
struct Interface {
    link: Linktype,
    /// The time units per second.
    resolution: u64,
    /// The offset in seconds.
    offset: i64,
    snapshot: usize,
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>) -> Self {
        // The parser reads the offset in the byte order of little-endian sections.
        let is_big_endian = block.block_type != IDB_MAGIC;
        Self {
            link: block.linktype,
            resolution: resolution(block.if_tsresol).unwrap_or(1_000_000),
            offset: if is_big_endian {
                block.if_tsoffset.swap_bytes()
            } else {
                block.if_tsoffset
            },
            snapshot: usize::try_from(block.snaplen).unwrap_or(usize::MAX),
        }
    }
}

/// Returns the time units per second: a power of ten, or of two if the highest bit is set. The
/// parser knows no power of two.
fn resolution(option: u8) -> Option<u64> {
    let exponent = u32::from(option & 0x7f);
    if option & 0x80 == 0 {
        10u64.checked_pow(exponent)
    } else {
        1u64.checked_shl(exponent)
    }
}

/// The format of a pcap file, or the interfaces of a pcapng section.
#[derive(Default)]
struct Context {
    legacy: Option<(Linktype, u64)>,
    interfaces: Vec<Interface>,
}

/// Reads a file to its end. If a later part is damaged, returns a description of the damage.
///
/// # Errors
/// Fails if the file is not a capture, or if `each` fails.
pub(super) fn read(
    input: impl Read + Send,
    mut each: impl FnMut(Frame<'_>) -> Result<(), Box<dyn Error>>,
) -> Result<Option<String>, Box<dyn Error>> {
    let reader = pcap_parser::create_reader(ROOM, FullReads(input));
    let mut reader = reader.map_err(|error| match error {
        PcapError::ReadError => "the file can't be read",
        PcapError::Eof => "the file is empty",
        _ => "this is neither a pcap nor a pcapng file",
    })?;
    let mut context = Context::default();
    let mut room = ROOM;
    loop {
        let more = match reader.next() {
            Ok((taken, block)) => {
                if let Some(frame) = context.frame(&block) {
                    each(frame)?;
                }
                reader.consume(taken);
                continue;
            }
            Err(PcapError::Eof) => return Ok(None),
            Err(PcapError::Incomplete(needed)) => needed,
            Err(PcapError::BufferTooSmall) => room,
            Err(PcapError::UnexpectedEof) => {
                return Ok(Some("the file ends within a packet".to_owned()));
            }
            Err(_) => return Ok(Some("the file is damaged".to_owned())),
        };
        if reader.reader_exhausted() {
            return Ok(Some("the file ends within a packet".to_owned()));
        }
        // A block that does not fit gets a larger buffer, as long as its length is plausible.
        if reader.data().len().saturating_add(more) >= room {
            room = room.saturating_mul(2);
            if room > MAX_ROOM || !reader.grow(room) {
                return Ok(Some("the file is damaged".to_owned()));
            }
        }
        if reader.refill().is_err() {
            return Err("the file can't be read".into());
        }
    }
}

/// Fills each buffer completely: the parser takes a short read from a pipe for the end of the file.
struct FullReads<R>(R);

impl<R: Read> Read for FullReads<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut have = 0;
        while let Some(rest) = buffer.get_mut(have..).filter(|rest| !rest.is_empty()) {
            match self.0.read(rest) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(have)
    }
}

impl Context {
    /// Returns the frame of a block, if it has one.
    fn frame<'b>(&mut self, block: &'b PcapBlockOwned<'_>) -> Option<Frame<'b>> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let nanoseconds = header.is_nanosecond_precision();
                let resolution = if nanoseconds {
                    1_000_000_000
                } else {
                    1_000_000
                };
                // The upper bits describe checksums at the end of frames.
                let link = Linktype(header.network.0 & 0xffff);
                self.legacy = Some((link, resolution));
                None
            }
            PcapBlockOwned::Legacy(packet) => {
                let (link, resolution) = self.legacy?;
                let part = u64::from(packet.ts_usec);
                let time = Duration::from_secs(packet.ts_sec.into()) + fraction(part, resolution);
                Some(Frame {
                    time: Some(time),
                    link,
                    bytes: clip(packet.data, packet.caplen, packet.origlen),
                    length: packet.origlen,
                })
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.interfaces.clear();
                None
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                self.interfaces.push(Interface::new(interface));
                None
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let interface = self.interfaces.get(usize::try_from(packet.if_id).ok()?)?;
                let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let seconds = units / interface.resolution;
                let seconds = seconds.saturating_add_signed(interface.offset);
                let part = fraction(units % interface.resolution, interface.resolution);
                let time = Duration::from_secs(seconds).saturating_add(part);
                Some(Frame {
                    time: Some(time),
                    link: interface.link,
                    bytes: clip(packet.data, packet.caplen, packet.origlen),
                    length: packet.origlen,
                })
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                let interface = self.interfaces.first()?;
                let max = if interface.snapshot == 0 {
                    usize::MAX
                } else {
                    interface.snapshot
                };
                let bytes = clip(packet.data, packet.origlen, packet.origlen);
                Some(Frame {
                    time: None,
                    link: interface.link,
                    bytes: bytes.get(..bytes.len().min(max))?,
                    length: packet.origlen,
                })
            }
            PcapBlockOwned::NG(_) => None,
        }
    }
}

/// Removes the padding of a packet.
fn clip(data: &[u8], captured: u32, original: u32) -> &[u8] {
    let length = usize::try_from(captured.min(original)).unwrap_or(usize::MAX);
    data.get(..length).unwrap_or(data)
}

fn fraction(units: u64, resolution: u64) -> Duration {
    let nanoseconds = u128::from(units) * 1_000_000_000 / u128::from(resolution.max(1));
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}
