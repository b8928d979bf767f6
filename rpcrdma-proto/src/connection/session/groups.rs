//! Messages in transmissions of rtrext-02: receiving, sending and error reports (decisions D19 to
//! D28 of `spec/README.md`).
//!
//! `connection::rtr::reassembly` checks and collects transmissions. This module applies the outcome
//! to credits, receive buffers and reports. Each transmission of a request takes a credit on
//! arrival. A path that does not serve the request must return the credits of all its transmissions
//! (`drop_all`), and free the kept buffers (`free_abandoned`) before the next transmission arrives,
//! which clears the list of buffers.

use alloc::boxed::Box;

use super::operations::OptionalMessage;
use super::{BufferDisposition, Session};
use crate::chunk::ChunkLimits;
use crate::connection::output::{
    Action, BufferId, CallFailure, CloseReason, Event, PayloadPiece, SendOwner, Transmit,
};
use crate::connection::requester::RequestKind;
use crate::connection::responder::ReassembledCallError;
use crate::connection::rtr::extension::RtrExtension;
use crate::connection::rtr::headers::write as write_header;
use crate::connection::rtr::reassembly::{
    Fragment, FragmentError, FragmentLimits, IncomingGroup, RDMA2_OPTIONAL, between, opener_of,
};
use crate::continuation::{
    GroupError, GroupErrorReport, Mismatch, OperationSet, ReassembledMessage, TransmissionId,
};
use crate::error::{Refusal, RefusalReason};
use crate::header::{Header, HeaderBody};
use crate::v2::MsgType;
use crate::v2::rtr::{
    Cont, OptreptErr, ROPT_REPTERR, ROPT_XMTCONT, ROPT_XMTREQ, ROPT_XMTRESP, Req, Resp,
};
use crate::version::Version;
use crate::xdr::Decode;

/// The offsets in bytes of the type in a header, and of the code in the header of an operation.
const PROCEDURE: usize = 12;
const OPERATION_CODE: usize = 20;

