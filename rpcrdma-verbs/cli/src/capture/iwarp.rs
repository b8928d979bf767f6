//! iWARP: the setup and FPDUs of MPA, the segments of DDP, and the Sends in them.
//!
//! Source: RFC 5044, sections 4 and 7.1; RFC 5041, section 4; RFC 5040, section 4.3. `tcp` orders
//! the bytes. After a gap, an FPDU may begin at any later segment, so bytes count as FPDUs only
//! once a plausible header and the CRC confirm a guess (`sure`). Markers are found by `position`,
//! which must count every byte after the setup, lost ones too.

use rpcrdma_iwarp::{MpaInitiator, MpaOptions, MpaResponder, RdmapOpcode};

use super::packet::Bytes;
use super::tcp::StreamPart;

const KEYS: [&[u8; 16]; 2] = [b"MPA ID Req Frame", b"MPA ID Rep Frame"];
const FRAME_LEN: usize = 20;
const MARKER_DISTANCE: u64 = 512;
/// The maximum length of a reassembled Send.
const MAX_SEND: usize = 1 << 24;

/// An event in one direction of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum IwarpArrival {
    /// A Send is complete. It had this number of segments.
    Send { bytes: Vec<u8>, segments: usize },
    /// Data are missing or damaged.
    Lost(String),
}

/// The parameters in a frame of the setup.
#[derive(Clone, Copy, Debug)]
struct SetupFrame {
    crc: bool,
    markers: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HalfState {
    /// The protocol of the stream is not known yet.
    Unknown,
    /// The frame of this direction has been read, and that of the peer has not.
    Waiting,
    /// The buffer begins with an FPDU. Unless this is `sure`, it is a guess that a CRC must
    /// confirm.
    Fpdus { sure: bool },
    /// The buffer begins within an FPDU whose start is missing.
    Lost,
    /// The stream is not iWARP, or has ended.
    Foreign,
}

/// One direction of a stream.
struct HalfStream {
    state: HalfState,
    buffer: Vec<u8>,
    /// The position of the buffer's first byte, relative to the first FPDU.
    position: u64,
    setup: Option<SetupFrame>,
    /// Whether the setup frame is missing.
    setup_lost: bool,
    /// Whether any FPDU was read.
    confirmed: bool,
    /// The incomplete Send: MSN, bytes, and number of segments.
    partial: Option<(u32, Vec<u8>, usize)>,
}

impl Default for HalfStream {
    fn default() -> Self {
        Self {
            state: HalfState::Unknown,
            buffer: Vec::new(),
            position: 0,
            setup: None,
            setup_lost: false,
            confirmed: false,
            partial: None,
        }
    }
}

/// The format of the FPDUs of a direction.
#[derive(Clone, Copy)]
struct Framing {
    /// Whether there are CRCs. `None` if it is unknown: then only a CRC that is neither right nor 0
    /// is wrong.
    crc: Option<bool>,
    markers: bool,
}

/// Both directions of a connection.
#[derive(Default)]
pub(super) struct IwarpConnection {
    halves: [HalfStream; 2],
    /// The direction of the request.
    initiator: Option<usize>,
}

impl IwarpConnection {
    /// Returns the direction of the request, if it was captured.
    pub(super) const fn initiator(&self) -> Option<usize> {
        self.initiator
    }

    /// Takes a part of one direction. Returns the events of both directions.
    pub(super) fn receive(&mut self, from: usize, part: StreamPart) -> Vec<(usize, IwarpArrival)> {
        let mut arrivals = Vec::new();
        let half = &mut self.halves[from & 1];
        match part {
            StreamPart::Gap(count) => {
                let known = half.confirmed || half.setup.is_some();
                half.lose(count);
                if known {
                    let text = format!("{count} bytes of the stream");
                    arrivals.push((from, IwarpArrival::Lost(text)));
                }
            }
            StreamPart::Bytes(bytes) => half.take(&bytes),
        }
        self.set_up(from & 1);
        for side in [0, 1] {
            // A direction without a setup begins in the middle, and its peer does not wait for it.
            let peer_lost = self.halves[1 - side].setup_lost;
            let half = &mut self.halves[side];
            if peer_lost && half.state == HalfState::Waiting {
                half.state = HalfState::Fpdus { sure: false };
            }
        }
        // The other direction may have waited only for this frame.
        for side in [from & 1, 1 - (from & 1)] {
            let Some(framing) = self.framing(side) else {
                continue;
            };
            let half = &mut self.halves[side];
            half.fpdus(framing, &mut |arrival| arrivals.push((side, arrival)));
        }
        arrivals
    }

