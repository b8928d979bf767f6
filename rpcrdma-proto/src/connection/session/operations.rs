//! Operations of Version Two: properties, and those that the consumer has registered.
//!
//! This module checks the direction and the payload of an operation, and applies the effect to the
//! receives and the events. `exchange` owns the requests in progress and decides requested changes.
//! `incoming` passes transmissions of rtrext-02 to `groups` instead. A ROPT_REQPROP takes a credit,
//! which its answer returns; `properties_arrived` returns the credit of a malformed one.

use super::{BufferDisposition, Session};
use crate::connection::config::Role;
use crate::connection::exchange::{ChangeOutcome, PropertyEvent};
use crate::connection::output::{BufferId, CloseReason, Event, ExtensionOperation};
use crate::connection::requester::RequestKind;
use crate::error::{Refusal, RefusalReason};
use crate::v2::MsgType;
use crate::v2::properties::{ROPT_REQPROP, ROPT_RESPROP};
use crate::version::Version;

/// A received operation.
pub(super) struct OptionalMessage<'a> {
    pub(super) xid: u32,
    pub(super) credits: u32,
    pub(super) direction: MsgType,
    pub(super) code: u32,
    pub(super) info: &'a [u8],
    pub(super) payload: &'a [u8],
}

impl OptionalMessage<'_> {
    /// Returns whether an RPC message with the XID of the operation follows it and has another
    /// direction. Bytes that begin otherwise are a later part of a message, which has no direction.
    // spec: v2-4.2.2-d
    fn is_contradicted(&self) -> bool {
        let Some([a, b, c, d, mtype @ ..]) = self.payload.first_chunk::<8>() else {
            return false;
        };
        [*a, *b, *c, *d] == self.xid.to_be_bytes()
            && i32::from_be_bytes(*mtype) != self.direction.value()
    }
}

impl Session {
    // spec: v2-3.1-a, v2-3.1-b, v2-3.1-d, v2-3.1-f, v2-3.2-d, v2-3.2-e, v2-4.2.1-c, xc3-4-j
    // spec: xc2-4-e, xc2-4-f
    #[cold]
    pub(super) fn operation_arrived(
        &mut self,
        optional: &OptionalMessage<'_>,
        buffer: BufferId,
        message: &[u8],
    ) -> BufferDisposition {
        // The answer to our probe settles the version. Any other message of a server settles it,
        // too.
        if optional.direction == MsgType::Reply || self.config.role == Role::Server {
            self.on_version_evidence(Version::Two);
        }
        if self.exchange.registry.is_registered(optional.code) {
            if optional.is_contradicted() {
                self.malformed(optional, RefusalReason::OperationDirection);
                return BufferDisposition::Free;
            }
            return self.deliver_operation(optional, buffer, message);
        }
        if !self.exchange.knows_operation(optional.code) {
            self.refuse_call(optional.xid, Version::Two, RefusalReason::Operation);
            return BufferDisposition::Free;
        }
        let wanted = if optional.code == ROPT_RESPROP {
            MsgType::Reply
        } else {
            MsgType::Call
        };
        if optional.direction != wanted {
            self.malformed(optional, RefusalReason::OperationDirection);
            return BufferDisposition::Free;
        }
        if !optional.payload.is_empty() {
            self.malformed(optional, RefusalReason::Payload);
            return BufferDisposition::Free;
        }
        self.properties_arrived(optional);
        self.on_capabilities();
        BufferDisposition::Free
    }

