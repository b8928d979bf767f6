//! The session: its state, and the methods of the consumer. The methods of the transport are in
//! `incoming`, `outgoing` and `connecting`.
//!
//! The session owns the state of the connection, the queue of errors to send, the counters and the
//! consumer's flags. `requester`, `responder` and `exchange` own the calls and the properties,
//! return outcomes and never close the connection: only the session calls `close`. A method that
//! can end the last call must call `close_if_drained`, or a draining session never ends.
//! `connected` and `lost` in `connecting` reset what belongs to one connection.

mod connecting;
mod errors;
mod groups;
mod incoming;
mod operations;
mod outgoing;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::ops::Range;

use super::config::{Config, ConfigError, Properties, Role};
use super::exchange::{PropertyExchange, RegisterError};
use super::inline_parts::no_parts;
use super::output::{CloseReason, Exposure, RdmaWrite, SendOwner, ServedCallId};
use super::params::ConnectionParams;
use super::queues::OutputQueues;
use super::receives::Receives;
use super::requester::{NO_DEADLINE, RequestKind, Requester, SessionCallError};
use super::responder::{ReplyLimits, Responder};
use super::rtr::extension::RtrExtension;
use super::states::ConnState;
use crate::chunk::Pieces;
use crate::continuation::RtrCapabilities;
use crate::error::{PeerError, Refusal};
use crate::private_data::PrivateData;
use crate::property::{BasicProperty, PropertyValues};
use crate::transfer::{CallSpec, Cost, ResultItem, TransferError, TransferPlan};
use crate::v2::properties::Propid;
use crate::version::{Version, VersionCache};

/// A session with one peer over successive connections. See the [module](super).
#[derive(Debug)]
pub struct Session {
    // Boxed: `ConnectionParams` holds the fields that each call needs.
    config: Box<Config>,
    state: ConnState,
    params: ConnectionParams,
    requester: Requester,
    responder: Responder,
    receives: Receives,
    exchange: PropertyExchange,
    /// The state of rtrext-02, if it is enabled.
    extension: Option<Box<RtrExtension>>,
    /// Errors to send to the peer.
    pending_errors: VecDeque<(Refusal, PeerError)>,
    /// Why the last message was answered with an error or dropped.
    refusal: Option<Refusal>,
    output: OutputQueues,
    counters: SessionCounters,
    /// Remembers a peer that does not support Version Two.
    version_cache: VersionCache,
    /// Whether the next connection starts in Version One, whenever it is established.
    next_is_v1: bool,
    /// Why the connection is being closed.
    closing: Option<CloseReason>,
    /// Whether the session ends once all calls are complete.
    draining: bool,
    /// Why the session has ended.
    ended: Option<CloseReason>,
    /// Whether the connection is kept while nothing is queued.
    keep_connected: bool,
    /// Whether the peer's consumer accepts backward calls on this connection.
    peer_ready: bool,
    /// The time of the next attempt to connect, and the delay after it.
    reconnect_at: u64,
    reconnect_delay: u64,
    /// When the current connection was established.
    connected_at: u64,
}

/// Counts the messages of a session.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SessionCounters {
    /// Messages received.
    pub received: u64,
    /// Messages handed out to be sent.
    pub sent: u64,
    /// Messages answered with an error.
    pub refused: u64,
    /// Messages that break a rule and are dropped without an error.
    pub dropped: u64,
    /// Replies and errors that belong to no open call.
    pub unexpected: u64,
    /// Calls with the XID of a call that was being served.
    pub duplicate_xid: u64,
    /// Connections.
    pub connections: u64,
}

/// Tells the transport whether it may post a receive buffer again.
#[must_use = "a buffer that is kept must not be posted again yet"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferDisposition {
    /// The buffer may be posted again.
    Free,
    /// An action or an event refers to the buffer.
    Kept,
}

/// Describes why a session cannot use a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SessionConnectError {
    /// The session has a connection, or has ended.
    State,
    /// A message still holds memory of the last connection: it must be released and fenced first.
    Unsettled,
}

impl core::fmt::Display for SessionConnectError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::State => "there is a connection already, or the session has ended",
            Self::Unsettled => "memory still belongs to the last connection",
        })
    }
}

impl core::error::Error for SessionConnectError {}

/// Describes why a reply cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReplyError {
    /// The call has ended: its connection is lost, or it was answered.
    Ended,
    /// No transfer method fits the reply. The peer receives an error, and the call has ended.
    Transfer(TransferError),
}

