//! What a run is made of: settings, and a list of what the consumers do and which faults there are, each with its time. All
//! else, delays above all, follows from the seed.

use std::fmt;

use rpcrdma_proto::chunk::Limits;
use rpcrdma_proto::connection::{Config, Role};
use rpcrdma_proto::continuation::{Operations, Rtr};
use rpcrdma_proto::placement::{Segment, Structure};
use rpcrdma_proto::travel::{Direct, Prefer};
use rpcrdma_proto::v2::properties::Bkreqsup;
use rpcrdma_proto::version::Version;

use super::fault::{Fault, Hostile};
use super::random::{Random, mix};
use super::spec::{Spec, Style};

/// Which end of a pair.
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) pairs: Vec<[Config; 2]>,
    pub(crate) script: Vec<Step>,
    pub(crate) sabotage: Option<Sabotage>,
    /// Microseconds that a message, or what the transport does, takes at most when nothing delays it.
    pub(crate) pace: u32,
    /// Whether the ends are polled late now and then.
    pub(crate) lazy: bool,
}

/// A transport that breaks its rules, to show that it would be noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sabotage {
    /// Tells that a Send has released its memory before it has.
    EarlyRelease,
    /// Tells that memory is fenced before it is.
    EarlyFence,
    /// Posts one receive fewer than it was told to, once.
    FewerReceives,
}

/// Something that happens from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) at: u64,
    pub(crate) pair: usize,
    pub(crate) end: usize,
    pub(crate) act: Act,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// The consumer calls; with a deadline so many microseconds ahead, if it is not zero.
    Call(Spec, u64),
    /// It gives up one of its calls.
    Cancel(u32),
    /// It changes a property, of this number and value.
    Set(u32, u32),
    /// It asks for a change of the peer's.
    Ask(u32, u32),
    /// It sends an operation that was registered.
    Operate(u32),
    /// It takes no more backward calls.
    Unready,
    /// It keeps a connection without calls, or does not.
    Keep(bool),
    Drain,
    Abort,
    /// It serves more or fewer calls from now on.
    Grant(u32),
    /// A fault, with a number that says how.
    Fault(Fault, u32),
    /// A message of a hostile peer comes.
    Hostile(Hostile, u32),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = ["client", "server"][self.end];
        write!(f, "{:>8} us, pair {}, {end}: {:?}", self.at, self.pair, self.act)
    }
}

/// How much a plan has of everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weather {
    /// No fault at all.
    Fair,
    /// Connections are lost, things take long and fail.
    Rough,
    /// And messages are corrupt or hostile.
    Hostile,
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let weather = random.pick(&[Weather::Fair, Weather::Rough, Weather::Rough, Weather::Hostile]);
        Self::in_weather(seed, weather, &mut random)
    }

    pub(crate) fn in_weather(seed: u64, weather: Weather, random: &mut Random) -> Self {
        let count = random.pick(&[1, 1, 1, 2, 3]);
        let pairs: Vec<_> = (0..count).map(|_| pair(random)).collect();
        let span = u64::from(random.pick(&[300u32, 3000, 20_000, 100_000]));
        let taste = Taste::draw(weather, random);
        let mut script = Vec::new();
        for _ in 0..random.between(4, 30) * count {
            let (at, pair) = (random.below(span), random.below(u64::from(count)) as usize);
            let end = if random.one_in(4) { SERVER } else { CLIENT };
            // Some things come in crowds.
            let many = if random.one_in(8) { random.between(2, 12) } else { 1 };
            for _ in 0..many {
                script.push(Step { at, pair, end, act: taste.act(random) });
            }
        }
        script.sort_by_key(|step| step.at);
        Self {
            seed: mix(seed),
            pairs,
            script,
            sabotage: None,
            pace: random.pick(&[1, 10, 50, 300]),
            lazy: random.one_in(2),
        }
    }
}

/// Kinds of acts.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Call,
    Cancel,
    Set,
    Ask,
    Operate,
    Unready,
    Keep,
    End,
    Grant,
    Rough,
    Corrupt,
    Hostile,
}

/// What one run likes: some kinds of acts it never has, and some often. So rare things meet each other.
#[derive(Clone, Debug)]
struct Taste {
    kinds: Vec<Kind>,
    calls: Style,
}

impl Taste {
    fn draw(weather: Weather, random: &mut Random) -> Self {
        const FAIR: [Kind; 7] =
            [Kind::Cancel, Kind::Set, Kind::Ask, Kind::Operate, Kind::Unready, Kind::Keep, Kind::Grant];
        let mut kinds = vec![Kind::Call; random.pick(&[2, 10, 30])];
        for kind in FAIR {
            kinds.extend(std::iter::repeat_n(kind, random.pick(&[0, 0, 1, 4])));
        }
        if random.one_in(4) {
            kinds.push(Kind::End);
        }
        if weather != Weather::Fair {
            kinds.extend(std::iter::repeat_n(Kind::Rough, random.pick(&[0, 2, 6])));
        }
        if weather == Weather::Hostile {
            kinds.extend(std::iter::repeat_n(Kind::Corrupt, random.pick(&[0, 2, 4])));
            kinds.extend(std::iter::repeat_n(Kind::Hostile, random.pick(&[0, 2, 6])));
        }
        Self { kinds, calls: random.pick(&Style::ALL) }
    }

