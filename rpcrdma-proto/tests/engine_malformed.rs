//! Sends every malformed message, as bytes, to either end in either version.
//! `docs/malformed-messages.md` has the outcomes as tables; after all but a close the next good
//! call works.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod pair;

#[path = "../src/testing.rs"]
mod testing;

#[path = "engine_malformed/cases.rs"]
mod cases;
#[path = "engine_malformed/group_cases.rs"]
mod group_cases;
#[path = "engine_malformed/groups.rs"]
mod groups;
#[path = "engine_malformed/limits.rs"]
mod limits;
#[path = "engine_malformed/raw.rs"]
mod raw;

use cases::Case;
use pair::{
    End, LONG_REPLY, NULL, REPLY, RESULT, both_ways, exchange, reconnect, word, words, works,
};
use rpcrdma_proto::connection::{Config, Event, Role};
use rpcrdma_proto::v2::properties::Bkreqsup;
use rpcrdma_proto::version::Version;

/// The message, the end that receives it, and the calls that are open there.
#[derive(Clone, Copy)]
pub(crate) struct To {
    pub(crate) role: Role,
    pub(crate) version: Version,
    /// The XIDs of calls of its own: without chunks; and a client's with a Write chunk and with a
    /// Reply chunk.
    pub(crate) plain: u32,
    pub(crate) result: u32,
    pub(crate) long: u32,
    /// The XID of a call that it serves.
    pub(crate) given: u32,
    /// Between ends that speak rtrext-02: the XID of a client's call whose result is written, and
    /// of a call whose reply this end has kept.
    pub(crate) written: u32,
    pub(crate) kept: u32,
}

/// Both ends, each with outgoing and incoming calls in flight.
struct Joined {
    client: End,
    server: End,
    to: To,
}

impl Joined {
    fn new(role: Role, version: Version) -> Self {
        let client = Config {
            backward_support: Bkreqsup::Inline,
            max_version: version,
            backward_v1: true,
            ..Config::client()
        };
        let server = Config {
            max_version: version,
            backward_v1: true,
            xid_seed: 1 << 31,
            ..Config::server()
        };
        let (mut client, mut server) = both_ways(client, server);
        let [plain, result, long] =
            [NULL, RESULT, LONG_REPLY].map(|call| client.session.call(&call, None).unwrap());
        let back = server.session.call(&NULL, None).unwrap();
        exchange(&mut client, &mut server);
        let to = match role {
            Role::Client => To {
                role,
                version,
                plain,
                result,
                long,
                given: back,
                written: 0,
                kept: 0,
            },
            Role::Server => To {
                role,
                version,
                plain: back,
                result: 0,
                long: 0,
                given: plain,
                written: 0,
                kept: 0,
            },
        };
        Self { client, server, to }
    }

    fn ends(&mut self) -> (&mut End, &mut End) {
        match self.to.role {
            Role::Client => (&mut self.client, &mut self.server),
            Role::Server => (&mut self.server, &mut self.client),
        }
    }

    /// Delivers the messages of a case; what becomes of them.
    fn outcome(&mut self, case: &Case, messages: &[Vec<u8>]) -> String {
        let to = self.to;
        let (end, peer) = self.ends();
        let credits = granted(end, peer);
        let before = (end.session.counters(), end.events.len());
        let invalidated = case.invalidates.map(|key_of| key_of(&to));
        for bytes in messages {
            end.receive_with(bytes, invalidated);
        }
        let mut found = Vec::new();
        let counters = end.session.counters();
        for (name, now, then) in [
            ("dropped", counters.dropped, before.0.dropped),
            ("unexpected", counters.unexpected, before.0.unexpected),
            (
                "duplicate_xid",
                counters.duplicate_xid,
                before.0.duplicate_xid,
            ),
        ] {
            if now > then {
                found.push(format!("`{name}`"));
            }
        }
        if let Some(why) = end.closing() {
            return format!("closes: `{why:?}`");
        }
        let refused = counters.refused - before.0.refused;
        for _ in 0..refused {
            found.push(answer(&end.send().unwrap().bytes, messages, credits));
        }
        found.extend(end.events[before.1..].iter().filter_map(told));
        found.join("; ")
    }

