//! Reassembly of a group of transmissions of rtrext-02 (sections 4.2 and 9).
//!
//! This module checks the order, XID, direction and section of each transmission, and holds the one
//! incomplete group. `items` and `directions` check the rest. `session::groups` returns credits,
//! sends reports and frees buffers. The session must call `abandon` for a message that interrupts a
//! group, since `request` and `reply` do not examine a waiting group. After an error or `abandon`
//! the session must call `take_abandoned` before the next transmission, because `begin` clears the
//! list of kept buffers.

mod directions;
mod items;

use alloc::boxed::Box;
use alloc::vec::Vec;

use arrayvec::ArrayVec;

use crate::chunk::{ChunkError, ChunkLimits};
use crate::connection::output::BufferId;
use crate::continuation::{
    self, BufferRange, GroupError, Mismatch, ReassembledMessage, TransmissionId,
};
use crate::placement::BufferStructure;
use crate::v2::MsgType;
use crate::v2::rtr::{Cont, Grpinfo, ROPT_XMTCONT, ROPT_XMTREQ, ROPT_XMTRESP, Req, Resp};

pub(in crate::connection) use directions::ReplyDirections;

/// The header type that carries extensions: RDMA2_OPTIONAL.
pub(in crate::connection) const RDMA2_OPTIONAL: u32 = 5;

/// The incomplete group of a connection: at most one.
#[derive(Debug, Default)]
pub(in crate::connection) struct Reassembly {
    group: Option<Box<IncomingGroup>>,
    /// The rest of a rejected group, which is skipped.
    skipping: Option<(u32, MsgType)>,
    /// Spare memory for the next group, and for the maximum number of messages in use at once.
    spare: Option<Box<IncomingGroup>>,
    #[expect(clippy::vec_box, reason = "the boxes are given out as they are")]
    messages: Vec<Box<ReassembledMessage>>,
}

/// A group of transmissions.
#[derive(Debug)]
pub(in crate::connection) struct IncomingGroup {
    pub(in crate::connection) xid: u32,
    pub(in crate::connection) direction: MsgType,
    /// Credits requested or granted.
    pub(in crate::connection) credits: u32,
    count: u32,
    pub(in crate::connection) next: u32,
    pub(in crate::connection) message: Box<ReassembledMessage>,
    /// The first bytes of the Payload stream, as far as they were given.
    head: ArrayVec<u8, 8>,
    pub(in crate::connection) directions: ReplyDirections,
    pub(in crate::connection) invalidated: Option<u32>,
    /// Scratch memory to sort the places by target.
    by_target: Vec<(u32, u32, u32)>,
}

/// A received transmission.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Fragment<'a> {
    pub(in crate::connection) xid: u32,
    pub(in crate::connection) credits: u32,
    pub(in crate::connection) direction: MsgType,
    pub(in crate::connection) buffer: BufferId,
    /// The length of the header, and of the transmission, in bytes.
    pub(in crate::connection) header: u32,
    pub(in crate::connection) length: u32,
    /// The beginning of the bytes after the header, as far as it was given.
    pub(in crate::connection) shown: &'a [u8],
    pub(in crate::connection) invalidated: Option<u32>,
}

/// Describes why a transmission is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::connection) enum FragmentError {
    /// It breaks a rule of rtrext-02: ROPT_REPTERR reports it to the peer.
    Group(GroupError),
    /// Its content is invalid by itself (decision D22).
    Chunk(ChunkError),
}

impl From<GroupError> for FragmentError {
    fn from(broken: GroupError) -> Self {
        Self::Group(broken)
    }
}

impl From<ChunkError> for FragmentError {
    fn from(fault: ChunkError) -> Self {
        Self::Chunk(fault)
    }
}

/// The limits of this end.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct FragmentLimits<'a> {
    /// The structure of our receive buffers.
    pub(in crate::connection) structure: &'a BufferStructure,
    /// The maximum number of transmissions of this message.
    pub(in crate::connection) max_transmissions: u32,
    pub(in crate::connection) limits: &'a ChunkLimits,
}

impl Reassembly {
    /// Returns the group that waits for its next transmission.
    pub(in crate::connection) fn waiting_for(&self) -> Option<TransmissionId> {
        self.group.as_deref().map(|group| TransmissionId {
            xid: group.xid,
            direction: group.direction,
            number: 0,
        })
    }

