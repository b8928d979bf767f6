//! One call of ours.

use super::apart::Apart;
use crate::connection::life::{Life, Turn};
use crate::connection::output::{Exposure, Failure, Region, Reply};
use crate::connection::parts::{Parts, no_parts, octets, parts};
use crate::connection::slots::Tenant;
use crate::credit::Credit;
use crate::travel::{Call, Link, Travel, Way};

/// A call of ours.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) life: Life,
    pub(super) kind: Kind,
    pub(super) age: u64,
    pub(super) deadline: u64,
    pub(super) credit: Option<Credit>,
    /// A Send has its memory.
    pub(super) sending: bool,
    /// The peer may reach its memory.
    pub(super) live: bool,
    pub(super) length: u32,
    pub(super) largest_reply: u32,
    pub(super) reducible: bool,
    pub(super) apart: Apart,
    pub(super) travel: Travel,
    pub(super) invalidated: Option<u32>,
    /// Whether it goes without rtrext-02: it was reported broken, or its operation unknown.
    pub(super) by_base_means: bool,
    /// Errors that may still come of its first transmissions.
    pub(super) stale_errors: u32,
    pub(super) outcome: Outcome,
}

/// What a call is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::connection) enum Kind {
    /// The consumer.
    Rpc,
    /// The properties: a ROPT_REQPROP.
    Properties,
}

/// How a call ends.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Not known yet; or, of an orphan, told already.
    None,
    Reply(Reply),
    Failed(Failure),
    /// It is to be sent again.
    Again,
}

/// Nothing is moved, and nothing offered.
pub(super) const NO_TRAVEL: Travel = Travel { call: Way::Inline, writes: false, reply_chunk: None, header: 0 };

impl Tenant for Request {
    const NOBODY: Self = Self {
        life: Life::Waiting,
        kind: Kind::Rpc,
        age: 0,
        deadline: 0,
        credit: None,
        sending: false,
        live: false,
        length: 0,
        largest_reply: 0,
        reducible: false,
        apart: Apart::NOTHING,
        travel: NO_TRAVEL,
        invalidated: None,
        by_base_means: false,
        stale_errors: 0,
        outcome: Outcome::None,
    };
}

impl Request {
    /// A call begins, where another may have been.
    pub(super) fn begin(&mut self, kind: Kind, age: u64, deadline: u64, call: &Call<'_>) {
        // Nothing is left of that: what is not named here would be.
        let Self {
            life,
            kind: its_kind,
            age: its_age,
            deadline: its_deadline,
            credit,
            sending,
            live,
            length,
            largest_reply,
            reducible,
            apart,
            travel,
            invalidated,
            by_base_means,
            stale_errors,
            outcome,
        } = self;
        (*life, *its_kind, *its_age, *its_deadline) = (Life::Waiting, kind, age, deadline);
        (*length, *largest_reply, *reducible) = (call.length, call.largest_reply, call.reducible);
        apart.begin(call.items, call.results);
        (*travel, *credit, *invalidated, *outcome) = (NO_TRAVEL, None, None, Outcome::None);
        (*sending, *live, *by_base_means, *stale_errors) = (false, false, false, 0);
    }

