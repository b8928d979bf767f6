//! Messages that have come: their receive buffers, and the calls and replies in them.

use std::ops::Range;

use rpcrdma_proto::chunk::{Piece, Segment};
use rpcrdma_proto::connection::{Buffer, Held, Message as Place, Reply, Served};
use rpcrdma_proto::continuation::{Excised, Gathered, How, Octets, Source};
use rpcrdma_proto::placement::Structure;
use tracing::debug;

use super::{Connection, Work, at};
use crate::driver::told::{Payload, Placed, Told};
use crate::memory::{Buf, Frozen, Lent, Pool};
use crate::provider::{Device, Operation, Remote};
use crate::queue::{Part, Received};

/// A receive buffer that the session has kept: its segments, until somebody takes them.
#[derive(Debug)]
pub(super) struct Kept {
    head: Option<Buf>,
    more: Vec<Option<Buf>>,
}

impl Kept {
    /// The segment that has these octets, and which of its octets they are; none if they are in several.
    fn find(&mut self, octets: &Range<u32>, structure: Option<&Structure>) -> Option<(&mut Option<Buf>, Range<u32>)> {
        let Some(structure) = structure.filter(|_| !self.more.is_empty()) else {
            return Some((&mut self.head, octets.clone()));
        };
        let mut begin = 0;
        let segments = std::iter::once(&mut self.head).chain(&mut self.more);
        for (buf, segment) in segments.zip(structure.segments()) {
            let end = begin + segment.length;
            if (begin..end).contains(&octets.start) {
                return (octets.end <= end).then(|| (buf, octets.start - begin..octets.end - begin));
            }
            begin = end;
        }
        None
    }

    /// Copies octets, whichever segments they are in.
    fn copy(&mut self, octets: &Range<u32>, structure: Option<&Structure>, out: &mut [u8]) {
        let mut from = octets.start;
        let lengths = structure.filter(|_| !self.more.is_empty()).map(Structure::segments).unwrap_or_default();
        let mut begin = 0u32;
        for (number, buf) in std::iter::once(&self.head).chain(&self.more).enumerate() {
            let length = lengths.get(number).map_or(u32::MAX, |segment| segment.length);
            let end = begin.saturating_add(length).min(octets.end);
            if from < end
                && let Some(source) =
                    buf.as_deref().and_then(|buf| buf.get((from - begin) as usize..(end - begin) as usize))
                && let Some(out) = out.get_mut((from - octets.start) as usize..(end - octets.start) as usize)
            {
                out.copy_from_slice(source);
                from = end;
            }
            begin = begin.saturating_add(length);
        }
    }
}

