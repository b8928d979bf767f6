//! A client and a server in this process, with a block of memory to be read and written.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::xdr::Decode;
use rpcrdma_verbs::client::{Call, CallId, Client, ClientError, ClientEvent};
use rpcrdma_verbs::driver::{Driver, DriverError, Id, Memory, Writer};
use rpcrdma_verbs::dump::Dump;
use rpcrdma_verbs::memory::{Budget, Buf, Pool};
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::rpc::{self, Credentials, Denial};
use rpcrdma_verbs::server::{Server, Service};

/// The program, in the range that RFC 5531 leaves to users.
pub(crate) const PROGRAM: u32 = 0x2052_4d41;
pub(crate) const NULL: u32 = 0;
pub(crate) const ECHO: u32 = 1;
pub(crate) const READ: u32 = 2;
pub(crate) const WRITE: u32 = 3;
pub(crate) const READY: u32 = 4;

/// Octets of the block.
pub(crate) const BLOCK: usize = 1 << 20;

/// A block of memory that can be read and written, and an echo.
pub(crate) struct Block {
    pool: Pool<SoftwareDevice>,
    pub(crate) octets: Vec<u8>,
    /// The caller that said last that it takes backward calls.
    pub(crate) ready: Option<Id>,
}

impl Block {
    pub(crate) fn new(pool: Pool<SoftwareDevice>) -> Self {
        Self { pool, octets: (0..BLOCK).map(|at| (at / 7).to_le_bytes()[0]).collect(), ready: None }
    }
}

impl Service for Block {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    fn is_ready(&self, call: &rpc::Call<'_>) -> bool {
        call.procedure.number == READY
    }

    fn call(&mut self, from: Id, call: &rpc::Call<'_>, results: &mut Writer<'_>) -> Result<(), Denial> {
        match call.procedure.number {
            NULL => {}
            READY => self.ready = Some(from),
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
                let data = data.get(..count as usize).ok_or(Denial::GarbageArguments)?;
                let block = self.octets.get_mut(..data.len()).ok_or(Denial::GarbageArguments)?;
                block.copy_from_slice(data);
                results.put(&count).map_err(|_| Denial::System)?;
            }
            _ => return Err(Denial::ProcedureUnavailable),
        }
        Ok(())
    }
}

/// What was sent, in its order.
pub(crate) type Chart = Rc<RefCell<Vec<String>>>;

/// Both ends.
pub(crate) struct World {
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) client: Client,
    pub(crate) near: Driver<SoftwareDevice>,
    pub(crate) far: Driver<SoftwareDevice>,
    pub(crate) server: Server<Block>,
}

/// How a call has ended.
pub(crate) type Ended = Result<Vec<u8>, ClientError>;

impl World {
    pub(crate) fn new(client: Config, server: Config) -> Result<Self, DriverError> {
        let fabric = Fabric::new();
        let mut near = Driver::new(&fabric.device(), &Budget::new(1 << 28), 1 << 14)?;
        let mut far = Driver::new(&fabric.device(), &Budget::new(1 << 28), 1 << 14)?;
        let block = Block::new(far.pool().clone());
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::bind(&mut far, any, server, block)?;
        let client = Client::connect(&mut near, server.address(), client, Credentials::none())?;
        Ok(Self { fabric, client, near, far, server })
    }

    /// Draws every message that is sent.
    pub(crate) fn draw(&mut self, chart: &Chart) {
        for (driver, arrow) in [(&mut self.near, "client ---->"), (&mut self.far, "<---- server")] {
            let chart = chart.clone();
            driver.watch(move |_, message| chart.borrow_mut().push(format!("{arrow}  {}", Dump(message))));
        }
    }

    /// Turns both ends once.
    pub(crate) fn turn(&mut self) -> Result<(), DriverError> {
        self.near.turn()?;
        self.far.turn()?;
        self.server.serve(&mut self.far);
        Ok(())
    }

    /// Turns both ends until the client is told something, or `done` says so.
    pub(crate) fn until<T>(&mut self, mut done: impl FnMut(&mut Self) -> Option<T>) -> Result<T, String> {
        let began = std::time::Instant::now();
        while began.elapsed().as_secs() < 20 {
            if let Some(done) = done(self) {
                return Ok(done);
            }
            self.turn().map_err(|error| error.to_string())?;
        }
        Err("nothing happens".to_owned())
    }

    /// Ends a call, and tells its results and its memory.
    pub(crate) fn end(&mut self, call: CallId) -> Result<(Ended, Memory), String> {
        let ended = self.until(|world| {
            while let Some(event) = world.client.event(&mut world.near) {
                match event {
                    ClientEvent::Answered { call: ended, answer } if ended == call => {
                        return Some(Ok(answer.results().to_vec()));
                    }
                    ClientEvent::Failed { call: ended, why } if ended == call => return Some(Err(why)),
                    ClientEvent::CalledBack(arrival) => {
                        // It fails only when the connection is gone, and then so is the call.
                        let _ = world.client.reply(&mut world.near, arrival.call, arrival.xid, |_| Ok(()));
                    }
                    _ => {}
                }
            }
            None
        })?;
        Ok((ended, self.client.take_memory(&mut self.near, call)))
    }

    /// Calls a procedure with arguments of octets, and tells its results.
    pub(crate) fn call(&mut self, number: u32, arguments: &[u8], largest_results: u32) -> Result<Ended, String> {
        let call = Call { largest_results, ..Call::to(PROGRAM, 1, number) };
        let begun = self.client.call(&mut self.near, call, |writer| {
            writer.octets(arguments);
            Ok(())
        });
        let call = begun.map_err(|why| why.to_string())?;
        Ok(self.end(call)?.0)
    }

    /// A buffer of the client's.
    pub(crate) fn buffer(&self, octets: u32) -> Result<Buf, String> {
        self.near.pool().take(octets).map_err(|error| error.to_string())
    }
}
