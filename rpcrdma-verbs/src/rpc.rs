//! ONC RPC messages: the headers of calls and replies (RFC 5531), with AUTH_NONE and AUTH_SYS.

use std::fmt;

use rpcrdma_proto::rpc::{
    AcceptedReply, AcceptedReplyData, AuthFlavor, AuthStat, AuthsysParms, CallBody, MismatchInfo,
    OpaqueAuth, RPC_VERSION, RejectedReply, ReplyBody, RpcMsg, RpcMsgBody,
};
use rpcrdma_proto::xdr::{Array, Decode, Encode};

use crate::driver::{PlacedItem, WriteError, Writer};

/// Who calls.
///
/// ```
/// use rpcrdma_verbs::rpc::Credentials;
///
/// let credentials = Credentials::sys("client", 1000, 100, &[100, 27])?;
/// assert_ne!(credentials, Credentials::none());
/// # Ok::<(), rpcrdma_verbs::driver::WriteError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    flavor: u32,
    body: Vec<u8>,
}

impl Credentials {
    /// Nobody in particular: AUTH_NONE.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            flavor: 0,
            body: Vec::new(),
        }
    }

    /// A user and groups of a machine: AUTH_SYS (RFC 5531, appendix A). At most 16 groups go with
    /// it.
    ///
    /// # Errors
    /// The name is longer than 255 octets, or there are more groups.
    pub fn sys(machine: &str, uid: u32, gid: u32, gids: &[u32]) -> Result<Self, WriteError> {
        let (machinename, gids) = (machine.try_into()?, Array::new(gids)?);
        let parms = AuthsysParms {
            stamp: 0,
            machinename,
            uid,
            gid,
            gids,
        };
        Ok(Self {
            flavor: AuthFlavor::AuthSys.value().cast_unsigned(),
            body: parms.encode_to_vec()?,
        })
    }

    fn auth(&self) -> Result<OpaqueAuth<'_>, WriteError> {
        Ok(OpaqueAuth {
            flavor: self.flavor,
            body: self.body.as_slice().try_into()?,
        })
    }
}

/// Which procedure is called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Procedure {
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure's number.
    pub number: u32,
}

/// Writes the header of a call. Its XID is zero until the call has one.
pub(crate) fn write_call(
    writer: &mut Writer<'_>,
    procedure: Procedure,
    credentials: &Credentials,
) -> Result<(), WriteError> {
    if credentials.flavor == 0 && credentials.body.is_empty() {
        let Procedure {
            program,
            version,
            number,
        } = procedure;
        words(
            writer,
            [0, 0, RPC_VERSION, program, version, number, 0, 0, 0, 0],
        );
        return Ok(());
    }
    write_call_of(writer, procedure, credentials)
}

/// Writes a header, word by word: what most calls and replies have, which is to cost nothing.
#[inline]
fn words<const N: usize>(writer: &mut Writer<'_>, words: [u32; N]) {
    writer.bytes(words.map(u32::to_be_bytes).as_flattened());
}

fn write_call_of(
    writer: &mut Writer<'_>,
    procedure: Procedure,
    credentials: &Credentials,
) -> Result<(), WriteError> {
    let none = Credentials::none();
    let body = CallBody {
        rpcvers: RPC_VERSION,
        prog: procedure.program,
        vers: procedure.version,
        proc: procedure.number,
        cred: credentials.auth()?,
        verf: none.auth()?,
    };
    writer.put(&RpcMsg {
        xid: 0,
        body: RpcMsgBody::Call(body),
    })?;
    Ok(())
}

/// A call that has come.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Which procedure is called.
    pub procedure: Procedure,
    /// Who calls.
    pub caller: Caller<'a>,
    /// The arguments, in XDR, without the items that are apart.
    pub arguments: &'a [u8],
    /// Where they begin in the call, in octets from its beginning.
    pub position: u32,
    /// The data of opaques that the caller's Sends have placed apart, for a service that takes them
    /// so: only their counts are in the arguments.
    pub items: &'a [PlacedItem],
}

