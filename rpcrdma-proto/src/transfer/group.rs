//! The planning of messages by rtrext-02: one or several transmissions, with data that the Sends
//! place.
//!
//! `cheaper` decides between rtrext-02 and the base protocol. The requester reserves receives by
//! `reply_transmissions` before it knows the reply, so that number must cover each reply that a
//! responder may plan for the same directions (rtrext-02, section 4.3). The engine lays a plan out
//! again before a message is sent, since structures and segments may have changed.

use core::fmt;

use arrayvec::ArrayVec;

use super::cost::{bytes, chosen};
use super::results::{DirectionMatch, ResultDirection, ResultSpec, directed, sets};
use super::{
    CallSpec, Cost, DataItem, MAX_ITEMS, MAX_RESULTS, MIN_PLACED_RESULT, PathLimits, TransferError,
    TransferMethod, TransferPlan, headers, padded,
};
use crate::placement::BufferStructure;
use crate::sizes;

/// The limits of rtrext-02 in one direction of a connection, for calls and their replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupLimits {
    /// The responder's receive buffers.
    pub responder_structure: BufferStructure,
    /// The requester's receive buffers.
    pub requester_structure: BufferStructure,
    /// Transmissions of a request that the responder takes.
    pub max_request_transmissions: u32,
    /// Transmissions of a reply that the responder sends and the requester takes; zero if it sends
    /// none by ROPT_XMTRESP.
    pub max_reply_transmissions: u32,
    /// Bytes from which on an item is worth being placed.
    pub min_placed_len: u32,
    /// The transfer method of a call for which there are two.
    pub preference: MethodPreference,
    /// How results are directed to be placed.
    pub placement: ResultPlacement,
}

/// The preference between rtrext-02 and the base protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum MethodPreference {
    /// The cheaper method.
    #[default]
    Cheaper,
    /// A group of rtrext-02, if one is possible.
    Groups,
}

/// The direction of a requester about a result that is worth placing (rtrext-02, section 7.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum ResultPlacement {
    /// By the Send if the largest fits, else by RDMA Write: only then memory is registered.
    #[default]
    Cheaper,
    /// By RDMA Write.
    Explicit,
    /// By either, as the responder likes; by the Send where chunks are not allowed.
    Choice,
    /// By RDMA Write from so many bytes on, else by the Send; by the Send where chunks are not
    /// allowed.
    BySize(u32),
}

/// A call in transmissions of rtrext-02. Its sets have a bit for each item, or each result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupPlan {
    /// Items that the Sends place.
    pub placed: u8,
    /// Items that the responder reads.
    pub read: u8,
    /// Transmissions.
    pub count: u32,
    /// The number of receives reserved for the reply, in addition to the one that is always posted
    /// (decision D19).
    pub reply_receives: u32,
    /// Results that the reply's Sends may place.
    pub send: u8,
    /// Results for which memory is exposed.
    pub explicit: u8,
    /// The results with a direction: these, and earlier ones whose direction is to stay in the
    /// message.
    pub directed: u8,
    /// The size from which on results with both bits go by RDMA Write; none where the responder may
    /// choose.
    pub by_size: Option<u32>,
}

// A bit for each.
const _: () = assert!(MAX_ITEMS <= 8 && MAX_RESULTS <= 8);

