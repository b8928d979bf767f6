//! Writes messages as a capture: one connection for each scene of `rpcrdma demo`.
//!
//! The frames are constructed here, so that no device and no privilege is needed. They contain only
//! the messages: there are no acknowledgements, and no RDMA Reads and Writes. Wireshark and
//! `capture` must both accept the frames, so lengths, ICRCs, CRCs and the messages of connection
//! managers are valid.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use rpcrdma_iwarp::{
    Framer, FramerPiece, MpaInitiator, MpaOptions, MpaResponder, OutgoingKind, OutgoingMessage,
};

use super::report::Sender;
use super::roce::PORT;

/// The link type of Ethernet.
const ETHERNET: u32 = 1;
/// The path MTU of RoCE: messages longer than a kilobyte take several packets.
const PATH_MTU: usize = 1024;
/// The payload of a TCP segment.
const SEGMENT: usize = 1448;
/// The port of NFS over RDMA (RFC 8267), which this command uses for its service.
const SERVICE: u16 = 20049;

const SEND_FIRST: u8 = 0;
const SEND_MIDDLE: u8 = 1;
const SEND_LAST: u8 = 2;
const SEND_ONLY: u8 = 4;
const UD_SEND_ONLY: u8 = 0x64;

const FIN: u8 = 1;
const SYN: u8 = 2;
const PUSH: u8 = 8;
const ACK: u8 = 16;

/// The protocol that carries the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(crate) enum Frames {
    /// RoCEv2: UDP, with one message in several packets if it is long.
    #[default]
    Roce,
    /// iWARP on TCP.
    Iwarp,
}

/// A libpcap file.
pub(crate) struct CaptureWriter {
    file: BufWriter<File>,
    frames: Frames,
    began: Instant,
    connections: u16,
}

impl CaptureWriter {
    pub(crate) fn create(path: &Path, frames: Frames) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create(path)?);
        for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 1 << 18, ETHERNET] {
            file.write_all(&u32::to_le_bytes(word))?;
        }
        Ok(Self {
            file,
            frames,
            began: Instant::now(),
            connections: 0,
        })
    }

    /// Writes a connection with these messages.
    pub(crate) fn connection<'m>(
        &mut self,
        messages: impl IntoIterator<Item = (bool, &'m [u8])>,
    ) -> io::Result<()> {
        let number = self.connections;
        self.connections += 1;
        let messages = messages.into_iter().map(|(client, bytes)| {
            (
                if client {
                    Sender::Client
                } else {
                    Sender::Server
                },
                bytes,
            )
        });
        match self.frames {
            Frames::Roce => self.roce(number, messages)?,
            Frames::Iwarp => self.iwarp(number, messages)?,
        }
        self.file.flush()
    }

    /// Writes a frame with a UDP or TCP packet.
    fn frame(&mut self, from: Sender, protocol: u8, packet: &[u8]) -> io::Result<()> {
        let frame = [
            &ethernet(from),
            &ipv4(from, protocol, packet.len())[..],
            packet,
        ]
        .concat();
        let since = self.began.elapsed();
        let length = size(frame.len());
        let seconds = u32::try_from(since.as_secs()).unwrap_or(u32::MAX);
        for word in [seconds, since.subsec_micros(), length, length] {
            self.file.write_all(&word.to_le_bytes())?;
        }
        self.file.write_all(&frame)
    }
}

fn size(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn short(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

fn ethernet(from: Sender) -> [u8; 14] {
    let address = |end: Sender| [2, 0, 0, 0, 0, 1 + end as u8];
    let mut header = [0; 14];
    header[..6].copy_from_slice(&address(from.other()));
    header[6..12].copy_from_slice(&address(from));
    header[12] = 8;
    header
}

fn ipv4(from: Sender, protocol: u8, payload: usize) -> [u8; 20] {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&short(20 + payload).to_be_bytes());
    header[6] = 0x40;
    (header[8], header[9]) = (64, protocol);
    header[12..16].copy_from_slice(&[192, 0, 2, 1 + from as u8]);
    header[16..20].copy_from_slice(&[192, 0, 2, 1 + from.other() as u8]);
    let words = header
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!short(sum as usize)).to_be_bytes());
    header
}

