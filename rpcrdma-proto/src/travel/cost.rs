//! What a way to travel costs.

use core::fmt;

use super::{Call, Item, Travel, Way, padded};

/// What an RPC costs if it travels in a certain way, the dearest first: of two ways the one with less is chosen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cost {
    /// Round trips between the two ends: one for the call and its reply, and one more if the responder reads memory of the
    /// requester's first.
    pub round_trips: u32,
    /// Regions of memory that are exposed to the peer, and made unreachable afterwards.
    pub registrations: u32,
    /// Octets that are copied into messages or out of them, if the reply is as large as it may be.
    pub copied: u64,
    /// Credits of the call's direction.
    pub credits: u32,
}

impl Cost {
    /// Of a call that travels so.
    #[must_use]
    pub fn of(call: &Call<'_>, travel: &Travel) -> Self {
        let sum = |bits: u64| octets(call.items, bits);
        let (reads, read, moved, credits) = match travel.call {
            Way::Inline => (false, 0, 0, 1),
            Way::Reduced(bits) => (true, bits.count_ones(), sum(bits), 1),
            Way::Long => (true, 1, 0, 1),
            Way::Grouped(grouped) => {
                let moved = sum((grouped.read | grouped.placed).into());
                (grouped.read != 0, grouped.read.count_ones(), moved, grouped.count)
            }
        };
        let (registered, apart) = match travel.call {
            Way::Grouped(grouped) => (grouped.explicit.count_ones(), u64::from(grouped.explicit | grouped.send)),
            _ if travel.writes => (u32::try_from(call.results.len()).unwrap_or(u32::MAX), u64::MAX),
            _ => (0, 0),
        };
        let results: u64 = chosen(call.results, apart).map(|result| padded(result.most)).sum();
        let stream = u64::from(call.length).saturating_sub(moved);
        let reply = u64::from(call.largest_reply).saturating_sub(results);
        Self {
            round_trips: 1 + u32::from(reads),
            registrations: read + registered + u32::from(travel.reply_chunk.is_some()),
            copied: stream + reply,
            credits,
        }
    }
}

/// Those of them that have a bit.
pub(super) fn chosen<T>(all: &[T], bits: impl Into<u64>) -> impl Iterator<Item = &T> {
    let bits = bits.into();
    all.iter().take(64).enumerate().filter(move |(at, _)| bits >> at & 1 == 1).map(|(_, one)| one)
}

/// Octets of XDR of those items that have a bit.
pub(super) fn octets(items: &[Item], bits: impl Into<u64>) -> u64 {
    chosen(items, bits).map(|item| padded(item.length)).sum()
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round_trips, registrations, copied, credits } = self;
        write!(f, "{round_trips} round trips, {registrations} registrations, {copied} octets copied, {credits} credits")
    }
}
