//! Execution of work requests.

use super::{QpPair, QpPhase, QpState};
use crate::provider::common::domain::{self, BufferUse, Domain, ReadLocks, TableLocks};
use crate::provider::software::latency::Time;
use crate::provider::{Operation, RemoteMemory, Sge, Status, WorkRequest};

impl QpPair {
    /// Executes a request that arrives at the peer at `taken`, if there is a delay. Returns false
    /// if it must wait for a receive.
    pub(super) fn execute(
        &self,
        ends: &mut [Option<QpState>; 2],
        side: usize,
        reading: &mut ReadLocks<'_>,
        (request, slices): (&WorkRequest, &[Sge]),
        taken: Option<Time>,
    ) -> bool {
        let acknowledged = self.fabric.acknowledgement(taken);
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
            Some(theirs) => self.try_execute(ours, theirs, reading, request, slices),
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
        reading: &mut ReadLocks<'_>,
        request: &WorkRequest,
        slices: &[Sge],
    ) -> std::result::Result<(), ExecutionError> {
        if self.fabric.disconnects() {
            return Err(ExecutionError::of(Status::Retry));
        }
        let moves = matches!(
            request.operation,
            Operation::Send { .. } | Operation::Write { .. } | Operation::Read { .. }
        );
        if moves && domain::total_length(slices) > ours.capabilities.max_message.into() {
            return Err(ExecutionError::of(Status::LocalLength));
        }
        if !matches!(
            request.operation,
            Operation::Send { .. } | Operation::Read { .. }
        ) {
            reading.release();
        }
        match request.operation {
            Operation::Send { invalidate } => {
                self.send(theirs, reading, (slices, request.inline), invalidate)
            }
            Operation::Write { to } => self.write(ours, theirs, slices, to),
            Operation::Read { from } => self.read(ours, theirs, reading, slices, from),
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
        reading: &mut ReadLocks<'_>,
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
        let fails = |status, at_theirs| ExecutionError {
            status,
            receive: Some((posted.id, at_theirs)),
        };
        let target = posted.slices.all();
        if length > domain::total_length(target) {
            return Err(fails(Status::RemoteInvalidRequest, Status::LocalLength));
        }
        let tables = reading.tables();
        if !inline {
            tables
                .ours()
                .check_local(slices, BufferUse::Send)
                .map_err(|status| fails(status, Status::Flushed))?;
        }
        let found = tables.theirs().check_local(target, BufferUse::Receive);
        found.map_err(|status| fails(Status::RemoteInvalidRequest, status))?;
        // SAFETY: the entries were just checked under the locks that are held, or are inline bytes:
        // memory that the poster guarantees until `post` returns, or that this provider owns. The
        // target belongs to a posted receive, which the poster guarantees not to use, and has room
        // for the length.
        #[allow(unsafe_code, reason = "the promise of `post`")]
        unsafe {
            domain::copy(slices, target);
        }
        if let Some(key) = invalidate {
            reading.release();
            if !theirs.domain.write().invalidate(key, Some(theirs.number)) {
                return Err(fails(
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
        // The peer's table is locked for writing, so that two peers do not write the same memory at
        // the same time.
        let tables = TableLocks::lock(&ours.domain, &theirs.domain, Domain::write);
        tables.ours().check_local(slices, BufferUse::Send)?;
        tables
            .theirs()
            .check_remote(to, length, true, theirs.number)
            .map_err(Status::from)?;
        // SAFETY: both were just checked under the locks that are held, the peer's for writing.
        #[allow(unsafe_code, reason = "the promise of `post`")]
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
        reading: &mut ReadLocks<'_>,
        slices: &[Sge],
        from: RemoteMemory,
    ) -> std::result::Result<(), ExecutionError> {
        let length = self.remote_length(slices)?;
        let sink = if ours.capabilities.read_sink_needs_remote_write {
            BufferUse::ExposedSink
        } else {
            BufferUse::Receive
        };
        let tables = reading.tables();
        tables.ours().check_local(slices, sink)?;
        tables
            .theirs()
            .check_remote(from, length, false, theirs.number)
            .map_err(Status::from)?;
        // SAFETY: both were just checked under the locks that are held. Nothing writes the peer's
        // memory without the lock for writing, and the local memory was posted.
        #[allow(unsafe_code, reason = "the promise of `post`")]
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

    /// Returns the length of an RDMA Read or Write, unless a fault refuses it.
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
