//! Clients and a server on a fabric with faults, and over iWARP with TCP streams that are divided,
//! delayed, damaged and cut: every call ends once, with its results or with an error.
//!
//! `RPCRDMA_SOAK_SECONDS` sets the duration of each test (default 3), and `RPCRDMA_SOAK_SEED` the
//! seed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "the numbers of a test are small"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rpcrdma_transport_tests::ends::any_address;
use rpcrdma_transport_tests::faulty_tcp::FaultyTcp;
use rpcrdma_transport_tests::random::{Random, begin};
use rpcrdma_transport_tests::traffic::{Caller, Host, PATIENCE, settle};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::provider::iwarp::{IwarpConfig, IwarpDevice};
use rpcrdma_verbs::provider::software::{Fabric, Faults, SoftwareDevice};

fn device(fabric: &Arc<Fabric>, number: u64) -> SoftwareDevice {
    let mut capabilities = fabric.device().capabilities().clone();
    match number % 4 {
        1 => capabilities.windows = false,
        2 => {
            (
                capabilities.windows,
                capabilities.read_sink_needs_remote_write,
            ) = (false, true)
        }
        _ => {}
    }
    fabric.device_with(capabilities)
}

fn faults(random: &mut Random) -> Faults {
    let mut chance = |most: u64| {
        if random.one_in(3) {
            0
        } else {
            random.below(most) as u16
        }
    };
    let (disconnect, not_ready, bad_key, lost_wakeup) =
        (chance(200), chance(100), chance(300), chance(20_000));
    let delay = chance(8).into();
    Faults {
        seed: random.next_u64(),
        delay,
        disconnect,
        not_ready,
        bad_key,
        lost_wakeup,
    }
}

#[test]
fn calls_end_once_in_spite_of_faults() {
    let (seed, end) = begin();
    let mut random = Random(seed);
    let fabric = Fabric::new();
    let mut host = Host::new(&fabric.device(), any_address());
    let address = host.server.local_addr();
    let mut callers: Vec<Caller<SoftwareDevice>> = (0..4)
        .map(|number| Caller::new(&device(&fabric, number), address, number, seed))
        .collect();
    let mut number = callers.len() as u64;
    let (mut total, mut restarts) = (Vec::new(), 0);
    while Instant::now() < end {
        if random.one_in(1000) {
            fabric.inject(faults(&mut random));
        }
        if random.one_in(5000) {
            // Replaces a client, whose calls end.
            let at = random.below(4) as usize;
            let old = std::mem::replace(
                &mut callers[at],
                Caller::new(&device(&fabric, number), address, number, seed),
            );
            number += 1;
            total.push(old.end());
        }
        if random.one_in(10_000) {
            host.end();
            host = Host::new(&fabric.device(), address);
            restarts += 1;
        }
        let at = random.below(5) as usize;
        match callers.get_mut(at) {
            Some(caller) => caller.step(),
            None => host.step(&mut random),
        }
        callers.iter().for_each(Caller::assert_moving);
    }
    println!("{:?}, {restarts} restarts of the server", fabric.injected());
    fabric.inject(Faults::default());
    settle(&mut callers, &mut host, &mut random);
    total.extend(callers.into_iter().map(Caller::end));
    assert_eq!(host.ended, host.begun);
    host.end();
    total.iter().for_each(|tally| println!("{tally:?}"));
    assert!(total.iter().map(|tally| tally.answered).sum::<u64>() > 100);
}