impl fmt::Display for GroupPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in {} transmissions of rtrext-02", self.count)?;
        for (count, what) in [
            (self.placed, "items placed by them"),
            (self.read, "items in Read chunks"),
        ] {
            if count != 0 {
                write!(f, ", {what}: {}", count.count_ones())?;
            }
        }
        match self.reply_receives {
            0 => f.write_str("; the reply in one")?,
            count => write!(f, "; the reply in up to {count}")?,
        }
        let either = self.send & self.explicit;
        let results = [
            (self.send & !either, "results placed by it"),
            (self.explicit & !either, "results in Write chunks"),
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

/// Returns the cheaper of two plans: without the extension, and with rtrext-02.
// spec: rtr-4.3-g, rtr-5.2-h, rtr-9.2-d
pub(super) fn cheaper(
    call: &CallSpec<'_>,
    link: &PathLimits<'_>,
    groups: &GroupLimits,
    base: Result<TransferPlan, TransferError>,
) -> Result<TransferPlan, TransferError> {
    let Some(grouped) = plan_group(call, link, groups) else {
        return base;
    };
    match base {
        Ok(base)
            if groups.preference == MethodPreference::Cheaper
                && Cost::of(call, &base) <= Cost::of(call, &grouped) =>
        {
            Ok(base)
        }
        _ => Ok(grouped),
    }
}

/// Plans the transfer of a call with rtrext-02; `None` if it is not possible.
fn plan_group(
    call: &CallSpec<'_>,
    link: &PathLimits<'_>,
    groups: &GroupLimits,
) -> Option<TransferPlan> {
    let (send, explicit, reserve) = directions(call, link, groups)?;
    let by_size = if let ResultPlacement::BySize(from) = groups.placement {
        Some(from)
    } else {
        None
    };
    let directed = directed(call.results, send | explicit);
    let contents = headers::RequestContents {
        send,
        explicit,
        directed: directed.count_ones(),
        sets: sets(call.results, directed),
        by_size: by_size.is_some(),
        read: 0,
        segments: segments(call, explicit, link),
    };
    let (placed, read, header, count) = items(call, link, groups, contents)?;
    let grouped = GroupPlan {
        placed: small(placed)?,
        read: small(read)?,
        count,
        reply_receives: reserve,
        send: small(send)?,
        explicit: small(explicit)?,
        directed: small(directed)?,
        by_size,
    };
    Some(TransferPlan {
        method: TransferMethod::Grouped(grouped),
        write_chunks: false,
        reply_chunk: None,
        header,
    })
}

/// Returns which items are placed and which are read, the length of the first header, and the
/// number of transmissions.
// spec: rtr-3.3-d, rtr-4.3-a, rtr-4.3-b, rtr-4.3-c, rtr-4.3-d, rtr-5.2-c, rtr-5.3-d, rtr-5.3-e
// spec: rtr-5.3-l, rtr-5.3-m
fn items(
    call: &CallSpec<'_>,
    link: &PathLimits<'_>,
    groups: &GroupLimits,
    contents: headers::RequestContents,
) -> Option<(u64, u64, u32, u32)> {
    let most = groups.max_request_transmissions.min(link.available_credits);
    let items = call.items.get(..MAX_ITEMS).unwrap_or(call.items);
    let can_place = call.reducible && groups.responder_structure.target_count() > 0;
    let worth = |item: &DataItem| can_place && item.length >= groups.min_placed_len.max(1);
    let (mut placed, mut read) = (set(items.iter().map(worth)), 0u64);
    loop {
        let stream =
            u32::try_from(u64::from(call.length).saturating_sub(bytes(items, placed | read)))
                .ok()?;
        let to_read: u64 = chosen(items, read)
            .map(|item| link.segments(item.length))
            .sum();
        let fixed = headers::RequestContents {
            read,
            segments: contents.segments.checked_add(to_read)?,
            ..contents
        }
        .bytes()?;
        let lengths: ArrayVec<u32, MAX_ITEMS> =
            chosen(items, placed).map(|item| item.length).collect();
        if let Some((header, count)) =
            headers::first_header(&groups.responder_structure, fixed, stream, &lengths, most)
        {
            return Some((placed, read, header, count));
        }
        // Items that do not fit are read, the largest first.
        let largest = items
            .iter()
            .enumerate()
            .filter(|(at, _)| placed >> at & 1 == 1)
            .max_by_key(|(_, item)| item.length);
        let (at, _) = largest.filter(|_| link.chunks)?;
        (placed, read) = (placed & !(1 << at), read | 1 << at);
    }
}

/// Returns which results may be placed, for which memory is exposed, and the number of receives to
/// reserve; `None` if the largest reply does not fit.
// spec: rtr-3.4-e, rtr-4.3-e, rtr-4.3-f, rtr-4.3-h, rtr-5.1-a, rtr-5.2-f, rtr-5.3-g, rtr-5.3-h
// spec: rtr-5.3-i, rtr-5.3-k
fn directions(
    call: &CallSpec<'_>,
    link: &PathLimits<'_>,
    groups: &GroupLimits,
) -> Option<(u64, u64, u32)> {
    let least = groups.min_placed_len.max(MIN_PLACED_RESULT);
    let contents = call.reducible && groups.max_reply_transmissions > 0;
    let worth = |result: &ResultSpec| {
        contents && result.max_length >= least && !result.of.is_beyond(call.length)
    };
    let all = set(call.results.iter().map(worth));
    let can_place = groups.requester_structure.target_count() > 0;
    let (may_send, may_write) = match groups.placement {
        ResultPlacement::Cheaper => (can_place, !can_place),
        ResultPlacement::Explicit => (false, true),
        ResultPlacement::Choice | ResultPlacement::BySize(_) => (can_place, true),
    };
    let results_if = |may: bool| if may { all } else { 0 };
    let (mut send, mut explicit) = (results_if(may_send), results_if(may_write && link.chunks));
    loop {
        if let Some(count) = reply_transmissions(
            call,
            groups,
            (send, explicit),
            segments(call, explicit, link),
        ) {
            return Some((send, explicit, if count > 1 { count } else { 0 }));
        }
        let placed = call
            .results
            .iter()
            .enumerate()
            .filter(|(at, _)| must(groups, (send, explicit), *at) > 0);
        let (at, _) = placed
            .max_by_key(|(_, result)| result.max_length)
            .filter(|_| link.chunks)?;
        (send, explicit) = (send & !(1 << at), explicit | 1 << at);
    }
}

/// Returns the length up to which a result must be sent in the transmissions, where these results
/// may be placed and those written.
fn must(groups: &GroupLimits, (send, explicit): (u64, u64), at: usize) -> u32 {
    if send >> at & 1 == 1 {
        must_send(groups.placement, explicit >> at & 1 == 1)
    } else {
        0
    }
}

/// Returns the number of transmissions of the largest reply, if the results of the first set are
/// placed and those of the second are written to memory of so many segments; `None` if it does not
/// fit.
pub(crate) fn reply_transmissions(
    call: &CallSpec<'_>,
    groups: &GroupLimits,
    (send, explicit): (u64, u64),
    segments: u64,
) -> Option<u32> {
    let reduced: u64 = chosen(call.results, send | explicit)
        .map(|result| padded(result.max_length))
        .sum();
    let lengths = call
        .results
        .iter()
        .enumerate()
        .map(|(at, result)| result.max_length.min(must(groups, (send, explicit), at)));
    let lengths: ArrayVec<u32, MAX_RESULTS> = lengths.filter(|bytes| *bytes > 0).collect();
    let wanted = send | explicit;
    let fixed = headers::REPLY + headers::EXPLICIT_ITEM * wanted.count_ones();
    let fixed =
        fixed + headers::UNUSED_DIRECTION * (directed(call.results, wanted) & !wanted).count_ones();
    let fixed =
        fixed.checked_add(u32::try_from(segments.checked_mul(sizes::SEGMENT.into())?).ok()?)?;
    let stream = u32::try_from(u64::from(call.max_reply).saturating_sub(reduced)).ok()?;
    let most = groups.max_reply_transmissions.max(1);
    // Results that turn out to be short stay in the stream: all of them, or all but one beside the
    // placed data.
    let short = |count: u32| stream.saturating_add(MIN_PLACED_RESULT * count);
    let count = wanted.count_ones();
    let counts = [
        (short(count.saturating_sub(1)), lengths.as_slice()),
        (short(count), &[]),
    ]
    .map(|(stream, lengths)| {
        headers::first_header(&groups.requester_structure, fixed, stream, lengths, most)
    });
    let [Some((_, placed)), Some((_, short))] = counts else {
        return None;
    };
    Some(placed.max(short))
}

/// Returns the length up to which a result must be sent in the transmissions. A result that the
/// responder may write need not be sent.
const fn must_send(direct: ResultPlacement, has_memory: bool) -> u32 {
    match direct {
        ResultPlacement::BySize(from) if has_memory => from.saturating_sub(1),
        _ if has_memory => 0,
        _ => u32::MAX,
    }
}

/// Returns a set in its stored form.
fn small(set: u64) -> Option<u8> {
    u8::try_from(set).ok()
}

/// Returns the number of segments that are exposed for these results.
fn segments(call: &CallSpec<'_>, explicit: u64, link: &PathLimits<'_>) -> u64 {
    chosen(call.results, explicit)
        .map(|result| link.segments(result.max_length))
        .sum()
}

/// Returns the set of the elements that are true.
fn set(which: impl Iterator<Item = bool>) -> u64 {
    which
        .take(64)
        .enumerate()
        .fold(0, |set, (at, is)| set | u64::from(is) << at)
}

/// A reply to a request of rtrext-02.
#[derive(Clone, Copy, Debug)]
pub struct GroupReplySpec<'a> {
    /// Bytes of XDR with everything in place.
    pub length: u32,
    /// Results that may be reduced, in their order.
    pub results: &'a [DataItem],
    /// The directions of the request.
    pub directions: &'a [ResultDirection],
    /// Which of the results has which of the directions.
    pub matched: DirectionMatch,
    /// The requester's receive buffers.
    pub requester_structure: &'a BufferStructure,
    /// Transmissions that the reply may have.
    pub max_transmissions: u32,
}

