//! One session and its queue pair: the engine's actions become work requests, and completions go into the engine.

use std::collections::VecDeque;
use std::ops::Range;

use arrayvec::ArrayVec;
use rpcrdma_proto::chunk::{Piece, Segment};
use rpcrdma_proto::connection::{
    Action, Buffer, Event, Exposure, Held, Message as Place, Reason, Region, ReplyError, Sent, Served, Session,
    Transmit,
};
use rpcrdma_proto::travel::{Call, ITEMS, Item, RESULTS};
use tracing::{Span, debug, debug_span, warn};

use super::Scratch;
use super::exposure::{Bound, Exposed};
use super::message::{Message, WriteError, Writer};
use super::told::{Counters, GivenBack, Memory, Payload, Refused, Request, Told, Unanswered};
use crate::memory::{Buf, Lent, Pool};
use crate::provider::{Access, Completion, Device, Operation, QueuePair as _, Remote, Status};
use crate::queue::{Done, Endpoint, Part};

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
    // By the engine's places, of which the lowest are used first: there are as many as were ever used at once.
    calls: Vec<Ours<D>>,
    served: Vec<Theirs>,
    /// A message for the next call: its place is not known before it is written.
    spare: Message,
    /// Receive buffers that the session has kept.
    kept: Vec<Option<Buf>>,
    free: Vec<usize>,
    windows: Vec<Bound<D>>,
    /// Whether memory is exposed by windows.
    uses_windows: bool,
    unsignaled: u32,
    /// Calls whose fence was flushed: their memory is their own when the queue pair is gone.
    unfenced: Vec<u32>,
    requests: usize,
    reads: Vec<(u32, Segment)>,
    /// Whether it waits for room in the send queue.
    pub(crate) stalled: bool,
    pub(crate) events: VecDeque<Told>,
    pub(crate) counters: Counters,
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
    /// The whole call, while it is being put together.
    whole: Option<Lent>,
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
    pub(crate) fn new(session: Session, requests: usize, uses_windows: bool) -> Self {
        Self {
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
            requests,
            reads: Vec::new(),
            stalled: false,
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Begins a call, whose RPC message `write` writes: with any XID, which is replaced. What is refused gives back its memory.
    pub(crate) fn call(
        &mut self,
        request: Request,
        write: impl FnOnce(&mut Writer<'_>) -> std::result::Result<(), WriteError>,
    ) -> std::result::Result<u32, GivenBack<Refused>> {
        // A call that was cancelled since may have had the place that this one gets.
        self.take_events();
        let mut message = std::mem::take(&mut self.spare);
        message.forget();
        let written = write(&mut Writer::new(&mut message)).map_err(Refused::Write);
        let Request { results, largest_reply, reducible, deadline } = request;
        let sizes: ArrayVec<u32, RESULTS> = results.iter().map(Buf::capacity).collect();
        let call =
            Call { length: message.length(), items: &message.items(), largest_reply, results: &sizes, reducible };
        let begun = written.and_then(|()| self.session.call(&call, deadline).map_err(Refused::Call));
        let told = match begun {
            Ok(xid) => {
                if let Some(place) = message.head.first_chunk_mut() {
                    *place = xid.to_be_bytes();
                }
                let place = self.session.place(xid);
                if let Some(ours) = at(&mut self.calls, place) {
                    // The message that was there becomes the spare one.
                    std::mem::swap(&mut ours.message, &mut message);
                    ours.results.clear();
                    ours.results.extend(results.into_iter().map(Lent::from));
                    ours.ended = None;
                    ours.span = debug_span!("rpc", xid, octets = ours.message.length());
                }
                Ok(xid)
            }
            Err(why) => {
                let memory = Box::new(Memory { items: owned(message.clear()), results });
                Err(GivenBack { why, memory })
            }
        };
        self.spare = message;
        told
    }

    /// Answers a call of the peer's by the RPC message that `write` writes.
    pub(crate) fn reply(
        &mut self,
        call: Served,
        write: impl FnOnce(&mut Writer<'_>) -> std::result::Result<(), WriteError>,
    ) -> std::result::Result<(), Unanswered> {
        let place = self.session.served_place(call);
        let theirs = at(&mut self.served, place).ok_or(Unanswered::Reply(ReplyError::Ended))?;
        theirs.reply.forget();
        write(&mut Writer::new(&mut theirs.reply)).map_err(Unanswered::Write)?;
        let items: ArrayVec<Item, ITEMS> = theirs.reply.items();
        self.session.reply(call, theirs.reply.length(), &items).map_err(Unanswered::Reply)
    }

    /// Answers a call of the peer's by a message that is written already, and takes it.
    pub(crate) fn reply_with(&mut self, call: Served, message: &mut Message) -> std::result::Result<(), ReplyError> {
        let place = self.session.served_place(call);
        let theirs = at(&mut self.served, place).ok_or(ReplyError::Ended)?;
        let items: ArrayVec<Item, ITEMS> = message.items();
        self.session.reply(call, message.length(), &items)?;
        std::mem::swap(&mut theirs.reply, message);
        Ok(())
    }

    /// Does all that the session wants done, as far as the send queue has room, and posts it.
    pub(crate) fn drive(
        &mut self,
        device: &D,
        pool: &Pool<D>,
        scratch: &mut Scratch,
        now: u64,
        watch: &mut impl FnMut(&[u8]),
    ) {
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.exchange(&mut scratch.batch);
        }
        // What has ended goes first: its place may be another's by now, for which actions wait.
        self.take_events();
        loop {
            let mut idle = true;
            while self.has_room()
                && let Some(action) = self.session.poll_action()
            {
                idle = false;
                self.act(action, device, pool);
            }
            while self.has_room()
                && let Some(transmit) = self.session.poll_transmit(now, &mut scratch.header)
            {
                idle = false;
                self.transmit(transmit, pool, &scratch.header, watch);
            }
            if idle {
                break;
            }
        }
        if let Some(endpoint) = &mut self.endpoint {
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

    fn take_events(&mut self) {
        while let Some(event) = self.session.poll_event() {
            self.tell(event);
        }
    }

    fn has_room(&mut self) -> bool {
        let under_way = self.endpoint.as_ref().map_or(0, Endpoint::under_way);
        let burst = BURST + self.session.config().limits.segments as usize;
        self.stalled = under_way + burst > self.requests;
        !self.stalled
    }

    fn act(&mut self, action: Action, device: &D, pool: &Pool<D>) {
        match action {
            Action::Connect => self.wish = Some(Wish::Connect),
            Action::Close { why } => self.wish = Some(Wish::Close(why)),
            // What is shared the driver posts.
            Action::PostReceives { .. } if self.endpoint.as_ref().is_some_and(Endpoint::shares) => {}
            Action::PostReceives { count, size } => {
                for _ in 0..count {
                    let Some(buf) = self.take(size, pool) else { return };
                    if let Some(endpoint) = &mut self.endpoint {
                        endpoint.push_receive(buf);
                    }
                }
            }
            Action::Expose { xid } => self.expose(xid, device, pool),
            Action::Fence { xid, invalidated } => self.fence(xid, invalidated),
            Action::Read { call, buffer, inline } => self.read(call, buffer, inline, pool),
        }
    }

    /// Takes a buffer that the connection can't go on without.
    #[inline]
    fn take(&mut self, octets: u32, pool: &Pool<D>) -> Option<Buf> {
        match pool.take(octets) {
            Ok(buf) => Some(buf),
            Err(error) => {
                warn!(%error, "a connection is given up for want of memory");
                self.wish = Some(Wish::Close(Reason::Lost));
                None
            }
        }
    }

    /// Exposes what a call needs: the binds go before the call itself, in the same queue.
    fn expose(&mut self, xid: u32, device: &D, pool: &Pool<D>) {
        let exposures: ArrayVec<Exposure, REGIONS> = self.session.exposures(xid).collect();
        let mut segments = ArrayVec::<[Segment; 1], REGIONS>::new();
        for exposure in exposures {
            match self.expose_one(xid, exposure, device, pool) {
                Some(segment) => segments.push([segment]),
                None => return self.session.unexposable(xid),
            }
        }
        self.counters.exposed += segments.len() as u64;
        self.session.exposed(xid, segments.iter().map(<[Segment; 1]>::as_slice));
    }

    fn expose_one(&mut self, xid: u32, exposure: Exposure, device: &D, pool: &Pool<D>) -> Option<Segment> {
        let Exposure { region, length } = exposure;
        let ours = self.calls.get_mut(self.session.place(xid))?;
        let (memory, from) = match region {
            Region::Item(number) => ours.message.source(number).map(|(buf, from)| (buf.clone(), from))?,
            Region::Result(number) => (ours.results.get(number)?.clone(), 0),
            Region::Call => {
                let mut whole = pool.take(length).ok()?;
                ours.message.copy(0..length, whole.as_full_mut());
                whole.set_len(length);
                self.counters.copied += u64::from(length);
                (ours.whole.insert(whole.into()).clone(), 0)
            }
            Region::Reply => (ours.reply.insert(pool.take(length).ok()?.into()).clone(), 0),
        };
        let access = if region.is_written() { Access::REMOTE_WRITE } else { Access::REMOTE_READ };
        let slice = memory.slice(from, length)?;
        let exposed = if self.uses_windows {
            let mut bound = self.windows.pop().or_else(|| Bound::new(device).ok())?;
            let (window, key) = (bound.number(), bound.next_key());
            let part = Part { buf: memory.clone(), from, length };
            let pushed =
                self.endpoint.as_mut()?.push(Operation::Bind { window, key, access }, &[part], false, Work::Part);
            pushed.then_some(())?;
            Exposed::Window { bound, _memory: memory }
        } else {
            Exposed::register(device, &slice, access, memory).ok()?
        };
        let segment = Segment { handle: exposed.key(), length, offset: slice.address };
        ours.exposed.push(exposed);
        Some(segment)
    }

    /// Makes a call's memory unreachable. What the peer has invalidated is so already.
    fn fence(&mut self, xid: u32, invalidated: Option<u32>) {
        let place = self.session.place(xid);
        let Some(ours) = self.calls.get_mut(place) else { return };
        let alive = self.endpoint.as_mut();
        let Some(endpoint) = alive else {
            // Its queue pair is gone, and with it every way to the windows; they go, too.
            ours.exposed.clear();
            return self.session.fenced(xid);
        };
        let windows = ours.exposed.iter().filter(|one| matches!(one, Exposed::Window { .. }));
        let bound: ArrayVec<u32, REGIONS> = windows.map(Exposed::key).filter(|key| Some(*key) != invalidated).collect();
        for (number, key) in bound.iter().enumerate() {
            let last = number + 1 == bound.len();
            let work = if last { Work::Fence(xid) } else { Work::Part };
            endpoint.push(Operation::Invalidate { key: *key }, &[], last, work);
        }
        if bound.is_empty() {
            self.fenced(xid);
        }
    }

    /// A call's memory is unreachable: the windows can be used again, and registrations end.
    fn fenced(&mut self, xid: u32) {
        let place = self.session.place(xid);
        if let Some(ours) = self.calls.get_mut(place) {
            for exposed in ours.exposed.drain(..) {
                if let Exposed::Window { bound, .. } = exposed {
                    self.windows.push(bound);
                }
            }
        }
        self.session.fenced(xid);
    }

    /// Puts a call of the peer's together: its inline octets are copied, and the rest is read to where it belongs.
    fn read(&mut self, call: Served, buffer: Buffer, inline: Range<u32>, pool: &Pool<D>) {
        let received = self.give_back(buffer);
        let place = self.session.served_place(call);
        let Some(mut whole) = self.session.length(call).and_then(|length| self.take(length, pool)) else { return };
        let (Some(length), Some(pieces)) = (self.session.length(call), self.session.pieces(call)) else { return };
        whole.set_len(length);
        let mut reads = std::mem::take(&mut self.reads);
        reads.clear();
        for piece in pieces {
            match piece {
                Piece::Inline { at, from, length } => {
                    let from = (inline.start + from) as usize;
                    let source = received.as_ref().and_then(|buf| buf.get(from..from + length as usize));
                    let target = whole.get_mut(at as usize..(at + length) as usize);
                    if let (Some(source), Some(target)) = (source, target) {
                        target.copy_from_slice(source);
                        self.counters.copied += u64::from(length);
                    }
                }
                Piece::Padding { at, length } => {
                    whole.get_mut(at as usize..(at + length) as usize).unwrap_or_default().fill(0);
                }
                Piece::Read { at, from } => reads.push((at, from)),
            }
        }
        let whole = Lent::from(whole);
        let Some(endpoint) = &mut self.endpoint else {
            self.reads = reads;
            return;
        };
        for (number, (at, from)) in reads.iter().enumerate() {
            let last = number + 1 == reads.len();
            let part = Part { buf: whole.clone(), from: *at, length: from.length };
            let from = Remote { address: from.offset, key: from.handle };
            endpoint.push(Operation::Read { from }, &[part], last, if last { Work::Read(call) } else { Work::Part });
        }
        self.counters.reads += reads.len() as u64;
        if let Some(theirs) = at(&mut self.served, place) {
            theirs.whole = Some(whole);
        }
        if reads.is_empty() {
            self.session.moved(call);
        }
        self.reads = reads;
    }

    /// Sends a message: its header is in the scratch memory.
    fn transmit(&mut self, transmit: Transmit, pool: &Pool<D>, scratch: &[u8], watch: &mut impl FnMut(&[u8])) {
        let Transmit { what, header, invalidate } = transmit;
        self.trace(what);
        let parts: ArrayVec<Range<u32>, { ITEMS + 1 }> = self.session.parts(what).collect();
        let inline: u32 = parts.iter().map(|part| part.end - part.start).sum();
        let total = u32::try_from(header).unwrap_or(u32::MAX).saturating_add(inline);
        let Some(mut buf) = self.take(total, pool) else { return };
        let out = buf.as_full_mut();
        if let (Some(out), Some(written)) = (out.get_mut(..header), scratch.get(..header)) {
            out.copy_from_slice(written);
        }
        let message = match what {
            Sent::Call { xid } => self.calls.get_mut(self.session.place(xid)).map(|ours| &mut ours.message),
            Sent::Reply { call } => {
                self.served.get_mut(self.session.served_place(call)).map(|theirs| &mut theirs.reply)
            }
            Sent::Header => None,
        };
        let mut at = header;
        if let Some(message) = message {
            for part in parts {
                let end = at + (part.end - part.start) as usize;
                message.copy(part, out.get_mut(at..end).unwrap_or_default());
                at = end;
            }
        }
        buf.set_len(total);
        watch(&buf);
        self.counters.copied += u64::from(inline);
        self.counters.sends += 1;
        let writes = if let Sent::Reply { call } = what { self.write(call, pool) } else { false };
        let Some(endpoint) = &mut self.endpoint else { return };
        self.unsignaled += 1;
        let signaled = writes || self.unsignaled >= SIGNAL;
        if signaled {
            self.unsignaled = 0;
        }
        let part = Part { buf: buf.into(), from: 0, length: total };
        let work = if writes { Work::Send(what) } else { Work::Part };
        endpoint.push(Operation::Send { invalidate }, &[part], signaled, work);
        if !writes {
            // All of it was copied.
            self.session.released(what);
        }
    }

    /// Tells how a call travels, and why.
    fn trace(&self, what: Sent) {
        let Sent::Call { xid } = what else { return };
        let Some(ours) = self.calls.get(self.session.place(xid)) else { return };
        if let (false, Some(travel)) = (ours.span.is_disabled(), self.session.travel(xid)) {
            debug!(parent: &ours.span, %travel, "sent");
        }
    }

    /// Writes what of a reply goes to the peer's memory; whether there is any.
    fn write(&mut self, call: Served, pool: &Pool<D>) -> bool {
        let Some(theirs) = self.served.get_mut(self.session.served_place(call)) else { return false };
        let Some(endpoint) = &mut self.endpoint else { return false };
        let mut any = false;
        for write in self.session.writes(call) {
            let length = write.octets.end - write.octets.start;
            let part = match theirs.reply.source_at(write.octets.start) {
                Some((buf, from)) => Part { buf: buf.clone(), from, length },
                None => {
                    if theirs.long.is_none() {
                        let whole = theirs.reply.length();
                        let Ok(mut buf) = pool.take(whole) else { continue };
                        theirs.reply.copy(0..whole, buf.as_full_mut());
                        buf.set_len(whole);
                        self.counters.copied += u64::from(whole);
                        theirs.long = Some(buf.into());
                    }
                    let Some(long) = &theirs.long else { continue };
                    Part { buf: long.clone(), from: write.octets.start, length }
                }
            };
            let to = Remote { address: write.target.offset, key: write.target.handle };
            endpoint.push(Operation::Write { to }, &[part], false, Work::Part);
            self.counters.writes += 1;
            any = true;
        }
        any
    }

    /// A completion of this connection's. False if the queue pair has failed.
    pub(crate) fn complete(&mut self, completion: &Completion) -> bool {
        let Some(endpoint) = &mut self.endpoint else { return true };
        match endpoint.complete(completion) {
            Done::Receive(buf, Status::Success) => {
                self.received(buf, completion.invalidated);
                true
            }
            Done::Receive(..) => false,
            Done::Requests(count, status) => {
                for number in 1..=count {
                    let work = self.endpoint.as_mut().and_then(Endpoint::retire);
                    let done = number < count || status == Status::Success;
                    if let Some(work) = work {
                        self.retired(work, done);
                    }
                }
                status == Status::Success
            }
            Done::Unknown => true,
        }
    }

    /// A completion of a shared receive, by which this connection has received. False if the queue pair has failed.
    pub(crate) fn complete_shared(&mut self, completion: &Completion, buf: Buf) -> bool {
        // It may be left of an earlier queue pair.
        let ours = |endpoint: &&Endpoint<D, Work>| endpoint.pair().number() == completion.queue_pair;
        if self.endpoint.as_ref().filter(ours).is_none() {
            return true;
        }
        let done = completion.status == Status::Success;
        if done {
            self.received(buf, completion.invalidated);
        }
        done
    }

    fn retired(&mut self, work: Work, done: bool) {
        match work {
            Work::Send(what) => self.session.released(what),
            Work::Read(call) if done => self.session.moved(call),
            Work::Fence(xid) if done => self.fenced(xid),
            Work::Fence(xid) => self.unfenced.push(xid),
            Work::Part | Work::Read(_) => {}
        }
    }

    fn received(&mut self, buf: Buf, invalidated: Option<u32>) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() - 1
        });
        let held = self.session.received(Buffer(number as u64), &buf, invalidated);
        match held {
            Held::Kept => {
                if let Some(place) = self.kept.get_mut(number) {
                    *place = Some(buf);
                }
            }
            Held::Free => self.free.push(number),
        }
    }

    /// A receive buffer that the session had kept.
    fn give_back(&mut self, buffer: Buffer) -> Option<Buf> {
        let number = usize::try_from(buffer.0).ok()?;
        let buf = self.kept.get_mut(number)?.take()?;
        self.free.push(number);
        Some(buf)
    }

    fn payload(&mut self, buffer: Buffer, octets: Range<u32>) -> Option<Payload> {
        let buf = self.give_back(buffer)?;
        Some(Payload { buf, octets: octets.start as usize..octets.end as usize })
    }

    fn tell(&mut self, event: Event) {
        let told = match event {
            Event::Ready { version } => Some(Told::Ready(version)),
            Event::CallArrived { call, xid, message } => self.arrived(call, xid, message),
            Event::CallEnded { call, .. } => {
                if let Some(theirs) = self.served.get_mut(self.session.served_place(call)) {
                    (theirs.whole, theirs.long) = (None, None);
                    theirs.reply.forget();
                }
                None
            }
            Event::ReplyArrived { xid, reply } => self.replied(xid, reply),
            Event::CallFailed { xid, why } => {
                if let Some(ours) = self.calls.get(self.session.place(xid)) {
                    debug!(parent: &ours.span, %why, "failed");
                }
                self.done(xid, &[]);
                Some(Told::Failed { xid, why })
            }
            Event::PropertiesChanged | Event::PropertyAnswered { .. } | Event::PeerError { .. } => None,
            Event::Operation { operation } => {
                self.give_back(operation.buffer);
                None
            }
            Event::Closed { why, last } => {
                debug!(%why, last, "closed");
                Some(Told::Closed { why, last })
            }
        };
        if let Some(told) = told {
            self.events.push_back(told);
        }
    }

    fn arrived(&mut self, call: Served, xid: u32, message: Place) -> Option<Told> {
        let message = match message {
            Place::Inline { buffer, octets } => self.payload(buffer, octets)?,
            Place::Placed { length } => {
                let place = self.session.served_place(call);
                let whole = self.served.get_mut(place)?.whole.take()?;
                Payload { buf: whole.into_buf().ok()?, octets: 0..length as usize }
            }
        };
        Some(Told::Arrived { call, xid, message })
    }

    fn replied(&mut self, xid: u32, reply: rpcrdma_proto::connection::Reply) -> Option<Told> {
        let place = self.session.place(xid);
        if let Some(ours) = self.calls.get(place) {
            debug!(parent: &ours.span, inline = reply.inline.len(), long = reply.long, "replied");
        }
        let long = self.calls.get_mut(place).and_then(|ours| ours.reply.take());
        let inline = self.payload(reply.buffer, reply.inline.clone());
        let message = match (reply.inline.is_empty(), reply.long, long) {
            (true, Some(octets), Some(long)) => {
                let mut buf = long.into_buf().ok()?;
                buf.set_len(octets);
                Payload { buf, octets: 0..octets as usize }
            }
            _ => inline?,
        };
        self.done(xid, &reply.results);
        Some(Told::Replied { xid, message })
    }

    /// A call has ended: its memory waits to be taken, with the octets that were written to each result.
    fn done(&mut self, xid: u32, written: &[u32]) {
        let place = self.session.place(xid);
        let Some(ours) = self.calls.get_mut(place) else { return };
        (ours.whole, ours.reply, ours.ended) = (None, None, Some(xid));
        ours.span = Span::none();
        ours.written = written.iter().copied().take(RESULTS).collect();
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
        self.session.lost(now, why);
    }
}

/// Buffers that nothing uses any more.
fn owned<const N: usize>(lent: impl IntoIterator<Item = Lent>) -> ArrayVec<Buf, N> {
    lent.into_iter().filter_map(|buf| buf.into_buf().ok()).collect()
}
