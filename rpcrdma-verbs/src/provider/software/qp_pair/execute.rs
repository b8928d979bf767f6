//! Execution of one work request: checks memory, copies bytes, and decides the statuses of both
//! ends. `qp_pair` decides when a request is executed, and calls this under the lock of the
//! connection.
//!
//! A failed request first completes the receive that it has consumed and itself, and then fails
//! both ends, which flushes the rest. Registered memory is copied only under the locks under which
//! it was checked. Exposed memory is written only with the tables locked for writing.

use super::{QpPair, QpPhase, QpState};
use crate::provider::common::domain::{self, BufferUse, Domain, ReadLocks, TableLocks};
use crate::provider::software::latency::Time;
use crate::provider::{Operation, RemoteMemory, Sge, Status, WorkRequest};

impl QpPair {
    /// Executes a request that arrives at the peer at `arrived_at`, if there is a delay.
    ///
    /// Returns false if it must wait for a receive of the peer, whose next receive resumes it: a
    /// shared queue calls the waiter that `take_receive` has registered, and `post_receives` of the
    /// peer advances the requests of this side.
    ///
    /// `read_locks` is held over a batch of requests. It must be released before a table is locked
    /// for writing.
    pub(super) fn execute(
        &self,
        ends: &mut [Option<QpState>; 2],
        side: usize,
        read_locks: &mut ReadLocks<'_>,
        (request, slices): (&WorkRequest, &[Sge]),
        arrived_at: Option<Time>,
    ) -> bool {
        let acknowledged = self.fabric.acknowledgement(arrived_at);
        let (first, second) = ends.split_at_mut(1);
        let (ours, theirs) = if side == 0 {
            (&mut first[0], &mut second[0])
        } else {
            (&mut second[0], &mut first[0])
        };
        let Some(ours) = ours else { return true };
        if ours.state == QpPhase::Failed {
            ours.complete(request, Status::Flushed, None);
            return true;
        }
        let done = match theirs {
            None => Err(ExecutionError::of(Status::Retry)),
            Some(theirs) => self.try_execute(ours, theirs, read_locks, request, slices),
        };
        match done {
            Ok(()) => ours.complete(request, Status::Success, acknowledged),
            Err(ExecutionError {
                status: Status::ReceiverNotReady,
                ..
            }) if theirs.as_ref().is_some_and(|end| end.rnr_retry) => {
                return false;
            }
            Err(ExecutionError { status, receive }) => {
                if let (Some((id, status)), Some(theirs)) = (receive, theirs.as_mut()) {
                    theirs.received(id, status, 0, None);
                }
                ours.complete(request, status, acknowledged);
                ours.fail();
                if let Some(theirs) = theirs {
                    theirs.fail();
                }
            }
        }
        true
    }

    fn try_execute(
        &self,
        ours: &mut QpState,
        theirs: &mut QpState,
        read_locks: &mut ReadLocks<'_>,
        request: &WorkRequest,
        slices: &[Sge],
    ) -> std::result::Result<(), ExecutionError> {
        if self.fabric.disconnects() {
            return Err(ExecutionError::of(Status::Retry));
        }
        let transfers_data = matches!(
            request.operation,
            Operation::Send { .. } | Operation::Write { .. } | Operation::Read { .. }
        );
        if transfers_data && domain::total_length(slices) > ours.capabilities.max_message.into() {
            return Err(ExecutionError::of(Status::LocalLength));
        }
        if !matches!(
            request.operation,
            Operation::Send { .. } | Operation::Read { .. }
        ) {
            read_locks.release();
        }
        match request.operation {
            Operation::Send { invalidate } => {
                self.send(theirs, read_locks, (slices, request.inline), invalidate)
            }
            Operation::Write { to } => self.write(ours, theirs, slices, to),
            Operation::Read { from } => self.read(ours, theirs, read_locks, slices, from),
            Operation::Bind {
                window,
                key,
                access,
            } => {
                let Some(slice) = slices.first() else {
                    return Err(ExecutionError::of(Status::Bind));
                };
                Ok(ours
                    .domain
                    .write()
                    .bind(window, key, slice, access, ours.number)?)
            }
            Operation::Invalidate { key } => {
                let done = ours.domain.write().invalidate(key, None);
                if done {
                    Ok(())
                } else {
                    Err(ExecutionError::of(Status::LocalProtection))
                }
            }
        }
    }

