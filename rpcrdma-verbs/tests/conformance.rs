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

/// iWARP over TCP. What a peer reads is sent while somebody makes progress: a thread does so here,
/// as a device would by itself.
#[cfg(feature = "iwarp")]
mod iwarp {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use rpcrdma_verbs::conformance::{Case, TestBed, cases};
    use rpcrdma_verbs::provider::iwarp::{IwarpConfig, IwarpDevice};

    /// Runs the cases with a matching name, with a thread that makes progress or without.
    fn run(
        config: &IwarpConfig,
        address: SocketAddr,
        progress: bool,
        wanted: impl Fn(&str) -> bool,
    ) {
        let device = || IwarpDevice::new(config.clone());
        for case in cases() {
            let case: Case<IwarpDevice> = case;
            if !wanted(case.name) {
                continue;
            }
            println!("{}", case.name);
            let bed = TestBed {
                near: device(),
                far: device(),
                third: device(),
                address,
            };
            let devices: &[_] = if progress {
                &[&bed.near, &bed.far]
            } else {
                &[]
            };
            progressing(devices, || case.run(&bed));
        }
    }

    /// Calls a function while a thread makes progress on devices.
    pub(super) fn progressing(devices: &[&IwarpDevice], f: impl FnOnce()) {
        let ended = AtomicBool::new(devices.is_empty());
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    devices.iter().for_each(|device| device.progress());
                    thread::yield_now();
                }
            });
            let guard = Ended(&ended);
            f();
            drop(guard);
        });
    }

    /// Ends the thread also after a panic.
    struct Ended<'a>(&'a AtomicBool);

    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn v4() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    fn v6() -> SocketAddr {
        SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0))
    }

    /// A thread that makes progress may be later than the test: what is posted has arrived at
    /// devices, and may be on its way here. Until it takes what came, the descriptor is readable,
    /// also after an acknowledgement.
    fn with_progress(name: &str) -> bool {
        let in_time = [
            "wakeups::what_came_before_is_not_told",
            "wakeups::an_armed_queue_wakes_once",
        ];
        !in_time.contains(&name)
    }

    /// Either end may send first, as on other devices.
    fn peer_to_peer() -> IwarpConfig {
        IwarpConfig {
            peer_to_peer: true,
            ..IwarpConfig::default()
        }
    }

    #[test]
    fn over_ipv4() {
        run(&peer_to_peer(), v4(), true, with_progress);
    }

    #[test]
    fn over_ipv6_without_crc() {
        let config = IwarpConfig {
            crc: false,
            ..peer_to_peer()
        };
        run(&config, v6(), true, with_progress);
    }

    /// Small FPDUs: every message has several. Each segment of a Write is checked by itself: those
    /// before the first that exceeds the memory are placed.
    #[test]
    fn in_short_segments() {
        let config = IwarpConfig {
            max_fpdu: Some(128),
            ..peer_to_peer()
        };
        run(&config, v4(), true, |name| {
            with_progress(name) && name != "rdma_access::writes_stay_within_bounds"
        });
    }

    /// The longest times are no limits.
    #[test]
    fn without_time_limits() {
        let config = IwarpConfig {
            setup_timeout: Duration::MAX,
            receive_timeout: Duration::MAX,
            fpdu_timeout: Duration::MAX,
            ..peer_to_peer()
        };
        run(&config, v4(), true, |name| {
            with_progress(name)
                && ["connections::", "messages::", "rdma_access::"]
                    .iter()
                    .any(|module| name.starts_with(module))
        });
    }

    /// Whoever polls makes the progress: no case but those that read waits for another.
    #[test]
    fn without_a_thread() {
        let polls_both = ["connections::", "messages::", "wakeups::"];
        run(&peer_to_peer(), v4(), false, |name| {
            polls_both.iter().any(|module| name.starts_with(module))
        });
    }
}

#[cfg(feature = "iwarp")]
mod devices {
    use std::env::var;
    use std::net::{IpAddr, SocketAddr};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Instant;

    use rpcrdma_verbs::conformance::{Case, TestBed, cases};
    use rpcrdma_verbs::provider::Device;
    use rpcrdma_verbs::provider::any::AnyDevice;
    use rpcrdma_verbs::provider::iwarp::IwarpDevice;

