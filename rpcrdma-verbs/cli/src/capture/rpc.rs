//! The header of an RPC message (RFC 5531, section 9).

use std::fmt;

use super::packet::Bytes;
use crate::program_name::Program;

/// The header of an RPC message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RpcHeader {
    Call(RpcCall),
    Reply(RpcReply),
}

/// The called procedure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RpcCall {
    pub(super) program: u32,
    pub(super) version: u32,
    pub(super) procedure: u32,
}

/// The status of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RpcReply {
    /// `MSG_ACCEPTED`, with `accept_stat`.
    Accepted(u32),
    /// `MSG_DENIED`, with `reject_stat`.
    Denied(u32),
}

impl RpcHeader {
    /// Parses the header of the message `xid`, or returns `None` if the bytes are not an RPC
    /// message.
    pub(super) fn parse(bytes: &[u8], xid: u32) -> Option<Self> {
        let mut bytes = Bytes(bytes);
        if bytes.u32()? != xid {
            return None;
        }
        match bytes.u32()? {
            0 => {
                let rpc_version = bytes.u32()?;
                let (program, version, procedure) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
                let call = RpcCall {
                    program,
                    version,
                    procedure,
                };
                (rpc_version == 2).then_some(Self::Call(call))
            }
            1 => match bytes.u32()? {
                0 => {
                    bytes.u32()?;
                    let verifier = usize::try_from(bytes.u32()?).ok()?;
                    bytes.take(verifier.checked_next_multiple_of(4)?)?;
                    Some(Self::Reply(RpcReply::Accepted(bytes.u32()?)))
                }
                1 => Some(Self::Reply(RpcReply::Denied(bytes.u32()?))),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The procedures of NFSv3 (RFC 1813).
const NFS3: [&str; 22] = [
    "NULL",
    "GETATTR",
    "SETATTR",
    "LOOKUP",
    "ACCESS",
    "READLINK",
    "READ",
    "WRITE",
    "CREATE",
    "MKDIR",
    "SYMLINK",
    "MKNOD",
    "REMOVE",
    "RMDIR",
    "RENAME",
    "LINK",
    "READDIR",
    "READDIRPLUS",
    "FSSTAT",
    "FSINFO",
    "PATHCONF",
    "COMMIT",
];
/// The procedures of NFSv4 (RFC 8881).
const NFS4: [&str; 2] = ["NULL", "COMPOUND"];
/// The procedures of MOUNT 3 (RFC 1813, appendix I).
const MOUNT3: [&str; 6] = ["NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"];

impl RpcCall {
    /// Returns the name of the procedure, if it belongs to NFS.
    fn procedure_name(&self) -> Option<&'static str> {
        let procedures: &[&str] = match (self.program, self.version) {
            (100_003, 3) => &NFS3,
            (100_003, 4) => &NFS4,
            (100_005, 3) => &MOUNT3,
            _ => &[],
        };
        let procedure = usize::try_from(self.procedure).ok();
        procedure.and_then(|at| procedures.get(at).copied())
    }
}

impl fmt::Display for RpcCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = Program(self.program);
        match program.name() {
            Some(name) => f.write_str(name)?,
            None => write!(f, "program {program}")?,
        }
        write!(f, " version {}", self.version)?;
        match self.procedure_name() {
            Some(name) => write!(f, " {name}"),
            None if self.procedure == 0 => f.write_str(" NULL"),
            None => write!(f, " procedure {}", self.procedure),
        }
    }
}

impl RpcReply {
    /// Returns the name of the status in RFC 5531.
    pub(super) fn name(self) -> &'static str {
        const ACCEPTED: [&str; 6] = [
            "SUCCESS",
            "PROG_UNAVAIL",
            "PROG_MISMATCH",
            "PROC_UNAVAIL",
            "GARBAGE_ARGS",
            "SYSTEM_ERR",
        ];
        const DENIED: [&str; 2] = ["RPC_MISMATCH", "AUTH_ERROR"];
        let (names, status): (&[&str], _) = match self {
            Self::Accepted(status) => (&ACCEPTED, status),
            Self::Denied(status) => (&DENIED, status),
        };
        let status = usize::try_from(status).ok();
        let name = status.and_then(|at| names.get(at).copied());
        name.unwrap_or("a status that RFC 5531 does not have")
    }
}

#[cfg(test)]
mod tests {
    use super::{RpcCall, RpcHeader, RpcReply};

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn known_procedures_have_names() {
        let bytes = words(&[7, 0, 2, 100_003, 3, 6, 0, 0, 0, 0]);
        let Some(RpcHeader::Call(call)) = RpcHeader::parse(&bytes, 7) else {
            panic!("it is a call");
        };
        assert_eq!(call.to_string(), "NFS version 3 READ");
        let other = RpcCall {
            program: 9,
            version: 1,
            procedure: 2,
        };
        assert_eq!(other.to_string(), "program 9 version 1 procedure 2");
        let other = RpcCall {
            program: 0x2000_0001,
            procedure: 0,
            ..other
        };
        assert_eq!(other.to_string(), "program 0x20000001 version 1 NULL");
        assert_eq!(RpcHeader::parse(&bytes, 8), None);
        assert_eq!(RpcHeader::parse(&bytes[..20], 7), None);
    }

    #[test]
    fn reply_status_follows_the_verifier() {
        let bytes = words(&[7, 1, 0, 6, 8, 1, 2, 4]);
        let reply = RpcHeader::parse(&bytes, 7);
        assert_eq!(reply, Some(RpcHeader::Reply(RpcReply::Accepted(4))));
        assert_eq!(RpcReply::Accepted(4).name(), "GARBAGE_ARGS");
        let bytes = words(&[7, 1, 1, 1]);
        let reply = RpcHeader::parse(&bytes, 7);
        assert_eq!(reply, Some(RpcHeader::Reply(RpcReply::Denied(1))));
        let long = words(&[7, 1, 0, 0, u32::MAX, 0]);
        assert_eq!(RpcHeader::parse(&long, 7), None);
    }
}
