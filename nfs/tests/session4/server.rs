//! An in-memory NFSv4.1 server that follows RFC 8881 for sessions: slots, sequence numbers, cached
//! replies and the back channel. It has one directory.
#![allow(unreachable_pub, reason = "the modules of a test share it")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use oncrpc::xdr::Opaque;
use oncrpc::{CallError, Channel, Context, ReplyLimits, RpcError};
use rpcrdma_nfs::nfs4::nfs4_callback::nfs_cb;
use rpcrdma_nfs::nfs4::nfs4_program::nfs_v4::{CompoundResults, Service};
use rpcrdma_nfs::nfs4::owned::{
    self, ChannelAttrs4, Compound4res, CreateSession4res, CreateSession4resok, ExchangeId4res,
    ExchangeId4resok, Fattr4, Getattr4res, Getattr4resok, Getfh4res, Getfh4resok, NfsFh4,
    NfsResop4 as Res, Nfsace4, Open4res, Open4resok, OpenDelegation4, OpenReadDelegation4,
    OpenWriteDelegation4, Read4res, Read4resok, Readlink4res, Readlink4resok, Sequence4res,
    ServerOwner4, Setattr4res, StateProtect4R,
};
use rpcrdma_nfs::nfs4::{
    self, BindConnToSession4res, BindConnToSession4resok, CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
    CbCompound4args, CbRecall4args, CbSequence4args, ChangeInfo4, ChannelDirFromClient4,
    ChannelDirFromServer4, Close4res, Compound4args, Createhow4, Delegreturn4res,
    DestroyClientid4res, DestroySession4res, FATTR4_CHANGE, FATTR4_SIZE, FATTR4_TYPE, Lookup4res,
    NfsArgop4 as Op, NfsCbArgop4, NfsSpaceLimit4, Nfsstat4 as Status,
    OPEN4_SHARE_ACCESS_WANT_DELEG_MASK, OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG,
    OPEN4_SHARE_ACCESS_WRITE, OpenClaim4, Openflag4, Putfh4res, Putrootfh4res, ReclaimComplete4res,
    ReferringCallList4, Remove4res, Remove4resok, SEQ4_STATUS_CB_PATH_DOWN, Sequence4args,
    Sequence4resok, Sessionid4, StableHow4, Stateid4, Write4res, Write4resok,
};

pub const SLOTS: u32 = 4;
const ROOT: &[u8] = b"root";

/// A single misbehaviour of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trick {
    /// Executes a COMPOUND and does not reply.
    LoseReply,
    /// Executes a COMPOUND and replies as to its retransmission before it has ended.
    Executing,
    /// Replies as if an uncached reply to a COMPOUND had been lost.
    Uncached,
    OtherSlot,
    FewerResults,
    /// Executes a COMPOUND, and replies with no result and without an error.
    NoResults,
    OtherResults,
    MoreData,
    /// Executes a COMPOUND, and replies as if its GETFH or GETATTR had failed.
    FailsGetfh,
    FailsGetattr,
    /// Returns attributes that the client has not requested.
    OtherAttributes,
}

#[derive(Clone, Default)]
pub struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    clients: HashMap<u64, Vec<u8>>,
    sessions: HashMap<Sessionid4, Session>,
    files: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The number of changes of each file.
    changes: HashMap<Vec<u8>, u64>,
    /// Files with a delegation, and their delegations.
    delegations: HashMap<Vec<u8>, (Stateid4, Sessionid4)>,
    /// The files that are open, with the owners of the opens, by the stateids of the opens.
    opens: HashMap<[u8; 12], (OpenOwner, Vec<u8>)>,
    next: u64,
    /// How often each non-idempotent operation was executed.
    executed: HashMap<(Sessionid4, u32, u32), u32>,
    /// The number of COMPOUNDs that were answered from a slot.
    replays: u32,
    /// The slots of the COMPOUNDs since [`Server::take_slots`].
    slots: BTreeSet<u32>,
    /// How many slots less than [`SLOTS`] the server wants to be used.
    recalled_slots: u32,
    trick: Option<Trick>,
}

/// The client ID and the name of an open-owner.
type OpenOwner = (u64, Vec<u8>);