    /// Opens a device.
    type Open<'a> = &'a dyn Fn() -> AnyDevice;

    /// Runs all cases that both devices support and whose name contains `wanted`. Returns those
    /// that failed.
    fn run(
        (open, open_peer): (Open<'_>, Open<'_>),
        address: SocketAddr,
        wanted: &str,
    ) -> Vec<&'static str> {
        let left_out = var("RPCRDMA_WITHOUT").unwrap_or_default();
        let (mut passed, mut failed, mut skipped) = (0, Vec::new(), Vec::new());
        println!(
            "{:?}\n{:?}",
            open().capabilities(),
            open_peer().capabilities()
        );
        for case in cases() {
            let case: Case<AnyDevice> = case;
            let bed = TestBed {
                near: open(),
                far: open_peer(),
                third: open(),
                address,
            };
            let devices = [&bed.near, &bed.far];
            let is_met = |device: &&AnyDevice| case.needs.is_met(device.capabilities());
            let is_left_out = left_out.split(',').any(|name| name == case.name);
            let is_wanted = case.name.contains(wanted) && !is_left_out;
            if !is_wanted || !devices.iter().all(is_met) {
                skipped.push(case.name);
                continue;
            }
            let progress: Vec<_> = devices.into_iter().filter_map(iwarp).collect();
            println!("{}", case.name);
            let began = Instant::now();
            // The results of the others are still useful.
            let run = || super::iwarp::progressing(&progress, || case.run(&bed));
            match catch_unwind(AssertUnwindSafe(run)) {
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

    fn iwarp(device: &AnyDevice) -> Option<&IwarpDevice> {
        match device {
            AnyDevice::Iwarp(device) => Some(device),
            _ => None,
        }
    }

    /// Runs on the device of `RPCRDMA_DEVICE`, with and without windows, and the device of
    /// `RPCRDMA_SERVER_DEVICE` at the address `RPCRDMA_ADDRESS`, if that is another. `RPCRDMA_CASE`
    /// selects cases by a part of their name, `RPCRDMA_WITHOUT` leaves out those that it names.
    #[test]
    fn the_device_of_this_machine() {
        let (Ok(name), Ok(address)) = (var("RPCRDMA_DEVICE"), var("RPCRDMA_ADDRESS")) else {
            println!("RPCRDMA_DEVICE and RPCRDMA_ADDRESS name no device to be tested");
            return;
        };
        let address: IpAddr = address.parse().expect("RPCRDMA_ADDRESS is an address");
        let address = (address, 0).into();
        let wanted = var("RPCRDMA_CASE").unwrap_or_default();
        let opened = |name: &str| AnyDevice::open(name).unwrap_or_else(|error| panic!("{error}"));
        let open = || opened(&name);
        let server = var("RPCRDMA_SERVER_DEVICE").unwrap_or_else(|_| name.clone());
        let failed = run((&open, &|| opened(&server)), address, &wanted);
        assert!(failed.is_empty());
    }

    #[cfg(feature = "ibverbs")]
    #[test]
    fn the_device_of_this_machine_without_windows() {
        use rpcrdma_verbs::provider::ibverbs::IbvDevice;
        let (Ok(name), Ok(address)) = (var("RPCRDMA_DEVICE"), var("RPCRDMA_ADDRESS")) else {
            return;
        };
        let device = AnyDevice::open(&name).unwrap_or_else(|error| panic!("{error}"));
        let is_other = var("RPCRDMA_SERVER_DEVICE").is_ok_and(|server| server != name);
        if is_other || iwarp(&device).is_some() || !device.capabilities().windows {
            return;
        }
        let address: IpAddr = address.parse().expect("RPCRDMA_ADDRESS is an address");
        let open = || {
            let device = IbvDevice::open_without_windows(Some(&name));
            device.unwrap_or_else(|error| panic!("{error}")).into()
        };
        let wanted = var("RPCRDMA_CASE").unwrap_or_default();
        let failed = run((&open, &open), (address, 0).into(), &wanted);
        assert!(failed.is_empty());
    }

    #[cfg(feature = "ibverbs")]
    #[test]
    fn a_device_that_is_not_there_is_named() {
        use rpcrdma_verbs::provider::ibverbs::{IbvDevice, devices};
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