impl Call<'_> {
    /// Where what is left of the arguments begins in the call, in octets from its beginning, with
    /// everything in place: what [`Writer::answers`] takes. `left` is the end of the arguments,
    /// from one of the operations on.
    #[must_use]
    pub fn position_of(&self, left: &[u8]) -> u32 {
        let passed = self.arguments.len().saturating_sub(left.len());
        let at = self
            .position
            .saturating_add(u32::try_from(passed).unwrap_or(u32::MAX));
        // The data of items that are apart are between their counts and what follows.
        let behind = |at: u32, item: &PlacedItem| at.saturating_add(item.len().next_multiple_of(4));
        self.items.iter().fold(at, |at, item| {
            if item.position() <= at {
                behind(at, item)
            } else {
                at
            }
        })
    }
}

/// Who has called.
#[derive(Clone, Copy, Debug)]
pub enum Caller<'a> {
    /// Nobody in particular.
    None,
    /// A user of a machine.
    Sys(AuthsysParms<'a>),
}

/// Why a call is not served: what its reply says (RFC 5531, section 9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denial {
    /// Another version of RPC.
    RpcMismatch,
    /// Credentials that are not taken.
    Auth(AuthStat),
    /// The program is not here.
    ProgramUnavailable,
    /// The program is not here in this version.
    ProgramMismatch {
        /// The lowest that is.
        low: u32,
        /// The highest.
        high: u32,
    },
    /// The procedure is not there.
    ProcedureUnavailable,
    /// The arguments are no XDR of theirs.
    GarbageArguments,
    /// Something else went wrong here.
    System,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RpcMismatch => f.write_str("another version of RPC"),
            Self::Auth(why) => write!(f, "credentials that are not taken: {why}"),
            Self::ProgramUnavailable => f.write_str("the program is not there"),
            Self::ProgramMismatch { low, high } => {
                write!(f, "the program is there in the versions {low} to {high}")
            }
            Self::ProcedureUnavailable => f.write_str("the procedure is not there"),
            Self::GarbageArguments => f.write_str("the arguments can't be decoded"),
            Self::System => f.write_str("the server could not do it"),
        }
    }
}

impl std::error::Error for Denial {}

/// Reads a call with these items. None if it can't be answered: not even its beginning is there.
pub(crate) fn read_call<'a>(
    message: &'a [u8],
    items: &'a [PlacedItem],
) -> Option<Result<Call<'a>, Denial>> {
    // The version stands before what depends on it.
    let version = message.get(8..12)?;
    if version != RPC_VERSION.to_be_bytes() {
        return Some(Err(Denial::RpcMismatch));
    }
    let Ok((header, arguments)) = RpcMsg::from_prefix(message) else {
        return Some(Err(Denial::GarbageArguments));
    };
    let RpcMsgBody::Call(body) = header.body else {
        return None;
    };
    let procedure = Procedure {
        program: body.prog,
        version: body.vers,
        number: body.proc,
    };
    let position = u32::try_from(message.len() - arguments.len()).unwrap_or(u32::MAX);
    Some(caller(&body.cred).map(|caller| Call {
        procedure,
        caller,
        arguments,
        position,
        items,
    }))
}

fn caller<'a>(auth: &OpaqueAuth<'a>) -> Result<Caller<'a>, Denial> {
    match AuthFlavor::from_value(auth.flavor.cast_signed()) {
        Some(AuthFlavor::AuthNone) => Ok(Caller::None),
        Some(AuthFlavor::AuthSys) => {
            let parms = AuthsysParms::from_bytes(auth.body.as_bytes());
            parms
                .map(Caller::Sys)
                .map_err(|_| Denial::Auth(AuthStat::AuthBadcred))
        }
        _ => Err(Denial::Auth(AuthStat::AuthRejectedcred)),
    }
}

/// Writes the header of a reply: of a result, which follows, or of a denial.
pub(crate) fn write_reply(
    writer: &mut Writer<'_>,
    xid: u32,
    denial: Option<Denial>,
) -> Result<(), WriteError> {
    if denial.is_none() {
        words(writer, [xid, 1, 0, 0, 0, 0]);
        return Ok(());
    }
    write_reply_of(writer, xid, denial)
}

