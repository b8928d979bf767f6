//! Messages that are sent, and what is written before them.

use std::ops::Range;

use arrayvec::ArrayVec;
use rpcrdma_proto::connection::{Laid, Sent, Served, Session, Share, Transmit};
use tracing::debug;

use super::{Connection, Ours, SIGNAL, Theirs, Work, given_up};
use crate::driver::message::Message;
use crate::memory::{Buf, Lent, Pool};
use crate::provider::{Device, Operation, Remote};
use crate::queue::{Part, SLICES};

/// Octets of zeros that are sent between data.
const ZEROS: u32 = 4096;

impl<D: Device> Connection<D> {
    /// Sends a message: its header is in the scratch memory.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        transmit: &Transmit,
        pool: &Pool<D>,
        scratch: &[u8],
        watch: &mut impl FnMut(&[u8]),
    ) {
        if let Some(share) = transmit.share {
            return self.transmit_share(transmit, share, pool, scratch, watch);
        }
        let Transmit { what, header, inline, .. } = *transmit;
        self.trace(what);
        let total = u32::try_from(header).unwrap_or(u32::MAX).saturating_add(inline);
        let writes = match what {
            Sent::Reply { call } if self.session.has_writes(call) => self.write(call, pool),
            _ => Some(false),
        };
        let sent = |waits: &bool| {
            let how = (total, *waits);
            self.send_along(transmit, how, scratch, watch) || self.send_whole(transmit, how, pool, scratch, watch)
        };
        let Some(waits) = writes.filter(sent) else {
            // The connection is closed; nothing has its memory.
            return self.released(what);
        };
        self.counters.copied += u64::from(inline);
        self.counters.sends += 1;
        if !waits {
            // All of it was copied.
            self.released(what);
        }
    }

    /// Posts a Send that takes its message along; false if the device takes none so long.
    #[inline(always)]
    fn send_along(
        &mut self,
        transmit: &Transmit,
        (total, waits): (u32, bool),
        scratch: &[u8],
        watch: &mut impl FnMut(&[u8]),
    ) -> bool {
        let Self { session, calls, served, endpoint: Some(endpoint), inline, .. } = self else { return false };
        let Some(out) = (total <= *inline).then(|| endpoint.room(total)).flatten() else { return false };
        let Transmit { what, header, invalidate, .. } = *transmit;
        write_message(message(session, calls, served, what), session.parts(what), (scratch, header), out);
        watch(out);
        let (signaled, work) = signals(&mut self.unsignaled, what, waits);
        endpoint.push_inline(invalidate, total, signaled, work);
        true
    }

    /// Posts a Send of a buffer with its message; false if there is none.
    fn send_whole(
        &mut self,
        transmit: &Transmit,
        (total, waits): (u32, bool),
        pool: &Pool<D>,
        scratch: &[u8],
        watch: &mut impl FnMut(&[u8]),
    ) -> bool {
        let Some(mut buf) = self.take(total, pool) else { return false };
        let Transmit { what, header, invalidate, .. } = *transmit;
        let Self { session, calls, served, .. } = self;
        write_message(message(session, calls, served, what), session.parts(what), (scratch, header), buf.as_full_mut());
        buf.set_len(total);
        watch(&buf);
        let (signaled, work) = signals(&mut self.unsignaled, what, waits);
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.push_whole(Operation::Send { invalidate }, buf, signaled, work.unwrap_or(Work::Part));
        }
        true
    }

    /// The message of a call or a reply.
    fn message(&mut self, what: Sent) -> Option<&mut Message> {
        message(&self.session, &mut self.calls, &mut self.served, what)
    }

    /// Posts a Send.
    fn send(&mut self, what: Sent, invalidate: Option<u32>, parts: ArrayVec<Part, SLICES>, waits: bool) {
        let (signaled, work) = signals(&mut self.unsignaled, what, waits);
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.push(Operation::Send { invalidate }, parts, signaled, work.unwrap_or(Work::Part));
        }
    }

    /// Sends one of several transmissions, or one with placed data: header, stream and the zeros before the data are copied,
    /// the data are sent from where they are.
    fn transmit_share(
        &mut self,
        transmit: &Transmit,
        share: Share,
        pool: &Pool<D>,
        scratch: &[u8],
        watch: &mut impl FnMut(&[u8]),
    ) {
        let Transmit { what, header, invalidate, .. } = *transmit;
        let mut written = Some(false);
        if share.number == 0 {
            self.trace(what);
            written = if let Sent::Reply { call } = what { self.write(call, pool) } else { Some(false) };
            self.holds = written == Some(true);
        }
        let mut laid = std::mem::take(&mut self.laid);
        laid.clear();
        laid.extend(self.session.laid(transmit));
        // What one transmission of a group sends from where it is, another can't copy meanwhile.
        let is_alone = share.number == 0 && share.last;
        let gathers = slices(&laid) <= self.slices && (is_alone || self.slices >= MOST);
        let first = laid.iter().position(|piece| gathers && matches!(piece, Laid::Data(_))).unwrap_or(laid.len());
        let (copied, data) = laid.split_at(first);
        let head = written.and_then(|_| self.copy_head(what, scratch.get(..header).unwrap_or_default(), copied, pool));
        let sent = head.and_then(|head| {
            watch(&head);
            let mut parts = ArrayVec::<Part, SLICES>::new();
            parts.push(Part { from: 0, length: head.len() as u32, buf: head.into() });
            self.add_data(what, data, &mut parts, pool).then_some(parts)
        });
        self.holds |= !data.is_empty();
        self.laid = laid;
        let Some(parts) = sent else {
            // The connection is closed: what is in the group still is given back with it.
            if share.last {
                self.released(what);
            }
            return;
        };
        self.counters.sends += 1;
        let waits = share.last && self.holds;
        self.send(what, invalidate, parts, waits);
        if share.last && !self.holds {
            self.released(what);
        }
    }

    /// A buffer with a header and what follows it at once.
    fn copy_head(&mut self, what: Sent, header: &[u8], pieces: &[Laid], pool: &Pool<D>) -> Option<Buf> {
        let octets: u32 = pieces.iter().map(length).sum();
        let total = u32::try_from(header.len()).unwrap_or(u32::MAX).saturating_add(octets);
        let mut buf = self.take_rarely(total, pool)?;
        let (start, mut rest) = buf.as_full_mut().split_at_mut_checked(header.len())?;
        start.copy_from_slice(header);
        let mut copied = 0;
        for piece in pieces {
            let (out, after) = rest.split_at_mut_checked(length(piece) as usize)?;
            match piece {
                Laid::Zeros(_) => out.fill(0),
                Laid::Octets(range) | Laid::Data(range) => {
                    self.message(what)?.copy(range.clone(), out);
                    copied += u64::from(length(piece));
                }
            }
            rest = after;
        }
        self.counters.copied += copied;
        buf.set_len(total);
        Some(buf)
    }

    /// Adds data, and the zeros between them, from where they are. False if there is no memory for zeros.
    fn add_data(&mut self, what: Sent, pieces: &[Laid], parts: &mut ArrayVec<Part, SLICES>, pool: &Pool<D>) -> bool {
        for piece in pieces {
            let part = match piece {
                Laid::Zeros(count) => self.zeros(pool).map(|buf| Part { buf, from: 0, length: *count }),
                Laid::Octets(range) | Laid::Data(range) => {
                    let source = self.message(what).and_then(|message| message.source_at(range.start));
                    source.map(|(buf, from)| Part { buf: buf.clone(), from, length: range.end - range.start })
                }
            };
            let Some(part) = part else { return false };
            if parts.try_push(part).is_err() {
                return false;
            }
        }
        true
    }

    /// Zeros to be sent between data: as many as the engine wants at once.
    fn zeros(&mut self, pool: &Pool<D>) -> Option<Lent> {
        if self.zeros.is_none() {
            let mut buf = self.take_rarely(ZEROS, pool)?;
            buf.as_full_mut().fill(0);
            buf.set_len(ZEROS);
            self.zeros = Some(buf.into());
        }
        self.zeros.clone()
    }

    /// Tells how a call travels, and why.
    #[inline]
    fn trace(&self, what: Sent) {
        let Sent::Call { xid } = what else { return };
        let Some(ours) = self.calls.get(self.session.place(xid)) else { return };
        if ours.span.is_disabled() {
            return;
        }
        if let (Some(travel), Some(cost)) = (self.session.travel(xid), self.session.cost(xid)) {
            debug!(parent: &ours.span, %travel, %cost, "sent");
        }
    }

    /// Writes what of a reply goes to the peer's memory; whether there is any. None if there is no memory for it.
    fn write(&mut self, call: Served, pool: &Pool<D>) -> Option<bool> {
        let Some(theirs) = self.served.get_mut(self.session.served_place(call)) else { return Some(false) };
        let Some(endpoint) = &mut self.endpoint else { return Some(false) };
        let mut any = false;
        for write in self.session.writes(call) {
            let length = write.octets.end - write.octets.start;
            let part = match theirs.reply.source_at(write.octets.start) {
                Some((buf, from)) => Part { buf: buf.clone(), from, length },
                None => {
                    if theirs.long.is_none() {
                        let whole = theirs.reply.length();
                        let mut buf = pool.take(whole).map_err(|error| self.wish = Some(given_up(&error))).ok()?;
                        theirs.reply.copy(0..whole, buf.as_full_mut());
                        buf.set_len(whole);
                        self.counters.copied += u64::from(whole);
                        theirs.long = Some(buf.into());
                    }
                    Part { buf: theirs.long.clone()?, from: write.octets.start, length }
                }
            };
            let to = Remote { address: write.target.offset, key: write.target.handle };
            endpoint.push(Operation::Write { to }, [part], false, Work::Part);
            self.counters.writes += 1;
            any = true;
        }
        Some(any)
    }
}

