//! The service of this command: an echo, and blocks of memory to read and write.
//!
//! `spec/block.x` defines the programs, and `spec/xdrgen.toml` their idempotent procedures. Each
//! block has the bytes that `byte` returns, which `demo` compares with the results. READ takes
//! block numbers modulo the number of blocks, since `bench` counts up. A service and its clones
//! stay on one thread.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use oncrpc::xdr::{Item, SharedBytes};
use oncrpc::{Call, Context, ReplyLimits, Router, RpcError, Transport};
use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::driver::{Driver, DriverError};
use rpcrdma_verbs::memory::{Buf, Frozen, MemoryError, Pool};
use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::{LocalChannel, LocalServer};

use crate::schema::block::block1::{
    self, Client, CopyResults, Echo, EchoResults, LocalService, ReadPairResults, ReadResults,
};
use crate::schema::callback::callback1;
use crate::schema::{PairArgs, PlainBytes, ReadArgs, Region, RegionPair};

pub(crate) use crate::schema::BLOCK_SIZE;

/// The programs that a server of the command offers.
pub(crate) type Programs = (block1::LocalServer<BlockService>, ());

/// The service. Clones share the same blocks.
#[derive(Clone)]
pub(crate) struct BlockService(Rc<State>);

#[derive(Default)]
struct State {
    blocks: Vec<SharedBytes>,
    served: Cell<u64>,
    written: RefCell<Option<SharedBytes>>,
    ready: Cell<Option<u64>>,
}

/// Returns the byte at an offset of every block.
pub(crate) const fn byte(at: u32) -> u8 {
    (at / 7).to_le_bytes()[0]
}

impl BlockService {
    /// Creates blocks in the driver's memory.
    pub(crate) fn new(driver: &Driver<AnyDevice>, blocks: usize) -> Result<Self, MemoryError> {
        let block = |_| {
            let bytes = (0..BLOCK_SIZE).map(byte).collect();
            let block = Buf::adopt(driver.device(), driver.pool().budget(), bytes)?;
            Ok::<_, MemoryError>(Frozen::from(block).into())
        };
        let blocks = (0..blocks).map(block).collect::<Result<_, _>>()?;
        Ok(Self(Rc::new(State {
            blocks,
            ..State::default()
        })))
    }

    /// Creates a service without blocks, for servers that are not read.
    #[cfg(feature = "tokio")]
    pub(crate) fn without_blocks() -> Self {
        Self(Rc::default())
    }

    /// Listens at an address, and serves the blocks.
    pub(crate) fn bind(
        &self,
        driver: &mut Driver<AnyDevice>,
        address: SocketAddr,
        config: Config,
    ) -> Result<LocalServer<Programs>, DriverError> {
        let router = Router::new().add_service(block1::serve_local(self.clone()));
        LocalServer::bind(driver, address, config, router)
    }

    /// Returns the number of served calls.
    pub(crate) fn served(&self) -> u64 {
        self.0.served.get()
    }

    /// Returns the bytes of the last write.
    pub(crate) fn take_written(&self) -> Option<SharedBytes> {
        self.0.written.take()
    }

    /// Returns the connection of the last client that reported that it serves CALLBACK.
    pub(crate) fn ready(&self) -> Option<u64> {
        self.0.ready.get()
    }

    fn count(&self) {
        self.0.served.set(self.served() + 1);
    }

    fn read(&self, block: u32, count: u32) -> Result<Item<'static>, RpcError> {
        let blocks = &self.0.blocks;
        let block = blocks.get(block as usize % blocks.len().max(1));
        let bytes = block.and_then(|block| block.slice(0..count as usize));
        let short = || std::io::Error::other("the block has not as many bytes");
        Ok(bytes.ok_or_else(short)?.into())
    }
}

/// Returns the length of a region in bytes.
fn length(region: &Region<'_>) -> Result<u32, RpcError> {
    Ok(u32::try_from(region.bytes.len())?)
}

impl LocalService for BlockService {
    async fn echo<'a>(
        &'a self,
        _: &'a Context,
        bytes: PlainBytes<'a>,
    ) -> Result<EchoResults<'a>, RpcError> {
        self.count();
        Ok(bytes.into())
    }

    async fn read(&self, _: &Context, args: ReadArgs) -> Result<ReadResults<'_>, RpcError> {
        self.count();
        let bytes = self.read(args.block, args.count)?;
        Ok(Region { bytes }.into())
    }

    async fn write(&self, _: &Context, region: Region<'_>) -> Result<u32, RpcError> {
        self.count();
        let length = length(&region)?;
        self.0.written.replace(Some(region.bytes.into_shared()));
        Ok(length)
    }

    async fn ready(&self, cx: &Context) -> Result<(), RpcError> {
        self.count();
        drop(cx.caller());
        self.0.ready.set(cx.connection());
        Ok(())
    }

    async fn discard(&self, _: &Context, region: Region<'_>) -> Result<u32, RpcError> {
        self.count();
        length(&region)
    }

    async fn copy(&self, _: &Context, args: ReadArgs) -> Result<CopyResults<'_>, RpcError> {
        self.count();
        let bytes = self.read(args.block, args.count)?;
        Ok(bytes.as_bytes().to_vec().into())
    }

    async fn read_pair(
        &self,
        _: &Context,
        args: PairArgs,
    ) -> Result<ReadPairResults<'_>, RpcError> {
        self.count();
        let (first, second) = (self.read(0, args.first)?, self.read(0, args.second)?);
        Ok(RegionPair { first, second }.into())
    }
}

/// The service of a client.
pub(crate) struct Callback;

impl callback1::LocalService for Callback {
    async fn next(&self, _: &Context, number: u32) -> Result<u32, RpcError> {
        Ok(number.wrapping_add(1))
    }
}

/// Creates a client. Its calls are idempotent: they are retransmitted until they are answered.
pub(crate) fn client(channel: LocalChannel<AnyDevice>) -> Client<LocalChannel<AnyDevice>> {
    Client::new(channel)
}

/// Returns a call that returns its arguments, with memory for them.
pub(crate) fn echo<'t, T: Transport>(client: &'t Client<T>, bytes: &[u8]) -> Call<'t, T, Echo> {
    client.echo(&bytes).reply_limits(plain_bytes(bytes.len()))
}

/// Returns the limits of a reply of at most `length` bytes, which are not eligible for direct data
/// placement.
pub(crate) fn plain_bytes(length: usize) -> ReplyLimits {
    ReplyLimits::new(Some(4 + length.next_multiple_of(4) as u64))
}

/// Returns an item in registered memory, with all bytes of one value.
pub(crate) fn filled(
    pool: &Pool<AnyDevice>,
    length: u32,
    value: u8,
) -> Result<Item<'static>, MemoryError> {
    let mut buf = pool.take(length)?;
    buf.as_full_mut().fill(value);
    buf.set_len(length);
    Ok(SharedBytes::from(Frozen::from(buf)).into())
}
