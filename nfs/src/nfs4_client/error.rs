//! Errors of NFSv4.1 operations.

use std::error::Error;
use std::fmt;

use oncrpc::CallError;

use crate::nfs4::{NfsOpnum4, Nfsstat4};

/// The error of an NFSv4.1 operation. A status of the server and a failure of the RPC are separate
/// variants.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Nfs4Error {
    /// The server replied to an operation with an error status. The operations before it were
    /// executed.
    Status {
        /// The operation.
        operation: NfsOpnum4,
        /// The status; never `Ok`.
        status: Nfsstat4,
    },
    /// There is no decodable reply. The session resolves the state of the slot before its next use.
    Rpc(CallError),
    /// The reply contradicts the call.
    Protocol {
        /// The operation.
        operation: NfsOpnum4,
        /// The contradiction.
        fault: Nfs4Fault,
    },
    /// The COMPOUND was not sent. The outcome of an earlier one of its slot is unknown, and the
    /// SEQUENCE that asks for it failed with this error.
    NotSent(Box<Self>),
    /// The server has confirmed the client ID for sessions that were created with other callbacks,
    /// so that the next sequence number of CREATE_SESSION is unknown. With another verifier the
    /// server ends those sessions.
    ClientInUse,
}

/// How a reply contradicts its call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Nfs4Fault {
    /// The results do not match the operations of the call.
    Results,
    /// SEQUENCE returns another session, slot or sequence number.
    Slot,
    /// READ returns more bytes than requested, or WRITE accepts more than were sent.
    Count,
    /// READ returns no bytes and no end of file, or WRITE accepts no bytes.
    NoProgress,
    /// WRITE is less stable than requested.
    Stability,
    /// Attributes were not requested, or cannot be decoded.
    Attributes,
    /// CREATE_SESSION returns a session that exists already, or another sequence number.
    Session,
    /// The new session has no slots, or its messages are too small for a call.
    Limits,
    /// The server binds the connection to other channels than the client wants.
    Direction,
}

impl Nfs4Error {
    /// Returns the status of the server, if it replied with one. For a COMPOUND that was [not
    /// sent](Self::NotSent), this is the status of the SEQUENCE that asked for its slot.
    #[must_use]
    pub fn status(&self) -> Option<Nfsstat4> {
        match self {
            Self::Status { status, .. } => Some(*status),
            Self::NotSent(error) => error.status(),
            Self::Rpc(_) | Self::Protocol { .. } | Self::ClientInUse => None,
        }
    }

    /// Returns true if the server no longer has the session or the client id. The client must
    /// create another session, and its open files and delegations are lost unless it reclaims them.
    #[must_use]
    pub fn is_session_lost(&self) -> bool {
        use Nfsstat4::{Badsession, Deadsession, StaleClientid};
        matches!(
            self.status(),
            Some(Badsession | Deadsession | StaleClientid)
        )
    }

    /// Returns true if the operation was not executed and may succeed later: NFS4ERR_DELAY and
    /// NFS4ERR_GRACE. The client has no clock; its user repeats the call.
    ///
    /// NFS4ERR_DELAY of SEQUENCE is not temporary: the server may still execute the COMPOUND, which
    /// the transport has sent again over another connection. It is temporary for a COMPOUND that
    /// was [not sent](Self::NotSent) for this reason.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Status { operation, status } => {
                *status == Nfsstat4::Grace
                    || (*status == Nfsstat4::Delay && *operation != NfsOpnum4::Sequence)
            }
            Self::NotSent(error) => {
                matches!(error.status(), Some(Nfsstat4::Delay | Nfsstat4::Grace))
            }
            Self::Rpc(_) | Self::Protocol { .. } | Self::ClientInUse => false,
        }
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
            Self::NotSent(error) => write!(
                f,
                "not sent, because the outcome of an earlier COMPOUND of its slot is unknown: \
                {error}"
            ),
            Self::ClientInUse => f.write_str(
                "the server has sessions of this client that were created with other callbacks: \
                another verifier ends them",
            ),
        }
    }
}

impl fmt::Display for Nfs4Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Results => "the reply has the results of other operations",
            Self::Slot => "the reply belongs to another slot or sequence number",
            Self::Count => "the server transfers too many bytes",
            Self::NoProgress => "the server transfers no bytes, and the file does not end",
            Self::Stability => "the server wrote less stably than requested",
            Self::Attributes => "the attributes were not requested or are malformed",
            Self::Session => "the server returns no new session",
            Self::Limits => "the session is too small for a call",
            Self::Direction => "the server binds the connection to other channels",
        })
    }
}

impl Error for Nfs4Error {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // The error is a part of the text, and so not the source, which reports print as well.
            Self::Rpc(error) => error.source(),
            Self::NotSent(error) => error.source(),
            Self::Status { .. } | Self::Protocol { .. } | Self::ClientInUse => None,
        }
    }
}

impl From<CallError> for Nfs4Error {
    fn from(error: CallError) -> Self {
        Self::Rpc(error)
    }
}
