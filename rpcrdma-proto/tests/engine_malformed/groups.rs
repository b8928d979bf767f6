//! The same for the messages of rtrext-02, between two ends that speak it.

use rpcrdma_proto::connection::{Config, Event, Role};
use rpcrdma_proto::continuation::{OperationSet, RtrExtConfig};
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
use rpcrdma_proto::transfer::{CallSpec, DataItem, MethodPreference, ResultSpec};
use rpcrdma_proto::v2::properties::Bkreqsup;
use rpcrdma_proto::version::Version;

use crate::cases::Case;
use crate::group_cases;
use crate::pair::{
    End, NULL, Packet, REPLY, both_ways, exchange, reconnect, word, works, works_all,
};
use crate::raw::{BULK, REPTERR, TARGET, XMTREQ};
use crate::{Joined, To, answer, granted, told};

/// A call whose result the reply's Send may place, one whose result is written, and one whose reply
/// may take several transmissions.
const PLACED: CallSpec<'_> = CallSpec {
    max_reply: 65_700,
    results: &[ResultSpec::whole_call(60_000)],
    ..NULL
};
const WRITTEN: CallSpec<'_> = CallSpec {
    max_reply: 2_000_100,
    results: &[ResultSpec::whole_call(2_000_000)],
    ..NULL
};
const LONG: CallSpec<'_> = CallSpec {
    max_reply: 90_000,
    ..NULL
};

/// A call whose reply takes two transmissions for its result alone, and fits one without.
const KEPT: CallSpec<'_> = CallSpec {
    max_reply: 70_000,
    results: &[ResultSpec::whole_call(BULK)],
    ..NULL
};
const RESULT: DataItem = DataItem {
    position: 4_056,
    length: BULK,
};

fn config(config: Config, lacks: OperationSet) -> Config {
    let head = BufferSegment {
        length: u32::try_from(TARGET).unwrap(),
        align: 8,
        target: false,
    };
    let bulk = BufferSegment {
        length: BULK,
        align: 4096,
        target: true,
    };
    let structure = Some(BufferStructure::new(&[head, bulk]).unwrap());
    let operations = OperationSet::ALL.difference(lacks);
    config.with_rtr(RtrExtConfig {
        structure,
        operations,
        preference: MethodPreference::Groups,
        ..RtrExtConfig::ALL
    })
}

/// The credits and posted receives that must return at each end.
type Resources = [(u32, u32); 2];

impl Joined {
    /// Both ends, with calls in flight in both directions, and a reply that the end under test has
    /// retained.
    fn speaking(role: Role, lacks: OperationSet) -> Self {
        let of = |one| {
            if role == one {
                lacks
            } else {
                OperationSet::NONE
            }
        };
        let client = Config {
            backward_support: Bkreqsup::Inline,
            ..Config::client()
        };
        let (client, server) = (
            config(client, of(Role::Client)),
            config(
                Config {
                    xid_seed: 1 << 31,
                    ..Config::server()
                },
                of(Role::Server),
            ),
        );
        let (mut client, mut server) = both_ways(client, server);
        client.keeps = true;
        server.keeps = true;
        let forward =
            [NULL, PLACED, WRITTEN, LONG].map(|call| client.session.call(&call, None).unwrap());
        let backward = [NULL, PLACED, LONG].map(|call| server.session.call(&call, None).unwrap());
        exchange(&mut client, &mut server);
        let [plain, result, written, long] = forward;
        let to = To {
            role,
            version: Version::Two,
            plain,
            result,
            long,
            given: backward[0],
            written,
            kept: 0,
        };
        let to = match role {
            Role::Client => to,
            Role::Server => {
                let [plain, result, long] = backward;
                To {
                    plain,
                    result,
                    long,
                    given: forward[0],
                    written: 0,
                    ..to
                }
            }
        };
        let mut joined = Self { client, server, to };
        if lacks == OperationSet::NONE {
            joined.keeps();
        }
        joined
    }

    /// The end under test has kept a reply.
    fn keeps(&mut self) {
        let (end, other) = self.ends();
        let kept = other.session.call(&KEPT, None).unwrap();
        exchange(other, end);
        let served = end.events.iter().find_map(|event| match event {
            Event::CallArrived { call, xid, .. } if *xid == kept => Some(*call),
            _ => None,
        });
        end.events
            .retain(|event| !matches!(event, Event::CallArrived { xid, .. } if *xid == kept));
        end.session
            .reply(
                served.unwrap(),
                RESULT.position + BULK + 4,
                &[RESULT.into()],
            )
            .unwrap();
        assert_eq!(exchange(other, end), 2);
        assert_eq!(other.replies(kept).len(), 1);
        self.to.kept = kept;
    }

