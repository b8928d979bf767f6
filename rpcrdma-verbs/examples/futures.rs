//! Calls and handlers as futures on tokio: the handlers of the server call their caller back before
//! they reply.

use std::ops::RangeInclusive;

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::xdr::Decode;
use rpcrdma_verbs::client::Call;
use rpcrdma_verbs::driver::{ConnectionId, Driver, Writer};
use rpcrdma_verbs::handlers::{AsyncServer, AsyncService};
use rpcrdma_verbs::local::Local;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::rpc::{self, Credentials, Denial};
use tokio::task::{LocalSet, spawn_local};

const PROGRAM: u32 = 0x2000_0004;
const CALLBACK: u32 = 0x4000_0004;
const READY: u32 = 1;
const DOUBLE: u32 = 2;
const NUMBER: u32 = 1;

/// Doubles a number that it asks its caller for.
struct Doubler {
    local: Local<SoftwareDevice>,
}

impl AsyncService for Doubler {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    // Without this call the server would not send the backward call.
    fn is_ready(&self, call: &rpc::Call<'_>) -> bool {
        call.procedure.number == READY
    }

    async fn call(
        &self,
        from: ConnectionId,
        call: &rpc::Call<'_>,
        results: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        match call.procedure.number {
            READY => Ok(()),
            DOUBLE => {
                let number = Call {
                    largest_results: 4,
                    ..Call::to(CALLBACK, 1, NUMBER)
                };
                let (answer, _) = self
                    .local
                    .call_back(from, number, |_| Ok(()))
                    .await
                    .map_err(|_| Denial::System)?;
                let number = u32::from_bytes(answer.results()).map_err(|_| Denial::System)?;
                results
                    .put(&(2 * u64::from(number)))
                    .map_err(|_| Denial::System)?;
                Ok(())
            }
            _ => Err(Denial::ProcedureUnavailable),
        }
    }
}

/// The reply of the client.
struct Number(u32);

impl AsyncService for Number {
    fn program(&self) -> u32 {
        CALLBACK
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
        if call.procedure.number != NUMBER {
            return Err(Denial::ProcedureUnavailable);
        }
        results.put(&self.0).map_err(|_| Denial::System)?;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let fabric = Fabric::new();
        let far = Local::new(Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096)?);
        spawn_local(rpcrdma_verbs::tokio::run(far.clone()));
        let any = "127.0.0.1:0".parse()?;
        let doubler = Doubler { local: far.clone() };
        let server =
            far.with_driver(|driver| AsyncServer::bind(driver, any, Config::server(), doubler, 8))?;
        let address = server.address();
        far.serve(server);

        let near = Local::new(Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096)?);
        spawn_local(rpcrdma_verbs::tokio::run(near.clone()));
        let client = near.connect(address, Config::client(), Credentials::none())?;
        client.serve(Number(21), 2);
        client.call(Call::to(PROGRAM, 1, READY), |_| Ok(())).await?;
        let double = Call {
            largest_results: 8,
            ..Call::to(PROGRAM, 1, DOUBLE)
        };
        let (answer, _) = client.call(double, |_| Ok(())).await?;
        println!(
            "twice what the client has is {}",
            u64::from_bytes(answer.results())?
        );
        // The service has a clone of the driver of its own server.
        far.stop();
        Ok(())
    })
}