    fn act(&self, random: &mut Random) -> Act {
        match random.pick(&self.kinds) {
            Kind::Call => {
                let deadline = if random.one_in(6) { u64::from(random.between(1, 5000)) } else { 0 };
                Act::Call(Spec::draw(self.calls, random), deadline)
            }
            Kind::Cancel => Act::Cancel(random.word()),
            Kind::Set => Act::Set(random.word() % 3, random.word()),
            Kind::Ask => Act::Ask(random.word() % 3, random.word()),
            Kind::Operate => Act::Operate(random.word()),
            Kind::Unready => Act::Unready,
            Kind::Keep => Act::Keep(random.one_in(2)),
            Kind::End if random.one_in(2) => Act::Drain,
            Kind::End => Act::Abort,
            Kind::Grant => Act::Grant(random.between(1, 20)),
            Kind::Rough => Act::Fault(random.pick(&Fault::ROUGH), random.word()),
            Kind::Corrupt => Act::Fault(random.pick(&Fault::CORRUPTING), random.word()),
            Kind::Hostile => Act::Hostile(random.pick(&Hostile::ALL), random.word()),
        }
    }
}

/// The settings of two ends.
fn pair(random: &mut Random) -> [Config; 2] {
    let ends = [config(Role::Client, random), config(Role::Server, random)];
    // Messages in transmissions are spoken of in two pairs of three, and there by nearly all ends.
    if random.one_in(3) {
        return ends;
    }
    ends.map(|config| if random.one_in(8) { config } else { extended(config, random) })
}

/// The same with rtrext-02, which takes Version Two and properties.
fn extended(config: Config, random: &mut Random) -> Config {
    let plain = Config { rtr: None, ..config };
    let both = if random.one_in(8) { plain } else { Config { highest: Version::Two, properties: true, ..plain } };
    let least = both.receive_size.max(if both.highest == Version::One { 1024 } else { 4096 });
    let most = both.receive_size_most.max(least);
    let sized = Config { receive_size: least, receive_size_most: most, ..both };
    let settings = rtr(sized.highest, random);
    sized.with_rtr(settings)
}

fn rtr(highest: Version, random: &mut Random) -> Rtr {
    let operations = if random.one_in(2) { Operations::ALL } else { Operations::of(random.below(8) as u32) };
    let limit = |random: &mut Random| random.pick(&[1, 2, 3, 8, 8, 64]);
    Rtr {
        operations,
        tries: random.one_in(2),
        structure: structure(random).filter(|_| highest == Version::Two),
        request_limit: limit(random),
        response_limit: limit(random),
        reserve: random.between(1, 8),
        place_from: random.pick(&[1, 100, 1024, 4096]),
        prefer: random.pick(&[Prefer::Cheaper, Prefer::Groups]),
        direct: random.pick(&[Direct::Cheaper, Direct::Explicit, Direct::Choice, Direct::BySize(1000)]),
        keep: random.pick(&[0u64, 1, 500, 100_000, 10_000_000]),
    }
}

/// How receive buffers are made: of small segments, so that messages take several.
fn structure(random: &mut Random) -> Option<Structure> {
    let plain = |length| Segment { length, align: 8, target: false };
    let target = |length| Segment { length, align: 4096, target: true };
    let segments: &[Segment] = match random.below(8) {
        0 => &[plain(4096), target(4096)],
        1 => &[plain(4096), target(8192)],
        2 => &[plain(2048), target(1024), target(1024), target(1024)],
        3 => &[plain(1024), target(4096), plain(1024)],
        4 => &[plain(1024), plain(1024), target(2048), plain(512), target(512), target(4)],
        5 => &[plain(4096), plain(1024)],
        _ => return None,
    };
    Structure::new(segments).ok()
}

fn config(role: Role, random: &mut Random) -> Config {
    let highest = random.pick(&[Version::One, Version::Two, Version::Two, Version::Two]);
    let calls = random.pick(&[1u16, 2, 3, 8, 16, 64]);
    let credits = random.between(1, calls.into());
    let serve = random.pick(&[1u16, 2, 4, 8, 32]);
    let (calls, credits, serve) = match role {
        Role::Client if random.one_in(3) => (calls, credits, 0),
        Role::Server if random.one_in(3) => (0, 0, serve),
        _ => (calls, credits, serve),
    };
    let least = if highest == Version::One { 1024 } else { 4096 };
    let receive_size = least + random.pick(&[0, 0, 100, 1024, 4096, 12_288]);
    Config {
        role,
        highest,
        calls,
        credits,
        serve,
        reserve: random.between(1, 4),
        receive_size,
        receive_size_most: receive_size + random.pick(&[0, 1000, 4096]),
        send_size: random.pick(&[1024, 1500, 4096, 8192, 16_384]),
        limits: Limits {
            segments: random.pick(&[4, 16, 64, 64]),
            octets: random.pick(&[1 << 14, 1 << 24, 1 << 24, 1 << 24]),
        },
        segments: random.pick(&[1, 4, 16, 64, 64]),
        segment: random.pick(&[512, 4096, 1 << 16, 1 << 20, 1 << 20]),
        read_chunks: random.pick(&[0, 1, u32::MAX, u32::MAX]),
        properties: !random.one_in(4),
        rtr: None,
        backward: random.pick(&[Bkreqsup::None, Bkreqsup::Inline, Bkreqsup::Genl, Bkreqsup::Genl]),
        backward_one: random.one_in(2),
        remote_invalidation: random.one_in(2),
        invalidates: random.one_in(2),
        negotiation_timeout: u64::from(random.between(2_000, 20_000)),
        memory: u64::from(random.pick(&[1_000u32, 100_000, 10_000_000])),
        retry: u64::from(random.between(1, 2_000)),
        retry_most: 100_000,
        seed: random.word(),
    }
}
