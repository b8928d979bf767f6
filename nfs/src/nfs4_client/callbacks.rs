//! The back channel: the calls of a server (RFC 8881, section 20), and its recalls.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;

use super::attributes::Nfs4Attributes;
use super::delegations::Delegations;
use super::slots::SlotTable;
use super::waiters::{Waiters, lock};
use crate::nfs4::owned::{
    CbCompound4res, CbGetattr4res, CbSequence4res, NfsCbResop4 as Result4, NfsFh4 as Handle4,
    NfsResop4,
};
use crate::nfs4::{
    CbCompound4args, CbGetattr4args, CbIllegal4res, CbLayoutrecall4res, CbNotify4res,
    CbNotifyDeviceid4res, CbNotifyLock4res, CbOffload4res, CbPushDeleg4res, CbRecall4args,
    CbRecall4res, CbRecallAny4args, CbRecallAny4res, CbRecallSlot4res, CbRecallableObjAvail4res,
    CbSequence4args, CbSequence4resok, CbWantsCancelled4res, NfsArgop4, NfsCbArgop4, Nfsstat4,
    RCA4_TYPE_MASK_BLK_LAYOUT, RCA4_TYPE_MASK_DIR_DLG, RCA4_TYPE_MASK_FILE_LAYOUT,
    RCA4_TYPE_MASK_OBJ_LAYOUT_MAX, RCA4_TYPE_MASK_OBJ_LAYOUT_MIN, RCA4_TYPE_MASK_OTHER_LAYOUT_MIN,
    RCA4_TYPE_MASK_RDATA_DLG, RCA4_TYPE_MASK_WDATA_DLG, Sessionid4, Stateid4,
};

/// The maximum operations of a CB_COMPOUND.
pub(super) const BACK_OPERATIONS: u32 = 16;

/// The number of slots of the back channel.
pub(super) const BACK_SLOTS: u32 = 16;

/// A request of the server over the back channel.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Nfs4Recall {
    /// To return a delegation (CB_RECALL): the client flushes its data, and returns the delegation
    /// within the lease.
    Delegation {
        /// The delegation.
        stateid: Stateid4,
        /// The file.
        handle: Handle4,
        /// Whether the file is about to be truncated, so that its data need not be flushed.
        truncate: bool,
    },
    /// To return delegations of the client's choice (CB_RECALL_ANY) until it has at most `keep` of
    /// these kinds. A later one with a higher `keep` does not cancel it (RFC 8881, section 20.6.3).
    Any {
        /// How many delegations of these kinds the client may keep, in total.
        keep: u32,
        /// Read delegations count.
        reads: bool,
        /// Write delegations count.
        writes: bool,
    },
}

/// The service for the calls that servers make over the back channels of sessions.
///
/// A transport offers this service by its [`router`](Self::router). Each call is answered at once:
/// a recall is queued, and [`next_recall`](Self::next_recall) returns it. Only delegations that the
/// clients of these callbacks hold are queued, and one CB_RECALL_ANY for each choice of kinds, so
/// that no server can make the queue grow without bound.
///
/// CB_RECALL, CB_RECALL_ANY, CB_RECALL_SLOT and CB_GETATTR are executed. The reply to other
/// operations is NFS4ERR_NOTSUPP.
///
/// By CB_GETATTR a server asks the holder of a write delegation for the size and the change
/// attribute of the file (RFC 8881, section 10.4.3). The size follows the results of WRITE and
/// SETATTR in the sessions of these callbacks. A client that keeps changes, to send them later,
/// tells so by [`record_change`](Self::record_change) and [`record_flush`](Self::record_flush):
///
/// ```
/// use rpcrdma_nfs::nfs4_client::{Nfs4Callbacks, Nfs4OpenFile};
///
/// /// Returns true if the file's data may stay in a cache that has made the file longer.
/// fn keep(callbacks: &Nfs4Callbacks, file: &Nfs4OpenFile, size: u64) -> bool {
///     let delegation = file.delegation.filter(|given| given.is_write);
///     delegation.is_some_and(|given| callbacks.record_change(&given.stateid, size))
/// }
/// ```
#[derive(Clone)]
pub struct Nfs4Callbacks(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Whether a router exists. Without one, no connection is bound to a back channel.
    is_served: AtomicBool,
}

