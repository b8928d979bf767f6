//! A session: SEQUENCE, and recovery after a lost connection.
//!
//! `send` must end each lease of a slot by what the server has done with the sequence number:
//! `consumed`, `unused`, or dropped if this is unknown. `conclude` decides by the status of
//! SEQUENCE (RFC 8881, sections 15.1.1.3 and 18.46.3). After a wrong decision the server rejects
//! the requests of the slot, or replies with the results of another COMPOUND.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use oncrpc::{AsyncTransport, Call, CallOptions, Execution, ReplyLimits, Transport};
use tokio::sync::{Mutex, MutexGuard};

use super::callbacks::Nfs4Callbacks;
use super::compound::{Nfs4Compound, Nfs4Outcome, Nfs4Results, take};
use super::config::Nfs4Config;
use super::creation::{BACK_MESSAGE, NewSession, Nfs4SessionLimits, alone, create};
use super::error::{Nfs4Error, Nfs4Fault};
use super::slots::{SlotLease, SlotTable};
use crate::nfs4::nfs4_program::nfs_v4::{Client as Stubs, Compound};
use crate::nfs4::{
    BindConnToSession4args, ChannelDirFromClient4, ChannelDirFromServer4, Clientid4, Compound4args,
    DestroyClientid4args, DestroySession4args, NfsArgop4, NfsOpnum4, Nfsstat4,
    ReclaimComplete4args, SEQ4_STATUS_CB_PATH_DOWN, SEQ4_STATUS_CB_PATH_DOWN_SESSION,
    Sequence4args, Sequence4resok, Sessionid4, owned,
};

/// A session with an NFSv4.1 or 4.2 server, on a connection that also carries calls of the server.
///
/// The session gives each COMPOUND a slot and a sequence number, so that the server recognizes a
/// retransmission, and executes a COMPOUND that is not idempotent at most once. The transport
/// retransmits over its next connection.
///
/// - **A lost connection.** The first COMPOUND on a new connection binds it to the fore channel. If
///   the server reports that the back channel is down, the next COMPOUND first binds the connection
///   to the back channel, too (BIND_CONN_TO_SESSION). A client that makes no other calls does not
///   notice this: it calls [`renew`](Self::renew) every third of the lease time.
/// - **A lost reply.** If a COMPOUND ends without a reply, by a timeout or because its future is
///   dropped, the session resolves the state of its slot before the next use: a SEQUENCE with the
///   same number tells whether the server has used this number.
/// - **A lost session** is an error ([`Nfs4Error::is_session_lost`]).
pub struct Nfs4Session<T> {
    stubs: Stubs<T>,
    options: CallOptions,
    callbacks: Nfs4Callbacks,
    id: Sessionid4,
    client_id: Clientid4,
    minor_version: u32,
    limits: Nfs4SessionLimits,
    /// The maximum bytes of data in a COMPOUND, by the configuration.
    max_transfer: u32,
    slots: Arc<SlotTable>,
    /// The status flags of the last SEQUENCE.
    flags: AtomicU32,
    /// Locked during a BIND_CONN_TO_SESSION.
    binding: Mutex<()>,
    binds: AtomicU32,
}

/// The maximum attempts to send one COMPOUND, if the connection is not bound yet or a reply was
/// lost.
const ATTEMPTS: u32 = 4;

impl<T: AsyncTransport> Nfs4Session<T> {
    /// Creates a client id and a session (EXCHANGE_ID, CREATE_SESSION, RECLAIM_COMPLETE). The
    /// connection of the transport becomes its fore channel, and its back channel if a
    /// [router](Nfs4Callbacks::router) of the callbacks exists, which the transport then offers.
    /// Without a back channel, servers grant no delegations.
    ///
    /// All sessions of a client are created with the same callbacks, which know the next sequence
    /// number of its CREATE_SESSION.
    ///
    /// # Errors
    /// Fails as these operations do, and with [`Nfs4Error::ClientInUse`] if the server has sessions
    /// of the client that were created with other callbacks, such as those of an earlier process
    /// with the same verifier.
    pub async fn new(
        transport: T,
        options: CallOptions,
        config: &Nfs4Config,
        callbacks: &Nfs4Callbacks,
    ) -> Result<Self, Nfs4Error> {
        let stubs = Stubs::new(transport).with_options(options.clone());
        let NewSession {
            id,
            client_id,
            limits,
            slots,
        } = create(&stubs, config, callbacks).await?;
        let session = Self {
            stubs,
            options,
            callbacks: callbacks.clone(),
            id,
            client_id,
            minor_version: config.minor_version,
            limits,
            max_transfer: config.max_transfer,
            slots,
            flags: AtomicU32::new(0),
            binding: Mutex::new(()),
            binds: AtomicU32::new(0),
        };
        session.reclaim_complete().await?;
        Ok(session)
    }

