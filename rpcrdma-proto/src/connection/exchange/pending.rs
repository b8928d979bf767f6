//! Requested changes that are pending: neither made nor rejected (xcharext-02, sections 4.3 and
//! 4.4). xcharext-03 has no pending changes. In both drafts `LocalChanges` has the changed
//! properties of this end that are not announced yet.
//!
//! Each list has at most one entry for a property, and room for the three basic properties. A
//! fourth needs longer lists, because a change that does not fit is dropped without an error.

use arrayvec::ArrayVec;

use crate::property::{BasicProperty, PropertyValues};
use crate::v2::properties::{Propid, Propvalset};

/// A change of the peer's properties that we requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RequestedChange {
    pub(super) value: BasicProperty,
    /// The value at the time of the request.
    before: BasicProperty,
}

/// The outcome of a change that we requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::connection) struct ChangeOutcome {
    pub(in crate::connection) requested: BasicProperty,
    /// The current value; `None` if the change was rejected.
    pub(in crate::connection) value: Option<BasicProperty>,
}

impl RequestedChange {
    pub(super) fn new(value: BasicProperty, peer: &PropertyValues) -> Self {
        Self {
            value,
            before: peer.get(value),
        }
    }

    pub(super) fn is_size(self) -> bool {
        matches!(self.value, BasicProperty::ReceiveBufferSize(_))
    }

    /// Returns the outcome of a change that is no longer pending: the requested value, an
    /// intermediate value, or a rejection.
    // spec: xc2-4.4-h, xc2-4.4-k, xc2-4.4-l, xc2-4.4-m
    fn outcome(self, peer: &PropertyValues) -> ChangeOutcome {
        let now = peer.get(self.value);
        let is_rejected = now == self.before && now != self.value;
        ChangeOutcome {
            requested: self.value,
            value: (!is_rejected).then_some(now),
        }
    }
}

/// Our requested changes that the peer has called pending, at most one of each property.
#[derive(Clone, Default, Debug)]
pub(super) struct PendingChanges(ArrayVec<RequestedChange, 3>);

impl PendingChanges {
    // spec: xc2-4.3-i, xc2-4.3-j
    pub(super) fn push(&mut self, change: RequestedChange) {
        // A property has at most one pending change, and there are three properties.
        let _ = self.0.try_push(change);
    }

    pub(super) fn has(&self, code: Propid) -> bool {
        self.0.iter().any(|change| change.value.code() == code)
    }

    /// Handles an update that clears the pending change of a property.
    // spec: xc2-4.3-k, xc2-4.4-d, xc2-4.4-g, xc2-4.4-j
    pub(super) fn cleared(
        &mut self,
        now: &Propvalset<'_>,
        peer: &PropertyValues,
    ) -> Option<ChangeOutcome> {
        let is_told =
            |change: &RequestedChange| now.iter().any(|value| value.which == change.value.code());
        let at = self.0.iter().position(is_told)?;
        Some(self.0.remove(at).outcome(peer))
    }

    /// Removes all of them.
    pub(super) fn take(&mut self) -> impl Iterator<Item = RequestedChange> + use<> {
        core::mem::take(&mut self.0).into_iter()
    }
}

/// A changed local property.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LocalChange {
    pub(super) value: BasicProperty,
    /// Whether it completes a change that the peer requested.
    pub(super) clears: bool,
}

/// The changed local properties that are not announced yet.
#[derive(Clone, Default, Debug)]
pub(super) struct LocalChanges {
    all: ArrayVec<LocalChange, 3>,
    /// Whether the peer has requested a larger size of our receive buffers and was told that the
    /// change is pending.
    pub(super) growth_pending: bool,
}

impl LocalChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn as_slice(&self) -> &[LocalChange] {
        &self.all
    }

    /// Records a changed property. Only the last value of each property is announced.
    // spec: xc2-4.4-b, xc2-4.4-c, xc2-4.4-i, xc2-4.4-j
    pub(super) fn push(&mut self, value: BasicProperty) {
        let is_awaited = matches!(value, BasicProperty::ReceiveBufferSize(_))
            && core::mem::take(&mut self.growth_pending);
        let same = |other: &LocalChange| other.value.code() == value.code();
        let clears = is_awaited || self.all.iter().any(|other| same(other) && other.clears);
        self.all.retain(|other| !same(other));
        // There are three properties, and the vector has three places.
        let _ = self.all.try_push(LocalChange { value, clears });
    }

    /// Records that the peer was told that a larger size is pending. A queued update of the size no
    /// longer clears the change, since it would clear the new one.
    // spec: xc2-4.4-d, xc2-4.4-n, xc2-4.4-p
    pub(super) fn defer_growth(&mut self) {
        self.growth_pending = true;
        let is_size =
            |change: &&mut LocalChange| matches!(change.value, BasicProperty::ReceiveBufferSize(_));
        self.all
            .iter_mut()
            .filter(is_size)
            .for_each(|change| change.clears = false);
    }

    /// Removes the first `count` changes, which were announced.
    pub(super) fn mark_sent(&mut self, count: usize) {
        self.all.drain(..count.min(self.all.len()));
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests;
