//! A client and a server with separate drivers, which a test turns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use oncrpc::xdr::{Item, SharedBytes};
use oncrpc::{CallError, Method, PendingCall, ReplyLimits, Router};
use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
use rpcrdma_verbs::driver::{ConnectionCounters, ConnectionId, Driver};
use rpcrdma_verbs::memory::{Budget, Frozen, Pool};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::{CompletedCall, LocalChannel, LocalEvent, LocalServer};

use crate::block::{self, Block};
use crate::block1::{self, Client, Echo, Read, Write};
use crate::device_source::DeviceSource;
use crate::schema::{ReadArgs, Region};

/// The timeout for events that must happen.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The services of the server.
pub type Programs = (block1::LocalServer<Block>, ());

/// A client and a server.
pub struct Ends<D: Device = SoftwareDevice> {
    pub client: Client<LocalChannel<D>>,
    pub near: Driver<D>,
    pub far: Driver<D>,
    pub server: LocalServer<Programs>,
    pub block: Block,
    pub budgets: [Budget; 2],
}

impl Ends {
    /// Creates both ends on a new fabric.
    pub fn new(client: Config, server: Config) -> Self {
        let fabric = Fabric::new();
        Self::on([fabric.device(), fabric.device()], client, server)
    }

    /// Creates both ends on devices of a fabric.
    pub fn on(devices: [SoftwareDevice; 2], client: Config, server: Config) -> Self {
        let budgets = [Budget::new(1 << 28), Budget::new(1 << 28)];
        Self::within(budgets, devices, any_address(), (client, server))
    }
}

/// Returns an address of the software fabric, with any port.
pub fn any_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

impl<D: Device> Ends<D> {
    /// Creates both ends on devices of a source.
    pub fn of(source: &impl DeviceSource<Device = D>, client: Config, server: Config) -> Self {
        let budgets = [Budget::new(1 << 28), Budget::new(1 << 28)];
        let devices = [source.open(), source.open_server()];
        Self::within(budgets, devices, source.address(), (client, server))
    }

    pub fn within(
        budgets: [Budget; 2],
        [near, far]: [D; 2],
        address: SocketAddr,
        (client, server): (Config, Config),
    ) -> Self {
        let mut near = Driver::new(&near, &budgets[0], 4096).unwrap();
        let mut far = Driver::new(&far, &budgets[1], 4096).unwrap();
        let block = Block::default();
        let server = serve(&mut far, address, server, &block);
        let client = connect(&mut near, server.local_addr(), client);
        Self {
            client,
            near,
            far,
            server,
            block,
            budgets,
        }
    }

    pub fn channel(&self) -> LocalChannel<D> {
        self.client.transport().clone()
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
        self.half_turn(0);
        self.half_turn(1);
    }

    /// Returns the next event of the client.
    pub fn event(&mut self) -> Option<LocalEvent> {
        self.client.transport().poll_event(&mut self.near)
    }