/// A decoded transmission.
enum GroupMessage<'a> {
    Request(Req<'a>),
    Reply(Resp<'a>),
    Continuation(Cont),
    ErrorReport(OptreptErr),
}

/// Returns the direction that an operation must have; `None` if both are allowed.
const fn direction_of(code: u32) -> Option<MsgType> {
    match code {
        ROPT_XMTREQ => Some(MsgType::Call),
        ROPT_XMTRESP => Some(MsgType::Reply),
        _ => None,
    }
}

/// Returns the refusal of a transmission.
const fn refusal_of(bad: TransmissionId, reason: RefusalReason) -> Refusal {
    Refusal::of_message(bad.xid, Version::Two, bad.direction, reason)
}

impl Session {
    /// Returns whether an operation of rtrext-02 is accepted.
    // spec: rtr-5.4-g, rtr-9.1-a, rtr-9.4-c
    pub(super) fn takes_group(&self, code: u32) -> bool {
        let Some(extension) = &self.extension else {
            return false;
        };
        let wanted = match code {
            ROPT_XMTREQ => OperationSet::REQUESTS,
            ROPT_XMTRESP => OperationSet::RESPONSES,
            ROPT_XMTCONT => OperationSet::CONTINUATIONS,
            // An end that sends groups must accept reports.
            ROPT_REPTERR => OperationSet::NONE,
            _ => return false,
        };
        extension.settings.operations.contains(wanted)
    }

    /// Handles an operation of rtrext-02.
    pub(super) fn group_arrived(
        &mut self,
        optional: &OptionalMessage<'_>,
        buffer: BufferId,
        header: u32,
        length: u32,
        invalidated: Option<u32>,
    ) -> BufferDisposition {
        let decoded = match decode(optional) {
            Ok(decoded) => decoded,
            Err(reason) => {
                self.undecodable(optional, reason);
                if invalidated.is_some() {
                    self.close(CloseReason::Invalidated);
                }
                return BufferDisposition::Free;
            }
        };
        if self.exceeds_limits(&decoded) {
            self.refuse_call(optional.xid, Version::Two, RefusalReason::Operation);
            return BufferDisposition::Free;
        }
        if optional.direction == MsgType::Call
            && !matches!(decoded, GroupMessage::ErrorReport(_))
            && self.consume_credit().is_err()
        {
            self.close(CloseReason::CreditOverrun);
            return BufferDisposition::Free;
        }
        let fragment = Fragment {
            xid: optional.xid,
            credits: optional.credits,
            direction: optional.direction,
            buffer,
            header,
            length,
            shown: optional.payload,
            invalidated,
        };
        match decoded {
            GroupMessage::ErrorReport(report) => {
                let grant = (optional.direction == MsgType::Reply).then_some(optional.credits);
                self.on_error_report(report.into(), grant);
                BufferDisposition::Free
            }
            decoded => self.transmission(&fragment, &decoded),
        }
    }

    /// Returns whether a request begins a group whose continuations are not accepted (decision
    /// D24).
    // spec: rtr-5.1-b, rtr-9.4-c
    fn exceeds_limits(&self, part: &GroupMessage<'_>) -> bool {
        let GroupMessage::Request(request) = part else {
            return false;
        };
        request.count > 1 && !self.takes_group(ROPT_XMTCONT)
    }

    /// Counts a transmission of a request. Each takes a credit.
    fn consume_credit(&mut self) -> Result<(), crate::credit::CreditOverrun> {
        self.responder.credits.on_call()
    }

    fn transmission(
        &mut self,
        fragment: &Fragment<'_>,
        part: &GroupMessage<'_>,
    ) -> BufferDisposition {
        let Some(extension) = &mut self.extension else {
            return BufferDisposition::Free;
        };
        let reply_limit = self.requester.reply_limit(fragment.xid);
        let RtrExtension {
            reassembly,
            local_structure,
            settings,
            ..
        } = &mut **extension;
        let held = reassembly.held();
        // Our own directions limit a reply.
        let (limits, most) = match fragment.direction {
            MsgType::Call => (&self.config.limits, settings.request_limit),
            MsgType::Reply => (
                &ChunkLimits {
                    max_segments: u32::MAX,
                    max_bytes: u32::MAX,
                },
                reply_limit,
            ),
        };
        let bounds = FragmentLimits {
            structure: local_structure,
            max_transmissions: most,
            limits,
        };
        let lead = reassembly.waiting_for();
        let whole = match part {
            GroupMessage::Request(request) => reassembly.request(fragment, request, bounds),
            GroupMessage::Reply(reply) => reassembly.reply(fragment, reply, bounds),
            GroupMessage::Continuation(more) => reassembly.continuation(fragment, *more, bounds),
            GroupMessage::ErrorReport(_) => return BufferDisposition::Free,
        };
        match whole {
            Ok(Some(group)) => {
                let held = self.on_group_complete(group);
                self.free_abandoned(Some(fragment.buffer));
                return held;
            }
            Ok(None) if extension.waiting_for().is_some() => return BufferDisposition::Kept,
            // The transmission is skipped and its buffer is free. The group was reported to the
            // peer.
            Ok(None) => {
                self.on_fragment_rejected(fragment, 0);
            }
            Err(wrong) => {
                let number = if let GroupMessage::Continuation(more) = part {
                    more.xnum
                } else {
                    0
                };
                self.on_fragment_rejected(fragment, held);
                self.on_fragment_error(
                    wrong,
                    TransmissionId {
                        xid: fragment.xid,
                        direction: fragment.direction,
                        number,
                    },
                    lead,
                );
            }
        }
        BufferDisposition::Free
    }

    /// Returns the receives of a rejected transmission, and of the `held` transmissions of its
    /// abandoned group.
    fn on_fragment_rejected(&mut self, fragment: &Fragment<'_>, held: u32) {
        self.responder
            .credits
            .drop_all(held + u32::from(fragment.direction == MsgType::Call));
        self.free_abandoned(Some(fragment.buffer));
        if fragment.invalidated.is_some() {
            self.close(CloseReason::Invalidated);
        }
    }

    /// Frees the buffers of an abandoned group, without the buffer `last` that has just arrived.
    fn free_abandoned(&mut self, last: Option<BufferId>) {
        let Some(extension) = &mut self.extension else {
            return;
        };
        let (message, invalidated) = extension.reassembly.take_abandoned(last);
        if let Some(message) = message {
            self.output.push_action(Action::Free { message });
        }
        if invalidated {
            // The call of the invalidated key is no longer known.
            self.close(CloseReason::Invalidated);
        }
    }

    /// Handles a transmission that breaks a rule.
    // spec: rtr-5.4-d, rtr-5.4-g, rtr-6.2-aa
    fn on_fragment_error(
        &mut self,
        wrong: FragmentError,
        bad: TransmissionId,
        lead: Option<TransmissionId>,
    ) {
        match wrong {
            FragmentError::Group(why) => {
                let lead = lead
                    .filter(|lead| *lead != TransmissionId { number: 0, ..bad } || bad.number != 0);
                self.report(GroupErrorReport { bad, lead, why });
            }
            // No report describes a transmission that is invalid by itself (decision D22).
            FragmentError::Chunk(fault) if bad.direction == MsgType::Reply => {
                let reason = RefusalReason::Chunks(fault);
                self.drop_message(refusal_of(bad, reason));
                let why = CallFailure::Reply(fault);
                self.requester.reply_failed(bad.xid, why, &mut self.output);
            }
            FragmentError::Chunk(fault) => {
                self.refuse_call(bad.xid, Version::Two, RefusalReason::Chunks(fault));
            }
        }
    }

    /// Reports a broken group to the peer and to the consumer.
    fn report(&mut self, report: GroupErrorReport) {
        self.counters.refused += 1;
        // A message that interrupts a group may be processed: what is refused is the group.
        let refused = report.lead.unwrap_or(report.bad);
        self.refusal = Some(refusal_of(refused, RefusalReason::Group(report.why)));
        if let Some(extension) = &mut self.extension {
            extension.report(report);
        }
        self.output.push_notice(Event::GroupFailed {
            report,
            sent_here: false,
        });
    }

    /// Handles a complete group.
    // spec: rtr-5.4-a, rtr-9.5-c
    fn on_group_complete(&mut self, mut group: Box<IncomingGroup>) -> BufferDisposition {
        let another = self
            .extension
            .as_mut()
            .map(|extension| extension.reassembly.spare_message())
            .unwrap_or_default();
        let message = core::mem::replace(&mut group.message, another);
        let (held, unused) = match group.direction {
            MsgType::Call => self.on_request_complete(&mut group, message),
            MsgType::Reply => self.on_reply_complete(&group, message),
        };
        if let Some(extension) = &mut self.extension {
            if let Some(message) = unused {
                // The buffers of the message are not reposted yet.
                extension
                    .reassembly
                    .recycle(core::mem::replace(&mut group.message, message));
            }
            extension.reassembly.recycle_group(group);
        }
        held
    }

    /// Handles a complete request. Returns whether its buffers are kept, and its message if not.
    fn on_request_complete(
        &mut self,
        group: &mut IncomingGroup,
        message: Box<ReassembledMessage>,
    ) -> (BufferDisposition, Option<Box<ReassembledMessage>>) {
        self.on_version_evidence(Version::Two);
        self.responder.drop_retained(u64::MAX, &mut self.output);
        let offers = !message.segments.is_empty() || !group.directions.segments.is_empty();
        if !self.params.accepts_call(&self.config, Version::Two, offers) {
            self.responder.credits.drop_all(group.parts());
            self.refuse_call(group.xid, Version::Two, RefusalReason::NotAccepted);
            return (BufferDisposition::Free, Some(message));
        }
        let parts = group.parts();
        let (unserved, message) = match self.responder.reassembled(group, message, &mut self.output)
        {
            Ok(_) => return (BufferDisposition::Kept, None),
            Err(unserved) => unserved,
        };
        match unserved {
            ReassembledCallError::DuplicateXid => self.counters.duplicate_xid += 1,
            ReassembledCallError::Overrun => self.close(CloseReason::CreditOverrun),
        }
        self.responder.credits.drop_all(parts);
        (BufferDisposition::Free, Some(message))
    }

    /// Handles a complete reply. Returns whether its buffers are kept, and its message if not.
    fn on_reply_complete(
        &mut self,
        group: &IncomingGroup,
        message: Box<ReassembledMessage>,
    ) -> (BufferDisposition, Option<Box<ReassembledMessage>>) {
        if self.requester.expected(group.xid) != Some(RequestKind::Rpc) {
            self.counters.unexpected += 1;
            if group.invalidated.is_some() {
                self.close(CloseReason::Invalidated);
            }
            return (BufferDisposition::Free, Some(message));
        }
        match self.requester.reassembled(
            group.xid,
            group.credits,
            group.invalidated,
            message,
            &mut self.output,
        ) {
            Ok(()) => (BufferDisposition::Kept, None),
            Err((message, invalidates)) => {
                if invalidates {
                    self.close(CloseReason::Invalidated);
                }
                (BufferDisposition::Free, Some(message))
            }
        }
    }

    /// Handles a message that is no transmission of rtrext-02: it breaks the waiting group. Returns
    /// whether the message is dropped, since the peer learns from the report that it was bad and
    /// sends it again.
    pub(super) fn interrupts(&mut self, header: &Header<'_>) -> bool {
        if self
            .extension
            .as_ref()
            .is_none_or(|extension| extension.waiting_for().is_none())
        {
            return false;
        }
        let (procedure, operation, direction) = match header.body {
            HeaderBody::Message { direction, .. } => (0, None, direction),
            HeaderBody::Long { direction, .. } => (1, None, direction.unwrap_or(MsgType::Call)),
            HeaderBody::Error(_) => (4, None, MsgType::Reply),
            HeaderBody::Operation {
                direction, code, ..
            } => (5, Some(code), direction),
        };
        let begins = matches!(operation, None | Some(ROPT_XMTREQ)) && direction == MsgType::Call;
        let bad = TransmissionId {
            xid: header.xid,
            direction,
            number: 0,
        };
        let Some(why) = between(procedure, operation) else {
            return false;
        };
        self.abandon(bad, why);
        begins
    }

    /// Handles a message that cannot be decoded: it breaks the waiting group. Of an operation only
    /// the code may be readable, which differs from the expected one or is that of a continuation.
    // spec: rtr-9.5-e, rtr-9.5-f
    pub(super) fn interrupted_by(&mut self, refusal: &Refusal, message: &[u8]) {
        let word = |at: usize| {
            let word = message.get(at..)?.first_chunk()?;
            Some(u32::from_be_bytes(*word))
        };
        let bad = TransmissionId {
            xid: refusal.xid,
            direction: refusal.direction.unwrap_or(MsgType::Call),
            number: 0,
        };
        let procedure = word(PROCEDURE).unwrap_or_default();
        let is_operation = procedure == RDMA2_OPTIONAL;
        let has_code = is_operation && refusal.vers == Version::Two.number();
        let code = word(OPERATION_CODE).filter(|_| has_code);
        let why = if is_operation && code.is_none() {
            None
        } else {
            between(procedure, code)
        };
        match why {
            Some(why) => self.abandon(bad, why),
            None => self.abandon_unread(bad),
        }
    }

    /// Abandons the waiting group, if there is one, because of another message.
    fn abandon(&mut self, bad: TransmissionId, why: GroupError) {
        if let Some(lead) = self.abandon_group() {
            self.report(GroupErrorReport {
                bad,
                lead: Some(lead),
                why,
            });
        }
    }

    /// Abandons the waiting group, if there is one.
    fn abandon_group(&mut self) -> Option<TransmissionId> {
        let reassembly = &mut self.extension.as_mut()?.reassembly;
        let held = reassembly.held();
        let lead = reassembly.abandon()?;
        self.responder.credits.drop_all(held);
        self.free_abandoned(None);
        Some(lead)
    }

    /// Handles a transmission that cannot be decoded or contradicts itself.
    // spec: rtr-5.4-c, rtr-9.5-b
    fn undecodable(&mut self, optional: &OptionalMessage<'_>, reason: RefusalReason) {
        self.abandon_unread(TransmissionId {
            xid: optional.xid,
            direction: optional.direction,
            number: 0,
        });
        self.malformed(optional, reason);
    }

    /// Abandons the waiting group because of a transmission that cannot be decoded. If it belongs
    /// to the group, the error concerns this message alone, and no report follows: a request is
    /// answered with an error, and a reply ends its call (decision D28).
    fn abandon_unread(&mut self, bad: TransmissionId) {
        // Calls of both directions may have the same XID.
        let message = |id: TransmissionId| (id.xid, id.direction);
        let Some(lead) = self.abandon_group() else {
            return;
        };
        if message(lead) == message(bad) {
            if lead.direction == MsgType::Reply {
                let why = CallFailure::ReplyTransmission;
                self.requester.reply_failed(lead.xid, why, &mut self.output);
            }
            return;
        }
        let why = if lead.xid == bad.xid {
            GroupError::Operation(Mismatch {
                expected: opener_of(lead.direction),
                received: opener_of(bad.direction),
            })
        } else {
            GroupError::Xid(Mismatch {
                expected: lead.xid,
                received: bad.xid,
            })
        };
        self.report(GroupErrorReport {
            bad,
            lead: Some(lead),
            why,
        });
    }

    /// Handles a report of the peer about a broken group.
    // spec: rtr-5.4-i, rtr-5.4-n
    fn on_error_report(&mut self, report: GroupErrorReport, grant: Option<u32>) {
        self.output.push_notice(Event::GroupFailed {
            report,
            sent_here: true,
        });
        let threshold = self.params.send_limit(Version::Two);
        for part in [
            Some(report.bad),
            // Calls of both directions may have the same XID.
            report.lead.filter(|lead| {
                (lead.xid, lead.direction) != (report.bad.xid, report.bad.direction)
            }),
        ]
        .into_iter()
        .flatten()
        {
            let known = match part.direction {
                MsgType::Call => {
                    self.requester
                        .on_error_report(part.xid, report.why, grant, &mut self.output)
                }
                MsgType::Reply => {
                    let again = self.responder.on_error_report(part.xid, threshold);
                    if !again && !self.responder.is_open(part.xid) {
                        // The reply cannot be retransmitted, and the call must end (decision D23).
                        self.refuse_call(part.xid, Version::Two, RefusalReason::BrokenReply);
                    }
                    again
                }
            };
            self.counters.unexpected += u64::from(!known);
        }
    }

    /// Applies what the peer has announced about rtrext-02.
    // spec: rtr-2-a
    pub(super) fn on_capabilities(&mut self) {
        let Some(extension) = &mut self.extension else {
            return;
        };
        if self.params.version == Some(Version::Two)
            && self.params.peer_has_properties
            && self.params.peer_answered
        {
            let to_us = self.params.receive_limit(Version::Two);
            extension.on_capabilities(
                self.params.peer.capabilities(),
                self.params.send_limit(Version::Two),
                to_us,
            );
        }
    }

    /// Writes the next transmission of a message in progress, before any other message.
    // spec: rtr-4.2-d
    pub(super) fn transmit_more(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        self.extension.as_mut()?.sending.as_mut()?.next(buffer)
    }

    /// Writes the next report.
    // spec: rtr-9.1-h
    pub(super) fn transmit_report(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        let (report, direction) = *self.extension.as_ref()?.reports.front()?;
        let credits = match direction {
            MsgType::Call => self.requester.credits.requested(),
            MsgType::Reply => self.responder.credits.current_grant(),
        };
        let optional = OptreptErr::from(report);
        let header = write_header(
            buffer,
            report.bad.xid,
            credits,
            (ROPT_REPTERR, direction),
            &optional,
        )?;
        self.extension.as_mut()?.reports.pop_front();
        Some(Transmit::header_only(header))
    }

    /// Returns the pieces that follow the header of the message that was polled last, in order.
    pub fn payload_pieces(
        &self,
        transmit: &Transmit,
    ) -> impl Iterator<Item = PayloadPiece> + use<'_> {
        let grouped = transmit.transmission.is_some();
        let sending = self
            .extension
            .as_ref()
            .and_then(|extension| extension.sending.as_deref())
            .filter(|_| grouped);
        let plain = if grouped {
            None
        } else {
            Some(self.inline_parts(transmit.owner).map(PayloadPiece::Bytes))
        };
        plain.into_iter().flatten().chain(
            sending
                .into_iter()
                .flat_map(|sending| sending.payload_pieces()),
        )
    }

    /// Takes back the memory of a message that arrived in transmissions. Without it the next
    /// message allocates.
    pub fn recycle(&mut self, message: Box<ReassembledMessage>) {
        if let Some(extension) = &mut self.extension {
            extension.reassembly.recycle(message);
        }
    }

    /// Records that the peer does not know an operation: it is not used again on this connection.
    // spec: rtr-5.1-b
    pub(super) fn operation_unknown(&mut self, xid: u32, grant: u32) -> bool {
        let Some(extension) = &mut self.extension else {
            return false;
        };
        let Some(count) = self
            .requester
            .unknown_operation(xid, grant, &mut self.output)
        else {
            return false;
        };
        // An error about a later transmission refutes nothing further.
        let refuted = if count == 1 {
            OperationSet::REQUESTS
        } else {
            OperationSet::REQUESTS.union(OperationSet::CONTINUATIONS)
        };
        extension.mark_unsupported(refuted);
        self.on_capabilities();
        true
    }

    /// Handles the loss of the connection: a message in progress is released.
    pub(super) fn groups_lost(&mut self) {
        let Some(extension) = &mut self.extension else {
            return;
        };
        extension.reassembly.lost();
        let (message, _) = extension.reassembly.take_abandoned(None);
        self.output
            .actions
            .extend(message.map(|message| Action::Free { message }));
        let unfinished = extension
            .sending
            .take()
            .filter(|sending| !sending.is_complete());
        match unfinished.map(|sending| sending.owner) {
            Some(SendOwner::Call { xid }) => {
                self.requester.on_group_unfinished(xid, &mut self.output)
            }
            Some(SendOwner::Reply { call }) => {
                self.responder.on_group_unfinished(call, &mut self.output)
            }
            Some(SendOwner::Header) | None => {}
        }
    }
}

/// Decodes an operation of rtrext-02.
///
/// # Errors
/// The operation is not valid XDR of its type, has another direction, or is a report that bytes
/// follow.
// spec: rtr-9.1-b, rtr-9.1-d, rtr-9.1-h
fn decode<'a>(optional: &OptionalMessage<'a>) -> Result<GroupMessage<'a>, RefusalReason> {
    let info = optional.info;
    if direction_of(optional.code).is_some_and(|direction| direction != optional.direction) {
        return Err(RefusalReason::OperationDirection);
    }
    let decoded = match optional.code {
        ROPT_XMTREQ => Req::from_bytes(info).map(GroupMessage::Request),
        ROPT_XMTRESP => Resp::from_bytes(info).map(GroupMessage::Reply),
        ROPT_XMTCONT => Cont::from_bytes(info).map(GroupMessage::Continuation),
        _ if optional.payload.is_empty() => {
            OptreptErr::from_bytes(info).map(GroupMessage::ErrorReport)
        }
        _ => return Err(RefusalReason::Payload),
    };
    decoded.map_err(RefusalReason::Xdr)
}
