//! A server that calls its client back, after the client has declared that it accepts calls.

use std::ops::RangeInclusive;

use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::client::{Call, Client, ClientEvent};
use rpcrdma_verbs::driver::{ConnectionId, Driver, Writer};
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::rpc::{self, Credentials, Denial};
use rpcrdma_verbs::server::{Server, Service};

const PROGRAM: u32 = 0x2000_0003;
const CALLBACK: u32 = 0x4000_0003;
const SUBSCRIBE: u32 = 1;

#[derive(Default)]
struct News {
    subscriber: Option<ConnectionId>,
}

impl Service for News {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    // Without this call the server would not send the backward call.
    fn is_ready(&self, call: &rpc::Call<'_>) -> bool {
        call.procedure.number == SUBSCRIBE
    }

    fn call(
        &mut self,
        from: ConnectionId,
        call: &rpc::Call<'_>,
        _: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        match call.procedure.number {
            SUBSCRIBE => self.subscriber = Some(from),
            _ => return Err(Denial::ProcedureUnavailable),
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fabric = Fabric::new();
    let mut near = Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096)?;
    let mut far = Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096)?;
    let mut server = Server::bind(
        &mut far,
        "127.0.0.1:0".parse()?,
        Config::server(),
        News::default(),
    )?;
    let client = Client::connect(
        &mut near,
        server.address(),
        Config::client(),
        Credentials::none(),
    )?;
    client.call(&mut near, Call::to(PROGRAM, 1, SUBSCRIBE), |_| Ok(()))?;

    let mut sent = false;
    loop {
        near.turn()?;
        far.turn()?;
        server.serve(&mut far);
        if let (Some(subscriber), false) = (server.service().subscriber, sent) {
            sent = true;
            server.call_back(&mut far, subscriber, Call::to(CALLBACK, 1, 1), |news| {
                news.bytes(b"news");
                Ok(())
            })?;
        }
        while let Some(event) = client.event(&mut near) {
            if let ClientEvent::CalledBack(arrival) = event {
                if let Some(Ok(call)) = arrival.read() {
                    println!(
                        "the server says {:?}",
                        String::from_utf8_lossy(call.arguments)
                    );
                }
                client.reply(&mut near, arrival.call, arrival.xid, |_| Ok(()))?;
            }
        }
        if let Some((_, ClientEvent::Answered { .. })) = server.event() {
            println!("and knows that it was heard");
            return Ok(());
        }
    }
}
