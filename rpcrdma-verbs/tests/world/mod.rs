//! A service to be called by tests, and both ends of it.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part of it")]

pub mod traffic;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::Rtr;
use rpcrdma_proto::placement::{Segment, Structure};
use rpcrdma_proto::xdr::Decode;
use rpcrdma_verbs::client::{Call, Client};
use rpcrdma_verbs::driver::{Driver, Id, Placed, Writer};
use rpcrdma_verbs::memory::{Budget, Pool};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::rpc::{self, Credentials, Denial};
use rpcrdma_verbs::server::{Server, Service};

pub const PROGRAM: u32 = 0x2000_0001;
/// Nothing.
pub const NULL: u32 = 0;
/// The arguments, back.
pub const ECHO: u32 = 1;
/// So many octets of the block, in a buffer of their own.
pub const READ: u32 = 2;
/// The sum of the octets that are given in a buffer of their own.
pub const WRITE: u32 = 3;
/// The caller takes backward calls from now on.
pub const READY: u32 = 4;

/// Octets of the block.
pub const BLOCK: usize = 1 << 19;

/// What the block has.
pub fn block() -> &'static [u8] {
    static OCTETS: LazyLock<Vec<u8>> = LazyLock::new(|| (0..BLOCK).map(|at| (at / 7).to_le_bytes()[0]).collect());
    &OCTETS
}

/// What WRITE answers.
pub fn sum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let octets = parts.into_iter().flatten();
    let (sum, count) =
        octets.fold((0u32, 0), |(sum, count), octet| (sum.rotate_left(5) ^ u32::from(*octet), count + 1));
    sum ^ count
}

pub struct Block<D: Device = SoftwareDevice> {
    pub pool: Pool<D>,
    pub octets: &'static [u8],
    /// Callers that take backward calls.
    pub ready: Vec<Id>,
    pub served: u64,
}

impl<D: Device> Block<D> {
    pub fn new(pool: &Pool<D>) -> Self {
        Self { pool: pool.clone(), octets: block(), ready: Vec::new(), served: 0 }
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

    fn call(&mut self, from: Id, call: &rpc::Call<'_>, results: &mut Writer<'_>) -> Result<(), Denial> {
        self.served += 1;
        match call.procedure.number {
            NULL => {}
            READY => self.ready.push(from),
            ECHO => {
                results.octets(call.arguments);
            }
            READ => {
                let count = u32::from_bytes(call.arguments).map_err(|_| Denial::GarbageArguments)?;
                let block = self.octets.get(..count as usize).ok_or(Denial::GarbageArguments)?;
                let mut data = self.pool.take(count).map_err(|_| Denial::System)?;
                data.extend_from_slice(block);
                results.item(data).map_err(|_| Denial::System)?;
            }
            WRITE => {
                let (count, data) = u32::from_prefix(call.arguments).map_err(|_| Denial::GarbageArguments)?;
                let sum = match call.items {
                    [] => sum([data.get(..count as usize).ok_or(Denial::GarbageArguments)?]),
                    items => sum(items.iter().flat_map(Placed::parts).map(|part| &**part)),
                };
                results.put(&sum).map_err(|_| Denial::System)?;
            }
            _ => return Err(Denial::ProcedureUnavailable),
        }
        Ok(())
    }
}

/// Numbers from a seed (splitmix64).
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

/// One client and one server, a driver each.
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

    pub fn on(fabric: Arc<Fabric>, devices: [SoftwareDevice; 2], client: Config, server: Config) -> Self {
        Self::within([Budget::new(1 << 28), Budget::new(1 << 28)], fabric, devices, client, server)
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
        let server = Server::bind(&mut far, SocketAddr::from(([127, 0, 0, 1], 0)), server, block).unwrap();
        let client = Client::connect(&mut near, server.address(), client, Credentials::none()).unwrap();
        Self { client, near, far, server, budgets, fabric }
    }

    /// Turns one end: the client's by even numbers.
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
pub fn rtr() -> Rtr {
    let head = Segment { length: 4096, align: 8, target: false };
    let bulk = Segment { length: 1 << 16, align: 4096, target: true };
    Rtr { structure: Some(Structure::new(&[head, bulk]).unwrap()), ..Rtr::ALL }
}

/// A call of a procedure, whose results may have so many octets.
pub fn call(number: u32, largest_results: u32) -> Call {
    Call { largest_results, ..Call::to(PROGRAM, 1, number) }
}
