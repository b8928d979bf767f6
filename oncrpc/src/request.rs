//! What a transport carries.

use std::sync::Arc;
use std::time::Duration;

use xdrgen_runtime::Error;

use crate::auth::Credentials;
use crate::error::{CallError, CallErrorKind, Execution};
use crate::header::encode_call;
use crate::message::Body;
use crate::procedure::{ProcedureId, ReplyLimits};

/// A call, as a client hands it to a transport.
#[derive(Clone, Debug)]
pub struct Request {
    /// The procedure.
    pub procedure: ProcedureId,
    /// Who calls; nobody if there is none.
    pub credentials: Option<Arc<Credentials>>,
    /// The arguments.
    pub body: Body,
    /// How large the reply may be.
    pub limits: ReplyLimits,
    /// How long the call may take, from when the transport gets it; `None` if there is no limit.
    pub timeout: Option<Duration>,
    /// Whether the call may be executed twice without harm.
    pub is_idempotent: bool,
    /// Whether the call is sent again over another connection.
    pub resend: Resend,
    /// Whether the call waits if there is no connection.
    pub wait_for_connection: bool,
}

impl Request {
    /// Returns true if the call may be sent again when its connection was lost and it may have been
    /// executed.
    #[must_use]
    pub fn may_resend(&self) -> bool {
        match self.resend {
            Resend::IfIdempotent => self.is_idempotent,
            Resend::IfUnsent => false,
            Resend::Always => true,
        }
    }

    /// Returns true if it depends on the server's reply cache that the call is not executed twice.
    /// Then the server has to see the same client: over TCP, the same local port.
    #[must_use]
    pub fn needs_reply_cache(&self) -> bool {
        self.resend == Resend::Always && !self.is_idempotent
    }

    /// Appends the header of the call to a message.
    ///
    /// # Errors
    /// Returns `TooLong` if the credentials exceed their bounds.
    pub fn encode_header(&self, xid: u32, out: &mut Vec<u8>) -> Result<(), Error> {
        let credentials = self.credentials.as_deref();
        let credentials = credentials.unwrap_or(&Credentials::None);
        encode_call(xid, &self.procedure, credentials, out)
    }

    /// Returns an error of this call.
    #[must_use]
    pub fn error(&self, peer: Arc<str>, kind: CallErrorKind, execution: Execution) -> CallError {
        CallError::new(self.procedure, peer, kind, execution)
    }
}

/// Whether a call is sent again over another connection. One that was not sent yet always is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Resend {
    /// If its procedure is idempotent.
    #[default]
    IfIdempotent,
    /// Never, once a part of it was sent.
    IfUnsent,
    /// Always: the server has a reply cache, and the connection is made again within the time for
    /// which the cache keeps replies. Any other server may execute the call twice.
    Always,
}