fn write_reply_of(
    writer: &mut Writer<'_>,
    xid: u32,
    denial: Option<Denial>,
) -> Result<(), WriteError> {
    let none = Credentials::none();
    let accepted = |reply_data| {
        Ok(ReplyBody::Accepted(AcceptedReply {
            verf: none.auth()?,
            reply_data,
        }))
    };
    let body = match denial {
        None => accepted(AcceptedReplyData::Success),
        Some(Denial::ProgramUnavailable) => accepted(AcceptedReplyData::ProgUnavail),
        Some(Denial::ProgramMismatch { low, high }) => {
            accepted(AcceptedReplyData::ProgMismatch(MismatchInfo { low, high }))
        }
        Some(Denial::ProcedureUnavailable) => accepted(AcceptedReplyData::ProcUnavail),
        Some(Denial::GarbageArguments) => accepted(AcceptedReplyData::GarbageArgs),
        Some(Denial::System) => accepted(AcceptedReplyData::SystemErr),
        Some(Denial::RpcMismatch) => Ok(ReplyBody::Denied(RejectedReply::RpcMismatch(
            MismatchInfo {
                low: RPC_VERSION,
                high: RPC_VERSION,
            },
        ))),
        Some(Denial::Auth(why)) => Ok(ReplyBody::Denied(RejectedReply::AuthError(why))),
    };
    let body: Result<ReplyBody<'_>, WriteError> = body;
    writer.put(&RpcMsg {
        xid,
        body: RpcMsgBody::Reply(body?),
    })?;
    Ok(())
}

/// Why a reply has no results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyFault {
    /// The server says so.
    Denied(Denial),
    /// It is no XDR of a reply.
    Xdr(rpcrdma_proto::xdr::Error),
    /// It is no reply.
    NoReply,
}

impl fmt::Display for ReplyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(denial) => denial.fmt(f),
            Self::Xdr(error) => write!(f, "the reply: {error}"),
            Self::NoReply => f.write_str("the answer is no reply"),
        }
    }
}

impl std::error::Error for ReplyFault {}

/// The results in a reply.
pub(crate) fn read_reply(message: &[u8]) -> Result<&[u8], ReplyFault> {
    let (header, results) = RpcMsg::from_prefix(message).map_err(ReplyFault::Xdr)?;
    let RpcMsgBody::Reply(body) = header.body else {
        return Err(ReplyFault::NoReply);
    };
    let denial = match body {
        ReplyBody::Accepted(AcceptedReply { reply_data, .. }) => match reply_data {
            AcceptedReplyData::Success => return Ok(results),
            AcceptedReplyData::ProgMismatch(MismatchInfo { low, high }) => {
                Denial::ProgramMismatch { low, high }
            }
            AcceptedReplyData::ProgUnavail => Denial::ProgramUnavailable,
            AcceptedReplyData::ProcUnavail => Denial::ProcedureUnavailable,
            AcceptedReplyData::GarbageArgs => Denial::GarbageArguments,
            AcceptedReplyData::SystemErr => Denial::System,
        },
        ReplyBody::Denied(RejectedReply::RpcMismatch(_)) => Denial::RpcMismatch,
        ReplyBody::Denied(RejectedReply::AuthError(why)) => Denial::Auth(why),
    };
    Err(ReplyFault::Denied(denial))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Message;

    fn written(write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>) -> Vec<u8> {
        let mut message = Message::default();
        write(&mut Writer::new(&mut message)).expect("it can be written");
        message.head
    }

    #[test]
    fn what_is_written_word_by_word_is_what_the_types_say() {
        let (procedure, none) = (
            Procedure {
                program: 100_003,
                version: 4,
                number: 1,
            },
            Credentials::none(),
        );
        assert_eq!(
            written(|writer| write_call(writer, procedure, &none)),
            written(|writer| write_call_of(writer, procedure, &none))
        );
        assert_eq!(
            written(|writer| write_reply(writer, 7, None)),
            written(|writer| write_reply_of(writer, 7, None))
        );
    }
}
