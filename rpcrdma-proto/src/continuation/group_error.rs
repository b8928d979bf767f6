//! Errors in groups of transmissions, and their reports (rtrext-02, section 9.5).
//!
//! This module converts between the errors and their encoding. `connection::rtr::reassembly` finds
//! errors, and `connection::session::groups` reports them and handles the reports of the peer.

use core::fmt;

use crate::v2::MsgType;
use crate::v2::rtr::{Id, OptrInfo, OptrInfoMismatch, OptrInfoRange, OptreptErr};

/// Describes why a group of transmissions is broken: the content of ROPT_REPTERR.
// spec: rtr-9.5-e, rtr-9.5-f, rtr-9.5-g, rtr-9.5-h, rtr-9.5-i, rtr-9.5-j, rtr-9.5-k, rtr-9.5-l
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GroupError {
    /// A message of another kind has come between its transmissions.
    HeaderType(Mismatch),
    /// The operation differs, or continues a message of the other direction.
    Operation(Mismatch),
    /// A continuation arrived without a group.
    Continuation,
    /// A transmission out of its order.
    Sequence(Mismatch),
    /// A continuation of another XID.
    Xid(Mismatch),
    /// A target that does not exist, or that has no data.
    Target(OutOfRange),
    /// Data that begin beyond their target.
    Offset(OutOfRange),
    /// More bytes of the Payload stream than have come.
    Payload(OutOfRange),
}

/// The expected value, and the received value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mismatch {
    /// What was expected.
    pub expected: u32,
    /// What came.
    pub received: u32,
}

/// A received value, and the valid range. A value within the range is not aligned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OutOfRange {
    /// What came.
    pub value: u32,
    /// The least that is valid.
    pub min: u32,
    /// The most.
    pub max: u32,
}

impl From<GroupError> for OptrInfo {
    // spec: rtr-9.5-m, rtr-9.5-n, rtr-9.5-o, rtr-9.5-p, rtr-9.5-q
    fn from(broken: GroupError) -> Self {
        let mismatch = |Mismatch { expected, received }| OptrInfoMismatch {
            expect: expected,
            current: received,
        };
        let range = |OutOfRange {
                         value,
                         min: least,
                         max: most,
                     }| OptrInfoRange {
            value,
            min: least,
            max: most,
        };
        match broken {
            GroupError::HeaderType(what) => Self::Badhmt(mismatch(what)),
            GroupError::Operation(what) => Self::Badomt(mismatch(what)),
            GroupError::Continuation => Self::Badcont,
            GroupError::Sequence(what) => Self::Badseq(mismatch(what)),
            GroupError::Xid(what) => Self::Badxid(mismatch(what)),
            GroupError::Target(what) => Self::Badtbsn(range(what)),
            GroupError::Offset(what) => Self::Badoff(range(what)),
            GroupError::Payload(what) => Self::Badpl(range(what)),
        }
    }
}

impl From<OptrInfo> for GroupError {
    fn from(info: OptrInfo) -> Self {
        let mismatch = |OptrInfoMismatch { expect, current }| Mismatch {
            expected: expect,
            received: current,
        };
        let range = |OptrInfoRange { value, min, max }| OutOfRange { value, min, max };
        match info {
            OptrInfo::Badhmt(what) => Self::HeaderType(mismatch(what)),
            OptrInfo::Badomt(what) => Self::Operation(mismatch(what)),
            OptrInfo::Badcont => Self::Continuation,
            OptrInfo::Badseq(what) => Self::Sequence(mismatch(what)),
            OptrInfo::Badxid(what) => Self::Xid(mismatch(what)),
            OptrInfo::Badtbsn(what) => Self::Target(range(what)),
            OptrInfo::Badoff(what) => Self::Offset(range(what)),
            OptrInfo::Badpl(what) => Self::Payload(range(what)),
        }
    }
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mismatch =
            |f: &mut fmt::Formatter<'_>, what: &str, Mismatch { expected, received }: Mismatch| {
                write!(f, "{what} {received} where {expected} was expected")
            };
        let range =
            |f: &mut fmt::Formatter<'_>,
             what: &str,
             OutOfRange {
                 value,
                 min: least,
                 max: most,
             }: OutOfRange| { write!(f, "{what} {value}, of {least} to {most}") };
        match *self {
            Self::HeaderType(what) => mismatch(f, "a message of type", what),
            Self::Operation(what) => mismatch(f, "an operation", what),
            Self::Continuation => f.write_str("a continuation of nothing"),
            Self::Sequence(what) => mismatch(f, "transmission", what),
            Self::Xid(what) => mismatch(f, "a continuation of XID", what),
            Self::Target(what) => range(f, "a target with the number", what),
            Self::Offset(what) => range(f, "data at the offset", what),
            Self::Payload(what) => range(f, "a Payload stream of bytes", what),
        }
    }
}

impl core::error::Error for GroupError {}

/// A transmission: the message that it is of, and its number.
// spec: rtr-6.1-a
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TransmissionId {
    /// The message's XID.
    pub xid: u32,
    /// Call or reply.
    pub direction: MsgType,
    /// The number of the transmission, from zero (decision D19); zero for a message in one
    /// transmission.
    pub number: u32,
}

/// A report of a broken group: ROPT_REPTERR.
// spec: rtr-9.5-s, rtr-9.5-t, rtr-9.5-u
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GroupErrorReport {
    /// The transmission at which it was found.
    pub bad: TransmissionId,
    /// An earlier transmission that may have caused the error.
    pub lead: Option<TransmissionId>,
    /// The error.
    pub why: GroupError,
}

impl From<TransmissionId> for Id {
    fn from(part: TransmissionId) -> Self {
        Self {
            xid: part.xid,
            dir: part.direction,
            seq: part.number,
        }
    }
}

impl From<Id> for TransmissionId {
    fn from(id: Id) -> Self {
        Self {
            xid: id.xid,
            direction: id.dir,
            number: id.seq,
        }
    }
}

impl From<GroupErrorReport> for OptreptErr {
    fn from(report: GroupErrorReport) -> Self {
        Self {
            bad: report.bad.into(),
            lead: report.lead.map(Id::from),
            info: report.why.into(),
        }
    }
}

impl From<OptreptErr> for GroupErrorReport {
    fn from(report: OptreptErr) -> Self {
        Self {
            bad: report.bad.into(),
            lead: report.lead.map(TransmissionId::from),
            why: report.info.into(),
        }
    }
}
