//! Memory is exhausted at every turn of a scenario, at either end: every call ends, only written
//! bytes are sent, and everything continues when there is memory again.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use oncrpc::{CallErrorKind, Method, PendingCall};
use rpcrdma_proto::connection::{CallFailure, CloseReason, Config};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::transfer::{MethodPreference, ResultPlacement};
use rpcrdma_transport_tests::block::{bytes, checksum};
use rpcrdma_transport_tests::block1::{Echo, Null, Read, Write};
use rpcrdma_transport_tests::device_source::{DeviceSource as _, Iwarp};
use rpcrdma_transport_tests::ends::{Ends, any_address, placing};
use rpcrdma_transport_tests::traffic::failure;
use rpcrdma_verbs::memory::{Budget, Buf};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::provider::iwarp::IwarpDevice;
use rpcrdma_verbs::provider::software::{Fabric, Faults, SoftwareDevice};
use rpcrdma_verbs::{CompletedCall, LocalChannel, LocalEvent};

/// The number of half turns after which every scenario has ended.
const END: usize = 40;
/// The number of half turns without memory.
const WANT: usize = 6;
const COUNT: u32 = 20_000;
const BUDGET: usize = 1 << 26;

/// Takes all the memory that an end could use.
fn hoard<D: Device>(ends: &Ends<D>, end: usize) -> Vec<Buf> {
    let driver = [&ends.near, &ends.far][end];
    let budget = &ends.budgets[end];
    let left = BUDGET - budget.used();
    let mut all = vec![Buf::adopt(driver.device(), budget, vec![0; left]).unwrap()];
    for size in (6..=20).map(|bits| 1 << bits) {
        all.extend(std::iter::from_fn(|| driver.pool().take(size).ok()));
    }
    all
}

/// The calls in flight, one of each kind.
struct Open {
    null: Option<PendingCall<Null>>,
    read: Option<PendingCall<Read>>,
    write: Option<PendingCall<Write>>,
    echo: Option<PendingCall<Echo>>,
}

fn begin<D: Device>(ends: &mut Ends<D>) -> Open {
    let bytes = &bytes()[..COUNT as usize];
    Open {
        null: Some(ends.client.null().begin(&mut ends.near).unwrap()),
        read: Some(ends.begin_read(COUNT)),
        write: Some(ends.begin_write(bytes)),
        echo: Some(ends.begin_echo(bytes)),
    }
}

impl Open {
    fn is_empty(&self) -> bool {
        self.null.is_none() && self.read.is_none() && self.write.is_none() && self.echo.is_none()
    }

    /// Processes the events. Returns how many calls have failed for lack of memory, and how many
    /// connections were lost.
    fn take<D: Device>(&mut self, ends: &mut Ends<D>, what: &str) -> usize {
        let mut felt = 0;
        while let Some(event) = ends.event() {
            match event {
                LocalEvent::Completed(completed) => {
                    felt += usize::from(self.ended(ends, completed, what));
                }
                LocalEvent::Disconnected { reason, .. } => {
                    assert!(
                        matches!(reason, CloseReason::Lost | CloseReason::Unreachable),
                        "{what}: {reason}"
                    );
                    felt += 1;
                }
                _ => {}
            }
        }
        felt
    }

    /// Checks the outcome of a call. Returns true if it has failed.
    fn ended<D: Device>(
        &mut self,
        ends: &mut Ends<D>,
        completed: CompletedCall,
        what: &str,
    ) -> bool {
        let bytes = &bytes()[..COUNT as usize];
        let channel = ends.channel();
        let ended = FinishedCall {
            channel: &channel,
            completed: &completed,
            what,
        };
        let failed = ended
            .check(&mut self.null, |()| true)
            .or_else(|| ended.check(&mut self.read, |region| region.bytes.as_bytes() == bytes))
            .or_else(|| ended.check(&mut self.write, |sum| sum == checksum(bytes)))
            .or_else(|| ended.check(&mut self.echo, |reply| reply == bytes));
        channel.recycle(&mut ends.near, completed);
        failed.expect("no call ends twice")
    }

    /// Turns until all calls have ended, and returns the number of failures.
    fn finish<D: Device>(&mut self, ends: &mut Ends<D>, what: &str) -> usize {
        let began = Instant::now();
        let mut felt = 0;
        while !self.is_empty() {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{what}: a call is stuck"
            );
            ends.turn();
            felt += self.take(ends, what);
        }
        felt
    }
}

/// A call that has ended.
struct FinishedCall<'a, D: Device> {
    channel: &'a LocalChannel<D>,
    completed: &'a CompletedCall,
    what: &'a str,
}