    /// Turns both ends until the client has an event.
    pub fn next_event(&mut self) -> LocalEvent {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(event) = self.event() {
                return event;
            }
            self.turn();
        }
        panic!("nothing happens");
    }

    /// Turns both ends until a call has ended. The connection must not be lost.
    pub fn completed(&mut self) -> CompletedCall {
        loop {
            match self.next_event() {
                LocalEvent::Completed(completed) => return completed,
                LocalEvent::Connected(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Turns both ends until this call has ended, which is the only one, and passes its reply to a
    /// function.
    pub fn finish<P: Method, R>(
        &mut self,
        call: &PendingCall<P>,
        f: impl FnOnce(P::Reply<'_>) -> R,
    ) -> Result<R, CallError> {
        let completed = self.completed();
        let channel = self.client.transport();
        let result = channel.read(call, &completed, f).expect("its own reply");
        channel.recycle(&mut self.near, completed);
        result
    }

    pub fn null(&mut self) {
        let call = self.client.null().begin(&mut self.near).unwrap();
        self.finish(&call, |()| ()).unwrap();
    }

    /// Begins an echo. The reply may be of the same length.
    pub fn begin_echo(&mut self, bytes: &[u8]) -> PendingCall<Echo> {
        begin_echo(&self.client, &mut self.near, bytes).unwrap()
    }

    pub fn echo(&mut self, bytes: &[u8]) {
        let call = self.begin_echo(bytes);
        let is_same = self.finish(&call, |reply| reply == bytes);
        assert!(is_same.unwrap(), "{} bytes", bytes.len());
    }

    pub fn begin_read(&mut self, count: u32) -> PendingCall<Read> {
        let args = ReadArgs { count };
        self.client.read(&args).begin(&mut self.near).unwrap()
    }

    /// Reads the beginning of the block, and returns it in the memory where it was placed.
    pub fn read(&mut self, count: u32) -> SharedBytes {
        let call = self.begin_read(count);
        let bytes = self.finish(&call, |reply| reply.bytes.into_shared());
        let bytes = bytes.unwrap();
        assert!(
            bytes.as_bytes() == &block::bytes()[..count as usize],
            "{count} bytes"
        );
        bytes
    }

    /// Begins to write bytes from registered memory.
    pub fn begin_write(&mut self, bytes: &[u8]) -> PendingCall<Write> {
        let bytes = item(self.near.pool(), bytes);
        let region = Region { bytes };
        self.client.write(&region).begin(&mut self.near).unwrap()
    }

    pub fn write(&mut self, bytes: &[u8]) {
        let call = self.begin_write(bytes);
        let sum = self.finish(&call, |sum| sum).unwrap();
        assert_eq!(sum, block::checksum(bytes), "{} bytes", bytes.len());
    }

    /// Returns the server's end of the client's connection, its only one.
    pub fn far_id(&self) -> ConnectionId {
        let [id] = self.server.connections() else {
            panic!("{} connections", self.server.connections().len());
        };
        *id
    }

    /// Returns the counters of both ends.
    pub fn counters(&self) -> [ConnectionCounters; 2] {
        let near = self.near.counters(self.client.transport().id());
        [near.unwrap(), self.far.counters(self.far_id()).unwrap()]
    }
}

/// Serves a block.
pub fn serve<D: Device>(
    driver: &mut Driver<D>,
    address: SocketAddr,
    config: Config,
    block: &Block,
) -> LocalServer<Programs> {
    let router = Router::new().add_service(block1::serve_local(block.clone()));
    LocalServer::bind(driver, address, config, router).unwrap()
}

/// Creates a client whose calls are retransmitted until they are answered.
pub fn connect<D: Device>(
    driver: &mut Driver<D>,
    server: SocketAddr,
    config: Config,
) -> Client<LocalChannel<D>> {
    let channel = LocalChannel::connect(driver, server, config).unwrap();
    client(channel)
}

/// Creates a client on a channel. Its calls are idempotent: they are retransmitted until they are
/// answered.
pub fn client<D: Device>(channel: LocalChannel<D>) -> Client<LocalChannel<D>> {
    Client::new(channel)
}

/// Begins an echo. The reply may be of the same length.
pub fn begin_echo<D: Device>(
    client: &Client<LocalChannel<D>>,
    driver: &mut Driver<D>,
    bytes: &[u8],
) -> Result<PendingCall<Echo>, CallError> {
    let most = 4 + bytes.len().next_multiple_of(4) as u64;
    let call = client.echo(&bytes);
    call.reply_limits(ReplyLimits::new(Some(most)))
        .begin(driver)
}

/// Returns an item of these bytes in registered memory.
pub fn item<D: Device>(pool: &Pool<D>, bytes: &[u8]) -> Item<'static> {
    let mut buf = pool.take(bytes.len() as u32).unwrap();
    buf.extend_from_slice(bytes);
    SharedBytes::from(Frozen::from(buf)).into()
}

/// Returns two devices of a fabric.
pub fn devices(fabric: &Arc<Fabric>) -> [SoftwareDevice; 2] {
    [fabric.device(), fabric.device()]
}

/// Returns settings of rtrext-02 with receive buffers of 4 KiB, and 64 KiB for bulk data.
pub fn placing() -> RtrExtConfig {
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
