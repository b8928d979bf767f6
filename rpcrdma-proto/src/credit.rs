//! Credits: how many messages may be in flight at once (RFC 8166, section 3.3; bidirection-04,
//! section 4).
//!
//! Each direction has its own credits, at both ends: [`RequesterCredits`] counts what a requester
//! may still send, and [`ResponderCredits`] the receive buffers that a responder must have. Neither
//! does any I/O. Each [`Credit`] must be given back once, by `on_reply`, `on_group_error` or
//! `release`; each call that `on_call` counts, by `grant_with_reply`, `on_dropped` or `drop_all`.
//! The receives for a grant must be posted before the grant is sent:
//! `connection::session::outgoing` waits for them.
//!
//! ```
//! use rpcrdma_proto::credit::{RequesterCredits, ResponderCredits};
//!
//! // A requester wants 32 credits, and a responder grants at most 16.
//! let (mut requester, mut responder) = (RequesterCredits::new(32), ResponderCredits::new(16, 2));
//! let call = requester.take_call().expect("one call may always be in flight");
//! responder.on_call().expect("the peer has kept to its grant");
//! let grant = responder.grant_with_reply(requester.requested());
//! requester.on_reply(call, Some(grant));
//! assert_eq!(requester.available(), 16);
//! ```

/// The credit of one call. The reply returns it.
///
/// It records how many one-way messages were sent before the call.
#[must_use = "the credit is taken until `on_reply` gives it back"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit {
    /// The number of one-way messages that had been sent.
    one_way: u64,
    /// The number of transmissions that continue the call.
    parts: u32,
}

impl Credit {
    /// Returns the number of messages that the credit covers.
    #[must_use]
    pub const fn messages(&self) -> u32 {
        self.parts.saturating_add(1)
    }
}

/// The credits of a requester: what it may send.
///
/// ```
/// use rpcrdma_proto::credit::RequesterCredits;
///
/// let mut credits = RequesterCredits::new(32);
/// assert_eq!(credits.requested(), 32);
/// // One message until a reply grants more.
/// let Some(first) = credits.take_call() else { panic!() };
/// assert!(credits.take_call().is_none());
/// credits.on_reply(first, Some(8));
/// assert_eq!(credits.available(), 8);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequesterCredits {
    /// The number of credits to request in every call.
    requested: u32,
    /// The number of credits that the last reply granted.
    granted: u32,
    /// The number of outstanding calls.
    calls: u32,
    /// The number of transmissions that continue them.
    parts: u32,
    /// The number of one-way messages sent, and of those whose receive buffers are known to be free
    /// again.
    one_way: u64,
    one_way_done: u64,
    /// The maximum number of messages that were in flight at once.
    max_in_flight: u32,
    /// Whether a reply has granted credits on this connection.
    opened: bool,
}

impl RequesterCredits {
    /// Creates the credits of a requester on a new connection: it may send one message (RFC 8166,
    /// section 3.3.3).
    ///
    /// `requested` is the number of credits to request; zero requests one.
    // spec: v2-5-b
    // spec: rfc8166-3.3.3-a
    #[must_use]
    pub const fn new(requested: u32) -> Self {
        let requested = if requested == 0 { 1 } else { requested };
        Self {
            requested,
            granted: 1,
            calls: 0,
            parts: 0,
            one_way: 0,
            one_way_done: 0,
            max_in_flight: 0,
            opened: false,
        }
    }

    /// Returns the number of credits to request: the credit value of every call.
    // spec: v2-4.2.2-g, bd-5.1-c
    #[must_use]
    pub const fn requested(&self) -> u32 {
        self.requested
    }

    /// Sets the number of credits to request from now on.
    pub const fn set_requested(&mut self, requested: u32) {
        self.requested = if requested == 0 { 1 } else { requested };
    }

    /// Returns the number of credits that the last reply granted.
    #[must_use]
    pub const fn granted(&self) -> u32 {
        self.granted
    }

    /// Returns the number of outstanding calls.
    #[must_use]
    pub const fn calls(&self) -> u32 {
        self.calls
    }

    /// Returns the number of messages of outstanding calls.
    #[must_use]
    pub const fn messages(&self) -> u32 {
        self.calls.saturating_add(self.parts)
    }

    /// Returns the number of messages in flight: outstanding calls, and one-way messages that may
    /// still be in the receive buffers of the peer.
    #[must_use]
    pub fn used(&self) -> u32 {
        let one_way = u32::try_from(self.one_way - self.one_way_done).unwrap_or(u32::MAX);
        self.calls
            .saturating_add(self.parts)
            .saturating_add(one_way)
    }

