//! Runs: one of a seed, many of many seeds, and the shortest script that still fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::chart::Chart;
use super::fault::Stats;
use super::script::Plan;
use super::world::World;

/// Runs a plan: what it counted, or which rule was broken.
pub(crate) fn run(plan: &Plan) -> Result<Stats, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(plan);
        world.run().map(|()| world.stats)
    }));
    ran.unwrap_or_else(|panic| Err(message(panic.as_ref())))
}

/// Runs a plan whose first connection breaks before the event of this number: how many events there
/// were.
pub(crate) fn run_cut(plan: &Plan, cut_at: Option<u64>) -> Result<u64, String> {
    let mut world = World::new(plan);
    world.cut_at = cut_at;
    world.run().map(|()| world.events)
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panics: {}", text.unwrap_or("of an unknown kind"))
}

/// Runs a plan with a chart of one of its pairs.
pub(crate) fn chart(plan: &Plan, pair: usize) -> (Chart, Result<(), String>) {
    let mut world = World::new(plan);
    world.chart = Some(Chart::new(pair));
    let ran = catch_unwind(AssertUnwindSafe(|| world.run()));
    let ran = ran.unwrap_or_else(|panic| Err(message(panic.as_ref())));
    (world.chart.take().unwrap_or_default(), ran)
}

/// The shortest script found that still breaks a rule: chunks are left out as long as it does, ever
/// smaller ones.
pub(crate) fn shrink(plan: &Plan) -> Plan {
    let mut least = plan.clone();
    let mut chunk = least.script.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let before = least.script.len();
        while at < least.script.len() {
            let mut less = least.clone();
            let end = (at + chunk).min(less.script.len());
            less.script.drain(at..end);
            if run(&less).is_err() {
                least = less;
            } else {
                at = end;
            }
        }
        if chunk > 1 {
            chunk = chunk.div_ceil(2);
        } else if least.script.len() == before {
            return least;
        }
    }
}

/// All that there is to say of a plan that breaks a rule.
pub(crate) fn report(seed: u64, plan: &Plan) -> String {
    let least = shrink(plan);
    let pairs = 0..least.pairs.len();
    let busiest = pairs
        .max_by_key(|pair| {
            least
                .script
                .iter()
                .filter(|step| step.pair == *pair)
                .count()
        })
        .unwrap_or(0);
    let (chart, ran) = chart(&least, busiest);
    let why = ran
        .err()
        .unwrap_or_else(|| "nothing, the second time".to_owned());
    let steps: String = least
        .script
        .iter()
        .map(|step| format!("{step}\n"))
        .collect();
    let configs = &least.pairs[busiest];
    format!("RPCRDMA_SEED={seed}: {why}\n\n{steps}\n{chart}\n{configs:#?}")
}

/// Runs seeds from `first` on, until so many steps are done, on all cores.
///
/// # Errors
/// The report of the first run that breaks a rule.
pub(crate) fn many(first: u64, steps: u64) -> Result<Stats, String> {
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (next, done, stop) = (
        AtomicU64::new(first),
        AtomicU64::new(0),
        AtomicBool::new(false),
    );
    let (stats, failed) = (Mutex::new(Stats::default()), Mutex::new(None));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut mine = Stats::default();
                while done.load(Ordering::Relaxed) < steps && !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    match run(&Plan::of(seed)) {
                        Ok(ran) => {
                            done.fetch_add(ran.steps, Ordering::Relaxed);
                            mine.add(&ran);
                        }
                        Err(_) => {
                            stop.store(true, Ordering::Relaxed);
                            let mut failed = failed.lock().expect("no thread panics");
                            let least = failed.map_or(seed, |other: u64| other.min(seed));
                            *failed = Some(least);
                        }
                    }
                }
                stats.lock().expect("no thread panics").add(&mine);
            });
        }
    });
    match failed.into_inner().expect("no thread panics") {
        Some(seed) => Err(report(seed, &Plan::of(seed))),
        None => Ok(stats.into_inner().expect("no thread panics")),
    }
}
