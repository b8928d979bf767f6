//! A service for tests, with both of its ends.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part of it")]

pub mod traffic;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
use rpcrdma_proto::xdr::Decode;
use rpcrdma_verbs::client::{Call, Client};
use rpcrdma_verbs::driver::{ConnectionId, Driver, PlacedItem, Writer};
use rpcrdma_verbs::memory::{Budget, Pool};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::rpc::{self, Credentials, Denial};
use rpcrdma_verbs::server::{Server, Service};

pub const PROGRAM: u32 = 0x2000_0001;
/// Does nothing.
pub const NULL: u32 = 0;
/// Returns the arguments.
pub const ECHO: u32 = 1;
/// Returns bytes of the block, in a buffer of their own.
pub const READ: u32 = 2;
/// Returns the sum of the bytes of an argument in a buffer of its own.
pub const WRITE: u32 = 3;
/// Declares that the caller accepts backward calls from now on.
pub const READY: u32 = 4;

/// The size of the block in bytes.
pub const BLOCK: usize = 1 << 19;

/// Returns the block.
pub fn block() -> &'static [u8] {
    static OCTETS: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..BLOCK).map(|at| (at / 7).to_le_bytes()[0]).collect());
    &OCTETS
}

/// Returns the reply to WRITE.
pub fn sum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let bytes = parts.into_iter().flatten();
    let (sum, count) = bytes.fold((0u32, 0), |(sum, count), byte| {
        (sum.rotate_left(5) ^ u32::from(*byte), count + 1)
    });
    sum ^ count
}

pub struct Block<D: Device = SoftwareDevice> {
    pub pool: Pool<D>,
    pub bytes: &'static [u8],
    /// Callers that accept backward calls.
    pub ready: Vec<ConnectionId>,
    pub served: u64,
}

impl<D: Device> Block<D> {
    pub fn new(pool: &Pool<D>) -> Self {
        Self {
            pool: pool.clone(),
            bytes: block(),
            ready: Vec::new(),
            served: 0,
        }
    }
}

impl<D: Device> Service for Block<D> {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    fn takes_items(&self) -> bool {
        true
    }

    fn is_ready(&self, call: &rpc::Call<'_>) -> bool {
        call.procedure.number == READY
    }

    fn call(
        &mut self,
        from: ConnectionId,
        call: &rpc::Call<'_>,
        results: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        self.served += 1;
        match call.procedure.number {
            NULL => {}
            READY => self.ready.push(from),
            ECHO => {
                results.bytes(call.arguments);
            }
            READ => {
                let count =
                    u32::from_bytes(call.arguments).map_err(|_| Denial::GarbageArguments)?;
                let block = self
                    .bytes
                    .get(..count as usize)
                    .ok_or(Denial::GarbageArguments)?;
                let mut data = self.pool.take(count).map_err(|_| Denial::System)?;
                data.extend_from_slice(block);
                results.item(data).map_err(|_| Denial::System)?;
            }
            WRITE => {
                let (count, data) =
                    u32::from_prefix(call.arguments).map_err(|_| Denial::GarbageArguments)?;
                let sum = match call.items {
                    [] => sum([data.get(..count as usize).ok_or(Denial::GarbageArguments)?]),
                    items => sum(items.iter().flat_map(PlacedItem::parts).map(|part| &**part)),
                };
                results.put(&sum).map_err(|_| Denial::System)?;
            }
            _ => return Err(Denial::ProcedureUnavailable),
        }
        Ok(())
    }
}

/// A random number generator (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    pub fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }
}

/// A client and a server, with a driver each.
pub struct World {
    pub client: Client,
    pub near: Driver<SoftwareDevice>,
    pub far: Driver<SoftwareDevice>,
    pub server: Server<Block>,
    pub budgets: [Budget; 2],
    pub fabric: Arc<Fabric>,
}

impl World {
    pub fn new(client: Config, server: Config) -> Self {
        let fabric = Fabric::new();
        let devices = [fabric.device(), fabric.device()];
        Self::on(fabric, devices, client, server)
    }

    pub fn on(
        fabric: Arc<Fabric>,
        devices: [SoftwareDevice; 2],
        client: Config,
        server: Config,
    ) -> Self {
        Self::within(
            [Budget::new(1 << 28), Budget::new(1 << 28)],
            fabric,
            devices,
            client,
            server,
        )
    }

    pub fn within(
        budgets: [Budget; 2],
        fabric: Arc<Fabric>,
        [near, far]: [SoftwareDevice; 2],
        client: Config,
        server: Config,
    ) -> Self {
        let mut near = Driver::new(&near, &budgets[0], 4096).unwrap();
        let mut far = Driver::new(&far, &budgets[1], 4096).unwrap();
        let block = Block::new(far.pool());
        let server = Server::bind(
            &mut far,
            SocketAddr::from(([127, 0, 0, 1], 0)),
            server,
            block,
        )
        .unwrap();
        let client =
            Client::connect(&mut near, server.address(), client, Credentials::none()).unwrap();
        Self {
            client,
            near,
            far,
            server,
            budgets,
            fabric,
        }
    }

    /// Turns one end: the client for even numbers.
    pub fn half_turn(&mut self, number: usize) {
        if number.is_multiple_of(2) {
            self.near.turn().unwrap();
        } else {
            self.far.turn().unwrap();
            self.server.serve(&mut self.far);
        }
    }

    /// Turns both ends once.
    pub fn turn(&mut self) {
        self.near.turn().unwrap();
        self.far.turn().unwrap();
        self.server.serve(&mut self.far);
    }
}

/// rtrext-02 with receive buffers of 4 KiB, and 64 KiB for bulk data.
pub fn rtr() -> RtrExtConfig {
    let head = BufferSegment {
        length: 4096,
        align: 8,
        target: false,
    };
    let bulk = BufferSegment {
        length: 1 << 16,
        align: 4096,
        target: true,
    };
    RtrExtConfig {
        structure: Some(BufferStructure::new(&[head, bulk]).unwrap()),
        ..RtrExtConfig::ALL
    }
}

/// Creates a call of a procedure with a limit on its results.
pub fn call(number: u32, largest_results: u32) -> Call {
    Call {
        largest_results,
        ..Call::to(PROGRAM, 1, number)
    }
}
