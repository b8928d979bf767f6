//! One session and its queue pair: the engine's actions become work requests, and completions go into the engine.

mod asking;
mod exposing;
mod receiving;
mod sending;

use arrayvec::ArrayVec;
use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{Action, Event, Failure, Laid, Reason, ReplyError, Sent, Served, Session};
use rpcrdma_proto::travel::{Call, ITEMS, RESULTS};
use tracing::{Span, debug, debug_span, warn};

use super::Scratch;
use super::exposure::{Bound, Exposed};
use super::message::{Message, WriteError, Writer};
use super::told::{Counters, GivenBack, Items, Memory, Payload, Refused, Request, Told, Unanswered};
use crate::fifo::Fifo;
use crate::memory::{Buf, Lent, MemoryError, Pool};
use crate::provider::{Completion, Device, QueuePair as _, Status};
use crate::queue::{Done, Endpoint, Received, SLICES, Tail};
pub(crate) use asking::Asked;
use asking::Silence;
use receiving::Kept;

/// Regions that one call exposes.
const REGIONS: usize = ITEMS + RESULTS + 2;
/// Requests that one action or message may need beside those for the segments of a peer's.
const BURST: usize = 64;
/// After so many requests one is signaled, to give back what the others use.
const SIGNAL: u32 = 16;

/// A session with its transport.
#[derive(Debug)]
pub(crate) struct Connection<D: Device> {
    pub(crate) session: Session,
    pub(crate) endpoint: Option<Endpoint<D, Work>>,
    /// What the session wants done about the connection itself.
    pub(crate) wish: Option<Wish>,
    // By the engine's places, of which the last that was free is used first: there are as many as were ever used at once.
    calls: Vec<Ours<D>>,
    served: Vec<Theirs>,
    /// A message for the next call: its place is not known before it is written.
    spare: Message,
    /// Receive buffers that the session has kept.
    kept: Vec<Option<Kept>>,
    free: Vec<usize>,
    /// Memory for the lists of segments of receive buffers, and for the items of calls.
    #[expect(clippy::vec_box, reason = "the boxes are used as they are")]
    tails: Vec<Box<Tail>>,
    #[expect(clippy::vec_box, reason = "the boxes are used as they are")]
    spare_items: Vec<Box<Items>>,
    /// What follows the header of the message that is being sent.
    laid: Vec<Laid>,
    /// Whether the message that is being sent in transmissions has memory that is not copied.
    holds: bool,
    /// Zeros to be sent between data.
    zeros: Option<Lent>,
    /// Slices that one Send may have, and octets that it may take along.
    slices: usize,
    inline: u32,
    pool: Pool<D>,
    windows: Vec<Bound<D>>,
    /// Whether memory is exposed by windows.
    uses_windows: bool,
    unsignaled: u32,
    /// Calls whose fence was flushed: their memory is their own when the queue pair is gone.
    unfenced: Vec<u32>,
    /// With more requests under way there may not be room for another message's.
    most_under_way: usize,
    reads: Vec<(u32, Segment)>,
    /// Whether it waits for room in the send queue.
    pub(crate) stalled: bool,
    pub(crate) events: Fifo<Told>,
    pub(crate) counters: Counters,
    silence: Silence,
}

/// What the driver is to do about a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    Connect,
    Close(Reason),
}

/// What a work request was for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// A message: what it belongs to, where its memory was not copied.
    Send(Sent),
    /// A part of something that a later request ends.
    Part,
    /// The last RDMA Read of a call of the peer's.
    Read(Served),
    /// The last window of a call was made unreachable.
    Fence(u32),
    /// What the peer is asked by, to see whether it is there.
    Question,
    /// What goes after all else, before the connection is closed.
    Last(Reason),
}

