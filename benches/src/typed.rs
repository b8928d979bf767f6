//! Typed calls through the whole transport, both ends on one thread over the software fabric.

use std::cell::RefCell;
use std::net::SocketAddr;

use oncrpc::xdr::Text;
use oncrpc::{Context, PendingCall, ReplyCacheConfig, Router, RpcError};
use rpcrdma_proto::connection::Config;
use rpcrdma_rpc_tests::kv::kv::kv1::{self, Client, GetResults, LocalService};
use rpcrdma_rpc_tests::kv::{GetRes, PutArgs};
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::{LocalChannel, LocalEvent, LocalServer};

/// The jobs, each with its number of outstanding calls.
pub(crate) const JOBS: [(&str, u16); 2] = [("typed/v2-1", 1), ("typed/v2-16", 16)];

/// The number of RPCs after which the settings are negotiated and all buffers have grown.
const WARM_UP: u64 = 2000;
/// Room for the completions of both ends.
const COMPLETIONS: u32 = 4096;

/// A service that returns its argument.
struct Echo;

impl LocalService for Echo {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Ok(GetRes::False.into())
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Ok(())
    }

    async fn fail(&self, _: &Context, how: u32) -> Result<u32, RpcError> {
        Ok(how)
    }
}

/// RPCs over one connection, with a number of outstanding calls.
pub(crate) struct Typed {
    outstanding: u16,
    ends: RefCell<Ends>,
}

type Served = (kv1::LocalServer<Echo>, ());

struct Ends {
    client: Client<LocalChannel<SoftwareDevice>>,
    near: Driver<SoftwareDevice>,
    far: Driver<SoftwareDevice>,
    server: LocalServer<Served>,
}

impl Typed {
    pub(crate) fn new(outstanding: u16) -> Self {
        let ends = match Ends::new(outstanding) {
            Ok(ends) => ends,
            Err(error) => unreachable!("the software fabric connects: {error}"),
        };
        let typed = Self {
            outstanding,
            ends: RefCell::new(ends),
        };
        typed.run(WARM_UP);
        typed
    }

    /// Completes `times` RPCs.
    pub(crate) fn run(&self, times: u64) {
        let mut ends = self.ends.borrow_mut();
        let mut open = Vec::with_capacity(self.outstanding.into());
        let (mut begun, mut answered) = (0, 0);
        while answered < times {
            while begun < times && begun - answered < u64::from(self.outstanding) {
                open.push(ends.call());
                begun += 1;
            }
            answered += ends.turn(&mut open);
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
        // The untyped call, with which this is compared, keeps no replies either.
        let router = Router::new().reply_cache(ReplyCacheConfig::new().max_replies(0));
        let router = router.add_service(kv1::serve_local(Echo));
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = LocalServer::bind(&mut far, address, serves, router)?;
        let calls = Config {
            max_calls: outstanding + 1,
            credits: outstanding.into(),
            ..Config::client()
        };
        let channel = LocalChannel::connect(&mut near, server.local_addr(), calls)?;
        Ok(Self {
            client: Client::new(channel),
            near,
            far,
            server,
        })
    }

    fn call(&mut self) -> PendingCall<kv1::Fail> {
        match self.client.fail(&9).begin(&mut self.near) {
            Ok(call) => call,
            Err(error) => unreachable!("no more calls are outstanding than may be: {error}"),
        }
    }

    /// Turns both ends once and returns how many calls were answered.
    fn turn(&mut self, open: &mut Vec<PendingCall<kv1::Fail>>) -> u64 {
        self.near.flush();
        let turned = self.far.turn();
        self.server.serve(&mut self.far);
        assert!(
            turned.is_ok() && self.near.turn().is_ok(),
            "the software fabric does not fail"
        );
        let (mut answered, channel) = (0, self.client.transport());
        while let Some(event) = channel.poll_event(&mut self.near) {
            let LocalEvent::Completed(completed) = event else {
                continue;
            };
            let found = open.iter().position(|call| call.xid() == completed.xid());
            let call = found.map(|at| open.remove(at));
            let result = call.and_then(|call| channel.read(&call, &completed, |how| how));
            assert!(matches!(result, Some(Ok(9))), "{result:?}");
            channel.recycle(&mut self.near, completed);
            answered += 1;
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
            let typed = Typed::new(outstanding);
            let sends = || {
                let ends = typed.ends.borrow();
                let id = ends.client.transport().id();
                ends.near.counters(id).map_or(0, |counters| counters.sends)
            };
            let before = sends();
            typed.run(1000);
            assert_eq!(sends() - before, 1000, "one message a call");
        }
    }
}
