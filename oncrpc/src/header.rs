//! The headers of calls and replies (RFC 5531, section 9).
//!
//! [`decode_call`] decides which messages are dropped, and which are answered before `router` looks
//! at their program. `request` appends the credential and the verifier to the output of
//! [`encode_call`]. [`ReplyStatus::encode`] writes an empty verifier: `server_security` replaces it
//! at bytes 12 to 20. `channel` reserves the 24 bytes of a successful header (`REPLY_HEADER`).

use xdrgen_runtime::{Decode, Decoder, Encode, Error, ErrorKind};

use crate::auth::Credentials;
use crate::message::word;
use crate::procedure::ProcedureId;
use crate::protocol::{
    AcceptedReply, AcceptedReplyData, AuthStat, MismatchInfo, MsgType, OpaqueAuth, RPC_VERSION,
    RejectedReply, ReplyBody, RpcMsg, RpcMsgBody,
};

/// The maximum length in bytes of the header of a reply with an empty verifier: that of
/// PROG_MISMATCH.
const MAX_REPLY_HEADER: usize = 32;

/// The length in bytes of a call's header before its credential.
pub(crate) const BEFORE_CREDENTIAL: usize = 24;

/// The header of a reply to the call 0, with an empty verifier and results.
const SUCCESS: [u8; 24] = {
    let mut bytes = [0; 24];
    // The second word is REPLY, and all others are 0.
    bytes[7] = 1;
    bytes
};

/// The status of a reply (RFC 5531, section 9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReplyStatus {
    /// The results follow.
    Success,
    /// The server does not offer the program.
    ProgramUnavailable,
    /// The server offers other versions of the program.
    ProgramMismatch {
        /// The lowest version.
        low: u32,
        /// The highest version.
        high: u32,
    },
    /// The version of the program has no such procedure.
    ProcedureUnavailable,
    /// The server cannot decode the arguments.
    GarbageArgs,
    /// The server failed, for example because memory ran out.
    SystemError,
    /// The server supports other versions of ONC RPC.
    RpcMismatch {
        /// The lowest version.
        low: u32,
        /// The highest version.
        high: u32,
    },
    /// The server does not accept the credentials.
    AuthError(AuthStat),
}

impl ReplyStatus {
    /// Appends the header of a reply with this status.
    #[inline]
    pub(crate) fn encode(self, xid: u32, out: &mut Vec<u8>) {
        // The common case without the encoder: it saves 2 % of a call's instructions.
        if self == Self::Success {
            let mut bytes = SUCCESS;
            bytes[..4].copy_from_slice(&xid.to_be_bytes());
            return out.extend_from_slice(&bytes);
        }
        self.encode_any(xid, out);
    }

    fn encode_any(self, xid: u32, out: &mut Vec<u8>) {
        let none = OpaqueAuth {
            flavor: 0,
            body: Default::default(),
        };
        let accepted = |reply_data| {
            ReplyBody::Accepted(AcceptedReply {
                verf: none,
                reply_data,
            })
        };
        let mismatch = |low, high| MismatchInfo { low, high };
        let body = match self {
            Self::Success => accepted(AcceptedReplyData::Success),
            Self::ProgramUnavailable => accepted(AcceptedReplyData::ProgUnavail),
            Self::ProgramMismatch { low, high } => {
                accepted(AcceptedReplyData::ProgMismatch(mismatch(low, high)))
            }
            Self::ProcedureUnavailable => accepted(AcceptedReplyData::ProcUnavail),
            Self::GarbageArgs => accepted(AcceptedReplyData::GarbageArgs),
            Self::SystemError => accepted(AcceptedReplyData::SystemErr),
            Self::RpcMismatch { low, high } => {
                ReplyBody::Denied(RejectedReply::RpcMismatch(mismatch(low, high)))
            }
            Self::AuthError(stat) => ReplyBody::Denied(RejectedReply::AuthError(stat)),
        };
        let message = RpcMsg {
            xid,
            body: RpcMsgBody::Reply(body),
        };
        // Every part of the header is bounded, so that it can always be encoded.
        let mut bytes = [0; MAX_REPLY_HEADER];
        let len = message.encode_to_slice(&mut bytes).unwrap_or_default();
        out.extend_from_slice(bytes.get(..len).unwrap_or_default());
    }
}

impl From<AcceptedReplyData> for ReplyStatus {
    fn from(data: AcceptedReplyData) -> Self {
        match data {
            AcceptedReplyData::Success => Self::Success,
            AcceptedReplyData::ProgMismatch(MismatchInfo { low, high }) => {
                Self::ProgramMismatch { low, high }
            }
            AcceptedReplyData::ProgUnavail => Self::ProgramUnavailable,
            AcceptedReplyData::ProcUnavail => Self::ProcedureUnavailable,
            AcceptedReplyData::GarbageArgs => Self::GarbageArgs,
            AcceptedReplyData::SystemErr => Self::SystemError,
        }
    }
}

