//! The creation of sessions: EXCHANGE_ID and CREATE_SESSION (RFC 8881, sections 18.35 and 18.36).
//!
//! A server keeps the reply to the last CREATE_SESSION of a client ID. A CREATE_SESSION with its
//! number again gets this reply: a session whose slots are in use already. So each number is that
//! of [`ClientIds`], and a session that exists is never taken for a new one.

use std::sync::Arc;
use std::vec::IntoIter;

use oncrpc::xdr::{Array, Opaque};
use oncrpc::{AsyncTransport, ReplyLimits};

use super::callbacks::{BACK_OPERATIONS, BACK_SLOTS, Nfs4Callbacks};
use super::compound::take;
use super::config::Nfs4Config;
use super::error::{Nfs4Error, Nfs4Fault};
use super::slots::SlotTable;
use crate::nfs4::nfs4_callback::PROGRAM as CALLBACK_PROGRAM;
use crate::nfs4::nfs4_program::nfs_v4::Client as Stubs;
use crate::nfs4::{
    CREATE_SESSION4_FLAG_CONN_BACK_CHAN, CallbackSecParms4, ChannelAttrs4, ClientOwner4, Clientid4,
    Compound4args, CreateSession4args, ExchangeId4args, NfsArgop4, NfsOpnum4, Nfsstat4,
    Sequenceid4, Sessionid4, StateProtect4A, owned,
};

/// The limits of a session's fore channel that the server granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Nfs4SessionLimits {
    /// The maximum bytes of a call, including data in chunks.
    pub request: u32,
    /// The maximum bytes of a reply, including data in chunks.
    pub response: u32,
    /// The maximum bytes of a reply that the server caches.
    pub cached: u32,
    /// The maximum operations of a COMPOUND, including SEQUENCE.
    pub operations: u32,
    /// The maximum COMPOUNDs in flight.
    pub slots: u32,
}

/// The bytes of a COMPOUND beside the data of its READs or WRITEs.
const OVERHEAD: u32 = 4096;

/// The smallest message sizes of a channel that are sufficient for a call.
const MIN_MESSAGE: u32 = 1024;

/// The message size of the back channel: a recall, and its reply.
pub(super) const BACK_MESSAGE: u32 = 4096;

/// A session that the server has created, and that the callbacks know.
pub(super) struct NewSession {
    pub(super) id: Sessionid4,
    pub(super) client_id: Clientid4,
    pub(super) limits: Nfs4SessionLimits,
    pub(super) slots: Arc<SlotTable>,
}

/// Creates a session, and a client ID unless the server has it.
pub(super) async fn create<T: AsyncTransport>(
    stubs: &Stubs<T>,
    config: &Nfs4Config,
    callbacks: &Nfs4Callbacks,
) -> Result<NewSession, Nfs4Error> {
    // One at a time: EXCHANGE_ID replaces a client ID that is not confirmed yet, and a client ID
    // has one CREATE_SESSION in flight.
    let mut ids = callbacks.client_ids().await;
    let client = exchange_id(stubs, config).await?;
    let number = ids.exchanged(config, &client);
    let number = number.ok_or(Nfs4Error::ClientInUse)?;
    let client_id = client.eir_clientid;
    let created = create_session(stubs, config, (client_id, number), callbacks).await;
    if uses_number(&created) {
        ids.used(config);
    }
    let created = created?;
    let limits = granted(&created, config)?;
    let (id, slots) = (
        created.csr_sessionid,
        Arc::new(SlotTable::new(limits.slots)),
    );
    let is_new = created.csr_sequence == number
        && callbacks.add_session(id, client_id, Arc::downgrade(&slots));
    if !is_new {
        let fault = Nfs4Fault::Session;
        return Err(Nfs4Error::fault(NfsOpnum4::CreateSession, fault));
    }
    Ok(NewSession {
        id,
        client_id,
        limits,
        slots,
    })
}

/// Returns true if the server has used the number of a CREATE_SESSION (RFC 8881, section 18.36.4,
/// phases 1 and 2). Without a reply the number is sent again, and gets the same reply.
fn uses_number<T>(created: &Result<T, Nfs4Error>) -> bool {
    use Nfsstat4::{Delay, SeqMisordered, StaleClientid};
    match created {
        Err(Nfs4Error::Status { status, .. }) => {
            !matches!(status, StaleClientid | SeqMisordered | Delay)
        }
        Err(Nfs4Error::Rpc(_)) => false,
        _ => true,
    }
}