/// A call of ours.
#[derive(Debug)]
struct Ours<D: Device> {
    message: Message,
    // On the heap, once the place is used for them: most places of most connections never are.
    results: Vec<Lent>,
    whole: Option<Lent>,
    reply: Option<Lent>,
    exposed: Vec<Exposed<D>>,
    span: Span,
    /// The call that has ended here, and whose memory was not taken, with what was written to its results.
    ended: Option<u32>,
    written: ArrayVec<u32, RESULTS>,
}

/// A call of the peer's.
#[derive(Debug, Default)]
struct Theirs {
    /// The whole call, while it is being put together, and where it begins there.
    whole: Option<(Lent, u32)>,
    reply: Message,
    /// The reply, where it goes to the Reply chunk.
    long: Option<Lent>,
}

impl<D: Device> Default for Ours<D> {
    fn default() -> Self {
        Self {
            message: Message::default(),
            results: Vec::new(),
            whole: None,
            reply: None,
            exposed: Vec::new(),
            span: Span::none(),
            ended: None,
            written: ArrayVec::new(),
        }
    }
}

/// What is at one of the engine's places, which are not more than it has.
fn at<T: Default>(places: &mut Vec<T>, place: usize) -> Option<&mut T> {
    if place >= places.len() {
        places.resize_with(place + 1, T::default);
    }
    places.get_mut(place)
}

impl<D: Device> Connection<D> {
    pub(crate) fn new(session: Session, requests: usize, uses_windows: bool, pool: &Pool<D>) -> Self {
        let burst = BURST + session.config().limits.segments as usize;
        Self {
            tails: Vec::new(),
            spare_items: Vec::new(),
            laid: Vec::new(),
            holds: false,
            zeros: None,
            slices: pool.device().capabilities().slices.min(SLICES),
            inline: pool.device().capabilities().inline,
            pool: pool.clone(),
            calls: Vec::new(),
            served: Vec::new(),
            spare: Message::default(),
            session,
            endpoint: None,
            wish: None,
            kept: Vec::new(),
            free: Vec::new(),
            windows: Vec::new(),
            uses_windows,
            unsignaled: 0,
            unfenced: Vec::new(),
            most_under_way: requests.saturating_sub(burst),
            reads: Vec::new(),
            stalled: false,
            events: Fifo::new(),
            counters: Counters::default(),
            silence: Silence::default(),
        }
    }

