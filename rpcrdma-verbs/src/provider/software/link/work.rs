//! What a work request does.

use super::{End, Link, State};
use crate::provider::software::latency::Time;
use crate::provider::software::memory::{self, Domain, Reading, Tables, Use};
use crate::provider::{Operation, Remote, Slice, Status, WorkRequest};

impl Link {
    /// Does a request, which the peer takes at a time, where there is a delay; false if it has to wait for a receive.
    pub(super) fn execute(
        &self,
        ends: &mut [Option<End>; 2],
        side: usize,
        reading: &mut Reading<'_>,
        (request, slices): (&WorkRequest, &[Slice]),
        taken: Option<Time>,
    ) -> bool {
        let acknowledged = self.fabric.acknowledgement(taken);
        let (first, second) = ends.split_at_mut(1);
        let (ours, theirs) = if side == 0 { (&mut first[0], &mut second[0]) } else { (&mut second[0], &mut first[0]) };
        let Some(ours) = ours else { return true };
        if ours.state == State::Failed {
            ours.complete(request, Status::Flushed, None);
            return true;
        }
        let done = match theirs {
            None => Err(Failure::of(Status::Retry)),
            Some(theirs) => self.done(ours, theirs, reading, request, slices),
        };
        match done {
            Ok(()) => ours.complete(request, Status::Success, acknowledged),
            Err(Failure { status: Status::ReceiverNotReady, .. })
                if theirs.as_ref().is_some_and(|end| end.rnr_retry) =>
            {
                return false;
            }
            Err(Failure { status, receive }) => {
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

    fn done(
        &self,
        ours: &mut End,
        theirs: &mut End,
        reading: &mut Reading<'_>,
        request: &WorkRequest,
        slices: &[Slice],
    ) -> std::result::Result<(), Failure> {
        if self.fabric.disconnects() {
            return Err(Failure::of(Status::Retry));
        }
        let moves =
            matches!(request.operation, Operation::Send { .. } | Operation::Write { .. } | Operation::Read { .. });
        if moves && memory::total(slices) > ours.capabilities.message.into() {
            return Err(Failure::of(Status::LocalLength));
        }
        if !matches!(request.operation, Operation::Send { .. } | Operation::Read { .. }) {
            reading.pause();
        }
        match request.operation {
            Operation::Send { invalidate } => self.send(theirs, reading, (slices, request.inline), invalidate),
            Operation::Write { to } => self.write(ours, theirs, slices, to),
            Operation::Read { from } => self.read(ours, theirs, reading, slices, from),
            Operation::Bind { window, key, access } => {
                let Some(slice) = slices.first() else { return Err(Failure::of(Status::Bind)) };
                Ok(ours.domain.write().bind(window, key, slice, access, ours.number)?)
            }
            Operation::Invalidate { key } => {
                let done = ours.domain.write().invalidate(key, None);
                if done { Ok(()) } else { Err(Failure::of(Status::LocalProtection)) }
            }
        }
    }

    fn send(
        &self,
        theirs: &mut End,
        reading: &mut Reading<'_>,
        (slices, inline): (&[Slice], bool),
        invalidate: Option<u32>,
    ) -> std::result::Result<(), Failure> {
        if !theirs.rnr_retry && self.fabric.is_not_ready() {
            return Err(Failure::of(Status::ReceiverNotReady));
        }
        let Some(posted) = theirs.take_receive(&self.me) else { return Err(Failure::of(Status::ReceiverNotReady)) };
        let length = memory::total(slices);
        let fails = |status, at_theirs| Failure { status, receive: Some((posted.id, at_theirs)) };
        let target = posted.slices.all();
        if length > memory::total(target) {
            return Err(fails(Status::RemoteInvalidRequest, Status::LocalLength));
        }
        let tables = reading.tables();
        if !inline {
            tables.ours().all_local(slices, Use::Send).map_err(|status| fails(status, Status::Flushed))?;
        }
        let found = tables.theirs().all_local(target, Use::Receive);
        found.map_err(|status| fails(Status::RemoteInvalidRequest, status))?;
        // SAFETY: found just now, under the locks that are held, or taken along: memory that its poster has promised until
        // `post` returns, or that is owned since. The receive's slices are of a posted receive, which the poster has promised to
        // leave alone, and have room for the length.
        #[allow(unsafe_code, reason = "the promise of `post`")]
        unsafe {
            memory::copy(slices, target);
        }
        if let Some(key) = invalidate {
            reading.pause();
            if !theirs.domain.write().invalidate(key, Some(theirs.number)) {
                return Err(fails(Status::RemoteInvalidRequest, Status::RemoteInvalidRequest));
            }
        }
        // No longer than a message, of 32 bits.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        theirs.received(posted.id, Status::Success, length, invalidate);
        Ok(())
    }

    fn write(&self, ours: &End, theirs: &End, slices: &[Slice], to: Remote) -> std::result::Result<(), Failure> {
        let length = self.reaches(slices)?;
        // The peer's table is locked for writing: two peers that write the same memory wait for each other.
        let tables = Tables::lock(&ours.domain, &theirs.domain, Domain::write);
        tables.ours().all_local(slices, Use::Send)?;
        tables.theirs().remote(to, length, true, theirs.number)?;
        // SAFETY: found just now, under the locks that are held, the peer's for writing.
        #[allow(unsafe_code, reason = "the promise of `post`")]
        unsafe {
            memory::copy(slices, &[Slice { address: to.address, length, key: to.key }]);
        }
        Ok(())
    }

    fn read(
        &self,
        ours: &End,
        theirs: &End,
        reading: &mut Reading<'_>,
        slices: &[Slice],
        from: Remote,
    ) -> std::result::Result<(), Failure> {
        let length = self.reaches(slices)?;
        let sink = if ours.capabilities.read_sink_is_exposed { Use::ExposedSink } else { Use::Receive };
        let tables = reading.tables();
        tables.ours().all_local(slices, sink)?;
        tables.theirs().remote(from, length, false, theirs.number)?;
        // SAFETY: found just now, under the locks that are held; nobody writes the peer's memory without its lock for
        // writing, and ours was posted.
        #[allow(unsafe_code, reason = "the promise of `post`")]
        unsafe {
            memory::copy(&[Slice { address: from.address, length, key: from.key }], slices);
        }
        Ok(())
    }

    /// Octets of an RDMA Read or Write, unless a fault refuses it.
    fn reaches(&self, slices: &[Slice]) -> std::result::Result<u32, Failure> {
        if self.fabric.refuses_key() {
            return Err(Failure::of(Status::RemoteAccess));
        }
        u32::try_from(memory::total(slices)).map_err(|_| Failure::of(Status::LocalLength))
    }
}

/// A request that was not done, and the receive of the peer's that it took along.
struct Failure {
    status: Status,
    receive: Option<(u64, Status)>,
}

impl Failure {
    const fn of(status: Status) -> Self {
        Self { status, receive: None }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::of(status)
    }
}