    /// Returns the directions that end within a message, and what is missing.
    pub(super) fn incomplete(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let halves = self.halves.iter().enumerate();
        halves.filter_map(|(side, half)| Some((side, half.incomplete()?)))
    }

    /// Reads a frame of the setup, if the direction begins with one.
    fn set_up(&mut self, side: usize) {
        let half = &mut self.halves[side];
        if half.state != HalfState::Unknown || half.buffer.is_empty() {
            return;
        }
        let start = half.buffer.len().min(16);
        let begins = |key: &[u8; 16]| start > 0 && half.buffer[..start] == key[..start];
        let Some(which) = KEYS.iter().position(|key| begins(key)) else {
            // A capture may begin within the stream.
            half.setup_lost = true;
            half.state = HalfState::Fpdus { sure: false };
            return;
        };
        let Some(&[.., high, low]) = half.buffer.first_chunk::<FRAME_LEN>() else {
            return;
        };
        let length = FRAME_LEN + usize::from(u16::from_be_bytes([high, low]));
        let Some(frame) = half.buffer.get(..length) else {
            return;
        };
        let setup = if which == 0 {
            request(frame)
        } else {
            reply(frame)
        };
        half.buffer.drain(..length);
        half.setup = setup;
        half.state = if setup.is_some() {
            HalfState::Waiting
        } else {
            HalfState::Foreign
        };
        if which == 0 {
            self.initiator = Some(side);
        } else if self.initiator.is_none() {
            self.initiator = Some(1 - side);
        }
        if let [Some(_), Some(_)] = [self.halves[0].setup, self.halves[1].setup] {
            for half in &mut self.halves {
                if half.state == HalfState::Waiting {
                    half.state = HalfState::Fpdus { sure: true };
                }
            }
        }
    }

    /// Returns the format of the FPDUs of a direction, or `None` until its setup is complete.
    fn framing(&self, side: usize) -> Option<Framing> {
        let (own, peer) = (self.halves[side].setup, self.halves[1 - side].setup);
        match (own, peer) {
            // Each end requests the markers that it wants to receive.
            (Some(own), Some(peer)) => Some(Framing {
                crc: Some(own.crc || peer.crc),
                markers: peer.markers,
            }),
            (_, Some(peer)) => Some(Framing {
                crc: None,
                markers: peer.markers,
            }),
            (Some(_), None) if !self.halves[1 - side].setup_lost => None,
            (_, None) => Some(Framing {
                crc: None,
                markers: false,
            }),
        }
    }
}

fn options() -> MpaOptions {
    MpaOptions {
        crc: false,
        depths: None,
        rtr: None,
        private_data: Vec::new(),
    }
}

fn request(frame: &[u8]) -> Option<SetupFrame> {
    let request = MpaResponder::new().receive(frame).ok()??;
    let (_, established) = request.accept(&options()).ok()?;
    let (crc, markers) = (established.crc, established.markers);
    Some(SetupFrame { crc, markers })
}

fn reply(frame: &[u8]) -> Option<SetupFrame> {
    let (mut initiator, _) = MpaInitiator::new(options()).ok()?;
    let (_, established) = initiator.receive(frame).ok()?;
    let established = established?;
    let (crc, markers) = (established.crc, established.markers);
    Some(SetupFrame { crc, markers })
}

impl HalfStream {
    fn take(&mut self, bytes: &[u8]) {
        match self.state {
            HalfState::Foreign => {}
            // An FPDU may begin at a segment boundary. The bytes before it are dropped.
            HalfState::Lost => {
                self.drop_buffer();
                self.buffer.extend_from_slice(bytes);
                self.state = HalfState::Fpdus { sure: false };
            }
            // The peer's frame is missing: the stream cannot be decoded.
            HalfState::Waiting if self.buffer.len() > MAX_SEND => {
                self.state = HalfState::Foreign;
                self.buffer = Vec::new();
            }
            _ => self.buffer.extend_from_slice(bytes),
        }
    }

