//! The XIDs of clients begin at random: a server with a reply cache takes equal calls of two
//! clients, or of a client that was started again, for retransmissions.

use std::env;
use std::process::Command;

use crate::support::run;
use kv1::{Client, GetResults, Service};
use oncrpc::xdr::Text;
use oncrpc::{Channel, Context, Router, RpcError, tcp};
use rpcrdma_rpc_tests::kv::PutArgs;
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, ServerBuilder, channel};

/// Returns the XID of each FAIL.
#[derive(Clone)]
struct Xids;

impl Service for Xids {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn fail(&self, cx: &Context, _: u32) -> Result<u32, RpcError> {
        Ok(cx.xid())
    }
}

/// Returns the first XIDs of two clients over TCP, and of two over RDMA.
async fn first_xids() -> Vec<u32> {
    let fabric = Fabric::new();
    let any = "127.0.0.1:0".parse().unwrap();
    let server = ServerBuilder::new(|| Router::new().add_service(kv1::serve(Xids)))
        .rdma(&fabric.device(), any)
        .tcp(any);
    let server = server.start().await.unwrap();
    let [rdma, tcp] = *server.local_addrs() else {
        panic!("the server has two addresses")
    };
    let mut xids = Vec::new();
    let mut call = async |channel: Channel| {
        xids.push(Client::new(channel).fail(&9).await.unwrap());
    };
    for _ in 0..2 {
        call(tcp::connect(&tcp.to_string()).await.unwrap()).await;
        let (channel, runner) = channel(&fabric.device(), rdma, ClientConfig::new());
        tokio::spawn(runner);
        call(channel).await;
    }
    xids
}

/// Set for the other process, which prints its XIDs.
const OTHER: &str = "PRINT_FIRST_XIDS";

#[test]
fn xids_begin_at_random() {
    let mut xids = Vec::new();
    run(async { xids = first_xids().await });
    if env::var_os(OTHER).is_some() {
        return println!("\nxids: {xids:?}");
    }
    for _ in 0..2 {
        let mut other = Command::new(env::current_exe().unwrap());
        other.args(["--exact", "xids::xids_begin_at_random", "--nocapture"]);
        let printed = other.env(OTHER, "1").output().unwrap().stdout;
        let printed = String::from_utf8(printed).unwrap();
        let line = printed.lines().find_map(|line| line.strip_prefix("xids: "));
        let numbers = line.unwrap().trim_matches(['[', ']']).split(", ");
        xids.extend(numbers.map(|number| number.parse::<u32>().unwrap()));
    }
    assert_eq!(xids.len(), 12);
    // Numbers that are near to each other would come from a counter or a clock: of random ones,
    // two of twelve are as near once in 300,000 runs.
    for (at, one) in xids.iter().enumerate() {
        for other in &xids[at + 1..] {
            assert!(one.abs_diff(*other) > 100, "{xids:?}");
        }
    }
    // Counters that begin at zero, or at the process ID.
    let are_high = xids.iter().filter(|xid| **xid >= 1 << 24).count();
    assert!(are_high >= 6, "{xids:?}");
}