/// RoCEv2 frames.
impl CaptureWriter {
    fn roce<'m>(
        &mut self,
        number: u16,
        messages: impl Iterator<Item = (Sender, &'m [u8])>,
    ) -> io::Result<()> {
        // The queue pair of each end: client, server.
        let queue_pairs = [0x100 + 2 * u32::from(number), 0x101 + 2 * u32::from(number)];
        for (from, mad) in managers(number, queue_pairs) {
            self.transfer(from, UD_SEND_ONLY, 1, 0, &mad)?;
        }
        let mut psn = [0; 2];
        for (from, message) in messages {
            let to = queue_pairs[from.other() as usize];
            let packets = message.len().div_ceil(PATH_MTU).max(1);
            for at in 0..packets {
                let begin = at * PATH_MTU;
                let part = &message[begin..message.len().min(begin + PATH_MTU)];
                let opcode = match (at == 0, at + 1 == packets) {
                    (true, true) => SEND_ONLY,
                    (true, false) => SEND_FIRST,
                    (false, false) => SEND_MIDDLE,
                    (false, true) => SEND_LAST,
                };
                let next = &mut psn[from as usize];
                let this = *next;
                *next = (*next + 1) & 0xff_ffff;
                self.transfer(from, opcode, to, this, part)?;
            }
        }
        Ok(())
    }

    fn transfer(
        &mut self,
        from: Sender,
        opcode: u8,
        queue_pair: u32,
        psn: u32,
        payload: &[u8],
    ) -> io::Result<()> {
        let padding = payload.len().next_multiple_of(4) - payload.len();
        let mut packet = Vec::new();
        packet.extend_from_slice(&(0xc000 + (short(queue_pair as usize) & 0xfff)).to_be_bytes());
        packet.extend_from_slice(&PORT.to_be_bytes());
        packet.extend_from_slice(&short(8 + 12 + payload.len() + padding + 4).to_be_bytes());
        // There is no UDP checksum, since the packet has an ICRC.
        packet.extend_from_slice(&[0, 0]);
        packet.extend_from_slice(&[opcode, u8::try_from(padding).unwrap_or(0) << 4, 0xff, 0xff]);
        packet.extend_from_slice(&queue_pair.to_be_bytes());
        packet.extend_from_slice(&psn.to_be_bytes());
        packet.extend_from_slice(payload);
        packet.resize(packet.len() + padding, 0);
        let icrc = icrc(&ipv4(from, 17, packet.len() + 4), &packet);
        packet.extend_from_slice(&icrc.to_le_bytes());
        self.frame(from, 17, &packet)
    }
}

/// Returns the ICRC of a packet: it covers the packet from the IP header, with all ones in the
/// fields that routers change (InfiniBand specification, annex A17).
fn icrc(ip: &[u8; 20], udp: &[u8]) -> u32 {
    let mut bytes = [&[0xff; 8], &ip[..], udp].concat();
    // Type of service, time to live and checksum of IP; checksum of UDP; the reserved byte of BTH.
    for at in [9, 16, 18, 19, 34, 35, 40] {
        bytes[at] = 0xff;
    }
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 {
                sum >> 1 ^ 0xedb8_8320
            } else {
                sum >> 1
            };
        }
    }
    !sum
}

/// Returns the request and the reply of connection managers, each after the header of its datagram.
fn managers(number: u16, [client, server]: [u32; 2]) -> [(Sender, Vec<u8>); 2] {
    let mad = |attribute: u16| {
        let mut mad = vec![0; 8 + 256];
        // The keys and the source of connection manager datagrams.
        mad[..8].copy_from_slice(&[0x80, 1, 0, 0, 0, 0, 0, 1]);
        mad[8..12].copy_from_slice(&[1, 7, 2, 3]);
        mad[16..24].copy_from_slice(&u64::from(number).to_be_bytes());
        mad[24..26].copy_from_slice(&attribute.to_be_bytes());
        mad
    };
    let ids = [0x1000, 0x2000].map(|id: u32| id + u32::from(number));
    let mut request = mad(0x10);
    request[32..36].copy_from_slice(&ids[0].to_be_bytes());
    // The service id of a TCP port (InfiniBand specification, annex A11).
    request[40..48].copy_from_slice(&[0, 0, 0, 0, 1, 6, 0, 0]);
    request[46..48].copy_from_slice(&SERVICE.to_be_bytes());
    request[64..67].copy_from_slice(&client.to_be_bytes()[1..]);
    let mut reply = mad(0x13);
    reply[32..36].copy_from_slice(&ids[1].to_be_bytes());
    reply[36..40].copy_from_slice(&ids[0].to_be_bytes());
    reply[44..47].copy_from_slice(&server.to_be_bytes()[1..]);
    [(Sender::Client, request), (Sender::Server, reply)]
}

