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

/// The number of the first CREATE_SESSION of a client ID.
const FIRST: u32 = 1;

/// A client ID.
pub(super) struct ClientRecord {
    owner: Vec<u8>,
    verifier: [u8; 8],
    is_confirmed: bool,
    /// The number of the last CREATE_SESSION, and the reply to it.
    sequence: u32,
    reply: Option<CreateSession4resok>,
}

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

    /// Executes EXCHANGE_ID (RFC 8881, section 18.35.4, items 1, 2, 4 and 5). A confirmed client
    /// gets the result of its first EXCHANGE_ID again, beside the flag.
    fn exchange_id(&mut self, args: &ExchangeId4args<'_>) -> (Status, Res) {
        let owner = args.eia_clientowner.co_ownerid.as_bytes().to_vec();
        let verifier = args.eia_clientowner.co_verifier;
        self.clients
            .retain(|_, known| known.is_confirmed || known.owner != owner);
        let is_same = |known: &ClientRecord| known.owner == owner && known.verifier == verifier;
        let known = self.clients.iter().find(|(_, known)| is_same(known));
        let (id, eir_flags) = match known {
            Some((id, _)) => (*id, EXCHGID4_FLAG_CONFIRMED_R),
            None => (self.number(), 0),
        };
        self.clients.entry(id).or_insert(ClientRecord {
            owner,
            verifier,
            is_confirmed: false,
            sequence: FIRST - 1,
            reply: None,
        });
        let ok = ExchangeId4resok {
            eir_clientid: id,
            eir_sequenceid: FIRST,
            eir_flags,
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

    /// Executes CREATE_SESSION (RFC 8881, section 18.36.4).
    fn create_session(&mut self, cx: &Context, args: &CreateSession4args<'_>) -> (Status, Res) {
        match self.try_create_session(cx, args) {
            Ok(ok) => {
                let result = CreateSession4res::Ok(Box::new(ok));
                (Status::Ok, Res::CreateSession(result))
            }
            Err(status) => {
                let result = CreateSession4res::Default(status);
                (status, Res::CreateSession(result))
            }
        }
    }

    fn try_create_session(
        &mut self,
        cx: &Context,
        args: &CreateSession4args<'_>,
    ) -> Result<CreateSession4resok, Status> {
        let client = self.clients.get_mut(&args.csa_clientid);
        let client = client.ok_or(Status::StaleClientid)?;
        if args.csa_sequence == client.sequence {
            return client.reply.clone().ok_or(Status::SeqMisordered);
        }
        if args.csa_sequence != client.sequence + 1 {
            return Err(Status::SeqMisordered);
        }
        client.sequence = args.csa_sequence;
        if !client.is_confirmed {
            client.is_confirmed = true;
            let owner = client.owner.clone();
            self.restart(&owner, args.csa_clientid);
        }
        let ok = self.new_session(cx, args);
        let client = self.clients.get_mut(&args.csa_clientid).unwrap();
        client.reply = Some(ok.clone());
        Ok(ok)
    }

    /// Ends the client IDs that an owner had before it restarted.
    fn restart(&mut self, owner: &[u8], now: u64) {
        let is_old = |id: &u64, known: &ClientRecord| *id != now && known.owner == owner;
        let old = self.clients.extract_if(|id, known| is_old(id, known));
        let old: Vec<u64> = old.map(|(id, _)| id).collect();
        self.sessions
            .retain(|_, session| !old.contains(&session.client));
    }

    fn new_session(&mut self, cx: &Context, args: &CreateSession4args<'_>) -> CreateSession4resok {
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
        CreateSession4resok {
            csr_sessionid: id,
            csr_sequence: args.csa_sequence,
            csr_flags: args.csa_flags,
            csr_fore_chan_attrs: attrs(100_000),
            csr_back_chan_attrs: attrs(4096),
        }
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
        self.clients.remove(&id);
        Status::Ok
    }
}
