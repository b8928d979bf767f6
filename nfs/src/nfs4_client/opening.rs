//! OPEN, CLOSE, and delegations.
//!
//! `open` holds an `Opening` of `callbacks` from before it sends OPEN until it has added the
//! delegation. Each operation that ends a delegation must pass its result through `forget`, or a
//! recall of that delegation remains queued. `callbacks` queues recalls; the user of the client
//! returns delegations.

use oncrpc::AsyncTransport;
use oncrpc::xdr::Opaque;

use super::attributes::{MASK, MAX_VALUES, Nfs4Attributes, Nfs4SetAttributes};
use super::callbacks::Nfs4Callbacks;
use super::compound::{Nfs4Compound, Nfs4Outcome, take};
use super::error::Nfs4Error;
use super::files::Nfs4Client;
use crate::nfs4::{
    Clientid4, Close4args, Createhow4, Delegreturn4args, FreeStateid4args, NfsArgop4, NfsFh4,
    Nfsstat4, OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WRITE,
    Open4args, OpenClaim4, Openflag4, Opentype4, StateOwner4, Stateid4, TestStateid4args, owned,
};

/// The parameters of an OPEN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nfs4Open {
    /// `OPEN4_SHARE_ACCESS_..`: the access, and the wanted delegation (`.._WANT_..`).
    pub access: u32,
    /// `OPEN4_SHARE_DENY_..`: the access that is denied to others.
    pub deny: u32,
    /// Creates the file if it does not exist.
    pub create: Option<Nfs4SetAttributes>,
    /// With `create`: fails with NFS4ERR_EXIST if the file exists.
    pub is_guarded: bool,
}

impl Nfs4Open {
    /// Opens a file to read it.
    pub const READ: Self = Self {
        access: OPEN4_SHARE_ACCESS_READ,
        deny: 0,
        create: None,
        is_guarded: false,
    };

    /// Opens a file to write it.
    pub const WRITE: Self = Self {
        access: OPEN4_SHARE_ACCESS_WRITE,
        ..Self::READ
    };

    /// Creates a file with these permissions for reading and writing; fails if it exists.
    #[must_use]
    pub const fn create(mode: u32) -> Self {
        let attributes = Nfs4SetAttributes {
            size: None,
            mode: Some(mode),
        };
        Self {
            access: OPEN4_SHARE_ACCESS_BOTH,
            deny: 0,
            create: Some(attributes),
            is_guarded: true,
        }
    }
}

/// An open file.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Nfs4OpenFile {
    /// The file.
    pub handle: owned::NfsFh4,
    /// The stateid of the open, for READ, WRITE and CLOSE.
    pub stateid: Stateid4,
    /// The delegation, if the server granted one. It outlives the open.
    pub delegation: Option<Nfs4Delegation>,
    /// The attributes.
    pub attributes: Nfs4Attributes,
}

/// A delegation: conflicting operations of other clients wait until it is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nfs4Delegation {
    /// The stateid of the delegation.
    pub stateid: Stateid4,
    /// Whether it is a write delegation.
    pub is_write: bool,
    /// Whether the server has already recalled it (RFC 8881, section 18.16.3): no CB_RECALL
    /// follows.
    pub is_recalled: bool,
}

/// The maximum bytes of OPEN's results: stateid, change, flags, attributes set, and a delegation
/// with the name of a user.
const OPEN_RESULTS: u32 = 16 + 20 + 4 + 16 + 2048;

/// The maximum bytes of the results of CLOSE, a stateid, and of DELEGRETURN, nothing.
const END_RESULTS: u32 = 16;

