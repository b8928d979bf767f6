//! How a message travels by rtrext-02: in one or several transmissions, with data placed by the Sends themselves.

use core::fmt;

use arrayvec::ArrayVec;

use super::cost::{chosen, octets};
use super::results::{Direction, Matched, Wanted, directed, sets};
use super::{Call, Cannot, Cost, ITEMS, Item, LEAST_RESULT, Link, RESULTS, Travel, Way, headers, padded};
use crate::placement::Structure;

/// What rtrext-02 allows in one direction of a connection, for calls and their replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Groups {
    /// The responder's receive buffers.
    pub theirs: Structure,
    /// The requester's receive buffers.
    pub ours: Structure,
    /// Transmissions of a request that the responder takes.
    pub requests: u32,
    /// Transmissions of a reply that the responder sends and the requester takes; zero if it sends none by ROPT_XMTRESP.
    pub replies: u32,
    /// Octets from which on an item is worth being placed.
    pub place_from: u32,
    /// Which way is taken where there are two.
    pub prefer: Prefer,
    /// How results are directed to be placed.
    pub direct: Direct,
}

/// Which way a call takes where it could travel by rtrext-02 or without.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Prefer {
    /// The one that costs less.
    #[default]
    Cheaper,
    /// That of rtrext-02, whenever there is one.
    Groups,
}

/// What a requester directs about a result that is worth being placed (rtrext-02, section 7.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Direct {
    /// By the Send if the largest fits, else by RDMA Write: only then memory is registered.
    #[default]
    Cheaper,
    /// By RDMA Write.
    Explicit,
    /// By either, as the responder likes.
    Choice,
    /// By RDMA Write from so many octets on, else by the Send.
    BySize(u32),
}

/// A call in transmissions of rtrext-02. Its sets have a bit for each item, or each result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grouped {
    /// Items that the Sends place.
    pub placed: u8,
    /// Items that the responder reads.
    pub read: u8,
    /// Transmissions.
    pub count: u32,
    /// Receives reserved for the reply, beyond the one that is always there (decision D19).
    pub reserve: u32,
    /// Results that the reply's Sends may place.
    pub send: u8,
    /// Results for which memory is exposed.
    pub explicit: u8,
    /// Results that something is directed about: these, and those before them that are to stay in the message.
    pub directed: u8,
    /// The size from which on results with both bits go by RDMA Write; none where the responder may choose.
    pub by_size: Option<u32>,
}

// A bit for each.
const _: () = assert!(ITEMS <= 8 && RESULTS <= 8);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in {} transmissions of rtrext-02", self.count)?;
        for (count, what) in [(self.placed, "items placed by them"), (self.read, "items read apart")] {
            if count != 0 {
                write!(f, ", {what}: {}", count.count_ones())?;
            }
        }
        match self.reserve {
            0 => f.write_str("; the reply in one")?,
            count => write!(f, "; the reply in up to {count}")?,
        }
        let either = self.send & self.explicit;
        let results = [
            (self.send & !either, "results placed by it"),
            (self.explicit & !either, "results written apart"),
            (either, "results either way"),
        ];
        for (count, what) in results {
            if count != 0 {
                write!(f, ", {what}: {}", count.count_ones())?;
            }
        }
        f.write_str("; as it costs less")
    }
}

/// The better of two ways: without any extension, and by rtrext-02.
// spec: rtr-4.3-g, rtr-5.2-h, rtr-9.2-d
pub(super) fn cheaper(
    call: &Call<'_>,
    link: &Link<'_>,
    groups: &Groups,
    base: Result<Travel, Cannot>,
) -> Result<Travel, Cannot> {
    let Some(grouped) = grouped(call, link, groups) else { return base };
    match base {
        Ok(base) if groups.prefer == Prefer::Cheaper && Cost::of(call, &base) <= Cost::of(call, &grouped) => Ok(base),
        _ => Ok(grouped),
    }
}

/// How a call travels by rtrext-02; none if it can't.
fn grouped(call: &Call<'_>, link: &Link<'_>, groups: &Groups) -> Option<Travel> {
    let (send, explicit, reserve) = directions(call, link, groups)?;
    let by_size = if let Direct::BySize(from) = groups.direct { Some(from) } else { None };
    let directed = directed(call.results, send | explicit);
    let told = headers::Contents {
        send,
        explicit,
        directed: directed.count_ones(),
        sets: sets(call.results, directed),
        by_size: by_size.is_some(),
        read: 0,
        segments: segments(call, explicit, link),
    };
    let (placed, read, header, count) = items(call, link, groups, told)?;
    let grouped = Grouped {
        placed: small(placed)?,
        read: small(read)?,
        count,
        reserve,
        send: small(send)?,
        explicit: small(explicit)?,
        directed: small(directed)?,
        by_size,
    };
    Some(Travel { call: Way::Grouped(grouped), writes: false, reply_chunk: None, header })
}

