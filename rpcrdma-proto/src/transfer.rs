//! The transfer planner: chooses how each message is transferred.
//!
//! A caller describes its call, never how to send it: the length, the reducible items, and the
//! maximum length of the reply. [`plan_call`] returns the cheapest method that the connection
//! allows, in this order, with the reason:
//!
//! 1. the whole call inline: one Send;
//! 2. the largest items in Read chunks, as few as make the rest fit: one RDMA Read for each;
//! 3. the whole call in a position-zero Read chunk: one RDMA Read.
//!
//! For the reply the call offers nothing if the largest reply fits inline. Otherwise it offers a
//! Write chunk for each reducible result, and a Reply chunk if the rest may still not fit. If there
//! are no reducible results, or so many chunks do not fit the header of the reply, it offers one
//! Reply chunk for the whole reply. An unused offer costs its registration.
//!
//! If the connection uses rtrext-02 ([`GroupLimits`]), the planner compares the cost ([`Cost`]) of
//! a group: one or several transmissions whose Sends place items and results.
//!
//! Planning takes no credit and exposes no memory. The number of segments in a plan is an estimate
//! from [`PathLimits::max_segment_len`]: `connection::requester` checks the exposed segments, and
//! plans the call once more if they do not fit. `crate::sizes` and `headers` have the lengths of
//! headers.
//!
//! ```
//! use rpcrdma_proto::transfer::{CallSpec, DataItem, PathLimits, TransferMethod, plan_call};
//! use rpcrdma_proto::version::Version;
//!
//! let link = PathLimits {
//!     version: Version::Two,
//!     call_threshold: 4096,
//!     reply_threshold: 4096,
//!     chunks: true,
//!     max_read_chunks: u32::MAX,
//!     max_segment_len: 1 << 20,
//!     groups: None,
//!     available_credits: 1,
//! };
//! // A WRITE whose data begin at byte 120 and are the last argument.
//! let method = |length| {
//!     let items = [DataItem { position: 120, length }];
//!     let items = &items[..];
//!     let length = 120 + length;
//!     let write = CallSpec { length, items, max_reply: 200, results: &[], reducible: true };
//!     plan_call(&write, &link).map(|plan| plan.method)
//! };
//! assert_eq!(method(1024), Ok(TransferMethod::Inline));
//! assert_eq!(method(65536), Ok(TransferMethod::Reduced(1)));
//! ```

mod cost;
mod group;
pub(crate) mod headers;
mod results;

use core::fmt;
use core::ops::Range;

use crate::sizes;
use crate::version::Version;

pub use cost::Cost;
pub use group::{
    GroupLimits, GroupPlan, GroupReplyPlan, GroupReplySpec, MethodPreference, ResultPlacement,
    plan_group_reply,
};
#[cfg(feature = "alloc")]
pub(crate) use group::{layout_group_reply as group_laid, reply_transmissions};
pub use results::{DirectionMatch, ResultDirection, ResultItem, ResultSpec, Span};
#[cfg(feature = "alloc")]
pub(crate) use results::{in_order, sets as result_sets};

/// The maximum number of reducible arguments of one call. Further arguments stay inline.
pub const MAX_ITEMS: usize = 8;

/// The maximum number of reducible results of one call. Further results stay inline.
pub const MAX_RESULTS: usize = 8;

/// The minimum length in bytes of a result that a Send places. Shorter results stay in the message.
pub const MIN_PLACED_RESULT: u32 = 1024;

/// A reducible data item (RFC 8166, section 3.4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataItem {
    /// The position of the data in the call, after their count, in bytes: a multiple of four.
    pub position: u32,
    /// The length in bytes without padding.
    pub length: u32,
}

/// Describes a call to the planner.
#[derive(Clone, Copy, Debug)]
pub struct CallSpec<'a> {
    /// The length of the call in bytes of XDR, with all items in place.
    pub length: u32,
    /// The reducible arguments, in order. Those after the first [`MAX_ITEMS`] stay inline.
    pub items: &'a [DataItem],
    /// The maximum length of the reply in bytes, with all results in place.
    pub max_reply: u32,
    /// The reducible results, in order. Those after the first [`MAX_RESULTS`] stay inline.
    pub results: &'a [ResultSpec],
    /// Whether items may be reduced at all: not if the message is protected (RFC 8166, section
    /// 8.2.2.3).
    pub reducible: bool,
}