impl<D: Device> Connection<D> {
    /// A message has come.
    pub(super) fn received(&mut self, received: Received, invalidated: Option<u32>) {
        let length = received.len();
        let spans = length > received.head.len() as u32;
        let shown = !spans || self.session.is_shown(&received.head);
        let Some(received) = (if shown { Some(received) } else { self.joined(received, length) }) else { return };
        let number = self.free.pop().unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() - 1
        });
        let held = self.session.received_in_segments(Buffer(number as u64), &received.head, length, invalidated);
        match held {
            Held::Kept => {
                if let Some(place) = self.kept.get_mut(number) {
                    let Received { head, more } = received;
                    *place = Some(Kept { head: Some(head), more: more.into_iter().map(Some).collect() });
                }
            }
            Held::Free => {
                self.spare(received.more);
                self.free.push(number);
            }
        }
    }

    /// A message in one buffer, which came in several segments: what is not laid out for them is copied.
    fn joined(&mut self, received: Received, length: u32) -> Option<Received> {
        let pool = self.pool.clone();
        let mut whole = self.take(length, &pool)?;
        let Received { head, more } = received;
        for segment in std::iter::once(&head).chain(&more) {
            whole.extend_from_slice(segment);
        }
        self.counters.copied += u64::from(length);
        self.spare(more);
        Some(Received { head: whole, more: Vec::new() })
    }

    /// Keeps the memory of a list of segments for the next receive.
    fn spare(&mut self, mut more: Vec<Buf>) {
        more.clear();
        if more.capacity() > 0 {
            self.spares.push(more);
        }
    }

    /// A buffer for one receive, of this size or of the segments that are told to the peer.
    pub(super) fn receive_buffer(&mut self, size: u32, pool: &Pool<D>) -> Option<Received> {
        let structure = self.structure().filter(|structure| structure.length() == size);
        let Some(structure) = structure else {
            return self.take(size, pool).map(Received::from);
        };
        let mut more = self.spares.pop().unwrap_or_default();
        let mut head = None;
        for segment in structure.segments() {
            let mut buf = self.take(segment.length, pool)?;
            buf.set_len(segment.length);
            match head {
                None => head = Some(buf),
                Some(_) => more.push(buf),
            }
        }
        Some(Received { head: head?, more })
    }

    /// How our receive buffers are made.
    fn structure(&self) -> Option<Structure> {
        self.session.config().rtr.and_then(|rtr| rtr.structure)
    }

    /// A receive buffer that the session had kept, of one segment.
    pub(super) fn give_back(&mut self, buffer: Buffer) -> Option<Buf> {
        let number = usize::try_from(buffer.0).ok()?;
        let Kept { head, more } = self.kept.get_mut(number)?.take()?;
        self.free.push(number);
        // What nobody has taken goes home.
        self.spare(more.into_iter().map_while(|segment| segment).collect());
        head
    }

    fn payload(&mut self, buffer: Buffer, octets: Range<u32>) -> Option<Payload> {
        let buf = self.give_back(buffer)?;
        Some(Payload { buf, octets: octets.start as usize..octets.end as usize, items: Vec::new() })
    }

    /// A call has come.
    pub(super) fn arrived(&mut self, call: Served, xid: u32, message: Place) -> Option<Told> {
        let message = match message {
            Place::Inline { buffer, octets } => self.payload(buffer, octets)?,
            Place::Placed { length } => {
                let place = self.session.served_place(call);
                let whole = self.served.get_mut(place)?.whole.take()?;
                Payload { buf: whole.into_buf().ok()?, octets: 0..length as usize, items: Vec::new() }
            }
            Place::Gathered(message) => {
                let mut items = Vec::with_capacity(message.items.len());
                for item in &message.items {
                    items.extend(self.placed(item, &message));
                }
                let payload = self.stream(&message).map(|payload| Payload { items, ..payload });
                self.done_with(message);
                payload?
            }
        };
        Some(Told::Arrived { call, xid, message })
    }

    /// The Payload stream of a message that came in transmissions: in its receive buffer, if it is in one segment of one.
    fn stream(&mut self, message: &Gathered) -> Option<Payload> {
        let structure = self.structure();
        if let [Octets { buffer, octets }] = message.stream.as_slice() {
            let kept = self.kept.get_mut(usize::try_from(buffer.0).ok()?)?.as_mut()?;
            if let Some((buf, octets)) = kept.find(octets, structure.as_ref())
                && let Some(buf) = buf.take()
            {
                return Some(Payload { buf, octets: octets.start as usize..octets.end as usize, items: Vec::new() });
            }
        }
        let length = message.stream_length();
        let buf = self.copied(length, &message.stream)?;
        Some(Payload { buf, octets: 0..length as usize, items: Vec::new() })
    }

    /// A buffer with a copy of these octets.
    fn copied(&mut self, length: u32, from: &[Octets]) -> Option<Buf> {
        let (pool, structure) = (self.pool.clone(), self.structure());
        let mut buf = self.take(length, &pool)?;
        buf.set_len(length);
        let mut at = 0;
        for Octets { buffer, octets } in from {
            let end = at + (octets.end - octets.start) as usize;
            let kept = self.kept.get_mut(usize::try_from(buffer.0).ok()?)?.as_mut()?;
            kept.copy(octets, structure.as_ref(), buf.get_mut(at..end)?);
            at = end;
        }
        self.counters.copied += u64::from(length);
        Some(buf)
    }

    /// The buffer of data that were placed, if they begin a segment and nobody has it; else a copy.
    fn data(&mut self, place: &Octets) -> Option<Buf> {
        let structure = self.structure();
        let kept = self.kept.get_mut(usize::try_from(place.buffer.0).ok()?)?.as_mut()?;
        if let Some((buf, octets)) = kept.find(&place.octets, structure.as_ref())
            && octets.start == 0
            && let Some(mut buf) = buf.take()
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

    /// A reply has come.
    pub(super) fn replied(&mut self, xid: u32, reply: Reply) -> Option<Told> {
        let place = self.session.place(xid);
        if let Some(ours) = self.calls.get(place) {
            debug!(parent: &ours.span, inline = reply.inline.len(), long = reply.long, "replied");
        }
        let mut written = reply.results.clone();
        if let Some(message) = reply.gathered {
            for item in &message.items {
                self.result(place, item, &message, &mut written);
            }
            let payload = self.stream(&message);
            self.done_with(message);
            self.done(xid, &written);
            return payload.map(|message| Told::Replied { xid, message });
        }
        let long = self.calls.get_mut(place).and_then(|ours| ours.reply.take());
        let inline = self.payload(reply.buffer, reply.inline.clone());
        let message = match (reply.inline.is_empty(), reply.long, long) {
            (true, Some(octets), Some(long)) => {
                let mut buf = long.into_buf().ok()?;
                buf.set_len(octets);
                Payload { buf, octets: 0..octets as usize, items: Vec::new() }
            }
            _ => inline?,
        };
        self.done(xid, &written);
        Some(Told::Replied { xid, message })
    }

    /// A result that the Sends have placed: the buffer that it landed in becomes the result's, unless that is the caller's own
    /// memory, or it is in several.
    fn result(&mut self, place: usize, item: &Excised, message: &Gathered, written: &mut [u32]) -> Option<()> {
        let (How::Placed(range), Some(number)) = (&item.how, item.result) else { return None };
        *written.get_mut(number)? = item.length;
        let places = message.places.get(range.clone())?;
        let own = self.calls.get(place)?.results.get(number)?.is_adopted();
        if let ([one], false) = (places, own) {
            let buf = self.data(one)?;
            *self.calls.get_mut(place)?.results.get_mut(number)? = buf.into();
            return Some(());
        }
        let structure = self.structure();
        let mut buf = self.calls.get_mut(place)?.results.remove(number).into_buf().ok()?;
        buf.set_len(item.length);
        let mut at = 0;
        for Octets { buffer, octets } in places {
            let end = at + (octets.end - octets.start) as usize;
            let kept = self.kept.get_mut(usize::try_from(buffer.0).ok()?)?.as_mut()?;
            kept.copy(octets, structure.as_ref(), buf.get_mut(at..end)?);
            at = end;
        }
        self.counters.copied += u64::from(item.length);
        self.calls.get_mut(place)?.results.insert(number, buf.into());
        Some(())
    }

    /// Puts a call of the peer's together: its inline octets are copied, and the rest is read to where it belongs.
    pub(super) fn read(&mut self, call: Served, buffer: Buffer, inline: Range<u32>, pool: &Pool<D>) {
        let received = self.give_back(buffer);
        let Some((mut whole, length)) = self.whole(call, pool) else { return };
        let Some(pieces) = self.session.pieces(call) else { return };
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
        self.read_all(call, whole.into(), &reads);
        self.reads = reads;
    }

    /// The same for a call that came in transmissions: what was placed is copied, too.
    pub(super) fn gather(&mut self, call: Served, message: Box<Gathered>, pool: &Pool<D>) {
        let structure = self.structure();
        let Some((mut whole, length)) = self.whole(call, pool) else { return };
        whole.set_len(length);
        let mut reads = std::mem::take(&mut self.reads);
        reads.clear();
        for source in message.sources() {
            match source {
                Source::Octets { at, from: Octets { buffer, octets } } => {
                    let length = octets.end - octets.start;
                    let target = whole.get_mut(at as usize..(at + length) as usize).unwrap_or_default();
                    let kept = usize::try_from(buffer.0).ok().and_then(|number| self.kept.get_mut(number)?.as_mut());
                    if let Some(kept) = kept {
                        kept.copy(&octets, structure.as_ref(), target);
                        self.counters.copied += u64::from(length);
                    }
                }
                Source::Padding { at, length } => {
                    whole.get_mut(at as usize..(at + length) as usize).unwrap_or_default().fill(0);
                }
                Source::Read { at, from } => reads.push((at, from)),
            }
        }
        self.done_with(message);
        self.read_all(call, whole.into(), &reads);
        self.reads = reads;
    }

    /// A buffer for all of a call, and its octets.
    fn whole(&mut self, call: Served, pool: &Pool<D>) -> Option<(Buf, u32)> {
        let length = self.session.length(call)?;
        Some((self.take(length, pool)?, length))
    }

    /// Reads the parts of a call to where they belong.
    fn read_all(&mut self, call: Served, whole: Lent, reads: &[(u32, Segment)]) {
        let Some(endpoint) = &mut self.endpoint else { return };
        for (number, (at, from)) in reads.iter().enumerate() {
            let last = number + 1 == reads.len();
            let part = Part { buf: whole.clone(), from: *at, length: from.length };
            let from = Remote { address: from.offset, key: from.handle };
            endpoint.push(Operation::Read { from }, &[part], last, if last { Work::Read(call) } else { Work::Part });
        }
        self.counters.reads += reads.len() as u64;
        let place = self.session.served_place(call);
        if let Some(theirs) = at(&mut self.served, place) {
            theirs.whole = Some(whole);
        }
        if reads.is_empty() {
            self.session.moved(call);
        }
    }
}