    fn properties_arrived(&mut self, optional: &OptionalMessage<'_>) {
        if optional.code == ROPT_REQPROP && self.responder.credits.on_call().is_err() {
            return self.close(CloseReason::CreditOverrun);
        }
        let (peer, local) = (self.params.peer.clone(), self.params.local);
        let posted = self.receives.size();
        match self.exchange.receive(
            optional.xid,
            optional.code,
            optional.credits,
            optional.info,
            posted,
            &mut self.params,
        ) {
            Ok(found) => {
                let is_changed = self.params.peer != peer || self.params.local != local;
                self.on_property_event(found, is_changed);
            }
            Err(error) => {
                if optional.code == ROPT_REQPROP {
                    self.responder.credits.on_dropped();
                }
                return self.malformed(optional, RefusalReason::Xdr(error));
            }
        }
        if optional.code == ROPT_RESPROP {
            match self.requester.kind(optional.xid) {
                Some(RequestKind::Properties) => {
                    self.requester.on_property_response(
                        optional.xid,
                        Some(optional.credits),
                        &mut self.output,
                    );
                }
                _ => self.counters.unexpected += 1,
            }
        }
    }

    /// Applies the effect of an operation that the exchange has handled. `is_changed` tells whether
    /// properties of either end have changed; of an answer, its own event tells that.
    fn on_property_event(&mut self, event: PropertyEvent, is_changed: bool) {
        if is_changed && !matches!(event, PropertyEvent::Answered(_)) {
            self.output.push_notice(Event::PropertiesChanged);
        }
        match event {
            PropertyEvent::Nothing => {}
            PropertyEvent::Changed(ended) => {
                if let Some(ChangeOutcome { requested, value }) = ended {
                    self.output
                        .push_event(Event::PropertyAnswered { requested, value });
                }
            }
            PropertyEvent::Lower(size) => {
                self.receives.resize(size);
                self.apply_receive_growth();
            }
            PropertyEvent::Raise(size) => {
                // A still larger size may be pending.
                if size
                    > self
                        .params
                        .local
                        .receive_buffer_size
                        .max(self.receives.size())
                {
                    self.receives.resize(size);
                    self.apply_receive_growth();
                }
            }
            PropertyEvent::Answered(ChangeOutcome { requested, value }) => self
                .output
                .push_event(Event::PropertyAnswered { requested, value }),
        }
    }

    /// Refuses an operation, or a transmission of rtrext-02, that breaks a rule (decision D15). A
    /// request for a change that it would have answered fails.
    pub(super) fn malformed(&mut self, optional: &OptionalMessage<'_>, reason: RefusalReason) {
        let (xid, direction) = (optional.xid, optional.direction);
        self.refuse(Refusal::of_message(xid, Version::Two, direction, reason));
        if direction == MsgType::Reply && self.requester.kind(xid) == Some(RequestKind::Properties)
        {
            self.requester
                .on_property_response(xid, None, &mut self.output);
            self.fail_property_request(false);
        }
    }

    /// Reports that our request for a change has failed: by an error of the peer, or without an
    /// answer that is valid.
    pub(super) fn fail_property_request(&mut self, by_error: bool) {
        if let Some(ChangeOutcome { requested, value }) =
            self.exchange.request_failed(by_error, &mut self.params)
        {
            self.output
                .push_event(Event::PropertyAnswered { requested, value });
        }
    }

    /// Delivers an operation that the consumer has registered.
    fn deliver_operation(
        &mut self,
        optional: &OptionalMessage<'_>,
        buffer: BufferId,
        message: &[u8],
    ) -> BufferDisposition {
        let end = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let payload = end.saturating_sub(u32::try_from(optional.payload.len()).unwrap_or(u32::MAX));
        // The operation's own bytes are padded to four.
        let length = u32::try_from(optional.info.len()).unwrap_or(u32::MAX);
        let info = payload.saturating_sub(length.next_multiple_of(4));
        let operation = ExtensionOperation {
            xid: optional.xid,
            code: optional.code,
            is_call: optional.direction == MsgType::Call,
            buffer,
            info: info..info.saturating_add(length),
            payload: payload..end,
        };
        if self.output.push_notice(Event::Operation { operation }) {
            BufferDisposition::Kept
        } else {
            self.drop_message(Refusal::of_message(
                optional.xid,
                Version::Two,
                optional.direction,
                RefusalReason::TooManyEvents,
            ));
            BufferDisposition::Free
        }
    }
}
