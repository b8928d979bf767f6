//! A block store: data move between the memory of client and server, and neither copies them.

use std::ops::RangeInclusive;

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::xdr::Decode;
use rpcrdma_verbs::client::{Call, CallId, Client, ClientEvent};
use rpcrdma_verbs::driver::{ConnectionId, Driver, Writer};
use rpcrdma_verbs::memory::{Budget, Buf, Pool};
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::rpc::{self, Credentials, Denial};
use rpcrdma_verbs::server::{Server, Service};

const PROGRAM: u32 = 0x2000_0002;
const READ: u32 = 1;
const WRITE: u32 = 2;
const BLOCK: u32 = 1 << 20;

/// A store of one block. Written data stay in a vector; read data are sent from a registered
/// buffer.
struct Store {
    pool: Pool<SoftwareDevice>,
    block: Vec<u8>,
}

impl Service for Store {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    fn call(
        &mut self,
        _: ConnectionId,
        call: &rpc::Call<'_>,
        results: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        match call.procedure.number {
            READ => {
                let mut data = self.pool.take(BLOCK).map_err(|_| Denial::System)?;
                // A real store would read its disk into the buffer.
                data.extend_from_slice(&self.block);
                results.item(data).map_err(|_| Denial::System)?;
            }
            WRITE => {
                // The arguments were assembled by RDMA Reads: the data are in place.
                let (count, data) =
                    u32::from_prefix(call.arguments).map_err(|_| Denial::GarbageArguments)?;
                self.block = data
                    .get(..count as usize)
                    .ok_or(Denial::GarbageArguments)?
                    .to_vec();
            }
            _ => return Err(Denial::ProcedureUnavailable),
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fabric = Fabric::new();
    let mut near = Driver::new(&fabric.device(), &Budget::new(1 << 28), 4096)?;
    let mut far = Driver::new(&fabric.device(), &Budget::new(1 << 28), 4096)?;
    let store = Store {
        pool: far.pool().clone(),
        block: Vec::new(),
    };
    let mut server = Server::bind(&mut far, "127.0.0.1:0".parse()?, Config::server(), store)?;
    let client = Client::connect(
        &mut near,
        server.address(),
        Config::client(),
        Credentials::none(),
    )?;

    // The client registers its own memory, and the server reads it by RDMA Read.
    let device = near.device().clone();
    let data = Buf::adopt(&device, &Budget::new(1 << 24), vec![0xb1; BLOCK as usize])?;
    let write = client.call(&mut near, Call::to(PROGRAM, 1, WRITE), |arguments| {
        arguments.item(data).map(|_| ())
    })?;
    finish(&client, write, &mut near, &mut far, &mut server)?;
    let memory = client.take_memory(&mut near, write);
    println!("written: {} buffer came back", memory.items.len());

    // The buffer for the result, which the server writes by RDMA Write.
    let place = Buf::adopt(
        &device,
        &Budget::new(1 << 24),
        Vec::with_capacity(BLOCK as usize),
    )?;
    let mut call = Call {
        largest_results: BLOCK + 4,
        ..Call::to(PROGRAM, 1, READ)
    };
    call.results.push(place);
    let read = client.call(&mut near, call, |_| Ok(()))?;
    finish(&client, read, &mut near, &mut far, &mut server)?;
    let result = client
        .take_memory(&mut near, read)
        .results
        .pop()
        .and_then(Buf::into_vec)
        .unwrap_or_default();
    println!(
        "read: {} bytes, all as written: {}",
        result.len(),
        result.iter().all(|byte| *byte == 0xb1)
    );
    Ok(())
}

/// Turns both ends until a call has ended.
fn finish(
    client: &Client,
    call: CallId,
    near: &mut Driver<SoftwareDevice>,
    far: &mut Driver<SoftwareDevice>,
    server: &mut Server<Store>,
) -> Result<(), Box<dyn std::error::Error>> {
    loop {
        near.turn()?;
        far.turn()?;
        server.serve(far);
        while let Some(event) = client.event(near) {
            match event {
                ClientEvent::Answered { call: ended, .. } if ended == call => return Ok(()),
                ClientEvent::Failed { call: ended, why } if ended == call => return Err(why.into()),
                _ => {}
            }
        }
    }
}
