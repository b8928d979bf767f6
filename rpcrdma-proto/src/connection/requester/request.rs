//! One outgoing call: its state, its transfer plan and its memory.
//!
//! `Requester` decides when a call changes its state; this module applies the change and computes
//! what follows from the fields. The order of `exposures` is that of the chunks in the header, of
//! the segments that the transport reports, and of `regions`. `begin` must set each field, because
//! slots are reused.
//!
//! `header_len` must be the length that `requester::chunks::write` writes, since
//! `Requester::transmit` compares it with the threshold. It and `fits_messages` do not count what
//! the header of a call in transmissions has in addition (`TransferMethod::Grouped`): `grouped` has
//! functions for these, and a `GroupSender` has the ranges that follow their headers.
//!
//! `Event::CallFailed` tells the consumer by `transmission` whether the peer may have executed the
//! call.

use arrayvec::ArrayVec;

use super::NO_DEADLINE;
use super::call_chunks::CallChunks;
use crate::connection::config::MAX_CALL_SEGMENTS;
use crate::connection::inline_parts::{InlineParts, no_parts, parts, total_len};
use crate::connection::output::{CallFailure, CallRegion, Exposure, ReplyLocation};
use crate::connection::slab::Reset;
use crate::connection::states::{RequestEvent, RequestState};
use crate::credit::Credit;
use crate::sizes;
use crate::transfer::{self, CallSpec, PathLimits, TransferMethod, TransferPlan};
use crate::v2;

/// An outgoing call.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) state: RequestState,
    pub(super) kind: RequestKind,
    /// The number of calls that began before it: its rank in the queue, and an identity that no
    /// later call in its slot has.
    pub(super) age: u64,
    /// The time at which it fails; `NO_DEADLINE` for never. Times have the unit of the session's
    /// `now`.
    pub(super) deadline: u64,
    /// Its credit, from the admission until an answer, the loss of the connection, or an end before
    /// it is sent.
    pub(super) credit: Option<Credit>,
    /// Whether a Send holds its memory.
    pub(super) sending: bool,
    /// Whether the peer can access its memory.
    pub(super) exposed: bool,
    // As in `CallSpec`.
    pub(super) length: u32,
    pub(super) max_reply: u32,
    pub(super) reducible: bool,
    /// How long after its first transmission it may be transmitted over a further connection. Zero
    /// means never, and `NO_DEADLINE` without limit.
    pub(super) resend_window: u64,
    /// The end of this time, once it is transmitted; zero if it may never be transmitted again.
    resend_until: u64,
    pub(super) transmission: Transmission,
    pub(super) chunks: CallChunks,
    pub(super) plan: TransferPlan,
    /// The key of its memory that a reply has invalidated.
    pub(super) invalidated: Option<u32>,
    /// The maximum segment length to plan with, instead of that of `PathLimits`, because the
    /// transport exposed more segments than planned.
    pub(super) segment_len: Option<u32>,
    pub(super) outcome: CallOutcome,
}

/// Whether the peer may have a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transmission {
    /// The peer does not have it.
    None,
    /// It was transmitted on the current connection only. If the peer refuses it, the peer does not
    /// have it.
    Current,
    /// It was transmitted on an earlier connection, and perhaps on the current one, too. The peer
    /// may have it even if it refuses it now.
    Earlier,
}

/// The purpose of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::connection) enum RequestKind {
    /// A call of the consumer.
    Rpc,
    /// A ROPT_REQPROP.
    Properties,
}

/// The outcome of a call.
#[derive(Debug)]
pub(super) enum CallOutcome {
    /// The outcome is unknown, or was reported already: then the call is an orphan, which stays
    /// until its credit returns.
    None,
    Reply(ReplyLocation),
    Failed(CallFailure),
    /// The call is retransmitted.
    Again,
}

/// A plan without chunks.
pub(super) const INLINE_PLAN: TransferPlan = TransferPlan {
    method: TransferMethod::Inline,
    write_chunks: false,
    reply_chunk: None,
    header: 0,
};

impl Reset for Request {
    const EMPTY: Self = Self {
        state: RequestState::Waiting,
        kind: RequestKind::Rpc,
        age: 0,
        deadline: 0,
        credit: None,
        sending: false,
        exposed: false,
        length: 0,
        max_reply: 0,
        reducible: false,
        resend_window: NO_DEADLINE,
        resend_until: NO_DEADLINE,
        transmission: Transmission::None,
        chunks: CallChunks::EMPTY,
        plan: INLINE_PLAN,
        invalidated: None,
        segment_len: None,
        outcome: CallOutcome::None,
    };
}

impl Request {
    /// Returns whether the peer may have the call.
    pub(super) fn is_sent(&self) -> bool {
        self.transmission != Transmission::None
    }