#[derive(Default)]
struct State {
    sessions: HashMap<Sessionid4, BackChannel>,
    delegations: Delegations,
    /// The number of OPENs in flight, whose delegations are not known yet.
    opening: usize,
    recalls: VecDeque<Nfs4Recall>,
    waiters: Waiters,
}

struct BackChannel {
    slots: Vec<BackSlot>,
    fore: Weak<SlotTable>,
}

/// A slot of the back channel, at the replier.
#[derive(Clone, Default)]
struct BackSlot {
    sequence: u32,
    /// The cached reply to the last request.
    reply: Option<CbCompound4res>,
}

/// An OPEN in flight.
pub(super) struct Opening<'c>(&'c Nfs4Callbacks);

impl Nfs4Callbacks {
    /// Creates callbacks without sessions.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            is_served: AtomicBool::new(false),
        }))
    }

    /// Waits for the next recall. If several tasks wait, one of them gets it.
    pub async fn next_recall(&self) -> Nfs4Recall {
        poll_fn(|cx| {
            let mut state = lock(&self.0.state);
            match state.recalls.pop_front() {
                Some(recall) => Poll::Ready(recall),
                None => {
                    state.waiters.add(cx);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Records that a router offers these callbacks.
    pub(super) fn set_served(&self) {
        self.0.is_served.store(true, Relaxed);
    }

    pub(super) fn is_served(&self) -> bool {
        self.0.is_served.load(Relaxed)
    }

    pub(super) fn add_session(&self, id: Sessionid4, fore: Weak<SlotTable>) {
        let slots = vec![BackSlot::default(); BACK_SLOTS as usize];
        let channel = BackChannel { slots, fore };
        lock(&self.0.state).sessions.insert(id, channel);
    }

    pub(super) fn remove_session(&self, id: &Sessionid4) {
        lock(&self.0.state).sessions.remove(id);
    }

    pub(super) fn begin_open(&self) -> Opening<'_> {
        lock(&self.0.state).opening += 1;
        Opening(self)
    }

    /// Records that the holder of a write delegation has changed the file without the server, and
    /// the file's size in bytes with this change. Until [`record_flush`](Self::record_flush), the
    /// replies to CB_GETATTR say that the file is modified, and has this size.
    ///
    /// Returns false, and records nothing, if no write delegation with this stateid is held: the
    /// change must not be kept then, but sent to the server at once.
    #[must_use = "without a write delegation, a change must not be kept"]
    pub fn record_change(&self, delegation: &Stateid4, size: u64) -> bool {
        let mut state = lock(&self.0.state);
        state.delegations.record(delegation, Some(size))
    }

    /// Records that the server has all changes that were recorded. A change that was made during
    /// the flush has to be recorded again after this.
    ///
    /// Returns false if no write delegation with this stateid is held.
    pub fn record_flush(&self, delegation: &Stateid4) -> bool {
        let mut state = lock(&self.0.state);
        state.delegations.record(delegation, None)
    }

    /// Adds a delegation, with the attributes of its file after the OPEN if it is a write
    /// delegation.
    pub(super) fn add_delegation(
        &self,
        stateid: &Stateid4,
        handle: Handle4,
        written: Option<Nfs4Attributes>,
    ) {
        let mut state = lock(&self.0.state);
        state.delegations.add(stateid, handle, written);
    }

    /// Takes note of the executed operations of a COMPOUND.
    pub(super) fn executed(&self, operations: &[NfsArgop4<'_>], results: &[NfsResop4]) {
        lock(&self.0.state)
            .delegations
            .executed(operations, results);
    }

    /// Executes a CB_COMPOUND of `count` operations. Fewer of them are sufficient if one of them is
    /// [`NfsCbArgop4::Illegal`], or if they are too many.
    pub(super) fn execute(&self, args: &CbCompound4args<'_>, count: usize) -> CbCompound4res {
        lock(&self.0.state).execute(args, count)
    }

    /// Removes a returned delegation and its recall.
    pub(super) fn remove_delegation(&self, returned: &Stateid4) {
        let mut state = lock(&self.0.state);
        state.delegations.remove(returned);
        state.recalls.retain(|recall| match recall {
            Nfs4Recall::Delegation { stateid, .. } => stateid.other != returned.other,
            Nfs4Recall::Any { .. } => true,
        });
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        lock(&self.0.0.state).opening -= 1;
    }
}

impl Default for Nfs4Callbacks {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Nfs4Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.0.state);
        let (sessions, held) = (state.sessions.len(), state.delegations.len());
        write!(f, "Nfs4Callbacks({sessions} sessions, {held} delegations)")
    }
}

impl State {
    fn execute(&mut self, args: &CbCompound4args<'_>, count: usize) -> CbCompound4res {
        let reply = |status, resarray| CbCompound4res {
            status,
            tag: args.tag.to_vec(),
            resarray,
        };
        if !is_supported(args.minorversion) {
            return reply(Nfsstat4::MinorVersMismatch, Vec::new());
        }
        let mut operations = args.argarray.iter();
        let sequence = match operations.next() {
            None => return reply(Nfsstat4::Ok, Vec::new()),
            Some(NfsCbArgop4::Sequence(sequence)) => sequence,
            Some(other) => {
                let status = match other {
                    NfsCbArgop4::Illegal => Nfsstat4::OpIllegal,
                    _ => Nfsstat4::OpNotInSession,
                };
                return reply(status, vec![refuse(&other, status)]);
            }
        };
        let first = match self.sequence(&sequence, count) {
            Ok(SequenceOutcome::New(ok)) => Result4::Sequence(CbSequence4res::Ok(Box::new(ok))),
            Ok(SequenceOutcome::Again(kept)) => return kept,
            Err(status) => {
                let result = Result4::Sequence(CbSequence4res::Default(status));
                return reply(status, vec![result]);
            }
        };
        let mut results = vec![first];
        let mut status = Nfsstat4::Ok;
        for operation in operations {
            let result;
            (status, result) = self.operation(&sequence, &operation);
            results.push(result);
            if status != Nfsstat4::Ok {
                break;
            }
        }
        let reply = reply(status, results);
        if let Some(slot) = self.slot(&sequence) {
            slot.sequence = sequence.csa_sequenceid;
            slot.reply = Some(reply.clone());
        }
        reply
    }

    fn slot(&mut self, sequence: &CbSequence4args<'_>) -> Option<&mut BackSlot> {
        let channel = self.sessions.get_mut(&sequence.csa_sessionid)?;
        channel.slots.get_mut(sequence.csa_slotid as usize)
    }

    /// CB_SEQUENCE (RFC 8881, section 20.9.3).
    fn sequence(
        &mut self,
        args: &CbSequence4args<'_>,
        operations: usize,
    ) -> Result<SequenceOutcome, Nfsstat4> {
        let sessions = &self.sessions;
        let channel = sessions.get(&args.csa_sessionid);
        let channel = channel.ok_or(Nfsstat4::Badsession)?;
        let slot = channel.slots.get(args.csa_slotid as usize);
        let slot = slot.ok_or(Nfsstat4::Badslot)?;
        if args.csa_highest_slotid >= BACK_SLOTS {
            return Err(Nfsstat4::BadHighSlot);
        }
        if let Some(kept) = &slot.reply
            && args.csa_sequenceid == slot.sequence
        {
            return Ok(SequenceOutcome::Again(kept.clone()));
        }
        if args.csa_sequenceid != slot.sequence.wrapping_add(1) {
            return Err(Nfsstat4::SeqMisordered);
        }
        if operations > BACK_OPERATIONS as usize {
            return Err(Nfsstat4::TooManyOps);
        }
        // The server has replied to calls that this one refers to, but their replies have not
        // arrived (RFC 8881, section 2.10.6.3).
        let is_early = args.csa_referring_call_lists.iter().any(|list| {
            let fore = sessions.get(&list.rcl_sessionid);
            let fore = fore.and_then(|channel| channel.fore.upgrade());
            fore.is_some_and(|fore| {
                let mut calls = list.rcl_referring_calls.iter();
                calls.any(|call| fore.is_in_flight(call.rc_slotid, call.rc_sequenceid))
            })
        });
        if is_early {
            return Err(Nfsstat4::Delay);
        }
        Ok(SequenceOutcome::New(CbSequence4resok {
            csr_sessionid: args.csa_sessionid,
            csr_sequenceid: args.csa_sequenceid,
            csr_slotid: args.csa_slotid,
            csr_highest_slotid: BACK_SLOTS - 1,
            csr_target_highest_slotid: BACK_SLOTS - 1,
        }))
    }

    fn operation(
        &mut self,
        sequence: &CbSequence4args<'_>,
        operation: &NfsCbArgop4<'_>,
    ) -> (Nfsstat4, Result4) {
        let status = match operation {
            NfsCbArgop4::Recall(args) => self.recall(args),
            NfsCbArgop4::RecallAny(args) => self.recall_any(args),
            NfsCbArgop4::RecallSlot(args) => {
                let channel = self.sessions.get(&sequence.csa_sessionid);
                if let Some(fore) = channel.and_then(|channel| channel.fore.upgrade()) {
                    fore.set_target(args.rsa_target_highest_slotid);
                }
                Nfsstat4::Ok
            }
            NfsCbArgop4::Getattr(args) => match self.attributes(args) {
                Ok(result) => return (Nfsstat4::Ok, Result4::Getattr(result)),
                Err(status) => status,
            },
            NfsCbArgop4::Layoutrecall(_) => Nfsstat4::NomatchingLayout,
            NfsCbArgop4::Sequence(_) => Nfsstat4::SequencePos,
            NfsCbArgop4::Illegal => Nfsstat4::OpIllegal,
            _ => Nfsstat4::Notsupp,
        };
        (status, refuse(operation, status))
    }

    /// Returns the status of a callback about a delegation that is not known: the reply to the OPEN
    /// that grants it may not have arrived.
    fn unless_opening(&self, status: Nfsstat4) -> Nfsstat4 {
        match self.opening {
            0 => status,
            _ => Nfsstat4::Delay,
        }
    }

    /// Executes CB_GETATTR.
    fn attributes(&self, args: &CbGetattr4args<'_>) -> Result<CbGetattr4res, Nfsstat4> {
        match self.delegations.attributes(args) {
            Some(ok) => Ok(CbGetattr4res::Ok(Box::new(ok))),
            None => Err(self.unless_opening(Nfsstat4::Badhandle)),
        }
    }

    /// Executes CB_RECALL. It can arrive before the reply to the OPEN whose delegation it recalls.
    fn recall(&mut self, args: &CbRecall4args<'_>) -> Nfsstat4 {
        let Some(held) = self.delegations.get_mut(&args.stateid) else {
            return self.unless_opening(Nfsstat4::BadStateid);
        };
        if held.handle.as_borrowed() != args.fh {
            return Nfsstat4::BadStateid;
        }
        if !held.is_recalled {
            held.is_recalled = true;
            self.recalls.push_back(Nfs4Recall::Delegation {
                stateid: args.stateid,
                handle: held.handle.clone(),
                truncate: args.truncate,
            });
            self.waiters.wake();
        }
        Nfsstat4::Ok
    }

    /// Executes CB_RECALL_ANY (RFC 8881, section 20.6.3). It has no effect if the client has no
    /// more objects than it may keep, or was already told to keep fewer.
    fn recall_any(&mut self, args: &CbRecallAny4args<'_>) -> Nfsstat4 {
        let Some((reads, writes)) = kinds(args) else {
            return Nfsstat4::Inval;
        };
        let held = self.delegations.count(reads, writes);
        // An OPEN in flight may bring one more.
        let most = if reads || writes {
            held + self.opening
        } else {
            0
        };
        let mut keep = args.craa_objects_to_keep;
        if most <= keep as usize {
            return Nfsstat4::Ok;
        }
        self.recalls.retain(|recall| match *recall {
            Nfs4Recall::Any {
                keep: earlier,
                reads: of_reads,
                writes: of_writes,
            } if (of_reads, of_writes) == (reads, writes) => {
                keep = keep.min(earlier);
                false
            }
            _ => true,
        });
        self.recalls.push_back(Nfs4Recall::Any {
            keep,
            reads,
            writes,
        });
        self.waiters.wake();
        Nfsstat4::Ok
    }
}

/// The types of recallable objects that are defined: those of RFC 8881, section 20.6.1, and the two
/// of the flexible file layout (RFC 8435).
const DEFINED_TYPES: u32 = {
    let layouts = 1 << RCA4_TYPE_MASK_FILE_LAYOUT
        | 1 << RCA4_TYPE_MASK_BLK_LAYOUT
        | 1 << RCA4_TYPE_MASK_OBJ_LAYOUT_MIN
        | 1 << RCA4_TYPE_MASK_OBJ_LAYOUT_MAX
        | 0xf << RCA4_TYPE_MASK_OTHER_LAYOUT_MIN
        | 0b11 << 16;
    1 << RCA4_TYPE_MASK_RDATA_DLG
        | 1 << RCA4_TYPE_MASK_WDATA_DLG
        | 1 << RCA4_TYPE_MASK_DIR_DLG
        | layouts
};

/// Returns whether CB_RECALL_ANY is about read delegations, and about write delegations; or none if
/// it is about types that are not defined. Clients have no objects of the other types.
fn kinds(args: &CbRecallAny4args<'_>) -> Option<(bool, bool)> {
    let mut words = args.craa_type_mask.iter();
    let types = words.next().unwrap_or_default();
    let has = |kind: u32| types & (1 << kind) != 0;
    let is_defined = types & !DEFINED_TYPES == 0 && words.all(|word| word == 0);
    is_defined.then_some((has(RCA4_TYPE_MASK_RDATA_DLG), has(RCA4_TYPE_MASK_WDATA_DLG)))
}

/// Returns true if the callbacks know the operations of a minor version of NFSv4.
pub(super) fn is_supported(minor_version: u32) -> bool {
    (1..=2).contains(&minor_version)
}

enum SequenceOutcome {
    New(CbSequence4resok),
    /// A retransmitted request, and the cached reply.
    Again(CbCompound4res),
}

/// Returns a result that has only a status. The status may be `Ok` if the result has no other
/// content.
fn refuse(operation: &NfsCbArgop4<'_>, status: Nfsstat4) -> Result4 {
    use NfsCbArgop4 as Op;
    match operation {
        Op::Getattr(_) => Result4::Getattr(CbGetattr4res::Default(status)),
        Op::Recall(_) => Result4::Recall(CbRecall4res { status }),
        Op::Layoutrecall(_) => Result4::Layoutrecall(CbLayoutrecall4res {
            clorr_status: status,
        }),
        Op::Notify(_) => Result4::Notify(CbNotify4res { cnr_status: status }),
        Op::PushDeleg(_) => Result4::PushDeleg(CbPushDeleg4res {
            cpdr_status: status,
        }),
        Op::RecallAny(_) => Result4::RecallAny(CbRecallAny4res {
            crar_status: status,
        }),
        Op::RecallableObjAvail(_) => Result4::RecallableObjAvail(CbRecallableObjAvail4res {
            croa_status: status,
        }),
        Op::RecallSlot(_) => Result4::RecallSlot(CbRecallSlot4res { rsr_status: status }),
        Op::Sequence(_) => Result4::Sequence(CbSequence4res::Default(status)),
        Op::WantsCancelled(_) => Result4::WantsCancelled(CbWantsCancelled4res {
            cwcr_status: status,
        }),
        Op::NotifyLock(_) => Result4::NotifyLock(CbNotifyLock4res {
            cnlr_status: status,
        }),
        Op::NotifyDeviceid(_) => Result4::NotifyDeviceid(CbNotifyDeviceid4res {
            cndr_status: status,
        }),
        Op::Offload(_) => Result4::Offload(CbOffload4res { cor_status: status }),
        Op::Illegal => Result4::Illegal(CbIllegal4res { status }),
    }
}
