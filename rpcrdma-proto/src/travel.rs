//! How a message travels: the one place where it is chosen.
//!
//! A caller tells what it has, never how to send it: the octets of its call, which items of it may be moved apart, and what
//! the reply may be. [`call`] answers with the cheapest way that the connection takes, in this order, and says why:
//!
//! 1. all inline: one Send;
//! 2. with the largest items in Read chunks, as few as make the rest fit: one RDMA Read each;
//! 3. the whole call in a Position-Zero Read chunk: one RDMA Read, and nothing inline.
//!
//! For the reply it offers nothing where the largest one fits inline; else a Write chunk for each result that may be moved
//! apart; and a Reply chunk where the rest may still not fit. An offer that is not used costs its registration.
//!
//! Where the connection takes messages of rtrext-02 ([`Groups`]), they are held against that: the call goes in one or several
//! transmissions, with items and results placed by the Sends themselves, if that costs less ([`Cost`]).

mod cost;
mod group;
pub(crate) mod headers;
mod results;

use core::fmt;
use core::ops::Range;

use crate::version::Version;

pub use cost::Cost;
#[cfg(feature = "alloc")]
pub(crate) use group::laid as group_laid;
pub use group::{Direct, GroupAnswer, GroupReturn, Grouped, Groups, Prefer, group_reply};
pub use results::{Direction, Matched, ResultItem, Span, Wanted};
#[cfg(feature = "alloc")]
pub(crate) use results::{in_order, sets as result_sets};

/// Arguments of one call that can be moved apart: further ones stay in place.
pub const ITEMS: usize = 8;

/// Results of one call that can be moved apart: further ones stay in place.
pub const RESULTS: usize = 8;

/// Octets of the shortest result that is placed: shorter ones stay in the message.
pub const LEAST_RESULT: u32 = 1024;

/// An argument that may be moved apart (RFC 8166, section 3.4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// Where its data begin, behind their count, in octets from the call's beginning: a multiple of four.
    pub position: u32,
    /// Octets without padding.
    pub length: u32,
}

/// A call, as its caller knows it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Octets of XDR with everything in place.
    pub length: u32,
    /// Arguments that may be moved apart, in their order. Those after the first [`ITEMS`] stay in place.
    pub items: &'a [Item],
    /// Octets of the largest reply, with everything in place.
    pub largest_reply: u32,
    /// The results that may be moved apart, in their order. Those after the first [`RESULTS`] stay in place.
    pub results: &'a [Wanted],
    /// Whether anything may be moved apart at all: not if its octets are protected (RFC 8166, section 8.2.2.3).
    pub reducible: bool,
}

/// What a connection takes in the direction of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link<'a> {
    /// The version spoken.
    pub version: Version,
    /// Octets of the largest Send that the responder takes.
    pub call_threshold: u32,
    /// Octets of the largest Send that the requester takes.
    pub reply_threshold: u32,
    /// Whether chunks are taken in this direction (bidirection-04, section 5.3).
    pub chunks: bool,
    /// Read chunks, besides one at Position zero, that the responder puts together rightly: Linux before 6.12 only one.
    pub read_chunks: u32,
    /// The most octets that one segment registers.
    pub segment: u32,
    /// What rtrext-02 allows; none where it is not spoken.
    pub groups: Option<&'a Groups>,
    /// Credits that are there: a call in several transmissions needs as many.
    pub room: u32,
}

/// How a call travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Travel {
    /// How the call itself does.
    pub call: Way,
    /// Whether a Write chunk is offered for each of the results.
    pub writes: bool,
    /// Octets of the Reply chunk that is offered.
    pub reply_chunk: Option<u32>,
    /// Octets of the transport header.
    pub header: u32,
}

/// How the octets of a call travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// All in the Send: it fits.
    Inline,
    /// With some items in Read chunks: the rest fits. A bit for each item that is moved.
    Reduced(u64),
    /// In a Position-Zero Read chunk: nothing less would fit.
    Long,
    /// In transmissions of rtrext-02: it costs less.
    Grouped(Grouped),
}

