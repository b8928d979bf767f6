//! Messages in several transmissions (rtrext-02), with placed data, over the transport on every
//! device. Costs are counted exactly.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod fixture;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
use rpcrdma_proto::transfer::{MAX_RESULTS, MethodPreference, ResultPlacement};
use rpcrdma_proto::xdr::Decode;
use rpcrdma_verbs::client::{Call, Client, ClientEvent};
use rpcrdma_verbs::driver::{
    CallBuffers, ConnectionCounters, ConnectionId, Driver, DriverError, PlacedItem, Writer,
};
use rpcrdma_verbs::memory::{Budget, Buf, Frozen};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::rpc::{Credentials, Denial};
use rpcrdma_verbs::server::{Server, Service};

use fixture::{Ground, on_every_ground};

const PROGRAM: u32 = 0x2000_0002;
const READ: u32 = 1;
const WRITE: u32 = 2;
const ECHO: u32 = 3;
/// Several reads in one call, with a count each. A count of zero has no result.
const READS: u32 = 4;

/// A store whose reads return the last write. Placed data stay where they landed.
#[derive(Default)]
struct Store {
    data: Vec<Frozen>,
    /// Arguments that were not placed.
    flat: Vec<u8>,
    takes_items: bool,
    /// True if it tells which of several reads its results answer.
    tells: bool,
    /// The number of calls with placed data.
    placed: usize,
}

impl Service for Store {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    fn takes_items(&self) -> bool {
        self.takes_items
    }

    fn call(
        &mut self,
        _: ConnectionId,
        call: &rpcrdma_verbs::rpc::Call<'_>,
        results: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        let (count, rest) =
            u32::from_prefix(call.arguments).map_err(|_| Denial::GarbageArguments)?;
        match call.procedure.number {
            READ => {
                let first = self
                    .data
                    .first()
                    .and_then(|data| data.part(0, count))
                    .ok_or(Denial::System)?;
                results.frozen(first).map_err(|_| Denial::System)?;
            }
            READS => self.reads(call, results)?,
            WRITE => {
                self.data = call
                    .items
                    .iter()
                    .flat_map(PlacedItem::parts)
                    .cloned()
                    .collect();
                self.placed += usize::from(!call.items.is_empty());
                self.flat = if call.items.is_empty() {
                    rest[..count as usize].to_vec()
                } else {
                    Vec::new()
                };
                results.put(&count).map_err(|_| Denial::System)?;
            }
            _ => {
                results.bytes(call.arguments);
            }
        }
        Ok(())
    }
}

impl Store {
    fn reads(
        &self,
        call: &rpcrdma_verbs::rpc::Call<'_>,
        results: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        let mut left = call.arguments;
        while !left.is_empty() {
            if self.tells {
                results.answers(call.position_of(left));
            }
            let (count, rest) = u32::from_prefix(left).map_err(|_| Denial::GarbageArguments)?;
            left = rest;
            results.put(&(count > 0)).map_err(|_| Denial::System)?;
            if count > 0 {
                let data = self
                    .data
                    .first()
                    .and_then(|data| data.part(0, count))
                    .ok_or(Denial::System)?;
                results.frozen(data).map_err(|_| Denial::System)?;
            }
        }
        Ok(())
    }
}

struct World<D: Device> {
    client: Client,
    near: Driver<D>,
    far: Driver<D>,
    server: Server<Store>,
}

/// 4 KiB, and 64 KiB for bulk data.
fn structure() -> BufferStructure {
    let head = BufferSegment {
        length: 4096,
        align: 8,
        target: false,
    };
    let bulk = BufferSegment {
        length: 65_536,
        align: 4096,
        target: true,
    };
    BufferStructure::new(&[head, bulk]).unwrap()
}

fn placing() -> RtrExtConfig {
    RtrExtConfig {
        structure: Some(structure()),
        ..RtrExtConfig::ALL
    }
}

impl<D: Device> World<D> {
    fn new(ground: &impl Ground<Device = D>, client: Config, server: Config) -> Self {
        let mut near = Driver::new(&ground.open(), &Budget::new(1 << 28), 4096).unwrap();
        let mut far = Driver::new(&ground.open(), &Budget::new(1 << 28), 4096).unwrap();
        let store = Store {
            takes_items: true,
            tells: true,
            ..Store::default()
        };
        let server = Server::bind(&mut far, ground.address(), server, store).unwrap();
        let client =
            Client::connect(&mut near, server.address(), client, Credentials::none()).unwrap();
        let mut world = Self {
            client,
            near,
            far,
            server,
        };
        // The advertisement returns its credit with the second reply.
        for _ in 0..3 {
            world.echo(4);
        }
        world
    }