    /// All that is open ends, and good calls work: on this connection, or on the next one.
    fn goes_on(&mut self, case: &str) {
        if self.client.closing().is_some() || self.server.closing().is_some() {
            reconnect(&mut self.client, &mut self.server);
        }
        // A server's calls wait until the client's consumer announces again that it accepts them.
        self.client.session.call(&NULL, None).unwrap();
        for _ in 0..100 {
            exchange(&mut self.client, &mut self.server);
            for call in self.client.arrived() {
                let _ = self.client.session.reply(call, REPLY, &[]);
            }
            for call in self.server.arrived() {
                self.server.session.peer_ready(call);
                let _ = self.server.session.reply(call, REPLY, &[]);
            }
            exchange(&mut self.client, &mut self.server);
        }
        let open = (
            self.client.session.outstanding(),
            self.server.session.outstanding(),
        );
        assert_eq!(
            open,
            ((0, 0), (0, 0)),
            "{case} of {:?}: something stays open",
            self.to.version
        );
        works(&mut self.client, &mut self.server);
        works(&mut self.server, &mut self.client);
    }
}

/// The grant of an end's replies: the request, up to the number of served calls.
pub(crate) fn granted(end: &End, peer: &End) -> u32 {
    peer.session
        .config()
        .credits
        .min(end.session.config().max_served.into())
}

/// Checks that the next message is the error, byte by byte, that answers one of these messages,
/// with the credits of replies.
fn answer(sent: &[u8], messages: &[Vec<u8>], credits: u32) -> String {
    let same = |message: &&Vec<u8>| message.len() >= 16 && message[..8] == sent[..8];
    let about = messages
        .iter()
        .find(same)
        .expect("no message has this XID and this version");
    let fixed = [word(about, 0), word(about, 1), credits, 4];
    let one = fixed[1] == 1;
    match sent.len() {
        20 => {
            let name = match (word(sent, 4), one) {
                (2, true) => "`ERR_CHUNK`",
                (2, false) => "`RDMA2_ERR_BAD_HEADER`",
                (3, false) => "`RDMA2_ERR_INVAL_OPTION`",
                (other, _) => panic!("error {other}"),
            };
            assert_eq!(sent, words(&[&fixed[..], &[word(sent, 4)]].concat()));
            name.to_owned()
        }
        28 => {
            let (low, high) = (word(sent, 5), word(sent, 6));
            assert_eq!(sent, words(&[&fixed[..], &[1, low, high]].concat()));
            format!("`ERR_VERS`, {low} to {high}")
        }
        bytes => panic!("an error of {bytes} bytes"),
    }
}

/// The event about a peer's defect.
fn told(event: &Event) -> Option<String> {
    match event {
        Event::CallFailed { error: why, .. } => Some(format!("fails: `{why:?}`")),
        Event::PeerError { .. } => Some("`PeerError` is told".to_owned()),
        Event::ReplyArrived { .. } => Some("the call is answered".to_owned()),
        Event::CallArrived { .. } => Some("the call is served".to_owned()),
        Event::PropertiesChanged => Some("the properties change".to_owned()),
        _ => None,
    }
}

const COLUMNS: [(Version, Role); 4] = [
    (Version::One, Role::Server),
    (Version::One, Role::Client),
    (Version::Two, Role::Server),
    (Version::Two, Role::Client),
];

/// All cases, as the table of the documentation.
fn table() -> String {
    let mut text =
        "| what comes | to a server of Version One | to a client of Version One | to a server of \
        Version Two | \
                    to a client of Version Two |\n|---|---|---|---|---|\n"
            .to_owned();
    for case in cases::all() {
        text += &format!("| {} |", case.name);
        for (version, role) in COLUMNS {
            let mut joined = Joined::new(role, version);
            let Some(messages) = (case.messages)(&joined.to) else {
                text += " |";
                continue;
            };
            let found = joined.outcome(&case, &messages);
            assert!(
                !found.is_empty(),
                "{}: nothing becomes of it at a {role:?} of {version:?}",
                case.name
            );
            joined.goes_on(case.name);
            text += &format!(" {found} |");
        }
        text += "\n";
    }
    text
}

/// The table of the documentation has their outcomes.
// spec: v2-3.1-f, v2-4.2.1-a, v2-4.2.1-b, v2-4.2.2-b, v2-4.2.2-c, v2-4.2.3-a
// spec: xc3-2.1-g, xc3-2.1-h, xc3-2.1-i, xc3-4-j, bd-2-e, bd-5-a, bd-5.1-d, bd-5.2-d, bd-5.3-f
// spec: rfc8166-4.2.4-d, rfc8166-4.5-c
#[test]
fn the_outcomes_are_those_of_the_documentation() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/malformed-messages.md");
    testing::check_table(page, "messages", &table());
}
