//! The Terminate Message (RFC 5040, section 4.8).
//!
//! `fpdu_receiver`, `mpa` and the iWARP provider select the codes; `of_segment` decides which
//! headers a Terminate carries. `tests/codes.rs` compares [`TerminateCode::ALL`] with the tables of
//! the RFCs, in their order. `stream` recognizes an error of MPA by its layer.

use crate::segment::{READ_REQUEST_LEN, UNTAGGED_LEN, header_len};
use crate::{ReadRequestHeader, StagError};

/// The layer, error type and error code of a Terminate (RFC 5040, section 4.8).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TerminateCode {
    /// The layer: 0 is RDMAP, 1 is DDP, 2 is MPA. Four bits.
    pub layer: u8,
    /// The type of the error within its layer. Four bits.
    pub error_type: u8,
    /// The code of the error within its type.
    pub code: u8,
}

macro_rules! codes {
    ($($name:ident = $layer:literal, $error_type:literal, $code:literal, $doc:literal;)*) => {
        impl TerminateCode {
            /// The codes of RFC 5040, 5041, 5044 and 6581.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            $(#[doc = $doc]
            pub const $name: Self = Self { layer: $layer, error_type: $error_type, code: $code };)*
        }
    };
}

codes! {
    RDMAP_LOCAL_CATASTROPHIC = 0, 0, 0, "RDMAP: a local error.";
    RDMAP_INVALID_STAG = 0, 1, 0, "RDMAP: invalid STag.";
    RDMAP_BOUNDS = 0, 1, 1, "RDMAP: base or bounds violation.";
    RDMAP_ACCESS = 0, 1, 2, "RDMAP: access rights violation.";
    RDMAP_STAG_OF_OTHER_STREAM = 0, 1, 3, "RDMAP: the STag is not associated with the stream.";
    RDMAP_TO_WRAP = 0, 1, 4, "RDMAP: the tagged offset wraps.";
    RDMAP_CANNOT_INVALIDATE = 0, 1, 9, "RDMAP, protection: the STag cannot be invalidated.";
    RDMAP_PROTECTION_UNSPECIFIED = 0, 1, 0xff, "RDMAP: another protection error.";
    RDMAP_VERSION = 0, 2, 5, "RDMAP: invalid version.";
    RDMAP_OPCODE = 0, 2, 6, "RDMAP: unexpected opcode.";
    RDMAP_STREAM_CATASTROPHIC = 0, 2, 7, "RDMAP: catastrophic error of the stream.";
    RDMAP_GLOBAL_CATASTROPHIC = 0, 2, 8, "RDMAP: catastrophic error, global.";
    RDMAP_OPERATION_CANNOT_INVALIDATE = 0, 2, 9,
        "RDMAP, operation: the STag cannot be invalidated.";
    RDMAP_UNSPECIFIED = 0, 2, 0xff, "RDMAP: another operation error.";
    DDP_LOCAL_CATASTROPHIC = 1, 0, 0, "DDP: a local error.";
    DDP_INVALID_STAG = 1, 1, 0, "DDP, tagged: invalid STag.";
    DDP_BOUNDS = 1, 1, 1, "DDP, tagged: base or bounds violation.";
    DDP_STAG_OF_OTHER_STREAM = 1, 1, 2, "DDP, tagged: the STag is not associated with the stream.";
    DDP_TO_WRAP = 1, 1, 3, "DDP, tagged: the tagged offset wraps.";
    DDP_TAGGED_VERSION = 1, 1, 4, "DDP, tagged: invalid version.";
    DDP_QUEUE = 1, 2, 1, "DDP, untagged: invalid queue number.";
    DDP_NO_BUFFER = 1, 2, 2, "DDP, untagged: no buffer for the message sequence number.";
    DDP_MSN = 1, 2, 3, "DDP, untagged: the message sequence number is out of range.";
    DDP_MO = 1, 2, 4, "DDP, untagged: invalid message offset.";
    DDP_TOO_LONG = 1, 2, 5, "DDP, untagged: the message exceeds its buffer.";
    DDP_UNTAGGED_VERSION = 1, 2, 6, "DDP, untagged: invalid version.";
    MPA_CLOSED = 2, 0, 1, "MPA: the TCP connection was closed or lost.";
    MPA_CRC = 2, 0, 2, "MPA: the CRC does not match.";
    MPA_MARKER = 2, 0, 3, "MPA: a marker does not agree with the length.";
    MPA_INVALID_FRAME = 2, 0, 4, "MPA: invalid request or reply frame.";
    MPA_LOCAL_CATASTROPHIC = 2, 0, 5, "MPA: a local error.";
    MPA_INSUFFICIENT_IRD = 2, 0, 6, "MPA: insufficient IRD resources.";
    MPA_NO_RTR = 2, 0, 7, "MPA: no matching ready-to-receive option.";
}

