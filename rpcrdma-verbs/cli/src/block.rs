//! The service of this command: an echo, and blocks of memory that can be read and written.

use std::ops::RangeInclusive;

use rpcrdma_proto::xdr::Decode;
use rpcrdma_verbs::driver::{ConnectionId, Driver, PlacedItem, Writer};
use rpcrdma_verbs::memory::{Buf, Frozen, MemoryError};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::rpc::{self, Denial};
use rpcrdma_verbs::server::Service;

/// The program number, in the range that RFC 5531 reserves for users.
pub(crate) const PROGRAM: u32 = 0x2052_4d41;
pub(crate) const NULL: u32 = 0;
/// Returns the arguments.
pub(crate) const ECHO: u32 = 1;
/// Takes the number of a block and a count, and returns the first bytes of the block.
pub(crate) const READ: u32 = 2;
/// Takes bytes, stores them, and returns their count.
pub(crate) const WRITE: u32 = 3;
/// Declares that the caller accepts backward calls from now on.
pub(crate) const READY: u32 = 4;
/// Takes bytes, discards them, and returns their count.
pub(crate) const DISCARD: u32 = 5;
/// Takes the arguments of several reads. Returns for each whether the block has as many bytes, and
/// then the bytes.
pub(crate) const READS: u32 = 6;

/// The size of a block.
pub(crate) const BLOCK: u32 = 1 << 20;

pub(crate) struct BlockService {
    blocks: Vec<Frozen>,
    /// The bytes of the last write.
    pub(crate) written: Vec<u8>,
    /// The last caller that declared that it accepts backward calls.
    pub(crate) ready: Option<ConnectionId>,
}

/// Returns the byte at an offset of every block.
pub(crate) const fn byte(at: u32) -> u8 {
    (at / 7).to_le_bytes()[0]
}

impl BlockService {
    /// Creates blocks in memory of this driver.
    pub(crate) fn new<D: Device>(driver: &Driver<D>, blocks: usize) -> Result<Self, MemoryError> {
        let block = |_| {
            let bytes = (0..BLOCK).map(byte).collect();
            Buf::adopt(driver.device(), driver.pool().budget(), bytes).map(Frozen::from)
        };
        let blocks = (0..blocks).map(block).collect::<Result<_, _>>()?;
        Ok(Self {
            blocks,
            written: Vec::new(),
            ready: None,
        })
    }

    /// Decodes a read, and returns its data and the remaining arguments, or `None` if the arguments
    /// are invalid.
    fn read<'a>(&self, arguments: &'a [u8]) -> Option<(Option<Frozen>, &'a [u8])> {
        let (number, rest) = u32::from_prefix(arguments).ok()?;
        let (count, rest) = u32::from_prefix(rest).ok()?;
        let block = self.blocks.get(number as usize % self.blocks.len().max(1));
        Some((block.and_then(|block| block.part(0, count)), rest))
    }

    fn reads(&self, call: &rpc::Call<'_>, results: &mut Writer<'_>) -> Result<(), Denial> {
        let mut left = call.arguments;
        while !left.is_empty() {
            results.answers(call.position_of(left));
            let (data, rest) = self.read(left).ok_or(Denial::GarbageArguments)?;
            left = rest;
            results.put(&data.is_some()).map_err(|_| Denial::System)?;
            if let Some(data) = data {
                results.frozen(data).map_err(|_| Denial::System)?;
            }
        }
        Ok(())
    }
}

/// Returns the one variable-length opaque of these arguments, in the parts in which it arrived.
fn data<'a>(call: &rpc::Call<'a>) -> Option<Vec<&'a [u8]>> {
    let (count, data) = u32::from_prefix(call.arguments).ok()?;
    match call.items {
        [] => Some(vec![data.get(..count as usize)?]),
        items => Some(
            items
                .iter()
                .flat_map(PlacedItem::parts)
                .map(|part| &**part)
                .collect(),
        ),
    }
}

impl Service for BlockService {
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
        match call.procedure.number {
            NULL => {}
            READY => self.ready = Some(from),
            ECHO => {
                results.bytes(call.arguments);
            }
            READ => {
                let read = self
                    .read(call.arguments)
                    .filter(|(_, rest)| rest.is_empty());
                let data = read
                    .and_then(|(data, _)| data)
                    .ok_or(Denial::GarbageArguments)?;
                results.frozen(data).map_err(|_| Denial::System)?;
            }
            READS => self.reads(call, results)?,
            WRITE | DISCARD => {
                let data = data(call).ok_or(Denial::GarbageArguments)?;
                if call.procedure.number == WRITE {
                    self.written = data.concat();
                }
                let count = data.iter().map(|part| part.len()).sum::<usize>();
                let count = u32::try_from(count).map_err(|_| Denial::System)?;
                results.put(&count).map_err(|_| Denial::System)?;
            }
            _ => return Err(Denial::ProcedureUnavailable),
        }
        Ok(())
    }
}
