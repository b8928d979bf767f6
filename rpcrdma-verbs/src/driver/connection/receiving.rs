//! Messages that have come: their receive buffers, and the calls and replies in them.

use std::ops::Range;

use rpcrdma_proto::chunk::{Piece, Segment};
use rpcrdma_proto::connection::{Buffer, Failure, Held, Message as Place, Reply, Served};
use rpcrdma_proto::continuation::{Excised, Gathered, How, Octets, Source};
use rpcrdma_proto::placement::{self, Structure};
use rpcrdma_proto::travel::ITEMS;
use tracing::debug;

use super::{Connection, Work, at};
use crate::driver::told::{Payload, Placed};
use crate::memory::{Buf, Frozen, Lent, Pool};
use crate::provider::{Device, Operation, Remote};
use crate::queue::{Part, Received, Tail};

/// A receive buffer that the session has kept: its segments, until somebody takes them.
#[derive(Debug)]
pub(super) struct Kept {
    head: Option<Lent>,
    tail: Option<Box<Tail>>,
}

impl Kept {
    /// Its segments.
    fn segments(&mut self) -> impl Iterator<Item = &mut Option<Lent>> {
        std::iter::once(&mut self.head).chain(self.tail.iter_mut().flat_map(|tail| tail.iter_mut()))
    }

    /// How long those are, which are more than one.
    fn lengths<'a>(&self, structure: Option<&'a Structure>) -> &'a [placement::Segment] {
        structure.filter(|_| self.tail.is_some()).map(Structure::segments).unwrap_or_default()
    }

    /// The segment that has these octets, and which of its octets they are; none if they are in several.
    fn find(&mut self, octets: &Range<u32>, structure: Option<&Structure>) -> Option<(&mut Option<Lent>, Range<u32>)> {
        let lengths = self.lengths(structure);
        if lengths.is_empty() {
            return Some((&mut self.head, octets.clone()));
        }
        let mut begin = 0;
        for (buf, segment) in self.segments().zip(lengths) {
            let end = begin + segment.length;
            if (begin..end).contains(&octets.start) {
                return (octets.end <= end).then(|| (buf, octets.start - begin..octets.end - begin));
            }
            begin = end;
        }
        None
    }

    /// Copies octets, whichever segments they are in. None if they are not all there.
    fn copy(&mut self, octets: &Range<u32>, structure: Option<&Structure>, out: &mut [u8]) -> Option<()> {
        let lengths = self.lengths(structure);
        let (mut from, mut begin) = (octets.start, 0u32);
        for (number, buf) in self.segments().enumerate() {
            let length = lengths.get(number).map_or(u32::MAX, |segment| segment.length);
            let end = begin.saturating_add(length).min(octets.end);
            if from < end
                && let Some(source) = buf.as_mut().and_then(Lent::octets)
                && let Some(source) = source.get((from - begin) as usize..(end - begin) as usize)
                && let Some(out) = out.get_mut((from - octets.start) as usize..(end - octets.start) as usize)
            {
                out.copy_from_slice(source);
                from = end;
            }
            begin = begin.saturating_add(length);
        }
        (from >= octets.end).then_some(())
    }
}

