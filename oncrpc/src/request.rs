//! Requests: calls in the form that a transport takes.
//!
//! [`Request::resend_window`] and [`Request::needs_reply_cache`] are the rule of retransmission,
//! which `calls` follows for TCP, and `rpc_transport` of `rpcrdma-verbs` passes to the engine. A
//! retransmission keeps its XID, and `encode` is called for each transmission anew, as a security
//! flavor numbers them. `channel::Submission` calls `open` once for each reply.

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

/// A call that a client passes to a transport.
#[derive(Clone, Debug)]
pub struct Request {
    /// The procedure.
    pub procedure: ProcedureId,
    /// The credentials of the caller.
    pub credentials: Option<Arc<Credentials>>,
    /// The security flavor that protects the call and replaces `credentials`, if any.
    pub security: Option<Arc<dyn CallSecurity>>,
    /// The arguments.
    pub body: Body,
    /// The limits of the reply.
    pub limits: ReplyLimits,
    /// The timeout, from the time at which the transport gets the call; `None` for no limit.
    pub timeout: Option<Duration>,
    /// Whether the call may be executed twice without harm.
    pub is_idempotent: bool,
    /// Whether the call is retransmitted over another connection.
    pub resend: Resend,
    /// Whether the call waits for a connection.
    pub wait_for_connection: bool,
    /// The span of the call, in which a transport records `xid`, `bytes` and `transfer`; `None`
    /// without a subscriber.
    pub span: Option<Box<Span>>,
}

impl Request {
    /// Returns how long after its first transmission the call may be retransmitted over another
    /// connection, although it may have been executed: zero for never, and [`Duration::MAX`] for no
    /// limit.
    #[must_use]
    pub fn resend_window(&self) -> Duration {
        match self.resend {
            Resend::IfUnsent => Duration::ZERO,
            _ if self.is_idempotent => Duration::MAX,
            Resend::IfIdempotent => Duration::ZERO,
            Resend::Always { cache_lifetime } => cache_lifetime,
        }
    }

    /// Returns true if only the server's reply cache prevents a second execution of the call. Then
    /// the server must recognize the client: over TCP, by the same local port.
    #[must_use]
    pub fn needs_reply_cache(&self) -> bool {
        matches!(self.resend, Resend::Always { .. }) && !self.is_idempotent
    }

    /// Appends the header of a call without protection to a message. [`encode`](Self::encode) is
    /// for transports that know the XID, and can send a different header with each transmission.
    ///
    /// # Errors
    /// `Encode` if the credentials exceed their bounds; `Security` if the call must be protected.
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
    /// transport calls this for each transmission.
    ///
    /// # Errors
    /// `Encode` if the credentials exceed their bounds; `Security` if the call cannot be protected.
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

    /// Records the properties of a transmission in the span of the call.
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

/// Selects whether a call is retransmitted over another connection. A call that was not sent yet
/// always moves to the next connection.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Resend {
    /// The call is retransmitted if its procedure is idempotent.
    #[default]
    IfIdempotent,
    /// The call is never retransmitted, once a part of it was sent.
    IfUnsent,
    /// The call is retransmitted, because the server has a reply cache for procedures that are not
    /// idempotent: it answers a retransmission with the reply of the first execution. A server
    /// without a reply cache may execute the call twice.
    ///
    /// ```
    /// use std::time::Duration;
    /// use oncrpc::{CallOptions, Resend};
    ///
    /// // The server keeps replies for 120 seconds.
    /// let cache_lifetime = Duration::from_secs(90);
    /// let options = CallOptions::DEFAULT.resend(Resend::Always { cache_lifetime });
    /// # let _ = options;
    /// ```
    Always {
        /// How long after its first transmission the call is retransmitted. After that the call of
        /// a lost connection fails with
        /// [`ReplyCacheExpired`](crate::CallErrorKind::ReplyCacheExpired), and it is unknown
        /// whether it was executed. Calls of idempotent procedures have no limit.
        ///
        /// This must be less than the time for which the server keeps a reply
        /// ([`ReplyCacheConfig::max_age`](crate::ReplyCacheConfig::max_age)), by the longest time
        /// for which a retransmission can be on its way.
        cache_lifetime: Duration,
    },
}