impl Travel {
    /// Whether nothing is moved apart, and nothing offered: no memory is exposed.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.call == Way::Inline && !self.writes && self.reply_chunk.is_none()
    }

    /// Whether memory is exposed for it.
    #[must_use]
    pub fn exposes(&self) -> bool {
        match self.call {
            Way::Inline => self.writes || self.reply_chunk.is_some(),
            Way::Reduced(_) | Way::Long => true,
            Way::Grouped(grouped) => grouped.read | grouped.explicit != 0,
        }
    }
}

/// How and why, in words.
impl fmt::Display for Travel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.call {
            Way::Inline => f.write_str("inline, as it fits")?,
            Way::Reduced(moved) => write!(f, "items read apart: {}, as the rest fits", moved.count_ones())?,
            Way::Long => f.write_str("all of it read, as nothing less would fit")?,
            Way::Grouped(grouped) => return grouped.fmt(f),
        }
        match (self.writes, self.reply_chunk) {
            (false, None) => f.write_str("; the reply inline, as the largest fits"),
            (true, None) => f.write_str("; results written apart, as the rest of the largest reply fits"),
            (false, Some(octets)) => write!(f, "; a Reply chunk of {octets}, as the largest reply may not fit"),
            (true, Some(octets)) => {
                write!(f, "; results written apart, and a Reply chunk of {octets}, as the rest may not fit")
            }
        }
    }
}

/// Why a call can't travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cannot {
    /// It does not fit inline, and there are no chunks.
    CallTooLong,
    /// The reply, or the largest one, does not fit inline, and not what else there is.
    ReplyTooLong,
    /// The header with all its segments does not fit inline.
    TooManySegments,
    /// A result does not fit the Write chunk that was offered for it.
    ResultTooLong,
}

impl fmt::Display for Cannot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CallTooLong => "the call does not fit inline, and no chunks are taken",
            Self::ReplyTooLong => "the reply does not fit inline, and there are no chunks that take it",
            Self::TooManySegments => "the header with all its segments does not fit inline",
            Self::ResultTooLong => "a result does not fit the Write chunk offered for it",
        })
    }
}

impl core::error::Error for Cannot {}

impl Link<'_> {
    /// Octets of a header without chunks.
    const fn base(&self) -> u64 {
        self.version.header() as u64
    }

    /// Segments that so many octets take: one even for none.
    fn segments(&self, octets: u32) -> u64 {
        u64::from(octets.div_ceil(self.segment.max(1)).max(1))
    }

    /// Octets that a Read chunk adds to the header.
    fn read_chunk(&self, octets: u32) -> u64 {
        24 * self.segments(octets)
    }

    /// Octets that a Write chunk adds to the header.
    fn write_chunk(&self, octets: u32) -> u64 {
        8 + 16 * self.segments(octets)
    }

    /// Octets that the Reply chunk adds to the header.
    fn reply_chunk(&self, octets: u32) -> u64 {
        4 + 16 * self.segments(octets)
    }
}

/// Octets of XDR of an item, padding included.
fn padded(octets: u32) -> u64 {
    u64::from(octets).next_multiple_of(4)
}