impl<T: AsyncTransport> Nfs4Client<T> {
    /// Opens a file in a directory (OPEN, GETFH, GETATTR). Each open has its own open-owner, so
    /// that two opens of one file are closed independently.
    ///
    /// # Errors
    /// Fails as OPEN, GETFH and GETATTR do. If one of the latter two fails, the file is closed again,
    /// and its delegation returned. If the outcome of OPEN is unknown, if the future is dropped, or
    /// if that CLOSE or DELEGRETURN fails, the server may hold an open that nothing closes, and a
    /// delegation whose recall is refused: both end with the client id, and the delegation when it
    /// is revoked.
    pub async fn open(
        &self,
        dir: &owned::NfsFh4,
        name: &[u8],
        how: Nfs4Open,
    ) -> Result<Nfs4OpenFile, Nfs4Error> {
        let attributes = how.create.unwrap_or_default().encode();
        let openhow = match (how.create, how.is_guarded) {
            (None, _) => Openflag4::Default(Opentype4::Nocreate),
            (_, true) => Openflag4::Create(Createhow4::Guarded4(attributes.as_args())),
            (_, false) => Openflag4::Create(Createhow4::Unchecked4(attributes.as_args())),
        };
        let owner = self.next_owner();
        let args = Open4args {
            seqid: 0,
            share_access: how.access,
            share_deny: how.deny,
            owner: StateOwner4 {
                clientid: self.session().client_id(),
                owner: Opaque::new(&owner).unwrap_or_default(),
            },
            openhow,
            claim: OpenClaim4::Null(name),
        };
        let mut request = Nfs4Compound::new();
        request
            .put_handle(dir.as_borrowed())
            .add(NfsArgop4::Open(args), OPEN_RESULTS)
            .handle()
            .attributes(&MASK, MAX_VALUES);
        let (callbacks, client) = self.callbacks();
        // Until the delegation is known, the reply to its recall is NFS4ERR_DELAY.
        let opening = callbacks.begin_open(client);
        let Nfs4Outcome { mut results, end } = self.session().execute(request).await?;
        let open = take!(results, Open, owned::NfsResop4::Open(owned::Open4res::Ok(ok)) => *ok);
        let open = match end {
            // OPEN failed, or an operation before it.
            Err(error) if open.is_err() => return Err(error),
            _ => open?,
        };
        let (stateid, delegation) = (open.stateid, delegation(open.delegation));
        let handle = super::files::handle(&mut results);
        let attributes = end.and_then(|()| super::files::attributes(&mut results));
        let (handle, attributes) = match (handle, attributes) {
            (Ok(handle), Ok(attributes)) => (handle, attributes),
            (Ok(handle), Err(error)) => {
                self.undo_open(Ok(&handle), stateid, delegation).await;
                return Err(error);
            }
            (Err(fault), attributes) => {
                self.undo_open(Err((dir, name)), stateid, delegation).await;
                return Err(attributes.err().unwrap_or(fault));
            }
        };
        if let Some(given) = &delegation {
            let written = given.is_write.then_some(attributes);
            callbacks.add_delegation(client, &given.stateid, handle.clone(), written);
        }
        drop(opening);
        Ok(Nfs4OpenFile {
            handle,
            stateid,
            delegation,
            attributes,
        })
    }

    /// Ends what an OPEN has left on the server whose other results are missing. Without the handle
    /// of the file, uses its name: if another file has the name now, the server rejects the
    /// stateids.
    async fn undo_open(
        &self,
        file: Result<&owned::NfsFh4, (&owned::NfsFh4, &[u8])>,
        stateid: Stateid4,
        delegation: Option<Nfs4Delegation>,
    ) {
        let returned = delegation.map(|given| give_back(given.stateid));
        for operation in [close(stateid)].into_iter().chain(returned) {
            let mut request = Nfs4Compound::new();
            match file {
                Ok(handle) => request.put_handle(handle.as_borrowed()),
                Err((dir, name)) => request.put_handle(dir.as_borrowed()).lookup(name),
            };
            request.add(operation, END_RESULTS);
            // The caller reports the error of the OPEN.
            let _ = self.session().compound(request).await;
        }
    }

    /// Closes a file (CLOSE), and keeps its delegation.
    ///
    /// # Errors
    /// Fails as CLOSE does.
    pub async fn close(&self, file: &Nfs4OpenFile) -> Result<(), Nfs4Error> {
        self.on(file.handle.as_borrowed(), close(file.stateid), END_RESULTS)
            .await
    }

    /// Returns a delegation (DELEGRETURN), and removes its recall. A delegation that the server no
    /// longer has is removed, too.
    ///
    /// # Errors
    /// Fails as DELEGRETURN does.
    pub async fn return_delegation(
        &self,
        file: &owned::NfsFh4,
        deleg_stateid: Stateid4,
    ) -> Result<(), Nfs4Error> {
        let result = self
            .on(file.as_borrowed(), give_back(deleg_stateid), END_RESULTS)
            .await;
        self.forget(result, &deleg_stateid)
    }

    /// Records that the holder of a write delegation has changed the file without the server, and
    /// the file's size in bytes with this change. Until [`record_flush`](Self::record_flush), the
    /// replies to CB_GETATTR say that the file is modified, and has this size.
    ///
    /// Returns false, and records nothing, if no write delegation with this stateid is held: the
    /// change must not be kept then, but sent to the server at once.
    ///
    /// ```
    /// use rpcrdma_nfs::nfs4_client::{Nfs4Client, Nfs4OpenFile};
    /// use rpcrdma_nfs::oncrpc::Channel;
    ///
    /// /// Returns true if the file's data may stay in a cache that has made the file longer.
    /// fn keep(client: &Nfs4Client<Channel>, file: &Nfs4OpenFile, size: u64) -> bool {
    ///     let delegation = file.delegation.filter(|given| given.is_write);
    ///     delegation.is_some_and(|given| client.record_change(&given.stateid, size))
    /// }
    /// ```
    #[must_use = "without a write delegation, a change must not be kept"]
    pub fn record_change(&self, delegation: &Stateid4, size: u64) -> bool {
        let (callbacks, client) = self.callbacks();
        callbacks.record(client, delegation, Some(size))
    }

