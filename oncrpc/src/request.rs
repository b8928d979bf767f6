//! What a transport carries.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tracing::Span;
use xdrgen_runtime::{Decode as _, Decoder, Limits};

use crate::auth::Credentials;
use crate::client_security::{CallSecurity, unsupported};
use crate::error::{CallError, CallErrorKind, Execution};
use crate::header::{ReplyStatus, encode_call};
use crate::message::{Body, ReceivedMessage};
use crate::procedure::{ProcedureId, ReplyLimits};
use crate::protocol::{AcceptedReply, AcceptedReplyData, ReplyBody, RpcMsg, RpcMsgBody};

/// A call, as a client hands it to a transport.
#[derive(Clone, Debug)]
pub struct Request {
    /// The procedure.
    pub procedure: ProcedureId,
    /// Who calls; nobody if there is none.
    pub credentials: Option<Arc<Credentials>>,
    /// What protects the call, and says who calls in place of `credentials`; `None` if nothing does.
    pub security: Option<Arc<dyn CallSecurity>>,
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
    /// The span of the call, where a transport records `xid`, `bytes` and `transfer`; `None` if
    /// nobody subscribes to it.
    pub span: Option<Box<Span>>,
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

    /// Appends the header of a call without protection to a message. [`encode`](Self::encode) is for
    /// transports that know the XID, and send the call with another header each time.
    ///
    /// # Errors
    /// Returns `Encode` if the credentials exceed their bounds, and `Security` if the call is to be
    /// protected.
    pub fn encode_header(&self, xid: u32, out: &mut Vec<u8>) -> Result<(), CallErrorKind> {
        if self.security.is_some() {
            return Err(unsupported());
        }
        let credentials = self.credentials.as_deref();
        let credentials = credentials.unwrap_or(&Credentials::None);
        encode_call(xid, &self.procedure, out);
        credentials.encode(out).map_err(CallErrorKind::Encode)?;
        Credentials::None.encode(out).map_err(CallErrorKind::Encode)
    }

    /// Appends the header of the call to a message, and returns the arguments that follow. A
    /// transport does so each time that it sends the call.
    ///
    /// # Errors
    /// Returns `Encode` if the credentials exceed their bounds, and `Security` if the call can't be
    /// protected.
    pub fn encode(&self, xid: u32, out: &mut Vec<u8>) -> Result<Cow<'_, Body>, CallErrorKind> {
        let Some(security) = &self.security else {
            self.encode_header(xid, out)?;
            return Ok(Cow::Borrowed(&self.body));
        };
        encode_call(xid, &self.procedure, out);
        let sealed = security
            .seal(out, &self.body)
            .map_err(|error| CallErrorKind::Security(error.into()))?;
        Ok(sealed.map_or(Cow::Borrowed(&self.body), Cow::Owned))
    }

    /// Returns a reply with its results in plain form.
    pub(crate) fn open(&self, reply: ReceivedMessage) -> Result<ReceivedMessage, CallErrorKind> {
        let Some(security) = &self.security else {
            return Ok(reply);
        };
        let undecodable = |error| CallErrorKind::Decode(error, None);
        let opened = {
            let (items, limits) = (reply.item_list(), Limits::DEFAULT);
            let mut d = Decoder::with_items(&items, &limits).map_err(undecodable)?;
            let message = RpcMsg::decode(&mut d).map_err(undecodable)?;
            let RpcMsgBody::Reply(ReplyBody::Accepted(accepted)) = message.body else {
                return Ok(reply);
            };
            let AcceptedReply { verf, reply_data } = accepted;
            let is_success = matches!(reply_data, AcceptedReplyData::Success);
            let opened = security
                .open(&verf, d.remaining(), is_success)
                .map_err(|error| CallErrorKind::Security(error.into()))?;
            opened.filter(|_| is_success).map(|results| {
                let mut plain = Vec::new();
                ReplyStatus::Success.encode(message.xid, &mut plain);
                plain.extend_from_slice(&results);
                plain
            })
        };
        Ok(opened.map_or(reply, |plain| ReceivedMessage::whole(plain.into())))
    }

    /// Records on the span of the call what a transport knows once it sends the call.
    #[cfg(feature = "tokio")]
    pub(crate) fn record_sent(&self, xid: u32, header: usize) {
        if let Some(span) = &self.span {
            span.record("xid", xid);
            span.record("bytes", header + self.body.len());
        }
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
