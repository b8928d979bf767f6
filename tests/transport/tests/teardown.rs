//! Ends are dropped at every turn of a scenario, in every order: nothing stays registered, and
//! retained data do not change. Under AddressSanitizer (`.ci/asan`) this shows that no memory is
//! used after it is freed. The tests run on the software fabric, and over iWARP.

use std::sync::{Mutex, PoisonError};

use oncrpc::PendingCall;
use oncrpc::xdr::SharedBytes;
use rpcrdma_proto::connection::Config;
use rpcrdma_proto::version::Version;
use rpcrdma_transport_tests::block::bytes;
use rpcrdma_transport_tests::block1::{Echo, Null, Read, Write};
use rpcrdma_transport_tests::device_source::Iwarp;
use rpcrdma_transport_tests::ends::{self, Ends};
use rpcrdma_transport_tests::schema::Region;
use rpcrdma_verbs::memory::{Buf, PostedBuf};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::provider::software::{Fabric, Faults};
use rpcrdma_verbs::{CompletedCall, LocalEvent};

/// The number of half turns after which every scenario has ended.
const END: usize = 60;
const RESULT: u32 = 20_000;

/// The objects to drop, and their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DropOrder {
    /// First the client's driver; the server continues for a while.
    Near,
    /// First the server's driver; the client continues.
    Far,
    /// The server alone; its driver stays.
    Server,
    /// The client's connection is removed, and both continue.
    Forgotten,
    /// The server's connections are removed.
    Cut,
    /// All calls are cancelled, and then the client's driver is dropped at once.
    Cancelled,
    /// The fabric, and then both at once.
    All,
}

const DROP_ORDERS: [DropOrder; 7] = [
    DropOrder::Near,
    DropOrder::Far,
    DropOrder::Server,
    DropOrder::Forgotten,
    DropOrder::Cut,
    DropOrder::Cancelled,
    DropOrder::All,
];

/// A call in flight.
enum Pending {
    Null(PendingCall<Null>),
    Read(PendingCall<Read>),
    Write(PendingCall<Write>),
    Echo(PendingCall<Echo>),
}

impl Pending {
    fn xid(&self) -> u32 {
        match self {
            Self::Null(call) => call.xid(),
            Self::Read(call) => call.xid(),
            Self::Write(call) => call.xid(),
            Self::Echo(call) => call.xid(),
        }
    }

    fn cancel<D: Device>(&self, ends: &mut Ends<D>) -> bool {
        let (channel, near) = (ends.channel(), &mut ends.near);
        match self {
            Self::Null(call) => channel.cancel(near, call),
            Self::Read(call) => channel.cancel(near, call),
            Self::Write(call) => channel.cancel(near, call),
            Self::Echo(call) => channel.cancel(near, call),
        }
    }
}

/// The data that both ends retain.
#[derive(Default)]
struct Retained {
    calls: Vec<Pending>,
    /// The replies, in the memory where the device placed them.
    replies: Vec<CompletedCall>,
    /// The items that were sent or received, with copies of their bytes.
    items: Vec<(SharedBytes, Vec<u8>)>,
}

impl Retained {
    fn keep(&mut self, item: SharedBytes) {
        let copy = item.to_vec();
        self.items.push((item, copy));
    }

    fn take<D: Device>(&mut self, ends: &mut Ends<D>) {
        ends.block
            .take_last()
            .into_iter()
            .for_each(|item| self.keep(item));
        while let Some(event) = ends.event() {
            let LocalEvent::Completed(completed) = event else {
                continue;
            };
            let at = self
                .calls
                .iter()
                .position(|call| call.xid() == completed.xid());
            let call = self.calls.swap_remove(at.expect("no call ends twice"));
            if let Pending::Read(call) = call {
                let read = |region: Region<'_>| region.bytes.into_shared();
                let item = ends.client.transport().read(&call, &completed, read);
                let item = item.expect("its reply");
                item.into_iter().for_each(|item| self.keep(item));
            }
            self.replies.push(completed);
        }
    }

    /// Checks that the retained data have not changed.
    fn assert_untouched(&self) {
        for (item, copy) in &self.items {
            assert!(**item == **copy);
        }
    }
}

fn begin<D: Device>(ends: &mut Ends<D>) -> Retained {
    let mut retained = Retained::default();
    let item = ends::item(ends.near.pool(), &bytes()[..RESULT as usize]);
    let sent = item.clone().into_shared();
    retained.keep(sent);
    let region = Region { bytes: item };
    retained.calls = vec![
        Pending::Null(ends.client.null().begin(&mut ends.near).unwrap()),
        Pending::Read(ends.begin_read(RESULT)),
        Pending::Write(ends.client.write(&region).begin(&mut ends.near).unwrap()),
        // In both directions, a chunk contains the whole message.
        Pending::Echo(ends.begin_echo(&bytes()[..RESULT as usize])),
    ];
    retained
}

