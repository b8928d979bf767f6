//! What can be wrong with a group of transmissions, and how it is reported (rtrext-02, section 9.5).

use core::fmt;

use crate::v2::MsgType;
use crate::v2::rtr::{Id, OptrInfo, OptrInfoMismatch, OptrInfoRange, OptreptErr};

/// Why a group of transmissions is broken: what ROPT_REPTERR tells.
// spec: rtr-9.5-e, rtr-9.5-f, rtr-9.5-g, rtr-9.5-h, rtr-9.5-i, rtr-9.5-j, rtr-9.5-k, rtr-9.5-l
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Broken {
    /// A message of another kind has come between its transmissions.
    HeaderType(Mismatch),
    /// Another operation has, or one that continues a message of the other direction.
    Operation(Mismatch),
    /// A continuation where nothing was begun.
    Continuation,
    /// A transmission out of its order.
    Sequence(Mismatch),
    /// A continuation of another XID.
    Xid(Mismatch),
    /// A target that there is not, or that has no data.
    Target(Range),
    /// Data that begin beyond their target.
    Offset(Range),
    /// More octets of the Payload stream than have come.
    Payload(Range),
}

/// What was expected, and what came.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mismatch {
    /// What was expected.
    pub expected: u32,
    /// What came.
    pub came: u32,
}

/// A value, and those that are valid. One within them is not aligned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Range {
    /// What came.
    pub value: u32,
    /// The least that is valid.
    pub least: u32,
    /// The most.
    pub most: u32,
}

impl From<Broken> for OptrInfo {
    // spec: rtr-9.5-m, rtr-9.5-n, rtr-9.5-o, rtr-9.5-p, rtr-9.5-q
    fn from(broken: Broken) -> Self {
        let mismatch = |Mismatch { expected, came }| OptrInfoMismatch { expect: expected, current: came };
        let range = |Range { value, least, most }| OptrInfoRange { value, min: least, max: most };
        match broken {
            Broken::HeaderType(what) => Self::Badhmt(mismatch(what)),
            Broken::Operation(what) => Self::Badomt(mismatch(what)),
            Broken::Continuation => Self::Badcont,
            Broken::Sequence(what) => Self::Badseq(mismatch(what)),
            Broken::Xid(what) => Self::Badxid(mismatch(what)),
            Broken::Target(what) => Self::Badtbsn(range(what)),
            Broken::Offset(what) => Self::Badoff(range(what)),
            Broken::Payload(what) => Self::Badpl(range(what)),
        }
    }
}

impl From<OptrInfo> for Broken {
    fn from(info: OptrInfo) -> Self {
        let mismatch = |OptrInfoMismatch { expect, current }| Mismatch { expected: expect, came: current };
        let range = |OptrInfoRange { value, min, max }| Range { value, least: min, most: max };
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

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mismatch = |f: &mut fmt::Formatter<'_>, what: &str, Mismatch { expected, came }: Mismatch| {
            write!(f, "{what} {came} where {expected} was expected")
        };
        let range = |f: &mut fmt::Formatter<'_>, what: &str, Range { value, least, most }: Range| {
            write!(f, "{what} {value}, of {least} to {most}")
        };
        match *self {
            Self::HeaderType(what) => mismatch(f, "a message of type", what),
            Self::Operation(what) => mismatch(f, "an operation", what),
            Self::Continuation => f.write_str("a continuation of nothing"),
            Self::Sequence(what) => mismatch(f, "transmission", what),
            Self::Xid(what) => mismatch(f, "a continuation of XID", what),
            Self::Target(what) => range(f, "a target with the number", what),
            Self::Offset(what) => range(f, "data at the offset", what),
            Self::Payload(what) => range(f, "a Payload stream of octets", what),
        }
    }
}

impl core::error::Error for Broken {}

/// A transmission: the message that it is of, and its number.
// spec: rtr-6.1-a
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The message's XID.
    pub xid: u32,
    /// Call or reply.
    pub direction: MsgType,
    /// Its number, from zero on (decision D19); zero for a message in one.
    pub number: u32,
}

/// A report of a broken group: ROPT_REPTERR.
// spec: rtr-9.5-s, rtr-9.5-t, rtr-9.5-u
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Report {
    /// The transmission at which it was found.
    pub bad: Part,
    /// An earlier one that may have led to it.
    pub lead: Option<Part>,
    /// What is wrong.
    pub why: Broken,
}

impl From<Part> for Id {
    fn from(part: Part) -> Self {
        Self { xid: part.xid, dir: part.direction, seq: part.number }
    }
}

impl From<Id> for Part {
    fn from(id: Id) -> Self {
        Self { xid: id.xid, direction: id.dir, number: id.seq }
    }
}

impl From<Report> for OptreptErr {
    fn from(report: Report) -> Self {
        Self { bad: report.bad.into(), lead: report.lead.map(Id::from), info: report.why.into() }
    }
}

impl From<OptreptErr> for Report {
    fn from(told: OptreptErr) -> Self {
        Self { bad: told.bad.into(), lead: told.lead.map(Part::from), why: told.info.into() }
    }
}
