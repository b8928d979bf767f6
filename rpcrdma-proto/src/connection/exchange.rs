//! The exchange of transport properties (xcharext-03, section 4) or transport characteristics
//! (xcharext-02, section 4) by `RDMA2_OPTIONAL`, including operations and properties that the
//! consumer registers (`registry`).
//!
//! The two drafts exchange the same information, except that only xcharext-02 has pending changes
//! (`pending`). Their encodings differ (`wire`). This module accepts or rejects the changes that
//! the peer requests (`limits`). `ConnectionParams` has the values in force, and
//! `session::operations` applies a new size to the receives.
//!
//! One request of this end is queued or in flight at most: a caller of `request` checks `is_busy`
//! or `has_request` first. A request of the peer takes a credit (`session::operations`), so its
//! answer must be queued. A one-way message is an update or an operation call: each takes a credit
//! that only the reply to a later call returns, and `RequesterCredits::can_spare` decides when
//! (decision D9). Registered operations are sent also while the exchange is off.

mod limits;
mod pending;
mod registry;
mod wire;

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::config::Config;
use super::optional_header::OptionalHeader;
use super::params::ConnectionParams;
use super::requester::Requester;
use super::responder::Responder;
use crate::continuation::RtrCapabilities;
use crate::credit::RequesterCredits;
use crate::property::{BasicProperty, Decision, Disposition, PropertyResponse, PropertyValues};
use crate::v2::MsgType;
use crate::v2::properties::{
    PROP_RBSIZ, Propid, Propval, ROPT_CONNPROP, ROPT_REQPROP, ROPT_RESPROP, ROPT_UPDPROP, Reqprop,
    Updprop,
};
use crate::v2::rtr::XPROP_RTRSUPP;
use crate::version::Version;
use crate::xdr;
use limits::ChangeLimits;
pub(super) use pending::ChangeOutcome;
use pending::{LocalChanges, PendingChanges, RequestedChange};
pub use registry::RegisterError;
use registry::Registry;
use wire::{ChangeResponse, PropertyDraft, PropertyOperation, PropertyUpdate};

/// The property exchange. Requester and responder have the same one.
// spec: xc3-1.3-d, xc2-1.3-d
#[derive(Debug)]
pub(super) struct PropertyExchange {
    /// The draft whose operations this end uses, if any.
    draft: Option<PropertyDraft>,
    /// Queued answers to the peer's requests, each with its XID and the credits that it requested.
    /// There are at most as many as credits are granted.
    answers: VecDeque<(u32, u32, PropertyResponse)>,
    /// The change that `request` asks for; `None` for a probe of the version.
    requested: Option<RequestedChange>,
    /// The XID of our request, from when it is queued until it is answered.
    request: Option<u32>,
    /// Earlier requested changes that the peer has called pending.
    pending: PendingChanges,
    /// Our changed properties that are not announced yet.
    changed: LocalChanges,
    /// What the consumer has registered and queued.
    pub(super) registry: Registry,
    /// Our properties of rtrext-02, which are fixed; `None` where the extension is off.
    capabilities: Option<Box<RtrCapabilities>>,
    /// The maximum size in bytes to which a peer's request may raise the size of our receive
    /// buffers.
    most: u32,
    can_invalidate: bool,
}

/// The effect of a received operation.
pub(super) enum PropertyEvent {
    /// The operation changes nothing that the consumer sees.
    Nothing,
    /// The peer has announced properties. Contains the outcome of a change of ours that was pending
    /// and is now complete.
    Changed(Option<ChangeOutcome>),
    /// The peer has requested this size of our receive buffers, or more, which was not granted at
    /// once. If it is larger than the size of the posted receives, they must grow to it.
    Raise(u32),
    /// The peer was granted this size of our receive buffers, which is not above their size.
    Lower(u32),
    /// Our request is answered.
    Answered(ChangeOutcome),
}