struct Session {
    client: u64,
    slots: Vec<Slot>,
    back: Option<(Option<u64>, Channel)>,
    back_sequence: u32,
}

#[derive(Clone, Default)]
struct Slot {
    sequence: u32,
    reply: Option<Compound4res>,
}

/// A CB_COMPOUND to send.
pub struct Callback {
    pub session: Sessionid4,
    pub sequence: u32,
    pub slot: u32,
    pub recall: (Stateid4, Vec<u8>),
    /// The operation after CB_SEQUENCE, in place of CB_RECALL.
    pub operation: Option<NfsCbArgop4<'static>>,
    pub refers_to: Vec<nfs4::ReferringCall4>,
    pub minor_version: u32,
    pub has_sequence: bool,
}

impl Server {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn play(&self, trick: Trick) {
        self.state().trick = Some(trick);
    }

    /// Waits until the server has executed the COMPOUND that a trick concerns.
    pub async fn played(&self) {
        while self.state().trick.is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    pub fn replays(&self) -> u32 {
        self.state().replays
    }

    /// Returns the highest number of executions of one operation.
    pub fn most_executions(&self) -> u32 {
        self.state().executed.values().copied().max().unwrap_or(0)
    }

    pub fn add_file(&self, name: &str, content: &[u8]) {
        let content = content.to_vec();
        self.state().files.insert(name.into(), content);
    }

    pub fn file(&self, name: &str) -> Option<Vec<u8>> {
        self.state().files.get(name.as_bytes()).cloned()
    }

    /// Returns the change attribute of a file.
    pub fn change(&self, name: &str) -> u64 {
        self.state().change(name.as_bytes())
    }

    pub fn is_delegated(&self, name: &str) -> bool {
        self.state().delegations.contains_key(name.as_bytes())
    }

    /// Returns how many files are open.
    pub fn opens(&self) -> usize {
        self.state().opens.len()
    }

    /// Returns the slots of the COMPOUNDs since the last call.
    pub fn take_slots(&self) -> Vec<u32> {
        std::mem::take(&mut self.state().slots)
            .into_iter()
            .collect()
    }

    /// Returns the next recall of a file's delegation.
    pub fn recall_of(&self, name: &str) -> Callback {
        let (stateid, session) = self.state().delegations[name.as_bytes()];
        let recall = (stateid, name.into());
        Callback {
            recall,
            ..self.callback(session, None)
        }
    }

    /// Sends another operation than CB_RECALL after CB_SEQUENCE, to the only session.
    pub async fn send(&self, operation: NfsCbArgop4<'static>) -> owned::CbCompound4res {
        let session = {
            let mut state = self.state();
            if let NfsCbArgop4::RecallSlot(args) = &operation {
                state.recalled_slots = SLOTS - 1 - args.rsa_target_highest_slotid;
            }
            *state.sessions.keys().next().unwrap()
        };
        let call = self.callback(session, Some(operation));
        self.call_back(&call).await.unwrap()
    }

    fn callback(&self, session: Sessionid4, operation: Option<NfsCbArgop4<'static>>) -> Callback {
        let nobody = Stateid4 {
            seqid: 0,
            other: [0; 12],
        };
        Callback {
            session,
            sequence: self.state().sessions[&session].back_sequence + 1,
            slot: 0,
            recall: (nobody, Vec::new()),
            operation,
            refers_to: Vec::new(),
            minor_version: 1,
            has_sequence: true,
        }
    }

    /// Returns true if a connection is bound to the back channel of a session.
    pub fn calls_back(&self) -> bool {
        let state = self.state();
        state.sessions.values().any(|known| known.back.is_some())
    }

    /// Returns the connection that is bound to the back channel.
    pub fn way_back(&self) -> Channel {
        let state = self.state();
        let known = state.sessions.values().next().unwrap();
        known.back.clone().expect("no way back").1
    }

    /// Calls the client back, over the connection that is bound to the back channel.
    pub async fn call_back(&self, call: &Callback) -> Result<owned::CbCompound4res, CallError> {
        let channel = self.way_back();
        let lists = [ReferringCallList4 {
            rcl_sessionid: call.session,
            rcl_referring_calls: call.refers_to[..].into(),
        }];
        let sequence = NfsCbArgop4::Sequence(CbSequence4args {
            csa_sessionid: call.session,
            csa_sequenceid: call.sequence,
            csa_slotid: call.slot,
            csa_highest_slotid: call.slot,
            csa_cachethis: true,
            csa_referring_call_lists: (&lists).into(),
        });
        let recall = NfsCbArgop4::Recall(CbRecall4args {
            stateid: call.recall.0,
            truncate: false,
            fh: Opaque::new(&call.recall.1).unwrap(),
        });
        let operations = [sequence, call.operation.unwrap_or(recall)];
        let args = CbCompound4args {
            tag: b"tag",
            minorversion: call.minor_version,
            callback_ident: 0,
            argarray: operations[usize::from(!call.has_sequence)..].into(),
        };
        let client = nfs_cb::Client::new(channel);
        let limits = ReplyLimits::new(Some(512));
        let reply = client.compound(&args).reply_limits(limits).await?;
        let mut state = self.state();
        if let Some(session) = state.sessions.get_mut(&call.session)
            && matches!(
                reply.resarray.first(),
                Some(owned::NfsCbResop4::Sequence(owned::CbSequence4res::Ok(_)))
            )
        {
            session.back_sequence = session.back_sequence.max(call.sequence);
        }
        Ok(reply)
    }
}

impl Service for Server {
    async fn compound<'a>(
        &'a self,
        cx: &'a Context,
        args: Compound4args<'a>,
    ) -> Result<CompoundResults<'a>, RpcError> {
        // A call back may arrive before the reply to the call that allows it.
        tokio::task::yield_now().await;
        let mut state = self.state();
        // The others concern operations after SEQUENCE.
        let is_concerned = args.argarray.len() > 1 || matches!(state.trick, Some(Trick::Executing));
        let trick = if is_concerned {
            state.trick.take()
        } else {
            None
        };
        let mut reply = state.compound(cx, &args);
        match trick {
            Some(Trick::LoseReply) => return Err(RpcError::NoReply),
            Some(Trick::Executing) => {
                let result = Res::Sequence(Sequence4res::Default(Status::Delay));
                (reply.status, reply.resarray) = (Status::Delay, vec![result]);
            }
            Some(Trick::Uncached) => {
                reply.status = Status::RetryUncachedRep;
                reply.resarray.truncate(2);
                reply.resarray[1] = Res::Putfh(Putfh4res {
                    status: Status::RetryUncachedRep,
                });
            }
            Some(Trick::OtherSlot) => {
                if let Some(Res::Sequence(Sequence4res::Ok(ok))) = reply.resarray.first_mut() {
                    ok.sr_slotid += 1;
                }
            }
            Some(Trick::FewerResults) => drop(reply.resarray.pop()),
            Some(Trick::NoResults) => reply.resarray.clear(),
            Some(Trick::OtherResults) => {
                reply.resarray.pop();
                let status = Status::Ok;
                reply.resarray.push(Res::Lookup(Lookup4res { status }));
            }
            Some(Trick::MoreData) => {
                if let Some(Res::Read(Read4res::Ok(ok))) = reply.resarray.last_mut() {
                    ok.data = vec![1; ok.data.len() + 1].into();
                }
            }
            Some(Trick::FailsGetfh) => {
                let failed = Getfh4res::Default(Status::Delay);
                end_with(&mut reply, Res::Getfh(Box::new(failed)));
            }
            Some(Trick::FailsGetattr) => {
                end_with(
                    &mut reply,
                    Res::Getattr(Getattr4res::Default(Status::Delay)),
                );
            }
            Some(Trick::OtherAttributes) => {
                if let Some(Res::Getattr(Getattr4res::Ok(ok))) = reply.resarray.last_mut() {
                    ok.obj_attributes.attrmask = vec![u32::MAX];
                }
            }
            None => {}
        }
        Ok(reply.into())
    }
}