    /// Returns the number of received transmissions of a request, which hold receives.
    pub(in crate::connection) fn held(&self) -> u32 {
        let request = self
            .group
            .as_deref()
            .filter(|group| group.direction == MsgType::Call);
        request.map_or(0, |group| group.next)
    }

    /// Abandons the waiting group. The rest of it is skipped.
    pub(in crate::connection) fn abandon(&mut self) -> Option<TransmissionId> {
        let lead = self.waiting_for()?;
        let group = self.group.take()?;
        self.skipping = Some((group.xid, group.direction));
        self.spare = Some(group);
        Some(lead)
    }

    /// Handles the loss of the connection: drops any group.
    pub(in crate::connection) fn lost(&mut self) {
        self.abandon();
        self.skipping = None;
    }

    /// Returns an abandoned message whose buffers were kept, without the buffer `last` that has
    /// just arrived; and whether one of its transmissions invalidated memory.
    pub(in crate::connection) fn take_abandoned(
        &mut self,
        last: Option<BufferId>,
    ) -> (Option<Box<ReassembledMessage>>, bool) {
        let Some(spare) = &mut self.spare else {
            return (None, false);
        };
        let buffers = &mut spare.message.buffers;
        if last.is_some() && buffers.last().map(|bytes| bytes.buffer) == last {
            buffers.pop();
        }
        let message = (!buffers.is_empty()).then(|| {
            core::mem::replace(&mut spare.message, self.messages.pop().unwrap_or_default())
        });
        (message, spare.invalidated.take().is_some())
    }

    /// Takes the memory of a message back.
    pub(in crate::connection) fn recycle(&mut self, mut message: Box<ReassembledMessage>) {
        message.clear();
        self.messages.push(message);
    }

    /// Returns memory for a message, to replace one that is handed out.
    pub(in crate::connection) fn spare_message(&mut self) -> Box<ReassembledMessage> {
        self.messages.pop().unwrap_or_default()
    }

    /// Takes the memory of a group back.
    pub(in crate::connection) fn recycle_group(&mut self, mut group: Box<IncomingGroup>) {
        group.invalidated = None;
        self.spare = Some(group);
    }

    fn begin(&mut self, fragment: &Fragment<'_>, count: u32) -> Box<IncomingGroup> {
        if count > 1 {
            self.skipping = None;
        }
        let mut group = self
            .spare
            .take()
            .unwrap_or_else(|| Box::new(IncomingGroup::new(Box::default())));
        group.message.clear();
        group.head.clear();
        group.directions.reply_receives = 0;
        group.directions.directions.clear();
        group.directions.segments.clear();
        (group.xid, group.direction, group.credits) =
            (fragment.xid, fragment.direction, fragment.credits);
        (group.count, group.next, group.invalidated) = (count, 0, None);
        group
    }

    /// Handles a ROPT_XMTREQ. Returns the group if it is complete.
    ///
    /// # Errors
    /// The transmission breaks a rule and is rejected.
    // spec: rtr-9.2-a, rtr-9.2-b, rtr-9.2-c, rtr-9.2-f, rtr-9.2-g
    pub(in crate::connection) fn request(
        &mut self,
        fragment: &Fragment<'_>,
        header: &Req<'_>,
        limits: FragmentLimits<'_>,
    ) -> Result<Option<Box<IncomingGroup>>, FragmentError> {
        let mut group = self.begin(fragment, header.count);
        let taken = group.open(fragment, header.count, header.pslen, &header.dp, limits);
        let taken = taken.and_then(|()| Ok(group.directions.take(&header.rsd, limits.limits)?));
        group.directions.reply_receives = header.rsbuf;
        self.opened(group, taken, limits)
    }

    /// Handles a ROPT_XMTRESP.
    ///
    /// # Errors
    /// As [`Self::request`].
    // spec: rtr-9.3-a, rtr-9.3-b, rtr-9.3-c, rtr-9.3-d
    pub(in crate::connection) fn reply(
        &mut self,
        fragment: &Fragment<'_>,
        header: &Resp<'_>,
        limits: FragmentLimits<'_>,
    ) -> Result<Option<Box<IncomingGroup>>, FragmentError> {
        let mut group = self.begin(fragment, header.count);
        let taken = group.open(fragment, header.count, header.pslen, &header.dp, limits);
        self.opened(group, taken, limits)
    }

