//! An NFSv4.1 COMPOUND reply: SEQUENCE, PUTFH, READ of a quarter page, GETATTR.

use std::hint::black_box;

use xdrgen_runtime::{Decode, Decoder};

use super::encoded;
use crate::codec::Codec;
use crate::hand::compound;
use crate::message::Message;
use crate::nfs::{
    Compound4res, Fattr4, Getattr4res, Getattr4resok, NfsOpnum4, NfsResop4, NfsResop4Visitor,
    Nfsstat4, Putfh4res, Read4res, Read4resok, Sequence4res, Sequence4resok, owned,
};

const TAG: &[u8] = b"read";
const SESSION: [u8; 16] = *b"0123456789abcdef";
static DATA: [u8; 1024] = [0x5a; 1024];
const MASK: [u32; 2] = [0x0010_011a, 0x00b0_a23a];
static ATTRIBUTES: [u8; 120] = [7; 120];

pub(super) fn reply() -> Message {
    let sequence = Sequence4resok {
        sr_sessionid: SESSION,
        sr_sequenceid: 7,
        sr_slotid: 1,
        sr_highest_slotid: 63,
        sr_target_highest_slotid: 63,
        sr_status_flags: 0,
    };
    let obj_attributes = Fattr4 {
        attrmask: (&MASK).into(),
        attr_vals: &ATTRIBUTES,
    };
    let results = vec![
        NfsResop4::Sequence(Sequence4res::Nfs4Ok(sequence)),
        NfsResop4::Putfh(Putfh4res {
            status: Nfsstat4::Nfs4Ok,
        }),
        NfsResop4::Read(Read4res::Nfs4Ok(Read4resok {
            eof: true,
            data: &DATA,
        })),
        NfsResop4::Getattr(Getattr4res::Nfs4Ok(Getattr4resok { obj_attributes })),
    ];
    let value = Compound4res {
        status: Nfsstat4::Nfs4Ok,
        tag: TAG,
        resarray: (&*results.leak()).into(),
    };
    let by_hand = compound::Reply {
        tag: TAG,
        session: SESSION,
        sequence: [7, 1, 63, 63, 0],
        eof: true,
        data: &DATA,
        mask: &MASK,
        attributes: &ATTRIBUTES,
    };
    Message::new("nfs-compound", move |buffer| {
        encoded(black_box(&value), buffer)
    })
    .encode(Codec::Hand, move |buffer| {
        compound::encode(black_box(&by_hand), buffer)
    })
    .decode(Codec::Generated, Compound4res::from_bytes)
    .decode(Codec::Owned, owned::Compound4res::from_bytes)
    .decode(Codec::Hand, compound::visit)
    .decode(Codec::Locating, compound::locate)
    .visit(Codec::Generated, sum)
    .visit(Codec::Hand, compound::visit)
}

fn sum(bytes: &'static [u8]) -> Option<u64> {
    let mut decoder = Decoder::new(bytes);
    let mut sum = Sum {
        results: 0,
        expected: true,
    };
    let reply = Compound4res::visit_resarray(&mut decoder, &mut sum).ok()?;
    decoder.finish().ok()?;
    let total = u64::from(reply.status.value().cast_unsigned()) + reply.tag.len() as u64;
    sum.expected.then_some(total + sum.results)
}

/// The sum of all results, and whether each was expected.
struct Sum {
    results: u64,
    expected: bool,
}

impl Sum {
    fn add(&mut self, operation: NfsOpnum4, sum: u64) {
        let operation = u64::from(operation.value().cast_unsigned());
        self.results += operation + sum;
    }
}

impl<'a> NfsResop4Visitor<'a> for Sum {
    fn other(&mut self, _: NfsResop4<'a>) {
        self.expected = false;
    }

    fn sequence(&mut self, result: Sequence4res) {
        match result {
            Sequence4res::Nfs4Ok(ok) => self.add(NfsOpnum4::Sequence, sequence(&ok)),
            other => self.other(NfsResop4::Sequence(other)),
        }
    }

    fn putfh(&mut self, result: Putfh4res) {
        let status = result.status.value().cast_unsigned();
        self.add(NfsOpnum4::Putfh, u64::from(status));
    }

    fn read(&mut self, result: Read4res<'a>) {
        match result {
            Read4res::Nfs4Ok(ok) => {
                self.add(NfsOpnum4::Read, u64::from(ok.eof) + ok.data.len() as u64);
            }
            other => self.other(NfsResop4::Read(other)),
        }
    }

    fn getattr(&mut self, result: Getattr4res<'a>) {
        match result {
            Getattr4res::Nfs4Ok(ok) => self.add(NfsOpnum4::Getattr, attributes(&ok.obj_attributes)),
            other => self.other(NfsResop4::Getattr(other)),
        }
    }
}

fn sequence(ok: &Sequence4resok) -> u64 {
    let slots = [
        ok.sr_sequenceid,
        ok.sr_slotid,
        ok.sr_highest_slotid,
        ok.sr_target_highest_slotid,
    ];
    let session = ok.sr_sessionid.iter().map(|byte| u64::from(*byte));
    session.sum::<u64>() + slots.map(u64::from).iter().sum::<u64>() + u64::from(ok.sr_status_flags)
}

fn attributes(attributes: &Fattr4<'_>) -> u64 {
    let mask = attributes.attrmask.iter().map(u64::from);
    mask.sum::<u64>() + attributes.attr_vals.len() as u64
}