/// The limits of a connection in the direction of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathLimits<'a> {
    /// The version.
    pub version: Version,
    /// The size in bytes of the largest Send that the responder accepts.
    pub call_threshold: u32,
    /// The size in bytes of the largest Send that the requester accepts.
    pub reply_threshold: u32,
    /// Whether chunks are allowed in this direction (bidirection-04, section 5.3).
    pub chunks: bool,
    /// The number of Read chunks, besides one at position zero, that the responder reassembles
    /// correctly: one for Linux before 6.12.
    pub max_read_chunks: u32,
    /// The maximum number of bytes that one segment registers.
    pub max_segment_len: u32,
    /// The limits of rtrext-02; `None` if it is not in use.
    pub groups: Option<&'a GroupLimits>,
    /// The number of available credits. A call in several transmissions takes one for each.
    pub available_credits: u32,
}

/// Describes how a call is transferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferPlan {
    /// The transfer method of the call itself.
    pub method: TransferMethod,
    /// Whether the call offers a Write chunk for each result. For a call in transmissions, the
    /// [`GroupPlan`] tells instead.
    pub write_chunks: bool,
    /// The length in bytes of the Reply chunk that the call offers.
    pub reply_chunk: Option<u32>,
    /// The length of the transport header in bytes.
    pub header: u32,
}

/// The transfer method of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferMethod {
    /// The whole call is in the Send.
    Inline,
    /// Some items are in Read chunks, and the rest fits the Send. The value has a bit for each
    /// reduced item.
    Reduced(u64),
    /// The whole call is in a position-zero Read chunk, since no reduction makes it fit.
    Long,
    /// The call is in transmissions of rtrext-02, since that costs less.
    Grouped(GroupPlan),
}

impl TransferPlan {
    /// Returns whether the call uses no chunks and exposes no memory.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.method == TransferMethod::Inline && !self.write_chunks && self.reply_chunk.is_none()
    }

    /// Returns whether the call exposes memory.
    #[must_use]
    pub fn exposes(&self) -> bool {
        match self.method {
            TransferMethod::Inline => self.write_chunks || self.reply_chunk.is_some(),
            TransferMethod::Reduced(_) | TransferMethod::Long => true,
            TransferMethod::Grouped(grouped) => grouped.read | grouped.explicit != 0,
        }
    }
}

/// Formats the plan with its reasons.
impl fmt::Display for TransferPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.method {
            TransferMethod::Inline => f.write_str("inline, as it fits")?,
            TransferMethod::Reduced(reduced) => write!(
                f,
                "items in Read chunks: {}, as the rest fits",
                reduced.count_ones()
            )?,
            TransferMethod::Long => {
                f.write_str("all of it in a Read chunk, as nothing less would fit")?
            }
            TransferMethod::Grouped(grouped) => return grouped.fmt(f),
        }
        match (self.write_chunks, self.reply_chunk) {
            (false, None) => f.write_str("; the reply inline, as the largest fits"),
            (true, None) => {
                f.write_str("; results in Write chunks, as the rest of the largest reply fits")
            }
            (false, Some(bytes)) => write!(
                f,
                "; a Reply chunk of {bytes}, as the largest reply may not fit"
            ),
            (true, Some(bytes)) => {
                write!(
                    f,
                    "; results in Write chunks, and a Reply chunk of {bytes}, as the rest may \
                    not fit"
                )
            }
        }
    }
}

/// Describes why a call or a reply cannot be transferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TransferError {
    /// The call does not fit inline, and chunks are not allowed.
    CallTooLong,
    /// The reply, or the largest possible one, fits neither inline nor the offered memory.
    ReplyTooLong,
    /// The header with all its segments does not fit inline.
    TooManySegments,
    /// A result does not fit the Write chunk that was offered for it.
    ResultTooLong,
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CallTooLong => "the call does not fit inline, and chunks are not allowed",
            Self::ReplyTooLong => "the reply does not fit inline, nor in the offered chunks",
            Self::TooManySegments => "the header with all its segments does not fit inline",
            Self::ResultTooLong => "a result does not fit the Write chunk offered for it",
        })
    }
}

