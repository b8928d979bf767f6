//! Moves calls and replies to an outbox, and matches calls with their replies, at either end.
//!
//! `push_calls` marks no call as sent: `client` and `connection` do so when `Outbox::advance`
//! reports its first written byte. They also decide about records that are no replies to open
//! calls. What is too long for a record fails its own call alone: `push_calls` does not send such a
//! call, `push_reply` sends SYSTEM_ERR, `refuse` answers a call that was discarded, and
//! `take_reply` ends the call whose reply was discarded.

use xdrgen_runtime::{Decoder, Limits};

use super::outbox::Outbox;
use super::record::Record;
use crate::calls::Calls;
use crate::channel::Submission;
use crate::error::{CallErrorKind, Execution, Progress};
use crate::header::{ReplyStatus, decode_reply};
use crate::message::{Body, OutgoingReply, ReceivedMessage, word};
use crate::protocol::MsgType;
use crate::service::Peer;

/// The number of unwritten bytes at which no further call begins.
const MAX_OUTBOX: usize = 4 << 20;

/// Puts as many calls as may be in flight into the outbox. A call of more than `max` bytes fails.
pub(crate) fn push_calls(calls: &mut Calls, outbox: &mut Outbox, max: usize) {
    let mut header = Vec::new();
    while outbox.len() < MAX_OUTBOX {
        let Some((xid, request)) = calls.next() else {
            return;
        };
        header.clear();
        let pushed = request.encode(xid, &mut header).and_then(|body| {
            let too_large = |max| CallErrorKind::CallTooLarge { max };
            if header.len() + body.len() > max {
                return Err(too_large(max as u64));
            }
            request.record_sent(xid, header.len());
            outbox.push_call(xid, &header, &body).map_err(too_large)
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

/// Puts a reply into the outbox. If it is too long for a record, its call fails.
pub(crate) fn push_reply(outbox: &mut Outbox, peer: &Peer, xid: u32, reply: &OutgoingReply) {
    if let Err(max) = outbox.push_reply(&reply.header, &reply.body) {
        tracing::warn!(%peer, xid, max, "a reply is too long");
        push_status(outbox, xid, ReplyStatus::SystemError);
    }
}

/// Answers a call that is longer than `max` bytes. `head` is its beginning.
pub(crate) fn refuse(outbox: &mut Outbox, peer: &Peer, head: &[u8], max: usize) {
    if let Some(xid) = word(head, 0) {
        tracing::info!(%peer, xid, max, "call refused: it is too long");
        push_status(outbox, xid, ReplyStatus::GarbageArgs);
    }
}

/// Puts a reply without results into the outbox.
fn push_status(outbox: &mut Outbox, xid: u32, status: ReplyStatus) {
    let mut header = Vec::new();
    status.encode(xid, &mut header);
    // A header fits every record.
    let _ = outbox.push_reply(&header, &Body::new());
}

/// Ends the call that a record answers: with the reply, or because that is longer than `max` bytes.
/// Without such a call, it returns the record's XID as an error.
pub(crate) fn take_reply(calls: &mut Calls, record: Record, max: usize) -> Result<(), Option<u32>> {
    let xid = word(record.kept(), 0).filter(|_| record.is(MsgType::Reply));
    let call = xid.and_then(|xid| calls.take(xid)).ok_or(xid)?;
    match record {
        Record::Whole(reply) => call.succeed(ReceivedMessage::whole(reply.into())),
        Record::TooLong(head) => {
            let execution = execution(&call, &head);
            let max = max as u64;
            call.fail(CallErrorKind::ReplyTooLarge { max }, execution);
        }
    }
    Ok(())
}

/// Returns whether a call was executed, by the beginning of its reply.
fn execution(call: &Submission, head: &[u8]) -> Execution {
    // Without the results, a security flavor cannot tell whether the reply is the server's.
    if call.request().security.is_some() {
        return Execution::Unknown;
    }
    let status =
        Decoder::with_limits(head, &Limits::DEFAULT).and_then(|mut d| decode_reply(&mut d));
    match status {
        Ok(ReplyStatus::Success) => Execution::Executed,
        _ => Execution::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::BackwardError;
    use crate::xdr::{Item, SharedBytes, Sink as _};

    /// No record of one fragment has 2 GiB. The caller gets an answer all the same.
    #[test]
    fn a_reply_that_no_record_can_carry_is_a_system_error() {
        let peer = Peer {
            address: None,
            transport: "tcp",
            memory: None,
            caller: Err(BackwardError::Transport),
            status: None,
        };
        let mut reply = OutgoingReply::default();
        ReplyStatus::Success.encode(7, &mut reply.header);
        let item = Item::from(SharedBytes::from(vec![0; 64 << 20]));
        for _ in 0..33 {
            let item = |sink: &mut crate::BodyEncoder<'_>| sink.item(&item, u32::MAX);
            reply.body.encode_with(item).unwrap();
        }
        let mut outbox = Outbox::default();
        push_reply(&mut outbox, &peer, 7, &reply);
        let mut sent = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let written = runtime.unwrap().block_on(outbox.write(&mut sent)).unwrap();
        // SYSTEM_ERR (RFC 5531, section 9).
        let expected = [1 << 31 | 24, 7, 1, 0, 0, 0, 5].map(u32::to_be_bytes);
        assert_eq!((written, sent), (28, expected.concat()));
        assert_eq!(outbox.replies(), 1);
    }
}