/// Replaces the result of an operation by that of a failure, with which the reply ends.
fn end_with(reply: &mut Compound4res, failed: Res) {
    let is_same = |result: &Res| result.resop() == failed.resop();
    let at = reply.resarray.iter().position(is_same).unwrap();
    reply.resarray.truncate(at);
    reply.resarray.push(failed);
    reply.status = Status::Delay;
}

impl State {
    fn compound(&mut self, cx: &Context, args: &Compound4args<'_>) -> Compound4res {
        let reply = |status, resarray| Compound4res {
            status,
            tag: args.tag.to_vec(),
            resarray,
        };
        let Some(first) = args.argarray.get(0) else {
            return reply(Status::Ok, vec![]);
        };
        let Op::Sequence(sequence) = first else {
            let (status, result) = self.without_session(cx, &first);
            return reply(status, vec![result]);
        };
        let ok = match self.sequence(cx, &sequence) {
            Ok(ok) => ok,
            Err(Replay::Kept(kept)) => {
                self.replays += 1;
                return kept;
            }
            Err(Replay::Refused(status)) => {
                let result = Res::Sequence(Sequence4res::Default(status));
                return reply(status, vec![result]);
            }
        };
        let mut results = vec![Res::Sequence(Sequence4res::Ok(Box::new(ok)))];
        let mut status = Status::Ok;
        let mut current = Vec::new();
        for operation in args.argarray.iter().skip(1) {
            let result;
            (status, result) = self.operation(&sequence, &mut current, &operation);
            results.push(result);
            if status != Status::Ok {
                break;
            }
        }
        let reply = reply(status, results);
        let session = self.sessions.get_mut(&sequence.sa_sessionid).unwrap();
        let slot = &mut session.slots[sequence.sa_slotid as usize];
        slot.sequence = sequence.sa_sequenceid;
        slot.reply = sequence.sa_cachethis.then(|| reply.clone());
        reply
    }

