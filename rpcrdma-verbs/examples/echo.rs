//! A server that gives back what it is sent, and a client: each on a thread of its own.

use std::ops::RangeInclusive;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::xdr::{Decode, Text};
use rpcrdma_verbs::blocking::Client;
use rpcrdma_verbs::client::Call;
use rpcrdma_verbs::driver::{ConnectionId, Driver, Writer};
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::rpc::{self, Credentials, Denial};
use rpcrdma_verbs::server::{Server, Service};

struct Echo;

impl Service for Echo {
    fn program(&self) -> u32 {
        0x2000_0001
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
            0 => {}
            1 => {
                results.bytes(call.arguments);
            }
            _ => return Err(Denial::ProcedureUnavailable),
        }
        Ok(())
    }
}

fn serve(
    device: &SoftwareDevice,
    address: &mpsc::Sender<std::net::SocketAddr>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut driver = Driver::new(device, &Budget::new(1 << 26), 4096)?;
    let mut server = Server::bind(&mut driver, "127.0.0.1:0".parse()?, Config::server(), Echo)?;
    address.send(server.address())?;
    loop {
        driver.wait(Duration::from_secs(1))?;
        server.serve(&mut driver);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fabric = Fabric::new();
    let (sender, address) = mpsc::channel();
    let device = fabric.device();
    thread::spawn(move || serve(&device, &sender).expect("the server goes on"));

    let (device, budget) = (fabric.device(), Budget::new(1 << 26));
    let mut client = Client::connect(
        &device,
        &budget,
        address.recv()?,
        Config::client(),
        Credentials::none(),
    )?;
    let hello = Text::<255>::new("hello, fabric")?;
    let (answer, _) = client.call(Call::to(0x2000_0001, 1, 1), |arguments| {
        arguments.put(&hello).map(|_| ())
    })?;
    let back: Text<'_, 255> = Decode::from_bytes(answer.results())?;
    println!(
        "{back} (version {:?})",
        client.session().and_then(|session| session.version())
    );
    Ok(())
}