impl core::error::Error for TransferError {}

impl PathLimits<'_> {
    /// Returns the length of a header without chunks.
    const fn base(&self) -> u64 {
        self.version.header_len() as u64
    }

    /// Returns the number of segments that cover `bytes` bytes: at least one.
    fn segments(&self, bytes: u32) -> u64 {
        u64::from(bytes.div_ceil(self.max_segment_len.max(1)).max(1))
    }

    /// Returns the number of bytes that a Read chunk adds to the header.
    fn read_chunk(&self, bytes: u32) -> u64 {
        u64::from(sizes::READ_SEGMENT) * self.segments(bytes)
    }

    /// Returns the number of bytes that a Write chunk adds to the header.
    fn write_chunk(&self, bytes: u32) -> u64 {
        u64::from(sizes::WRITE_CHUNK) + u64::from(sizes::SEGMENT) * self.segments(bytes)
    }

    /// Returns the number of bytes that the Reply chunk adds to the header.
    fn reply_chunk(&self, bytes: u32) -> u64 {
        u64::from(sizes::REPLY_CHUNK) + u64::from(sizes::SEGMENT) * self.segments(bytes)
    }
}

/// Returns the length of an item in XDR, with padding.
fn padded(bytes: u32) -> u64 {
    u64::from(bytes).next_multiple_of(4)
}

/// Plans the transfer of a call.
///
/// ```
/// use rpcrdma_proto::transfer::{CallSpec, DataItem, PathLimits, TransferMethod, plan_call};
/// use rpcrdma_proto::version::Version;
///
/// let link = PathLimits {
///     version: Version::Two,
///     call_threshold: 4096,
///     reply_threshold: 4096,
///     chunks: true,
///     max_read_chunks: u32::MAX,
///     max_segment_len: 1 << 20,
///     groups: None,
///     available_credits: 1,
/// };
/// // A WRITE of 64 KiB, whose reply is short.
/// let data = DataItem { position: 120, length: 65536 };
/// let (items, results) = (&[data], &[]);
/// let write = CallSpec { length: 65656, items, max_reply: 200, results, reducible: true };
/// let plan = plan_call(&write, &link)?;
/// assert_eq!(plan.method, TransferMethod::Reduced(1));
/// assert_eq!((plan.write_chunks, plan.reply_chunk), (false, None));
/// # Ok::<(), rpcrdma_proto::transfer::TransferError>(())
/// ```
///
/// # Errors
/// No transfer method fits.
#[inline]
pub fn plan_call(
    call: &CallSpec<'_>,
    link: &PathLimits<'_>,
) -> Result<TransferPlan, TransferError> {
    let shorter;
    let call = if call.results.len() > MAX_RESULTS {
        shorter = CallSpec {
            results: call.results.get(..MAX_RESULTS).unwrap_or_default(),
            ..*call
        };
        &shorter
    } else {
        call
    };
    match link.groups {
        None => plan_base(call, link),
        Some(groups) => group::cheaper(call, link, groups, plan_base(call, link)),
    }
}

/// Plans a call without any extension.
// spec: v2-2.1-d, v2-2.1-e, bd-5.3-d, bd-5.3-e
#[inline]
fn plan_base(call: &CallSpec<'_>, link: &PathLimits<'_>) -> Result<TransferPlan, TransferError> {
    let (writes, reply_chunk) = offer(call, link)?;
    let offered = if writes {
        call.results
            .iter()
            .map(|result| link.write_chunk(result.max_length))
            .sum()
    } else {
        0
    };
    let base = link.base() + offered + reply_chunk.map_or(0, |bytes| link.reply_chunk(bytes));
    let (method, header) = arguments(call, link, base)?;
    // The header fits the threshold, which has 32 bits.
    let header = u32::try_from(header).map_err(|_| TransferError::TooManySegments)?;
    Ok(TransferPlan {
        method,
        write_chunks: writes,
        reply_chunk,
        header,
    })
}

