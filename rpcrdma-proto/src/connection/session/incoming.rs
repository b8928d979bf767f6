//! Messages and completions that the transport reports.
//!
//! This module decides the direction of each message and which part of the session handles it.
//! `crate::header` parses a message, and `errors` handles a message that breaks a rule. A method
//! must return `Kept` exactly if an action or an event refers to the buffer, or a waiting group
//! holds the buffer: the transport reposts only free buffers. The short path of
//! `received_in_segments` skips the checks of invalidation and of rtrext-02, so a message to which
//! either applies must not take it.

use core::ops::Range;

use super::operations::OptionalMessage;
use super::{BufferDisposition, Session};
use crate::chunk::Segment;
use crate::connection::config::Role;
use crate::connection::output::{BufferId, CloseReason, SendOwner, ServedCallId};
use crate::connection::requester::{CallReply, ReplyOutcome, RequestKind};
use crate::connection::responder::{IncomingCall, ServeError};
use crate::connection::states::ConnState;
use crate::error::{Refusal, RefusalReason};
use crate::header::{Chunks, Header, HeaderBody};
use crate::v2::MsgType;
use crate::v2::rtr::ROPT_REPTERR;
use crate::version::Version;

impl Session {
    /// Handles the end of a Send: it no longer needs the memory of its call or reply, since it
    /// completed or the data were copied.
    ///
    /// Returns true if this completed a served call; no `CallEnded` event follows. A call whose
    /// reply is retained
    /// ([`RtrExtConfig::reply_retention`](crate::continuation::RtrExtConfig::reply_retention)) ends
    /// later.
    #[inline]
    pub fn released(&mut self, what: SendOwner) -> bool {
        let ended = match what {
            SendOwner::Call { xid } => {
                self.requester.released(xid, &mut self.output);
                false
            }
            SendOwner::Reply { call } => self.responder.released(call),
            SendOwner::Header => false,
        };
        self.close_if_drained();
        ended
    }

