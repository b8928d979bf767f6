//! The CRC32c of FPDUs (RFC 5044, section 4.4). `framer` computes it, and `fpdu_receiver`
//! verifies it: of an FPDU that arrives in several inputs, piece by piece.

use crate::padding;

/// Extends a CRC32c by `bytes`.
pub(crate) fn crc(sum: u32, bytes: &[u8]) -> u32 {
    // rfc: 5041-3-g, 5044-4.4-a, 5044-4.4-j
    crc32c::crc32c_append(sum, bytes)
}

/// The verification of an FPDU's CRC.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CrcCheck {
    /// It is verified, or not used.
    Done,
    /// It is wrong.
    Failed,
    /// The sum of the bytes so far.
    Sum(u32),
}

impl CrcCheck {
    /// Begins an FPDU, and verifies its CRC if `input` has all of it.
    pub(crate) fn begin(input: &[u8]) -> Self {
        match whole_fpdu(input) {
            None => Self::Sum(0),
            Some((bytes, sum)) if crc(0, bytes).to_le_bytes() == sum => Self::Done,
            Some(_) => Self::Failed,
        }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if let Self::Sum(sum) = self {
            *sum = crc(*sum, bytes);
        }
    }

    /// Verifies the CRC behind the padding.
    pub(crate) fn is_right(self, padding: &[u8], received: &[u8]) -> bool {
        match self {
            Self::Done => true,
            Self::Failed => false,
            Self::Sum(sum) => crc(sum, padding).to_le_bytes() == received,
        }
    }
}

/// Returns the first FPDU, and its CRC, if `input` has all of it.
fn whole_fpdu(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let ulpdu = usize::from(u16::from_be_bytes(*input.first_chunk()?));
    let len = 2 + ulpdu + padding(ulpdu);
    input.get(..len + 4)?.split_at_checked(len)
}
