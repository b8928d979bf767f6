//! The service of this command: an echo, and blocks of memory that can be read and written.

use std::ops::RangeInclusive;

use rpcrdma_proto::xdr::Decode;
use rpcrdma_verbs::driver::{Driver, Id, Placed, Writer};
use rpcrdma_verbs::memory::{Buf, Frozen, MemoryError};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::rpc::{self, Denial};
use rpcrdma_verbs::server::Service;

/// The program, in the range that RFC 5531 leaves to users.
pub(crate) const PROGRAM: u32 = 0x2052_4d41;
pub(crate) const NULL: u32 = 0;
/// The arguments, back.
pub(crate) const ECHO: u32 = 1;
/// The number of a block, and a count: so many of its octets, from where they are.
pub(crate) const READ: u32 = 2;
/// Octets, which are kept: their count.
pub(crate) const WRITE: u32 = 3;
/// The caller takes backward calls from now on.
pub(crate) const READY: u32 = 4;
/// Octets, which are forgotten: their count.
pub(crate) const DISCARD: u32 = 5;
/// Arguments of several reads: for each whether there is so much, and the octets if there is.
pub(crate) const READS: u32 = 6;

/// Octets of a block.
pub(crate) const BLOCK: u32 = 1 << 20;

pub(crate) struct Block {
    blocks: Vec<Frozen>,
    /// What was written last.
    pub(crate) written: Vec<u8>,
    /// The caller that said last that it takes backward calls.
    pub(crate) ready: Option<Id>,
}

/// The octet at a place of every block.
pub(crate) const fn octet(at: u32) -> u8 {
    (at / 7).to_le_bytes()[0]
}

impl Block {
    /// So many blocks, in memory of this driver's.
    pub(crate) fn new<D: Device>(driver: &Driver<D>, blocks: usize) -> Result<Self, MemoryError> {
        let block = |_| {
            let octets = (0..BLOCK).map(octet).collect();
            Buf::adopt(driver.device(), driver.pool().budget(), octets).map(Frozen::from)
        };
        let blocks = (0..blocks).map(block).collect::<Result<_, _>>()?;
        Ok(Self { blocks, written: Vec::new(), ready: None })
    }

    /// What is read, and what follows in the arguments. None if they are none.
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

/// The one opaque of variable length in these arguments, in as many parts as it has come.
fn data<'a>(call: &rpc::Call<'a>) -> Option<Vec<&'a [u8]>> {
    let (count, data) = u32::from_prefix(call.arguments).ok()?;
    match call.items {
        [] => Some(vec![data.get(..count as usize)?]),
        items => Some(items.iter().flat_map(Placed::parts).map(|part| &**part).collect()),
    }
}

impl Service for Block {
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
        match call.procedure.number {
            NULL => {}
            READY => self.ready = Some(from),
            ECHO => {
                results.octets(call.arguments);
            }
            READ => {
                let read = self.read(call.arguments).filter(|(_, rest)| rest.is_empty());
                let data = read.and_then(|(data, _)| data).ok_or(Denial::GarbageArguments)?;
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
