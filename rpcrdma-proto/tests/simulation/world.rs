//! A world: pairs of sessions that share a virtual clock, and the queue of what happens next.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rpcrdma_proto::connection::{Exposure, SendOwner, ServedCallId, Session};

use super::chart::Chart;
use super::end::End;
use super::fault::{Fault, Seen, Stats};
use super::link::{Link, other};
use super::memory::Exposed;
use super::message::Messages;
use super::random::{Random, mix};
use super::script::{CLIENT, Plan, SERVER};
use super::settings;

/// Two sessions and the connection between them.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) ends: [End; 2],
    pub(crate) link: Link,
    /// The client's attempt to connect is swallowed at its first message.
    pub(crate) deaf_next: bool,
    /// Whether a forgery was ever delivered.
    pub(crate) tainted: bool,
    /// Whether an end has asked for receive buffers of another size.
    pub(crate) resized: bool,
    /// How its server refuses Version Two, if it does.
    pub(crate) refusal: Refusal,
    /// Until when the client is to remember that it did.
    pub(crate) remembered: u64,
    /// The next connection is of another client, or to another server: a number that says which.
    pub(crate) replaced: [Option<u32>; 2],
    /// Whether an end that was replaced spoke another draft than its peer, which has dropped what
    /// it could not read then.
    pub(crate) was_mixed: bool,
}

/// How servers of Version One answer a message of Version Two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// By an error about versions.
    Versions,
    /// By that, and they close the connection.
    AndClose,
    /// By that, with a range that has Version Two in it.
    Range,
    /// By ERR_CHUNK.
    Chunk,
}

/// Something that happens at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Step(usize),
    Deliver {
        pair: usize,
        to: usize,
        link: u32,
        message: usize,
    },
    Released {
        pair: usize,
        end: usize,
        what: SendOwner,
    },
    Exposed {
        pair: usize,
        end: usize,
        xid: u32,
        which: u32,
        fails: bool,
    },
    Fenced {
        pair: usize,
        end: usize,
        xid: u32,
    },
    Moved {
        pair: usize,
        end: usize,
        call: ServedCallId,
        link: u32,
    },
    Accepted {
        pair: usize,
        attempt: u32,
        fails: bool,
    },
    Established {
        pair: usize,
        attempt: u32,
    },
    Lost {
        pair: usize,
        end: usize,
        link: u32,
    },
    Unreachable {
        pair: usize,
        attempt: u32,
    },
    Timer {
        pair: usize,
        end: usize,
        at: u64,
    },
    Answer {
        pair: usize,
        end: usize,
        call: ServedCallId,
    },
    Wake {
        pair: usize,
        end: usize,
    },
    Heal,
    Rest,
    Drain,
    Done,
}