    /// Executes SEQUENCE (RFC 8881, sections 2.10.6 and 18.46).
    fn sequence(&mut self, cx: &Context, args: &Sequence4args) -> Result<Sequence4resok, Replay> {
        self.slots.insert(args.sa_slotid);
        let session = self.sessions.get_mut(&args.sa_sessionid);
        let session = session.ok_or(Replay::Refused(Status::Badsession))?;
        let slot = session.slots.get(args.sa_slotid as usize);
        let slot = slot.ok_or(Replay::Refused(Status::Badslot))?;
        if args.sa_sequenceid == slot.sequence && slot.sequence > 0 {
            return Err(match &slot.reply {
                Some(kept) => Replay::Kept(kept.clone()),
                None => Replay::Refused(Status::RetryUncachedRep),
            });
        }
        if args.sa_sequenceid != slot.sequence + 1 {
            return Err(Replay::Refused(Status::SeqMisordered));
        }
        let is_bound = session.back.as_ref().map(|back| back.0) == Some(cx.connection());
        let down = if is_bound {
            0
        } else {
            SEQ4_STATUS_CB_PATH_DOWN
        };
        Ok(Sequence4resok {
            sr_sessionid: args.sa_sessionid,
            sr_sequenceid: args.sa_sequenceid,
            sr_slotid: args.sa_slotid,
            sr_highest_slotid: SLOTS - 1,
            sr_target_highest_slotid: SLOTS - 1 - self.recalled_slots,
            sr_status_flags: down,
        })
    }

