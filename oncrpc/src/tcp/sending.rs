//! Calls that go into an outbox, and the replies to them, at either end.

use super::outbox::Outbox;
use crate::calls::Calls;
use crate::error::CallErrorKind;
use crate::message::{ReceivedMessage, word};
use crate::protocol::MsgType;

/// Bytes that are to be sent, beyond which no further call begins.
const MAX_OUTBOX: usize = 4 << 20;

/// Returns true if a record is a message of this type, as far as its beginning tells.
pub(crate) fn is(record: &[u8], message_type: MsgType) -> bool {
    word(record, 1) == Some(message_type.value().cast_unsigned())
}

/// Puts the calls that have a place into the outbox.
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

/// Ends the call whose reply a record is. If there is none, it is an error with the record's XID.
pub(crate) fn take_reply(calls: &mut Calls, record: Vec<u8>) -> Result<(), Option<u32>> {
    let xid = word(&record, 0).filter(|_| is(&record, MsgType::Reply));
    let completion = xid.and_then(|xid| calls.take(xid)).ok_or(xid)?;
    completion.succeed(ReceivedMessage::whole(record.into()));
    Ok(())
}