    /// Records that the server has all changes that were recorded. A change that was made during
    /// the flush has to be recorded again after this.
    ///
    /// Returns false if no write delegation with this stateid is held.
    pub fn record_flush(&self, delegation: &Stateid4) -> bool {
        let (callbacks, client) = self.callbacks();
        callbacks.record(client, delegation, None)
    }

    /// Returns the callbacks, with the client ID by which they know this client.
    fn callbacks(&self) -> (&Nfs4Callbacks, Clientid4) {
        let session = self.session();
        (session.callbacks(), session.client_id())
    }

    /// Returns the status of opens and delegations (TEST_STATEID): `Ok`, or the reason why the
    /// server no longer has it, such as NFS4ERR_DELEG_REVOKED.
    ///
    /// # Errors
    /// Fails as TEST_STATEID does.
    pub async fn test_state(&self, stateids: &[Stateid4]) -> Result<Vec<Nfsstat4>, Nfs4Error> {
        let ts_stateids = stateids.into();
        let operation = NfsArgop4::TestStateid(TestStateid4args { ts_stateids });
        let mut request = Nfs4Compound::new();
        let codes = u32::try_from(stateids.len()).unwrap_or(u32::MAX / 4);
        request.add(operation, codes.saturating_mul(4).saturating_add(4));
        let mut results = self.session().compound(request).await?;
        let result = take!(results, TestStateid, owned::NfsResop4::TestStateid(result) => *result)?;
        match result {
            owned::TestStateid4res::Ok(ok) if ok.tsr_status_codes.len() == stateids.len() => {
                Ok(ok.tsr_status_codes)
            }
            _ => Err(Nfs4Error::fault(
                crate::nfs4::NfsOpnum4::TestStateid,
                super::error::Nfs4Fault::Results,
            )),
        }
    }

    /// Acknowledges that the server has revoked an open or a delegation (FREE_STATEID).
    ///
    /// # Errors
    /// Fails as FREE_STATEID does.
    pub async fn free_state(&self, fsa_stateid: Stateid4) -> Result<(), Nfs4Error> {
        let args = FreeStateid4args { fsa_stateid };
        let mut request = Nfs4Compound::new();
        request.add(NfsArgop4::FreeStateid(args), 0);
        let result = self.session().compound(request).await;
        self.forget(result.map(|_| ()), &fsa_stateid)
    }

    /// Removes a delegation that the server does not have any more, by the result of an operation
    /// that ends it.
    fn forget(&self, result: Result<(), Nfs4Error>, stateid: &Stateid4) -> Result<(), Nfs4Error> {
        use Nfsstat4::{AdminRevoked, BadStateid, DelegRevoked, Expired, Stale};
        let status = result.as_ref().err().map(Nfs4Error::status);
        let gone = [AdminRevoked, BadStateid, DelegRevoked, Expired, Stale].map(Some);
        if status.is_none_or(|status| gone.contains(&status)) {
            let (callbacks, client) = self.callbacks();
            callbacks.remove_delegation(client, stateid);
        }
        result
    }

    /// Executes one operation on an object.
    pub(super) async fn on(
        &self,
        object: NfsFh4<'_>,
        operation: NfsArgop4<'_>,
        max_results: u32,
    ) -> Result<(), Nfs4Error> {
        let mut request = Nfs4Compound::new();
        request.put_handle(object).add(operation, max_results);
        self.session().compound(request).await.map(|_| ())
    }
}

fn close(open_stateid: Stateid4) -> NfsArgop4<'static> {
    NfsArgop4::Close(Close4args {
        seqid: 0,
        open_stateid,
    })
}

fn give_back(deleg_stateid: Stateid4) -> NfsArgop4<'static> {
    NfsArgop4::Delegreturn(Delegreturn4args { deleg_stateid })
}

fn delegation(given: owned::OpenDelegation4) -> Option<Nfs4Delegation> {
    match given {
        owned::OpenDelegation4::Read(read) => Some(Nfs4Delegation {
            stateid: read.stateid,
            is_write: false,
            is_recalled: read.recall,
        }),
        owned::OpenDelegation4::Write(write) => Some(Nfs4Delegation {
            stateid: write.stateid,
            is_write: true,
            is_recalled: write.recall,
        }),
        owned::OpenDelegation4::None | owned::OpenDelegation4::NoneExt(_) => None,
    }
}
