//! Moves calls to an outbox, and matches their replies, at either end.
//!
//! `push_calls` marks no call as sent: `client` and `connection` do so when `Outbox::advance`
//! reports its first written byte. They also decide about records that are no replies to open
//! calls.

use super::outbox::Outbox;
use crate::calls::Calls;
use crate::error::{CallErrorKind, Progress};
use crate::message::{ReceivedMessage, word};
use crate::protocol::MsgType;

/// The number of unwritten bytes at which no further call begins.
const MAX_OUTBOX: usize = 4 << 20;

/// Returns true if the beginning of a record is that of a message of this type.
pub(crate) fn is(record: &[u8], message_type: MsgType) -> bool {
    word(record, 1) == Some(message_type.value().cast_unsigned())
}

/// Puts as many calls as may be in flight into the outbox.
pub(crate) fn push_calls(calls: &mut Calls, outbox: &mut Outbox) {
    let mut header = Vec::new();
    while outbox.len() < MAX_OUTBOX {
        let Some((xid, request)) = calls.next() else {
            return;
        };
        header.clear();
        let pushed = request.encode(xid, &mut header).and_then(|body| {
            request.record_sent(xid, header.len());
            outbox
                .push_call(xid, &header, &body)
                .map_err(|max| CallErrorKind::CallTooLarge { max })
        });
        if let Err(kind) = pushed {
            calls.fail(xid, kind);
        }
    }
}

/// Returns the progress of a call that was not sent: it, or what is before it, may wait until the
/// peer reads.
pub(crate) fn unsent(waits_for_reader: bool) -> Progress {
    if waits_for_reader {
        Progress::NotWritten
    } else {
        Progress::Queued
    }
}

/// Ends the call whose reply is in a record. Without such a call, it returns the record's XID as an
/// error.
pub(crate) fn take_reply(calls: &mut Calls, record: Vec<u8>) -> Result<(), Option<u32>> {
    let xid = word(&record, 0).filter(|_| is(&record, MsgType::Reply));
    let completion = xid.and_then(|xid| calls.take(xid)).ok_or(xid)?;
    completion.succeed(ReceivedMessage::whole(record.into()));
    Ok(())
}
