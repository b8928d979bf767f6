//! A client and a server in this process.

use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;

use rpcrdma_proto::connection::{Config, Properties};
use rpcrdma_proto::continuation::Rtr;
use rpcrdma_proto::placement::{Segment, Structure};
use rpcrdma_verbs::client::{Call, CallId, Client, ClientError, ClientEvent};
use rpcrdma_verbs::driver::{Driver, DriverError, Memory};
use rpcrdma_verbs::dump::Dump;
use rpcrdma_verbs::memory::{Budget, Buf};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::rpc::Credentials;
use rpcrdma_verbs::server::Server;

use crate::block::{Block, PROGRAM};
use crate::ground::Ground;

/// Messages in up to 8 transmissions, and receive buffers of 4 KiB with 64 KiB for bulk data.
pub(crate) fn rtr() -> Rtr {
    let head = Segment { length: 4096, align: 8, target: false };
    let bulk = Segment { length: 1 << 16, align: 4096, target: true };
    Rtr { structure: Structure::new(&[head, bulk]).ok(), ..Rtr::ALL }
}

/// What was sent, in its order.
pub(crate) type Chart = Rc<RefCell<Vec<String>>>;

/// Both ends.
pub(crate) struct World<D: Device> {
    pub(crate) client: Client,
    pub(crate) near: Driver<D>,
    pub(crate) far: Driver<D>,
    pub(crate) server: Server<Block>,
    pub(crate) chart: Chart,
    properties: Properties,
}

/// How a call has ended.
pub(crate) type Ended = Result<Vec<u8>, ClientError>;

impl<D: Device> World<D> {
    pub(crate) fn new(
        ground: &impl Ground<Device = D>,
        client: Config,
        server: Config,
    ) -> Result<Self, Box<dyn Error>> {
        let mut near = ground.driver(&Budget::new(1 << 28), 1 << 14)?;
        let mut far = ground.driver(&Budget::new(1 << 28), 1 << 14)?;
        let block = Block::new(&far, 1)?;
        let properties = client.properties;
        let server = Server::bind(&mut far, ground.address(), server, block)?;
        let client = Client::connect(&mut near, server.address(), client, Credentials::none())?;
        Ok(Self { client, near, far, server, chart: Chart::default(), properties })
    }

    /// Draws every message that is sent.
    pub(crate) fn draw(&mut self, chart: &Chart) {
        self.chart = chart.clone();
        for (driver, arrow) in [(&mut self.near, "client ---->"), (&mut self.far, "<---- server")] {
            let (chart, properties) = (chart.clone(), self.properties);
            driver.watch(move |_, message| {
                let message = Dump::new(message).speaking(properties);
                chart.borrow_mut().push(format!("{arrow}  {message}"));
            });
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