#[test]
fn calls_over_iwarp_end_once_in_spite_of_faults() {
    let (seed, end) = begin();
    let mut random = Random(seed);
    let device = || {
        IwarpDevice::new(IwarpConfig {
            // A damaged length lets an end wait for the rest of an FPDU.
            fpdu_timeout: Duration::from_millis(200),
            setup_timeout: Duration::from_millis(200),
            ..IwarpConfig::default()
        })
    };
    let mut host = Host::new(&device(), any_address());
    let proxy = FaultyTcp::new(host.server.local_addr(), random.next_u64());
    let mut callers: Vec<Caller<IwarpDevice>> = (0..4)
        .map(|number| Caller::new(&device(), proxy.address(), number, seed))
        .collect();
    while Instant::now() < end {
        let at = random.below(5) as usize;
        match callers.get_mut(at) {
            Some(caller) => caller.step(),
            None => host.step(&mut random),
        }
        callers.iter().for_each(Caller::assert_moving);
    }
    println!("{:?}", proxy.injected());
    proxy.calm();
    settle(&mut callers, &mut host, &mut random);
    let total: Vec<_> = callers.into_iter().map(Caller::end).collect();
    assert_eq!(host.ended, host.begun);
    host.end();
    total.iter().for_each(|tally| println!("{tally:?}"));
    assert!(total.iter().map(|tally| tally.answered).sum::<u64>() > 100);
    for count in [&proxy.injected().cuts, &proxy.injected().damages] {
        assert!(count.load(Ordering::Relaxed) > 0, "{:?}", proxy.injected());
    }
}

/// Decrements the number of running threads when a thread ends, even after a panic.
struct End<'a>(&'a AtomicU64);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn threads_do_not_wait_for_each_other() {
    let (seed, end) = begin();
    let fabric = Fabric::new();
    let (stop, running, answered) = (AtomicBool::new(false), AtomicU64::new(3), AtomicU64::new(0));
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (fabric, stop, running, answered) = (&fabric, &stop, &running, &answered);
        scope.spawn(move || {
            let mut random = Random(seed);
            let mut host = Host::new(&fabric.device(), any_address());
            tell.send(host.server.local_addr()).unwrap();
            while running.load(Ordering::Relaxed) > 0 {
                if Instant::now() < end && random.one_in(1000) {
                    fabric.inject(faults(&mut random));
                }
                if Instant::now() >= end && !stop.swap(true, Ordering::Relaxed) {
                    fabric.inject(Faults::default());
                }
                host.step(&mut random);
            }
            host.end();
        });
        let address = told.recv().unwrap();
        for number in 0..3 {
            scope.spawn(move || {
                let _end = End(running);
                let mut caller = Caller::new(&device(fabric, number), address, number, seed);
                while !stop.load(Ordering::Relaxed) {
                    caller.step();
                    caller.assert_moving();
                }
                while !caller.open.is_empty() {
                    caller.driver.wait(Duration::from_millis(1)).unwrap();
                    caller.take();
                    caller.assert_moving();
                }
                let tally = caller.end();
                println!("{tally:?}");
                answered.fetch_add(tally.answered, Ordering::Relaxed);
            });
        }
    });
    assert!(answered.into_inner() > 100);
}

/// Delayed work progresses while both ends wait in separate threads.
#[test]
fn delayed_work_wakes_waiting_ends() {
    let fabric = Fabric::new();
    fabric.inject(Faults {
        seed: 5,
        delay: 6,
        ..Faults::default()
    });
    let began = Instant::now();
    let done = AtomicBool::new(false);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (fabric, done) = (&fabric, &done);
        scope.spawn(move || {
            let mut host = Host::new(&fabric.device(), any_address());
            tell.send(host.server.local_addr()).unwrap();
            while !done.load(Ordering::Relaxed) {
                host.driver.wait(PATIENCE).unwrap();
                host.server.serve(&mut host.driver);
            }
        });
        let mut caller = Caller::new(&fabric.device(), told.recv().unwrap(), 0, 5);
        for _ in 0..50 {
            caller.begin_null();
            while !caller.open.is_empty() {
                caller.driver.wait(PATIENCE).unwrap();
                caller.take();
                caller.assert_moving();
            }
        }
        // The end of the connection wakes the server.
        done.store(true, Ordering::Relaxed);
        drop(caller);
    });
    assert!(fabric.injected().delays > 0);
    assert!(
        began.elapsed() < PATIENCE,
        "somebody has waited as long as it was allowed to"
    );
}
