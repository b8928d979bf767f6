//! The cases of the conformance suite, on the software provider and on devices that have less.

use std::net::SocketAddr;
use std::sync::Arc;

use rpcrdma_verbs::conformance::{Bed, Case, Need, cases};
use rpcrdma_verbs::provider::software::{Fabric, Faults, SoftwareDevice};
use rpcrdma_verbs::provider::{Capabilities, Device};

/// Runs all cases, each on devices of its own: how many were run, and how many could not be.
fn run(device: impl Fn(&Arc<Fabric>) -> SoftwareDevice) -> (usize, Vec<&'static str>) {
    run_some(device, |_| true)
}

/// The same for those of a name that is wanted.
fn run_some(
    device: impl Fn(&Arc<Fabric>) -> SoftwareDevice,
    wanted: impl Fn(&str) -> bool,
) -> (usize, Vec<&'static str>) {
    let (mut ran, mut skipped) = (0, Vec::new());
    for case in cases() {
        let fabric = Fabric::new();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let bed = Bed { near: device(&fabric), far: device(&fabric), third: device(&fabric), address };
        let case: Case<SoftwareDevice> = case;
        if !wanted(case.name) {
            continue;
        }
        if !case.needs.is_met(bed.near.capabilities()) {
            skipped.push(case.name);
            continue;
        }
        println!("{}", case.name);
        case.run(&bed);
        ran += 1;
    }
    (ran, skipped)
}

fn less(change: impl Fn(&mut Capabilities)) -> impl Fn(&Arc<Fabric>) -> SoftwareDevice {
    move |fabric| {
        let mut capabilities = fabric.device().capabilities().clone();
        change(&mut capabilities);
        fabric.device_with(capabilities)
    }
}

#[test]
fn the_software_provider() {
    let (ran, skipped) = run(Fabric::device);
    assert!(ran > 50 && skipped.is_empty(), "{ran} ran, without {skipped:?}");
}

#[test]
fn a_device_without_windows() {
    let (_, skipped) = run(less(|capabilities| capabilities.windows = false));
    let windows: Vec<&str> =
        cases::<SoftwareDevice>().iter().filter(|case| case.needs == Need::Windows).map(|case| case.name).collect();
    assert_eq!(skipped, windows, "only what needs windows is left out");
}

/// As an iWARP device in software says it: no windows, one slice in a Read, and a sink that the peer may write.
#[test]
fn a_device_like_iwarp() {
    let (_, skipped) = run(less(|capabilities| {
        capabilities.windows = false;
        capabilities.slices = 6;
        capabilities.read_slices = 1;
        capabilities.read_sink_is_exposed = true;
    }));
    assert!(skipped.iter().all(|name| name.starts_with("windows::")));
}

#[test]
fn one_device_with_itself() {
    for case in cases() {
        let fabric = Fabric::new();
        let device = fabric.device();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let bed = Bed { near: device.clone(), far: device, third: fabric.device(), address };
        case.run(&bed);
    }
}

/// As a device does it: later, and one queue pair before the other.
#[test]
fn the_software_provider_with_delays() {
    for seed in 0..4 {
        let device = |fabric: &Arc<Fabric>| {
            fabric.inject(Faults { seed, delay: 5, ..Faults::default() });
            fabric.device()
        };
        // Time passes with polls: nothing wakes who does not poll.
        let (_, skipped) = run_some(device, |name| !name.starts_with("waking::"));
        assert!(skipped.is_empty());
    }
}