    fn opened(
        &mut self,
        group: Box<IncomingGroup>,
        taken: Result<(), FragmentError>,
        limits: FragmentLimits<'_>,
    ) -> Result<Option<Box<IncomingGroup>>, FragmentError> {
        if let Err(wrong) = taken {
            self.skipping = (group.count > 1).then_some((group.xid, group.direction));
            self.spare = Some(group);
            return Err(wrong);
        }
        self.settle(group, limits)
    }

    /// Handles a ROPT_XMTCONT. Returns the group if it is complete; `None` also if the transmission
    /// is skipped.
    ///
    /// # Errors
    /// The transmission continues no group, or continues it wrongly; that group is abandoned.
    // spec: rtr-4.2-c, rtr-4.2-d, rtr-9.5-g
    pub(in crate::connection) fn continuation(
        &mut self,
        fragment: &Fragment<'_>,
        header: Cont,
        limits: FragmentLimits<'_>,
    ) -> Result<Option<Box<IncomingGroup>>, FragmentError> {
        let Some(mut group) = self.group.take() else {
            let passed = self.skipping == Some((fragment.xid, fragment.direction));
            return if passed {
                Ok(None)
            } else {
                Err(GroupError::Continuation.into())
            };
        };
        let taken = group
            .fits(fragment, header)
            .map_err(FragmentError::from)
            .and_then(|()| group.section(fragment, header.pslen));
        if let Err(wrong) = taken {
            let more = group.next < group.count;
            self.skipping = more.then_some((group.xid, group.direction));
            self.spare = Some(group);
            return Err(wrong);
        }
        self.settle(group, limits)
    }

    /// Hands out a group that is whole, or keeps it.
    fn settle(
        &mut self,
        mut group: Box<IncomingGroup>,
        limits: FragmentLimits<'_>,
    ) -> Result<Option<Box<IncomingGroup>>, FragmentError> {
        if group.next < group.count {
            self.group = Some(group);
            return Ok(None);
        }
        let whole = group.placed(limits.structure).map_err(FragmentError::from);
        let whole = whole.and_then(|()| Ok(group.message.finish(limits.limits.max_bytes)?));
        let whole = whole.and_then(|()| {
            if group.message.stream_length() < 8 {
                Err(ChunkError::NoPayload.into())
            } else {
                Ok(())
            }
        });
        match whole {
            Ok(()) => Ok(Some(group)),
            Err(wrong) => {
                self.spare = Some(group);
                Err(wrong)
            }
        }
    }
}

impl IncomingGroup {
    fn new(message: Box<ReassembledMessage>) -> Self {
        Self {
            xid: 0,
            direction: MsgType::Call,
            credits: 0,
            count: 0,
            next: 0,
            message,
            head: ArrayVec::new(),
            directions: ReplyDirections::default(),
            invalidated: None,
            by_target: Vec::new(),
        }
    }

    /// The operation that began it.
    const fn opener(&self) -> u32 {
        opener_of(self.direction)
    }

    /// The number of received transmissions.
    pub(in crate::connection) const fn parts(&self) -> u32 {
        self.next
    }

    // spec: rtr-6.1-b, rtr-8.4-a
    fn open(
        &mut self,
        fragment: &Fragment<'_>,
        count: u32,
        pslen: u32,
        dp: &Grpinfo<'_>,
        limits: FragmentLimits<'_>,
    ) -> Result<(), FragmentError> {
        if count == 0 || count > limits.max_transmissions {
            return Err(ChunkError::TooManySegments.into());
        }
        self.section(fragment, pslen)?;
        self.excised(dp, limits, count)
    }