impl GroupReplySpec<'_> {
    /// Returns the direction of a result.
    fn direction(&self, result: usize) -> Option<ResultDirection> {
        self.directions
            .get(self.matched.direction(result)?)
            .copied()
    }
}

/// The plan of such a reply. Its sets have a bit for each result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupReplyPlan {
    /// Which of the results has which of the directions.
    pub matched: DirectionMatch,
    /// Results that the Sends place.
    pub placed: u8,
    /// Results that are written.
    pub written: u8,
    /// Bytes of the first header.
    pub header: u32,
    /// Transmissions.
    pub count: u32,
}

/// Plans the reply to a request of rtrext-02. Each result is transferred as directed; where both
/// methods are allowed, it is sent in the transmissions if it fits.
///
/// # Errors
/// There is no way.
// spec: rtr-3.4-c, rtr-3.4-d, rtr-6.2-t, rtr-6.2-u, rtr-7.4-c, rtr-7.4-d, rtr-7.4-e, rtr-7.4-f
// spec: rtr-7.4-i, rtr-7.4-u
// spec: rtr-7.4-v
pub fn plan_group_reply(answer: &GroupReplySpec<'_>) -> Result<GroupReplyPlan, TransferError> {
    let can_place = answer.requester_structure.target_count() > 0;
    let (mut placed, mut written, mut either) = (0u64, 0u64, 0u64);
    for (at, result) in answer.results.iter().take(MAX_RESULTS).enumerate() {
        let Some(ResultDirection {
            min_length: least,
            memory,
            send,
            by_size,
            ..
        }) = answer.direction(at)
        else {
            continue;
        };
        if result.length == 0 || result.length < least {
            continue;
        }
        let fits = memory.is_some_and(|bytes| result.length <= bytes);
        let sends = send && can_place && by_size.is_none_or(|from| result.length < from);
        if memory.is_some() && !fits && !send {
            return Err(TransferError::ResultTooLong);
        }
        let bit = 1 << at;
        match (sends, fits) {
            (true, fits) => {
                placed |= bit;
                either |= if fits && by_size.is_none() { bit } else { 0 };
            }
            (false, true) => written |= bit,
            // The result stays in the message, as if it were too short.
            (false, false) => {}
        }
    }
    loop {
        if let Some(found) = layout_group_reply(answer, placed, written) {
            return Ok(found);
        }
        // Results that can be written instead make room, the largest first.
        let results = answer
            .results
            .iter()
            .enumerate()
            .filter(|(at, _)| (placed & either) >> at & 1 == 1);
        let Some((at, _)) = results.max_by_key(|(_, result)| result.length) else {
            return Err(TransferError::ReplyTooLong);
        };
        (placed, written) = (placed & !(1 << at), written | 1 << at);
    }
}