    fn both(ground: &impl Ground<Device = D>, rtr: RtrExtConfig) -> Self {
        Self::new(
            ground,
            Config::client().with_rtr(rtr),
            Config::server().with_rtr(rtr),
        )
    }

    /// Returns the reply to a call, and its buffers.
    fn answer(&mut self) -> (Vec<u8>, CallBuffers) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            match self.client.event(&mut self.near) {
                Some(ClientEvent::Answered { call, answer }) => {
                    return (
                        answer.results().to_vec(),
                        self.client.take_memory(&mut self.near, call),
                    );
                }
                Some(ClientEvent::Ready(_)) => {}
                Some(other) => panic!("{other:?}"),
                None => {}
            }
            self.near.turn().unwrap();
            self.far.turn().unwrap();
            self.server.serve(&mut self.far);
        }
        panic!("nothing happens");
    }

    fn echo(&mut self, bytes: u32) {
        let call = Call {
            largest_results: bytes,
            ..Call::to(PROGRAM, 1, ECHO)
        };
        let sent: Vec<u8> = (0..bytes).map(|at| (at ^ at >> 8) as u8).collect();
        self.client
            .call(&mut self.near, call, |writer| writer.bytes(&sent).done())
            .unwrap();
        assert_eq!(self.answer().0, sent);
    }

    fn data(&self, bytes: u32, seed: u32) -> Buf {
        let mut data = self.near.pool().take(bytes).unwrap();
        data.extend_from_slice(
            &(0..bytes)
                .map(|at| (at ^ at >> 8 ^ seed) as u8)
                .collect::<Vec<_>>(),
        );
        data
    }

    fn write(&mut self, bytes: u32, seed: u32) {
        let data = self.data(bytes, seed);
        let expected = data.to_vec();
        self.client
            .call(&mut self.near, Call::to(PROGRAM, 1, WRITE), |writer| {
                writer.item(data)?.done()
            })
            .unwrap();
        let (results, memory) = self.answer();
        assert_eq!(results, bytes.to_be_bytes());
        assert_eq!(
            (memory.items.len(), &memory.items[0][..]),
            (1, &expected[..])
        );
        let store = self.server.service();
        let found = if store.data.is_empty() {
            store.flat.clone()
        } else {
            store.data.iter().flat_map(|part| part.to_vec()).collect()
        };
        assert!(found == expected, "{bytes} bytes");
    }

    fn read(&mut self, bytes: u32, seed: u32) -> CallBuffers {
        let result = self.near.pool().take(bytes.max(1024)).unwrap();
        let call = Call {
            largest_results: bytes + 8,
            results: [result].into_iter().collect(),
            ..Call::to(PROGRAM, 1, READ)
        };
        self.client
            .call(&mut self.near, call, |writer| writer.put(&bytes)?.done())
            .unwrap();
        let (results, memory) = self.answer();
        assert_eq!(results[..4], bytes.to_be_bytes());
        let found = if memory.results[0].is_empty() {
            &results[4..]
        } else {
            &memory.results[0][..]
        };
        let expected: Vec<u8> = (0..bytes).map(|at| (at ^ at >> 8 ^ seed) as u8).collect();
        assert!(found[..bytes as usize] == expected, "{bytes} bytes");
        memory
    }

    /// Makes several reads in one call, with a buffer of 32 KiB each. Returns the number of inline
    /// bytes, and the number of bytes in each buffer.
    fn reads(&mut self, counts: &[u32]) -> (usize, Vec<usize>) {
        let results: ArrayVec<Buf, MAX_RESULTS> = counts
            .iter()
            .map(|_| self.near.pool().take(32_768).unwrap())
            .collect();
        let call = Call {
            largest_results: 40_000 * counts.len() as u32,
            results,
            ..Call::to(PROGRAM, 1, READS)
        };
        let write = |writer: &mut Writer<'_>| {
            for count in counts {
                writer.operation(1, |writer| writer.put(count)?.done())?;
            }
            Ok(())
        };
        self.client.call(&mut self.near, call, write).unwrap();
        let (inline, memory) = self.answer();
        for result in &memory.results {
            assert!(
                result
                    .iter()
                    .copied()
                    .eq((0..result.len() as u32).map(|at| (at ^ at >> 8 ^ 1) as u8))
            );
        }
        (
            inline.len(),
            memory.results.iter().map(|result| result.len()).collect(),
        )
    }

    fn counters(&self) -> [ConnectionCounters; 2] {
        let far = self.server.connections()[0];
        [
            self.near.counters(self.client.id()).unwrap(),
            self.far.counters(far).unwrap(),
        ]
    }

    /// Returns the differences of the counters of both ends: Sends, RDMA Reads and Writes, exposed
    /// regions, and copied bytes.
    fn since(&self, before: &[ConnectionCounters; 2]) -> (u64, u64, u64, u64) {
        let all = |f: fn(&ConnectionCounters) -> u64| {
            self.counters()
                .iter()
                .zip(before)
                .map(|(now, then)| f(now) - f(then))
                .sum::<u64>()
        };
        (
            all(|c| c.sends),
            all(|c| c.reads + c.writes),
            all(|c| c.exposures),
            all(|c| c.copied),
        )
    }
}

