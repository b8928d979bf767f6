//! Many sessions of the engine in worlds of their own: virtual links and clocks, consumers that do
//! anything, and faults of all kinds. The rules that always hold are held after every step.
//!
//! `RPCRDMA_SEED=n` runs one seed and prints its charts. `RPCRDMA_STEPS=n` runs so many steps, of
//! seeds from a random one on, or from `RPCRDMA_BASE`. `.ci/simulate` is the long run.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and chooses its numbers"
)]

#[path = "simulation/mod.rs"]
mod simulation;

use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
use rpcrdma_proto::transfer::{MethodPreference, ResultPlacement};
use simulation::fault::{Counts, Fault, Stats};
use simulation::runner;
use simulation::script::{Act, CLIENT, Plan, SERVER, Sabotage, Step};
use simulation::spec::Spec;

/// Steps of a run among the other tests.
const FEW: u64 = 1_000_000;
/// From so many on, everything happens: the rarest event is met about three times in a million.
const ENOUGH: u64 = 10_000_000;
/// From so many on, every fault happens often.
const MANY: u64 = 100_000_000;
const OFTEN: u64 = 1000;
/// Some of what faults lead to takes several things to meet.
const SELDOM: u64 = 100;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| {
        value
            .parse()
            .unwrap_or_else(|_| panic!("{variable} is no number"))
    })
}

#[test]
fn invariants_hold_under_random_faults() {
    if let Some(seed) = number("RPCRDMA_SEED") {
        let plan = Plan::of(seed);
        if runner::run(&plan).is_err() {
            panic!("{}", runner::report(seed, &plan));
        }
        (0..plan.pairs.len()).for_each(|pair| println!("{}", runner::chart(&plan, pair).0));
        return;
    }
    let (start, steps) = (Instant::now(), number("RPCRDMA_STEPS").unwrap_or(FEW));
    // Half of the range is left to the seeds that follow.
    let base = number("RPCRDMA_BASE").unwrap_or_else(|| RandomState::new().hash_one(0) >> 1);
    println!("RPCRDMA_BASE={base}");
    let stats = runner::many(base, steps).unwrap_or_else(|report| panic!("{report}"));
    print(&stats, start);
    let (faults, seen) = stats.counts();
    let rare = |all: &Counts, least| {
        all.iter()
            .filter(|(_, count)| *count < least)
            .cloned()
            .collect::<Counts>()
    };
    let rare = [rare(&faults, OFTEN), rare(&seen, SELDOM)].concat();
    assert!(steps < MANY || rare.is_empty(), "too rare: {rare:?}");
    let never: Vec<_> = faults
        .iter()
        .chain(&seen)
        .filter(|(_, count)| *count == 0)
        .collect();
    assert!(steps < ENOUGH || never.is_empty(), "never: {never:?}");
}

fn print(stats: &Stats, start: Instant) {
    let Stats {
        steps,
        runs,
        connections,
        ..
    } = stats;
    println!(
        "{steps} steps, {runs} seeds, {connections} connections, {:.1} s",
        start.elapsed().as_secs_f64()
    );
    let (faults, seen) = stats.counts();
    println!("Faults:");
    faults
        .iter()
        .for_each(|(name, count)| println!("{count:>12} {name}"));
    println!("Seen:");
    seen.iter()
        .for_each(|(name, count)| println!("{count:>12} {name}"));
}

/// A plan without chance but for its delays: one pair, with the default settings.
fn plan(steps: &[(u64, usize, Act)]) -> Plan {
    let script = steps.iter().map(|(at, end, act)| Step {
        at: *at,
        pair: 0,
        end: *end,
        act: *act,
    });
    Plan {
        seed: 3,
        pairs: vec![[
            Config {
                xid_seed: 1,
                ..Config::client()
            },
            Config {
                xid_seed: 2,
                ..Config::server()
            },
        ]],
        script: script.collect(),
        sabotage: None,
        pace: 20,
        lazy: false,
    }
}

/// Every kind of call, in both directions.
fn all_kinds() -> Plan {
    let call = |items: &[u32], tail, results: &[u32], reply| {
        Act::Call(Spec::new(items, tail, results, reply), 0)
    };
    let set = Act::Set(1, 0);
    plan(&[
        (10, CLIENT, Act::Call(Spec::NULL, 0)),
        (600, CLIENT, call(&[9001], 0, &[], 100)),
        (620, CLIENT, call(&[], 0, &[70_000, 3], 0)),
        (640, CLIENT, call(&[], 9000, &[], 9000)),
        (660, SERVER, call(&[5000], 0, &[6001], 0)),
        (700, SERVER, call(&[], 0, &[], 0)),
        (720, CLIENT, set),
        (800, CLIENT, Act::Cancel(1)),
        (900, CLIENT, call(&[1, 0, 5001], 3, &[0, 4097], 5000)),
        (1200, SERVER, Act::Ask(0, 1)),
        (1300, CLIENT, Act::Drain),
    ])
}