    fn lose(&mut self, count: u64) {
        self.drop_buffer();
        self.position = self.position.saturating_add(count);
        self.partial = None;
        self.setup_lost |= self.setup.is_none();
        if self.state != HalfState::Foreign {
            self.state = HalfState::Lost;
        }
    }

    /// Returns what is missing, if the direction ends within a Send, or within an FPDU.
    fn incomplete(&self) -> Option<&'static str> {
        if self.partial.is_some() {
            return Some(super::END_OF_SEND);
        }
        let is_within = self.state == (HalfState::Fpdus { sure: true }) && !self.buffer.is_empty();
        is_within.then_some("the end of an FPDU")
    }

    fn drop_buffer(&mut self) {
        self.position = self.position.saturating_add(self.buffer.len() as u64);
        self.buffer.clear();
    }

    /// Reads the FPDUs in the buffer.
    fn fpdus(&mut self, framing: Framing, arrived: &mut dyn FnMut(IwarpArrival)) {
        let mut at = 0;
        while let HalfState::Fpdus { sure } = self.state {
            let position = self.position.saturating_add(at as u64);
            let rest = self.buffer.get(at..).unwrap_or_default();
            match Fpdu::read(rest, position, framing) {
                Reading::Incomplete => break,
                Reading::Fpdu(fpdu) => {
                    at += fpdu.taken;
                    self.state = HalfState::Fpdus { sure: true };
                    self.confirmed = true;
                    self.ulpdu(&fpdu.ulpdu, arrived);
                }
                Reading::Wrong(why) => {
                    self.partial = None;
                    if sure {
                        arrived(IwarpArrival::Lost(why.to_owned()));
                    }
                    self.state = HalfState::Lost;
                    at = self.buffer.len();
                }
            }
        }
        self.buffer.drain(..at.min(self.buffer.len()));
        self.position = self.position.saturating_add(at as u64);
    }

    /// Reads a DDP segment.
    fn ulpdu(&mut self, ulpdu: &[u8], arrived: &mut dyn FnMut(IwarpArrival)) {
        let mut bytes = Bytes(ulpdu);
        let Some(segment) = Untagged::read(&mut bytes) else {
            return;
        };
        let lost = "segments of a Send".to_owned();
        let (mut message, segments) = match self.partial.take() {
            Some((msn, message, segments)) if segment.offset > 0 => {
                if msn != segment.msn || message.len() != segment.offset {
                    return arrived(IwarpArrival::Lost(lost));
                }
                (message, segments)
            }
            None if segment.offset > 0 => return,
            before => {
                if before.is_some() {
                    arrived(IwarpArrival::Lost(lost));
                }
                (Vec::new(), 0)
            }
        };
        if message.len() + bytes.0.len() > MAX_SEND {
            let text = "a Send is longer than 16 MiB".to_owned();
            return arrived(IwarpArrival::Lost(text));
        }
        message.extend_from_slice(bytes.0);
        let segments = segments + 1;
        if segment.last {
            arrived(IwarpArrival::Send {
                bytes: message,
                segments,
            });
        } else {
            self.partial = Some((segment.msn, message, segments));
        }
    }
}

/// The header of a segment of a Send.
struct Untagged {
    last: bool,
    msn: u32,
    offset: usize,
}

