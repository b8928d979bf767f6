//! The services of the tests.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::LazyLock;

use oncrpc::xdr::{Item, SharedBytes};
use oncrpc::{Context, RpcError};

use crate::block1::{self, EchoResults, ReadPairResults, ReadResults};
use crate::callback1;
use crate::schema::{PairArgs, ReadArgs, Region, RegionPair};

/// The size of the block in bytes.
pub const SIZE: usize = 1 << 20;

/// Returns the content of the block.
pub fn bytes() -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..SIZE).map(|at| (at / 7).to_le_bytes()[0]).collect());
    &BYTES
}

/// Returns the checksum of bytes, which WRITE returns.
pub fn checksum(bytes: &[u8]) -> u32 {
    let sum = |sum: u32, byte: &u8| sum.rotate_left(5) ^ u32::from(*byte);
    bytes.iter().fold(0, sum) ^ bytes.len() as u32
}

/// A service of the block. Clones share the block.
#[derive(Clone, Debug)]
pub struct Block(Rc<State>);

#[derive(Debug)]
struct State {
    bytes: &'static [u8],
    served: Cell<u64>,
    last: RefCell<Option<SharedBytes>>,
    ready: RefCell<Vec<u64>>,
}

impl Default for Block {
    fn default() -> Self {
        Self::of(bytes())
    }
}

impl Block {
    pub fn of(bytes: &'static [u8]) -> Self {
        Self(Rc::new(State {
            bytes,
            served: Cell::default(),
            last: RefCell::default(),
            ready: RefCell::default(),
        }))
    }

    /// Returns the number of served calls.
    pub fn served(&self) -> u64 {
        self.0.served.get()
    }

    /// Takes the data of the last write, in the memory where the device placed it.
    pub fn take_last(&self) -> Option<SharedBytes> {
        self.0.last.take()
    }

    /// Takes the connection of a client that has reported that it serves CALLBACK.
    pub fn take_ready(&self) -> Option<u64> {
        self.0.ready.borrow_mut().pop()
    }

    fn item(&self, cx: &Context, count: u32) -> Result<Item<'static>, RpcError> {
        let bytes = self.0.bytes.get(..count as usize);
        let bytes = bytes.ok_or(std::io::Error::from(std::io::ErrorKind::UnexpectedEof))?;
        let mut buf = cx.item_buf(bytes.len());
        buf.copy_from_slice(bytes);
        Ok(buf.into_item(bytes.len()))
    }

    fn count(&self) {
        self.0.served.set(self.served() + 1);
    }
}

impl block1::LocalService for Block {
    async fn echo<'a>(
        &'a self,
        _: &'a Context,
        bytes: crate::schema::PlainBytes<'a>,
    ) -> Result<EchoResults<'a>, RpcError> {
        self.count();
        Ok(bytes.into())
    }

    async fn read(&self, cx: &Context, args: ReadArgs) -> Result<ReadResults<'_>, RpcError> {
        self.count();
        let bytes = self.item(cx, args.count)?;
        Ok(Region { bytes }.into())
    }

    async fn write(&self, _: &Context, region: Region<'_>) -> Result<u32, RpcError> {
        self.count();
        let sum = checksum(region.bytes.as_bytes());
        self.0.last.replace(Some(region.bytes.into_shared()));
        Ok(sum)
    }

    async fn read_pair(
        &self,
        cx: &Context,
        args: PairArgs,
    ) -> Result<ReadPairResults<'_>, RpcError> {
        self.count();
        let (first, second) = (self.item(cx, args.first)?, self.item(cx, args.second)?);
        Ok(RegionPair { first, second }.into())
    }

    async fn ready(&self, cx: &Context) -> Result<(), RpcError> {
        self.count();
        drop(cx.caller());
        self.0.ready.borrow_mut().extend(cx.connection());
        Ok(())
    }
}

/// The service of a client, and its number of calls.
#[derive(Clone, Debug, Default)]
pub struct Callback(Rc<Cell<u64>>);

impl Callback {
    pub fn served(&self) -> u64 {
        self.0.get()
    }
}

impl callback1::LocalService for Callback {
    async fn echo<'a>(
        &'a self,
        _: &'a Context,
        bytes: crate::schema::PlainBytes<'a>,
    ) -> Result<callback1::EchoResults<'a>, RpcError> {
        self.0.set(self.served() + 1);
        Ok(bytes.into())
    }
}
