//! Messages in several transmissions (rtrext-02) as text.
//!
//! The wording is output of the command `rpcrdma`, as that of `dump`. An operation of `name`
//! without an arm in `show`, or one that cannot be decoded, is displayed by its name only.

use std::fmt;

use rpcrdma_proto::continuation::{GroupError, GroupErrorReport, OperationSet};
use rpcrdma_proto::property::RtrCapability;
use rpcrdma_proto::v2::rtr::{
    Cont, Grpinfo, Loc, OptreptErr, ROPT_REPTERR, ROPT_XMTCONT, ROPT_XMTREQ, ROPT_XMTRESP, Req,
    Resp, Rsdgroup, Rsdloc,
};
use rpcrdma_proto::xdr::Decode;

use super::{direction_name, separate};

/// Returns the name of an operation, or `None` if it is of another draft.
pub(super) const fn name(code: u32) -> Option<&'static str> {
    Some(match code {
        ROPT_XMTREQ => "ROPT_XMTREQ",
        ROPT_XMTRESP => "ROPT_XMTRESP",
        ROPT_XMTCONT => "ROPT_XMTCONT",
        ROPT_REPTERR => "ROPT_REPTERR",
        _ => return None,
    })
}

/// Displays an operation, if it can be decoded.
pub(super) fn show(code: u32, info: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match code {
        ROPT_XMTREQ => Req::from_bytes(info).map_or(Ok(()), |decoded| {
            transmissions(decoded.count, decoded.pslen, f)?;
            items(&decoded.dp, f)?;
            directions(&decoded.rsd, f)?;
            reserved(decoded.rsbuf, f)
        }),
        ROPT_XMTRESP => Resp::from_bytes(info).map_or(Ok(()), |decoded| {
            transmissions(decoded.count, decoded.pslen, f)?;
            items(&decoded.dp, f)
        }),
        ROPT_XMTCONT => Cont::from_bytes(info).map_or(Ok(()), |decoded| {
            separate(f)?;
            write!(
                f,
                "transmission {}, {} bytes of stream",
                decoded.xnum, decoded.pslen
            )
        }),
        ROPT_REPTERR => {
            OptreptErr::from_bytes(info).map_or(Ok(()), |decoded| report(&decoded.into(), f))
        }
        _ => Ok(()),
    }
}

fn transmissions(count: u32, stream: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    separate(f)?;
    write!(f, "1 of {count} transmissions, {stream} bytes of stream")
}

fn reserved(count: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if count == 0 {
        return Ok(());
    }
    separate(f)?;
    write!(f, "the reply in up to {count}")
}

fn items(all: &Grpinfo<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for item in all.iter() {
        separate(f)?;
        match item.r#where {
            Loc::Exrw(segments) => write!(
                f,
                "{} bytes at {} in {} segments",
                item.length,
                item.disp,
                segments.len()
            )?,
            Loc::Tbsn(place) => {
                write!(f, "{} bytes at {} placed into", item.length, item.disp)?;
                for target in place.bsnum.iter() {
                    write!(f, " {target}")?;
                }
            }
            Loc::Tooshort => write!(f, "{} bytes at {} left in place", item.length, item.disp)?,
            Loc::Noitem => f.write_str("no item")?,
        }
    }
    Ok(())
}

fn directions(all: &Rsdgroup<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for set in all.iter() {
        for item in set.items.iter() {
            separate(f)?;
            match item.loc {
                Rsdloc::Exrw(_) => f.write_str("a result to be written")?,
                Rsdloc::Choice(_) => f.write_str("a result to be written or placed")?,
                Rsdloc::Bysize(by) => write!(
                    f,
                    "a result to be placed, or written from {} bytes on",
                    by.dsdov
                )?,
                Rsdloc::Tbsn => f.write_str("a result to be placed")?,
            }
        }
    }
    Ok(())
}

fn report(report: &GroupErrorReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let GroupErrorReport { bad, lead, why } = report;
    separate(f)?;
    write!(
        f,
        "transmission {} of the {} {:#010x}: {why}",
        bad.number,
        direction_name(bad.direction),
        bad.xid
    )?;
    match lead {
        Some(lead) if !matches!(why, GroupError::Continuation) => {
            write!(
                f,
                ", after the {} {:#010x}",
                direction_name(lead.direction),
                lead.xid
            )
        }
        _ => Ok(()),
    }
}