/// Ends a chain of calls of a writer.
trait Done {
    fn done(&mut self) -> Result<(), rpcrdma_verbs::driver::WriteError>;
}

impl Done for Writer<'_> {
    fn done(&mut self) -> Result<(), rpcrdma_verbs::driver::WriteError> {
        Ok(())
    }
}

// spec: rtr-3.3-b, rtr-7.2-c
fn reads_and_writes_take_one_message_each_way_and_no_memory_is_exposed(ground: &impl Ground) {
    let mut world = World::both(ground, placing());
    for seed in 0..10 {
        let before = world.counters();
        world.write(65_536, seed);
        let (sends, moves, exposed, copied) = world.since(&before);
        assert_eq!((sends, moves, exposed), (2, 0, 0));
        assert!(copied < 200, "{copied}: the RPC messages alone");
        assert_eq!(world.server.service().placed as u32, seed + 1);
        let before = world.counters();
        let memory = world.read(65_536, seed);
        let (sends, moves, exposed, copied) = world.since(&before);
        assert_eq!(
            (sends, moves, exposed, memory.results[0].len()),
            (2, 0, 0, 65_536)
        );
        assert!(copied < 200, "{copied}: the RPC messages alone");
    }
}

fn long_messages_take_one_message_each_way_where_they_fit(ground: &impl Ground) {
    let mut world = World::both(ground, placing());
    let before = world.counters();
    world.echo(16_384);
    let (sends, moves, exposed, _) = world.since(&before);
    assert_eq!((sends, moves, exposed), (2, 0, 0));
}

fn long_messages_go_in_several_transmissions(ground: &impl Ground) {
    let mut world = World::both(ground, RtrExtConfig::ALL);
    for _ in 0..20 {
        let before = world.counters();
        world.echo(16_384);
        let (sends, moves, exposed, _) = world.since(&before);
        assert_eq!((sends, moves, exposed), (5 + 5, 0, 0), "4 KiB each");
    }
    // Without the extension the call is read, and the reply written.
    let mut world = World::new(ground, Config::client(), Config::server());
    let before = world.counters();
    world.echo(16_384);
    let (sends, moves, exposed, _) = world.since(&before);
    assert_eq!((sends, moves, exposed), (2, 2, 2));
}

fn messages_of_all_sizes_arrive_whole(ground: &impl Ground) {
    for rtr in [
        RtrExtConfig::ALL,
        placing(),
        RtrExtConfig {
            placement: ResultPlacement::Choice,
            preference: MethodPreference::Groups,
            ..placing()
        },
    ] {
        for takes_items in [true, false] {
            let mut world = World::both(ground, rtr);
            world.server.service().takes_items = takes_items;
            for (seed, bytes) in (0..).zip([
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
            ]) {
                world.write(bytes, seed);
                if takes_items && !world.server.service().data.is_empty() {
                    let first = world.server.service().data[0].len() as u32;
                    world.read(first.min(bytes), seed);
                }
                world.echo((bytes & !3).max(4));
            }
            drop(world);
        }
    }
}

