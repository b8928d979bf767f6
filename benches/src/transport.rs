//! Null RPCs through the whole transport, both ends on one thread over the software fabric.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::client::{Call, Client, ClientEvent};
use rpcrdma_verbs::driver::{ConnectionId, Driver, Writer};
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::rpc::{self, Credentials, Denial};
use rpcrdma_verbs::server::{Server, Service};

/// The jobs: each with its calls outstanding.
pub(crate) const JOBS: [(&str, u16); 2] = [("transport/v2-1", 1), ("transport/v2-16", 16)];

/// RPCs until the settings are negotiated and everything that grows has grown.
const WARM_UP: u64 = 2000;
const PROGRAM: u32 = 0x2000_0001;
/// Room for the completions of both ends.
const COMPLETIONS: u32 = 4096;

/// Answers every call with no results.
struct Null;

impl Service for Null {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    fn call(
        &mut self,
        _: ConnectionId,
        _: &rpc::Call<'_>,
        _: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        Ok(())
    }
}

/// RPCs over one connection, with so many outstanding.
pub(crate) struct Transport {
    outstanding: u16,
    ends: RefCell<Ends>,
}

struct Ends {
    client: Client,
    near: Driver<SoftwareDevice>,
    far: Driver<SoftwareDevice>,
    server: Server<Null>,
}

impl Transport {
    pub(crate) fn new(outstanding: u16) -> Self {
        let ends = match Ends::new(outstanding) {
            Ok(ends) => ends,
            Err(error) => unreachable!("the software fabric connects: {error}"),
        };
        let transport = Self {
            outstanding,
            ends: RefCell::new(ends),
        };
        transport.run(WARM_UP);
        transport
    }

    /// Completes so many RPCs.
    pub(crate) fn run(&self, times: u64) {
        let mut ends = self.ends.borrow_mut();
        let (mut begun, mut answered) = (0, 0);
        while answered < times {
            while begun < times && begun - answered < u64::from(self.outstanding) {
                ends.call();
                begun += 1;
            }
            answered += ends.turn();
        }
    }
}

impl Ends {
    fn new(outstanding: u16) -> Result<Self, Box<dyn std::error::Error>> {
        let fabric = Fabric::new();
        let mut near = Driver::new(&fabric.device(), &Budget::new(1 << 26), COMPLETIONS)?;
        let mut far = Driver::new(&fabric.device(), &Budget::new(1 << 26), COMPLETIONS)?;
        let serves = Config {
            max_served: outstanding,
            ..Config::server()
        };
        let server = Server::bind(
            &mut far,
            SocketAddr::from(([127, 0, 0, 1], 0)),
            serves,
            Null,
        )?;
        let calls = Config {
            max_calls: outstanding + 1,
            credits: outstanding.into(),
            ..Config::client()
        };
        let client = Client::connect(&mut near, server.address(), calls, Credentials::none())?;
        Ok(Self {
            client,
            near,
            far,
            server,
        })
    }

    fn call(&mut self) {
        let begun = self
            .client
            .call(&mut self.near, Call::to(PROGRAM, 1, 0), |_| Ok(()));
        assert!(
            begun.is_ok(),
            "no more calls are outstanding than the settings allow"
        );
    }

    /// Turns both ends once and returns how many calls were answered.
    fn turn(&mut self) -> u64 {
        self.near.flush();
        let turned = self.far.turn();
        self.server.serve(&mut self.far);
        assert!(
            turned.is_ok() && self.near.turn().is_ok(),
            "the software fabric does not fail"
        );
        let mut answered = 0;
        while let Some(event) = self.client.event(&mut self.near) {
            match event {
                ClientEvent::Answered { .. } => answered += 1,
                ClientEvent::Failed { why, .. } => unreachable!("a null call failed: {why}"),
                _ => {}
            }
        }
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_answered() {
        for (_, outstanding) in JOBS {
            let transport = Transport::new(outstanding);
            let sends = || {
                let ends = transport.ends.borrow();
                ends.near
                    .counters(ends.client.id())
                    .map_or(0, |counters| counters.sends)
            };
            let before = sends();
            transport.run(1000);
            assert_eq!(sends() - before, 1000, "one message a call");
        }
    }
}