/// Which items are placed and which are read, the octets of the first header, and how many transmissions there are.
// spec: rtr-3.3-d, rtr-4.3-a, rtr-4.3-b, rtr-4.3-c, rtr-4.3-d, rtr-5.2-c, rtr-5.3-d, rtr-5.3-e, rtr-5.3-l, rtr-5.3-m
fn items(call: &Call<'_>, link: &Link<'_>, groups: &Groups, told: headers::Contents) -> Option<(u64, u64, u32, u32)> {
    let most = groups.requests.min(link.room);
    let items = call.items.get(..ITEMS).unwrap_or(call.items);
    let can_place = call.reducible && groups.theirs.target_count() > 0;
    let worth = |item: &Item| can_place && item.length >= groups.place_from.max(1);
    let (mut placed, mut read) = (set(items.iter().map(worth)), 0u64);
    loop {
        let stream = u32::try_from(u64::from(call.length).saturating_sub(octets(items, placed | read))).ok()?;
        let to_read: u64 = chosen(items, read).map(|item| link.segments(item.length)).sum();
        let fixed = headers::Contents { read, segments: told.segments.checked_add(to_read)?, ..told }.octets()?;
        let lengths: ArrayVec<u32, ITEMS> = chosen(items, placed).map(|item| item.length).collect();
        if let Some((header, count)) = headers::opener(&groups.theirs, fixed, stream, &lengths, most) {
            return Some((placed, read, header, count));
        }
        // What does not fit is read: the largest first.
        let largest =
            items.iter().enumerate().filter(|(at, _)| placed >> at & 1 == 1).max_by_key(|(_, item)| item.length);
        let (at, _) = largest.filter(|_| link.chunks)?;
        (placed, read) = (placed & !(1 << at), read | 1 << at);
    }
}

/// Which results may be placed and for which memory is exposed, and how many receives are reserved; none if the largest reply
/// has no way so.
// spec: rtr-3.4-e, rtr-4.3-e, rtr-4.3-f, rtr-4.3-h, rtr-5.1-a, rtr-5.2-f, rtr-5.3-g, rtr-5.3-h, rtr-5.3-i, rtr-5.3-k
fn directions(call: &Call<'_>, link: &Link<'_>, groups: &Groups) -> Option<(u64, u64, u32)> {
    let least = groups.place_from.max(LEAST_RESULT);
    let told = call.reducible && groups.replies > 0;
    let worth = |result: &Wanted| told && result.most >= least && !result.of.is_beyond(call.length);
    let all = set(call.results.iter().map(worth));
    let can_place = groups.ours.target_count() > 0;
    let (mut send, mut explicit) = match groups.direct {
        Direct::Cheaper if can_place => (all, 0),
        Direct::Choice | Direct::BySize(_) if can_place && link.chunks => (all, all),
        _ if link.chunks => (0, all),
        _ => (0, 0),
    };
    loop {
        let apart: u64 = chosen(call.results, send | explicit).map(|result| padded(result.most)).sum();
        let must = |at: usize| if send >> at & 1 == 1 { must_send(groups.direct, explicit >> at & 1 == 1) } else { 0 };
        let lengths = call.results.iter().enumerate().map(|(at, result)| result.most.min(must(at)));
        let lengths: ArrayVec<u32, RESULTS> = lengths.filter(|octets| *octets > 0).collect();
        let wanted = send | explicit;
        let fixed = headers::REPLY + headers::EXPLICIT * wanted.count_ones();
        let fixed = fixed + headers::NOTHING * (directed(call.results, wanted) & !wanted).count_ones();
        let fixed = fixed.checked_add(u32::try_from(16 * segments(call, explicit, link)).ok()?)?;
        let stream = u32::try_from(u64::from(call.largest_reply).saturating_sub(apart)).ok()?;
        let most = groups.replies.max(1);
        // Results that turn out to be short stay in the stream: all of them, or all but one beside what is placed.
        let short = |count: u32| stream.saturating_add(LEAST_RESULT * count);
        let count = wanted.count_ones();
        let counts = [(short(count.saturating_sub(1)), lengths.as_slice()), (short(count), &[])]
            .map(|(stream, lengths)| headers::opener(&groups.ours, fixed, stream, lengths, most));
        if let [Some((_, placed)), Some((_, short))] = counts {
            let count = placed.max(short);
            return Some((send, explicit, if count > 1 { count } else { 0 }));
        }
        let placed = call.results.iter().enumerate().filter(|(at, _)| must(*at) > 0);
        let (at, _) = placed.max_by_key(|(_, result)| result.most).filter(|_| link.chunks)?;
        (send, explicit) = (send & !(1 << at), explicit | 1 << at);
    }
}

/// Up to how many octets a result that the Sends may place must go by them: what the responder may write it need not send.
const fn must_send(direct: Direct, has_memory: bool) -> u32 {
    match direct {
        Direct::BySize(from) if has_memory => from.saturating_sub(1),
        _ if has_memory => 0,
        _ => u32::MAX,
    }
}