impl core::fmt::Display for ReplyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Ended => f.write_str("the call has ended"),
            Self::Transfer(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for ReplyError {}

/// Describes why a property cannot be set or requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PropertyError {
    /// Receive buffers shrink only at the request of the peer (xcharext-03, section 3.1).
    Smaller,
    /// The size exceeds [`Config::max_receive_size`].
    Larger,
    /// The last change is still in progress.
    Busy,
    /// The peer does not support properties, or there is no connection.
    Unsupported,
    /// The peer did not name the property, or announced that it does not change (decision D18).
    Fixed,
}

impl core::fmt::Display for PropertyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Smaller => "receive buffers become smaller only when the peer asks for it",
            Self::Larger => "receive buffers are limited to max_receive_size",
            Self::Busy => "the last change is still in progress",
            Self::Unsupported => "the peer does not support properties",
            Self::Fixed => "the peer has announced the property as fixed",
        })
    }
}

impl core::error::Error for PropertyError {}

impl Session {
    /// Creates a session without a connection. A client requests one at once.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let (calls, serve, segments, seed) = (
            config.max_calls,
            config.max_served,
            config.max_segments,
            config.xid_seed,
        );
        let rtr = config.rtr.filter(|_| {
            config.properties != Properties::None && config.max_version == Version::Two
        });
        let extension = rtr.map(|rtr| RtrExtension::new(rtr, config.receive_size));
        let mut session = Self {
            state: ConnState::Down,
            params: ConnectionParams::new(&config, PrivateData::DEFAULT, false),
            requester: Requester::new(
                calls,
                if calls == 0 { 1 } else { config.credits },
                segments,
                seed,
            ),
            responder: Responder::new(
                serve,
                config.reserved_receives,
                config.limits,
                config.hash_seed,
            ),
            receives: Receives::new(config.receive_size),
            exchange: PropertyExchange::new(&config),
            extension: extension.map(Box::new),
            pending_errors: VecDeque::new(),
            refusal: None,
            output: OutputQueues::default(),
            counters: SessionCounters::default(),
            version_cache: VersionCache::new(),
            next_is_v1: false,
            closing: None,
            draining: false,
            ended: None,
            keep_connected: config.role == Role::Client,
            peer_ready: false,
            reconnect_at: 0,
            reconnect_delay: config.reconnect_delay,
            connected_at: 0,
            config: Box::new(config),
        };
        if session.extension.is_some() {
            session.requester.enable_groups();
            session.responder.enable_groups(session.config.hash_seed);
        }
        session.request_connection(0);
        Ok(session)
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> SessionCounters {
        self.counters
    }

    /// Returns the state of the connection.
    #[must_use]
    pub fn state(&self) -> ConnState {
        self.state
    }

    /// Returns the version, once it is negotiated.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.params.version
    }

    /// Returns our properties on this connection.
    #[must_use]
    pub fn properties(&self) -> &PropertyValues {
        &self.params.local
    }

    /// Returns the peer's properties.
    #[must_use]
    pub fn peer_properties(&self) -> &PropertyValues {
        self.params.peer.values()
    }

    /// Returns the peer's capabilities of rtrext-02: the defaults without `Config::rtr`.
    #[must_use]
    pub fn peer_capabilities(&self) -> &RtrCapabilities {
        self.params.peer.capabilities()
    }

    /// Returns the peer's value of a registered property.
    #[must_use]
    pub fn peer_property(&self, code: Propid) -> Option<&[u8]> {
        self.exchange.registry.peer_property(code)
    }

    /// Returns the number of calls that may be sent now.
    #[must_use]
    pub fn available_credits(&self) -> u32 {
        self.requester.credits.available()
    }

    /// Returns the numbers of open outgoing and incoming calls.
    #[must_use]
    pub fn outstanding(&self) -> (usize, usize) {
        (self.requester.len(), self.responder.len())
    }

    /// Returns the slot of an outgoing call: a number up to `Config::max_calls` plus
    /// `Config::credits` that no other open call has. The transport can index its tables with it.
    #[must_use]
    pub fn call_slot(&self, xid: u32) -> usize {
        self.requester.slot(xid)
    }

    /// Returns the slot of an incoming call: a number below twice `Config::max_served` that no
    /// other call has until the reply is released.
    #[must_use]
    pub fn served_slot(&self, call: ServedCallId) -> usize {
        self.responder.slot(call)
    }

    /// Returns the number of posted receives.
    #[must_use]
    pub fn posted_receives(&self) -> u32 {
        self.receives.posted()
    }

    /// Registers an experimental operation. The consumer receives it, and is the only one to answer
    /// it.
    ///
    /// # Errors
    /// The code is not experimental, or too many are registered.
    pub fn register_operation(&mut self, code: u32) -> Result<(), RegisterError> {
        self.exchange.registry.register_operation(code)
    }

    /// Registers an experimental property with our value in XDR. The value is announced at the
    /// start of each connection.
    ///
    /// # Errors
    /// The code is not experimental, the value is longer than 64 bytes, or too many are registered.
    pub fn register_property(&mut self, code: Propid, value: &[u8]) -> Result<(), RegisterError> {
        self.exchange.register_property(code, value)
    }

    /// Queues a registered operation. It is sent in Version Two, and dropped if it is still queued
    /// when the next connection begins. With `call` it goes from requester to responder and takes a
    /// credit. Pass an XID only in an answer. Answer at once: the peer keeps a receive for the
    /// answer only until a later message of its own is answered; after that it has
    /// `Config::reserved_receives` at most.
    ///
    /// # Errors
    /// The operation is not registered, its content exceeds 256 bytes, or too many are queued.
    pub fn send_operation(
        &mut self,
        code: u32,
        call: bool,
        xid: Option<u32>,
        info: &[u8],
    ) -> Result<u32, RegisterError> {
        let xid = xid.unwrap_or_else(|| self.fresh_xid());
        self.exchange
            .registry
            .queue_operation(xid, code, call, info)
            .map(|()| xid)
    }

    /// Sets whether the connection is kept while nothing is queued. A client keeps it as long as
    /// backward calls are possible, since a server cannot connect.
    // spec: bd-5.4-d, bd-7-c
    pub fn keep_connected(&mut self, keep: bool) {
        self.keep_connected = keep;
    }

    /// Records that the peer's consumer accepts backward calls, as it announced in the incoming
    /// call `said_in`: they are sent from now on until the connection is lost. Returns false if
    /// that call has ended.
    // spec: bd-6-c, bd-6-e
    pub fn peer_ready(&mut self, said_in: ServedCallId) -> bool {
        self.peer_ready |= self.responder.is_delivered(said_in);
        self.peer_ready
    }

    /// Returns whether the peer's consumer accepts backward calls on this connection. Backward
    /// calls wait until it does.
    #[must_use]
    pub fn is_peer_ready(&self) -> bool {
        self.peer_ready && self.params.call_limits(&self.config, None).is_some()
    }

    /// Records that the peer's consumer accepts no more backward calls.
    pub fn peer_unready(&mut self) {
        self.peer_ready = false;
    }

    /// Begins a call and returns the XID that its RPC message must have. The call ends with
    /// `ReplyArrived` or `CallFailed`. A call whose `deadline` has passed fails at the next
    /// [`timeout`](Self::timeout), once a Send and the peer no longer hold its memory.
    ///
    /// # Errors
    /// Too many calls are open, the session is draining or has ended, or the spans of the results
    /// are out of order.
    // spec: bd-5.4-b, bd-5.4-c, bd-2.3-a, bd-2.3-b
    pub fn call(
        &mut self,
        call: &CallSpec<'_>,
        deadline: Option<u64>,
    ) -> Result<u32, SessionCallError> {
        self.begin(call, deadline)
    }

    /// Begins a call that is transmitted over further connections only within a time after its
    /// first transmission, in microseconds, for instance while the peer's reply cache has the
    /// reply. A call that the peer may have fails with `Disconnected` when its connection is lost
    /// if the time is 0; otherwise with `ResendExpired` once the time has passed without a
    /// connection. A call whose connection lives waits for its reply.
    ///
    /// # Errors
    /// As for [`call`](Self::call).
    pub fn call_resent_within(
        &mut self,
        call: &CallSpec<'_>,
        deadline: Option<u64>,
        window: u64,
    ) -> Result<u32, SessionCallError> {
        let xid = self.begin(call, deadline)?;
        self.requester.limit_resend(xid, window);
        Ok(xid)
    }

    #[inline]
    fn begin(
        &mut self,
        call: &CallSpec<'_>,
        deadline: Option<u64>,
    ) -> Result<u32, SessionCallError> {
        if self.draining || self.state == ConnState::Closed {
            return Err(self
                .ended
                .map_or(SessionCallError::Closing, SessionCallError::Ended));
        }
        let Self {
            requester: requests,
            responder: serving,
            ..
        } = self;
        // `timeout` requests a connection for the call when the next attempt is due.
        requests.call(
            RequestKind::Rpc,
            call,
            deadline.unwrap_or(NO_DEADLINE),
            |xid| serving.is_open(xid),
        )
    }

    /// Cancels a call. It fails once the peer can no longer access its memory. Returns false if the
    /// call has ended.
    pub fn cancel(&mut self, xid: u32) -> bool {
        let was_open = self.requester.cancel(xid, &mut self.output);
        self.close_if_drained();
        was_open
    }

    /// Answers an incoming call with a reply of `length` bytes of XDR and these reducible results.
    ///
    /// # Errors
    /// The call has ended, or no transfer method fits the reply.
    // spec: bd-2-e, bd-5.2-a, bd-5.2-b
    pub fn reply(
        &mut self,
        call: ServedCallId,
        length: u32,
        results: &[ResultItem],
    ) -> Result<(), ReplyError> {
        let (params, extension) = (&self.params, &self.extension);
        let limits = |version| ReplyLimits {
            groups: extension.as_ref().and_then(|extension| extension.replies()),
            ..params.reply_limits(version)
        };
        match self.responder.reply(call, length, results, limits) {
            None => Err(ReplyError::Ended),
            Some(Ok(())) => Ok(()),
            Some(Err(why)) => {
                self.refuse_served(call);
                Err(ReplyError::Transfer(why))
            }
        }
    }

    /// Answers an incoming call with a transport error.
    ///
    /// # Errors
    /// The call has ended.
    // spec: rfc8166-6.1-c
    pub fn reject(&mut self, call: ServedCallId) -> Result<(), ReplyError> {
        if !self.responder.is_delivered(call) {
            return Err(ReplyError::Ended);
        }
        self.refuse_served(call);
        Ok(())
    }

    /// Limits the grant from now on: to one call at least and `Config::max_served` at most. The
    /// peer learns the new grant from the replies that follow. Calls that it has already sent are
    /// served.
    pub fn grant_up_to(&mut self, most: u32) {
        self.responder.grant_up_to(most);
    }

    /// Changes one of our properties on this connection and announces it to the peer. Larger
    /// receive buffers are announced once no smaller ones are posted.
    ///
    /// # Errors
    /// The property cannot be changed, or not now.
    // spec: xc3-3.1-a, xc3-3.1-b, xc3-3.1-g, xc3-3.1-i, xc3-3.2-d, xc2-3.1-a, xc2-3.1-b, xc2-3.1-g
    // spec: xc2-3.1-i, xc2-3-j
    pub fn set_property(&mut self, value: BasicProperty) -> Result<(), PropertyError> {
        if self.state != ConnState::Up || !self.exchange.is_enabled() {
            return Err(PropertyError::Unsupported);
        }
        match value {
            BasicProperty::ReceiveBufferSize(size)
                if size < self.params.local.receive_buffer_size =>
            {
                Err(PropertyError::Smaller)
            }
            BasicProperty::ReceiveBufferSize(size) if size > self.config.largest_receive() => {
                Err(PropertyError::Larger)
            }
            BasicProperty::ReceiveBufferSize(size) => {
                self.receives.resize(size);
                self.apply_receive_growth();
                Ok(())
            }
            value => {
                self.params.local.set(value);
                self.exchange.update(value);
                Ok(())
            }
        }
    }

    /// Applies a larger size of receive buffers once no smaller ones are posted.
    fn apply_receive_growth(&mut self) {
        let (size, announced) = (self.receives.size(), self.params.local.receive_buffer_size);
        if size <= announced {
            self.exchange.cancel_growth(announced);
        } else if self.receives.is_uniform() {
            let value = BasicProperty::ReceiveBufferSize(size);
            self.params.local.set(value);
            self.exchange.update(value);
        }
    }

    /// Asks the peer to change one of its properties. `PropertyAnswered` reports the outcome: at
    /// once, or when a change that the peer has called pending completes (xcharext-02).
    ///
    /// # Errors
    /// The change cannot be requested, or not now.
    // spec: xc3-3.1-j, xc3-4.1-h, xc2-3.1-j, xc2-3-e, xc2-3-f
    pub fn request_property(&mut self, value: BasicProperty) -> Result<(), PropertyError> {
        if self.state != ConnState::Up || !self.params.peer_has_properties {
            return Err(PropertyError::Unsupported);
        }
        if self.exchange.is_busy(value.code()) {
            return Err(PropertyError::Busy);
        }
        if !self.params.peer.may_change(value.code()) {
            return Err(PropertyError::Fixed);
        }
        // A size above the current one also limits our Sends, since an update to a larger size may
        // cross the request.
        if let BasicProperty::ReceiveBufferSize(size) = value {
            self.params.requested_size = Some(size);
        }
        self.request_properties(Some(value));
        Ok(())
    }

    /// Queues a ROPT_REQPROP that requests a change, or that only probes the peer.
    fn request_properties(&mut self, wanted: Option<BasicProperty>) {
        const NOTHING: CallSpec<'_> = CallSpec {
            length: 0,
            items: &[],
            max_reply: 0,
            results: &[],
            reducible: false,
        };
        let Self {
            requester: requests,
            responder: serving,
            ..
        } = self;
        if let Ok(xid) = requests.call(RequestKind::Properties, &NOTHING, NO_DEADLINE, |xid| {
            serving.is_open(xid)
        }) {
            self.exchange
                .request(xid, wanted, self.params.peer.values());
        }
    }

    /// Ends the session once all open calls are complete. No new calls begin.
    pub fn drain(&mut self) {
        self.draining = true;
        self.close_if_drained();
    }

    /// Closes the connection. The session ends and open calls fail when the transport reports the
    /// loss of the connection, or at once if there is no connection.
    pub fn abort(&mut self) {
        self.draining = true;
        self.close(CloseReason::Aborted);
    }

    /// Ends a draining session once no calls are open.
    #[inline]
    fn close_if_drained(&mut self) {
        if self.draining && self.state != ConnState::Closed && self.is_idle() {
            self.close(CloseReason::Drained);
        }
    }

    fn is_idle(&self) -> bool {
        self.requester.is_done() && self.responder.is_idle() && self.pending_errors.is_empty()
    }

    /// Returns the transfer plan of an outgoing call, once there is one.
    #[must_use]
    pub fn transfer_plan(&self, xid: u32) -> Option<TransferPlan> {
        self.requester.plan(xid)
    }

    /// Returns whether the peer may have an outgoing call: it was transmitted, on this connection
    /// or an earlier one. Returns `None` if no such call is open.
    #[must_use]
    pub fn is_sent(&self, xid: u32) -> Option<bool> {
        self.requester.is_sent(xid)
    }

    /// Returns the cost of an outgoing call, once it has a transfer plan.
    #[must_use]
    pub fn cost(&self, xid: u32) -> Option<Cost> {
        self.requester.cost(xid)
    }

    /// Returns the regions of a call to expose, in the order that `exposed` expects.
    pub fn exposures(&self, xid: u32) -> impl Iterator<Item = Exposure> + use<'_> {
        self.requester.exposures(xid)
    }

    /// Returns the pieces of which an incoming call is assembled; `None` if it has ended.
    pub fn pieces(&self, call: ServedCallId) -> Option<Pieces<'_>> {
        self.responder.pieces(call)
    }

    /// Returns the length of an incoming call in bytes of XDR.
    #[must_use]
    pub fn call_length(&self, call: ServedCallId) -> Option<u32> {
        self.responder.length(call)
    }

    /// Returns the ranges of a call or a reply that follow the header.
    #[inline]
    pub fn inline_parts(&self, what: SendOwner) -> impl Iterator<Item = Range<u32>> + use<'_> {
        match what {
            SendOwner::Call { xid } => self.requester.parts(xid),
            SendOwner::Reply { call } => self.responder.parts(call),
            SendOwner::Header => no_parts(),
        }
    }

    /// Returns whether RDMA Writes must precede a reply. Most calls offer no memory for results.
    #[inline]
    #[must_use]
    pub fn has_writes(&self, call: ServedCallId) -> bool {
        self.responder.has_writes(call)
    }

    /// Returns the RDMA Writes to post before a reply, on the same queue pair, so that the data
    /// arrive first.
    pub fn writes(&self, call: ServedCallId) -> impl Iterator<Item = RdmaWrite> + use<'_> {
        self.responder.writes(call)
    }

    /// Returns an XID that no open call has.
    fn fresh_xid(&mut self) -> u32 {
        self.exchange
            .fresh_xid(&mut self.requester, &self.responder)
    }
}

#[cfg(test)]
mod tests;
