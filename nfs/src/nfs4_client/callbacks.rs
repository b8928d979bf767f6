//! The back channel: the calls of a server (RFC 8881, section 20), and its recalls.
//!
//! One lock guards sessions, delegations and recalls. A `SlotTable` is locked under it, so `slots`
//! must not call this module. A slot keeps its last reply, so that a retransmitted CB_COMPOUND is
//! not executed again. An [`Opening`] must exist from before an OPEN is sent until
//! `add_delegation`: meanwhile a recall of an unknown delegation gets NFS4ERR_DELAY. `delegations`
//! has the state of each client.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use oncrpc::xdr::Encode as _;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, Notify};

use super::attributes::Nfs4Attributes;
use super::client_ids::ClientIds;
use super::delegations::Delegations;
use super::slots::{SlotTable, lock};
use crate::nfs4::owned::{
    CbCompound4res, CbGetattr4res, CbSequence4res, NfsCbResop4 as Result4, NfsFh4 as Handle4,
    NfsResop4,
};
use crate::nfs4::{
    CbCompound4args, CbGetattr4args, CbIllegal4res, CbLayoutrecall4res, CbNotify4res,
    CbNotifyDeviceid4res, CbNotifyLock4res, CbOffload4res, CbPushDeleg4res, CbRecall4args,
    CbRecall4res, CbRecallAny4args, CbRecallAny4res, CbRecallSlot4res, CbRecallableObjAvail4res,
    CbSequence4args, CbSequence4resok, CbWantsCancelled4res, Clientid4, NfsArgop4, NfsCbArgop4,
    Nfsstat4, RCA4_TYPE_MASK_BLK_LAYOUT, RCA4_TYPE_MASK_DIR_DLG, RCA4_TYPE_MASK_FILE_LAYOUT,
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
        /// The session through which it came.
        session: Sessionid4,
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
        /// The session through which it came.
        session: Sessionid4,
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
/// It serves the sessions with one server: session IDs and client IDs of another server may be the
/// same. All sessions of a client have the same callbacks.
///
/// A transport offers this service by its [`router`](Self::router). Each call is answered at once:
/// a recall is queued, and [`next_recall`](Self::next_recall) returns it. Only delegations that the
/// clients of these callbacks hold are queued, and one CB_RECALL_ANY of a client for each choice of
/// kinds, so that no server can make the queue grow without bound. The delegations of a client ID
/// are forgotten, with their recalls, when its last session is dropped.
///
/// CB_RECALL, CB_RECALL_ANY, CB_RECALL_SLOT and CB_GETATTR are executed. The reply to other
/// operations is NFS4ERR_NOTSUPP.
///
/// By CB_GETATTR a server asks the holder of a write delegation for the size and the change
/// attribute of the file (RFC 8881, section 10.4.3). The size follows the results of WRITE and
/// SETATTR in the sessions of these callbacks. A client that keeps changes, to send them later,
/// tells so by [`record_change`](super::Nfs4Client::record_change) and
/// [`record_flush`](super::Nfs4Client::record_flush).
#[derive(Clone)]
pub struct Nfs4Callbacks(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Wakes a task that waits for a recall.
    queued: Notify,
    /// Whether a router exists. Without one, no connection is bound to a back channel.
    is_served: AtomicBool,
    /// Locked while a session is created.
    client_ids: AsyncMutex<ClientIds>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<Sessionid4, BackChannel>,
    clients: HashMap<Clientid4, ClientState>,
    recalls: VecDeque<(Clientid4, Nfs4Recall)>,
}

struct BackChannel {
    client: Clientid4,
    slots: Vec<BackSlot>,
    fore: Weak<SlotTable>,
}

/// What the sessions of a client ID share.
#[derive(Default)]
struct ClientState {
    sessions: usize,
    delegations: Delegations,
    /// The number of OPENs in flight, whose delegations are not known yet.
    opening: usize,
}

impl ClientState {
    /// Returns the status of a callback about a delegation that is not known: the reply to the OPEN
    /// that grants it may not have arrived.
    fn unless_opening(&self, status: Nfsstat4) -> Nfsstat4 {
        match self.opening {
            0 => status,
            _ => Nfsstat4::Delay,
        }
    }
}

/// A slot of the back channel, at the replier.
#[derive(Clone, Default)]
struct BackSlot {
    sequence: u32,
    /// The encoded operations after CB_SEQUENCE of the last request: another request with its
    /// number is a false retry (RFC 8881, section 2.10.6.1.3.1).
    request: Vec<u8>,
    /// The cached reply to the last request.
    reply: Option<CbCompound4res>,
}

/// An OPEN in flight.
pub(super) struct Opening<'c> {
    callbacks: &'c Nfs4Callbacks,
    client: Clientid4,
}

