//! The cases of rtrext-02.

#[path = "group_cases/form.rs"]
mod form;
#[path = "group_cases/order.rs"]
mod order;
#[path = "group_cases/placed.rs"]
mod placed;
#[path = "group_cases/reported.rs"]
mod reported;

use rpcrdma_proto::connection::Role;

use crate::To;
use crate::cases::{Case, NONE};
use crate::raw::{Transmission, request};

/// Types of directions.
const EXRW: u32 = 1;
const TBSN: u32 = 2;
const CHOICE: u32 = 3;
const BYSIZE: u32 = 4;

/// Errors of ROPT_REPTERR.
const BADHMT: u32 = 1;
const BADCONT: u32 = 3;
const BADSEQ: u32 = 4;
const BADPL: u32 = 8;

/// A reason that tells nothing more.
const NOTHING: &[u32] = &[BADCONT];

type Messages = Option<Vec<Vec<u8>>>;

pub(crate) fn all() -> Vec<Case> {
    let all = [
        form::shapes(),
        form::sections(),
        placed::placements(),
        placed::items(),
        placed::directions(),
        order::groups(),
        order::between(),
        order::replies(),
    ];
    all.into_iter()
        .chain([
            reported::results(),
            reported::reports(),
            reported::capabilities(),
            reported::invalidation(),
        ])
        .flatten()
        .collect()
}

#[expect(clippy::unnecessary_wraps, reason = "as the cases want it")]
fn one(transmission: &Transmission) -> Messages {
    Some(vec![transmission.bytes()])
}

/// A group of so many transmissions, all of them there.
fn group(first: &Transmission, count: u32) -> Vec<Vec<u8>> {
    let first = first.clone().of(count);
    let more = (1..count).map(|number| first.more(number).bytes());
    [first.bytes()].into_iter().chain(more).collect()
}

/// A call of two transmissions, and messages between them.
fn interrupted(by: &[Vec<u8>]) -> Messages {
    let mut messages = group(&request(NONE), 2);
    messages.splice(1..1, by.iter().cloned());
    Some(messages)
}

fn client(to: &To, messages: impl FnOnce() -> Messages) -> Messages {
    if to.role == Role::Client {
        messages()
    } else {
        None
    }
}
