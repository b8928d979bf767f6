//! A client and a server in this process.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rpcrdma_proto::connection::{Config, Properties};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
use rpcrdma_verbs::client::{Call, CallId, Client, ClientError, ClientEvent};
use rpcrdma_verbs::driver::{CallBuffers, Driver, DriverError};
use rpcrdma_verbs::dump::Dump;
use rpcrdma_verbs::memory::{Budget, Buf};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::rpc::Credentials;
use rpcrdma_verbs::server::Server;

use crate::block::{BlockService, PROGRAM};
use crate::device_source::DeviceSource;

/// Messages in up to 8 transmissions, and receive buffers of 4 KiB with 64 KiB for bulk data.
pub(crate) fn rtr() -> RtrExtConfig {
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
        structure: BufferStructure::new(&[head, bulk]).ok(),
        ..RtrExtConfig::ALL
    }
}

/// The messages that were sent, in order. Clones share the log.
#[derive(Clone, Default)]
pub(crate) struct MessageLog(Arc<Mutex<Vec<String>>>);

impl MessageLog {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both ends.
pub(crate) struct TestPair<D: Device> {
    pub(crate) client: Client,
    pub(crate) near: Driver<D>,
    pub(crate) far: Driver<D>,
    pub(crate) server: Server<BlockService>,
    pub(crate) chart: MessageLog,
    properties: Properties,
}

/// The result of a call.
pub(crate) type CallResult = Result<Vec<u8>, ClientError>;

impl<D: Device> TestPair<D> {
    pub(crate) fn new(
        ground: &impl DeviceSource<Device = D>,
        client: Config,
        server: Config,
    ) -> Result<Self, Box<dyn Error>> {
        let mut near = ground.driver(&Budget::new(1 << 28), 1 << 14)?;
        let mut far = ground.driver(&Budget::new(1 << 28), 1 << 14)?;
        let block = BlockService::new(&far, 1)?;
        let properties = client.properties;
        let server = Server::bind(&mut far, ground.address(), server, block)?;
        let client = Client::connect(&mut near, server.address(), client, Credentials::none())?;
        Ok(Self {
            client,
            near,
            far,
            server,
            chart: MessageLog::default(),
            properties,
        })
    }

    /// Logs every message that is sent.
    pub(crate) fn draw(&mut self, chart: &MessageLog) {
        self.chart = chart.clone();
        for (driver, arrow) in [
            (&mut self.near, "client ---->"),
            (&mut self.far, "<---- server"),
        ] {
            let (chart, properties) = (chart.clone(), self.properties);
            driver.watch(move |_, message| {
                let message = Dump::new(message).with_properties(properties);
                chart.lock().push(format!("{arrow}  {message}"));
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

    /// Turns both ends until the client has an event, or `done` returns a value.
    pub(crate) fn until<T>(
        &mut self,
        mut done: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, String> {
        let began = std::time::Instant::now();
        while began.elapsed().as_secs() < 20 {
            if let Some(done) = done(self) {
                return Ok(done);
            }
            self.turn().map_err(|error| error.to_string())?;
        }
        Err("nothing happens".to_owned())
    }

    /// Waits for the end of a call, and returns its results and its buffers.
    pub(crate) fn end(&mut self, call: CallId) -> Result<(CallResult, CallBuffers), String> {
        let ended = self.until(|world| {
            while let Some(event) = world.client.event(&mut world.near) {
                match event {
                    ClientEvent::Answered {
                        call: ended,
                        answer,
                    } if ended == call => {
                        return Some(Ok(answer.results().to_vec()));
                    }
                    ClientEvent::Failed { call: ended, why } if ended == call => {
                        return Some(Err(why));
                    }
                    ClientEvent::CalledBack(arrival) => {
                        // It fails only if the connection is gone, which also ends the call.
                        let _ =
                            world
                                .client
                                .reply(&mut world.near, arrival.call, arrival.xid, |_| Ok(()));
                    }
                    _ => {}
                }
            }
            None
        })?;
        Ok((ended, self.client.take_memory(&mut self.near, call)))
    }

    /// Calls a procedure with bytes as arguments, and returns its results.
    pub(crate) fn call(
        &mut self,
        number: u32,
        arguments: &[u8],
        largest_results: u32,
    ) -> Result<CallResult, String> {
        let call = Call {
            largest_results,
            ..Call::to(PROGRAM, 1, number)
        };
        let begun = self.client.call(&mut self.near, call, |writer| {
            writer.bytes(arguments);
            Ok(())
        });
        let call = begun.map_err(|why| why.to_string())?;
        Ok(self.end(call)?.0)
    }

    /// Returns a buffer of the client.
    pub(crate) fn buffer(&self, bytes: u32) -> Result<Buf, String> {
        self.near
            .pool()
            .take(bytes)
            .map_err(|error| error.to_string())
    }
}