impl Nfs4Callbacks {
    /// Creates callbacks without sessions.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            queued: Notify::new(),
            is_served: AtomicBool::new(false),
            client_ids: AsyncMutex::default(),
        }))
    }

    /// Waits for the next recall. If several tasks wait, one of them gets it.
    pub async fn next_recall(&self) -> Nfs4Recall {
        loop {
            let mut queued = pin!(self.0.queued.notified());
            // A recall that is queued after this wakes the task, also before the first poll.
            queued.as_mut().enable();
            if let Some(recall) = self.take_recall() {
                return recall;
            }
            queued.await;
        }
    }

    fn take_recall(&self) -> Option<Nfs4Recall> {
        let mut state = lock(&self.0.state);
        let (_, recall) = state.recalls.pop_front()?;
        self.wake_for(&state);
        Some(recall)
    }

    /// Wakes a task if recalls wait for one. It wakes the next task when it takes its recall.
    fn wake_for(&self, state: &State) {
        if !state.recalls.is_empty() {
            self.0.queued.notify_one();
        }
    }

    /// Records that a router offers these callbacks.
    pub(super) fn set_served(&self) {
        self.0.is_served.store(true, Relaxed);
    }

    pub(super) fn is_served(&self) -> bool {
        self.0.is_served.load(Relaxed)
    }

    pub(super) async fn client_ids(&self) -> AsyncMutexGuard<'_, ClientIds> {
        self.0.client_ids.lock().await
    }

    /// Adds a session. Returns false if it exists already: then nothing changes.
    pub(super) fn add_session(
        &self,
        id: Sessionid4,
        client: Clientid4,
        fore: Weak<SlotTable>,
    ) -> bool {
        let channel = BackChannel {
            client,
            slots: vec![BackSlot::default(); BACK_SLOTS as usize],
            fore,
        };
        let mut state = lock(&self.0.state);
        if state.sessions.contains_key(&id) {
            return false;
        }
        state.sessions.insert(id, channel);
        state.clients.entry(client).or_default().sessions += 1;
        true
    }

    pub(super) fn remove_session(&self, id: &Sessionid4) {
        let mut state = lock(&self.0.state);
        if let Some(removed) = state.sessions.remove(id) {
            state.end_session(removed.client);
        }
    }

    pub(super) fn begin_open(&self, client: Clientid4) -> Opening<'_> {
        self.of(client, |client| client.opening += 1);
        Opening {
            callbacks: self,
            client,
        }
    }

    /// Accesses the state of a client; `None` if it has no session.
    fn of<T>(&self, client: Clientid4, access: impl FnOnce(&mut ClientState) -> T) -> Option<T> {
        lock(&self.0.state).clients.get_mut(&client).map(access)
    }

    /// Records what the holder of a write delegation has changed, or that it has flushed this.
    /// Returns false if no such delegation is held.
    pub(super) fn record(
        &self,
        client: Clientid4,
        delegation: &Stateid4,
        size: Option<u64>,
    ) -> bool {
        let recorded = self.of(client, |client| client.delegations.record(delegation, size));
        recorded.unwrap_or(false)
    }

    /// Adds a delegation, with the attributes of its file after the OPEN if it is a write
    /// delegation.
    pub(super) fn add_delegation(
        &self,
        client: Clientid4,
        stateid: &Stateid4,
        handle: Handle4,
        written: Option<Nfs4Attributes>,
    ) {
        self.of(client, |client| {
            client.delegations.add(stateid, handle, written);
        });
    }

    /// Takes note of the executed operations of a COMPOUND.
    pub(super) fn executed(
        &self,
        client: Clientid4,
        operations: &[NfsArgop4<'_>],
        results: &[NfsResop4],
    ) {
        self.of(client, |client| {
            client.delegations.executed(operations, results);
        });
    }

    /// Executes a CB_COMPOUND of `count` operations. Fewer of them are sufficient if one of them is
    /// [`NfsCbArgop4::Illegal`], or if they are too many.
    pub(super) fn execute(&self, args: &CbCompound4args<'_>, count: usize) -> CbCompound4res {
        let mut state = lock(&self.0.state);
        let reply = state.execute(args, count);
        self.wake_for(&state);
        reply
    }

    /// Removes a returned delegation and its recall.
    pub(super) fn remove_delegation(&self, client: Clientid4, returned: &Stateid4) {
        let mut state = lock(&self.0.state);
        if let Some(client) = state.clients.get_mut(&client) {
            client.delegations.remove(returned);
        }
        state.recalls.retain(|(of, recall)| match recall {
            Nfs4Recall::Delegation { stateid, .. } => {
                *of != client || stateid.other != returned.other
            }
            Nfs4Recall::Any { .. } => true,
        });
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.callbacks.of(self.client, |client| {
            client.opening = client.opening.saturating_sub(1);
        });
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
        let (sessions, clients) = (state.sessions.len(), state.clients.values());
        let held: usize = clients.map(|client| client.delegations.len()).sum();
        write!(f, "Nfs4Callbacks({sessions} sessions, {held} delegations)")
    }
}