    /// Delivers the messages of a case and their retransmissions. Returns the outcome.
    fn becomes(&mut self, case: &Case, messages: &[Vec<u8>]) -> String {
        let to = self.to;
        let (end, other) = self.ends();
        let grant = granted(end, other);
        // A report is a request where it is about a reply.
        let credits = [grant, end.session.config().credits];
        let before = (end.session.counters(), end.events.len());
        let invalidated = case.invalidates.map(|key_of| key_of(&to));
        for bytes in messages {
            end.receive_with(bytes, invalidated);
        }
        if let Some(why) = end.closing() {
            return format!("closes: `{why:?}`");
        }
        let counters = end.session.counters();
        let counted = [
            ("dropped", counters.dropped, before.0.dropped),
            ("unexpected", counters.unexpected, before.0.unexpected),
            (
                "duplicate_xid",
                counters.duplicate_xid,
                before.0.duplicate_xid,
            ),
        ];
        let mut found: Vec<_> = counted
            .into_iter()
            .filter(|(_, now, then)| now > then)
            .map(|(name, ..)| format!("`{name}`"))
            .collect();
        let mut answers = 0;
        while let Some(sent) = end.send() {
            let tells = match sent.word(3) {
                4 => answer(&sent.bytes, messages, grant),
                5 if sent.word(5) == REPTERR => reported(&sent, credits),
                procedure => {
                    found.push(again(&sent, procedure));
                    other.receive_with(&sent.bytes, sent.invalidate);
                    continue;
                }
            };
            answers += 1;
            // Of one group each transmission may be answered alike.
            if !found.contains(&tells) {
                found.push(tells);
            }
        }
        assert_eq!(
            answers,
            counters.refused - before.0.refused,
            "{}",
            case.name
        );
        found.extend(end.events[before.1..].iter().filter_map(told));
        found.join("; ")
    }

    /// All that is open ends, and good calls work, after which all credits, receives and buffers
    /// are there again.
    fn recovers(&mut self, case: &str) -> Resources {
        let Self { client, server, .. } = self;
        if client.closing().is_some() || server.closing().is_some() {
            reconnect(client, server);
            // Buffers of the connection that is gone are gone with it.
            for end in [&mut *client, &mut *server] {
                end.kept.clear();
            }
        }
        client.session.call(&NULL, None).unwrap();
        for _ in 0..20 {
            exchange(client, server);
            for call in client.arrived() {
                let _ = client.session.reply(call, REPLY, &[]);
            }
            for call in server.arrived() {
                server.session.peer_ready(call);
                let _ = server.session.reply(call, REPLY, &[]);
            }
        }
        for _ in 0..8 {
            works(client, server);
            works(server, client);
        }
        // Then both have receives for as many as there may ever be.
        works_all(client, server);
        works_all(server, client);
        let open = (client.session.outstanding(), server.session.outstanding());
        assert_eq!(
            open,
            ((0, 0), (0, 0)),
            "{case} to a {:?}: something stays open",
            self.to.role
        );
        assert_eq!(
            (client.forgotten(), server.forgotten()),
            (0, 0),
            "{case} to a {:?}: buffers",
            self.to.role
        );
        [client, server].map(|end: &mut End| {
            (
                end.session.available_credits(),
                end.session.posted_receives(),
            )
        })
    }
}

/// A message of the end's own that is sent after all: one of its calls, or a reply.
fn again(sent: &Packet, procedure: u32) -> String {
    let direction = if sent.word(4) == 0 { "call" } else { "reply" };
    assert!(
        procedure == 0 || (procedure == 5 && sent.word(5) >= XMTREQ),
        "procedure {procedure}"
    );
    let how = if procedure == 0 { "" } else { " by rtrext-02" };
    format!("the {direction} goes again{how}")
}

/// A ROPT_REPTERR, word by word.
fn reported(sent: &Packet, [grant, wanted]: [u32; 2]) -> String {
    let words: Vec<u32> = (0..sent.bytes.len() / 4)
        .map(|at| word(&sent.bytes, at))
        .collect();
    let [
        xid,
        2,
        credits,
        5,
        direction,
        REPTERR,
        length,
        bad_xid,
        bad_direction,
        number,
        leads,
        rest @ ..,
    ] = words.as_slice()
    else {
        panic!("no report: {words:?}")
    };
    assert_eq!(
        (xid, direction),
        (bad_xid, &(1 - bad_direction)),
        "from the end that it came to"
    );
    assert_eq!(*credits, if *direction == 1 { grant } else { wanted });
    assert_eq!(*length as usize, sent.bytes.len() - 28);
    let (lead, why) = rest.split_at(if *leads == 1 { 3 } else { 0 });
    let values = match why {
        [3] => String::new(),
        [1 | 2 | 4 | 5, expected, came] => format!(", {came} for {expected}"),
        [6..=8, value, least, most] => format!(", {value} of {least} to {most}"),
        _ => panic!("no reason: {why:?}"),
    };
    let name = [
        "BADHMT", "BADOMT", "BADCONT", "BADSEQ", "BADXID", "BADOFF", "BADTBSN", "BADPL",
    ][why[0] as usize - 1];
    let lead = match lead {
        [] => String::new(),
        [_, _, lead] => format!(", led to by {lead}"),
        _ => panic!("no lead: {lead:?}"),
    };
    // The expected XIDs differ in each run.
    let values = if name == "BADXID" {
        ", this for that".to_owned()
    } else {
        values
    };
    format!("`OPTRERR_{name}`{values}, at {number}{lead}")
}