    pub(super) fn as_call(&self) -> Call<'_> {
        Call {
            length: self.length,
            items: self.apart.items(),
            largest_reply: self.largest_reply,
            results: self.apart.results(),
            reducible: self.reducible,
        }
    }

    /// Takes a turn; false, and nothing has changed, if it can't happen.
    pub(super) fn turn(&mut self, turn: Turn) -> bool {
        match self.life.next(turn) {
            Some(next) => {
                self.life = next;
                true
            }
            None => false,
        }
    }

    /// What is exposed for it, in the order of the header.
    pub(super) fn exposures(&self) -> impl Iterator<Item = Exposure> + use<'_> {
        let (moved, whole) = match self.travel.call {
            Way::Inline => (0, None),
            Way::Reduced(moved) => (moved, None),
            Way::Long => (0, Some(Exposure { region: Region::Call, length: self.length })),
            Way::Grouped(grouped) => (grouped.read.into(), None),
        };
        let written = match self.travel.call {
            Way::Grouped(grouped) => u64::from(grouped.explicit),
            _ if self.travel.writes => u64::MAX,
            _ => 0,
        };
        let items = self.apart.items().iter().enumerate().filter(move |(at, _)| moved >> at & 1 == 1);
        let items = items.map(|(at, item)| Exposure { region: Region::Item(at), length: item.length });
        let results = self.apart.results().iter().enumerate().filter(move |(at, _)| written >> at & 1 == 1);
        let results = results.map(|(at, result)| Exposure { region: Region::Result(at), length: result.most });
        let reply = self.travel.reply_chunk.map(|length| Exposure { region: Region::Reply, length });
        whole.into_iter().chain(items).chain(results).chain(reply)
    }

    /// Its regions, each with the segments that hold it.
    pub(super) fn regions<'a, S>(&'a self, segments: &'a [S]) -> impl Iterator<Item = (Region, &'a [S])> + use<'a, S> {
        let mut rest = segments;
        // Counted first: most calls have nothing exposed.
        self.apart.exposed().iter().zip(self.exposures()).map(move |(count, exposure)| {
            let (mine, after) = rest.split_at_checked(usize::from(*count)).unwrap_or((rest, &[]));
            rest = after;
            (exposure.region, mine)
        })
    }

    /// Whether a key is of what is exposed for it.
    pub(super) fn has_exposed(&self, key: u32) -> bool {
        self.apart.segments().iter().any(|segment| segment.handle == key)
    }

    /// Which octets of the call follow the header.
    pub(super) fn parts(&self) -> Parts<'_> {
        match self.travel.call {
            Way::Inline => parts(self.length, &[], 0),
            Way::Reduced(moved) => parts(self.length, self.apart.items(), moved),
            Way::Long | Way::Grouped(_) => no_parts(),
        }
    }

    /// How many.
    pub(super) fn inline(&self) -> u32 {
        match self.travel.call {
            Way::Inline => self.length,
            _ => octets(self.parts()),
        }
    }

    /// Whether the consumer is still to be told of its end.
    pub(super) fn is_wanted(&self) -> bool {
        let open = matches!(self.outcome, Outcome::None | Outcome::Again);
        self.kind == Kind::Rpc && open && !matches!(self.life, Life::Orphaned | Life::Done)
    }

    /// Whether its memory is its own.
    pub(super) fn is_settled(&self) -> bool {
        !self.sending && !self.live
    }

    /// Octets that the header of its reply takes, which returns the segments that were exposed for it.
    pub(super) fn reply_header(&self, link: &Link<'_>) -> u32 {
        let lists = self.regions(self.apart.segments()).map(|(region, segments)| {
            let count = u32::try_from(segments.len()).unwrap_or(u32::MAX);
            match region {
                Region::Item(_) | Region::Call => 0,
                Region::Result(_) => count.saturating_mul(16).saturating_add(8),
                Region::Reply => count.saturating_mul(16).saturating_add(4),
            }
        });
        lists.fold(link.version.header(), u32::saturating_add)
    }

    /// Octets that its header takes, with the segments that were exposed.
    pub(super) fn header(&self, link: &Link<'_>) -> u32 {
        if self.apart.exposed().is_empty() {
            return link.version.header();
        }
        let lists = self.regions(self.apart.segments()).map(|(region, segments)| {
            let count = u32::try_from(segments.len()).unwrap_or(u32::MAX);
            match region {
                Region::Item(_) | Region::Call => count.saturating_mul(24),
                Region::Result(_) => count.saturating_mul(16).saturating_add(8),
                Region::Reply => count.saturating_mul(16).saturating_add(4),
            }
        });
        lists.fold(link.version.header(), u32::saturating_add)
    }
}