    /// Begins a call in a slot that another call may have used.
    pub(super) fn begin(
        &mut self,
        kind: RequestKind,
        age: u64,
        deadline: u64,
        call: &CallSpec<'_>,
    ) {
        // All fields are named, so that none keeps the value of the earlier call.
        let Self {
            state,
            kind: kind_field,
            age: age_field,
            deadline: deadline_field,
            credit,
            sending,
            exposed,
            length,
            max_reply,
            reducible,
            resend_window,
            resend_until,
            transmission,
            chunks,
            plan,
            invalidated,
            segment_len,
            outcome,
        } = self;
        (*state, *kind_field, *age_field, *deadline_field) =
            (RequestState::Waiting, kind, age, deadline);
        (*length, *max_reply, *reducible) = (call.length, call.max_reply, call.reducible);
        (*resend_window, *resend_until) = (NO_DEADLINE, NO_DEADLINE);
        *transmission = Transmission::None;
        chunks.begin(call.items, call.results);
        (*plan, *credit, *invalidated, *outcome) = (INLINE_PLAN, None, None, CallOutcome::None);
        (*sending, *exposed) = (false, false);
        *segment_len = None;
    }

    pub(super) fn as_call(&self) -> CallSpec<'_> {
        CallSpec {
            length: self.length,
            items: self.chunks.items(),
            max_reply: self.max_reply,
            results: self.chunks.results(),
            reducible: self.reducible,
        }
    }

    /// Records that all of it was transmitted.
    #[inline]
    pub(super) fn on_transmitted(&mut self, now: u64) {
        self.advance(RequestEvent::Transmitted);
        self.sending = true;
        if self.transmission == Transmission::None {
            self.transmission = Transmission::Current;
            self.resend_until = match self.resend_window {
                // It is too late at any time.
                0 => 0,
                window => now.saturating_add(window),
            };
        }
    }

    /// Records that the peer has refused it, and does not execute it.
    pub(super) fn on_refused(&mut self) {
        if self.transmission == Transmission::Current {
            self.transmission = Transmission::None;
        }
    }

    /// Records the loss of the connection. Returns the time at which it must fail unless it is
    /// transmitted again, if that time is limited and begins now.
    pub(super) fn on_lost(&mut self) -> Option<u64> {
        if self.transmission != Transmission::Current {
            return None;
        }
        self.transmission = Transmission::Earlier;
        Some(self.resend_until).filter(|until| *until != NO_DEADLINE)
    }

    /// Returns whether it was transmitted on an earlier connection, and it is too late to transmit
    /// it again.
    #[inline]
    pub(super) fn is_too_late(&self, now: u64) -> bool {
        self.resend_until <= now && self.transmission == Transmission::Earlier
    }

    /// Returns whether it waits to be transmitted.
    pub(super) fn is_to_be_transmitted(&self) -> bool {
        match self.state {
            RequestState::Waiting | RequestState::Exposing | RequestState::Ready => true,
            RequestState::Settling => matches!(self.outcome, CallOutcome::Again),
            _ => false,
        }
    }

    /// Applies an event to the state. An event that cannot happen in this state changes nothing.
    pub(super) fn advance(&mut self, event: RequestEvent) {
        self.state = self.state.next(event).unwrap_or(self.state);
    }

    /// Returns the regions to expose, in the order of the header.
    // spec: rfc8166-3.4.4.4-a, rfc8166-3.4.5.2-a, rfc8166-3.4.5.2-c, rfc8166-3.4.6-a
    // spec: rfc8166-3.4.6.2-a
    pub(super) fn exposures(&self) -> impl Iterator<Item = Exposure> + use<'_> {
        let (reduced, whole) = match self.plan.method {
            TransferMethod::Inline => (0, None),
            TransferMethod::Reduced(reduced) => (reduced, None),
            TransferMethod::Long => (
                0,
                Some(Exposure {
                    region: CallRegion::Call,
                    length: self.length,
                }),
            ),
            TransferMethod::Grouped(grouped) => (grouped.read.into(), None),
        };
        let written = match self.plan.method {
            TransferMethod::Grouped(grouped) => u64::from(grouped.explicit),
            _ if self.plan.write_chunks => u64::MAX,
            _ => 0,
        };
        let items = self
            .chunks
            .items()
            .iter()
            .enumerate()
            .filter(move |(at, _)| reduced >> at & 1 == 1);
        let items = items.map(|(at, item)| Exposure {
            region: CallRegion::Item(at),
            length: item.length,
        });
        let results = self
            .chunks
            .results()
            .iter()
            .enumerate()
            .filter(move |(at, _)| written >> at & 1 == 1);
        let results = results.map(|(at, result)| Exposure {
            region: CallRegion::Result(at),
            length: result.max_length,
        });
        let reply = self.plan.reply_chunk.map(|length| Exposure {
            region: CallRegion::Reply,
            length,
        });
        whole.into_iter().chain(items).chain(results).chain(reply)
    }

    /// Returns the regions, each with its segments.
    pub(super) fn regions<'a, S>(
        &'a self,
        segments: &'a [S],
    ) -> impl Iterator<Item = (CallRegion, &'a [S])> + use<'a, S> {
        let mut rest = segments;
        // Most calls have no counts, and then `exposures` is not asked for any.
        self.chunks
            .segment_counts()
            .iter()
            .zip(self.exposures())
            .map(move |(count, exposure)| {
                let (mine, after) = rest
                    .split_at_checked(usize::from(*count))
                    .unwrap_or((rest, &[]));
                rest = after;
                (exposure.region, mine)
            })
    }

    /// Returns the exposed segments as they are encoded.
    #[inline(always)]
    pub(super) fn wire_segments(&self) -> ArrayVec<v2::Segment, MAX_CALL_SEGMENTS> {
        self.chunks
            .segments()
            .iter()
            .take(MAX_CALL_SEGMENTS)
            .copied()
            .map(v2::Segment::from)
            .collect()
    }

    /// Returns whether a key belongs to memory that is exposed for the call.
    pub(super) fn owns_key(&self, key: u32) -> bool {
        self.chunks
            .segments()
            .iter()
            .any(|segment| segment.handle == key)
    }

    /// Returns whether call and reply still fit a message each, with the chunks that are exposed.
    pub(super) fn fits_messages(&self, link: &PathLimits<'_>) -> bool {
        let call = self.header_len(link).saturating_add(self.inline_len());
        let rest = transfer::inline_rest(&self.as_call(), &self.plan);
        let reply = self.reply_header_len(link).saturating_add(rest);
        call <= link.call_threshold && reply <= link.reply_threshold
    }

    /// Learns a segment length with which a plan expects at least as many segments as the transport
    /// exposed for each region. Returns whether the call may be planned again: only the first time.
    #[cold]
    pub(super) fn learn_segment_len(&mut self, planned: u32) -> bool {
        let counts = self
            .chunks
            .segment_counts()
            .iter()
            .map(|count| (*count).into());
        let lengths = self.exposures().zip(counts).filter(|(_, count)| *count > 1);
        let learned = lengths
            .map(|(exposure, count): (Exposure, u32)| exposure.length / count)
            .fold(planned, u32::min)
            .max(1);
        self.segment_len.replace(learned).is_none()
    }

    /// Returns the ranges of the call that follow the header, if it is not in transmissions.
    pub(super) fn parts(&self) -> InlineParts<'_> {
        match self.plan.method {
            TransferMethod::Inline => parts(self.length, &[], 0),
            TransferMethod::Reduced(reduced) => parts(self.length, self.chunks.items(), reduced),
            TransferMethod::Long | TransferMethod::Grouped(_) => no_parts(),
        }
    }

    /// Returns the number of bytes of the call that follow the header, as `parts` does.
    pub(super) fn inline_len(&self) -> u32 {
        match self.plan.method {
            TransferMethod::Inline => self.length,
            _ => total_len(self.parts()),
        }
    }

    /// Returns whether the consumer still waits for the end of the call. The consumer does not know
    /// of property requests.
    pub(super) fn is_outstanding(&self) -> bool {
        let open = matches!(self.outcome, CallOutcome::None | CallOutcome::Again);
        self.kind == RequestKind::Rpc
            && open
            && !matches!(self.state, RequestState::Orphaned | RequestState::Done)
    }

    /// Returns whether a reply to it may arrive: it was sent, and no reply has returned its credit.
    #[inline]
    pub(super) fn is_answerable(&self) -> bool {
        self.credit.is_some()
            && matches!(
                self.state,
                RequestState::Sent | RequestState::Settling | RequestState::Orphaned
            )
    }

    /// Returns whether neither a Send nor the peer holds memory of the call, so that the consumer
    /// may reuse it.
    pub(super) fn is_settled(&self) -> bool {
        !self.sending && !self.exposed
    }

    /// Returns the length of the header of the reply, with all segments exposed for it.
    pub(super) fn reply_header_len(&self, link: &PathLimits<'_>) -> u32 {
        self.header_len_with(0, link)
    }

    /// Returns the length of the header, with the exposed segments.
    pub(super) fn header_len(&self, link: &PathLimits<'_>) -> u32 {
        if self.chunks.segment_counts().is_empty() {
            return link.version.header_len();
        }
        self.header_len_with(sizes::READ_SEGMENT, link)
    }

    /// Returns the length of a header with the exposed segments, in which a segment for reading has
    /// a length of `read_segment` bytes.
    #[inline]
    fn header_len_with(&self, read_segment: u32, link: &PathLimits<'_>) -> u32 {
        let lists = self
            .regions(self.chunks.segments())
            .map(|(region, segments)| {
                let count = u32::try_from(segments.len()).unwrap_or(u32::MAX);
                match region {
                    CallRegion::Item(_) | CallRegion::Call => count.saturating_mul(read_segment),
                    CallRegion::Result(_) => count
                        .saturating_mul(sizes::SEGMENT)
                        .saturating_add(sizes::WRITE_CHUNK),
                    CallRegion::Reply => count
                        .saturating_mul(sizes::SEGMENT)
                        .saturating_add(sizes::REPLY_CHUNK),
                }
            });
        lists.fold(link.version.header_len(), u32::saturating_add)
    }
}