impl Untagged {
    /// Reads a header, if it belongs to a Send.
    fn read(bytes: &mut Bytes<'_>) -> Option<Self> {
        let (ddp, rdmap) = (bytes.u8()?, bytes.u8()?);
        bytes.u32()?;
        let queue = bytes.u32()?;
        let (msn, offset) = (bytes.u32()?, bytes.u32()?);
        let is_send = matches!(
            RdmapOpcode::from_control(rdmap)?,
            RdmapOpcode::Send
                | RdmapOpcode::SendInvalidate
                | RdmapOpcode::SendSolicited
                | RdmapOpcode::SendSolicitedInvalidate
        );
        let offset = usize::try_from(offset).ok()?;
        let last = ddp & 0x40 != 0;
        (ddp & 0x80 == 0 && queue == 0 && is_send).then_some(Self { last, msn, offset })
    }
}

struct Fpdu {
    /// The length of the FPDU in the stream, with markers.
    taken: usize,
    ulpdu: Vec<u8>,
}

enum Reading {
    Incomplete,
    Fpdu(Fpdu),
    Wrong(&'static str),
}

impl Fpdu {
    /// Reads the FPDU at the start of `bytes`, which is at `position` of the stream.
    fn read(bytes: &[u8], position: u64, framing: Framing) -> Reading {
        let mut reader = MarkerReader {
            bytes,
            at: 0,
            position,
            markers: framing.markers,
        };
        let Some(length) = reader.take(2).and_then(|bytes| Bytes(&bytes).u16()) else {
            return Reading::Incomplete;
        };
        let length = usize::from(length);
        // The header shows early that this is not an FPDU, before the rest of it arrives.
        if length > 0 {
            let mut ahead = reader;
            let Some(control) = ahead.take(2.min(length)) else {
                return Reading::Incomplete;
            };
            if !is_plausible(&control, length) {
                return Reading::Wrong("the stream is damaged: no FPDU begins where one should");
            }
        }
        let padding = (4 - (2 + length) % 4) % 4;
        let Some(ulpdu) = reader.take(length) else {
            return Reading::Incomplete;
        };
        if reader.take(padding).is_none() {
            return Reading::Incomplete;
        }
        reader.skip_marker();
        let end = reader.at;
        let Some(&sum) = bytes.get(end..).and_then(<[u8]>::first_chunk) else {
            return Reading::Incomplete;
        };
        let right = || crc32c::crc32c(&bytes[..end]).to_le_bytes() == sum;
        let good = match framing.crc {
            Some(true) => right(),
            Some(false) => true,
            None => sum == [0; 4] || right(),
        };
        if !good {
            return Reading::Wrong("an FPDU has a wrong CRC");
        }
        Reading::Fpdu(Self {
            taken: end + 4,
            ulpdu,
        })
    }
}

/// Returns true if a segment can begin with these control bytes: both versions are 1.
fn is_plausible(control: &[u8], length: usize) -> bool {
    let [ddp, rdmap, ..] = *control else {
        return false;
    };
    let header = if ddp & 0x80 == 0 { 18 } else { 14 };
    ddp & 3 == 1
        && rdmap >> 6 == 1
        && RdmapOpcode::from_control(rdmap).is_some()
        && length >= header
}

/// Reads a stream with markers.
#[derive(Clone, Copy)]
struct MarkerReader<'b> {
    bytes: &'b [u8],
    at: usize,
    position: u64,
    markers: bool,
}

impl MarkerReader<'_> {
    fn skip_marker(&mut self) {
        let position = self.position.saturating_add(self.at as u64);
        if self.markers && position.is_multiple_of(MARKER_DISTANCE) {
            self.at += 4;
        }
    }

    /// Returns the next bytes without markers, or `None` if they are incomplete.
    fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut left = count;
        // Nothing is copied unless enough bytes have arrived.
        if self.bytes.len().saturating_sub(self.at) < count {
            return None;
        }
        let mut taken = Vec::with_capacity(count);
        while left > 0 {
            self.skip_marker();
            let position = self.position.saturating_add(self.at as u64);
            let room = MARKER_DISTANCE - position % MARKER_DISTANCE;
            let room = if self.markers {
                usize::try_from(room).unwrap_or(left)
            } else {
                left
            };
            let part = self.bytes.get(self.at..self.at + left.min(room))?;
            taken.extend_from_slice(part);
            self.at += part.len();
            left -= part.len();
        }
        Some(taken)
    }
}
