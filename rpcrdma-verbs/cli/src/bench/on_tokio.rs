//! The same echo with futures on tokio: a client and `async` handlers of a server, on one thread.

use std::cell::Cell;
use std::error::Error;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::client::Call;
use rpcrdma_verbs::driver::{ConnectionId, Writer};
use rpcrdma_verbs::handlers::{AsyncServer, AsyncService};
use rpcrdma_verbs::local::{Client, Local};
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::rpc::{self, Credentials, Denial};
use tokio::task::{LocalSet, spawn_local};

use super::{Options, SAMPLES, least_median_most};
use crate::block::{ECHO, PROGRAM};
use crate::device_source::DeviceSource;

struct Echo;

impl AsyncService for Echo {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    async fn call(
        &self,
        _: ConnectionId,
        call: &rpc::Call<'_>,
        results: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        results.bytes(call.arguments);
        Ok(())
    }
}

/// Makes calls one after the other, while they are answered.
async fn calls<D: Device>(client: Rc<Client<D>>, size: u32, done: Rc<Cell<u64>>) {
    let arguments = vec![0x5a; size as usize];
    loop {
        let call = Call {
            largest_results: size,
            ..Call::to(PROGRAM, 1, ECHO)
        };
        let reply = client.call(call, |writer| {
            writer.bytes(&arguments);
            Ok(())
        });
        if let Err(refused) = reply.await {
            return eprintln!("rpcrdma: {refused}");
        }
        done.set(done.get() + 1);
    }
}

/// Measures the nanoseconds per call over one connection: minimum, median and maximum.
pub(super) fn measure<G: DeviceSource>(
    options: &Options,
    ground: &G,
) -> Result<[f64; 3], Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let driver = || {
            ground
                .driver(&Budget::new(1 << 30), 1 << 14)
                .map(Local::new)
        };
        let (near, far) = (driver()?, driver()?);
        let handlers = options.depth;
        let config = Config {
            max_served: handlers,
            ..Config::server()
        };
        let server = far.with_driver(|driver| {
            AsyncServer::bind(driver, ground.address(), config, Echo, handlers.into())
        })?;
        let address = server.address();
        far.serve(server);
        spawn_local(rpcrdma_verbs::tokio::run(far));
        spawn_local(rpcrdma_verbs::tokio::run(near.clone()));
        let client = Config {
            max_calls: handlers.saturating_add(16),
            credits: handlers.into(),
            ..Config::client()
        };
        let client = Rc::new(near.connect(address, client, Credentials::none())?);
        let done = Rc::new(Cell::new(0u64));
        for _ in 0..options.depth {
            spawn_local(calls(client.clone(), options.size, done.clone()));
        }
        let mut samples = Vec::new();
        tokio::time::sleep(Duration::from_millis(300)).await;
        for _ in 0..SAMPLES {
            let (began, before) = (Instant::now(), done.get());
            tokio::time::sleep(Duration::from_millis(options.seconds * 1000) / SAMPLES).await;
            samples.push(began.elapsed().as_nanos() as f64 / (done.get() - before).max(1) as f64);
        }
        Ok(least_median_most(samples))
    })
}