/// Displays a property of rtrext-02.
pub(super) fn ability(
    what: &str,
    value: &RtrCapability,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match value {
        RtrCapability::Operations(operations) => {
            write!(f, "{what}takes")?;
            let all = [
                (OperationSet::REQUESTS, "ROPT_XMTREQ"),
                (OperationSet::RESPONSES, "ROPT_XMTRESP"),
                (OperationSet::CONTINUATIONS, "ROPT_XMTCONT"),
            ];
            for (_, name) in all.iter().filter(|(one, _)| operations.contains(*one)) {
                write!(f, " {name}")?;
            }
            if *operations == OperationSet::NONE {
                f.write_str(" no transmissions")
            } else {
                Ok(())
            }
        }
        RtrCapability::Structure(None) => write!(f, "{what}receive buffers of one segment"),
        RtrCapability::Structure(Some(structure)) => {
            write!(f, "{what}receive buffers of")?;
            for segment in structure.segments() {
                write!(
                    f,
                    " {}{}",
                    segment.length,
                    if segment.target { " for data" } else { "" }
                )?;
            }
            Ok(())
        }
        RtrCapability::RequestLimit(limit) => {
            write!(f, "{what}requests in up to {limit} transmissions")
        }
        RtrCapability::ResponseLimit(limit) => {
            write!(f, "{what}replies in up to {limit} transmissions")
        }
    }
}

#[cfg(test)]
mod tests {
    use rpcrdma_proto::v2::MsgType;
    use rpcrdma_proto::v2::rtr::{
        Cont, Id, Loc, LocTbsn, Mitem, OptrInfo, OptrInfoMismatch, OptreptErr, ROPT_REPTERR,
        ROPT_XMTCONT, ROPT_XMTREQ, Req, Rsditem, Rsdloc, Rsdrange, Rsdset,
    };
    use rpcrdma_proto::v2::{Body, Optional, XprtHdr};
    use rpcrdma_proto::xdr::Encode;

    use crate::dump::Dump;

    fn message(opttype: u32, optdir: MsgType, info: &impl Encode) -> Vec<u8> {
        let optinfo = info.encode_to_vec().unwrap();
        let body = Body::Optional(Optional {
            optdir,
            opttype,
            optinfo: &optinfo,
        });
        XprtHdr {
            xid: 7,
            vers: 2,
            credit: 32,
            body,
        }
        .encode_to_vec()
        .unwrap()
    }

    #[test]
    fn each_operation_can_be_read() {
        let items = [Mitem {
            disp: 100,
            length: 65_536,
            r#where: Loc::Tbsn(LocTbsn {
                offset: 0,
                bsnum: (&[0]).into(),
            }),
        }];
        let directed = [Rsditem {
            minlen: 1024,
            loc: Rsdloc::Tbsn,
        }];
        let sets = [Rsdset {
            range: Rsdrange {
                begin: 0,
                end: 65_736,
            },
            items: (&directed).into(),
        }];
        let request = Req {
            dp: (&items).into(),
            rsd: (&sets).into(),
            count: 2,
            rsbuf: 3,
            pslen: 200,
        };
        let id = |seq| Id {
            xid: 7,
            dir: MsgType::Call,
            seq,
        };
        let info = OptrInfo::Badseq(OptrInfoMismatch {
            expect: 1,
            current: 2,
        });
        let report = OptreptErr {
            bad: id(2),
            lead: Some(id(0)),
            info,
        };
        let shown = [
            Dump::new(&message(ROPT_XMTREQ, MsgType::Call, &request)).to_string(),
            Dump::new(&message(
                ROPT_XMTCONT,
                MsgType::Call,
                &Cont {
                    xnum: 1,
                    itype: 5,
                    pslen: 96,
                },
            ))
            .to_string(),
            Dump::new(&message(ROPT_REPTERR, MsgType::Reply, &report)).to_string(),
        ];
        assert_eq!(
            shown,
            [
                "ROPT_XMTREQ call 0x00000007, 32 credits, 1 of 2 transmissions, 200 bytes of \
                stream, 65536 bytes at 100 placed \
                 into 0, a result to be placed, the reply in up to 3",
                "ROPT_XMTCONT call 0x00000007, 32 credits, transmission 1, 96 bytes of stream",
                "ROPT_REPTERR reply 0x00000007, 32 credits, transmission 2 of the call \
                0x00000007: transmission 2 where 1 was \
                 expected, after the call 0x00000007",
            ]
        );
    }
}
