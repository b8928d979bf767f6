//! Messages in several transmissions (rtrext-02), with placed data, over the transport on every
//! device. Costs are counted exactly.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::AddAssign;

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
use rpcrdma_proto::transfer::{MethodPreference, ResultPlacement};
use rpcrdma_transport_tests::block::{self, Block};
use rpcrdma_transport_tests::device_source::DeviceSource;
use rpcrdma_transport_tests::ends::{Ends, placing, serve};
use rpcrdma_transport_tests::on_every_device;
use rpcrdma_transport_tests::schema::PairArgs;
use rpcrdma_verbs::LocalServer;
use rpcrdma_verbs::driver::{Driver, DriverError};
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::Device;

/// The operations of both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    sends: u64,
    /// The RDMA Reads and Writes.
    moves: u64,
    exposures: u64,
    copied: u64,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.sends += other.sends;
        self.moves += other.moves;
        self.exposures += other.exposures;
        self.copied += other.copied;
    }
}

fn total<D: Device>(ends: &Ends<D>) -> Cost {
    let mut total = Cost::default();
    for counters in ends.counters() {
        total += Cost {
            sends: counters.sends,
            moves: counters.reads + counters.writes,
            exposures: counters.exposures,
            copied: counters.copied,
        };
    }
    total
}

/// Returns the operations of both ends for a call.
fn cost<D: Device, R>(ends: &mut Ends<D>, call: impl FnOnce(&mut Ends<D>) -> R) -> (Cost, R) {
    let before = total(ends);
    let result = call(ends);
    let after = total(ends);
    let cost = Cost {
        sends: after.sends - before.sends,
        moves: after.moves - before.moves,
        exposures: after.exposures - before.exposures,
        copied: after.copied - before.copied,
    };
    (cost, result)
}

/// Creates both ends. Advertised properties apply from the third call on: the credit of the
/// advertisement returns with the second reply.
fn ends<D: Device>(
    source: &impl DeviceSource<Device = D>,
    client: Config,
    server: Config,
) -> Ends<D> {
    let mut ends = Ends::of(source, client, server);
    for _ in 0..3 {
        ends.echo(&[7; 4]);
    }
    ends
}

fn both<D: Device>(source: &impl DeviceSource<Device = D>, rtr: RtrExtConfig) -> Ends<D> {
    let (client, server) = (Config::client(), Config::server());
    ends(source, client.with_rtr(rtr), server.with_rtr(rtr))
}

/// Asserts one message each way, no chunks, and no copies except those of the RPC messages.
fn assert_placed(cost: Cost) {
    let Cost { copied, .. } = cost;
    let expected = Cost {
        sends: 2,
        copied,
        ..Cost::default()
    };
    assert_eq!(cost, expected);
    assert!(copied < 200, "{copied} bytes");
}

// spec: rtr-3.3-b, rtr-7.2-c
fn reads_and_writes_need_no_exposed_memory(source: &impl DeviceSource) {
    let mut ends = both(source, placing());
    for seed in 0..10 {
        let bytes = &block::bytes()[seed..][..65_536];
        let (write, ()) = cost(&mut ends, |ends| ends.write(bytes));
        assert_placed(write);
        let written = ends.block.take_last().unwrap();
        assert!(written.as_bytes() == bytes);
        let is_aligned = written.as_ptr().addr().is_multiple_of(4096);
        assert!(is_aligned, "it is where the Send has placed it");
        let (read, _) = cost(&mut ends, |ends| ends.read(65_536));
        assert_placed(read);
    }
}

fn long_messages_take_one_message_if_they_fit(source: &impl DeviceSource) {
    let mut ends = both(source, placing());
    let (cost, ()) = cost(&mut ends, |ends| ends.echo(&block::bytes()[..16_384]));
    assert_eq!((cost.sends, cost.moves, cost.exposures), (2, 0, 0));
}

fn long_messages_use_several_transmissions(source: &impl DeviceSource) {
    let bytes = &block::bytes()[..16_380];
    let mut several = both(source, RtrExtConfig::ALL);
    for _ in 0..20 {
        let (cost, ()) = cost(&mut several, |ends| ends.echo(bytes));
        let sends = 5 + 5;
        assert_eq!(
            (cost.sends, cost.moves, cost.exposures),
            (sends, 0, 0),
            "4 KiB each"
        );
    }
    // Without the extension, the call is transferred by RDMA Read, and the reply by RDMA Write.
    let mut chunks = ends(source, Config::client(), Config::server());
    let (cost, ()) = cost(&mut chunks, |ends| ends.echo(bytes));
    assert_eq!((cost.sends, cost.moves, cost.exposures), (2, 2, 2));
}