/// Whether the next Send is signaled, as it is if something waits for it, and what it is for, if it does.
#[inline]
fn signals(unsignaled: &mut u32, what: Sent, waits: bool) -> (bool, Option<Work>) {
    *unsignaled += 1;
    let signaled = waits || *unsignaled >= SIGNAL;
    if signaled {
        *unsignaled = 0;
    }
    (signaled, waits.then_some(Work::Send(what)))
}

/// Writes a header, and the parts of a message that follow it.
#[inline(always)]
fn write_message(
    message: Option<&mut Message>,
    parts: impl Iterator<Item = Range<u32>>,
    (scratch, header): (&[u8], usize),
    out: &mut [u8],
) {
    copy_header(out, scratch, header);
    let Some(message) = message else { return };
    let mut at = header;
    for part in parts {
        let end = at + (part.end - part.start) as usize;
        message.copy(part, out.get_mut(at..end).unwrap_or_default());
        at = end;
    }
}

/// Copies a header to the beginning of a message. Most have no chunks: then as many octets as that may be are copied, since a
/// number that is known takes no call. What is too many is written over, or not sent.
#[inline]
fn copy_header(out: &mut [u8], scratch: &[u8], header: usize) {
    if header <= PLAIN
        && let (Some(out), Some(scratch)) = (out.first_chunk_mut::<PLAIN>(), scratch.first_chunk())
    {
        *out = *scratch;
    } else if let (Some(out), Some(scratch)) = (out.get_mut(..header), scratch.get(..header)) {
        out.copy_from_slice(scratch);
    }
}

/// The most octets of a header without chunks.
const PLAIN: usize = 32;

/// The message of a call or a reply.
#[inline]
fn message<'a, D: Device>(
    session: &Session,
    calls: &'a mut [Ours<D>],
    served: &'a mut [Theirs],
    what: Sent,
) -> Option<&'a mut Message> {
    match what {
        Sent::Call { xid } => calls.get_mut(session.place(xid)).map(|ours| &mut ours.message),
        Sent::Reply { call } => served.get_mut(session.served_place(call)).map(|theirs| &mut theirs.reply),
        Sent::Header => None,
    }
}

/// Slices that any one transmission of a group needs: header, three runs of data, and zeros before the second and the third.
const MOST: usize = 6;

/// Octets of a piece.
const fn length(piece: &Laid) -> u32 {
    match piece {
        Laid::Zeros(count) => *count,
        Laid::Octets(range) | Laid::Data(range) => range.end - range.start,
    }
}

/// Slices of a Send: one for all before the data.
fn slices(laid: &[Laid]) -> usize {
    1 + laid.iter().skip_while(|piece| !matches!(piece, Laid::Data(_))).count()
}