/// Returns what the call offers for the reply: whether Write chunks, and the length of a Reply
/// chunk.
#[inline]
fn offer(call: &CallSpec<'_>, link: &PathLimits<'_>) -> Result<(bool, Option<u32>), TransferError> {
    if link.base() + u64::from(call.max_reply) <= link.reply_threshold.into() {
        return Ok((false, None));
    }
    offer_chunks(call, link)
}

/// Returns what the call offers for a reply that may not fit inline.
// spec: rfc8166-4.3.3-a, rfc8166-8.2.2.3-b
fn offer_chunks(
    call: &CallSpec<'_>,
    link: &PathLimits<'_>,
) -> Result<(bool, Option<u32>), TransferError> {
    let (largest, threshold) = (u64::from(call.max_reply), u64::from(link.reply_threshold));
    if !link.chunks {
        return Err(TransferError::ReplyTooLong);
    }
    // The reply's header returns the offered chunks, and must fit, too.
    let fits = |returned: u64| link.base() + returned <= threshold;
    let whole = || match fits(link.reply_chunk(call.max_reply)) {
        true => Ok((false, Some(call.max_reply))),
        false => Err(TransferError::TooManySegments),
    };
    if !call.reducible || call.results.is_empty() {
        return whole();
    }
    let reduced: u64 = call
        .results
        .iter()
        .map(|result| padded(result.max_length))
        .sum();
    let rest = largest.saturating_sub(reduced);
    let returned: u64 = call
        .results
        .iter()
        .map(|result| link.write_chunk(result.max_length))
        .sum();
    if fits(returned + rest) {
        return Ok((true, None));
    }
    // At most the largest reply, whose length has 32 bits.
    let rest = u32::try_from(rest).unwrap_or(call.max_reply);
    if fits(returned + link.reply_chunk(rest)) {
        Ok((true, Some(rest)))
    } else {
        whole()
    }
}

/// Returns the maximum number of bytes of a reply that stay inline beside returned Write chunks;
/// zero without Write chunks, or if there is a Reply chunk for them. They must fit together with
/// the header, which is longer if the transport exposed more segments than expected.
#[cfg(feature = "alloc")]
pub(crate) fn inline_rest(call: &CallSpec<'_>, plan: &TransferPlan) -> u32 {
    if !plan.write_chunks || plan.reply_chunk.is_some() {
        return 0;
    }
    let results = call.results.iter().map(|result| padded(result.max_length));
    let rest = u64::from(call.max_reply).saturating_sub(results.sum());
    u32::try_from(rest).unwrap_or(u32::MAX)
}

/// Returns the method of the call itself, and the length of the whole header, given the `base`
/// bytes that it already has.
#[inline]
fn arguments(
    call: &CallSpec<'_>,
    link: &PathLimits<'_>,
    base: u64,
) -> Result<(TransferMethod, u64), TransferError> {
    if base + u64::from(call.length) <= link.call_threshold.into() {
        return Ok((TransferMethod::Inline, base));
    }
    plan_chunks(call, link, base)
}

/// Returns the method of a call that does not fit inline, and the length of the whole header.
// spec: rfc8166-3.4.2-b, rfc8166-3.5.2-a, rfc8166-3.5.3-a, rfc8166-6.1-b, rfc8166-8.2.2.3-b
fn plan_chunks(
    call: &CallSpec<'_>,
    link: &PathLimits<'_>,
    base: u64,
) -> Result<(TransferMethod, u64), TransferError> {
    let threshold = u64::from(link.call_threshold);
    let fits = |header: u64, inline: u64| header + inline <= threshold;
    if !link.chunks {
        return Err(TransferError::CallTooLong);
    }
    let (mut reduced, mut header, mut inline) = (0u64, base, u64::from(call.length));
    for _ in 0..link.max_read_chunks {
        let left = call
            .items
            .iter()
            .take(MAX_ITEMS)
            .enumerate()
            .filter(|(at, _)| reduced >> at & 1 == 0);
        let Some((at, item)) = left
            .max_by_key(|(_, item)| item.length)
            .filter(|_| call.reducible)
        else {
            break;
        };
        reduced |= 1 << at;
        header += link.read_chunk(item.length);
        inline = inline.saturating_sub(padded(item.length));
        if fits(header, inline) {
            return Ok((TransferMethod::Reduced(reduced), header));
        }
    }
    let header = base + link.read_chunk(call.length);
    if fits(header, 0) {
        Ok((TransferMethod::Long, header))
    } else {
        Err(TransferError::TooManySegments)
    }
}