impl What {
    /// The end to whose session it happens, if that is one of its own doing.
    const fn of(&self) -> Option<(usize, usize)> {
        match self {
            Self::Released { pair, end, .. }
            | Self::Exposed { pair, end, .. }
            | Self::Fenced { pair, end, .. }
            | Self::Moved { pair, end, .. }
            | Self::Timer { pair, end, .. }
            | Self::Answer { pair, end, .. }
            | Self::Wake { pair, end } => Some((*pair, *end)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    number: u64,
    what: What,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap yields the greatest first.
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// The steps that a world may take after all faults are healed, before it is said to never rest.
const RESTLESS: u64 = 200_000;

/// What the ends have after all faults are healed: far more than anything takes.
const BOUND: u64 = 20_000_000;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    queue: BinaryHeap<Entry>,
    number: u64,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) messages: Messages,
    pub(crate) stats: Stats,
    pub(crate) failed: Option<String>,
    pub(crate) chart: Option<Chart>,
    pub(crate) plan: Plan,
    pub(crate) healed: bool,
    steps_healed: u64,
    done: bool,
    pub(crate) sabotaged: bool,
    /// The history of the run.
    pub(crate) events: u64,
    /// A disconnect before the event of this number, to try every one.
    pub(crate) cut_at: Option<u64>,
    /// Places that are used again and again.
    pub(crate) exposed: Exposed,
    pub(crate) exposures: Vec<Exposure>,
}

/// Half of the pairs, whichever.
const fn pair_is_even(now: u64, pair: usize) -> bool {
    (now + pair as u64).is_multiple_of(2)
}

impl World {
    pub(crate) fn new(plan: &Plan) -> Self {
        let pairs = plan.pairs.iter().enumerate().map(|(number, configs)| {
            let end = |end: usize| {
                let tag = (2 * number + end + 1) as u32;
                End::new(&configs[end], tag, mix(plan.seed) ^ u64::from(tag))
            };
            Pair {
                ends: [end(CLIENT), end(SERVER)],
                link: Link::default(),
                deaf_next: false,
                tainted: false,
                resized: false,
                refusal: [
                    Refusal::Versions,
                    Refusal::AndClose,
                    Refusal::Range,
                    Refusal::Chunk,
                ][(mix(plan.seed ^ number as u64) % 4) as usize],
                remembered: 0,
                replaced: [None; 2],
                was_mixed: false,
            }
        });
        let mut world = Self {
            now: 0,
            queue: BinaryHeap::with_capacity(64),
            number: 0,
            pairs: pairs.collect(),
            messages: Messages::default(),
            stats: Stats::default(),
            failed: None,
            chart: None,
            plan: plan.clone(),
            healed: false,
            steps_healed: 0,
            done: false,
            sabotaged: false,
            events: 0,
            cut_at: None,
            exposed: Exposed::default(),
            exposures: Vec::new(),
        };
        world.stats.runs = 1;
        for (number, step) in plan.script.iter().enumerate() {
            world.at(step.at, What::Step(number));
        }
        let last = plan.script.last().map_or(0, |step| step.at);
        world.at(last + 1000, What::Heal);
        world
    }

    /// Lets all of it happen: an error says which rule was broken, and when.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        for pair in 0..self.pairs.len() {
            self.poll(pair, CLIENT);
            self.poll(pair, SERVER);
        }
        while let Some(Entry { at, what, .. }) = self.queue.pop() {
            self.now = at;
            if self.cut_at == Some(self.events) {
                self.disconnect(0);
            }
            self.events += 1;
            self.happen(what);
            if self.healed && self.stats.steps - self.steps_healed > RESTLESS {
                self.fail("never comes to rest".to_owned());
            }
            if let Some(why) = self.failed.take() {
                return Err(format!("at {} us: {why}", self.now));
            }
            if self.done {
                return Ok(());
            }
        }
        Err("the world stood still before its end".to_owned())
    }

    /// A rule is broken. The first one counts.
    #[cold]
    pub(crate) fn fail(&mut self, why: String) {
        self.failed.get_or_insert(why);
    }

    pub(crate) fn at(&mut self, at: u64, what: What) {
        self.number += 1;
        self.queue.push(Entry {
            at,
            number: self.number,
            what,
        });
    }

    /// A time of this end's, after now: short, if nothing makes it long.
    pub(crate) fn soon(&mut self, pair: usize, end: usize) -> u64 {
        let pace = self.plan.pace;
        let (now, end) = (self.now, &mut self.pairs[pair].ends[end]);
        let slow = if now < end.slow_until { 50 } else { 1 };
        now + u64::from(end.random.between(0, pace)) * slow
    }

    /// The time of an end's clock.
    pub(crate) fn clock(&self, pair: usize, end: usize) -> u64 {
        self.now + self.pairs[pair].ends[end].ahead
    }

    /// Calls a function of a session.
    pub(crate) fn session<R>(
        &mut self,
        pair: usize,
        end: usize,
        f: impl FnOnce(&mut Session) -> R,
    ) -> R {
        self.stats.steps += 1;
        f(&mut self.pairs[pair].ends[end].session)
    }

    /// Lets another client take the place of one that has no connection. Its server has none
    /// either: what it sends on the last one is for the last client.
    pub(crate) fn replace_client(&mut self, pair: usize) {
        let [client, server] = &self.pairs[pair].ends;
        let apart = client.link == 0 && !client.connecting && server.link == 0;
        if apart && !self.healed {
            self.replace(pair, CLIENT);
        }
    }