impl TerminateCode {
    /// Returns the code for memory that the peer may not read.
    pub(crate) const fn of_read(error: StagError) -> Self {
        match error {
            StagError::Invalid => Self::RDMAP_INVALID_STAG,
            StagError::Bounds => Self::RDMAP_BOUNDS,
            StagError::OtherStream => Self::RDMAP_STAG_OF_OTHER_STREAM,
            StagError::Wrap => Self::RDMAP_TO_WRAP,
            StagError::Access => Self::RDMAP_ACCESS,
        }
    }
}

/// A Terminate Message: the error, and the headers of the message that caused it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terminate {
    /// The error.
    pub code: TerminateCode,
    /// The length in bytes of the segment that caused the error, and its DDP header of 14 or 18
    /// bytes.
    pub segment: Option<(u16, Vec<u8>)>,
    /// The header of the RDMA Read Request that caused the error.
    pub read_request: Option<[u8; READ_REQUEST_LEN]>,
}

impl Terminate {
    /// Returns a Terminate without headers.
    pub const fn new(code: TerminateCode) -> Self {
        Self {
            code,
            segment: None,
            read_request: None,
        }
    }

    /// Returns the Terminate for an incoming segment, with the headers that RFC 5040, figure 10,
    /// requires.
    pub(crate) fn of_segment(code: TerminateCode, len: usize, header: &[u8]) -> Self {
        // rfc: 5040-4.8-d, 5040-4.8-e, 5040-4.8-f, 5040-4.8-h, 5040-4.8-i, 5040-4.8-j, 5040-4.8-k
        // rfc: 5041-7.1-h, 5041-7.2-a
        let included =
            matches!((code.layer, code.error_type), (0, 1 | 2) | (1, _)) && !header.is_empty();
        let segment = u16::try_from(len).ok().filter(|_| included);
        Self {
            segment: segment.map(|len| (len, header.to_vec())),
            ..Self::new(code)
        }
    }

    /// Returns the Terminate for an RDMA Read of the peer whose memory has ended, with the DDP
    /// header of its request. `sent` bytes of its response precede the Terminate.
    pub(crate) fn of_ended_read(
        error: StagError,
        header: &[u8; UNTAGGED_LEN],
        request: &ReadRequestHeader,
        sent: u32,
    ) -> Self {
        // rfc: 5040-4.8-c, 5040-4.8-d, 5040-4.8-e, 5040-4.8-f, 5040-4.8-i, 5040-4.8-j, 5040-4.8-k
        let len = UNTAGGED_LEN + READ_REQUEST_LEN;
        let rest = ReadRequestHeader {
            sink_offset: request.sink_offset.wrapping_add(sent.into()),
            len: request.len.saturating_sub(sent),
            source_offset: request.source_offset.wrapping_add(sent.into()),
            ..*request
        };
        Self {
            read_request: Some(rest.encode()),
            ..Self::of_segment(TerminateCode::of_read(error), len, header)
        }
    }

    /// Returns the Terminate Header, 4 to 52 bytes.
    pub fn encode(&self) -> Vec<u8> {
        // rfc: 5040-4.8-a, 5040-4.8-b, 5040-4.8-c, 5040-4.8-d, 5040-4.8-e, 5040-4.8-f, 5040-4.8-g
        // rfc: 5040-4.8-h, 5040-4.8-i, 5040-4.8-j, 5040-4.8-k
        let control = if self.segment.is_some() { 0xc0 } else { 0 }
            | if self.read_request.is_some() { 0x20 } else { 0 };
        let code = self.code;
        let mut bytes = vec![
            code.layer << 4 | code.error_type & 15,
            code.code,
            control,
            0,
        ];
        if let Some((len, header)) = &self.segment {
            bytes.extend(len.to_be_bytes());
            bytes.extend(header);
        }
        bytes.extend(self.read_request.iter().flatten());
        bytes
    }

    /// Parses a Terminate Header. Truncated headers are omitted: Linux's siw sets wrong control
    /// bits. Returns `None` if the error code is missing.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let &[kind, code, control, _, ref rest @ ..] = bytes else {
            return None;
        };
        let code = TerminateCode {
            layer: kind >> 4,
            error_type: kind & 15,
            code,
        };
        let mut terminate = Self::new(code);
        let mut rest = rest;
        if control & 0x40 != 0 && rest.len() >= 3 {
            let (len, after) = rest.split_at(2);
            let size = header_len(after[0]);
            if let Some((header, after)) = after.split_at_checked(size) {
                terminate.segment = Some((u16::from_be_bytes([len[0], len[1]]), header.to_vec()));
                rest = after;
            }
        }
        if control & 0x20 != 0 {
            terminate.read_request = rest.first_chunk().copied();
        }
        Some(terminate)
    }
}