/// Returns the ranges of a message of `length` bytes that remain inline: those between the reduced
/// items, which must be in order. The padding of an item is reduced with it.
// spec: rfc8166-3.4.4.4-b, rfc8166-3.5.3-e
pub fn remaining<I: Iterator<Item = DataItem>>(length: u32, reduced: I) -> Remaining<I> {
    Remaining {
        length,
        reduced,
        from: 0,
    }
}

/// Iterates over the ranges that [`remaining`] returns.
#[derive(Clone, Debug)]
pub struct Remaining<I> {
    length: u32,
    reduced: I,
    /// The start of the next range.
    from: u32,
}

impl<I: Iterator<Item = DataItem>> Iterator for Remaining<I> {
    type Item = Range<u32>;

    fn next(&mut self) -> Option<Range<u32>> {
        for item in &mut self.reduced {
            let range = self.from..item.position.min(self.length).max(self.from);
            let after =
                u32::try_from(u64::from(item.position) + padded(item.length)).unwrap_or(u32::MAX);
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

/// Describes a reply to the planner, with the memory that its call offered.
#[derive(Clone, Copy, Debug)]
pub struct ReplySpec<'a> {
    /// The length of the reply in bytes of XDR, with all results in place.
    pub length: u32,
    /// The reducible results, in order.
    pub results: &'a [DataItem],
    /// The capacity of each Write chunk in bytes; `None` for a chunk without segments, whose result
    /// must stay inline.
    pub write_chunks: &'a [Option<u32>],
    /// The capacity of the Reply chunk in bytes.
    pub reply_chunk: Option<u32>,
    /// The length of the transport header in bytes, with the chunks that it returns.
    pub header: u32,
    /// The size in bytes of the largest Send that the requester accepts.
    pub threshold: u32,
}

/// Describes how a reply is transferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyPlan {
    /// The results that are written to Write chunks: one bit each.
    pub reduced: u64,
    /// Whether the rest is written to the Reply chunk, since it does not fit inline.
    pub long: bool,
}

/// Plans the transfer of a reply: each result with a Write chunk is written to it, and the rest is
/// sent inline if it fits.
///
/// # Errors
/// The reply does not fit the offered memory.
// spec: rfc8166-3.5.3-d, rfc8166-4.3.2-a, rfc8166-4.3.2.2-a, rfc8166-4.3.2.3-a, rfc8166-4.3.3-b
pub fn plan_reply(answer: &ReplySpec<'_>) -> Result<ReplyPlan, TransferError> {
    let (mut reduced, mut left) = (0u64, u64::from(answer.length));
    for (at, (result, chunk)) in answer
        .results
        .iter()
        .zip(answer.write_chunks)
        .take(MAX_RESULTS)
        .enumerate()
    {
        let Some(capacity) = *chunk else { continue };
        if result.length > capacity {
            return Err(TransferError::ResultTooLong);
        }
        // An empty result leaves its chunk unused (RFC 8166, section 4.3.2.2).
        reduced |= u64::from(result.length > 0) << at;
        left = left.saturating_sub(padded(result.length));
    }
    if u64::from(answer.header) + left <= u64::from(answer.threshold) {
        return Ok(ReplyPlan {
            reduced,
            long: false,
        });
    }
    match answer.reply_chunk {
        _ if answer.header > answer.threshold => Err(TransferError::TooManySegments),
        Some(capacity) if left <= u64::from(capacity) => Ok(ReplyPlan {
            reduced,
            long: true,
        }),
        _ => Err(TransferError::ReplyTooLong),
    }
}

#[cfg(test)]
mod tests;