fn messages_of_all_sizes_arrive_intact(source: &impl DeviceSource) {
    let by_choice = RtrExtConfig {
        placement: ResultPlacement::Choice,
        preference: MethodPreference::Groups,
        ..placing()
    };
    for rtr in [RtrExtConfig::ALL, placing(), by_choice] {
        let mut ends = both(source, rtr);
        for count in [
            1,
            4_095,
            4_096,
            40_000,
            65_535,
            65_536,
            65_537,
            200_001,
            500_000,
            1 << 20,
        ] {
            let bytes = &block::bytes()[..count as usize];
            ends.write(bytes);
            assert!(ends.block.take_last().unwrap().as_bytes() == bytes);
            ends.read(count);
            ends.echo(bytes);
        }
    }
}

/// Two results of one reply, each in separate memory or inline.
fn results_of_one_reply_are_distinguished(source: &impl DeviceSource) {
    for placement in [
        ResultPlacement::Cheaper,
        ResultPlacement::Explicit,
        ResultPlacement::Choice,
        ResultPlacement::BySize(25_000),
    ] {
        let mut ends = both(
            source,
            RtrExtConfig {
                placement,
                preference: MethodPreference::Groups,
                ..placing()
            },
        );
        for (first, second) in [
            (20_000, 30_000),
            (0, 30_000),
            (32_768, 0),
            (9_000, 9_001),
            (0, 0),
            (3, 5),
        ] {
            let args = PairArgs { first, second };
            let call = ends.client.read_pair(&args).begin(&mut ends.near).unwrap();
            let read = ends.finish(&call, |pair| {
                [
                    pair.first.as_bytes().to_vec(),
                    pair.second.as_bytes().to_vec(),
                ]
            });
            let expected = [first, second].map(|count| block::bytes()[..count as usize].to_vec());
            assert!(
                read.unwrap() == expected,
                "{first} and {second} bytes, {placement:?}"
            );
        }
    }
}

fn a_peer_without_the_extension_is_served(source: &impl DeviceSource) {
    let probing = RtrExtConfig {
        probe: true,
        ..placing()
    };
    for (client, server) in [
        (Config::client().with_rtr(placing()), Config::server()),
        (Config::client(), Config::server().with_rtr(placing())),
        (Config::client().with_rtr(probing), Config::server()),
    ] {
        let mut ends = ends(source, client, server);
        for count in [100, 20_000, 300_000] {
            ends.write(&block::bytes()[..count]);
            ends.echo(&block::bytes()[..count]);
        }
    }
}

fn structures_beyond_the_device_limits_are_rejected(source: &impl DeviceSource) {
    let mut driver = Driver::new(&source.open(), &Budget::new(1 << 24), 256).unwrap();
    let address = source.address();
    let with = |segments: &[BufferSegment]| {
        Config::server().with_rtr(RtrExtConfig {
            structure: Some(BufferStructure::new(segments).unwrap()),
            ..RtrExtConfig::ALL
        })
    };
    let head = BufferSegment {
        length: 4096,
        align: 0,
        target: false,
    };
    let odd = BufferSegment {
        length: 4096,
        align: 8192,
        target: true,
    };
    let mut bind = |segments: &[BufferSegment]| {
        let router = oncrpc::Router::new();
        LocalServer::bind(&mut driver, address, with(segments), router)
    };
    assert!(matches!(bind(&[head, odd]), Err(DriverError::Alignment)));
    assert!(matches!(
        bind(&[head; 16]),
        Err(DriverError::TooManySegments { .. })
    ));
    serve(&mut driver, address, with(&[head, head]), &Block::default());
}

on_every_device!(
    reads_and_writes_need_no_exposed_memory,
    long_messages_take_one_message_if_they_fit,
    long_messages_use_several_transmissions,
    messages_of_all_sizes_arrive_intact,
    results_of_one_reply_are_distinguished,
    a_peer_without_the_extension_is_served,
    structures_beyond_the_device_limits_are_rejected,
);