/// All cases, as the table of the documentation.
fn table() -> String {
    let mut text = "| what comes | to a server | to a client |\n|---|---|---|\n".to_owned();
    for case in group_cases::all() {
        text += &format!("| {} |", case.name);
        for role in [Role::Server, Role::Client] {
            let mut joined = Joined::speaking(role, case.lacks);
            let Some(messages) = (case.messages)(&joined.to) else {
                text += " |";
                continue;
            };
            let found = joined.becomes(&case, &messages);
            assert!(
                !found.is_empty(),
                "{}: nothing becomes of it at a {role:?}",
                case.name
            );
            let left = joined.recovers(case.name);
            let untouched = Joined::speaking(role, case.lacks).recovers("nothing");
            assert_eq!(
                left, untouched,
                "{} to a {role:?}: credits and receives",
                case.name
            );
            text += &format!(" {found} |");
        }
        text += "\n";
    }
    text
}

/// Messages of the cases in any order, and with any word changed: nothing is left of them but a
/// close.
#[test]
fn any_transmissions_lose_no_buffer_or_credit() {
    let mut random = Random(1);
    for role in [Role::Server, Role::Client] {
        let untouched = Joined::speaking(role, OperationSet::NONE).recovers("nothing");
        for round in 0..ROUNDS {
            let mut joined = Joined::speaking(role, OperationSet::NONE);
            let of =
                |case: Case| (case.messages)(&joined.to).filter(|_| case.invalidates.is_none());
            let cases: Vec<_> = group_cases::all().into_iter().filter_map(of).collect();
            let (end, other) = joined.ends();
            for _ in 0..=random.below(6) {
                let messages = &cases[random.below(cases.len())];
                let mut bytes = messages[random.below(messages.len())].clone();
                if random.below(2) == 0 {
                    let words = (bytes.len() / 4).min(40);
                    let at = 4 * random.below(words.max(1));
                    let value =
                        [0, 1, 2, 4, 8, 44, 4096, u32::MAX, end_of(&bytes)][random.below(9)];
                    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
                }
                end.receive(&bytes);
                if end.closing().is_some() {
                    break;
                }
                while random.below(2) == 0
                    && let Some(sent) = end.send()
                {
                    // Retransmissions reach the other end, which does not know the reported
                    // messages.
                    if sent.word(3) != 4 && (sent.word(3) != 5 || sent.word(5) != REPTERR) {
                        other.receive_with(&sent.bytes, sent.invalidate);
                    }
                }
            }
            let closed = joined.client.closing().is_some() || joined.server.closing().is_some();
            let left = joined.recovers(&format!("round {round}"));
            assert!(
                closed || left == untouched,
                "{role:?}, round {round}: {left:?}, not {untouched:?}"
            );
        }
    }
}

const ROUNDS: usize = 300;

fn end_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

/// A generator of the xorshift family.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % most
    }
}

/// The table of the documentation has their outcomes.
// spec: rtr-4.2-d, rtr-5.1-b, rtr-5.4-a, rtr-5.4-b, rtr-5.4-c, rtr-5.4-d, rtr-5.4-e, rtr-5.4-f
// spec: rtr-5.4-g, rtr-6.2-s
// spec: rtr-6.2-z, rtr-6.2-aa, rtr-6.2-ad, rtr-6.2-ae, rtr-6.2-af, rtr-6.2-ag, rtr-7.3-f, rtr-7.4-h
// spec: rtr-7.4-j
// spec: rtr-7.4-m, rtr-7.4-n, rtr-7.4-aa, rtr-8.4-a, rtr-9.1-d, rtr-9.1-h, rtr-9.4-b, rtr-9.4-d
// spec: rtr-9.4-f, rtr-9.5-a
// spec: rtr-9.5-b, rtr-9.5-c, rtr-9.5-e, rtr-9.5-f, rtr-9.5-g, rtr-9.5-h, rtr-9.5-i, rtr-9.5-j
// spec: rtr-9.5-k, rtr-9.5-l
// spec: rtr-9.5-q, rtr-9.5-r
#[test]
fn the_outcomes_of_transmissions_are_those_of_the_documentation() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/malformed-messages.md");
    crate::testing::check_table(page, "groups", &table());
}
