//! The back channel of the server: the calls to its client.

use oncrpc::xdr::Opaque;
use oncrpc::{CallError, Channel, ReplyLimits};
use rpcrdma_nfs::nfs4::nfs4_callback::nfs_cb;
use rpcrdma_nfs::nfs4::owned;
use rpcrdma_nfs::nfs4::{
    self, CbCompound4args, CbRecall4args, CbSequence4args, NfsCbArgop4, ReferringCallList4,
    Sessionid4, Stateid4,
};

use super::{SLOTS, Server};

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