fn the_callers_own_memory_is_what_a_result_goes_to(ground: &impl Ground) {
    let mut world = World::both(ground, placing());
    world.write(40_000, 1);
    let budget = Budget::new(1 << 20);
    let own = Buf::adopt(world.near.device(), &budget, vec![0; 65_536]).unwrap();
    let call = Call {
        largest_results: 40_008,
        results: [own].into_iter().collect(),
        ..Call::to(PROGRAM, 1, READ)
    };
    world
        .client
        .call(&mut world.near, call, |writer| {
            writer.put(&40_000u32)?.done()
        })
        .unwrap();
    let (_, memory) = world.answer();
    let vec = memory
        .results
        .into_iter()
        .next()
        .unwrap()
        .into_vec()
        .expect("the caller's own");
    assert_eq!(vec.len(), 40_000);
    assert!(
        vec == (0..40_000u32)
            .map(|at| (at ^ at >> 8 ^ 1) as u8)
            .collect::<Vec<_>>()
    );
}

/// Each operation of a call has its own buffers for results. Another operation does not use them.
// spec: rtr-3.4-b, rtr-7.4-r, rtr-7.4-s
fn results_of_several_operations_are_held_apart(ground: &impl Ground) {
    for direct in [
        ResultPlacement::Cheaper,
        ResultPlacement::Explicit,
        ResultPlacement::Choice,
        ResultPlacement::BySize(25_000),
    ] {
        let mut world = World::both(
            ground,
            RtrExtConfig {
                placement: direct,
                preference: MethodPreference::Groups,
                ..placing()
            },
        );
        world.write(65_536, 1);
        for counts in [
            [20_000, 30_000, 5_000],
            [0, 30_000, 20_000],
            [0, 0, 32_768],
            [9_000, 0, 9_001],
            [0; 3],
        ] {
            let bytes: Vec<usize> = counts.iter().map(|count| *count as usize).collect();
            let inline = counts
                .iter()
                .map(|count| if *count > 0 { 8 } else { 4 })
                .sum();
            assert_eq!(world.reads(&counts), (inline, bytes), "{direct:?}");
        }
    }
    // If the service does not tell, it is unknown which buffers its results belong to.
    let mut world = World::both(
        ground,
        RtrExtConfig {
            preference: MethodPreference::Groups,
            ..placing()
        },
    );
    world.server.service().tells = false;
    world.write(65_536, 1);
    assert_eq!(
        world.reads(&[0, 2_000, 1_000]),
        (4 + 8 + 8 + 3_000, vec![0; 3])
    );
}

fn operations_with_more_results_than_buffers_are_refused(ground: &impl Ground) {
    let mut world = World::both(ground, placing());
    let call = Call {
        results: [world.data(100, 1)].into_iter().collect(),
        ..Call::to(PROGRAM, 1, READS)
    };
    let begun = world.client.call(&mut world.near, call, |writer| {
        writer
            .operation(1, |writer| writer.put(&1u32)?.done())?
            .operation(1, |writer| writer.put(&2u32)?.done())?
            .done()
    });
    let back = begun.expect_err("there is one buffer");
    assert_eq!(
        back.error.to_string(),
        "the operations have more results than the call has buffers for"
    );
    assert_eq!(back.buffers.results.len(), 1);
}

fn a_peer_without_it_is_served_as_ever(ground: &impl Ground) {
    for (client, server) in [
        (Config::client().with_rtr(placing()), Config::server()),
        (Config::client(), Config::server().with_rtr(placing())),
        (
            Config::client().with_rtr(RtrExtConfig {
                probe: true,
                ..placing()
            }),
            Config::server(),
        ),
    ] {
        let mut world = World::new(ground, client, server);
        for bytes in [100, 20_000, 300_000] {
            world.write(bytes, bytes);
            world.echo(bytes);
        }
    }
}

fn structures_that_the_device_does_not_take_are_refused(ground: &impl Ground) {
    let mut driver = Driver::new(&ground.open(), &Budget::new(1 << 24), 256).unwrap();
    let address = ground.address();
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
        Server::bind(&mut driver, address, with(segments), Store::default())
    };
    assert!(matches!(bind(&[head, odd]), Err(DriverError::Alignment)));
    assert!(matches!(
        bind(&[head; 16]),
        Err(DriverError::TooManySegments { .. })
    ));
    assert!(bind(&[head, head]).is_ok());
}

on_every_ground!(
    reads_and_writes_take_one_message_each_way_and_no_memory_is_exposed,
    long_messages_take_one_message_each_way_where_they_fit,
    long_messages_go_in_several_transmissions,
    messages_of_all_sizes_arrive_whole,
    the_callers_own_memory_is_what_a_result_goes_to,
    results_of_several_operations_are_held_apart,
    operations_with_more_results_than_buffers_are_refused,
    a_peer_without_it_is_served_as_ever,
    structures_that_the_device_does_not_take_are_refused,
);