/// How a call travels on a link.
///
/// ```
/// use rpcrdma_proto::travel::{Call, Item, Link, Way, call};
/// use rpcrdma_proto::version::Version;
///
/// let link = Link {
///     version: Version::Two,
///     call_threshold: 4096,
///     reply_threshold: 4096,
///     chunks: true,
///     read_chunks: u32::MAX,
///     segment: 1 << 20,
///     groups: None,
///     room: 1,
/// };
/// // A WRITE of 64 KiB, whose reply is short.
/// let data = Item { position: 120, length: 65536 };
/// let write = Call { length: 65656, items: &[data], largest_reply: 200, results: &[], reducible: true };
/// let travel = call(&write, &link)?;
/// assert_eq!((travel.call, travel.writes, travel.reply_chunk), (Way::Reduced(1), false, None));
/// # Ok::<(), rpcrdma_proto::travel::Cannot>(())
/// ```
///
/// # Errors
/// There is no way.
#[inline]
pub fn call(call: &Call<'_>, link: &Link<'_>) -> Result<Travel, Cannot> {
    let shorter;
    let call = if call.results.len() > RESULTS {
        shorter = Call { results: call.results.get(..RESULTS).unwrap_or_default(), ..*call };
        &shorter
    } else {
        call
    };
    match link.groups {
        None => by_base_means(call, link),
        Some(groups) => group::cheaper(call, link, groups, by_base_means(call, link)),
    }
}

/// How a call travels without any extension.
// spec: v2-2.1-d, v2-2.1-e, bd-5.3-d, bd-5.3-e
#[inline]
fn by_base_means(call: &Call<'_>, link: &Link<'_>) -> Result<Travel, Cannot> {
    let (writes, reply_chunk) = offer(call, link)?;
    let offered = if writes { call.results.iter().map(|result| link.write_chunk(result.most)).sum() } else { 0 };
    let base = link.base() + offered + reply_chunk.map_or(0, |octets| link.reply_chunk(octets));
    let (way, header) = arguments(call, link, base)?;
    // No more than the threshold, of 32 bits.
    let header = u32::try_from(header).map_err(|_| Cannot::TooManySegments)?;
    Ok(Travel { call: way, writes, reply_chunk, header })
}

/// What is offered for the reply: Write chunks, and the octets of a Reply chunk.
#[inline]
fn offer(call: &Call<'_>, link: &Link<'_>) -> Result<(bool, Option<u32>), Cannot> {
    if link.base() + u64::from(call.largest_reply) <= link.reply_threshold.into() {
        return Ok((false, None));
    }
    offer_chunks(call, link)
}

/// The same, where the reply may not fit inline.
fn offer_chunks(call: &Call<'_>, link: &Link<'_>) -> Result<(bool, Option<u32>), Cannot> {
    let (largest, threshold) = (u64::from(call.largest_reply), u64::from(link.reply_threshold));
    if !link.chunks {
        return Err(Cannot::ReplyTooLong);
    }
    // The reply's header returns what was offered: it must fit, too.
    let fits = |returned: u64| link.base() + returned <= threshold;
    let whole = || match fits(link.reply_chunk(call.largest_reply)) {
        true => Ok((false, Some(call.largest_reply))),
        false => Err(Cannot::TooManySegments),
    };
    if !call.reducible || call.results.is_empty() {
        return whole();
    }
    let moved: u64 = call.results.iter().map(|result| padded(result.most)).sum();
    let rest = largest.saturating_sub(moved);
    let returned: u64 = call.results.iter().map(|result| link.write_chunk(result.most)).sum();
    if fits(returned + rest) {
        return Ok((true, None));
    }
    // Never more than the largest reply, of 32 bits.
    let rest = u32::try_from(rest).unwrap_or(call.largest_reply);
    if fits(returned + link.reply_chunk(rest)) { Ok((true, Some(rest))) } else { whole() }
}

/// How the call's own octets travel, and the whole header, of which `base` octets are there already.
#[inline]
fn arguments(call: &Call<'_>, link: &Link<'_>, base: u64) -> Result<(Way, u64), Cannot> {
    if base + u64::from(call.length) <= link.call_threshold.into() {
        return Ok((Way::Inline, base));
    }
    by_chunks(call, link, base)
}

