//! Writes headers of `RDMA2_OPTIONAL` messages (rpcrdma-version-two-01, section 4.2).

use crate::v2::{self, MsgType, Optional, XprtHdr};
use crate::version::Version;
use crate::xdr::Encode;

/// The header of an outgoing `RDMA2_OPTIONAL` message, without the content of its operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct OptionalHeader {
    pub(super) xid: u32,
    pub(super) credits: u32,
    pub(super) direction: MsgType,
    /// The operation: the value of `rdma_opttype`.
    pub(super) operation: u32,
}

impl OptionalHeader {
    /// Writes the header with the encoded content of the operation, and returns its length; `None`
    /// if the buffer is too small.
    pub(super) fn write(self, content: &[u8], buffer: &mut [u8]) -> Option<usize> {
        let body = v2::Body::Optional(Optional {
            optdir: self.direction,
            opttype: self.operation,
            optinfo: content,
        });
        XprtHdr {
            xid: self.xid,
            vers: Version::Two.number(),
            credit: self.credits,
            body,
        }
        .encode_to_slice(buffer)
        .ok()
    }

    /// Works as [`write`](Self::write), and encodes the content; `None` also if it has more than
    /// `MAX` bytes.
    pub(super) fn write_encoded<const MAX: usize>(
        self,
        content: &impl Encode,
        buffer: &mut [u8],
    ) -> Option<usize> {
        let mut encoded = [0; MAX];
        let length = content.encode_to_slice(&mut encoded).ok()?;
        self.write(encoded.get(..length)?, buffer)
    }
}
