//! Writes headers of rtrext-02.

use crate::transfer::headers::MAX_INFO;
use crate::v2::rtr::{Cont, ROPT_XMTCONT};
use crate::v2::{self, MsgType, Optional, XprtHdr};
use crate::version::Version;
use crate::xdr::Encode;

/// Writes the header of an operation; `None` if the buffer is too small.
// spec: rtr-9.1-c
pub(in crate::connection) fn write(
    buffer: &mut [u8],
    xid: u32,
    credit: u32,
    operation: (u32, MsgType),
    info: &impl Encode,
) -> Option<usize> {
    let mut place = [0; MAX_INFO];
    let bytes = info.encode_to_slice(&mut place).ok()?;
    let (opttype, optdir) = operation;
    let body = v2::Body::Optional(Optional {
        optdir,
        opttype,
        optinfo: place.get(..bytes)?,
    });
    XprtHdr {
        xid,
        vers: Version::Two.number(),
        credit,
        body,
    }
    .encode_to_slice(buffer)
    .ok()
}

/// Writes the header of a transmission that continues a message.
// spec: rtr-9.1-g, rtr-9.4-a, rtr-9.4-b, rtr-9.4-d
pub(in crate::connection) fn write_more(
    buffer: &mut [u8],
    xid: u32,
    credit: u32,
    direction: MsgType,
    more: Cont,
) -> Option<usize> {
    write(buffer, xid, credit, (ROPT_XMTCONT, direction), &more)
}