/// A set as it is kept.
fn small(set: u64) -> Option<u8> {
    u8::try_from(set).ok()
}

/// Segments of the memory that is exposed for these results.
fn segments(call: &Call<'_>, explicit: u64, link: &Link<'_>) -> u64 {
    chosen(call.results, explicit).map(|result| link.segments(result.most)).sum()
}

/// A set of those that are true.
fn set(which: impl Iterator<Item = bool>) -> u64 {
    which.take(64).enumerate().fold(0, |set, (at, is)| set | u64::from(is) << at)
}

/// A reply to a request of rtrext-02.
#[derive(Clone, Copy, Debug)]
pub struct GroupAnswer<'a> {
    /// Octets of XDR with everything in place.
    pub length: u32,
    /// Results that may be moved apart, in their order.
    pub results: &'a [Item],
    /// What the request directs.
    pub directions: &'a [Direction],
    /// Which of the results has which of the directions.
    pub matched: Matched,
    /// The requester's receive buffers.
    pub theirs: &'a Structure,
    /// Transmissions that the reply may have.
    pub most: u32,
}

impl GroupAnswer<'_> {
    /// What is directed about a result.
    fn direction(&self, result: usize) -> Option<Direction> {
        self.directions.get(self.matched.direction(result)?).copied()
    }
}

/// How such a reply travels. Its sets have a bit for each result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupReturn {
    /// Which of the results has which of the directions.
    pub matched: Matched,
    /// Results that the Sends place.
    pub placed: u8,
    /// Results that are written.
    pub written: u8,
    /// Octets of the first header.
    pub header: u32,
    /// Transmissions.
    pub count: u32,
}

/// How a reply to a request of rtrext-02 travels: each result as it is directed, by the Sends where both is allowed and it fits.
///
/// # Errors
/// There is no way.
// spec: rtr-3.4-c, rtr-3.4-d, rtr-6.2-t, rtr-6.2-u, rtr-7.4-c, rtr-7.4-d, rtr-7.4-e, rtr-7.4-f, rtr-7.4-i, rtr-7.4-u
// spec: rtr-7.4-v
pub fn group_reply(answer: &GroupAnswer<'_>) -> Result<GroupReturn, Cannot> {
    let can_place = answer.theirs.target_count() > 0;
    let (mut placed, mut written, mut either) = (0u64, 0u64, 0u64);
    for (at, result) in answer.results.iter().take(RESULTS).enumerate() {
        let Some(Direction { least, memory, send, by_size, .. }) = answer.direction(at) else { continue };
        if result.length == 0 || result.length < least {
            continue;
        }
        let fits = memory.is_some_and(|octets| result.length <= octets);
        let sends = send && can_place && by_size.is_none_or(|from| result.length < from);
        if memory.is_some() && !fits && !send {
            return Err(Cannot::ResultTooLong);
        }
        let bit = 1 << at;
        match (sends, fits) {
            (true, fits) => {
                placed |= bit;
                either |= if fits && by_size.is_none() { bit } else { 0 };
            }
            (false, true) => written |= bit,
            // It stays in the message, as one that is too short.
            (false, false) => {}
        }
    }
    loop {
        if let Some(found) = laid(answer, placed, written) {
            return Ok(found);
        }
        // What may be written after all makes room: the largest first.
        let results = answer.results.iter().enumerate().filter(|(at, _)| (placed & either) >> at & 1 == 1);
        let Some((at, _)) = results.max_by_key(|(_, result)| result.length) else { return Err(Cannot::ReplyTooLong) };
        (placed, written) = (placed & !(1 << at), written | 1 << at);
    }
}

/// The header and the transmissions of a reply that travels so; none if it does not fit.
pub(crate) fn laid(answer: &GroupAnswer<'_>, placed: u64, written: u64) -> Option<GroupReturn> {
    let apart = octets(answer.results, placed | written);
    let stream = u32::try_from(u64::from(answer.length).saturating_sub(apart)).ok()?;
    let lengths: ArrayVec<u32, RESULTS> = chosen(answer.results, placed).map(|item| item.length).collect();
    let directed = u32::try_from(answer.directions.len()).ok()?;
    let others = directed.checked_sub(placed.count_ones() + written.count_ones())?;
    let fixed = headers::REPLY + headers::EXPLICIT * written.count_ones() + headers::NOTHING * others;
    let segments = (0..RESULTS).filter(|at| written >> at & 1 == 1).filter_map(|at| answer.direction(at));
    let segments = segments.map(|direction| direction.segments).sum::<u32>();
    let fixed = fixed.checked_add(segments.checked_mul(16)?)?;
    let (header, count) = headers::opener(answer.theirs, fixed, stream, &lengths, answer.most)?;
    Some(GroupReturn { matched: answer.matched, placed: small(placed)?, written: small(written)?, header, count })
}

#[cfg(test)]
mod tests;