impl From<RejectedReply> for ReplyStatus {
    fn from(reply: RejectedReply) -> Self {
        match reply {
            RejectedReply::RpcMismatch(MismatchInfo { low, high }) => {
                Self::RpcMismatch { low, high }
            }
            RejectedReply::AuthError(stat) => Self::AuthError(stat),
        }
    }
}

/// Appends the header of a call, up to its credential.
pub(crate) fn encode_call(xid: u32, procedure: &ProcedureId, out: &mut Vec<u8>) {
    let ProcedureId {
        program,
        version,
        number,
        ..
    } = *procedure;
    let call = MsgType::Call.value().cast_unsigned();
    for word in [xid, call, RPC_VERSION, program, version, number] {
        out.extend_from_slice(&word.to_be_bytes());
    }
}

/// Reads the header of a reply. Afterwards the decoder is at the results.
///
/// # Errors
/// The header is malformed; `InvalidDiscriminant` if the message is a call.
#[inline]
pub(crate) fn decode_reply(d: &mut Decoder<'_>) -> Result<ReplyStatus, Error> {
    match RpcMsg::decode(d)?.body {
        RpcMsgBody::Reply(ReplyBody::Accepted(reply)) => Ok(reply.reply_data.into()),
        RpcMsgBody::Reply(ReplyBody::Denied(reply)) => Ok(reply.into()),
        RpcMsgBody::Call(_) => Err(Error::new(ErrorKind::InvalidDiscriminant, 4)),
    }
}

/// The header of a received call.
#[derive(Clone, Debug)]
pub(crate) struct CallHeader {
    pub(crate) xid: u32,
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) number: u32,
    pub(crate) credentials: Credentials,
}

/// Describes why a message is not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The message is not a call, so that it is not answered.
    Drop,
    /// The call is answered with this status.
    Answer(u32, ReplyStatus),
}

/// Reads the header of a call. Afterwards the decoder is at the arguments.
pub(crate) fn decode_call(bytes: &[u8], d: &mut Decoder<'_>) -> Result<CallHeader, Refusal> {
    let call = MsgType::Call.value().cast_unsigned();
    let (Some(xid), Some(kind), Some(rpc_version)) =
        (word(bytes, 0), word(bytes, 1), word(bytes, 2))
    else {
        return Err(Refusal::Drop);
    };
    if kind != call {
        return Err(Refusal::Drop);
    }
    let answer = |status| Refusal::Answer(xid, status);
    if rpc_version != RPC_VERSION {
        let (low, high) = (RPC_VERSION, RPC_VERSION);
        return Err(answer(ReplyStatus::RpcMismatch { low, high }));
    }
    // A message without a procedure is not a call (RFC 5531, section 9). In a call, only the
    // credentials and the verifier can be malformed.
    if word(bytes, 5).is_none() {
        return Err(Refusal::Drop);
    }
    let message = RpcMsg::decode(d);
    let Ok(RpcMsgBody::Call(body)) = message.map(|message| message.body) else {
        return Err(answer(ReplyStatus::AuthError(malformed(bytes))));
    };
    let credentials =
        Credentials::decode(&body.cred).map_err(|stat| answer(ReplyStatus::AuthError(stat)))?;
    Ok(CallHeader {
        xid,
        program: body.prog,
        version: body.vers,
        number: body.proc,
        credentials,
    })
}

/// Returns what is malformed in the header of a call: its credentials, or its verifier.
#[cold]
fn malformed(call: &[u8]) -> AuthStat {
    let credentials = call.get(BEFORE_CREDENTIAL..).unwrap_or_default();
    match OpaqueAuth::from_prefix(credentials) {
        Ok(_) => AuthStat::AuthBadverf,
        Err(_) => AuthStat::AuthBadcred,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5531, section 9: AUTH_BADCRED is a bad credential, and AUTH_BADVERF a bad verifier.
    #[test]
    fn a_refusal_tells_a_bad_verifier_from_bad_credentials() {
        let refusal = |auth: &[u32]| {
            let words = [&[7, 0, 2, 1, 1, 1][..], auth].concat();
            let call: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            decode_call(&call, &mut Decoder::new(&call)).unwrap_err()
        };
        let expected = |stat| Refusal::Answer(7, ReplyStatus::AuthError(stat));
        let too_long = [&[0, 404][..], &[0; 101]].concat();
        for bad in [&[][..], &[0], &[1, 4], &too_long, &[9, 1, 0x6162_6364]] {
            let (cred, verf) = (refusal(bad), refusal(&[&[0, 0], bad].concat()));
            assert_eq!(cred, expected(AuthStat::AuthBadcred), "{bad:?}");
            assert_eq!(verf, expected(AuthStat::AuthBadverf), "{bad:?}");
        }
    }

    #[test]
    fn a_successful_reply_is_that_of_the_generated_types() {
        let (mut fast, mut generated) = (Vec::new(), Vec::new());
        ReplyStatus::Success.encode(0x0102_0304, &mut fast);
        ReplyStatus::Success.encode_any(0x0102_0304, &mut generated);
        assert_eq!(fast, generated);
    }
}