/// The same, where they do not fit inline.
fn by_chunks(call: &Call<'_>, link: &Link<'_>, base: u64) -> Result<(Way, u64), Cannot> {
    let threshold = u64::from(link.call_threshold);
    let fits = |header: u64, inline: u64| header + inline <= threshold;
    if !link.chunks {
        return Err(Cannot::CallTooLong);
    }
    let (mut moved, mut header, mut inline) = (0u64, base, u64::from(call.length));
    for _ in 0..link.read_chunks {
        let left = call.items.iter().take(ITEMS).enumerate().filter(|(at, _)| moved >> at & 1 == 0);
        let Some((at, item)) = left.max_by_key(|(_, item)| item.length).filter(|_| call.reducible) else { break };
        moved |= 1 << at;
        header += link.read_chunk(item.length);
        inline = inline.saturating_sub(padded(item.length));
        if fits(header, inline) {
            return Ok((Way::Reduced(moved), header));
        }
    }
    let header = base + link.read_chunk(call.length);
    if fits(header, 0) { Ok((Way::Long, header)) } else { Err(Cannot::TooManySegments) }
}

/// What is left of a message of `length` octets without the items that are moved apart, which are in their order: the
/// ranges between them. Their padding goes with them.
pub fn left<I: Iterator<Item = Item>>(length: u32, moved: I) -> Left<I> {
    Left { length, moved, from: 0 }
}

/// What is [`left`] of a message.
#[derive(Clone, Debug)]
pub struct Left<I> {
    length: u32,
    moved: I,
    /// Where the next range begins.
    from: u32,
}

impl<I: Iterator<Item = Item>> Iterator for Left<I> {
    type Item = Range<u32>;

    fn next(&mut self) -> Option<Range<u32>> {
        for item in &mut self.moved {
            let range = self.from..item.position.min(self.length).max(self.from);
            let after = u32::try_from(u64::from(item.position) + padded(item.length)).unwrap_or(u32::MAX);
            self.from = after.min(self.length).max(range.end);
            if !range.is_empty() {
                return Some(range);
            }
        }
        let last = self.from..self.length;
        self.from = self.length;
        (!last.is_empty()).then_some(last)
    }
}

/// A reply, as the consumer that has made it knows it, and what its call offered for it.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// Octets of XDR with everything in place.
    pub length: u32,
    /// Results that may be moved apart, in their order.
    pub results: &'a [Item],
    /// What each of the Write chunks takes in octets; none for one without segments, whose result is to stay in place.
    pub writes: &'a [Option<u32>],
    /// Octets that the Reply chunk takes.
    pub reply_chunk: Option<u32>,
    /// Octets of the transport header, with the chunks that it returns.
    pub header: u32,
    /// Octets of the largest Send that the requester takes.
    pub threshold: u32,
}

/// How a reply travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Return {
    /// The results that are written to Write chunks, a bit for each: those that have one.
    pub moved: u64,
    /// Whether what is left is written to the Reply chunk: it does not fit inline.
    pub long: bool,
}

/// How a reply travels: each result that has a Write chunk goes there, and what is left goes inline if it fits.
///
/// # Errors
/// There is no way.
pub fn reply(answer: &Answer<'_>) -> Result<Return, Cannot> {
    let (mut moved, mut left) = (0u64, u64::from(answer.length));
    for (at, (result, chunk)) in answer.results.iter().zip(answer.writes).take(RESULTS).enumerate() {
        let Some(capacity) = *chunk else { continue };
        if result.length > capacity {
            return Err(Cannot::ResultTooLong);
        }
        // An empty result leaves its chunk unused (RFC 8166, section 4.3.2.2).
        moved |= u64::from(result.length > 0) << at;
        left = left.saturating_sub(padded(result.length));
    }
    if u64::from(answer.header) + left <= u64::from(answer.threshold) {
        return Ok(Return { moved, long: false });
    }
    match answer.reply_chunk {
        _ if answer.header > answer.threshold => Err(Cannot::TooManySegments),
        Some(capacity) if left <= u64::from(capacity) => Ok(Return { moved, long: true }),
        _ => Err(Cannot::ReplyTooLong),
    }
}

#[cfg(test)]
mod tests;