fn drop_ends<D: Device>(order: DropOrder, mut ends: Ends<D>, retained: Retained) {
    let budgets = ends.budgets.clone();
    match order {
        DropOrder::Near | DropOrder::Cancelled => {
            if order == DropOrder::Cancelled {
                for call in &retained.calls {
                    call.cancel(&mut ends);
                }
            }
            let Ends {
                client,
                near,
                mut far,
                mut server,
                ..
            } = ends;
            drop(near);
            for _ in 0..END {
                far.turn().unwrap();
                server.serve(&mut far);
            }
            retained.assert_untouched();
            drop((far, server, client, ends.block));
        }
        DropOrder::Far | DropOrder::All => {
            let Ends {
                client,
                mut near,
                far,
                server,
                ..
            } = ends;
            drop((far, server, ends.block));
            for _ in 0..if order == DropOrder::Far { END } else { 0 } {
                near.turn().unwrap();
                while client.transport().poll_event(&mut near).is_some() {}
            }
            drop(near);
            retained.assert_untouched();
        }
        DropOrder::Server => {
            let Ends {
                mut near,
                mut far,
                server,
                ..
            } = ends;
            drop((server, ends.block));
            for _ in 0..END {
                near.turn().unwrap();
                far.turn().unwrap();
            }
            retained.assert_untouched();
        }
        DropOrder::Forgotten | DropOrder::Cut => {
            if order == DropOrder::Forgotten {
                ends.channel().close(&mut ends.near);
            } else {
                for id in ends.server.connections().to_vec() {
                    ends.server.disconnect(&mut ends.far, id);
                }
            }
            for number in 0..END {
                ends.half_turn(number);
            }
            retained.assert_untouched();
            drop(ends);
        }
    }
    drop(retained);
    assert_eq!(budgets.map(|budget| budget.used()), [0, 0]);
}

/// Returns the settings of client and server.
fn configs(windows: bool, highest: Version) -> (Config, Config) {
    let client = Config {
        max_version: highest,
        remote_invalidation: windows,
        reconnect_delay: 1,
        ..Config::client()
    };
    let server = Config {
        send_with_invalidate: true,
        ..Config::server()
    };
    (client, server)
}

/// Drops the ends in this order after so many half turns. Returns the number of answered calls.
fn drop_after<D: Device>(order: DropOrder, turns: usize, mut ends: Ends<D>) -> usize {
    let mut retained = begin(&mut ends);
    for number in 0..turns {
        ends.half_turn(number);
        retained.take(&mut ends);
    }
    let answered = retained.replies.len();
    drop_ends(order, ends, retained);
    answered
}

fn every_turn(windows: bool, highest: Version, delay: u32) {
    let mut answered = 0;
    for order in DROP_ORDERS {
        for turns in 0..END {
            let fabric = Fabric::new();
            fabric.inject(Faults {
                delay,
                seed: turns as u64,
                ..Faults::default()
            });
            let mut capabilities = fabric.device().capabilities().clone();
            capabilities.windows = windows;
            let devices = [fabric.device_with(capabilities), fabric.device()];
            let (client, server) = configs(windows, highest);
            let ends = Ends::on(devices, client, server);
            answered = drop_after(order, turns, ends).max(answered);
        }
    }
    assert_eq!(answered, 4, "the scenario comes to its end");
}

#[test]
fn with_windows() {
    every_turn(true, Version::Two, 0);
}

/// Fences are posted, but have not completed when the connection ends.
// spec: rfc8166-4.5.4-a
#[test]
fn with_windows_and_delays() {
    every_turn(true, Version::Two, 3);
}

#[test]
fn without_windows() {
    every_turn(false, Version::Two, 0);
}

#[test]
fn without_windows_and_with_delays() {
    every_turn(false, Version::Two, 3);
}

#[test]
fn in_version_one() {
    every_turn(true, Version::One, 2);
}

/// The same over iWARP: what TCP has delivered at each turn varies.
fn every_turn_over_iwarp(highest: Version) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut answered = 0;
    for order in DROP_ORDERS {
        for turns in 0..END {
            let (client, server) = configs(true, highest);
            let ends = Ends::of(&Iwarp, client, server);
            answered = drop_after(order, turns, ends).max(answered);
        }
    }
    assert_eq!(answered, 4, "the scenario comes to its end");
}

/// A client whose server is dropped connects again to its port, which another test could get.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn over_iwarp() {
    every_turn_over_iwarp(Version::Two);
}

#[test]
fn over_iwarp_in_version_one() {
    every_turn_over_iwarp(Version::One);
}

/// A buffer outlives its pool, its driver, its device and its fabric.
#[test]
fn memory_outlives_all() {
    memory_outlives(Ends::new(Config::client(), Config::server()));
}

#[test]
fn memory_outlives_all_over_iwarp() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    memory_outlives(Ends::of(&Iwarp, Config::client(), Config::server()));
}

fn memory_outlives<D: Device>(mut ends: Ends<D>) {
    let (budget, pool) = (ends.budgets[0].clone(), ends.near.pool().clone());
    let mut buf = pool.take(5000).unwrap();
    buf.extend_from_slice(&[7; 5000]);
    let own = Buf::adopt(ends.near.device(), &budget, vec![8; 100]).unwrap();
    for _ in 0..4 {
        ends.turn();
    }
    drop((ends, pool));
    assert_eq!((&*buf, &*own), ([7; 5000].as_slice(), [8; 100].as_slice()));
    let lent = PostedBuf::from(buf);
    assert!(lent.into_buf().is_ok());
    assert_eq!(own.into_vec(), Some(vec![8; 100]));
    assert_eq!(budget.used(), 0);
}
