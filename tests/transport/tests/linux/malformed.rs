//! Malformed messages to the kernel's NFS server and to this crate's engine.

use std::time::Duration;

use rpcrdma_proto::chunk::ChunkLimits;
use rpcrdma_proto::connection::{Action, BufferId, Config, Event, Session};
use rpcrdma_proto::error::{PeerError, Refusal, RefusalReason};
use rpcrdma_proto::header::{Header, HeaderBody};
use rpcrdma_proto::private_data::PrivateData;
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::provider::any::AnyDevice;

use crate::cases::{self, CALLS, CHUNK, Case, ERROR, LOST, SERVED, SILENCE, Segment, XID};
use crate::peer::Linux;
use crate::wire::{PeerEvent, Wire};
use crate::{null_call, word, words};

/// The XID of the valid call that follows.
const NEXT: u32 = 0x0600_0d00;
/// The timeouts for an answer and for silence.
const ANSWER: Duration = Duration::from_secs(20);
const SILENT: Duration = Duration::from_millis(500);
/// The XID of the NULL calls that fill Linux's buffers, and their number: each receive of a
/// connection is used at least once.
const EARLIER: u32 = 0x0ea2_71e2;
const EARLIER_CALLS: u32 = 192;

/// Returns true if an XID belongs to a case.
fn sent(xid: u32) -> bool {
    (XID..XID + CALLS).contains(&xid)
}

/// Describes an answer.
fn answer(bytes: &[u8]) -> String {
    // An RDMA_ERROR of any version.
    if bytes.len() == 28 && word(bytes, 3) == ERROR && word(bytes, 4) == 1 {
        assert_eq!(word(bytes, 0), XID);
        return format!("`ERR_VERS`, {} to {}", word(bytes, 5), word(bytes, 6));
    }
    let header = match Header::parse(bytes, Version::Two) {
        Ok(header) => header,
        Err(Refusal {
            reason: RefusalReason::Xid,
            ..
        }) => {
            return format!("{SERVED}, header and reply each with the XID of its own");
        }
        Err(why) => return format!("no header: {why}, {bytes:x?}"),
    };
    let about = match header.xid {
        xid if sent(xid) => String::new(),
        EARLIER => " of the XID of an earlier call".to_owned(),
        xid => format!(" to {xid:#x}"),
    };
    match header.body {
        HeaderBody::Error(PeerError::Header) => format!("{CHUNK}{about}"),
        HeaderBody::Error(PeerError::Versions { low, high }) => {
            format!("`ERR_VERS`, {low} to {high}{about}")
        }
        HeaderBody::Long { chunks, .. } => {
            let long = chunks
                .reply(&ChunkLimits::DEFAULT)
                .expect("a chunk of ours")
                .is_some();
            format!(
                "{SERVED}{about}{}",
                if long {
                    ", in the Reply chunk"
                } else {
                    " nowhere"
                }
            )
        }
        HeaderBody::Message { payload, .. }
            if payload.len() == 24 && (word(payload, 2), word(payload, 5)) == (0, 0) =>
        {
            format!("{SERVED}{about}")
        }
        HeaderBody::Message { payload, .. } if payload.len() >= 12 && word(payload, 2) == 1 => {
            format!("{SERVED}{about} by MSG_DENIED")
        }
        other => format!("{other:?}"),
    }
}

/// Joins the descriptions without repetitions, in order of first occurrence.
fn joined(said: &[String]) -> String {
    let mut found: Vec<(&str, usize)> = Vec::new();
    for one in said {
        match found.iter_mut().find(|(other, _)| other == one) {
            Some((_, times)) => *times += 1,
            None => found.push((one, 1)),
        }
    }
    match found.as_slice() {
        [] => SILENCE.to_owned(),
        found => {
            let counted = |(said, times): &(&str, usize)| match times {
                1 => (*said).to_owned(),
                times => format!("{said}, {times} times"),
            };
            found.iter().map(counted).collect::<Vec<_>>().join("; ")
        }
    }
}

/// Fills Linux's receive buffers of a connection with NULL calls.
fn fill_buffers(wire: &mut Wire) {
    for _ in 0..EARLIER_CALLS {
        wire.send(&words(
            &[&[EARLIER, 1, 32, 0, 0, 0, 0][..], &null_call(EARLIER, 3)].concat(),
        ));
        let PeerEvent::Message(reply, _) = wire.receive(ANSWER) else {
            panic!("a NULL call is not answered");
        };
        assert_eq!((word(&reply, 0), word(&reply, 3)), (EARLIER, 0));
    }
}