impl State {
    /// Forgets a client after its last session.
    fn end_session(&mut self, client: Clientid4) {
        let Some(state) = self.clients.get_mut(&client) else {
            return;
        };
        state.sessions -= 1;
        if state.sessions == 0 {
            self.clients.remove(&client);
            self.recalls.retain(|(of, _)| *of != client);
        }
    }

    /// Returns the state of the client of a session.
    fn client(&mut self, session: &Sessionid4) -> Option<(Clientid4, &mut ClientState)> {
        let client = self.sessions.get(session)?.client;
        Some((client, self.clients.get_mut(&client)?))
    }

    fn queue(&mut self, client: Clientid4, recall: Nfs4Recall) {
        self.recalls.push_back((client, recall));
    }

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
        let request = encoded(operations.clone());
        let first = match self.sequence(&sequence, &request, count) {
            Ok(SequenceOutcome::New(ok)) => Result4::Sequence(CbSequence4res::Ok(Box::new(ok))),
            Ok(SequenceOutcome::Again(kept)) => return kept,
            Ok(SequenceOutcome::FalseRetry(ok)) => {
                let mut results = vec![Result4::Sequence(CbSequence4res::Ok(Box::new(ok)))];
                let status = match operations.next() {
                    None => Nfsstat4::Ok,
                    Some(next) => {
                        let status = match next {
                            NfsCbArgop4::Illegal => Nfsstat4::OpIllegal,
                            _ => Nfsstat4::Delay,
                        };
                        results.push(refuse(&next, status));
                        status
                    }
                };
                return reply(status, results);
            }
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
            slot.request = request;
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
        request: &[u8],
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
            return Ok(if slot.request == request {
                SequenceOutcome::Again(kept.clone())
            } else {
                SequenceOutcome::FalseRetry(accepted(args))
            });
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
        Ok(SequenceOutcome::New(accepted(args)))
    }

