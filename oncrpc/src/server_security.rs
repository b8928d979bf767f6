//! Security flavors at the server, such as RPCSEC_GSS (RFC 2203).
//!
//! `router` calls [`open`] before it looks at a call, and [`seal`] with the reply. Between them the
//! call is plain: it has the credentials that the flavor returns, and no verifier. So handlers and
//! the reply cache know nothing of flavors. A call of a flavor that is not registered is served
//! unchecked. `with_verifier` replaces the empty verifier of a reply that `header` encodes.

use std::fmt;
use std::sync::Arc;

use xdrgen_runtime::{Decode as _, Decoder, Encode as _, Error, ErrorKind, Limits};

use crate::auth::Credentials;
use crate::client_security::SecurityError;
use crate::header::{BEFORE_CREDENTIAL, ReplyStatus};
use crate::message::{Body, OutgoingReply, ReceivedMessage, padding, word};
use crate::protocol::{
    AcceptedReplyData, CallBody, OpaqueAuth, RPC_VERSION, ReplyBody, RpcMsg, RpcMsgBody,
};
use crate::service::Peer;

/// A security flavor at the server. [`Router::security`](crate::Router::security) adds it.
pub trait ServerSecurity: fmt::Debug + Send + Sync + 'static {
    /// Returns the number of the flavor.
    fn flavor(&self) -> u32;

    /// Checks a call whose credential is of this flavor. It must not block.
    ///
    /// # Errors
    /// The call is refused with this status.
    fn accept(&self, call: &ProtectedCall<'_>) -> Result<Acceptance, ReplyStatus>;
}

/// A call, for its security flavor.
#[derive(Clone, Copy, Debug)]
pub struct ProtectedCall<'a> {
    /// The peer.
    pub peer: &'a Peer,
    /// The message up to the end of the credential, which the verifier of RPCSEC_GSS signs.
    pub header: &'a [u8],
    /// The program, the version, and the procedure.
    pub procedure: [u32; 3],
    /// The body of the credential.
    pub credential: &'a [u8],
    /// The verifier.
    pub verifier: OpaqueAuth<'a>,
    /// The arguments, without items that a transport received separately.
    pub args: &'a [u8],
}

/// The result of a security flavor's check of a call.
#[derive(Debug)]
pub enum Acceptance {
    /// The call is served.
    Serve {
        /// The identity of the caller. It must be the same in a retransmission, since a reply cache
        /// distinguishes callers by it.
        credentials: Credentials,
        /// The arguments in plain form; `None` if they are in plain form already.
        args: Option<Vec<u8>>,
        /// Protects the reply.
        replies: Box<dyn ReplySecurity>,
    },
    /// The flavor has served the call itself, such as a call that establishes a context.
    Reply {
        /// The verifier of the reply.
        verifier: Verifier,
        /// The results.
        results: Vec<u8>,
    },
    /// The call is dropped without a reply, for example because it was replayed.
    Drop,
}

/// The verifier of a reply.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Verifier {
    /// The number of the flavor.
    pub flavor: u32,
    /// The body: at most 400 bytes.
    pub body: Vec<u8>,
}

/// The protection of the reply to one call.
pub trait ReplySecurity: fmt::Debug + Send + Sync {
    /// Returns the verifier of a reply, and its protected results; `None` if the results are sent
    /// unchanged. There are results only if `is_success`.
    ///
    /// # Errors
    /// The reply cannot be protected. The call is answered with SYSTEM_ERR.
    fn seal(
        &self,
        results: &Body,
        is_success: bool,
    ) -> Result<(Verifier, Option<Body>), SecurityError>;
}

/// A call after the check by its security flavor.
pub(crate) enum CheckedCall {
    /// The call has no security flavor.
    Plain,
    /// The flavor has answered the call, with this reply if there is one.
    Answered(Option<OutgoingReply>),
    /// The call in plain form, and what protects its reply.
    Protected(ReceivedMessage, Box<dyn ReplySecurity>),
}

/// Has the flavor of a call check it.
pub(crate) fn open(
    flavors: &[Arc<dyn ServerSecurity>],
    message: &ReceivedMessage,
    peer: &Peer,
) -> CheckedCall {
    // What follows another version may have another meaning (RFC 5531, section 9).
    if word(message.stream(), 2) != Some(RPC_VERSION) {
        return CheckedCall::Plain;
    }
    let (items, limits) = (message.item_list(), Limits::DEFAULT);
    let Ok(mut d) = Decoder::with_items(&items, &limits) else {
        return CheckedCall::Plain;
    };
    // A message that is not a call is handled as one without protection.
    let Ok(RpcMsg {
        xid,
        body: RpcMsgBody::Call(call),
    }) = RpcMsg::decode(&mut d)
    else {
        return CheckedCall::Plain;
    };
    let flavors = &mut flavors.iter();
    let Some(flavor) = flavors.find(|flavor| flavor.flavor() == call.cred.flavor) else {
        return CheckedCall::Plain;
    };
    let accepted = flavor.accept(&ProtectedCall {
        peer,
        header: message.stream().get(..end_of(&call)).unwrap_or_default(),
        procedure: [call.prog, call.vers, call.proc],
        credential: call.cred.body.as_bytes(),
        verifier: call.verf,
        args: d.remaining(),
    });
    match accepted {
        Ok(Acceptance::Serve {
            credentials,
            args,
            replies,
        }) => match plain_call(message, d.offset(), &credentials, args) {
            Ok(plain) => CheckedCall::Protected(plain, replies),
            Err(error) => {
                tracing::warn!(%peer, xid, %error, "credentials of a flavor can't be encoded");
                CheckedCall::Answered(Some(status(xid, ReplyStatus::SystemError)))
            }
        },
        Ok(Acceptance::Reply { verifier, results }) => {
            let mut reply = status(xid, ReplyStatus::Success);
            reply.body = Body::from_xdr(results);
            CheckedCall::Answered(Some(with_verifier(reply, xid, verifier)))
        }
        Ok(Acceptance::Drop) => CheckedCall::Answered(None),
        Err(refusal) => {
            tracing::info!(%peer, xid, status = %refusal, "call refused");
            CheckedCall::Answered(Some(status(xid, refusal)))
        }
    }
}