impl<D: Device> FinishedCall<'_, D> {
    /// Returns true if this call has failed for lack of memory; `None` if another one has ended.
    fn check<P: Method>(
        &self,
        call: &mut Option<PendingCall<P>>,
        is_right: impl FnOnce(P::Reply<'_>) -> bool,
    ) -> Option<bool> {
        let result = self.channel.read(&(*call)?, self.completed, is_right)?;
        *call = None;
        Some(match result {
            Ok(is_right) => {
                assert!(is_right, "{}: the wrong results", self.what);
                false
            }
            Err(error) => {
                let expected = matches!(
                    failure(&error),
                    Some(CallFailure::Memory | CallFailure::ReplyMemory | CallFailure::Peer(_))
                );
                let status = matches!(error.kind(), CallErrorKind::Status(_));
                assert!(expected || status, "{}: {error}", self.what);
                true
            }
        })
    }
}

/// Opens the devices of both ends for the scenario with this number.
type Devices<'a, D> = &'a dyn Fn(u64) -> ([D; 2], SocketAddr);

/// The software fabric, whose operations take some turns, in an order by the number.
fn software(windows: bool) -> impl Fn(u64) -> ([SoftwareDevice; 2], SocketAddr) {
    move |number| {
        let fabric = Fabric::new();
        fabric.inject(Faults {
            delay: 2,
            seed: number,
            ..Faults::default()
        });
        let mut capabilities = fabric.device().capabilities().clone();
        capabilities.windows = windows;
        let devices = [fabric.device_with(capabilities), fabric.device()];
        (devices, any_address())
    }
}

fn iwarp(_: u64) -> ([IwarpDevice; 2], SocketAddr) {
    ([Iwarp.open(), Iwarp.open_server()], Iwarp.address())
}

/// Returns the number of failures over all turns.
fn every_turn<D: Device>(devices: Devices<'_, D>, config: impl Fn(Config) -> Config) -> usize {
    let points = (0..2).flat_map(|end| (0..END).map(move |turns| (end, turns)));
    points
        .map(|(end, turns)| {
            let (devices, address) = devices(turns as u64);
            let client = Config {
                reconnect_delay: 1,
                ..config(Config::client())
            };
            let budgets = [Budget::new(BUDGET), Budget::new(BUDGET)];
            let configs = (client, config(Config::server()));
            let ends = Ends::within(budgets, devices, address, configs);
            without_memory(ends, end, turns)
        })
        .sum()
}

/// Takes the memory of an end after some half turns, and gives it back. Returns the number of
/// failures.
fn without_memory<D: Device>(mut ends: Ends<D>, end: usize, turns: usize) -> usize {
    let what = format!(
        "{} without memory after {turns} half turns",
        ["the client", "the server"][end]
    );
    let mut felt = 0;
    // Properties of rtrext-02 apply from the second reply on.
    ends.null();
    ends.null();
    let mut open = begin(&mut ends);
    for number in 0..turns {
        ends.half_turn(number);
        open.take(&mut ends, &what);
    }
    let hoarded = hoard(&ends, end);
    for number in turns..turns + WANT {
        ends.half_turn(number);
        felt += open.take(&mut ends, &what);
    }
    drop(hoarded);
    felt += open.finish(&mut ends, &what);
    let failed = begin(&mut ends).finish(&mut ends, &what);
    assert_eq!(failed, 0, "{what}: it does not go on");
    let budgets = ends.budgets.clone();
    drop(ends);
    assert_eq!(budgets.map(|budget| budget.used()), [0, 0], "{what}");
    felt
}

// spec: rfc8166-4.5.4-b
#[test]
fn with_chunks() {
    assert!(every_turn(&software(true), |config| config) > 0);
    assert!(every_turn(&software(false), |config| config) > 0);
}

#[test]
fn with_data_placed_by_sends() {
    assert!(
        every_turn(&software(true), |config| config.with_rtr(RtrExtConfig {
            preference: MethodPreference::Groups,
            ..placing()
        })) > 0
    );
}

#[test]
fn with_transmissions_and_exposed_memory() {
    let explicit = RtrExtConfig {
        preference: MethodPreference::Groups,
        placement: ResultPlacement::Explicit,
        ..RtrExtConfig::ALL
    };
    assert!(every_turn(&software(false), |config| config.with_rtr(explicit)) > 0);
}

#[test]
fn over_iwarp() {
    assert!(every_turn(&iwarp, |config| config) > 0);
    assert!(every_turn(&iwarp, |config| config.with_rtr(RtrExtConfig::ALL)) > 0);
}
