//! Errors of the client's operations.

use std::error::Error;
use std::fmt;

use oncrpc::{CallError, Execution};

use crate::mount3::Mountstat3;
use crate::nfs3::Nfsstat3;

/// The error of an operation of a [`Client`](super::Client). A status of the server and a failure
/// of the RPC are separate variants.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The server replied with an error status.
    Status {
        /// The procedure, such as `NFSPROC3_READ`.
        procedure: &'static str,
        /// The status; never `Ok`.
        status: Nfsstat3,
    },
    /// The server does not let the client mount the path.
    Mount(Mountstat3),
    /// There is no decodable reply.
    Rpc(CallError),
    /// The range reaches beyond the last offset that a file can have. Nothing was sent.
    Offset,
    /// The reply contradicts the call, or another reply.
    Protocol {
        /// The procedure.
        procedure: &'static str,
        /// The contradiction.
        fault: ProtocolFault,
    },
}

/// How a reply contradicts its call or another reply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ProtocolFault {
    /// READ returns more bytes than requested, or its count differs from its data.
    Count,
    /// READ returns no bytes and no end of file, or WRITE accepts no bytes.
    NoProgress,
    /// WRITE is less stable than requested.
    Stability,
    /// FSINFO returns a limit of 0 bytes.
    NoLimit,
    /// A directory returns no entries and no end, or repeats a cookie.
    Cookies,
    /// A directory returns an invalid name: empty, longer than 255 bytes, or with `/` or NUL.
    Name,
    /// The write verifier changes each time that the client writes the bytes again.
    Verifier,
}

impl ClientError {
    /// Returns the status of the server, if it replied with one.
    #[must_use]
    pub fn status(&self) -> Option<Nfsstat3> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Returns whether the server executed the last call of the operation.
    #[must_use]
    pub fn execution(&self) -> Execution {
        match self {
            Self::Rpc(error) => error.execution(),
            Self::Offset => Execution::NotExecuted,
            _ => Execution::Executed,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { procedure, status } => write!(f, "{procedure}: {}", status.name()),
            Self::Mount(status) => write!(f, "MOUNTPROC3_MNT: {}", status.name()),
            Self::Rpc(error) => error.fmt(f),
            Self::Offset => f.write_str("the range reaches beyond the last offset of a file"),
            Self::Protocol { procedure, fault } => write!(f, "{procedure}: {fault}"),
        }
    }
}

impl fmt::Display for ProtocolFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count => "the server returns an invalid count of bytes",
            Self::NoProgress => "the server transfers no bytes, and the file does not end",
            Self::Stability => "the server wrote less stably than requested",
            Self::NoLimit => "the server has a limit of 0 bytes",
            Self::Cookies => "the server returns an endless directory",
            Self::Name => "the server returns an invalid name",
            Self::Verifier => "the server repeatedly loses written data",
        })
    }
}

impl Error for ClientError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // The error is a part of the text, and so not the source, which reports print as well.
            Self::Rpc(error) => error.source(),
            _ => None,
        }
    }
}

impl From<CallError> for ClientError {
    fn from(error: CallError) -> Self {
        Self::Rpc(error)
    }
}
