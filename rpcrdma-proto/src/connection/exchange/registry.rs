//! The operations and properties that the consumer registers, and the operations that it has queued.
//!
//! `wire` announces the properties; the maxima here bound the size of an announcement, which must
//! fit `wire::MAX_CONTENT`.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use arrayvec::ArrayVec;

use crate::v2::properties::{Propid, Propval};

/// The maximum number of registered properties, and of registered operations. See the limits of
/// an announcement in `wire`.
pub(super) const MAX_REGISTERED: usize = 8;
/// The maximum size of a registered property's value in bytes. See the limits of an announcement in
/// `wire`.
const MAX_VALUE_LEN: usize = 64;
/// The maximum size of a registered operation's content in bytes.
const MAX_OPERATION_INFO: usize = 256;
/// The maximum number of queued operations of the consumer.
const MAX_QUEUED: usize = 8;

/// The first code for experiments.
// spec: xc3-6.2-a, xc3-6.2-b, xc2-6.2-a
const FIRST_EXPERIMENTAL: u32 = 4_294_967_040;

/// What the consumer has registered and queued.
#[derive(Debug, Default)]
pub(in crate::connection) struct Registry {
    /// The registered properties, with the values of both ends.
    properties: Vec<RegisteredProperty>,
    /// The codes of registered operations.
    operations: ArrayVec<u32, MAX_REGISTERED>,
    /// Queued operations.
    outgoing: VecDeque<QueuedOperation>,
}

#[derive(Clone, Debug)]
struct RegisteredProperty {
    code: Propid,
    ours: ArrayVec<u8, MAX_VALUE_LEN>,
    peer_value: Option<ArrayVec<u8, MAX_VALUE_LEN>>,
}

#[derive(Clone, Debug)]
pub(super) struct QueuedOperation {
    pub(super) xid: u32,
    pub(super) code: u32,
    is_call: bool,
    pub(super) info: ArrayVec<u8, MAX_OPERATION_INFO>,
}

/// Describes why an operation or a property cannot be registered or sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RegisterError {
    /// Its code is outside of the range for experiments, 4,294,967,040 to 4,294,967,295
    /// (xcharext-03, section 6.2), or is registered already.
    Code,
    /// Too many are registered or queued.
    Full,
    /// It is too long.
    Long,
}

impl core::fmt::Display for RegisterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Code => "the code is not in the range for experiments, or taken",
            Self::Full => "there are too many",
            Self::Long => "too many bytes",
        })
    }
}

impl core::error::Error for RegisterError {}

impl Registry {
    /// Resets the state for a new connection. Registrations stay.
    pub(super) fn connected(&mut self) {
        self.outgoing.clear();
        for registered in &mut self.properties {
            registered.peer_value = None;
        }
    }

    /// Returns our registered properties, for an announcement.
    pub(super) fn announced(&self) -> impl Iterator<Item = Propval<'_>> {
        self.properties.iter().map(|one| Propval {
            which: one.code,
            data: &one.ours,
        })
    }

    /// Returns the number of queued operations.
    #[inline]
    pub(super) fn queued(&self) -> usize {
        self.outgoing.len()
    }

    /// Returns whether an operation call is queued.
    pub(super) fn has_calls(&self) -> bool {
        self.outgoing.iter().any(|next| next.is_call)
    }

    /// Returns the next queued operation, if it is a call.
    pub(super) fn next_call(&self) -> Option<&QueuedOperation> {
        self.outgoing.front().filter(|next| next.is_call)
    }

    /// Removes the operation that `next_call` returns.
    pub(super) fn pop_call(&mut self) {
        self.outgoing.pop_front();
    }

    /// Returns the next queued answer, and its place.
    pub(super) fn next_answer(&self) -> Option<(usize, &QueuedOperation)> {
        let mut queued = self.outgoing.iter().enumerate();
        queued.find(|(_, next)| !next.is_call)
    }

    /// Removes the operation at a place.
    pub(super) fn remove(&mut self, at: usize) {
        self.outgoing.remove(at);
    }

    pub(in crate::connection) fn has_operations(&self) -> bool {
        !self.operations.is_empty()
    }

    pub(in crate::connection) fn is_registered(&self, code: u32) -> bool {
        self.operations.contains(&code)
    }

    /// Registers an operation of the consumer.
    pub(in crate::connection) fn register_operation(
        &mut self,
        code: u32,
    ) -> Result<(), RegisterError> {
        if code < FIRST_EXPERIMENTAL || self.operations.contains(&code) {
            return Err(RegisterError::Code);
        }
        self.operations
            .try_push(code)
            .map_err(|_| RegisterError::Full)
    }

    /// Registers a property of the consumer, which is announced at the start of each connection.
    // spec: xc3-6.1-a, xc3-6.1-c, xc2-6.1-a, xc2-6.1-c
    pub(super) fn register_property(
        &mut self,
        code: Propid,
        value: &[u8],
    ) -> Result<(), RegisterError> {
        if code < FIRST_EXPERIMENTAL || self.properties.iter().any(|one| one.code == code) {
            return Err(RegisterError::Code);
        }
        let ours = value.try_into().map_err(|_| RegisterError::Long)?;
        if self.properties.len() == MAX_REGISTERED {
            return Err(RegisterError::Full);
        }
        self.properties.push(RegisteredProperty {
            code,
            ours,
            peer_value: None,
        });
        Ok(())
    }

    /// Returns the peer's value of a registered property.
    pub(in crate::connection) fn peer_property(&self, code: Propid) -> Option<&[u8]> {
        self.properties
            .iter()
            .find(|one| one.code == code)?
            .peer_value
            .as_deref()
    }

    /// Queues an operation of the consumer. It is sent in Version Two, and removed at the start of
    /// the next connection.
    pub(in crate::connection) fn queue_operation(
        &mut self,
        xid: u32,
        code: u32,
        call: bool,
        info: &[u8],
    ) -> Result<(), RegisterError> {
        if !self.is_registered(code) {
            return Err(RegisterError::Code);
        }
        if self.outgoing.len() == MAX_QUEUED {
            return Err(RegisterError::Full);
        }
        let info = info.try_into().map_err(|_| RegisterError::Long)?;
        self.outgoing.push_back(QueuedOperation {
            xid,
            code,
            is_call: call,
            info,
        });
        Ok(())
    }

    /// Stores the values of registered properties. One that is too long counts as unknown, and so
    /// does the earlier value, which is outdated.
    pub(super) fn store_values<'a>(&mut self, values: impl Iterator<Item = Propval<'a>>) {
        for value in values {
            if let Some(registered) = self
                .properties
                .iter_mut()
                .find(|one| one.code == value.which)
            {
                registered.peer_value = value.data.try_into().ok();
            }
        }
    }
}