    fn change(&self, name: &[u8]) -> u64 {
        100 + self.changes.get(name).copied().unwrap_or(0)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn without_session(&mut self, cx: &Context, operation: &Op<'_>) -> (Status, Res) {
        match operation {
            Op::ExchangeId(args) => {
                let owner = args.eia_clientowner.co_ownerid.as_bytes().to_vec();
                let known = self.clients.iter().find(|(_, known)| **known == owner);
                let id = known.map(|(id, _)| *id).unwrap_or_else(|| self.number());
                self.clients.insert(id, owner);
                let ok = ExchangeId4resok {
                    eir_clientid: id,
                    eir_sequenceid: 1,
                    eir_flags: 0,
                    eir_state_protect: StateProtect4R::None,
                    eir_server_owner: ServerOwner4 {
                        so_minor_id: 0,
                        so_major_id: Opaque::new(b"test").unwrap().into(),
                    },
                    eir_server_scope: Opaque::new(b"test").unwrap().into(),
                    eir_server_impl_id: Default::default(),
                };
                (
                    Status::Ok,
                    Res::ExchangeId(ExchangeId4res::Ok(Box::new(ok))),
                )
            }
            Op::CreateSession(args) => {
                let mut id = [0; 16];
                id[..8].copy_from_slice(&self.number().to_be_bytes());
                let session = Session {
                    client: args.csa_clientid,
                    slots: vec![Slot::default(); SLOTS as usize],
                    back: (args.csa_flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN != 0)
                        .then(|| (cx.connection(), cx.caller())),
                    back_sequence: 0,
                };
                self.sessions.insert(id, session);
                let attrs = |size| ChannelAttrs4 {
                    ca_headerpadsize: 0,
                    ca_maxrequestsize: size,
                    ca_maxresponsesize: size,
                    ca_maxresponsesize_cached: 2048,
                    ca_maxoperations: 16,
                    ca_maxrequests: SLOTS,
                    ca_rdma_ird: Default::default(),
                };
                let ok = CreateSession4resok {
                    csr_sessionid: id,
                    csr_sequence: args.csa_sequence,
                    csr_flags: args.csa_flags,
                    csr_fore_chan_attrs: attrs(100_000),
                    csr_back_chan_attrs: attrs(4096),
                };
                (
                    Status::Ok,
                    Res::CreateSession(CreateSession4res::Ok(Box::new(ok))),
                )
            }
            Op::BindConnToSession(args) => {
                let result = match self.sessions.get_mut(&args.bctsa_sessid) {
                    None => BindConnToSession4res::Default(Status::Badsession),
                    Some(session) => {
                        let bctsr_dir = match args.bctsa_dir {
                            ChannelDirFromClient4::Fore => ChannelDirFromServer4::Fore,
                            _ => {
                                session.back = Some((cx.connection(), cx.caller()));
                                ChannelDirFromServer4::Both
                            }
                        };
                        BindConnToSession4res::Ok(BindConnToSession4resok {
                            bctsr_sessid: args.bctsa_sessid,
                            bctsr_dir,
                            bctsr_use_conn_in_rdma_mode: false,
                        })
                    }
                };
                let status = match &result {
                    BindConnToSession4res::Ok(_) => Status::Ok,
                    BindConnToSession4res::Default(status) => *status,
                };
                (status, Res::BindConnToSession(Box::new(result)))
            }
            Op::DestroySession(args) => {
                let status = match self.sessions.remove(&args.dsa_sessionid) {
                    Some(_) => Status::Ok,
                    None => Status::Badsession,
                };
                let result = DestroySession4res { dsr_status: status };
                (status, Res::DestroySession(result))
            }
            Op::DestroyClientid(args) => {
                let id = args.dca_clientid;
                let status = match self.clients.contains_key(&id) {
                    false => Status::StaleClientid,
                    true if self.sessions.values().any(|each| each.client == id) => {
                        Status::ClientidBusy
                    }
                    true => Status::Ok,
                };
                let result = DestroyClientid4res { dcr_status: status };
                (status, Res::DestroyClientid(result))
            }
            _ => {
                let status = Status::OpNotInSession;
                (status, Res::Illegal(nfs4::Illegal4res { status }))
            }
        }
    }

    fn operation(
        &mut self,
        sequence: &Sequence4args,
        current: &mut Vec<u8>,
        operation: &Op<'_>,
    ) -> (Status, Res) {
        let done = (Status::Ok, Status::Ok);
        match operation {
            Op::ReclaimComplete(_) => {
                let result = ReclaimComplete4res { rcr_status: done.0 };
                (done.0, Res::ReclaimComplete(result))
            }
            Op::Putrootfh => {
                *current = ROOT.to_vec();
                let result = Putrootfh4res { status: done.0 };
                (done.0, Res::Putrootfh(result))
            }
            Op::Putfh(args) => {
                *current = args.object.as_bytes().to_vec();
                let is_known = current == ROOT || self.files.contains_key(current);
                let status = if is_known { Status::Ok } else { Status::Stale };
                (status, Res::Putfh(Putfh4res { status }))
            }
            Op::Lookup(args) => {
                let status = match self.files.contains_key(args.objname) {
                    true => Status::Ok,
                    false => Status::Noent,
                };
                *current = args.objname.to_vec();
                (status, Res::Lookup(Lookup4res { status }))
            }
            Op::Getfh => {
                let object = NfsFh4::new(current.clone()).unwrap();
                let result = Getfh4res::Ok(Getfh4resok { object });
                (done.0, Res::Getfh(Box::new(result)))
            }
            Op::Getattr(_) => {
                let size = self.files.get(current).map_or(0, Vec::len) as u64;
                let mut attr_vals = 1_u32.to_be_bytes().to_vec();
                attr_vals.extend(self.change(current).to_be_bytes());
                attr_vals.extend(size.to_be_bytes());
                let obj_attributes = Fattr4 {
                    attrmask: vec![1 << FATTR4_TYPE | 1 << FATTR4_CHANGE | 1 << FATTR4_SIZE],
                    attr_vals,
                };
                let ok = Box::new(Getattr4resok { obj_attributes });
                (done.0, Res::Getattr(Getattr4res::Ok(ok)))
            }
            Op::Open(args) => self.open(sequence, current, args),
            Op::Close(args) => {
                let closed = args.open_stateid;
                let open = self.opens.get(&closed.other);
                if open.is_some_and(|(_, name)| name == current) {
                    self.opens.remove(&closed.other);
                    return (done.0, Res::Close(Close4res::Ok(closed)));
                }
                let status = Status::BadStateid;
                (status, Res::Close(Close4res::Default(status)))
            }
            Op::Read(args) => {
                let file = self.files.get(current).map_or(&[][..], Vec::as_slice);
                let rest = file
                    .get(usize::try_from(args.offset).unwrap()..)
                    .unwrap_or_default();
                let part = rest.get(..args.count as usize).unwrap_or(rest);
                let ok = Read4resok {
                    eof: part.len() == rest.len(),
                    data: part.to_vec().into(),
                };
                (done.0, Res::Read(Read4res::Ok(Box::new(ok))))
            }
            Op::Setattr(args) => {
                *self.changes.entry(current.clone()).or_default() += 1;
                let (size, _) = args.obj_attributes.attr_vals.split_first_chunk().unwrap();
                let size = usize::try_from(u64::from_be_bytes(*size)).unwrap();
                self.files.get_mut(current).unwrap().resize(size, 0);
                let result = Setattr4res {
                    status: done.0,
                    attrsset: vec![1 << FATTR4_SIZE],
                };
                (done.0, Res::Setattr(Box::new(result)))
            }
            Op::Write(args) => {
                *self.changes.entry(current.clone()).or_default() += 1;
                let file = self.files.entry(current.clone()).or_default();
                let start = usize::try_from(args.offset).unwrap();
                let end = start + args.data.len();
                if file.len() < end {
                    file.resize(end, 0);
                }
                file[start..end].copy_from_slice(&args.data);
                let ok = Write4resok {
                    count: u32::try_from(args.data.len()).unwrap(),
                    committed: StableHow4::FileSync4,
                    writeverf: [7; 8],
                };
                (done.0, Res::Write(Write4res::Ok(ok)))
            }
            // The content of a file is the path of a symbolic link, too.
            Op::Readlink => {
                let path = self.files.get(current).cloned().unwrap_or_default();
                let ok = Readlink4resok { link: path.into() };
                let result = Readlink4res::Ok(Box::new(ok));
                (done.0, Res::Readlink(result))
            }
            Op::Remove(args) => {
                self.note(sequence);
                let status = match self.files.remove(args.target) {
                    Some(_) => Status::Ok,
                    None => Status::Noent,
                };
                let cinfo = CHANGE;
                let result = match status {
                    Status::Ok => Remove4res::Ok(Remove4resok { cinfo }),
                    status => Remove4res::Default(status),
                };
                (status, Res::Remove(Box::new(result)))
            }
            Op::Delegreturn(args) => {
                let before = self.delegations.len();
                let returned = args.deleg_stateid;
                self.delegations.retain(|_, held| held.0 != returned);
                let status = match before == self.delegations.len() {
                    true => Status::BadStateid,
                    false => Status::Ok,
                };
                (status, Res::Delegreturn(Delegreturn4res { status }))
            }
            _ => {
                let status = Status::OpIllegal;
                (status, Res::Illegal(nfs4::Illegal4res { status }))
            }
        }
    }

    fn open(
        &mut self,
        sequence: &Sequence4args,
        current: &mut Vec<u8>,
        args: &nfs4::Open4args<'_>,
    ) -> (Status, Res) {
        self.note(sequence);
        let OpenClaim4::Null(name) = &args.claim else {
            let status = Status::Notsupp;
            return (status, Res::Open(Open4res::Default(status)));
        };
        let exists = self.files.contains_key(*name);
        let status = match &args.openhow {
            Openflag4::Create(Createhow4::Guarded4(_)) if exists => Status::Exist,
            Openflag4::Default(_) if !exists => Status::Noent,
            _ if args.share_access & OPEN4_SHARE_ACCESS_WRITE != 0
                && self.delegations.contains_key(*name) =>
            {
                Status::Delay
            }
            _ => Status::Ok,
        };
        if status != Status::Ok {
            return (status, Res::Open(Open4res::Default(status)));
        }
        let file = self.files.entry(name.to_vec()).or_default();
        if let Openflag4::Create(Createhow4::Unchecked4(attributes)) = &args.openhow
            && attributes.attr_vals == [0; 8]
        {
            file.clear();
        }
        *current = name.to_vec();
        let owner = (args.owner.clientid, args.owner.owner.as_bytes().to_vec());
        let stateid = self.opened((owner, name.to_vec()));
        let delegation = self.delegate(sequence.sa_sessionid, name, args.share_access);
        let ok = Open4resok {
            stateid,
            cinfo: CHANGE,
            rflags: 0,
            attrset: vec![],
            delegation,
        };
        (Status::Ok, Res::Open(Open4res::Ok(Box::new(ok))))
    }

    /// Grants a delegation for an OPEN: a read delegation if it does not write, and a write
    /// delegation if it asks for one. A file has one delegation.
    fn delegate(&mut self, session: Sessionid4, name: &[u8], access: u32) -> OpenDelegation4 {
        let wants_write =
            access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK == OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG;
        let writes = access & OPEN4_SHARE_ACCESS_WRITE != 0;
        if writes && !wants_write || self.delegations.contains_key(name) {
            return OpenDelegation4::None;
        }
        let stateid = self.stateid();
        self.delegations.insert(name.to_vec(), (stateid, session));
        let permissions = Nfsace4 {
            r#type: 0,
            flag: 0,
            access_mask: 0,
            who: b"EVERYONE@".to_vec(),
        };
        if writes {
            return OpenDelegation4::Write(Box::new(OpenWriteDelegation4 {
                stateid,
                recall: false,
                space_limit: NfsSpaceLimit4::Size(1 << 20),
                permissions,
            }));
        }
        OpenDelegation4::Read(Box::new(OpenReadDelegation4 {
            stateid,
            recall: false,
            permissions,
        }))
    }

    /// Opens a file. Two opens of a file by one owner are one open (RFC 8881, section 18.16.3).
    fn opened(&mut self, open: (OpenOwner, Vec<u8>)) -> Stateid4 {
        let known = self.opens.iter().find(|(_, known)| **known == open);
        let stateid = match known {
            Some((other, _)) => Stateid4 {
                seqid: 2,
                other: *other,
            },
            None => self.stateid(),
        };
        self.opens.insert(stateid.other, open);
        stateid
    }

    fn stateid(&mut self) -> Stateid4 {
        let mut other = [0; 12];
        other[..8].copy_from_slice(&self.number().to_be_bytes());
        Stateid4 { seqid: 1, other }
    }

    fn note(&mut self, sequence: &Sequence4args) {
        let request = (
            sequence.sa_sessionid,
            sequence.sa_slotid,
            sequence.sa_sequenceid,
        );
        *self.executed.entry(request).or_default() += 1;
    }
}

enum Replay {
    Kept(Compound4res),
    Refused(Status),
}

const CHANGE: ChangeInfo4 = ChangeInfo4 {
    atomic: true,
    before: 1,
    after: 2,
};