impl<D: Device> Connection<D> {
    /// A message has come.
    #[inline]
    pub(super) fn received(&mut self, received: Received, invalidated: Option<u32>) {
        let length = received.len();
        let spans = length > received.head.len() as u32 && !self.session.is_shown(&received.head);
        let Some(received) = (if spans { self.joined(received, length) } else { Some(received) }) else { return };
        let number = self.free.pop().unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() - 1
        });
        let held = self.session.received_in_segments(Buffer(number as u64), &received.head, length, invalidated);
        let Received { head, tail } = received;
        match held {
            Held::Kept => {
                if let Some(place) = self.kept.get_mut(number) {
                    *place = Some(Kept { head: Some(head.into()), tail });
                }
            }
            Held::Free => {
                self.spare(tail);
                self.free.push(number);
            }
        }
    }

    /// A message in one buffer, which came in several segments: what is not laid out for them is copied.
    #[cold]
    fn joined(&mut self, received: Received, length: u32) -> Option<Received> {
        let pool = self.pool.clone();
        let mut whole = self.take_rarely(length, &pool)?;
        let Received { head, mut tail } = received;
        whole.extend_from_slice(&head);
        for segment in tail.iter_mut().flat_map(|tail| tail.iter_mut()).flatten() {
            whole.extend_from_slice(segment.octets().unwrap_or_default());
        }
        self.counters.copied += u64::from(length);
        self.spare(tail);
        Some(Received { head: whole, tail: None })
    }

    /// Keeps the memory of a list of segments for the next receive.
    #[inline(always)]
    fn spare(&mut self, tail: Option<Box<Tail>>) {
        if let Some(mut tail) = tail {
            tail.clear();
            self.tails.push(tail);
        }
    }

    /// A buffer for one receive, of this size or of the segments that are told to the peer.
    #[inline]
    pub(super) fn receive_buffer(&mut self, size: u32, pool: &Pool<D>) -> Option<Received> {
        if self.session.config().rtr.is_none() {
            return self.take(size, pool).map(Received::from);
        }
        let Some(structure) = self.structure().filter(|structure| structure.length() == size) else {
            return self.take_rarely(size, pool).map(Received::from);
        };
        let (first, more) = structure.segments().split_first()?;
        let mut head = self.take_rarely(first.length, pool)?;
        head.set_len(first.length);
        let mut tail = self.tails.pop().unwrap_or_default();
        for segment in more {
            let mut buf = self.take_rarely(segment.length, pool)?;
            buf.set_len(segment.length);
            // No more than the device takes, which was checked.
            tail.try_push(Some(buf.into())).ok()?;
        }
        Some(Received { head, tail: Some(tail).filter(|tail| !tail.is_empty()) })
    }

    /// How our receive buffers are made.
    fn structure(&self) -> Option<Structure> {
        self.session.config().rtr.and_then(|rtr| rtr.structure)
    }

    /// A receive buffer that the session had kept, of one segment.
    #[inline]
    pub(super) fn give_back(&mut self, buffer: Buffer) -> Option<Buf> {
        let number = usize::try_from(buffer.0).ok()?;
        let Kept { head, tail } = self.kept.get_mut(number)?.take()?;
        self.free.push(number);
        // What nobody has taken goes home.
        self.spare(tail);
        head?.into_buf().ok()
    }

    #[inline]
    fn payload(&mut self, buffer: Buffer, octets: Range<u32>) -> Option<Payload> {
        let buf = self.give_back(buffer)?;
        Some(Payload { buf, octets: octets.start as usize..octets.end as usize, items: None })
    }

    /// A call has come: where it is, if there is memory for it.
    #[inline]
    pub(super) fn arrived(&mut self, call: Served, message: Place) -> Option<Payload> {
        match message {
            Place::Inline { buffer, octets } => self.payload(buffer, octets),
            Place::Placed { length } => {
                let place = self.session.served_place(call);
                let (whole, begin) = self.served.get_mut(place)?.whole.take()?;
                let octets = begin as usize..(begin + length) as usize;
                Some(Payload { buf: whole.into_buf().ok()?, octets, items: None })
            }
            Place::Gathered(message) => {
                let payload = self.gathered(&message);
                self.done_with(message);
                payload
            }
        }
    }

    /// Whether each part of an item has a segment of a receive buffer to itself: then the segment can be given away. An item of no
    /// octets has none.
    fn has_own_targets(&mut self, message: &Gathered) -> bool {
        let structure = self.structure();
        if message.items.iter().any(|item| matches!(&item.how, How::Placed(places) if places.is_empty())) {
            return false;
        }
        message.places.iter().all(|place| {
            let kept = usize::try_from(place.buffer.0).ok().and_then(|number| self.kept.get_mut(number)?.as_mut());
            let found = kept.and_then(|kept| kept.find(&place.octets, structure.as_ref()));
            found.is_some_and(|(_, octets)| octets.start == 0)
        })
    }

    /// A call that came in transmissions: its stream and its items, or all of it in one piece if it has more items than are
    /// told apart, or several in one segment.
    fn gathered(&mut self, message: &Gathered) -> Option<Payload> {
        if message.items.len() > ITEMS || !self.has_own_targets(message) {
            let pool = self.pool.clone();
            let mut whole = self.take_rarely(message.length, &pool)?;
            whole.set_len(message.length);
            let mut whole = Whole { buf: whole, begin: 0 };
            self.put_together(message, &mut whole)?;
            return Some(Payload { buf: whole.buf, octets: 0..message.length as usize, items: None });
        }
        let mut items = None;
        for item in &message.items {
            if let Some(placed) = self.placed(item, message) {
                // No more than there are places.
                items.get_or_insert_with(|| self.spare_items.pop().unwrap_or_default()).push(placed);
            }
        }
        self.stream(message).map(|payload| Payload { items, ..payload })
    }

    /// Copies what has come of a message to its place. None if not all of it is there.
    fn put_together(&mut self, message: &Gathered, whole: &mut Whole) -> Option<()> {
        let structure = self.structure();
        for source in message.sources() {
            match source {
                Source::Octets { at, from: Octets { buffer, octets } } => {
                    let length = octets.end - octets.start;
                    let kept = self.kept.get_mut(usize::try_from(buffer.0).ok()?)?.as_mut()?;
                    kept.copy(&octets, structure.as_ref(), whole.part(at, length)?)?;
                    self.counters.copied += u64::from(length);
                }
                Source::Padding { at, length } => whole.part(at, length)?.fill(0),
                Source::Read { .. } => {}
            }
        }
        Some(())
    }

    /// The Payload stream of a message that came in transmissions: in its receive buffer, if it is in one segment of one.
    fn stream(&mut self, message: &Gathered) -> Option<Payload> {
        let structure = self.structure();
        if let [Octets { buffer, octets }] = message.stream.as_slice() {
            let kept = self.kept.get_mut(usize::try_from(buffer.0).ok()?)?.as_mut()?;
            if let Some((buf, octets)) = kept.find(octets, structure.as_ref())
                && let Some(buf) = buf.take().and_then(|buf| buf.into_buf().ok())
            {
                return Some(Payload { buf, octets: octets.start as usize..octets.end as usize, items: None });
            }
        }
        let length = message.stream_length();
        let buf = self.copied(length, &message.stream)?;
        Some(Payload { buf, octets: 0..length as usize, items: None })
    }

    /// A buffer with a copy of these octets.
    fn copied(&mut self, length: u32, from: &[Octets]) -> Option<Buf> {
        let pool = self.pool.clone();
        let mut buf = self.take_rarely(length, &pool)?;
        buf.set_len(length);
        self.copy_places(from, &mut buf)?;
        Some(buf)
    }

    /// The buffer of data that were placed, if they begin a segment and nobody has it; else a copy.
    fn data(&mut self, place: &Octets) -> Option<Buf> {
        let structure = self.structure();
        let kept = self.kept.get_mut(usize::try_from(place.buffer.0).ok()?)?.as_mut()?;
        if let Some((buf, octets)) = kept.find(&place.octets, structure.as_ref())
            && octets.start == 0
            && let Some(mut buf) = buf.take().and_then(|buf| buf.into_buf().ok())
        {
            buf.set_len(octets.end);
            return Some(buf);
        }
        self.copied(place.octets.end - place.octets.start, std::slice::from_ref(place))
    }

    /// An item of a call that was placed.
    fn placed(&mut self, item: &Excised, message: &Gathered) -> Option<Placed> {
        let How::Placed(range) = &item.how else { return None };
        let mut parts = message.places.get(range.clone())?.iter();
        let first = self.data(parts.next()?).map(Frozen::from)?;
        let more = parts.map_while(|place| self.data(place).map(Frozen::from)).collect();
        Some(Placed { position: item.position, length: item.length, first, more })
    }

    /// All that is needed of a message has been taken from its buffers.
    pub(super) fn done_with(&mut self, message: Box<Gathered>) {
        for came in &message.buffers {
            self.give_back(came.buffer);
        }
        self.session.recycle(message);
    }

    /// A reply has come: where it is. None if that can't be told, which is told.
    #[inline]
    pub(super) fn replied(&mut self, xid: u32, reply: Reply) -> Option<Payload> {
        let place = self.session.place(xid);
        if let Some(ours) = self.calls.get(place) {
            debug!(parent: &ours.span, inline = reply.inline.len(), long = reply.long, "replied");
        }
        self.counters.round_trips += 1;
        let Reply { buffer, inline, long, results: mut written, gathered } = reply;
        if let Some(message) = gathered {
            return self.replied_in_parts(xid, message, &mut written);
        }
        let is_long = inline.is_empty();
        let inline = self.payload(buffer, inline);
        let whole = self.calls.get_mut(place).and_then(|ours| ours.reply.take());
        let message = match (is_long, long, whole) {
            (true, Some(octets), Some(whole)) => whole.into_buf().ok().map(|mut buf| {
                buf.set_len(octets);
                Payload { buf, octets: 0..octets as usize, items: None }
            }),
            _ => inline,
        };
        match message {
            Some(_) => self.done(xid, &written),
            None => self.failed(xid, Failure::Memory),
        }
        message
    }

    /// The same, of a reply that came in transmissions.
    #[cold]
    fn replied_in_parts(&mut self, xid: u32, message: Box<Gathered>, written: &mut [u32]) -> Option<Payload> {
        let (place, own) = (self.session.place(xid), self.has_own_targets(&message));
        let mut all = true;
        for item in &message.items {
            all &= self.result((place, own), item, &message, written);
        }
        let payload = self.stream(&message).filter(|_| all);
        self.done_with(message);
        match payload {
            Some(_) => self.done(xid, written),
            None => self.failed(xid, Failure::Memory),
        }
        payload
    }

    /// Takes a result, if the Sends have placed it: false if there is no memory for it.
    fn result(&mut self, to: (usize, bool), item: &Excised, message: &Gathered, written: &mut [u32]) -> bool {
        let (How::Placed(range), Some(number)) = (&item.how, item.result) else { return true };
        let places = message.places.get(range.clone()).unwrap_or_default();
        let taken = self.take_result(to, number, places, item.length);
        if let (Some(()), Some(written)) = (taken, written.get_mut(number)) {
            *written = item.length;
        }
        taken.is_some()
    }

    /// The buffer that a result landed in becomes the result's, unless that is the caller's own memory, or it is in several.
    fn take_result(
        &mut self,
        (place, own): (usize, bool),
        number: usize,
        places: &[Octets],
        length: u32,
    ) -> Option<()> {
        let stays = self.calls.get(place)?.results.get(number)?.is_adopted();
        if let ([one], true, false) = (places, own, stays) {
            let buf = self.data(one)?;
            *self.calls.get_mut(place)?.results.get_mut(number)? = buf.into();
            return Some(());
        }
        let mut buf = self.calls.get_mut(place)?.results.remove(number).into_buf().ok()?;
        buf.set_len(length);
        let copied = self.copy_places(places, &mut buf);
        self.calls.get_mut(place)?.results.insert(number, buf.into());
        copied
    }

    /// Copies what was placed, one part after the other. None if not all of it is there.
    fn copy_places(&mut self, places: &[Octets], out: &mut [u8]) -> Option<()> {
        let structure = self.structure();
        let mut at = 0;
        for Octets { buffer, octets } in places {
            let end = at + (octets.end - octets.start) as usize;
            let kept = self.kept.get_mut(usize::try_from(buffer.0).ok()?)?.as_mut()?;
            kept.copy(octets, structure.as_ref(), out.get_mut(at..end)?)?;
            at = end;
        }
        self.counters.copied += at as u64;
        Some(())
    }

    /// Puts a call of the peer's together: its inline octets are copied, and the rest is read to where it belongs.
    pub(super) fn read(&mut self, call: Served, buffer: Buffer, inline: Range<u32>, pool: &Pool<D>) {
        let received = self.give_back(buffer);
        let Some(pieces) = self.session.pieces(call) else { return };
        let reads = pieces
            .clone()
            .filter_map(|piece| if let Piece::Read { at, from } = piece { Some((at, from)) } else { None });
        let mut all = std::mem::take(&mut self.reads);
        all.clear();
        all.extend(reads);
        let Some(mut whole) = self.whole(call, &all, pool) else { return };
        let Some(pieces) = self.session.pieces(call) else { return };
        for piece in pieces {
            match piece {
                Piece::Inline { at, from, length } => {
                    let from = (inline.start + from) as usize;
                    let source = received.as_ref().and_then(|buf| buf.get(from..from + length as usize));
                    if let (Some(source), Some(target)) = (source, whole.part(at, length)) {
                        target.copy_from_slice(source);
                        self.counters.copied += u64::from(length);
                    }
                }
                Piece::Padding { at, length } => whole.part(at, length).unwrap_or_default().fill(0),
                Piece::Read { .. } => {}
            }
        }
        self.read_all(call, whole, &all);
        self.reads = all;
    }

    /// The same for a call that came in transmissions: what was placed is copied, too.
    pub(super) fn gather(&mut self, call: Served, message: Box<Gathered>, pool: &Pool<D>) {
        let reads = message
            .sources()
            .filter_map(|one| if let Source::Read { at, from } = one { Some((at, from)) } else { None });
        let mut all = std::mem::take(&mut self.reads);
        all.clear();
        all.extend(reads);
        let whole = self.whole(call, &all, pool);
        let whole = whole.and_then(|mut whole| self.put_together(&message, &mut whole).map(|()| whole));
        self.done_with(message);
        if let Some(whole) = whole {
            self.read_all(call, whole, &all);
        }
        self.reads = all;
    }

    /// Room for all of a call, so that the longest of what is read begins a page: devices take longer over pages that they
    /// share with something else.
    fn whole(&mut self, call: Served, reads: &[(u32, Segment)], pool: &Pool<D>) -> Option<Whole> {
        let length = self.session.length(call)?;
        let longest = reads.iter().filter(|(_, from)| from.length >= PAGE).max_by_key(|(_, from)| from.length);
        let begin = longest.map_or(0, |(at, _)| at.wrapping_neg() % PAGE);
        let mut buf = self.take_rarely(length.checked_add(begin)?, pool)?;
        buf.set_len(begin + length);
        Some(Whole { buf, begin })
    }

    /// Reads the parts of a call to where they belong.
    fn read_all(&mut self, call: Served, whole: Whole, reads: &[(u32, Segment)]) {
        let Some(endpoint) = &mut self.endpoint else { return };
        let (buf, begin) = (Lent::from(whole.buf), whole.begin);
        for (number, (at, from)) in reads.iter().enumerate() {
            let last = number + 1 == reads.len();
            let part = Part { buf: buf.clone(), from: begin + at, length: from.length };
            let from = Remote { address: from.offset, key: from.handle };
            endpoint.push(Operation::Read { from }, [part], last, if last { Work::Read(call) } else { Work::Part });
        }
        self.counters.reads += reads.len() as u64;
        self.counters.round_trips += u64::from(!reads.is_empty());
        let place = self.session.served_place(call);
        if let Some(theirs) = at(&mut self.served, place) {
            theirs.whole = Some((buf, begin));
        }
        if reads.is_empty() {
            self.session.moved(call);
        }
    }
}

/// Octets of a page.
const PAGE: u32 = 4096;

/// Room for all of a call.
struct Whole {
    buf: Buf,
    /// Where the call begins in it.
    begin: u32,
}

impl Whole {
    /// Octets of the call.
    fn part(&mut self, at: u32, length: u32) -> Option<&mut [u8]> {
        let from = (self.begin + at) as usize;
        self.buf.get_mut(from..from + length as usize)
    }
}
