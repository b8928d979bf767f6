//! Credits: how many messages may be under way at once (RFC 8166, section 3.3; bidirection-04, section 4).
//!
//! Each direction has its own, at both ends: a [`Requester`] counts what it may still send, a [`Responder`] what it must
//! have receive buffers for. Neither sends or receives anything; both are told.

/// What a call has when it goes out: which one-way messages went before it.
///
/// It stands for the call's credit, and is given back with the reply.
#[must_use = "the credit is taken until `replied` has it back"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit {
    /// How many one-way messages had been sent.
    one_way: u64,
    /// Transmissions that continue the call.
    parts: u32,
}

impl Credit {
    /// How many messages it stands for.
    #[must_use]
    pub const fn messages(&self) -> u32 {
        self.parts.saturating_add(1)
    }
}

/// The requester's side: what it may send.
///
/// ```
/// use rpcrdma_proto::credit::Requester;
///
/// let mut credits = Requester::new(32);
/// assert_eq!(credits.wanted(), 32);
/// // One message until a reply tells of more.
/// let Some(first) = credits.call() else { panic!() };
/// assert!(credits.call().is_none());
/// credits.replied(first, Some(8));
/// assert_eq!(credits.available(), 8);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Requester {
    /// What is asked for in every call.
    wanted: u32,
    /// What the last reply granted.
    granted: u32,
    /// Calls without a reply.
    calls: u32,
    /// Transmissions that continue them.
    parts: u32,
    /// One-way messages sent, and those of them whose receive buffers are known to be free again.
    one_way: u64,
    one_way_done: u64,
    /// The most messages that were under way at once.
    most_used: u32,
}

impl Requester {
    /// A requester on a new connection: it may send one message (RFC 8166, section 3.3.3).
    ///
    /// `wanted` is what it asks for; zero asks for one.
    // spec: v2-5-b
    #[must_use]
    pub const fn new(wanted: u32) -> Self {
        let wanted = if wanted == 0 { 1 } else { wanted };
        Self { wanted, granted: 1, calls: 0, parts: 0, one_way: 0, one_way_done: 0, most_used: 0 }
    }

    /// What to ask for: the credit value of every call.
    // spec: v2-4.2.2-g, bd-5.1-c
    #[must_use]
    pub const fn wanted(&self) -> u32 {
        self.wanted
    }

    /// Asks for another number from now on.
    pub const fn want(&mut self, wanted: u32) {
        self.wanted = if wanted == 0 { 1 } else { wanted };
    }

    /// What the last reply granted.
    #[must_use]
    pub const fn granted(&self) -> u32 {
        self.granted
    }

    /// Calls without a reply.
    #[must_use]
    pub const fn calls(&self) -> u32 {
        self.calls
    }

    /// Messages of calls without a reply.
    #[must_use]
    pub const fn messages(&self) -> u32 {
        self.calls.saturating_add(self.parts)
    }

    /// Messages under way: calls without a reply, and one-way messages which may still be in the peer's receive buffers.
    #[must_use]
    pub fn used(&self) -> u32 {
        let one_way = u32::try_from(self.one_way - self.one_way_done).unwrap_or(u32::MAX);
        self.calls.saturating_add(self.parts).saturating_add(one_way)
    }

    /// How many receives must be posted for what may come in answer: one for each message that is under way, and not fewer
    /// than there were before.
    // spec: bd-4.3.1-b, bd-4.3.1-d, bd-4.3.2-c, bd-4.3.2-e
    #[must_use]
    pub const fn receives(&self) -> u32 {
        self.most_used
    }

    /// A message was begun.
    fn sends(&mut self) {
        self.most_used = self.most_used.max(self.used());
    }

    /// How many messages may be sent now.
    #[must_use]
    pub fn available(&self) -> u32 {
        self.granted.saturating_sub(self.used())
    }

    /// Takes a credit for a call; none if there is none.
    ///
    /// One call may always be under way: where a grant fell below the one-way messages that are, no other reply could
    /// ever give their credits back.
    // spec: bd-4-c
    pub fn call(&mut self) -> Option<Credit> {
        if self.available() == 0 && self.calls > 0 {
            return None;
        }
        self.calls += 1;
        self.sends();
        Some(Credit { one_way: self.one_way, parts: 0 })
    }

    /// Takes the credits of a call in several transmissions: all or none, so that no two calls wait for each other
    /// (decision D24).
    // spec: rtr-4.3-c
    pub fn group(&mut self, messages: u32) -> Option<Credit> {
        if messages <= 1 {
            return self.call();
        }
        if self.available() < messages {
            return None;
        }
        self.calls += 1;
        self.parts += messages - 1;
        self.sends();
        Some(Credit { one_way: self.one_way, parts: messages - 1 })
    }

    /// Gives back the credit of a call that was not sent after all.
    pub fn unused(&mut self, credit: Credit) {
        self.calls = self.calls.saturating_sub(1);
        self.parts = self.parts.saturating_sub(credit.parts);
    }

    /// A call in several transmissions was answered by an error: some of them may be still under way, and give back their
    /// credits with the reply to a later call.
    pub fn broken(&mut self, credit: Credit) {
        self.unused(credit);
        self.one_way += u64::from(credit.parts);
    }

