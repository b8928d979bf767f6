//! Client IDs and sessions of the server, and SEQUENCE.

use oncrpc::xdr::Opaque;
use oncrpc::{Channel, Context};
use rpcrdma_nfs::nfs4::owned::{
    ChannelAttrs4, Compound4res, CreateSession4res, CreateSession4resok, ExchangeId4res,
    ExchangeId4resok, NfsResop4 as Res, ServerOwner4, StateProtect4R,
};
use rpcrdma_nfs::nfs4::{
    self, BindConnToSession4args, BindConnToSession4res, BindConnToSession4resok,
    CREATE_SESSION4_FLAG_CONN_BACK_CHAN, ChannelDirFromClient4, ChannelDirFromServer4,
    CreateSession4args, DestroyClientid4res, DestroySession4res, EXCHGID4_FLAG_CONFIRMED_R,
    ExchangeId4args, NfsArgop4 as Op, Nfsstat4 as Status, SEQ4_STATUS_CB_PATH_DOWN, Sequence4args,
    Sequence4resok,
};

use super::{SLOTS, State};

pub(super) struct Session {
    pub(super) client: u64,
    pub(super) slots: Vec<Slot>,
    pub(super) back: Option<(Option<u64>, Channel)>,
    pub(super) back_sequence: u32,
}

#[derive(Clone, Default)]
pub(super) struct Slot {
    pub(super) sequence: u32,
    pub(super) reply: Option<Compound4res>,
}

pub(super) enum Replay {
    Kept(Compound4res),
    Refused(Status),
}

impl State {
    /// Executes SEQUENCE (RFC 8881, sections 2.10.6 and 18.46).
    pub(super) fn sequence(
        &mut self,
        cx: &Context,
        args: &Sequence4args,
    ) -> Result<Sequence4resok, Replay> {
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

    pub(super) fn without_session(&mut self, cx: &Context, operation: &Op<'_>) -> (Status, Res) {
        match operation {
            Op::ExchangeId(args) => self.exchange_id(args),
            Op::CreateSession(args) => self.create_session(cx, args),
            Op::BindConnToSession(args) => self.bind(cx, args),
            Op::DestroySession(args) => {
                let status = match self.sessions.remove(&args.dsa_sessionid) {
                    Some(_) => Status::Ok,
                    None => Status::Badsession,
                };
                let result = DestroySession4res { dsr_status: status };
                (status, Res::DestroySession(result))
            }
            Op::DestroyClientid(args) => {
                let status = self.destroy_client(args.dca_clientid);
                let result = DestroyClientid4res { dcr_status: status };
                (status, Res::DestroyClientid(result))
            }
            _ => {
                let status = Status::OpNotInSession;
                (status, Res::Illegal(nfs4::Illegal4res { status }))
            }
        }
    }

    fn exchange_id(&mut self, args: &ExchangeId4args<'_>) -> (Status, Res) {
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
        let result = ExchangeId4res::Ok(Box::new(ok));
        (Status::Ok, Res::ExchangeId(result))
    }

    fn create_session(&mut self, cx: &Context, args: &CreateSession4args<'_>) -> (Status, Res) {
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
        let result = CreateSession4res::Ok(Box::new(ok));
        (Status::Ok, Res::CreateSession(result))
    }

    fn bind(&mut self, cx: &Context, args: &BindConnToSession4args) -> (Status, Res) {
        let Some(session) = self.sessions.get_mut(&args.bctsa_sessid) else {
            let status = Status::Badsession;
            let result = BindConnToSession4res::Default(status);
            return (status, Res::BindConnToSession(Box::new(result)));
        };
        let bctsr_dir = match args.bctsa_dir {
            ChannelDirFromClient4::Fore => ChannelDirFromServer4::Fore,
            _ => {
                session.back = Some((cx.connection(), cx.caller()));
                ChannelDirFromServer4::Both
            }
        };
        let result = BindConnToSession4res::Ok(BindConnToSession4resok {
            bctsr_sessid: args.bctsa_sessid,
            bctsr_dir,
            bctsr_use_conn_in_rdma_mode: false,
        });
        (Status::Ok, Res::BindConnToSession(Box::new(result)))
    }

    fn destroy_client(&mut self, id: u64) -> Status {
        if !self.clients.contains_key(&id) {
            return Status::StaleClientid;
        }
        if self.sessions.values().any(|each| each.client == id) {
            return Status::ClientidBusy;
        }
        Status::Ok
    }
}