/// Returns where the credential of a call ends.
fn end_of(call: &CallBody<'_>) -> usize {
    let len = call.cred.body.as_bytes().len();
    BEFORE_CREDENTIAL + 8 + len + padding(len)
}

/// Returns a call with other credentials, without a verifier, and with its arguments in plain form.
fn plain_call(
    message: &ReceivedMessage,
    args_at: usize,
    credentials: &Credentials,
    args: Option<Vec<u8>>,
) -> Result<ReceivedMessage, Error> {
    let truncated = || Error::new(ErrorKind::UnexpectedEnd, 0);
    let stream = message.stream();
    let before = stream.get(..BEFORE_CREDENTIAL).ok_or_else(truncated)?;
    let mut plain = before.to_vec();
    credentials.encode(&mut plain)?;
    Credentials::None.encode(&mut plain)?;
    if let Some(args) = args {
        plain.extend_from_slice(&args);
        return Ok(ReceivedMessage::whole(plain.into()));
    }
    let header_len = plain.len();
    plain.extend_from_slice(stream.get(args_at..).ok_or_else(truncated)?);
    Ok(message.with_stream(plain.into(), header_len, args_at))
}

/// Returns a reply without results.
fn status(xid: u32, status: ReplyStatus) -> OutgoingReply {
    let mut reply = OutgoingReply::default();
    status.encode(xid, &mut reply.header);
    reply
}

/// Protects a reply.
pub(crate) fn seal(
    security: &dyn ReplySecurity,
    mut reply: OutgoingReply,
    peer: &Peer,
) -> OutgoingReply {
    let Ok((RpcMsg { xid, body }, _)) = RpcMsg::from_prefix(&reply.header) else {
        return reply;
    };
    // A denied reply has no verifier.
    let RpcMsgBody::Reply(ReplyBody::Accepted(accepted)) = body else {
        return reply;
    };
    let is_success = matches!(accepted.reply_data, AcceptedReplyData::Success);
    match security.seal(&reply.body, is_success) {
        Ok((verifier, results)) => {
            if let Some(results) = results.filter(|_| is_success) {
                reply.body = results;
            }
            with_verifier(reply, xid, verifier)
        }
        Err(error) => {
            tracing::warn!(%peer, xid, %error, "a reply can't be protected");
            status(xid, ReplyStatus::SystemError)
        }
    }
}

/// The bytes of an accepted reply before its verifier, and behind an empty verifier.
const VERIFIER: std::ops::Range<usize> = 12..20;

/// Returns a reply, whose verifier is empty, with another.
fn with_verifier(mut reply: OutgoingReply, xid: u32, verifier: Verifier) -> OutgoingReply {
    let Verifier { flavor, body } = verifier;
    let encoded = body.as_slice().try_into().ok().and_then(|body| {
        let verifier = OpaqueAuth { flavor, body };
        verifier.encode_to_vec().ok()
    });
    let Some(encoded) = encoded else {
        tracing::warn!(xid, "a verifier is longer than 400 bytes");
        return status(xid, ReplyStatus::SystemError);
    };
    reply.header.splice(VERIFIER, encoded);
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::BackwardError;

    #[derive(Debug)]
    struct Never;

    impl ServerSecurity for Never {
        fn flavor(&self) -> u32 {
            6
        }

        fn accept(&self, _: &ProtectedCall<'_>) -> Result<Acceptance, ReplyStatus> {
            Ok(Acceptance::Drop)
        }
    }

    /// Another version of RPC may have another meaning for what follows (RFC 5531, section 9).
    #[test]
    fn flavors_see_only_calls_of_this_version_of_rpc() {
        let peer = Peer {
            address: None,
            transport: "tcp",
            memory: None,
            caller: Err(BackwardError::Transport),
            status: None,
        };
        let flavors: [Arc<dyn ServerSecurity>; 1] = [Arc::new(Never)];
        let open = |version| {
            let words = [9, 0, version, 1, 2, 3, 6, 0, 6, 0_u32];
            let call = words.map(u32::to_be_bytes).concat();
            super::open(&flavors, &ReceivedMessage::whole(call.into()), &peer)
        };
        assert!(matches!(open(2), CheckedCall::Answered(None)));
        for version in [0, 1, 3] {
            assert!(matches!(open(version), CheckedCall::Plain), "{version}");
        }
    }
}