    /// Lets another end take the place of one that is to be replaced and has nothing left of its
    /// own.
    pub(crate) fn replace(&mut self, pair: usize, end: usize) {
        let last = &self.pairs[pair].ends[end];
        let is_quiet = last.calls.is_empty()
            && last.serving.is_empty()
            && last.kept.is_empty()
            && last.memory.live == 0
            && last.wishes == 0
            && last.untold == 0
            && last.session.outstanding() == (0, 0);
        let Some(how) = self.pairs[pair].replaced[end].filter(|_| is_quiet) else {
            return;
        };
        let (attempt, connections) = (last.attempt, last.session.counters().connections);
        self.pairs[pair].replaced[end] = None;
        self.pairs[pair].was_mixed |= self.is_mixed(pair);
        let mut random = Random::new(how.into());
        let configs = if how & 1 == 0 {
            settings::pair(&mut random)
        } else {
            settings::groups(&mut random)
        };
        let tag = (2 * pair + end + 1) as u32;
        // Attempts to connect are counted on: those of the last one are over.
        self.pairs[pair].ends[end] = End {
            attempt,
            ..End::new(&configs[end], tag, mix(how.into()))
        };
        // Pending events of the last one are dropped.
        self.queue
            .retain(|entry| entry.what.of() != Some((pair, end)));
        self.note(pair, end, || "another one".to_owned());
        if !self.pairs[pair].ends[other(end)].calls.is_empty() {
            self.seen(Seen::CallsOutlivePeer);
        }
        if end == CLIENT {
            self.pairs[pair].remembered = 0;
            self.stats.connections += connections;
            self.stats.fault(Fault::ClientReplaced);
        } else {
            self.stats.fault(Fault::ServerReplaced);
        }
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Step(number) => self.step(number),
            What::Deliver {
                pair,
                to,
                link,
                message,
            } => self.deliver(pair, to, link, message),
            What::Released { pair, end, what } => self.released(pair, end, what),
            What::Exposed {
                pair,
                end,
                xid,
                which,
                fails,
            } => self.exposed(pair, end, xid, which, fails),
            What::Fenced { pair, end, xid } => self.fenced(pair, end, xid),
            What::Moved {
                pair,
                end,
                call,
                link,
            } => self.moved(pair, end, call, link),
            What::Accepted {
                pair,
                attempt,
                fails,
            } => self.accepted(pair, attempt, fails),
            What::Established { pair, attempt } => self.established(pair, attempt),
            What::Lost { pair, end, link } => self.lost(pair, end, link),
            What::Unreachable { pair, attempt } => self.unreachable(pair, attempt),
            What::Timer { pair, end, at } => self.timer(pair, end, at),
            What::Answer { pair, end, call } => self.answer(pair, end, call),
            What::Wake { pair, end } => self.poll_now(pair, end),
            What::Heal => self.heal(),
            What::Rest => self.rest(),
            What::Drain => self.drain(),
            What::Done => self.done(),
        }
    }

    /// No fault from now on: open calls must end.
    fn heal(&mut self) {
        self.healed = true;
        self.steps_healed = self.stats.steps;
        for pair in 0..self.pairs.len() {
            self.pairs[pair].deaf_next = false;
            self.pairs[pair].link.deaf = false;
            self.pairs[pair].ends.iter_mut().for_each(End::heal);
            // What was forged may have left calls at one end that the other does not know.
            let link = &self.pairs[pair].link;
            // What is lost, or out of order, is found out by what comes next.
            let recovers = !link.again && pair_is_even(self.now, pair);
            if link.tainted && link.up && !recovers {
                self.disconnect(pair);
            }
            for end in [CLIENT, SERVER] {
                self.answer_ignored(pair, end, false);
                self.poll(pair, end);
            }
            self.pairs[pair].link.last_call = self.say_ready(pair, recovers);
        }
        self.at(self.now + BOUND, What::Rest);
    }

    /// Every call that could end has ended.
    fn rest(&mut self) {
        for pair in 0..self.pairs.len() {
            self.check_recovered(pair);
            if !self.pairs[pair].link.tainted {
                self.check_rest(pair);
            }
            for end in [CLIENT, SERVER] {
                // What is left waits for a peer that will not come.
                while let Some(xid) = self.pairs[pair].ends[end]
                    .calls
                    .iter()
                    .find(|call| !call.cancelled)
                {
                    let xid = xid.xid;
                    self.cancel(pair, end, xid);
                }
            }
        }
        self.at(self.now + BOUND, What::Drain);
    }

    fn drain(&mut self) {
        for pair in 0..self.pairs.len() {
            for end in [CLIENT, SERVER] {
                self.session(pair, end, Session::drain);
                // A session waits for its own consumer.
                self.answer_ignored(pair, end, true);
                self.poll(pair, end);
            }
        }
        self.at(self.now + BOUND, What::Done);
    }

    fn done(&mut self) {
        for pair in 0..self.pairs.len() {
            self.check_done(pair);
            self.forget_held(pair);
            let counters = self.pairs[pair].ends[CLIENT].session.counters();
            self.stats.connections += counters.connections;
        }
        if self.messages.used() > 0 && self.failed.is_none() {
            self.fail(format!(
                "{} messages were never given back",
                self.messages.used()
            ));
        }
        self.done = true;
    }

    /// Notes something for the chart.
    pub(crate) fn note(&mut self, pair: usize, end: usize, text: impl FnOnce() -> String) {
        if let Some(chart) = &mut self.chart {
            chart.note(self.now, pair, end, text());
        }
    }

    pub(crate) fn seen(&mut self, seen: Seen) {
        self.stats.seen(seen);
    }
}
