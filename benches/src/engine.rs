//! Null RPCs between two sessions that are connected in memory: the cost of the engine at both ends
//! together.
//!
//! Each message is written to the peer's receive buffer. Only the first eight bytes of an RPC
//! message are written, because the engine reads no more.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::hint::black_box;

use rpcrdma_proto::connection::{
    Action, BufferId, Config, Event, Role, SendOwner, ServedCallId, Session,
};
use rpcrdma_proto::transfer::CallSpec;
use rpcrdma_proto::version::Version;

use crate::measure::{self, Timed, Times};

/// A null call of NFS with AUTH_NONE, and its reply.
const NULL: CallSpec<'_> = CallSpec {
    length: 40,
    items: &[],
    max_reply: 24,
    results: &[],
    reducible: true,
};
const REPLY: u32 = 24;

/// RPCs over one connection, with a number of outstanding calls.
pub(crate) struct Engine {
    outstanding: u16,
    pair: RefCell<Pair>,
}

/// Two sessions, and the state of their transport: a receive buffer for each direction.
struct Pair {
    client: Session,
    server: Session,
    there: Vec<u8>,
    back: Vec<u8>,
    buffers: u64,
    given: VecDeque<ServedCallId>,
    answered: u64,
}

/// The jobs, each with its number of outstanding calls.
pub(crate) const JOBS: [(&str, u16); 3] = [
    ("engine/v2-1", 1),
    ("engine/v2-32", 32),
    ("engine/v2-1024", 1024),
];

impl Engine {
    pub(crate) fn new(outstanding: u16) -> Self {
        Self {
            outstanding,
            pair: RefCell::new(Pair::new(outstanding)),
        }
    }

    /// Completes `times` RPCs.
    pub(crate) fn run(&self, times: u64) {
        let mut pair = self.pair.borrow_mut();
        let before = pair.answered;
        for _ in 0..times {
            pair.rpc();
        }
        assert_eq!(pair.answered - before, times, "a reply for each call");
    }
}

/// Measures all jobs in turns.
pub(crate) fn report() -> Table {
    let engines = JOBS.map(|(_, outstanding)| Engine::new(outstanding));
    let job = |engine: &'_ Engine, count| measure::timed(|| engine.run(count));
    let jobs = engines
        .iter()
        .map(|engine| -> Timed<'_> { Box::new(move |count| job(engine, count)) });
    let found = measure::measure(&mut jobs.collect::<Vec<_>>());
    Table(
        engines
            .iter()
            .map(|engine| engine.outstanding)
            .zip(found)
            .collect(),
    )
}

/// The medians, as Markdown.
pub(crate) struct Table(Vec<(u16, Times)>);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("| null RPCs outstanding | both ends, ns | quartiles |\n|---|---|---|\n")?;
        self.0.iter().try_for_each(|(outstanding, times)| {
            let [low, high] = times.quartiles;
            writeln!(
                f,
                "| {outstanding} | {:.0} | {low:.0} to {high:.0} |",
                times.median
            )
        })
    }
}

impl Pair {
    /// Connects two sessions, negotiates Version Two, exchanges properties, and begins all
    /// outstanding calls but one.
    fn new(outstanding: u16) -> Self {
        let calls = Config {
            max_calls: outstanding,
            credits: outstanding.into(),
            ..Config::client()
        };
        let serves = Config {
            max_served: outstanding,
            ..Config::server()
        };
        let mut pair = Self {
            client: session(calls),
            server: session(serves),
            there: vec![0; 4096],
            back: vec![0; 4096],
            buffers: 0,
            given: VecDeque::with_capacity(outstanding.into()),
            answered: 0,
        };
        while pair.client.poll_action().is_some() {}
        let (client, server) = (
            pair.client.config().private_data(),
            pair.server.config().private_data(),
        );
        assert!(
            pair.client.connected(0, server).is_ok() && pair.server.connected(0, client).is_ok()
        );
        while pair.turn(Role::Client) | pair.turn(Role::Server) {}
        // After one more RPC the client knows its grant.
        pair.call();
        pair.reply();
        assert_eq!(pair.client.version(), Some(Version::Two));
        for _ in 1..outstanding {
            pair.call();
        }
        assert_eq!(pair.given.len() + 1, outstanding.into());
        pair
    }

    /// Begins a call, and completes the oldest.
    fn rpc(&mut self) {
        self.call();
        self.reply();
    }

    fn call(&mut self) {
        let begun = self.client.call(black_box(&NULL), None);
        debug_assert!(begun.is_ok());
        self.turn(Role::Client);
        self.turn(Role::Server);
    }

    fn reply(&mut self) {
        let Some(call) = self.given.pop_front() else {
            return;
        };
        let answered = self.server.reply(call, black_box(REPLY), &[]);
        debug_assert!(answered.is_ok());
        self.turn(Role::Server);
        self.turn(Role::Client);
    }

    /// Does the work of an end's driver after an input: actions, messages, events. Returns true if
    /// a message was sent.
    fn turn(&mut self, role: Role) -> bool {
        let (end, peer, buffer) = match role {
            Role::Client => (&mut self.client, &mut self.server, &mut self.there),
            Role::Server => (&mut self.server, &mut self.client, &mut self.back),
        };
        while let Some(action) = end.poll_action() {
            debug_assert!(
                matches!(action, Action::PostReceives { .. }),
                "nothing is exposed"
            );
        }
        let mut sent = false;
        while let Some(transmit) = end.poll_transmit(0, buffer) {
            sent = true;
            let mut length = transmit.header;
            for part in end.inline_parts(transmit.owner) {
                length += part.len();
            }
            if transmit.owner != SendOwner::Header {
                let reply = u8::from(role == Role::Server);
                buffer.copy_within(..4, transmit.header);
                buffer[transmit.header + 4..][..4].copy_from_slice(&[0, 0, 0, reply]);
            }
            self.buffers += 1;
            let _ = black_box(peer.received(BufferId(self.buffers), &buffer[..length], None));
            end.released(transmit.owner);
        }
        while let Some(event) = end.poll_event() {
            match event {
                Event::CallArrived { call, .. } => self.given.push_back(call),
                Event::ReplyArrived { .. } => self.answered += 1,
                _ => {}
            }
        }
        sent
    }
}

fn session(config: Config) -> Session {
    match Session::new(config) {
        Ok(session) => session,
        Err(error) => unreachable!("these settings make sense: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_answered_while_the_others_wait() {
        for (name, outstanding) in JOBS {
            let engine = Engine::new(outstanding);
            engine.run(3000);
            let pair = engine.pair.borrow();
            assert_eq!(
                pair.client.outstanding().0 + 1,
                outstanding.into(),
                "{name}"
            );
            assert_eq!(
                pair.client.counters().unexpected + pair.server.counters().dropped,
                0
            );
        }
    }
}
