//! The conformance suite on the software provider, and on devices with fewer capabilities.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rpcrdma_verbs::conformance::{Case, Need, TestBed, cases};
use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::provider::software::{Fabric, Faults, SoftwareDevice};
use rpcrdma_verbs::provider::{Capabilities, Device};

/// Runs all cases, each on its own devices. Returns how many ran, and which could not.
fn run(device: impl Fn(&Arc<Fabric>) -> SoftwareDevice) -> (usize, Vec<&'static str>) {
    run_some(Fabric::new, device, |_| true)
}

/// Runs the cases with a matching name.
fn run_some(
    fabric: impl Fn() -> Arc<Fabric>,
    device: impl Fn(&Arc<Fabric>) -> SoftwareDevice,
    wanted: impl Fn(&str) -> bool,
) -> (usize, Vec<&'static str>) {
    let (mut ran, mut skipped) = (0, Vec::new());
    for case in cases() {
        let fabric = fabric();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let bed = TestBed {
            near: device(&fabric),
            far: device(&fabric),
            third: device(&fabric),
            address,
        };
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

/// Runs all cases on devices whose provider is chosen at run time.
#[test]
fn any_device() {
    for case in cases() {
        let case: Case<AnyDevice> = case;
        let fabric = Fabric::new();
        let device = || AnyDevice::from(fabric.device());
        let bed = TestBed {
            near: device(),
            far: device(),
            third: device(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        println!("{}", case.name);
        case.run(&bed);
    }
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
    assert!(
        ran > 50 && skipped.is_empty(),
        "{ran} ran, without {skipped:?}"
    );
}

#[test]
fn a_device_without_windows() {
    let (_, skipped) = run(less(|capabilities| capabilities.windows = false));
    let windows: Vec<&str> = cases::<SoftwareDevice>()
        .iter()
        .filter(|case| matches!(case.needs, Need::Windows | Need::GuardedWindows))
        .map(|case| case.name)
        .collect();
    assert_eq!(skipped, windows, "only what needs windows is left out");
}

/// Like an iWARP device in software: no windows, one entry in a Read, and a sink that the peer may
/// write.
#[test]
fn a_device_like_iwarp() {
    let (_, skipped) = run(less(|capabilities| {
        capabilities.windows = false;
        capabilities.max_sge = 6;
        capabilities.max_read_sge = 1;
        capabilities.read_sink_needs_remote_write = true;
        capabilities.rnr_retry = false;
    }));
    assert!(
        skipped
            .iter()
            .all(|name| name.starts_with("windows::") || name.ends_with("waits_for_a_receive"))
    );
}

#[test]
fn one_device_with_itself() {
    for case in cases() {
        let fabric = Fabric::new();
        let device = fabric.device();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let bed = TestBed {
            near: device.clone(),
            far: device,
            third: fabric.device(),
            address,
        };
        case.run(&bed);
    }
}

/// Like a device: completions are late, and queue pairs overtake each other.
#[test]
fn the_software_provider_with_delays() {
    for seed in 0..4 {
        let device = |fabric: &Arc<Fabric>| {
            fabric.inject(Faults {
                seed,
                delay: 5,
                ..Faults::default()
            });
            fabric.device()
        };
        // Time passes with polls, and nothing wakes a thread that does not poll.
        let (_, skipped) = run_some(Fabric::new, device, |name| !name.starts_with("wakeups::"));
        assert!(skipped.is_empty());
    }
}

/// Like a device: messages and acknowledgements take time.
#[test]
fn the_software_provider_over_a_distance() {
    let delayed = || Fabric::with_delay(Duration::from_micros(20));
    let (ran, skipped) = run_some(delayed, Fabric::device, |_| true);
    assert!(
        ran > 50 && skipped.is_empty(),
        "{ran} ran, without {skipped:?}"
    );
}

/// Both: a thread that sleeps is woken to poll, whether or not something has arrived.
#[test]
fn the_software_provider_over_a_distance_with_delays() {
    let delayed = || Fabric::with_delay(Duration::from_micros(20));
    let device = |fabric: &Arc<Fabric>| {
        fabric.inject(Faults {
            seed: 7,
            delay: 5,
            ..Faults::default()
        });
        fabric.device()
    };
    let (_, skipped) = run_some(delayed, device, |name| !name.starts_with("wakeups::"));
    assert!(skipped.is_empty());
}

#[cfg(feature = "ibverbs")]
mod devices {
    use std::env::var;
    use std::net::{IpAddr, SocketAddr};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Instant;

    use rpcrdma_verbs::conformance::{Case, TestBed, cases};
    use rpcrdma_verbs::provider::ibverbs::{IbvDevice, devices};
    use rpcrdma_verbs::provider::{Device, VerbError};

    /// Runs all cases that the device supports and whose name contains `wanted`. Returns those that
    /// failed.
    fn run(open: impl Fn() -> IbvDevice, address: SocketAddr, wanted: &str) -> Vec<&'static str> {
        let (mut passed, mut failed, mut skipped) = (0, Vec::new(), Vec::new());
        println!("{:?}", open().capabilities());
        for case in cases() {
            let case: Case<IbvDevice> = case;
            let bed = TestBed {
                near: open(),
                far: open(),
                third: open(),
                address,
            };
            if !case.name.contains(wanted) || !case.needs.is_met(bed.near.capabilities()) {
                skipped.push(case.name);
                continue;
            }
            println!("{}", case.name);
            let began = Instant::now();
            // The results of the others are still useful.
            match catch_unwind(AssertUnwindSafe(|| case.run(&bed))) {
                Ok(()) => passed += 1,
                Err(_) => failed.push(case.name),
            }
            println!("{}: {} ms", case.name, began.elapsed().as_millis());
        }
        println!(
            "{passed} cases passed, {} failed: {failed:?}; left out: {skipped:?}",
            failed.len()
        );
        failed
    }

    /// Runs on the device of `RPCRDMA_DEVICE`, at the address `RPCRDMA_ADDRESS`, with and without
    /// windows. `RPCRDMA_CASE` selects cases by a part of their name.
    #[test]
    fn the_device_of_this_machine() {
        let (Ok(name), Ok(address)) = (var("RPCRDMA_DEVICE"), var("RPCRDMA_ADDRESS")) else {
            println!("RPCRDMA_DEVICE and RPCRDMA_ADDRESS name no device to be tested");
            return;
        };
        let address: IpAddr = address.parse().expect("RPCRDMA_ADDRESS is an address");
        let wanted = var("RPCRDMA_CASE").unwrap_or_default();
        let opened = |found: Result<IbvDevice, _>| {
            found.unwrap_or_else(|error: VerbError| panic!("{error}"))
        };
        let open = || opened(IbvDevice::open(Some(&name)));
        let mut failed = run(open, (address, 0).into(), &wanted);
        if open().capabilities().windows {
            failed.extend(run(
                || opened(IbvDevice::open_without_windows(Some(&name))),
                (address, 0).into(),
                &wanted,
            ));
        }
        assert!(failed.is_empty());
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error = IbvDevice::open(Some("nowhere0"))
            .expect_err("it is not there")
            .to_string();
        assert!(
            error.starts_with("ibv_open_device: there is no RDMA device nowhere0"),
            "{error}"
        );
        for device in devices().expect("they can be listed") {
            println!("{device:#?}");
        }
    }
}