    fn operation(
        &mut self,
        sequence: &CbSequence4args<'_>,
        operation: &NfsCbArgop4<'_>,
    ) -> (Nfsstat4, Result4) {
        let session = &sequence.csa_sessionid;
        let status = match operation {
            NfsCbArgop4::Recall(args) => self.recall(session, args),
            NfsCbArgop4::RecallAny(args) => self.recall_any(session, args),
            NfsCbArgop4::RecallSlot(args) => {
                let channel = self.sessions.get(session);
                if let Some(fore) = channel.and_then(|channel| channel.fore.upgrade()) {
                    fore.set_target(args.rsa_target_highest_slotid);
                }
                Nfsstat4::Ok
            }
            NfsCbArgop4::Getattr(args) => match self.attributes(session, args) {
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

    /// Executes CB_GETATTR.
    fn attributes(
        &mut self,
        session: &Sessionid4,
        args: &CbGetattr4args<'_>,
    ) -> Result<CbGetattr4res, Nfsstat4> {
        let (_, client) = self.client(session).ok_or(Nfsstat4::Badhandle)?;
        match client.delegations.attributes(args) {
            Some(ok) => Ok(CbGetattr4res::Ok(Box::new(ok))),
            None => Err(client.unless_opening(Nfsstat4::Badhandle)),
        }
    }

    /// Executes CB_RECALL. It can arrive before the reply to the OPEN whose delegation it recalls.
    fn recall(&mut self, session: &Sessionid4, args: &CbRecall4args<'_>) -> Nfsstat4 {
        let Some((id, client)) = self.client(session) else {
            return Nfsstat4::BadStateid;
        };
        let Some(held) = client.delegations.get_mut(&args.stateid) else {
            return client.unless_opening(Nfsstat4::BadStateid);
        };
        if held.handle.as_borrowed() != args.fh {
            return Nfsstat4::BadStateid;
        }
        if !held.is_recalled {
            held.is_recalled = true;
            let recall = Nfs4Recall::Delegation {
                session: *session,
                stateid: args.stateid,
                handle: held.handle.clone(),
                truncate: args.truncate,
            };
            self.queue(id, recall);
        }
        Nfsstat4::Ok
    }

    /// Executes CB_RECALL_ANY (RFC 8881, section 20.6.3). It has no effect if the client has no
    /// more objects than it may keep, or was already told to keep fewer.
    fn recall_any(&mut self, session: &Sessionid4, args: &CbRecallAny4args<'_>) -> Nfsstat4 {
        let Some((reads, writes)) = kinds(args) else {
            return Nfsstat4::Inval;
        };
        let Some((id, client)) = self.client(session) else {
            return Nfsstat4::Ok;
        };
        let held = client.delegations.count(reads, writes);
        // An OPEN in flight may bring one more.
        let most = if reads || writes {
            held + client.opening
        } else {
            0
        };
        let mut keep = args.craa_objects_to_keep;
        if most <= keep as usize {
            return Nfsstat4::Ok;
        }
        self.recalls.retain(|(of, recall)| match *recall {
            Nfs4Recall::Any {
                keep: earlier,
                reads: of_reads,
                writes: of_writes,
                ..
            } if (*of, of_reads, of_writes) == (id, reads, writes) => {
                keep = keep.min(earlier);
                false
            }
            _ => true,
        });
        let recall = Nfs4Recall::Any {
            session: *session,
            keep,
            reads,
            writes,
        };
        self.queue(id, recall);
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
    /// Another request with the number of the last one, as Linux sends after a lost reply. The
    /// result of CB_SEQUENCE makes it go on to the next number, and NFS4ERR_DELAY of the next
    /// operation makes it send that operation again (RFC 8881, section 2.10.6.1.3).
    FalseRetry(CbSequence4resok),
}

/// Returns the result of a CB_SEQUENCE without an error.
const fn accepted(args: &CbSequence4args<'_>) -> CbSequence4resok {
    CbSequence4resok {
        csr_sessionid: args.csa_sessionid,
        csr_sequenceid: args.csa_sequenceid,
        csr_slotid: args.csa_slotid,
        csr_highest_slotid: BACK_SLOTS - 1,
        csr_target_highest_slotid: BACK_SLOTS - 1,
    }
}

/// Returns the bytes of operations. They were decoded, so that they can be encoded.
fn encoded<'a>(operations: impl Iterator<Item = NfsCbArgop4<'a>>) -> Vec<u8> {
    let parts = operations.map(|operation| operation.encode_to_vec().unwrap_or_default());
    parts.collect::<Vec<_>>().concat()
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