    fn send(
        &self,
        theirs: &mut QpState,
        read_locks: &mut ReadLocks<'_>,
        (slices, inline): (&[Sge], bool),
        invalidate: Option<u32>,
    ) -> std::result::Result<(), ExecutionError> {
        if !theirs.rnr_retry && self.fabric.is_not_ready() {
            return Err(ExecutionError::of(Status::ReceiverNotReady));
        }
        let Some(posted) = theirs.take_receive(&self.me) else {
            return Err(ExecutionError::of(Status::ReceiverNotReady));
        };
        let length = domain::total_length(slices);
        let fail_receive = |status, receive_status| ExecutionError {
            status,
            receive: Some((posted.id, receive_status)),
        };
        let target = posted.slices.all();
        if length > domain::total_length(target) {
            return Err(fail_receive(
                Status::RemoteInvalidRequest,
                Status::LocalLength,
            ));
        }
        let tables = read_locks.tables();
        if !inline {
            tables
                .ours()
                .check_local(slices, BufferUse::Send)
                .map_err(|status| fail_receive(status, Status::Flushed))?;
        }
        let checked = tables.theirs().check_local(target, BufferUse::Receive);
        checked.map_err(|status| fail_receive(Status::RemoteInvalidRequest, status))?;
        // SAFETY: the source, if it is not inline, was just checked under the locks that are held.
        // Inline bytes are memory that the poster guarantees until `post` returns, or a copy that
        // this provider owns. The target was just checked under the locks that are held, too: it
        // belongs to a posted receive, which the poster guarantees not to use, and has room for the
        // length.
        #[allow(unsafe_code, reason = "covered by the contract of `post`")]
        unsafe {
            domain::copy(slices, target);
        }
        if let Some(key) = invalidate {
            read_locks.release();
            if !theirs.domain.write().invalidate(key, Some(theirs.number)) {
                return Err(fail_receive(
                    Status::RemoteInvalidRequest,
                    Status::RemoteInvalidRequest,
                ));
            }
        }
        // It is at most the length of a message, which has 32 bits.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        theirs.received(posted.id, Status::Success, length, invalidate);
        Ok(())
    }

    fn write(
        &self,
        ours: &QpState,
        theirs: &QpState,
        slices: &[Sge],
        to: RemoteMemory,
    ) -> std::result::Result<(), ExecutionError> {
        let length = self.remote_length(slices)?;
        // Both tables are locked for writing: the peer's, so that two peers do not write the same
        // memory at the same time, and ours, because `TableLocks` locks both alike.
        let tables = TableLocks::lock(&ours.domain, &theirs.domain, Domain::write);
        tables.ours().check_local(slices, BufferUse::Send)?;
        tables
            .theirs()
            .check_remote(to, length, true, theirs.number)
            .map_err(Status::from)?;
        // SAFETY: both were just checked under the locks that are held, which are for writing.
        #[allow(unsafe_code, reason = "covered by the contract of `post`")]
        unsafe {
            domain::copy(
                slices,
                &[Sge {
                    address: to.address,
                    length,
                    key: to.key,
                }],
            );
        }
        Ok(())
    }

    fn read(
        &self,
        ours: &QpState,
        theirs: &QpState,
        read_locks: &mut ReadLocks<'_>,
        slices: &[Sge],
        from: RemoteMemory,
    ) -> std::result::Result<(), ExecutionError> {
        let length = self.remote_length(slices)?;
        let sink = if ours.capabilities.read_sink_needs_remote_write {
            BufferUse::ExposedSink
        } else {
            BufferUse::Receive
        };
        let tables = read_locks.tables();
        tables.ours().check_local(slices, sink)?;
        tables
            .theirs()
            .check_remote(from, length, false, theirs.number)
            .map_err(Status::from)?;
        // SAFETY: both were just checked under the locks that are held. Nothing writes the peer's
        // memory without the lock for writing, and the local memory was posted.
        #[allow(unsafe_code, reason = "covered by the contract of `post`")]
        unsafe {
            domain::copy(
                &[Sge {
                    address: from.address,
                    length,
                    key: from.key,
                }],
                slices,
            );
        }
        Ok(())
    }

    /// Returns the length of an RDMA Read or Write, unless an injected fault refuses it.
    fn remote_length(&self, slices: &[Sge]) -> std::result::Result<u32, ExecutionError> {
        if self.fabric.refuses_key() {
            return Err(ExecutionError::of(Status::RemoteAccess));
        }
        u32::try_from(domain::total_length(slices))
            .map_err(|_| ExecutionError::of(Status::LocalLength))
    }
}

/// A request that failed, with the receive of the peer that it consumed.
struct ExecutionError {
    status: Status,
    receive: Option<(u64, Status)>,
}

impl ExecutionError {
    const fn of(status: Status) -> Self {
        Self {
            status,
            receive: None,
        }
    }
}

impl From<Status> for ExecutionError {
    fn from(status: Status) -> Self {
        Self::of(status)
    }
}
