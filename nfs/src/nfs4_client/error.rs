//! Why an operation failed.

use std::error::Error;
use std::fmt;

use oncrpc::CallError;

use crate::nfs4::{NfsOpnum4, Nfsstat4};

/// Why an operation of NFSv4.1 failed. The status of the server and the failure of the RPC are kept
/// apart.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Nfs4Error {
    /// The server answered an operation with a status. The operations before it were executed.
    Status {
        /// The operation.
        operation: NfsOpnum4,
        /// The status: never `Ok`.
        status: Nfsstat4,
    },
    /// There is no reply that can be decoded. The slot of the session is settled before its next use.
    Rpc(CallError),
    /// The reply contradicts the call.
    Protocol {
        /// The operation.
        operation: NfsOpnum4,
        /// The contradiction.
        fault: Nfs4Fault,
    },
}

/// How a reply contradicts its call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Nfs4Fault {
    /// The reply has other results than those of the operations of the call.
    Results,
    /// SEQUENCE returns another session, slot or sequence number.
    Slot,
    /// READ returns more bytes than it was asked for, or WRITE takes more than there are.
    Count,
    /// READ returns no byte and does not say that the file ends, or WRITE takes no byte.
    NoProgress,
    /// WRITE is less stable than it was asked for.
    Stability,
    /// Attributes were not asked for, or cannot be decoded.
    Attributes,
    /// The session that the server creates has no slot, or no room for a call.
    Limits,
    /// The server does not bind the connection to the back channel.
    Direction,
}

impl Nfs4Error {
    /// Returns the status of the server, if it answered with one.
    #[must_use]
    pub fn status(&self) -> Option<Nfsstat4> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Returns true if the server does not have the session or the client id any more: the client
    /// creates another session, and its open files and delegations are lost unless they are
    /// reclaimed.
    #[must_use]
    pub fn is_session_lost(&self) -> bool {
        use Nfsstat4::{Badsession, Deadsession, StaleClientid};
        matches!(
            self.status(),
            Some(Badsession | Deadsession | StaleClientid)
        )
    }

    /// Returns true if the operation may succeed later: NFS4ERR_DELAY and NFS4ERR_GRACE. The client
    /// has no clock, and its user calls again.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self.status(), Some(Nfsstat4::Delay | Nfsstat4::Grace))
    }

    pub(super) fn fault(operation: NfsOpnum4, fault: Nfs4Fault) -> Self {
        Self::Protocol { operation, fault }
    }
}

impl fmt::Display for Nfs4Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { operation, status } => write!(f, "{operation}: {status}"),
            Self::Rpc(error) => error.fmt(f),
            Self::Protocol { operation, fault } => write!(f, "{operation}: {fault}"),
        }
    }
}

impl fmt::Display for Nfs4Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Results => "the reply has the results of other operations",
            Self::Slot => "the reply is that of another slot or sequence number",
            Self::Count => "the server transfers more bytes than it may",
            Self::NoProgress => "the server transfers no bytes, and the file does not end",
            Self::Stability => "the server wrote less stably than it was asked to",
            Self::Attributes => "the attributes are not those that were asked for",
            Self::Limits => "the session has no room for a call",
            Self::Direction => "the server binds the connection to another channel",
        })
    }
}

impl Error for Nfs4Error {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Rpc(error) => Some(error),
            _ => None,
        }
    }
}

impl From<CallError> for Nfs4Error {
    fn from(error: CallError) -> Self {
        Self::Rpc(error)
    }
}