    /// Returns the number of receives to post for answers: one for each message in flight, and
    /// never fewer than before.
    // spec: bd-4.3.1-b, bd-4.3.1-d, bd-4.3.2-c, bd-4.3.2-e
    #[must_use]
    pub const fn receives(&self) -> u32 {
        self.max_in_flight
    }

    /// Counts a message that is about to be sent.
    fn on_send(&mut self) {
        self.max_in_flight = self.max_in_flight.max(self.used());
    }

    /// Returns the number of messages that may be sent now.
    #[must_use]
    pub fn available(&self) -> u32 {
        self.granted.saturating_sub(self.used())
    }

    /// Takes a credit for a call; `None` if there is none.
    ///
    /// One call may always be in flight: if a grant fell below the number of one-way messages in
    /// flight, no other reply could ever return their credits.
    // spec: bd-4-c
    // spec: rfc8166-3.3.1-a
    pub fn take_call(&mut self) -> Option<Credit> {
        if self.available() == 0 && self.calls > 0 {
            return None;
        }
        self.calls += 1;
        self.on_send();
        Some(Credit {
            one_way: self.one_way,
            parts: 0,
        })
    }

    /// Takes the credits of a call in several transmissions: all or none, so that no two calls wait
    /// for each other (decision D24).
    // spec: rtr-4.3-c
    pub fn take_group(&mut self, messages: u32) -> Option<Credit> {
        if messages <= 1 {
            return self.take_call();
        }
        if self.available() < messages {
            return None;
        }
        self.calls += 1;
        self.parts += messages - 1;
        self.on_send();
        Some(Credit {
            one_way: self.one_way,
            parts: messages - 1,
        })
    }

    /// Returns the credit of a call that was not sent.
    pub fn release(&mut self, credit: Credit) {
        self.calls = self.calls.saturating_sub(1);
        self.parts = self.parts.saturating_sub(credit.parts);
    }

    /// Returns the credit of a call in several transmissions that was answered with an error. Some
    /// transmissions may still be in flight; the reply to a later call returns their credits.
    pub fn on_group_error(&mut self, credit: Credit) {
        self.release(credit);
        self.one_way += u64::from(credit.parts);
    }

    /// Counts the message that announces the properties of a new connection. It needs no credit,
    /// since the peer has a receive for it beyond its grants (decision D9).
    pub fn on_first_sent(&mut self) {
        self.one_way += 1;
        self.on_send();
    }

    /// Returns whether a one-way message may be sent: one credit remains for a call, or nothing is
    /// in flight.
    ///
    /// A grant of one message leaves no second credit. The peer's receive beyond its grants
    /// (decision D9) is free again by then, and accepts the call that returns the credit.
    #[must_use]
    pub fn can_spare(&self) -> bool {
        self.available() >= 2 || self.used() == 0
    }

    /// Takes a credit for a one-way message (decision D9); returns false if there is none to spare.
    /// The reply to a later call returns it, so the last credit is kept for a call.
    // spec: v2-4.2.2-g
    pub fn take_one_way(&mut self) -> bool {
        let spare = self.can_spare();
        self.one_way += u64::from(spare);
        self.on_send();
        spare
    }

    /// Handles the reply to a call. `grant` is its credit value; `None` if the direction was
    /// uncertain, and for an error: see [`on_error`](Self::on_error).
    ///
    /// Zero counts as one, since a requester that may send nothing would never learn of a new
    /// grant.
    // spec: v2-5-b, bd-4.1-f
    pub fn on_reply(&mut self, credit: Credit, grant: Option<u32>) {
        self.release(credit);
        // The peer takes our messages out of its receive buffers in order. So a reply to a later
        // call proves that earlier messages have left their buffers.
        self.one_way_done = self.one_way_done.max(credit.one_way);
        if let Some(grant) = grant {
            self.granted = grant.max(1);
            self.opened = true;
        }
    }

    /// Returns whether a reply has granted credits on this connection.
    #[must_use]
    pub const fn has_reply(&self) -> bool {
        self.opened
    }

    /// Applies the credit value of an error that answers a call. An error has the direction of a
    /// reply, but only a message that is no error announces the credit limit of a new connection.
    // spec: v2-4.2.2-c, v2-5-b
    pub fn on_error(&mut self, grant: u32) {
        if self.opened {
            self.granted = grant.max(1);
        }
    }
}