    /// Tells the server that the client reclaims nothing. Before this, the server opens no files
    /// (RFC 8881, section 18.51).
    async fn reclaim_complete(&self) -> Result<(), Nfs4Error> {
        let args = ReclaimComplete4args { rca_one_fs: false };
        let mut request = Nfs4Compound::new();
        request.add(NfsArgop4::ReclaimComplete(args), 0);
        match self.compound(request).await {
            Err(error) if error.status() != Some(Nfsstat4::CompleteAlready) => Err(error),
            _ => Ok(()),
        }
    }

    /// Sends a COMPOUND, and returns the results of its operations.
    ///
    /// # Errors
    /// Returns the status of the failed operation. The operations before it were executed.
    pub async fn compound(&self, request: Nfs4Compound<'_>) -> Result<Nfs4Results, Nfs4Error> {
        let Nfs4Outcome { results, end } = self.execute(request).await?;
        end.map(|()| results)
    }

    /// Sends a COMPOUND, and returns the results up to the operation that failed.
    ///
    /// # Errors
    /// Fails if no operation after SEQUENCE was executed, or if this is unknown.
    pub(super) async fn execute(
        &self,
        mut request: Nfs4Compound<'_>,
    ) -> Result<Nfs4Outcome, Nfs4Error> {
        let mut attempts = 1;
        loop {
            // Before the COMPOUND: its caller does not wait for this after the reply has arrived.
            self.restore_back_channel().await;
            let binds = self.binds();
            let outcome = self.send(&mut request).await;
            let error = match &outcome {
                Ok(outcome) => outcome.end.as_ref().err(),
                Err(error) => Some(error),
            };
            let may_repeat = match error {
                Some(error) if attempts < ATTEMPTS => self.may_repeat(error, &request, binds).await,
                _ => false,
            };
            if !may_repeat {
                return outcome;
            }
            attempts += 1;
        }
    }

    /// Returns true if a COMPOUND can be sent again after an error. `binds` is the number of
    /// bindings before the COMPOUND.
    async fn may_repeat(&self, error: &Nfs4Error, request: &Nfs4Compound<'_>, binds: u32) -> bool {
        match error.status() {
            // The transport retransmitted the COMPOUND, and the server did not cache the reply.
            Some(Nfsstat4::RetryUncachedRep) => request.is_idempotent(),
            // The server has not executed this COMPOUND: its number was used for another.
            Some(Nfsstat4::SeqFalseRetry) => true,
            Some(Nfsstat4::ConnNotBoundToSession) => {
                let binding = self.binding.lock().await;
                // Another COMPOUND may have bound the connection since.
                self.binds() != binds || self.bind_with(&binding).await.is_ok()
            }
            _ => false,
        }
    }

    async fn send(&self, request: &mut Nfs4Compound<'_>) -> Result<Nfs4Outcome, Nfs4Error> {
        let mut lease = self.slots.lease().await;
        if lease.is_in_doubt {
            let settled = self.settle(&mut lease).await;
            settled.map_err(|error| Nfs4Error::NotSent(Box::new(error)))?;
        }
        request.sequence(self.sequence_args(&lease), self.limits.cached);
        let args = self.args(request.operations());
        let call = self.call(&args);
        let reply = match call.reply_limits(request.reply_limits()).await {
            Ok(reply) => reply,
            Err(error) => {
                if error.execution() == Execution::NotExecuted {
                    lease.unused();
                }
                return Err(error.into());
            }
        };
        self.conclude(lease, &reply)?;
        self.callbacks
            .executed(self.client_id, request.operations(), &reply.resarray);
        request.check(reply)
    }

