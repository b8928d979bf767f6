//! Changes that were asked for and are neither made nor rejected yet (xcharext-02, sections 4.3 and 4.4).
//!
//! In xcharext-03 nothing is ever pending.

use arrayvec::ArrayVec;

use crate::property::{Basic, Values};
use crate::v2::properties::{Propid, Propvalset};

/// A change of the peer's properties that we have asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wish {
    pub(super) value: Basic,
    /// What held when it was asked for.
    before: Basic,
}

/// What has become of a change that we have asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::connection) struct Ended {
    pub(in crate::connection) asked: Basic,
    /// What holds now; none if it was rejected.
    pub(in crate::connection) value: Option<Basic>,
}

impl Wish {
    pub(super) fn new(value: Basic, peer: &Values) -> Self {
        Self { value, before: peer.get(value) }
    }

    pub(super) fn is_size(self) -> bool {
        matches!(self.value, Basic::ReceiveBufferSize(_))
    }

    /// What has become of it when it is no longer pending: what holds then is what was wanted, something between, or as before.
    // spec: xc2-4.4-h, xc2-4.4-k, xc2-4.4-l, xc2-4.4-m
    fn ended(self, peer: &Values) -> Ended {
        let now = peer.get(self.value);
        let is_rejected = now == self.before && now != self.value;
        Ended { asked: self.value, value: (!is_rejected).then_some(now) }
    }
}

/// Changes that we have asked for and that the peer has called pending: one of each property.
#[derive(Clone, Default, Debug)]
pub(super) struct Wishes(ArrayVec<Wish, 3>);

impl Wishes {
    // spec: xc2-4.3-i, xc2-4.3-j
    pub(super) fn push(&mut self, wish: Wish) {
        // A property of which a change is pending is not asked for again, and there are three.
        let _ = self.0.try_push(wish);
    }

    pub(super) fn has(&self, code: Propid) -> bool {
        self.0.iter().any(|wish| wish.value.code() == code)
    }

    /// An update says that a property's change is no longer pending.
    // spec: xc2-4.3-k, xc2-4.4-d, xc2-4.4-g, xc2-4.4-j
    pub(super) fn cleared(&mut self, now: &Propvalset<'_>, peer: &Values) -> Option<Ended> {
        let is_told = |wish: &Wish| now.iter().any(|value| value.which == wish.value.code());
        let at = self.0.iter().position(is_told)?;
        Some(self.0.remove(at).ended(peer))
    }

    /// Gives all of them up.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Wish> + use<> {
        core::mem::take(&mut self.0).into_iter()
    }
}

/// Whether an update of the peer's receive buffers to `size` ends that we send no more than the size we have asked for: not while
/// that is open, since the update may have crossed what was asked (decision D17), and not while it is pending.
// spec: xc3-3.1-j, xc2-3.1-j
pub(super) const fn lifts(size: u32, asked: u32, is_open: bool) -> bool {
    size > asked && !is_open
}

/// A property of ours that has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Change {
    pub(super) value: Basic,
    /// Whether it is what the peer has asked for, or all that will come of it.
    pub(super) clears: bool,
}

/// What of ours has changed and is to be told, and whether the peer waits for some of it.
#[derive(Clone, Default, Debug)]
pub(super) struct Changes {
    all: ArrayVec<Change, 3>,
    /// Whether the peer was told that a larger size of our receive buffers, which it has asked for, is pending.
    pub(super) grows: bool,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn as_slice(&self) -> &[Change] {
        &self.all
    }

    /// A property has changed: the last value of each is told.
    // spec: xc2-4.4-b, xc2-4.4-c, xc2-4.4-i, xc2-4.4-j
    pub(super) fn push(&mut self, value: Basic) {
        let is_awaited = matches!(value, Basic::ReceiveBufferSize(_)) && core::mem::take(&mut self.grows);
        let same = |other: &Change| other.value.code() == value.code();
        let clears = is_awaited || self.all.iter().any(|other| same(other) && other.clears);
        self.all.retain(|other| !same(other));
        // There are three properties, and as many places.
        let _ = self.all.try_push(Change { value, clears });
    }

    /// The peer is told that a larger size is pending. What was to say that an earlier one is there would be taken for it.
    // spec: xc2-4.4-d, xc2-4.4-n, xc2-4.4-p
    pub(super) fn pend(&mut self) {
        self.grows = true;
        let is_size = |change: &&mut Change| matches!(change.value, Basic::ReceiveBufferSize(_));
        self.all.iter_mut().filter(is_size).for_each(|change| change.clears = false);
    }

    /// So many have been told.
    pub(super) fn told(&mut self, count: usize) {
        self.all.drain(..count.min(self.all.len()));
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests;