    /// Takes the section of the Payload stream that is in a transmission.
    // spec: rtr-6.2-c, rtr-9.1-i, rtr-9.1-j, rtr-9.1-k, rtr-9.1-l, rtr-9.4-e, rtr-9.4-f, rtr-9.4-g
    // spec: rtr-9.5-l
    // spec: rtr-9.5-r
    fn section(&mut self, fragment: &Fragment<'_>, pslen: u32) -> Result<(), FragmentError> {
        let most = fragment.length.saturating_sub(fragment.header);
        if pslen > most || !pslen.is_multiple_of(4) {
            return Err(GroupError::Payload(continuation::OutOfRange {
                value: pslen,
                min: 0,
                max: most,
            })
            .into());
        }
        self.begins(
            fragment
                .shown
                .get(..pslen as usize)
                .unwrap_or(fragment.shown),
        );
        if pslen > 0 {
            let bytes = fragment.header..fragment.header.saturating_add(pslen);
            self.message.stream.push(BufferRange {
                buffer: fragment.buffer,
                range: bytes,
            });
        }
        let rest = fragment.header.saturating_add(pslen)..fragment.length;
        self.message.buffers.push(BufferRange {
            buffer: fragment.buffer,
            range: rest,
        });
        self.invalidated = self.invalidated.or(fragment.invalidated);
        self.next += 1;
        if self.is_of_another() {
            Err(ChunkError::NoPayload.into())
        } else {
            Ok(())
        }
    }

    /// Records the beginning of the Payload stream if all of it is visible.
    fn begins(&mut self, shown: &[u8]) {
        if self.message.stream_length() as usize == self.head.len() {
            let left = self.head.remaining_capacity();
            self.head.extend(shown.iter().copied().take(left));
        }
    }

    /// Whether its RPC message has another XID or direction, as far as that was shown.
    // spec: v2-4.2.2-d
    fn is_of_another(&self) -> bool {
        let Some([a, b, c, d, mtype @ ..]) = self.head.first_chunk::<8>() else {
            return false;
        };
        [*a, *b, *c, *d] != self.xid.to_be_bytes()
            || i32::from_be_bytes(*mtype) != self.direction.value()
    }

    /// Whether a transmission is the next one.
    // spec: rtr-5.4-f, rtr-9.4-a, rtr-9.4-b, rtr-9.4-d, rtr-9.5-f, rtr-9.5-h, rtr-9.5-i
    fn fits(&self, fragment: &Fragment<'_>, header: Cont) -> Result<(), GroupError> {
        let mismatch = |expected, fragment| Mismatch {
            expected,
            received: fragment,
        };
        if fragment.xid != self.xid {
            return Err(GroupError::Xid(mismatch(self.xid, fragment.xid)));
        }
        // The direction takes precedence: the continued message has the other direction.
        let continues = if fragment.direction == self.direction {
            header.itype
        } else {
            opener_of(fragment.direction)
        };
        if continues != self.opener() {
            return Err(GroupError::Operation(mismatch(self.opener(), continues)));
        }
        if header.xnum != self.next {
            return Err(GroupError::Sequence(mismatch(self.next, header.xnum)));
        }
        Ok(())
    }
}

/// Returns the operation that begins a message of this direction.
pub(in crate::connection) const fn opener_of(direction: MsgType) -> u32 {
    match direction {
        MsgType::Call => ROPT_XMTREQ,
        MsgType::Reply => ROPT_XMTRESP,
    }
}

/// Returns the error of a group that another message interrupts.
// spec: rtr-4.2-d, rtr-9.5-e, rtr-9.5-f
pub(in crate::connection) fn between(procedure: u32, operation: Option<u32>) -> Option<GroupError> {
    match operation {
        None => Some(GroupError::HeaderType(Mismatch {
            expected: RDMA2_OPTIONAL,
            received: procedure,
        })),
        Some(ROPT_XMTCONT) => None,
        Some(code) => Some(GroupError::Operation(Mismatch {
            expected: ROPT_XMTCONT,
            received: code,
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::Reassembly;

    #[test]
    fn memory_that_is_given_back_is_used_again() {
        let mut reassembly = Reassembly::default();
        let message = reassembly.spare_message();
        let address = core::ptr::from_ref(&*message);
        reassembly.recycle(message);
        // It is not freed meanwhile, so that no other has its address.
        let another = alloc::boxed::Box::<super::ReassembledMessage>::default();
        assert_eq!(core::ptr::from_ref(&*reassembly.spare_message()), address);
        assert_ne!(core::ptr::from_ref(&*another), address);
    }
}