/// Returns the effects on Linux.
fn linux(linux: &Linux, device: &AnyDevice, case: &Case) -> String {
    let ours = PrivateData::from_sizes(4096, 4096).encode();
    let (mut wire, _) = Wire::connect(device, linux.nfsd, &ours);
    wire.expose(0, &words(&null_call(XID, 3)));
    if case.reads_old_content {
        fill_buffers(&mut wire);
    }
    let messages = (case.messages)(&|at, length| wire.segment(at, length));
    messages.iter().for_each(|bytes| wire.send(bytes));
    let mut said = Vec::new();
    let mut next = false;
    loop {
        match wire.receive(if next { ANSWER } else { SILENT }) {
            PeerEvent::Message(bytes, _) if next && word(&bytes, 0) == NEXT => {
                assert_eq!(
                    word(&bytes, 3),
                    0,
                    "{}: the next call is not answered",
                    case.name
                );
                break;
            }
            PeerEvent::Message(bytes, _) => said.push(answer(&bytes)),
            PeerEvent::Nothing if next => {
                said.push("the next call is not answered".to_owned());
                break;
            }
            PeerEvent::Nothing => {
                next = true;
                wire.send(&words(
                    &[&[NEXT, 1, 32, 0, 0, 0, 0][..], &null_call(NEXT, 3)].concat(),
                ));
            }
            PeerEvent::Lost => {
                said.push(LOST.to_owned());
                break;
            }
        }
    }
    joined(&said)
}

/// Returns the effects on this crate's engine in a server that accepts both versions.
fn ours(case: &Case) -> String {
    let segment = |at, length| -> Segment { [9, length, 0, at] };
    let mut session = Session::new(Config::server()).unwrap();
    session
        .connected(0, PrivateData::from_sizes(4096, 4096))
        .unwrap();
    let mut said = Vec::new();
    for (number, bytes) in (0..).zip((case.messages)(&segment)) {
        let _ = session.received(BufferId(number), &bytes, None);
        follow(&mut session, &mut said);
    }
    joined(&said)
}

/// Performs the actions of the engine, and records its messages.
fn follow(session: &mut Session, said: &mut Vec<String>) {
    while let Some(action) = session.poll_action() {
        match action {
            Action::Read { call, .. } => session.read_done(call),
            Action::Close { reason: why } => said.push(format!("{LOST}: `{why:?}`")),
            _ => {}
        }
    }
    while let Some(event) = session.poll_event() {
        match event {
            Event::CallArrived { .. } => said.push(SERVED.to_owned()),
            Event::PeerError { .. } | Event::Ready { .. } => {}
            other => said.push(format!("{other:?}")),
        }
    }
    let mut out = vec![0; 1 << 16];
    while let Some(sent) = session.poll_transmit(0, &mut out) {
        said.push(answer(&out[..sent.header]));
        session.released(sent.owner);
    }
}

/// Returns all cases as the table of the documentation.
fn table() -> String {
    let mut table =
        "| message | Linux | our engine | reason for the difference |\n|---|---|---|---|\n"
            .to_owned();
    for case in cases::all() {
        table += &format!(
            "| {} | {} | {} | {} |\n",
            case.name,
            case.linux.join(", or: "),
            case.ours,
            case.why
        );
    }
    table.replace("  |", " |")
}

#[test]
fn the_engine_matches_the_documentation() {
    for case in cases::all() {
        assert_eq!(ours(&case), case.ours, "{}", case.name);
    }
    let text = include_str!("../../../../docs/linux.md");
    let table = table();
    assert!(
        text.contains(&format!("\n\n{table}\n")),
        "docs/linux.md should have this table:\n\n{table}"
    );
}

#[test]
fn linux_matches_the_documentation() {
    let Some(peer) = Linux::new() else { return };
    let device = peer.open();
    let mut others = Vec::new();
    for case in cases::all() {
        // If a kernel crashes, this case is the cause.
        println!("sending: {}", case.name);
        let found = linux(&peer, &device, &case);
        println!("  {found}");
        if !case.linux.contains(&found.as_str()) {
            others.push(format!("{}: {found}", case.name));
        }
    }
    assert!(others.is_empty(), "Linux answers otherwise: {others:#?}");
}