/// The sequence numbers of one end of a TCP connection.
struct TcpEnd {
    sequence: u32,
    framer: Framer,
}

/// iWARP frames.
impl CaptureWriter {
    fn iwarp<'m>(
        &mut self,
        number: u16,
        messages: impl Iterator<Item = (Sender, &'m [u8])>,
    ) -> io::Result<()> {
        let end = |sequence| TcpEnd {
            sequence,
            framer: Framer::new(SEGMENT, true, false, false),
        };
        let mut ends = [end(1000), end(5000)];
        let port = 40_000 + number;
        self.segment(&mut ends, port, Sender::Client, SYN, &[])?;
        self.segment(&mut ends, port, Sender::Server, SYN | ACK, &[])?;
        self.segment(&mut ends, port, Sender::Client, ACK, &[])?;
        let [request, reply] = mpa().map_err(io::Error::other)?;
        self.segment(&mut ends, port, Sender::Client, PUSH | ACK, &request)?;
        self.segment(&mut ends, port, Sender::Server, PUSH | ACK, &reply)?;
        for (from, message) in messages {
            let framed = framed(&mut ends[from as usize].framer, message);
            let framed = framed.map_err(io::Error::other)?;
            for part in framed.chunks(SEGMENT) {
                self.segment(&mut ends, port, from, PUSH | ACK, part)?;
            }
        }
        self.segment(&mut ends, port, Sender::Client, FIN | ACK, &[])?;
        self.segment(&mut ends, port, Sender::Server, FIN | ACK, &[])
    }

    fn segment(
        &mut self,
        ends: &mut [TcpEnd; 2],
        port: u16,
        from: Sender,
        flags: u8,
        payload: &[u8],
    ) -> io::Result<()> {
        let ports = [port, SERVICE];
        let acknowledged = if flags & ACK == 0 {
            0
        } else {
            ends[from.other() as usize].sequence
        };
        let this = &mut ends[from as usize];
        let mut packet = Vec::new();
        packet.extend_from_slice(&ports[from as usize].to_be_bytes());
        packet.extend_from_slice(&ports[from.other() as usize].to_be_bytes());
        packet.extend_from_slice(&this.sequence.to_be_bytes());
        packet.extend_from_slice(&acknowledged.to_be_bytes());
        packet.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend_from_slice(payload);
        let counted = u32::from(flags & (SYN | FIN) != 0);
        this.sequence = this.sequence.wrapping_add(size(payload.len()) + counted);
        self.frame(from, 6, &packet)
    }
}

/// Returns the request and the reply of an MPA setup with CRCs.
fn mpa() -> Result<[Vec<u8>; 2], rpcrdma_iwarp::SetupError> {
    let options = MpaOptions {
        crc: true,
        depths: None,
        rtr: None,
        private_data: Vec::new(),
    };
    let (_, request) = MpaInitiator::new(options.clone())?;
    let received = MpaResponder::new().receive(&request)?;
    let received = received.ok_or(rpcrdma_iwarp::SetupError::Key)?;
    let (reply, _) = received.accept(&options)?;
    Ok([request, reply])
}

/// Returns a Send as FPDUs.
fn framed(framer: &mut Framer, message: &[u8]) -> Result<Vec<u8>, rpcrdma_iwarp::PayloadTooShort> {
    let kind = OutgoingKind::Send {
        solicited: false,
        invalidate: None,
    };
    let mut outgoing = OutgoingMessage::new(0, kind, size(message.len()));
    while !framer.push_segment(&mut outgoing, &[message])? {}
    let mut bytes = Vec::new();
    for piece in framer.pieces() {
        match piece {
            FramerPiece::Owned(owned) => bytes.extend_from_slice(owned),
            FramerPiece::Payload { offset, len, .. } => {
                let begin = offset as usize;
                bytes.extend_from_slice(message.get(begin..begin + len).unwrap_or_default());
            }
        }
    }
    framer.sent(bytes.len());
    Ok(bytes)
}