/// Messages in several transmissions, in both directions, with items and results that are placed,
/// read and written.
fn all_groups(structure: Option<BufferStructure>, direct: ResultPlacement) -> Plan {
    let rtr = RtrExtConfig {
        structure,
        placement: direct,
        preference: MethodPreference::Groups,
        min_placed_len: 100,
        ..RtrExtConfig::ALL
    };
    let call = |items: &[u32], tail, results: &[u32], reply| {
        Act::Call(Spec::new(items, tail, results, reply), 0)
    };
    let plan = plan(&[
        (600, CLIENT, call(&[], 9000, &[], 100)),
        (620, CLIENT, call(&[], 0, &[], 9000)),
        (640, CLIENT, call(&[9001, 2], 0, &[], 0)),
        (660, CLIENT, call(&[], 0, &[5000, 9, 6001], 0)),
        (700, SERVER, call(&[5000], 9000, &[6001], 9000)),
        (800, CLIENT, Act::Cancel(1)),
        (900, CLIENT, call(&[70_000, 3000], 3, &[0, 70_000], 5000)),
        (1300, CLIENT, Act::Drain),
    ]);
    let pairs = plan
        .pairs
        .into_iter()
        .map(|ends| ends.map(|config| config.with_rtr(rtr)))
        .collect();
    Plan {
        pairs,
        lazy: true,
        ..plan
    }
}

#[test]
fn a_connection_may_break_at_any_moment() {
    let segments = [(4096, false), (4096, true), (1024, true)];
    let segments = segments.map(|(length, target)| BufferSegment {
        length,
        align: 8,
        target,
    });
    let structure = BufferStructure::new(&segments).ok();
    breaks_anywhere(all_kinds());
    for direct in [ResultPlacement::Cheaper, ResultPlacement::Explicit] {
        breaks_anywhere(all_groups(None, direct));
        breaks_anywhere(all_groups(structure, direct));
    }
}

fn breaks_anywhere(plan: Plan) {
    let events = runner::run_cut(&plan, None).unwrap();
    assert!(events > 60);
    for cut in 0..events {
        for seed in 0..4 {
            let plan = Plan {
                seed,
                ..plan.clone()
            };
            if let Err(why) = runner::run_cut(&plan, Some(cut)) {
                panic!("cut before event {cut} of seed {seed}: {why}");
            }
        }
    }
}

/// The conditions that break a rule: the first such seed, and its minimized script.
fn shortest(sabotage: Sabotage) -> (String, Plan) {
    for seed in 0..10_000 {
        let plan = Plan {
            sabotage: Some(sabotage),
            ..Plan::of(seed)
        };
        if runner::run(&plan).is_err() {
            let least = runner::shrink(&plan);
            return (runner::run(&least).unwrap_err(), least);
        }
    }
    panic!("nobody notices {sabotage:?}");
}

#[test]
fn broken_transports_are_detected() {
    for (sabotage, wanted) in [
        (Sabotage::EarlyRelease, "while a Send has"),
        (Sabotage::EarlyFence, "while its memory is exposed"),
        (Sabotage::FewerReceives, "receives are posted, for"),
    ] {
        let (why, least) = shortest(sabotage);
        assert!(why.contains(wanted), "{sabotage:?}: {why}");
        assert!(
            least.script.len() <= 6,
            "{sabotage:?} takes {:#?}",
            least.script
        );
    }
}

/// A short script in words, as in a report.
#[test]
fn failure_report_is_minimized() {
    let (_, least) = shortest(Sabotage::EarlyRelease);
    let report = runner::report(3, &least);
    assert!(report.starts_with("RPCRDMA_SEED=3: at "), "{report}");
    assert!(
        report.contains("call 0x") && report.contains("RDMA"),
        "{report}"
    );
}

/// The run that the documentation shows.
fn shown() -> Plan {
    let read = Spec::new(&[], 88, &[65_536], 100);
    let write = Spec::new(&[32_768], 80, &[], 160);
    plan(&[
        (500, CLIENT, Act::Call(read, 0)),
        (1000, CLIENT, Act::Call(write, 0)),
        (1025, CLIENT, Act::Fault(Fault::Disconnect, 0)),
        (102_000, CLIENT, Act::Drain),
        (102_100, SERVER, Act::Drain),
    ])
}

#[test]
fn the_chart_is_the_one_of_the_documentation() {
    let (chart, ran) = runner::chart(&shown(), 0);
    ran.unwrap();
    let chart = chart.to_string();
    insta::assert_snapshot!(chart);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/engine-chart.md");
    let page = std::fs::read_to_string(path).unwrap();
    assert!(
        page.contains(&format!("```text\n{chart}```\n")),
        "docs/engine-chart.md should have this chart:\n\n{chart}"
    );
}