    /// Begins a call, whose RPC message `write` writes: with any XID, which is replaced. It takes the memory for the results;
    /// what is refused gives back all.
    pub(crate) fn call(
        &mut self,
        request: &mut Request,
        write: impl FnOnce(&mut Writer<'_>) -> std::result::Result<(), WriteError>,
    ) -> std::result::Result<u32, GivenBack<Refused>> {
        // A call that was cancelled since may have had the place that this one gets.
        self.take_events();
        let Self { spare: message, session, calls, .. } = self;
        message.forget();
        let written = write(&mut Writer::new(message)).map_err(Refused::Write);
        match written.and_then(|()| begin(session, message, request)) {
            Ok(xid) => {
                if let Some(place) = message.head.first_chunk_mut() {
                    *place = xid.to_be_bytes();
                }
                if let Some(ours) = at(calls, session.place(xid)) {
                    // The message that was there becomes the spare one.
                    std::mem::swap(&mut ours.message, message);
                    ours.results.clear();
                    if !request.results.is_empty() {
                        ours.results.extend(request.results.drain(..).map(Lent::from));
                    }
                    ours.ended = None;
                    ours.span = debug_span!("rpc", xid, octets = ours.message.length());
                }
                Ok(xid)
            }
            Err(why) => {
                let memory = Memory { items: owned(message.clear()), results: std::mem::take(&mut request.results) };
                Err(GivenBack { why, memory: Box::new(memory) })
            }
        }
    }

    /// Answers a call of the peer's by the RPC message that `write` writes.
    pub(crate) fn reply(
        &mut self,
        call: Served,
        write: impl FnOnce(&mut Writer<'_>) -> std::result::Result<(), WriteError>,
    ) -> std::result::Result<(), Unanswered> {
        // What is in the call's place may be on its way: it stays until it is known that this one is the reply.
        let mut message = std::mem::take(&mut self.spare);
        message.forget();
        let written = write(&mut Writer::new(&mut message)).map_err(Unanswered::Write);
        let replied = written.and_then(|()| self.reply_with(call, &mut message).map_err(Unanswered::Reply));
        self.spare = message;
        replied
    }

    /// Answers a call of the peer's by a message that is written already, and takes it.
    pub(crate) fn reply_with(&mut self, call: Served, message: &mut Message) -> std::result::Result<(), ReplyError> {
        let place = self.session.served_place(call);
        let theirs = at(&mut self.served, place).ok_or(ReplyError::Ended)?;
        self.session.reply(call, message.length(), message.results())?;
        std::mem::swap(&mut theirs.reply, message);
        Ok(())
    }

    /// Takes back what a call came in, when nobody looks at it any more.
    pub(crate) fn seen(&mut self, payload: Payload) {
        if let Some(mut items) = payload.items {
            items.clear();
            self.spare_items.push(items);
        }
    }

    /// Does all that the session wants done, as far as the send queue has room, and posts it.
    #[inline]
    pub(crate) fn drive(
        &mut self,
        device: &D,
        pool: &Pool<D>,
        scratch: &mut Scratch,
        now: u64,
        watch: &mut impl FnMut(&[u8]),
    ) {
        // What has ended goes first: its place may be another's by now, for which actions wait.
        self.take_events();
        if !self.session.is_at_rest() {
            self.drive_on(device, pool, scratch, now, watch);
        }
    }

    fn drive_on(&mut self, device: &D, pool: &Pool<D>, scratch: &mut Scratch, now: u64, watch: &mut impl FnMut(&[u8])) {
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.exchange(&mut scratch.batch);
        }
        loop {
            let mut sent = false;
            while self.has_room()
                && let Some(action) = self.session.poll_action()
            {
                self.act(action, device, pool);
            }
            while self.has_room()
                && let Some(transmit) = self.session.poll_transmit(now, &mut scratch.header)
            {
                sent = true;
                self.transmit(&transmit, pool, &scratch.header, watch);
            }
            // What was sent may ask for more, and what was not.
            let goes_on = sent || self.session.has_actions();
            if self.stalled || !goes_on || self.session.is_at_rest() {
                break;
            }
        }
        if let Some(endpoint) = &mut self.endpoint {
            self.counters.posted += endpoint.waiting() as u64;
            if endpoint.has_batch()
                && let Err(error) = endpoint.post()
            {
                debug!(%error, "a batch was refused");
                self.wish = Some(Wish::Close(Reason::Lost));
            }
            endpoint.exchange(&mut scratch.batch);
        }
        self.take_events();
    }

    /// Most of the times that it is looked there is none.
    #[inline(always)]
    fn take_events(&mut self) {
        if self.session.has_events() {
            self.take_all_events();
        }
    }

    #[inline(never)]
    fn take_all_events(&mut self) {
        while let Some(event) = self.session.poll_event() {
            self.tell(event);
        }
    }

    fn has_room(&mut self) -> bool {
        let under_way = self.endpoint.as_ref().map_or(0, Endpoint::under_way);
        self.stalled = under_way > self.most_under_way;
        !self.stalled
    }

    fn act(&mut self, action: Action, device: &D, pool: &Pool<D>) {
        match action {
            Action::Connect => self.wish = Some(Wish::Connect),
            Action::Close { why } => self.close(why, pool),
            // What is shared the driver posts.
            Action::PostReceives { .. } if self.endpoint.as_ref().is_some_and(Endpoint::shares) => {}
            Action::PostReceives { count, size } => {
                for _ in 0..count {
                    let Some(buffer) = self.receive_buffer(size, pool) else { return };
                    if let Some(endpoint) = &mut self.endpoint {
                        endpoint.push_receive(buffer);
                    }
                }
            }
            Action::Expose { xid } => self.expose(xid, device, pool),
            Action::Fence { xid, invalidated } => self.fence(xid, invalidated),
            Action::Read { call, buffer, inline } => self.read(call, buffer, inline, pool),
            Action::Gather { call, message } => self.gather(call, message, pool),
            Action::Free { message } => self.done_with(message),
        }
    }

    /// Closes the connection: at once, unless what was sent is to be there first.
    #[cold]
    fn close(&mut self, why: Reason, pool: &Pool<D>) {
        let waits = why == Reason::Drained && self.endpoint.as_ref().is_some_and(|endpoint| endpoint.under_way() > 0);
        if !(waits && self.push_question(Work::Last(why), pool)) {
            self.wish = Some(Wish::Close(why));
        }
    }

    /// The same, where it is seldom needed.
    #[cold]
    fn take_rarely(&mut self, octets: u32, pool: &Pool<D>) -> Option<Buf> {
        self.take(octets, pool)
    }

    /// Takes a buffer that the connection can't go on without.
    #[inline(always)]
    fn take(&mut self, octets: u32, pool: &Pool<D>) -> Option<Buf> {
        match pool.take(octets) {
            Ok(buf) => Some(buf),
            Err(error) => {
                self.wish = Some(given_up(&error));
                None
            }
        }
    }

    /// A completion of this connection's. False if the queue pair has failed.
    pub(crate) fn complete(&mut self, completion: &Completion) -> bool {
        let Some(endpoint) = &mut self.endpoint else { return true };
        self.counters.completed += 1;
        match endpoint.complete(completion) {
            Done::Receive(buf, Status::Success) => {
                self.received(buf, completion.invalidated);
                true
            }
            Done::Receive(..) => false,
            Done::Requests(_, status) => {
                while let Some((work, is_last)) = self.endpoint.as_mut().and_then(Endpoint::retire) {
                    self.retired(work, !is_last || status == Status::Success);
                }
                status == Status::Success
            }
            Done::Unknown => true,
        }
    }

    /// A completion of a shared receive, by which this connection has received. False if the queue pair has failed.
    pub(crate) fn complete_shared(&mut self, completion: &Completion, buf: Received) -> bool {
        // It may be left of an earlier queue pair.
        let ours = |endpoint: &&Endpoint<D, Work>| endpoint.pair().number() == completion.queue_pair;
        if self.endpoint.as_ref().filter(ours).is_none() {
            return true;
        }
        self.counters.completed += 1;
        let done = completion.status == Status::Success;
        if done {
            self.received(buf, completion.invalidated);
        }
        done
    }

    fn retired(&mut self, work: Work, done: bool) {
        match work {
            Work::Send(what) => self.released(what),
            Work::Read(call) if done => {
                self.silence.reads += 1;
                self.session.moved(call);
            }
            Work::Question => self.silence.reads += u64::from(done),
            Work::Fence(xid) if done => self.fenced(xid),
            Work::Fence(xid) => self.unfenced.push(xid),
            Work::Last(why) => self.wish = Some(Wish::Close(why)),
            Work::Part | Work::Read(_) => {}
        }
    }

    #[inline]
    fn tell(&mut self, event: Event) {
        match event {
            Event::Ready { version } => self.events.push(Told::Ready(version)),
            Event::CallArrived { call, xid, message } => {
                if let Some(message) = self.arrived(call, message) {
                    self.events.push(Told::Arrived { call, xid, message });
                }
            }
            Event::CallEnded { call, .. } => self.call_ended(call),
            Event::ReplyArrived { xid, reply } => {
                if let Some(message) = self.replied(xid, reply) {
                    self.events.push(Told::Replied { xid, message });
                }
            }
            Event::CallFailed { xid, why } => self.failed(xid, why),
            Event::Broken { report, ours } => debug!(why = %report.why, ours, "a group of transmissions was broken"),
            Event::PropertiesChanged | Event::PropertyAnswered { .. } | Event::PeerError { .. } => {}
            Event::Operation { operation } => drop(self.give_back(operation.buffer)),
            Event::Closed { why, last } => {
                debug!(%why, last, "closed");
                self.events.push(Told::Closed { why, last });
            }
        }
    }

    /// Nothing sends what a message belongs to any more.
    #[inline]
    fn released(&mut self, what: Sent) {
        if self.session.released(what)
            && let Sent::Reply { call } = what
        {
            self.call_ended(call);
        }
    }

    /// A call of the peer's has ended: nobody needs its reply any more.
    #[inline]
    fn call_ended(&mut self, call: Served) {
        if let Some(theirs) = self.served.get_mut(self.session.served_place(call)) {
            (theirs.whole, theirs.long) = (None, None);
            theirs.reply.forget();
        }
    }

    #[cold]
    fn failed(&mut self, xid: u32, why: Failure) {
        if let Some(ours) = self.calls.get(self.session.place(xid)) {
            debug!(parent: &ours.span, %why, "failed");
        }
        self.done(xid, &[]);
        self.events.push(Told::Failed { xid, why });
    }

    /// A call has ended: its memory waits to be taken, with the octets that were written to each result.
    fn done(&mut self, xid: u32, written: &[u32]) {
        let place = self.session.place(xid);
        let Some(ours) = self.calls.get_mut(place) else { return };
        (ours.whole, ours.reply, ours.ended) = (None, None, Some(xid));
        ours.span = Span::none();
        ours.written.clear();
        ours.written.extend(written.iter().copied().take(RESULTS));
    }

    /// The memory of a call that has ended; nothing once its place is another's.
    pub(crate) fn take_memory(&mut self, xid: u32) -> Memory {
        let place = self.session.place(xid);
        let Some(ours) = self.calls.get_mut(place).filter(|ours| ours.ended == Some(xid)) else {
            return Memory::default();
        };
        ours.ended = None;
        let items = owned(ours.message.clear());
        let mut results: ArrayVec<Buf, RESULTS> = owned(ours.results.drain(..));
        for (number, result) in results.iter_mut().enumerate() {
            result.set_len(ours.written.get(number).copied().unwrap_or(0));
        }
        Memory { items, results }
    }

    /// The queue pair is gone, and all that was posted with it.
    pub(crate) fn lost(&mut self, now: u64, why: Reason) {
        if let Some(endpoint) = self.endpoint.take() {
            endpoint.close().for_each(|work| self.retired(work, false));
        }
        // Windows are reached through the queue pair alone.
        let mut unfenced = std::mem::take(&mut self.unfenced);
        unfenced.drain(..).for_each(|xid| self.fenced(xid));
        self.unfenced = unfenced;
        self.windows.clear();
        self.unsignaled = 0;
        self.wish = None;
        self.begin_to_listen();
        self.session.lost(now, why);
    }
}

/// Begins a call whose message is written.
fn begin(session: &mut Session, message: &Message, request: &Request) -> Result<u32, Refused> {
    let Request { results, largest_reply, reducible, deadline } = request;
    let (mut items, mut wanted) = (ArrayVec::new(), ArrayVec::new());
    message.tell_items(&mut items);
    message.tell_wanted(results, &mut wanted).map_err(Refused::Write)?;
    let call = Call {
        length: message.length(),
        items: &items,
        largest_reply: *largest_reply,
        results: &wanted,
        reducible: *reducible,
    };
    session.call(&call, *deadline).map_err(Refused::Call)
}

/// What becomes of a connection that has no memory to go on with.
#[cold]
fn given_up(error: &MemoryError) -> Wish {
    warn!(%error, "a connection is given up for want of memory");
    Wish::Close(Reason::Lost)
}

/// Buffers that nothing uses any more.
fn owned<const N: usize>(lent: impl IntoIterator<Item = Lent>) -> ArrayVec<Buf, N> {
    lent.into_iter().filter_map(|buf| buf.into_buf().ok()).collect()
}
