//! The client, and the code that its operations share.
//!
//! A [`Client`] reduces its limits to those of FSINFO once, in `with_limits`. `reading` and
//! `writing` rely on limits and a depth of at least 1. Each operation takes its results by
//! `await_success` or `success` of `outcome`, and its own module checks the reply against the call
//! (`fault`). `oncrpc` reconnects and retransmits.

use oncrpc::xdr::{Error as XdrError, ErrorKind, Text};
use oncrpc::{
    AsyncTransport, CallError, CallErrorKind, CallOptions, Execution, Method, ProcedureId,
};

use super::error::{ClientError, ProtocolFault};
use super::outcome::await_success;
use crate::handle::FileHandle;
use crate::nfs3::nfs_program::nfs_v3::{Client as Stubs, Fsinfo};
use crate::nfs3::owned::{Fsinfo3resok, PostOpAttr};
use crate::nfs3::{Diropargs3, Fattr3, Fsinfo3args};

/// A client of an NFSv3 server.
///
/// Its operations are the procedures of RFC 1813, section 3.3, and some that make several calls.
/// Any number of them can be in flight at once. See the [module](super) for an example.
#[derive(Clone, Debug)]
pub struct Client<T> {
    pub(super) stubs: Stubs<T>,
    root: FileHandle,
    pub(super) limits: TransferLimits,
}

/// The maximum bytes of one call, and the maximum calls that one operation has in flight. A client
/// reduces them to the limits of its server, and does not change them later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TransferLimits {
    /// The maximum bytes of a READ.
    pub read: u32,
    /// The maximum bytes of a WRITE.
    pub write: u32,
    /// The maximum bytes of one READDIR or READDIRPLUS reply; at least 4096, which is room for an
    /// entry with the longest name.
    pub listing: u32,
    /// The maximum READs or WRITEs that one operation has in flight.
    pub depth: usize,
}

impl TransferLimits {
    /// The default limits, even if the server allows more.
    pub const DEFAULT: Self = Self {
        read: 1 << 20,
        write: 1 << 20,
        listing: 1 << 16,
        depth: 4,
    };

    /// Reduces the limits to those of a server. Every limit of the result is at least 1.
    fn reduced_to(self, info: &Fsinfo3resok) -> Result<Self, ClientError> {
        if info.rtmax == 0 || info.wtmax == 0 {
            return Err(fault::<Fsinfo>(ProtocolFault::NoLimit));
        }
        Ok(Self {
            read: self.read.clamp(1, info.rtmax),
            write: self.write.clamp(1, info.wtmax),
            // This is the size that the server prefers; other sizes work, too.
            listing: info
                .dtpref
                .clamp(MIN_LISTING, self.listing.max(MIN_LISTING)),
            depth: self.depth.max(1),
        })
    }
}

/// The minimum of [`TransferLimits::listing`].
const MIN_LISTING: u32 = 4096;

impl<T: AsyncTransport> Client<T> {
    /// Creates a client for the file system with this root, whose handle [`mount`](super::mount)
    /// returns. Asks the server for its limits (FSINFO).
    ///
    /// # Errors
    /// Fails as FSINFO does, and with [`ProtocolFault::NoLimit`] if the server has a limit of 0
    /// bytes for READ or WRITE.
    pub async fn new(
        transport: T,
        options: CallOptions,
        root: FileHandle,
    ) -> Result<Self, ClientError> {
        Self::with_limits(transport, options, root, TransferLimits::DEFAULT).await
    }

    /// Works as [`new`](Self::new), with limits that the server's limits can reduce.
    ///
    /// # Errors
    /// Fails as FSINFO does, and with [`ProtocolFault::NoLimit`] if the server has a limit of 0
    /// bytes for READ or WRITE.
    pub async fn with_limits(
        transport: T,
        options: CallOptions,
        root: FileHandle,
        limits: TransferLimits,
    ) -> Result<Self, ClientError> {
        let stubs = Stubs::new(transport).with_options(options);
        let fsroot = root.as_args();
        let info = await_success(stubs.fsinfo(&Fsinfo3args { fsroot })).await?;
        Ok(Self {
            limits: limits.reduced_to(&info)?,
            stubs,
            root,
        })
    }

    /// Returns the error of a call that cannot be encoded, because a name has more bytes than the
    /// length in XDR can express.
    fn not_encoded<P: Method>(&self) -> ClientError {
        let kind = CallErrorKind::Encode(XdrError::new(ErrorKind::TooLong, 0));
        let peer = self.stubs.transport().peer();
        CallError::new(ProcedureId::of::<P>(), peer, kind, Execution::NotExecuted).into()
    }

    /// Returns the arguments for a name in a directory. The server checks the name.
    pub(super) fn name_args<'a, P: Method>(
        &self,
        dir: &'a FileHandle,
        name: &'a [u8],
    ) -> Result<Diropargs3<'a>, ClientError> {
        let dir = dir.as_args();
        let name = Text::from_bytes(name).map_err(|_| self.not_encoded::<P>())?;
        Ok(Diropargs3 { dir, name })
    }
}

impl<T> Client<T> {
    /// Returns the handle of the root.
    #[must_use]
    pub const fn root(&self) -> &FileHandle {
        &self.root
    }

    /// Returns the limits, reduced to those of the server.
    #[must_use]
    pub const fn limits(&self) -> &TransferLimits {
        &self.limits
    }

    /// Returns the generated client, which gives access to results that the operations leave out,
    /// such as weak cache consistency data.
    #[must_use]
    pub const fn stubs(&self) -> &Stubs<T> {
        &self.stubs
    }
}

/// Returns the error of a reply that violates the protocol.
pub(super) fn fault<P: Method>(fault: ProtocolFault) -> ClientError {
    ClientError::Protocol {
        procedure: P::NAME,
        fault,
    }
}

/// Returns the attributes, if the server returned any.
pub(super) fn attributes(returned: PostOpAttr) -> Option<Fattr3> {
    match returned {
        PostOpAttr::True(attributes) => Some(*attributes),
        PostOpAttr::False => None,
    }
}