async fn exchange_id<T: AsyncTransport>(
    stubs: &Stubs<T>,
    config: &Nfs4Config,
) -> Result<owned::ExchangeId4resok, Nfs4Error> {
    let co_ownerid = Opaque::new(&config.owner).map_err(|_| Nfs4Error::Status {
        operation: NfsOpnum4::ExchangeId,
        status: Nfsstat4::Badxdr,
    })?;
    let operation = NfsArgop4::ExchangeId(ExchangeId4args {
        eia_clientowner: ClientOwner4 {
            co_verifier: config.verifier,
            co_ownerid,
        },
        eia_flags: 0,
        eia_state_protect: StateProtect4A::None,
        eia_client_impl_id: Array::default(),
    });
    let mut results = alone(stubs, config.minor_version, operation).await?;
    take!(results, ExchangeId, owned::NfsResop4::ExchangeId(owned::ExchangeId4res::Ok(ok)) => *ok)
}

async fn create_session<T: AsyncTransport>(
    stubs: &Stubs<T>,
    config: &Nfs4Config,
    (csa_clientid, csa_sequence): (Clientid4, Sequenceid4),
    callbacks: &Nfs4Callbacks,
) -> Result<owned::CreateSession4resok, Nfs4Error> {
    // A server whose recalls nobody answers must not grant delegations.
    let csa_flags = match callbacks.is_served() {
        true => CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
        false => 0,
    };
    let channel = |size, cached, operations, requests| ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: size,
        ca_maxresponsesize: size,
        ca_maxresponsesize_cached: cached,
        ca_maxoperations: operations,
        ca_maxrequests: requests,
        ca_rdma_ird: Array::default(),
    };
    let fore = config.max_transfer.saturating_add(OVERHEAD);
    let security = [CallbackSecParms4::AuthNone];
    let operation = NfsArgop4::CreateSession(CreateSession4args {
        csa_clientid,
        csa_sequence,
        csa_flags,
        csa_fore_chan_attrs: channel(fore, OVERHEAD, 64, config.slots),
        csa_back_chan_attrs: channel(BACK_MESSAGE, BACK_MESSAGE, BACK_OPERATIONS, BACK_SLOTS),
        csa_cb_program: CALLBACK_PROGRAM,
        csa_sec_parms: (&security).into(),
    });
    let mut results = alone(stubs, config.minor_version, operation).await?;
    take!(
        results,
        CreateSession,
        owned::NfsResop4::CreateSession(owned::CreateSession4res::Ok(ok)) => *ok
    )
}

/// Returns the limits of a new session: never more than the client requested.
fn granted(
    created: &owned::CreateSession4resok,
    config: &Nfs4Config,
) -> Result<Nfs4SessionLimits, Nfs4Error> {
    let fore = &created.csr_fore_chan_attrs;
    let most = config.max_transfer.saturating_add(OVERHEAD);
    let limits = Nfs4SessionLimits {
        request: fore.ca_maxrequestsize.min(most),
        response: fore.ca_maxresponsesize.min(most),
        cached: fore.ca_maxresponsesize_cached,
        operations: fore.ca_maxoperations,
        slots: fore.ca_maxrequests.min(config.slots),
    };
    let smallest = limits.request.min(limits.response);
    if limits.slots == 0 || smallest < MIN_MESSAGE || limits.operations < 2 {
        let fault = Nfs4Fault::Limits;
        return Err(Nfs4Error::fault(NfsOpnum4::CreateSession, fault));
    }
    Ok(limits)
}

/// Executes an operation that is alone in its COMPOUND, without SEQUENCE.
pub(super) async fn alone<T: AsyncTransport>(
    stubs: &Stubs<T>,
    minorversion: u32,
    operation: NfsArgop4<'_>,
) -> Result<IntoIter<owned::NfsResop4>, Nfs4Error> {
    let number = operation.argop();
    let operations = [operation];
    let args = Compound4args {
        tag: &[],
        minorversion,
        argarray: (&operations).into(),
    };
    let limits = ReplyLimits::new(Some(BACK_MESSAGE.into()));
    let reply = stubs.compound(&args).reply_limits(limits).await?;
    match reply.status {
        Nfsstat4::Ok => Ok(reply.resarray.into_iter()),
        status => Err(Nfs4Error::Status {
            operation: number,
            status,
        }),
    }
}
