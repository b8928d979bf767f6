//! Writes headers of rtrext-02 (section 9).
//!
//! The content of an operation has at most `MAX_INFO` bytes. `transfer::headers` computes the
//! lengths that the headers must have; the plan of a message relies on them.

use crate::connection::optional_header::OptionalHeader;
use crate::transfer::headers::MAX_INFO;
use crate::v2::MsgType;
use crate::v2::rtr::{Cont, ROPT_XMTCONT};
use crate::xdr::Encode;

/// Writes the header of an operation; `None` if the buffer is too small.
// spec: rtr-9.1-c
pub(in crate::connection) fn write(
    buffer: &mut [u8],
    xid: u32,
    credits: u32,
    (operation, direction): (u32, MsgType),
    content: &impl Encode,
) -> Option<usize> {
    let header = OptionalHeader {
        xid,
        credits,
        direction,
        operation,
    };
    header.write_encoded::<MAX_INFO>(content, buffer)
}

/// Writes the header of a transmission that continues a message.
// spec: rtr-9.1-g, rtr-9.4-a, rtr-9.4-b, rtr-9.4-d
pub(in crate::connection) fn write_more(
    buffer: &mut [u8],
    xid: u32,
    credits: u32,
    direction: MsgType,
    more: Cont,
) -> Option<usize> {
    write(buffer, xid, credits, (ROPT_XMTCONT, direction), &more)
}
