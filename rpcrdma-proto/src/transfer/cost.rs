//! The cost of a transfer method.

use core::fmt;

use super::{CallSpec, DataItem, TransferMethod, TransferPlan, padded};

/// The cost of an RPC with a transfer method, the most expensive field first: of two methods the
/// one with the lower cost is chosen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cost {
    /// Round trips between the two ends: one for the call and its reply, and one more if the
    /// responder reads memory of the requester's first.
    pub round_trips: u32,
    /// The number of memory regions that are exposed to the peer and fenced afterwards.
    pub registrations: u32,
    /// Bytes that are copied into messages or out of them, if the reply is as large as it may be.
    pub copied: u64,
    /// Credits of the call's direction.
    pub credits: u32,
}

impl Cost {
    /// Computes the cost of a call with this plan.
    #[must_use]
    pub fn of(call: &CallSpec<'_>, plan: &TransferPlan) -> Self {
        let sum = |bits: u64| bytes(call.items, bits);
        let (reads, read, reduced, credits) = match plan.method {
            TransferMethod::Inline => (false, 0, 0, 1),
            TransferMethod::Reduced(bits) => (true, bits.count_ones(), sum(bits), 1),
            TransferMethod::Long => (true, 1, 0, 1),
            TransferMethod::Grouped(grouped) => {
                let reduced = sum((grouped.read | grouped.placed).into());
                (
                    grouped.read != 0,
                    grouped.read.count_ones(),
                    reduced,
                    grouped.count,
                )
            }
        };
        let (registered, written) = match plan.method {
            TransferMethod::Grouped(grouped) => (
                grouped.explicit.count_ones(),
                u64::from(grouped.explicit | grouped.send),
            ),
            _ if plan.write_chunks => (
                u32::try_from(call.results.len()).unwrap_or(u32::MAX),
                u64::MAX,
            ),
            _ => (0, 0),
        };
        let results: u64 = chosen(call.results, written)
            .map(|result| padded(result.max_length))
            .sum();
        let stream = u64::from(call.length).saturating_sub(reduced);
        let reply = u64::from(call.max_reply).saturating_sub(results);
        Self {
            round_trips: 1 + u32::from(reads),
            registrations: read + registered + u32::from(plan.reply_chunk.is_some()),
            copied: stream + reply,
            credits,
        }
    }
}

/// Returns the elements that have a bit.
pub(super) fn chosen<T>(all: &[T], bits: impl Into<u64>) -> impl Iterator<Item = &T> {
    let bits = bits.into();
    all.iter()
        .take(64)
        .enumerate()
        .filter(move |(at, _)| bits >> at & 1 == 1)
        .map(|(_, one)| one)
}

/// Returns the number of bytes in XDR of the items that have a bit.
pub(super) fn bytes(items: &[DataItem], bits: impl Into<u64>) -> u64 {
    chosen(items, bits).map(|item| padded(item.length)).sum()
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            round_trips,
            registrations,
            copied,
            credits,
        } = self;
        write!(
            f,
            "{round_trips} round trips, {registrations} registrations, {copied} bytes copied, \
            {credits} credits"
        )
    }
}