impl PropertyExchange {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            draft: PropertyDraft::of(config.properties),
            answers: VecDeque::new(),
            requested: None,
            request: None,
            pending: PendingChanges::default(),
            changed: LocalChanges::default(),
            registry: Registry::default(),
            capabilities: config.rtr.as_ref().map(|rtr| Box::new(rtr.capabilities())),
            most: config.largest_receive(),
            can_invalidate: config.remote_invalidation,
        }
    }

    /// Resets the state for a new connection.
    pub(super) fn connected(&mut self) {
        self.answers.clear();
        self.registry.connected();
        self.changed.clear();
        (self.requested, self.request, self.pending) = (None, None, PendingChanges::default());
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.draft.is_some()
    }

    /// Returns whether this end knows an operation.
    // spec: xc3-4-i, xc2-4-e, v2-3.3-a
    pub(super) fn knows_operation(&self, code: u32) -> bool {
        self.draft.is_some()
            && matches!(
                code,
                ROPT_CONNPROP | ROPT_REQPROP | ROPT_RESPROP | ROPT_UPDPROP
            )
    }

    /// Registers a property of the consumer, which is announced at the start of each connection.
    pub(super) fn register_property(
        &mut self,
        code: Propid,
        value: &[u8],
    ) -> Result<(), RegisterError> {
        if self.capabilities.is_some() && code == XPROP_RTRSUPP {
            return Err(RegisterError::Code);
        }
        self.registry.register_property(code, value)
    }

    /// Returns whether one of our property requests is queued or in flight.
    pub(super) fn has_request(&self) -> bool {
        self.request.is_some()
    }

    /// Returns whether a request to change this property must wait.
    // spec: xc2-4.4-p
    pub(super) fn is_busy(&self, code: Propid) -> bool {
        self.has_request() || self.pending.has(code)
    }

    /// Begins a property request: for a change of a property of the peer, or to probe the version.
    pub(super) fn request(
        &mut self,
        xid: u32,
        wanted: Option<BasicProperty>,
        peer: &PropertyValues,
    ) {
        (self.request, self.requested) = (
            Some(xid),
            wanted.map(|value| RequestedChange::new(value, peer)),
        );
    }

    /// Handles a property request that failed: it counts as rejected. `by_error` is true if an
    /// error answered it, and false if its answer could not be decoded.
    // spec: xc3-3-m, xc2-3-i, xc2-3.1-j
    pub(super) fn request_failed(
        &mut self,
        by_error: bool,
        params: &mut ConnectionParams,
    ) -> Option<ChangeOutcome> {
        self.request = None;
        let change = self.requested.take()?;
        if let BasicProperty::ReceiveBufferSize(size) = change.value {
            params.requested_size = None;
            // A ROPT_RESPROP, from a peer that uses the other draft, cannot be decoded, and may
            // have set a smaller size (decision D5).
            let may_be_smaller = !by_error && self.draft == Some(PropertyDraft::Characteristics);
            if may_be_smaller && size < params.peer.values().receive_buffer_size {
                params.peer.on_changed(change.value);
            }
        }
        Some(ChangeOutcome {
            requested: change.value,
            value: None,
        })
    }

    /// Handles the loss of the connection: all requested changes fail.
    // spec: xc3-3-m, xc2-3-i
    pub(super) fn lost(&mut self) -> impl Iterator<Item = ChangeOutcome> + use<> {
        self.request = None;
        let all = self.requested.take().into_iter().chain(self.pending.take());
        all.map(|change| ChangeOutcome {
            requested: change.value,
            value: None,
        })
    }

    /// Queues the announcement of a changed property.
    pub(super) fn update(&mut self, value: BasicProperty) {
        self.changed.push(value);
    }

    /// Records that the receive buffers will not grow. If the peer waits for that, queues an update
    /// with the current `size`.
    // spec: xc2-4.3-k, xc2-4.4-h
    pub(super) fn cancel_growth(&mut self, size: u32) {
        if self.changed.growth_pending {
            self.changed.push(BasicProperty::ReceiveBufferSize(size));
        }
    }

    /// Handles a property operation. `posted` is the size of the receives that are posted from now
    /// on, which exceeds the announced size while these replace smaller ones.
    ///
    /// # Errors
    /// It is malformed.
    // spec: xc3-2.1-g, xc3-2.1-h, xc3-2.1-i, xc3-2.3-b, xc3-2.3-c, xc3-2.3-d, xc3-4-a, xc3-4-b
    // spec: xc3-4-c
    // spec: xc2-2.1-d, xc2-2.3-d, xc2-4-g, xc2-4-h
    pub(super) fn receive(
        &mut self,
        xid: u32,
        code: u32,
        credits: u32,
        info: &[u8],
        posted: u32,
        params: &mut ConnectionParams,
    ) -> xdr::Result<PropertyEvent> {
        params.peer_has_properties = true;
        let Some(draft) = self.draft else {
            return Ok(PropertyEvent::Nothing);
        };
        match draft.read(code, info)? {
            Some(PropertyOperation::Start(connprop)) => {
                params.peer.connected(&connprop)?;
                self.registry.store_values(connprop.start.iter());
                Ok(PropertyEvent::Changed(None))
            }
            Some(PropertyOperation::Request(request)) => {
                let (answer, event) = self.on_request(draft, &request, posted, params)?;
                self.answers.push_back((xid, credits, answer));
                Ok(event)
            }
            Some(PropertyOperation::Response(response)) => self.on_response(xid, &response, params),
            Some(PropertyOperation::Update(update)) => self.on_update(&update, params),
            None => Ok(PropertyEvent::Nothing),
        }
    }

    /// Handles an update of the peer's properties.
    // spec: xc2-4.4-a, xc2-4.4-d, xc2-4.4-g, xc2-4.4-n, xc2-4.4-o, xc2-4.4-p
    fn on_update(
        &mut self,
        update: &PropertyUpdate<'_>,
        params: &mut ConnectionParams,
    ) -> xdr::Result<PropertyEvent> {
        let now = update.now();
        params.peer.on_updprop(&Updprop { now })?;
        self.registry.store_values(now.iter());
        let ended = if update.clears {
            self.pending.cleared(&now, params.peer.values())
        } else {
            None
        };
        let is_open =
            self.requested.is_some_and(RequestedChange::is_size) || self.pending.has(PROP_RBSIZ);
        // While a request for a size is open, the update may have crossed it, and the request may
        // still lower the size (decision D17).
        params.requested_size = params.requested_size.filter(|_| is_open);
        Ok(PropertyEvent::Changed(ended))
    }

    /// Handles a request to change our properties. Returns the answer and the change to make.
    // spec: xc3-3.1-g, xc3-3.1-h, xc3-3.1-i, xc3-4.2-a, xc3-4.2-b, xc3-4-k
    // spec: xc2-3.1-g, xc2-3.1-h, xc2-3.1-i, xc2-4.2-a, xc2-4.2-b, xc2-4.3-i
    fn on_request(
        &mut self,
        draft: PropertyDraft,
        request: &Reqprop<'_>,
        posted: u32,
        params: &mut ConnectionParams,
    ) -> xdr::Result<(PropertyResponse, PropertyEvent)> {
        let (mut next, mut event) = (params.local, PropertyEvent::Nothing);
        let (most, has_structure, mut pends) = (self.most, self.has_structure(), false);
        let limits = ChangeLimits {
            draft,
            can_invalidate: self.can_invalidate,
            most,
            posted,
        };
        let answer = PropertyResponse::answering(request, params.peer.support(), |wanted| {
            // The structure fixes the length of the buffers.
            let decision = match wanted {
                BasicProperty::ReceiveBufferSize(_) if has_structure => return Decision::Reject,
                _ => limits.decide(wanted, &next),
            };
            match (decision, wanted) {
                (Decision::Accept, BasicProperty::ReceiveBufferSize(size)) => {
                    event = PropertyEvent::Lower(size)
                }
                (Decision::Substitute(BasicProperty::ReceiveBufferSize(size)), _) => {
                    event = PropertyEvent::Lower(size)
                }
                (Decision::Reject, BasicProperty::ReceiveBufferSize(size)) => {
                    event = PropertyEvent::Raise(size.min(most))
                }
                (Decision::Defer, BasicProperty::ReceiveBufferSize(size)) => {
                    (event, pends) = (PropertyEvent::Raise(size.min(most)), true);
                }
                _ => {}
            }
            match decision {
                Decision::Accept => next.set(wanted),
                Decision::Substitute(value) => next.set(value),
                Decision::Reject | Decision::Defer => {}
            }
            decision
        })?;
        params.local = next;
        if pends {
            self.changed.defer_growth();
        }
        Ok((answer, event))
    }

    /// Handles the answer to our request.
    // spec: xc3-4.3-a, xc3-4.3-b, xc3-3.1-j, xc2-4.3-a, xc2-4.3-b, xc2-4.3-d, xc2-4.3-i, xc2-3.1-j
    fn on_response(
        &mut self,
        xid: u32,
        response: &ChangeResponse<'_>,
        params: &mut ConnectionParams,
    ) -> xdr::Result<PropertyEvent> {
        if self.request != Some(xid) {
            return Ok(PropertyEvent::Nothing);
        }
        let Some(change) = self.requested else {
            self.request = None;
            return Ok(PropertyEvent::Nothing);
        };
        let word = change.value.word().to_be_bytes();
        let want = [Propval {
            which: change.value.code(),
            data: &word,
        }];
        let held = match response.disposition(&Reqprop {
            want: (&want).into(),
        }) {
            Some(Disposition::Done(_)) => Some(change.value),
            Some(Disposition::Other(other)) => BasicProperty::from_propval(&other)?,
            Some(Disposition::Pending(_)) => {
                (self.request, self.requested) = (None, None);
                self.pending.push(change);
                return Ok(PropertyEvent::Nothing);
            }
            Some(Disposition::Rejected(_)) | None => None,
        };
        (self.request, self.requested) = (None, None);
        if change.is_size() {
            params.requested_size = None;
        }
        if let Some(held) = held {
            params.peer.on_changed(held);
        }
        Ok(PropertyEvent::Answered(ChangeOutcome {
            requested: change.value,
            value: held,
        }))
    }

    /// Writes the next message of the exchange that may be sent, and returns the size of its header
    /// in bytes.
    // spec: v2-4.2.2-e, xc3-4-g, xc3-2.3-a, xc3-2.3-e, xc3-2.3-f, xc3-2.3-g, xc3-4-d, xc3-4-l
    // spec: xc3-4.1-a, xc3-4.1-e
    // spec: xc2-2.3-a, xc2-2.3-b, xc2-2.3-c, xc2-2.3-d, xc2-4-h, xc2-4.1-a, xc2-4.1-e
    #[cold]
    pub(super) fn transmit(
        &mut self,
        buffer: &mut [u8],
        params: &mut ConnectionParams,
        requests: &mut Requester,
        serving: &mut Responder,
    ) -> Option<usize> {
        if self.is_first(params) {
            let xid = self.fresh_xid(requests, serving);
            let bytes = self.write_start(buffer, xid, requests.credits.requested(), params)?;
            params.announced = true;
            requests.credits.on_first_sent();
            return Some(bytes);
        }
        // The peer keeps a receive for the answer to its operation until a later message of its own
        // is answered, so the answer precedes all replies.
        if let Some(bytes) = self.transmit_answer(buffer, params, serving.credits.current_grant()) {
            return Some(bytes);
        }
        if let (Some(draft), Some((xid, asked, answer))) = (self.draft, self.answers.front()) {
            let bytes = draft.write_response(buffer, *xid, serving.credits.next(*asked), answer)?;
            serving.credits.grant_with_reply(*asked);
            self.answers.pop_front();
            return Some(bytes);
        }
        // Queued replies are planned for the sizes in force, which the request may lower.
        if !serving.has_replies()
            && let Some(xid) = requests.transmit_properties()
        {
            let wanted = self.requested.map(|change| change.value);
            return wire::write_request(buffer, xid, requests.credits.requested(), wanted);
        }
        if self.changed.is_empty() && self.registry.queued() == 0 {
            return None;
        }
        let xid = self.fresh_xid(requests, serving);
        self.transmit_one_way(buffer, params, &mut requests.credits, xid)
    }

    /// Writes the next message that takes a credit and has no reply: an update, which has this
    /// `xid`, or an operation call.
    fn transmit_one_way(
        &mut self,
        buffer: &mut [u8],
        params: &ConnectionParams,
        credits: &mut RequesterCredits,
        xid: u32,
    ) -> Option<usize> {
        params.version.filter(|version| *version == Version::Two)?;
        if let Some(draft) = self.draft
            && params.announced
            && !self.changed.is_empty()
            && credits.take_one_way()
        {
            let changed = self.changed.as_slice();
            let (bytes, count) =
                draft.write_update(buffer, xid, credits.requested(), changed, &params.local)?;
            self.changed.mark_sent(count);
            return Some(bytes);
        }
        let next = self.registry.next_call()?;
        let header = OptionalHeader {
            xid: next.xid,
            credits: credits.requested(),
            direction: MsgType::Call,
            operation: next.code,
        };
        let bytes = header.write(&next.info, buffer)?;
        if !credits.take_one_way() {
            return None;
        }
        self.registry.pop_call();
        Some(bytes)
    }

    /// Writes the next answer to an operation, which needs no credit.
    fn transmit_answer(
        &mut self,
        buffer: &mut [u8],
        params: &ConnectionParams,
        credits: u32,
    ) -> Option<usize> {
        params.version.filter(|version| *version == Version::Two)?;
        let (at, next) = self.registry.next_answer()?;
        let header = OptionalHeader {
            xid: next.xid,
            credits,
            direction: MsgType::Reply,
            operation: next.code,
        };
        let bytes = header.write(&next.info, buffer)?;
        self.registry.remove(at);
        Some(bytes)
    }

    /// Returns an XID for a message that is not a call. It comes from the sequence of our calls, so
    /// that no call uses it while an answer may arrive, and no call or request of the peer has it.
    pub(super) fn fresh_xid(&self, requests: &mut Requester, serving: &Responder) -> u32 {
        let is_request = |xid| self.answers.iter().any(|(request, ..)| *request == xid);
        requests.fresh_xid(|xid| serving.is_open(xid) || is_request(xid))
    }

    /// Returns whether the next message announces our properties.
    pub(super) fn is_first(&self, params: &ConnectionParams) -> bool {
        !params.announced
            && params.peer_has_properties
            && self.is_enabled()
            && params.version == Some(Version::Two)
    }

    /// Returns whether a one-way message is queued for which new calls must leave a credit. Before
    /// our announcement there is none: an operation call then waits until the calls leave two.
    #[inline]
    pub(super) fn has_one_way(&self, params: &ConnectionParams) -> bool {
        // One branch, since each poll asks this, and the queues are nearly always empty.
        (self.registry.queued() | self.changed.as_slice().len()) != 0 && self.finds_one_way(params)
    }

    #[cold]
    fn finds_one_way(&self, params: &ConnectionParams) -> bool {
        params.announced && (self.registry.has_calls() || !self.changed.is_empty())
    }

    /// Returns whether no property, answer or operation is queued.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        // One branch, since each poll asks this.
        (self.changed.as_slice().len() | self.registry.queued() | self.answers.len()) == 0
    }

    /// Returns whether we announce a structure of our receive buffers, which fixes their size.
    // spec: rtr-8.3-b
    fn has_structure(&self) -> bool {
        self.capabilities
            .as_ref()
            .is_some_and(|capabilities| capabilities.structure.is_some())
    }
}

#[cfg(test)]
mod tests;