/// The credits of a responder: what it has granted, and the receive buffers that the grant takes.
///
/// ```
/// use rpcrdma_proto::credit::ResponderCredits;
///
/// let mut credits = ResponderCredits::new(16, 2);
/// assert_eq!(credits.on_call(), Ok(()));
/// assert_eq!(credits.grant_with_reply(32), 16); // the peer requested more than the maximum
/// assert_eq!(credits.receives(), 18);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResponderCredits {
    /// The maximum grant.
    max_grant: u32,
    /// Receives beyond the grant, for one-way messages.
    reserved_receives: u32,
    /// The largest grant that the peer may have seen on this connection.
    highest_grant: u32,
    /// Calls received and not answered.
    pending: u32,
    /// Whether any call has arrived.
    begun: bool,
    /// The number of credits that the last answered call requested.
    last_requested: u32,
    /// The result of [`receives`](Self::receives), which each poll needs.
    receives: u32,
}

/// The peer sent more calls than it was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreditOverrun;

impl core::fmt::Display for CreditOverrun {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the peer has sent more calls than it was granted")
    }
}

impl core::error::Error for CreditOverrun {}

impl ResponderCredits {
    /// Creates the credits of a responder on a new connection, which has granted one message. It
    /// grants up to `max_grant` (at least one) and posts `reserved_receives` more receives for
    /// one-way messages.
    #[must_use]
    pub const fn new(max_grant: u32, reserved_receives: u32) -> Self {
        Self {
            max_grant: if max_grant == 0 { 1 } else { max_grant },
            reserved_receives,
            highest_grant: 1,
            pending: 0,
            begun: false,
            last_requested: 1,
            receives: reserved_receives.saturating_add(1),
        }
    }

    /// Returns the number of receives that must be posted or hold unanswered calls.
    ///
    /// That is one and the reserve until a call arrives. The number never falls below the largest
    /// grant that the peer may have seen: when a grant is lowered, calls that were sent before the
    /// peer knew of it may still arrive.
    // spec: rfc8166-3.3.1-d
    // spec: bd-4.3.1-a, bd-4.3.2-a, bd-4.3.2-b
    #[must_use]
    pub const fn receives(&self) -> u32 {
        self.receives
    }

    const fn count_receives(&mut self) {
        // Receives of the next grant are posted before the peer learns of it, and none before its
        // first call.
        let next = if self.highest_grant > self.max_grant || !self.begun {
            self.highest_grant
        } else {
            self.max_grant
        };
        self.receives = next.saturating_add(self.reserved_receives);
    }

    /// Sets the maximum grant, at least one. Receives for a larger grant must be posted before the
    /// next reply.
    pub const fn grant_up_to(&mut self, max_grant: u32) {
        self.max_grant = if max_grant == 0 { 1 } else { max_grant };
        self.count_receives();
    }

    /// Returns the number of calls received and not answered.
    #[must_use]
    pub const fn pending(&self) -> u32 {
        self.pending
    }

    /// Counts an incoming call.
    ///
    /// # Errors
    /// The peer sent more calls than it was ever granted. The call is counted nevertheless.
    pub fn on_call(&mut self) -> Result<(), CreditOverrun> {
        if !self.begun {
            self.begun = true;
            self.count_receives();
        }
        self.pending = self.pending.saturating_add(1);
        if self.pending > self.highest_grant {
            Err(CreditOverrun)
        } else {
            Ok(())
        }
    }

    /// Returns the grant of the reply to a call that requested `requested` credits.
    // spec: rfc8166-3.3.1-b, rfc8166-3.3.1-c
    #[must_use]
    pub fn next(&self, requested: u32) -> u32 {
        requested.clamp(1, self.max_grant)
    }

    /// Counts the reply to a call that requested `requested` credits, and returns the credit value
    /// of the reply.
    // spec: v2-4.2.2-g, bd-5.2-c, bd-4.1-d
    pub fn grant_with_reply(&mut self, requested: u32) -> u32 {
        self.pending = self.pending.saturating_sub(1);
        let grant = self.next(requested);
        if grant > self.highest_grant {
            self.highest_grant = grant;
            self.count_receives();
        }
        self.last_requested = requested;
        grant
    }

    /// Returns the credit value of a message in the direction of replies that is no reply: an
    /// error, a report, or the answer to an operation. It repeats the grant of the last reply, for
    /// which receives are posted; before any reply it is one.
    // spec: v2-4.2.2-g, bd-4.1-c
    #[must_use]
    pub fn current_grant(&self) -> u32 {
        self.next(self.last_requested).min(self.highest_grant)
    }

    /// Counts a call that ends without a reply: it was dropped, or answered with an error.
    pub fn on_dropped(&mut self) {
        self.drop_all(1);
    }

    /// Counts messages that need no reply: the transmissions of a call that ends.
    pub fn drop_all(&mut self, messages: u32) {
        self.pending = self.pending.saturating_sub(messages);
    }
}

#[cfg(test)]
mod tests;
