//! Headers of DDP and RDMAP (RFC 5040, section 4; RFC 5041, section 4).
//!
//! The framer writes them, and the receiver of FPDUs reads them. Reading verifies nothing: the
//! receiver passes as many bytes as `header_len` says, and checks versions, opcode and queue, so
//! that it can report each error in a Terminate.

/// The length of a tagged DDP segment's header, with RDMAP's control byte.
pub(crate) const TAGGED_LEN: usize = 14;
/// The length of an untagged DDP segment's header.
pub(crate) const UNTAGGED_LEN: usize = 18;
/// The length of an RDMA Read Request's header.
pub(crate) const READ_REQUEST_LEN: usize = 28;

const TAGGED: u8 = 0x80;
const LAST: u8 = 0x40;

/// RDMAP's opcodes (RFC 5040, section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RdmapOpcode {
    /// RDMA Write.
    Write = 0,
    /// RDMA Read Request.
    ReadRequest = 1,
    /// RDMA Read Response.
    ReadResponse = 2,
    /// Send.
    Send = 3,
    /// Send with Invalidate.
    SendInvalidate = 4,
    /// Send with Solicited Event.
    SendSolicited = 5,
    /// Send with Solicited Event and Invalidate.
    SendSolicitedInvalidate = 6,
    /// Terminate.
    Terminate = 7,
}

impl RdmapOpcode {
    /// Returns the opcode in RDMAP's control byte (the second byte of a segment), unless it is
    /// reserved.
    pub fn from_control(control: u8) -> Option<Self> {
        Some(match control & 15 {
            0 => Self::Write,
            1 => Self::ReadRequest,
            2 => Self::ReadResponse,
            3 => Self::Send,
            4 => Self::SendInvalidate,
            5 => Self::SendSolicited,
            6 => Self::SendSolicitedInvalidate,
            7 => Self::Terminate,
            _ => return None,
        })
    }

    /// Returns the queue of messages with this opcode; `None` if they are tagged.
    pub(crate) fn queue(self) -> Option<u32> {
        match self {
            Self::Write | Self::ReadResponse => None,
            Self::ReadRequest => Some(1),
            Self::Terminate => Some(2),
            _ => Some(0),
        }
    }

    /// Returns true if the message names an STag to invalidate.
    pub(crate) fn invalidates(self) -> bool {
        matches!(self, Self::SendInvalidate | Self::SendSolicitedInvalidate)
    }
}

/// Returns the length of the header that begins with the DDP control byte `control`.
pub(crate) const fn header_len(control: u8) -> usize {
    if control & TAGGED != 0 {
        TAGGED_LEN
    } else {
        UNTAGGED_LEN
    }
}

/// The destination of a segment, from its header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Address {
    Tagged {
        stag: u32,
        offset: u64,
    },
    Untagged {
        stag: u32,
        queue: u32,
        msn: u32,
        mo: u32,
    },
}

/// The header of a segment. Only its length is verified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) ddp_version: u8,
    pub(crate) rdmap_version: u8,
    pub(crate) opcode: Option<RdmapOpcode>,
    pub(crate) last: bool,
    pub(crate) address: Address,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

impl Header {
    /// Reads a header of `header_len(bytes[0])` bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        // rfc: 5040-4.1-i, 5041-4.1-h
        let address = if bytes[0] & TAGGED != 0 {
            Address::Tagged {
                stag: u32_at(bytes, 2),
                offset: u64_at(bytes, 6),
            }
        } else {
            Address::Untagged {
                stag: u32_at(bytes, 2),
                queue: u32_at(bytes, 6),
                msn: u32_at(bytes, 10),
                mo: u32_at(bytes, 14),
            }
        };
        Self {
            ddp_version: bytes[0] & 3,
            rdmap_version: bytes[1] >> 6,
            opcode: RdmapOpcode::from_control(bytes[1]),
            last: bytes[0] & LAST != 0,
            address,
        }
    }

    /// Returns the bytes of a header, and their number.
    pub(crate) fn encode(
        opcode: RdmapOpcode,
        last: bool,
        address: Address,
    ) -> ([u8; UNTAGGED_LEN], usize) {
        // rfc: 5040-4.1-a, 5040-4.1-b, 5040-4.1-h, 5041-4.1-i, 5041-4.1-j, 5041-4.2-a, 5041-4.3-a
        let mut bytes = [0; UNTAGGED_LEN];
        bytes[0] = 1 | if last { LAST } else { 0 };
        bytes[1] = 0x40 | opcode as u8;
        match address {
            Address::Tagged { stag, offset } => {
                bytes[0] |= TAGGED;
                bytes[2..6].copy_from_slice(&stag.to_be_bytes());
                bytes[6..14].copy_from_slice(&offset.to_be_bytes());
            }
            Address::Untagged {
                stag,
                queue,
                msn,
                mo,
            } => {
                for (at, value) in [(2, stag), (6, queue), (10, msn), (14, mo)] {
                    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
                }
            }
        }
        (bytes, header_len(bytes[0]))
    }
}

/// The header of an RDMA Read Request (RFC 5040, section 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadRequestHeader {
    /// The STag of the requester's memory.
    pub sink_stag: u32,
    /// The tagged offset in the requester's memory, in bytes.
    pub sink_offset: u64,
    /// The length in bytes.
    pub len: u32,
    /// The STag of the responder's memory.
    pub source_stag: u32,
    /// The tagged offset in the responder's memory, in bytes.
    pub source_offset: u64,
}

impl ReadRequestHeader {
    /// Returns the bytes of the header.
    pub fn encode(&self) -> [u8; READ_REQUEST_LEN] {
        // rfc: 5040-4.4-a
        let mut bytes = [0; READ_REQUEST_LEN];
        bytes[0..4].copy_from_slice(&self.sink_stag.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.sink_offset.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.len.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.source_stag.to_be_bytes());
        bytes[20..28].copy_from_slice(&self.source_offset.to_be_bytes());
        bytes
    }

    /// Reads the bytes of a header.
    pub fn decode(bytes: &[u8; READ_REQUEST_LEN]) -> Self {
        // rfc: 5040-4.4-c, 5040-4.4-d
        Self {
            sink_stag: u32_at(bytes, 0),
            sink_offset: u64_at(bytes, 4),
            len: u32_at(bytes, 12),
            source_stag: u32_at(bytes, 16),
            source_offset: u64_at(bytes, 20),
        }
    }
}
