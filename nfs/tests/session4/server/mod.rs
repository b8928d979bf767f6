//! An in-memory NFSv4.1 server that follows RFC 8881 for sessions: slots, sequence numbers, cached
//! replies and the back channel. It has one directory.
//!
//! This module answers COMPOUNDs, and plays tricks on their replies. `sessions` executes SEQUENCE
//! and the operations without a session, `files` those of files, and `back_channel` calls the
//! client.
#![allow(unreachable_pub, reason = "the modules of a test share it")]

mod back_channel;
mod files;
mod sessions;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use oncrpc::{Context, RpcError};
use rpcrdma_nfs::nfs4::nfs4_program::nfs_v4::{CompoundResults, Service};
use rpcrdma_nfs::nfs4::owned::{
    Compound4res, CreateSession4res, Getattr4res, Getfh4res, NfsResop4 as Res, Read4res,
    Sequence4res,
};
use rpcrdma_nfs::nfs4::{
    Compound4args, Lookup4res, NfsArgop4 as Op, Nfsstat4 as Status, Putfh4res, Sessionid4, Stateid4,
};

pub use back_channel::Callback;
use sessions::{ClientRecord, Replay, Session};

pub const SLOTS: u32 = 4;

/// A single misbehaviour of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trick {
    /// Executes a COMPOUND and does not reply.
    LoseReply,
    /// Executes CREATE_SESSION and does not reply.
    LoseSession,
    /// Replies to CREATE_SESSION with another session.
    OtherSession(Sessionid4),
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
    clients: HashMap<u64, ClientRecord>,
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

    /// Returns how many sessions exist.
    pub fn sessions(&self) -> usize {
        self.state().sessions.len()
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
        let is_concerned = match state.trick {
            Some(Trick::Executing) => true,
            Some(Trick::LoseSession | Trick::OtherSession(_)) => {
                matches!(args.argarray.get(0), Some(Op::CreateSession(_)))
            }
            _ => args.argarray.len() > 1,
        };
        let trick = if is_concerned {
            state.trick.take()
        } else {
            None
        };
        let mut reply = state.compound(cx, &args);
        match trick {
            Some(Trick::LoseReply | Trick::LoseSession) => return Err(RpcError::NoReply),
            Some(Trick::OtherSession(id)) => {
                if let Some(Res::CreateSession(CreateSession4res::Ok(ok))) =
                    reply.resarray.first_mut()
                {
                    ok.csr_sessionid = id;
                }
            }
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

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
