//! A client and a server in this process, on one thread, for the scenes of `demo`.
//!
//! No thread drives the ends: a scene waits by `until` or `end`, which turn both ends and give up
//! after 20 seconds. `draw` must be called before the first turn, or messages are missing in the
//! log and in captures. `bench` also uses the extension that `rtr` returns.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oncrpc::{CallError, Method, PendingCall, Router};
use rpcrdma_proto::connection::{Config, Properties};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
use rpcrdma_verbs::driver::{Driver, DriverError};
use rpcrdma_verbs::dump::Dump;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::{LocalChannel, LocalEvent, LocalServer};

use crate::block::{self, BlockService, Callback, Programs};
use crate::device_source::DeviceSource;
use crate::schema::block::block1::Client;
use crate::schema::callback::callback1;

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

/// A sent message.
pub(crate) struct LoggedMessage {
    /// The line of the chart.
    pub(crate) text: String,
    pub(crate) from_client: bool,
    pub(crate) bytes: Vec<u8>,
}

/// The sent messages in order. Clones share the log.
#[derive(Clone, Default)]
pub(crate) struct MessageLog(Arc<Mutex<Vec<LoggedMessage>>>);

impl MessageLog {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<LoggedMessage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client, a server, and their drivers.
pub(crate) struct TestPair {
    pub(crate) client: Client<LocalChannel<AnyDevice>>,
    pub(crate) near: Driver<AnyDevice>,
    pub(crate) far: Driver<AnyDevice>,
    pub(crate) server: LocalServer<Programs>,
    pub(crate) block: BlockService,
    pub(crate) chart: MessageLog,
    properties: Properties,
}

impl TestPair {
    pub(crate) fn new(
        source: &DeviceSource,
        client: Config,
        server: Config,
    ) -> Result<Self, Box<dyn Error>> {
        let mut near = source.driver(&Budget::new(1 << 28), 1 << 14)?;
        let mut far = source.driver(&Budget::new(1 << 28), 1 << 14)?;
        let block = BlockService::new(&far, 1)?;
        let properties = client.properties;
        let server = block.bind(&mut far, source.address(0), server)?;
        let services = Router::new().add_service(callback1::serve_local(Callback));
        let address = server.local_addr();
        let channel = LocalChannel::connect_with_services(&mut near, address, client, services)?;
        Ok(Self {
            client: block::client(channel),
            near,
            far,
            server,
            block,
            chart: MessageLog::default(),
            properties,
        })
    }

    /// Logs every sent message.
    pub(crate) fn draw(&mut self, chart: &MessageLog) {
        self.chart = chart.clone();
        for (driver, arrow, from_client) in [
            (&mut self.near, "client ---->", true),
            (&mut self.far, "<---- server", false),
        ] {
            let (chart, properties) = (chart.clone(), self.properties);
            driver.watch(move |_, message| {
                let dump = Dump::new(message).with_properties(properties);
                chart.lock().push(LoggedMessage {
                    text: format!("{arrow}  {dump}"),
                    from_client,
                    bytes: message.to_vec(),
                });
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

    /// Returns the next event of the client.
    pub(crate) fn event(&mut self) -> Option<LocalEvent> {
        self.client.transport().poll_event(&mut self.near)
    }

    /// Waits for the end of a call, and returns its results.
    pub(crate) fn end<P: Method>(&mut self, call: BeginResult<P>) -> Result<P::Results, String> {
        let call = call.map_err(|error| error.to_string())?;
        let ended = self.until(|world| {
            while let Some(event) = world.event() {
                if let LocalEvent::Completed(completed) = event {
                    let channel = world.client.transport();
                    let result = channel.read(&call, &completed, P::to_results);
                    channel.recycle(&mut world.near, completed);
                    if result.is_some() {
                        return result;
                    }
                }
            }
            None
        })?;
        ended.map_err(|error| error.to_string())
    }
}

/// A call that may have begun.
pub(crate) type BeginResult<P> = Result<PendingCall<P>, CallError>;