    fn call(&self, args: &Compound4args<'_>) -> Call<'_, T, Compound> {
        Call::new(self.stubs.transport(), &self.options, args)
    }

    fn args<'a>(&self, operations: &'a [NfsArgop4<'a>]) -> Compound4args<'a> {
        Compound4args {
            tag: &[],
            minorversion: self.minor_version,
            argarray: operations.into(),
        }
    }

    fn sequence_args(&self, lease: &SlotLease<'_>) -> Sequence4args {
        Sequence4args {
            sa_sessionid: self.id,
            sa_sequenceid: lease.sequence,
            sa_slotid: lease.id,
            sa_highest_slotid: lease.highest,
            sa_cachethis: false,
        }
    }

    /// Updates the slot and the session from the result of SEQUENCE.
    fn conclude(&self, lease: SlotLease<'_>, reply: &owned::Compound4res) -> Result<(), Nfs4Error> {
        match sequence_result(reply) {
            Ok(ok) => {
                let is_same = ok.sr_sessionid == self.id
                    && (ok.sr_slotid, ok.sr_sequenceid) == (lease.id, lease.sequence);
                lease.consumed();
                if !is_same {
                    return Err(Nfs4Error::fault(NfsOpnum4::Sequence, Nfs4Fault::Slot));
                }
                self.slots.set_target(ok.sr_target_highest_slotid);
                self.flags.store(ok.sr_status_flags, Relaxed);
                Ok(())
            }
            // The sequence number is used, by this request or by an earlier one.
            Err(error) if is_used(&error) => {
                lease.consumed();
                Err(error)
            }
            // The server still executes an earlier transmission of this request (RFC 8881, section
            // 15.1.1.3), or is too busy: the slot is in doubt.
            Err(error) if error.status() == Some(Nfsstat4::Delay) => Err(error),
            // Any other error of SEQUENCE leaves the slot unchanged (RFC 8881, section 18.46.3).
            Err(error) if error.status().is_some() => {
                lease.unused();
                Err(error)
            }
            // The reply does not tell what the server has done: the slot is in doubt.
            Err(error) => Err(error),
        }
    }

    /// Finds out whether the server has used the sequence number of a slot's last request, whose
    /// reply was lost.
    async fn settle(&self, lease: &mut SlotLease<'_>) -> Result<(), Nfs4Error> {
        let operation = [NfsArgop4::Sequence(self.sequence_args(lease))];
        let args = self.args(&operation);
        let call = self.call(&args);
        let limits = ReplyLimits::new(Some(BACK_MESSAGE.into()));
        let reply = call.reply_limits(limits).await?;
        match sequence_result(&reply) {
            Err(error) if !is_used(&error) => Err(error),
            _ => {
                lease.settled();
                Ok(())
            }
        }
    }

    /// Renews the lease, and updates the status flags (SEQUENCE alone). If they report that the
    /// back channel is down, binds the connection to it.
    ///
    /// # Errors
    /// Fails as SEQUENCE does.
    pub async fn renew(&self) -> Result<(), Nfs4Error> {
        self.compound(Nfs4Compound::new()).await?;
        self.restore_back_channel().await;
        Ok(())
    }

    /// Binds the connection to the back channel again, if the server reports that the back channel
    /// is down. If that fails, a later COMPOUND tries again.
    async fn restore_back_channel(&self) {
        let down = SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_CB_PATH_DOWN_SESSION;
        if self.flags.load(Relaxed) & down == 0 || !self.callbacks.is_served() {
            return;
        }
        // One COMPOUND does this, and others do not wait for it.
        if let Ok(binding) = self.binding.try_lock()
            && self.bind_with(&binding).await.is_ok()
        {
            self.flags.fetch_and(!down, Relaxed);
        }
    }

    /// Binds the connection to the channels of the session (BIND_CONN_TO_SESSION, the only
    /// operation of its COMPOUND): to both, or to the fore channel if the callbacks have no router.
    ///
    /// # Errors
    /// Fails as BIND_CONN_TO_SESSION does, and if the server binds the connection to other
    /// channels.
    pub async fn bind(&self) -> Result<(), Nfs4Error> {
        let binding = self.binding.lock().await;
        self.bind_with(&binding).await
    }

    async fn bind_with(&self, _: &MutexGuard<'_, ()>) -> Result<(), Nfs4Error> {
        use {ChannelDirFromClient4 as Wanted, ChannelDirFromServer4 as Bound};
        // A SEQUENCE may have bound the connection to the fore channel already; with `BackOrBoth`
        // Linux refuses that.
        let (wanted, bound) = match self.callbacks.is_served() {
            true => (Wanted::ForeOrBoth, Bound::Both),
            false => (Wanted::Fore, Bound::Fore),
        };
        let args = NfsArgop4::BindConnToSession(BindConnToSession4args {
            bctsa_sessid: self.id,
            bctsa_dir: wanted,
            bctsa_use_conn_in_rdma_mode: false,
        });
        let mut results = alone(&self.stubs, self.minor_version, args).await?;
        let result = take!(
            results,
            BindConnToSession,
            owned::NfsResop4::BindConnToSession(result) => *result
        )?;
        match result {
            crate::nfs4::BindConnToSession4res::Ok(ok) if ok.bctsr_dir == bound => {
                self.binds.fetch_add(1, Relaxed);
                Ok(())
            }
            _ => Err(Nfs4Error::fault(
                NfsOpnum4::BindConnToSession,
                Nfs4Fault::Direction,
            )),
        }
    }

    /// Ends the session and the client id (DESTROY_SESSION, DESTROY_CLIENTID). It can be called
    /// again after an error, such as NFS4ERR_DELAY. Close the files first: without the session,
    /// they stay open until the server ends the client id.
    ///
    /// # Errors
    /// Fails as these operations do: for example, with NFS4ERR_CLIENTID_BUSY if there are open
    /// files. The session has ended then.
    pub async fn destroy(&self) -> Result<(), Nfs4Error> {
        let args = DestroySession4args {
            dsa_sessionid: self.id,
        };
        let operation = NfsArgop4::DestroySession(args);
        self.end(operation, Nfsstat4::Badsession).await?;
        let args = DestroyClientid4args {
            dca_clientid: self.client_id,
        };
        let operation = NfsArgop4::DestroyClientid(args);
        self.end(operation, Nfsstat4::StaleClientid).await
    }

    /// Executes an operation that ends something. If the server does not have it any more, an
    /// earlier transmission has ended it.
    async fn end(&self, operation: NfsArgop4<'_>, is_gone: Nfsstat4) -> Result<(), Nfs4Error> {
        match alone(&self.stubs, self.minor_version, operation).await {
            Err(error) if error.status() != Some(is_gone) => Err(error),
            _ => Ok(()),
        }
    }
}

impl<T: Transport> Nfs4Session<T> {
    /// Continues with another transport to the same server, which still has the session.
    /// [`bind`](Self::bind) binds its connection to the session.
    pub fn replace_transport(&mut self, transport: T) {
        self.stubs = Stubs::new(transport).with_options(self.options.clone());
    }
}

impl<T> Nfs4Session<T> {
    /// Returns the session's id.
    #[must_use]
    pub const fn id(&self) -> Sessionid4 {
        self.id
    }

    /// Returns the client id.
    #[must_use]
    pub const fn client_id(&self) -> Clientid4 {
        self.client_id
    }

    /// Returns the maximum bytes of data in a COMPOUND, by the configuration.
    pub(super) const fn max_transfer(&self) -> u32 {
        self.max_transfer
    }

    /// Returns the limits that the server granted.
    #[must_use]
    pub const fn limits(&self) -> &Nfs4SessionLimits {
        &self.limits
    }

    /// Returns the status flags of the last SEQUENCE (`SEQ4_STATUS_..`). With
    /// `SEQ4_STATUS_BACKCHANNEL_FAULT` the server has lost the state of the back channel: its user
    /// waits for the calls in flight, and continues with another session (RFC 8881, section
    /// 18.46.3). If
    /// `SEQ4_STATUS_RECALLABLE_STATE_REVOKED` is set, a delegation was not returned in time:
    /// [`Nfs4Client::test_state`](super::Nfs4Client::test_state) tells which one.
    #[must_use]
    pub fn status_flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    /// Returns how often a connection was bound to the session again.
    #[must_use]
    pub fn binds(&self) -> u32 {
        self.binds.load(Relaxed)
    }

    /// Returns the callbacks of the session.
    #[must_use]
    pub const fn callbacks(&self) -> &Nfs4Callbacks {
        &self.callbacks
    }

    /// Returns the generated client. Its calls have no slot: a COMPOUND without SEQUENCE that is
    /// not idempotent can be executed twice.
    #[must_use]
    pub const fn stubs(&self) -> &Stubs<T> {
        &self.stubs
    }
}

impl<T> Drop for Nfs4Session<T> {
    fn drop(&mut self) {
        self.callbacks.remove_session(&self.id);
    }
}

impl<T> fmt::Debug for Nfs4Session<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, client_id, .. } = self;
        write!(
            f,
            "Nfs4Session({:x} of client {client_id:x})",
            u128::from_be_bytes(*id)
        )
    }
}

/// Returns the result of SEQUENCE.
fn sequence_result(reply: &owned::Compound4res) -> Result<Sequence4resok, Nfs4Error> {
    let operation = NfsOpnum4::Sequence;
    match (reply.resarray.first(), reply.status) {
        (Some(owned::NfsResop4::Sequence(owned::Sequence4res::Ok(ok))), _) => Ok(**ok),
        (Some(owned::NfsResop4::Sequence(owned::Sequence4res::Default(status))), _) => {
            let status = *status;
            Err(Nfs4Error::Status { operation, status })
        }
        // The server could not decode the operations, or does not support the minor version.
        (None, status) if status != Nfsstat4::Ok => Err(Nfs4Error::Status { operation, status }),
        _ => Err(Nfs4Error::fault(operation, Nfs4Fault::Results)),
    }
}

/// Returns true if an error of SEQUENCE means that the sequence number was used before.
fn is_used(error: &Nfs4Error) -> bool {
    matches!(
        error.status(),
        Some(Nfsstat4::RetryUncachedRep | Nfsstat4::SeqFalseRetry)
    )
}
