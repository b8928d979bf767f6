//! The script of a run: settings, and a list of the consumers' acts and the faults, each with its
//! time. All else, such as delays, follows from the seed.

use std::fmt;

use rpcrdma_proto::connection::Config;

use super::fault::{Fault, Hostile};
use super::random::{Random, mix};
use super::settings::{self, pair};
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
    /// Microseconds that a message, or what the transport does, takes at most when nothing delays
    /// it.
    pub(crate) pace: u32,
    /// Whether the ends are polled late now and then.
    pub(crate) lazy: bool,
}

/// A transport that breaks its rules, to show that it would be noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sabotage {
    /// Reports a released Send before its completion.
    EarlyRelease,
    /// Reports a fence before its completion.
    EarlyFence,
    /// Posts one receive fewer than requested, once.
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
    /// A message of a hostile peer arrives.
    Hostile(Hostile, u32),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = ["client", "server"][self.end];
        write!(
            f,
            "{:>8} us, pair {}, {end}: {:?}",
            self.at, self.pair, self.act
        )
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
    /// Connections are lost, and transmissions of groups are lost or reordered.
    Torn,
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        const ALL: [Weather; 5] = [
            Weather::Fair,
            Weather::Rough,
            Weather::Rough,
            Weather::Hostile,
            Weather::Torn,
        ];
        let weather = random.pick(&ALL);
        Self::in_weather(seed, weather, &mut random)
    }

    pub(crate) fn in_weather(seed: u64, weather: Weather, random: &mut Random) -> Self {
        let count = random.pick(&[1, 1, 1, 2, 3]);
        // Else messages in several transmissions would be rare, which take much at both ends.
        let devoted = weather == Weather::Torn || random.one_in(3);
        let pairs: Vec<_> = (0..count)
            .map(|_| {
                if devoted {
                    settings::groups(random)
                } else {
                    pair(random)
                }
            })
            .collect();
        let span = u64::from(random.pick(&[300u32, 3000, 20_000, 100_000]));
        let taste = Taste::draw(weather, devoted, random);
        let mut script = Vec::new();
        for _ in 0..random.between(4, 30) * count {
            let (at, pair) = (random.below(span), random.below(u64::from(count)) as usize);
            let end = if random.one_in(4) { SERVER } else { CLIENT };
            // Some things come in crowds.
            let many = if random.one_in(8) {
                random.between(2, 12)
            } else {
                1
            };
            for _ in 0..many {
                script.push(Step {
                    at,
                    pair,
                    end,
                    act: taste.act(random),
                });
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
    Tear,
}

/// What one run likes: some kinds of acts it never has, and some often. So rare things meet each
/// other.
#[derive(Clone, Debug)]
struct Taste {
    kinds: Vec<Kind>,
    calls: Style,
}

impl Taste {
    fn draw(weather: Weather, devoted: bool, random: &mut Random) -> Self {
        const FAIR: [Kind; 7] = [
            Kind::Cancel,
            Kind::Set,
            Kind::Ask,
            Kind::Operate,
            Kind::Unready,
            Kind::Keep,
            Kind::Grant,
        ];
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
        if weather == Weather::Torn {
            kinds.extend(std::iter::repeat_n(Kind::Tear, random.pick(&[4, 8, 16])));
        }
        if devoted && random.one_in(3) {
            // Buffers that change while messages are laid out for them.
            kinds.extend(
                [Kind::Set, Kind::Ask]
                    .into_iter()
                    .cycle()
                    .take(kinds.len() / 4),
            );
        }
        let calls = random.pick(if devoted {
            &Style::DEVOTED
        } else {
            &Style::ALL
        });
        Self { kinds, calls }
    }

    fn act(&self, random: &mut Random) -> Act {
        match random.pick(&self.kinds) {
            Kind::Call => {
                let deadline = if random.one_in(6) {
                    u64::from(random.between(1, 5000))
                } else {
                    0
                };
                Act::Call(Spec::draw(self.calls, random), deadline)
            }
            Kind::Cancel => Act::Cancel(random.word()),
            Kind::Set => Act::Set(random.word() % 3, random.word()),
            Kind::Ask => Act::Ask(random.pick(&[0, 0, 1, 2]), random.word()),
            Kind::Operate => Act::Operate(random.word()),
            Kind::Unready => Act::Unready,
            Kind::Keep => Act::Keep(random.one_in(2)),
            Kind::End if random.one_in(2) => Act::Drain,
            Kind::End => Act::Abort,
            Kind::Grant => Act::Grant(random.between(1, 20)),
            Kind::Rough => Act::Fault(random.pick(&Fault::ROUGH), random.word()),
            Kind::Corrupt => Act::Fault(random.pick(&Fault::CORRUPTING), random.word()),
            Kind::Hostile => Act::Hostile(random.pick(&Hostile::ALL), random.word()),
            Kind::Tear => Act::Fault(random.pick(&Fault::TEARING), random.word()),
        }
    }
}