    /// Counts the message that tells the properties of a new connection: it takes no credit that must be there, since the
    /// peer has a receive for it beyond its grants (decision D9).
    pub fn first(&mut self) {
        self.one_way += 1;
        self.sends();
    }

    /// Whether a message that has no reply may be sent: one credit is left for a call then, or nothing is under way.
    ///
    /// Where one message is granted there is never more than that. The receive which the peer has beyond its grants
    /// (decision D9) is free again by then, and takes the call that brings the credit back.
    #[must_use]
    pub fn can_spare(&self) -> bool {
        self.available() >= 2 || self.used() == 0
    }

    /// Takes a credit for a message that has no reply (decision D9); false if there is none to spare. It comes back with the
    /// reply to a call that is sent later, so that the last credit is kept for a call.
    // spec: v2-4.2.2-g
    pub fn one_way(&mut self) -> bool {
        let spare = self.can_spare();
        self.one_way += u64::from(spare);
        self.sends();
        spare
    }

    /// A call's reply has come. `grant` is its credit value, or `None` for an error, whose value says nothing
    /// (RFC 8166, section 3.3.3), and where the direction was not certain.
    ///
    /// Zero is taken as one: a requester that may send nothing could never be told otherwise.
    // spec: v2-5-b, bd-4.1-f
    pub fn replied(&mut self, credit: Credit, grant: Option<u32>) {
        self.unused(credit);
        // The peer answers in the order of its receive buffers no less than in that of our messages: a reply to a later
        // call means that earlier messages have been taken out of theirs.
        self.one_way_done = self.one_way_done.max(credit.one_way);
        if let Some(grant) = grant {
            self.granted = grant.max(1);
        }
    }
}

/// The responder's side: what it has granted, and the receive buffers which that takes.
///
/// ```
/// use rpcrdma_proto::credit::Responder;
///
/// let mut credits = Responder::new(16, 2);
/// assert_eq!(credits.received(), Ok(()));
/// assert_eq!(credits.reply(32), 16); // as the peer asked for more than there is
/// assert_eq!(credits.receives(), 18);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Responder {
    /// The most that is granted.
    most: u32,
    /// Receives beyond the grants, for messages without a reply.
    reserve: u32,
    /// The largest grant that the peer may have seen on this connection.
    highest: u32,
    /// Calls received and not answered.
    pending: u32,
    /// Whether any has come.
    begun: bool,
}

/// A peer has sent more calls than it was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overrun;

impl core::fmt::Display for Overrun {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the peer has sent more calls than it was granted")
    }
}

impl core::error::Error for Overrun {}

impl Responder {
    /// A responder on a new connection, which has granted one message. It grants up to `most` (at least one), and keeps
    /// `reserve` receives more for messages without a reply.
    #[must_use]
    pub const fn new(most: u32, reserve: u32) -> Self {
        Self { most: if most == 0 { 1 } else { most }, reserve, highest: 1, pending: 0, begun: false }
    }

    /// How many receives must be posted or hold calls that are not answered.
    ///
    /// As long as no call has come, that is one and the reserve. It never falls on a connection: when a grant is lowered, calls
    /// that were sent before the peer knew of it may come at any time.
    // spec: bd-4.3.1-a, bd-4.3.2-a, bd-4.3.2-b
    #[must_use]
    pub const fn receives(&self) -> u32 {
        // Those of the next grant are posted before the peer hears of it, and none before it has asked.
        let next = if self.highest > self.most || !self.begun { self.highest } else { self.most };
        next.saturating_add(self.reserve)
    }

    /// Grants up to another number from now on, at least one. Receives for more are to be posted before the next reply.
    pub const fn grant_up_to(&mut self, most: u32) {
        self.most = if most == 0 { 1 } else { most };
    }

    /// Calls received and not answered.
    #[must_use]
    pub const fn pending(&self) -> u32 {
        self.pending
    }

    /// A call has come.
    ///
    /// # Errors
    /// The peer has sent more than it was ever granted. The call counts all the same.
    pub fn received(&mut self) -> Result<(), Overrun> {
        self.begun = true;
        self.pending = self.pending.saturating_add(1);
        if self.pending > self.highest { Err(Overrun) } else { Ok(()) }
    }

    /// What the reply to a call that asked for `wanted` grants.
    #[must_use]
    pub fn next(&self, wanted: u32) -> u32 {
        wanted.clamp(1, self.most)
    }

    /// A call is being answered: the credit value of its reply, where the call asked for `wanted`.
    // spec: v2-4.2.2-g, bd-5.2-c, bd-4.1-d
    pub fn reply(&mut self, wanted: u32) -> u32 {
        self.pending = self.pending.saturating_sub(1);
        let grant = self.next(wanted);
        self.highest = self.highest.max(grant);
        grant
    }

    /// A call ends without a reply: it was dropped, or an error answers it.
    pub fn dropped(&mut self) {
        self.drop_all(1);
    }

    /// So many messages need no reply any more: the transmissions of a call that ends.
    pub fn drop_all(&mut self, messages: u32) {
        self.pending = self.pending.saturating_sub(messages);
    }
}

#[cfg(test)]
mod tests;