/// Returns the header length and the number of transmissions of a reply; `None` if it does not fit.
pub(crate) fn layout_group_reply(
    answer: &GroupReplySpec<'_>,
    placed: u64,
    written: u64,
) -> Option<GroupReplyPlan> {
    let reduced = bytes(answer.results, placed | written);
    let stream = u32::try_from(u64::from(answer.length).saturating_sub(reduced)).ok()?;
    let lengths: ArrayVec<u32, MAX_RESULTS> = chosen(answer.results, placed)
        .map(|item| item.length)
        .collect();
    let directed = u32::try_from(answer.directions.len()).ok()?;
    let others = directed.checked_sub(placed.count_ones() + written.count_ones())?;
    let fixed = headers::REPLY
        + headers::EXPLICIT_ITEM * written.count_ones()
        + headers::UNUSED_DIRECTION * others;
    let segments = (0..MAX_RESULTS)
        .filter(|at| written >> at & 1 == 1)
        .filter_map(|at| answer.direction(at));
    let segments = segments.map(|direction| direction.segments).sum::<u32>();
    let fixed = fixed.checked_add(segments.checked_mul(sizes::SEGMENT)?)?;
    let (header, count) = headers::first_header(
        answer.requester_structure,
        fixed,
        stream,
        &lengths,
        answer.max_transmissions,
    )?;
    Some(GroupReplyPlan {
        matched: answer.matched,
        placed: small(placed)?,
        written: small(written)?,
        header,
        count,
    })
}

#[cfg(test)]
mod tests;