    /// Handles the exposure of the memory of a call: the segments of each exposure, in the order of
    /// `exposures`. If the messages have no room for so many, the memory is fenced, and the call is
    /// planned and exposed once more, for as many segments.
    pub fn exposed<'a>(&mut self, xid: u32, regions: impl IntoIterator<Item = &'a [Segment]>) {
        let ready =
            self.state == ConnState::Up && (self.config.role == Role::Client || self.peer_ready);
        let groups = self
            .extension
            .as_ref()
            .and_then(|extension| extension.calls.as_ref());
        match self
            .params
            .call_limits(&self.config, groups)
            .filter(|_| ready)
        {
            Some(link) => self
                .requester
                .exposed(xid, regions.into_iter(), &link, &mut self.output),
            None => self.requester.requeue(xid, &mut self.output),
        }
    }

    /// Handles a failure to expose the memory of a call. The call fails once the regions already
    /// exposed are fenced.
    pub fn expose_failed(&mut self, xid: u32) {
        self.requester.expose_failed(xid, &mut self.output);
    }

    /// Handles a completed fence: the peer can no longer access the memory of the call.
    pub fn fenced(&mut self, xid: u32) {
        self.requester.fenced(xid, &mut self.output);
        self.close_if_drained();
    }

    /// Handles the complete assembly of an incoming call.
    pub fn read_done(&mut self, call: ServedCallId) {
        self.responder.read_done(call, &mut self.output);
    }

    /// Handles a message in a receive buffer. `invalidated` is the key that a Send With Invalidate
    /// invalidated.
    ///
    /// No message can make this fail: a message that breaks a rule is answered with an error,
    /// dropped and counted, or closes the connection, as the drafts specify.
    // spec: bd-2-a, bd-2.4-a, bd-2.4-c, bd-2.4-d, bd-2.4-e, bd-4.1-a, bd-4.1-b, bd-4.1-c, v2-3.2-a
    // spec: v2-3.2-b, v2-3.2-c
    pub fn received(
        &mut self,
        buffer: BufferId,
        message: &[u8],
        invalidated: Option<u32>,
    ) -> BufferDisposition {
        // A receive is of 32 bits.
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        self.received_in_segments(buffer, message, length, invalidated)
    }

    /// Handles a message of `length` bytes in several segments of a receive buffer, of which only
    /// the beginning is given. A message that is no transmission of rtrext-02
    /// ([`is_fragment`](Self::is_fragment)) must be given whole.
    #[inline]
    pub fn received_in_segments(
        &mut self,
        buffer: BufferId,
        message: &[u8],
        length: u32,
        invalidated: Option<u32>,
    ) -> BufferDisposition {
        if self.state != ConnState::Up {
            return BufferDisposition::Free;
        }
        self.counters.received += 1;
        self.receives.used();
        self.apply_receive_growth();
        let highest = self.params.max_receive_version();
        match Header::plain(message, highest) {
            Some(header) if invalidated.is_none() && self.extension.is_none() => {
                let held = self.arrived(buffer, (message, length), &header, None);
                self.close_if_drained();
                held
            }
            _ => self.decode_and_handle(buffer, (message, length), highest, invalidated),
        }
    }

    /// Handles a message that is not plain.
    fn decode_and_handle(
        &mut self,
        buffer: BufferId,
        (message, length): (&[u8], u32),
        highest: Version,
        invalidated: Option<u32>,
    ) -> BufferDisposition {
        let parsed = Header::parse(message, highest);
        // Only a reply may invalidate (decision D18).
        if invalidated.is_some() && !parsed.as_ref().is_ok_and(|header| self.is_reply(header)) {
            self.close(CloseReason::Invalidated);
            return BufferDisposition::Free;
        }
        match &parsed {
            Ok(header) if self.extension.is_some() && self.interrupts(header) => {
                // The report of the group has the reason.
                self.counters.dropped += 1;
                BufferDisposition::Free
            }
            Ok(header) => {
                let held = self.arrived(buffer, (message, length), header, invalidated);
                self.close_if_drained();
                held
            }
            Err(refusal) => {
                if self.extension.is_some() {
                    self.interrupted_by(refusal, message);
                }
                self.refuse(*refusal);
                BufferDisposition::Free
            }
        }
    }

    /// Returns whether an RPC message is a reply. A long message of Version One does not tell its
    /// direction. With a Read list it is a call, since replies have none. Without a Read list it is
    /// a reply if a client receives it, or if it has the XID of a call that was sent (decision
    /// D12).
    // spec: rfc8166-4.3.1-a, bd-2.4-c
    fn is_reply(&self, header: &Header<'_>) -> bool {
        match header.body {
            HeaderBody::Message { direction, .. }
            | HeaderBody::Long {
                direction: Some(direction),
                ..
            } => direction == MsgType::Reply,
            HeaderBody::Long {
                direction: None,
                chunks,
            } => {
                chunks.reads().is_empty()
                    && (self.config.role == Role::Client || self.requester.expects(header.xid))
            }
            HeaderBody::Operation {
                direction, code, ..
            } => direction == MsgType::Reply && code != ROPT_REPTERR && self.takes_group(code),
            HeaderBody::Error(_) => false,
        }
    }

    /// Returns whether a long message of Version One with this XID must be a reply: it belongs to
    /// an open outgoing call that offered a Reply chunk, and to no incoming call, which might be a
    /// retransmission (decision D12).
    // spec: bd-4.1-e, bd-4.1-f
    fn answers_open_call(&self, xid: u32) -> bool {
        self.requester.takes_long_reply(xid) && !self.responder.is_open(xid)
    }

    /// Returns whether this beginning of a message suffices: the message is a transmission of
    /// rtrext-02, and its header is complete.
    #[must_use]
    pub fn is_fragment(&self, beginning: &[u8]) -> bool {
        let header = self
            .extension
            .as_ref()
            .and_then(|_| Header::parse(beginning, Version::Two).ok());
        let code = header.and_then(|header| {
            if let HeaderBody::Operation { code, .. } = header.body {
                Some(code)
            } else {
                None
            }
        });
        code.is_some_and(|code| self.takes_group(code))
    }

    // spec: bd-4.1-e
    // spec: rfc8166-4-b
    #[inline(always)]
    fn arrived(
        &mut self,
        buffer: BufferId,
        (message, length): (&[u8], u32),
        header: &Header<'_>,
        invalidated: Option<u32>,
    ) -> BufferDisposition {
        let Header {
            xid,
            version,
            credits,
            ..
        } = *header;
        match &header.body {
            HeaderBody::Message {
                direction: MsgType::Call,
                chunks,
                payload,
            } => {
                let inline = Some(payload_range(message, payload));
                self.call_arrived(IncomingCall {
                    xid,
                    version,
                    requested_credits: credits,
                    buffer,
                    inline,
                    chunks: chunks.some(),
                })
            }
            HeaderBody::Message {
                direction: MsgType::Reply,
                chunks,
                payload,
            } => self.reply_arrived(
                version,
                CallReply {
                    xid,
                    grant: Some(credits),
                    chunks: chunks.some(),
                    buffer,
                    inline: payload_range(message, payload),
                    invalidated,
                },
            ),
            HeaderBody::Long { direction, chunks } => {
                let has_direction = direction.is_some();
                self.long_arrived(buffer, header, (chunks, has_direction), invalidated)
            }
            HeaderBody::Operation {
                direction,
                code,
                info,
                payload,
            } => {
                let optional = OptionalMessage {
                    xid,
                    credits,
                    direction: *direction,
                    code: *code,
                    info,
                    payload,
                };
                if self.takes_group(*code) {
                    let header = payload_range(message, payload).start;
                    return self.group_arrived(&optional, buffer, header, length, invalidated);
                }
                self.operation_arrived(&optional, buffer, message)
            }
            HeaderBody::Error(error) => {
                self.error_arrived(xid, version, *error, credits);
                BufferDisposition::Free
            }
        }
    }

    /// Processes a header whose whole message is in chunks.
    #[inline(always)]
    fn long_arrived(
        &mut self,
        buffer: BufferId,
        header: &Header<'_>,
        (chunks, has_direction): (&Chunks<'_>, bool),
        invalidated: Option<u32>,
    ) -> BufferDisposition {
        let Header {
            xid,
            version,
            credits,
            ..
        } = *header;
        let chunks = chunks.some();
        if !self.is_reply(header) {
            return self.call_arrived(IncomingCall {
                xid,
                version,
                requested_credits: credits,
                buffer,
                inline: None,
                chunks,
            });
        }
        let is_certain = has_direction || self.answers_open_call(xid);
        let reply = CallReply {
            xid,
            grant: is_certain.then_some(credits),
            chunks,
            buffer,
            inline: 0..0,
            invalidated,
        };
        self.reply_arrived(version, reply)
    }

    // spec: bd-5.3-f
    fn call_arrived(&mut self, arrival: IncomingCall<'_>) -> BufferDisposition {
        let (xid, version) = (arrival.xid, arrival.version);
        self.on_version_evidence(version);
        if self.extension.is_some() {
            self.responder.drop_retained(u64::MAX, &mut self.output);
        }
        if !self
            .params
            .accepts_call(&self.config, version, arrival.chunks.is_some())
        {
            self.refuse_call(xid, version, RefusalReason::NotAccepted);
            return BufferDisposition::Free;
        }
        match self.responder.arrived(&arrival, &mut self.output) {
            Ok(_) => return BufferDisposition::Kept,
            Err(ServeError::Fault(fault)) => {
                self.refuse_call(xid, version, RefusalReason::Chunks(fault));
            }
            // An error would end the call that is being served.
            Err(ServeError::DuplicateXid) => self.counters.duplicate_xid += 1,
            Err(ServeError::Overrun) => self.close(CloseReason::CreditOverrun),
        }
        BufferDisposition::Free
    }

    fn reply_arrived(&mut self, version: Version, reply: CallReply<'_>) -> BufferDisposition {
        let xid = reply.xid;
        // A reply has the version of its call (version-two-01, section 5.3). On a Version One
        // connection, replies in Version Two are not decoded.
        if version == Version::One && self.params.send_version() == Some(Version::Two) {
            return self.reply_of_other_version(&reply);
        }
        if self.params.version.is_none() && self.requester.expected(xid) == Some(RequestKind::Rpc) {
            self.on_first_version(version);
        }
        let invalidates = reply.invalidated.is_some();
        match self.requester.on_reply(reply, &mut self.output) {
            ReplyOutcome::Kept => {
                self.receives.replied();
                return BufferDisposition::Kept;
            }
            ReplyOutcome::Free => self.receives.replied(),
            ReplyOutcome::ForeignKey => self.close(CloseReason::Invalidated),
            ReplyOutcome::Unexpected => {
                self.counters.unexpected += 1;
                if invalidates {
                    self.close(CloseReason::Invalidated);
                }
            }
        }
        BufferDisposition::Free
    }

    #[cold]
    fn reply_of_other_version(&mut self, reply: &CallReply<'_>) -> BufferDisposition {
        if self.requester.expected(reply.xid) == Some(RequestKind::Rpc) {
            let (direction, reason) = (MsgType::Reply, RefusalReason::ReplyVersion);
            let refusal = Refusal::of_message(reply.xid, Version::One, direction, reason);
            self.drop_message(refusal);
        } else {
            self.counters.unexpected += 1;
        }
        if reply.invalidated.is_some() {
            self.close(CloseReason::Invalidated);
        }
        BufferDisposition::Free
    }
}

/// Returns where the payload is in a message.
fn payload_range(message: &[u8], payload: &[u8]) -> Range<u32> {
    // A receive is of 32 bits.
    let end = u32::try_from(message.len()).unwrap_or(u32::MAX);
    end.saturating_sub(u32::try_from(payload.len()).unwrap_or(u32::MAX))..end
}
