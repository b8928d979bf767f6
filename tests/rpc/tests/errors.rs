//! Every error of the tutorial's table, with its complete text, over TCP and over RDMA.

use crate::support;
use std::fs;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::support::rdma::Running;
use crate::support::table::{assert_documented, rows};
use crate::support::{Store, assert_error, iwarp, put, run, until};
use kv1::Client;
use oncrpc::xdr::{Procedure, SharedBytes, Text};
use oncrpc::{
    Call, CallError, CallOptions, Channel, Execution, Method, ReplyLimits, Router, loopback, tcp,
};
use rpcrdma_proto::connection::Config;
use rpcrdma_rpc_tests::kv::kv::{self, kv1};
use rpcrdma_verbs::provider::software::{Fabric, Faults};
use rpcrdma_verbs::{ClientConfig, ServerBuilder, ServerConfig, channel};
use tokio::io::AsyncWriteExt as _;

fn rdma(protocol: Config) -> Running {
    support::rdma::start(ServerConfig::new().protocol(protocol))
}

async fn over_tcp(config: tcp::ClientConfig) -> (Client<Channel>, Arc<Store>) {
    let store = Arc::new(Store::default());
    let router = Router::new().add_service(kv1::serve(store.clone()));
    let server = tcp::Server::bind("127.0.0.1:0", router).await.unwrap();
    let address = server.local_addr().unwrap().to_string();
    tokio::spawn(server.run());
    let channel = tcp::connect_with(&address, config).await.unwrap();
    (Client::new(channel), store)
}

fn in_memory() -> Client<Channel> {
    let router = Router::new().add_service(kv1::serve(Store::default()));
    let (channel, runner) = loopback(router);
    tokio::spawn(runner);
    Client::new(channel)
}

/// Returns a TCP client of a server that does not exist.
fn of_nobody(server: &str) -> Client<Channel> {
    let (channel, runner) = tcp::channel(server, tcp::ClientConfig::new());
    tokio::spawn(runner);
    Client::new(channel)
}

const SOON: Duration = Duration::from_millis(50);

#[test]
fn connecting_without_a_listener_over_tcp() {
    run(async {
        let kv = of_nobody("127.0.0.1:1");
        let error = kv.fail(&9).wait_for_connection(false).await.unwrap_err();
        let text = "can't connect: Connection refused (os error 111)";
        assert_error(&error, text, Execution::NotExecuted);
        let error = kv.fail(&9).timeout(SOON).await.unwrap_err();
        let text = "not done within 50ms: not connected: Connection refused (os error 111)";
        assert_error(&error, text, Execution::NotExecuted);
    });
}

/// A call whose deadline passes while its bytes wait for the server to read may be executed later.
#[test]
fn a_server_that_does_not_read() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let small = socket2::SockRef::from(&listener).set_recv_buffer_size(4096);
        small.unwrap();
        let kv = of_nobody(&listener.local_addr().unwrap().to_string());
        let text = "not done within 50ms: the peer does not read";
        for execution in [Execution::Unknown, Execution::NotExecuted] {
            for _ in 0..4 {
                let kv = kv.clone();
                tokio::spawn(async move { kv.put(&put("a", vec![7; 1 << 20])).await });
            }
            tokio::time::sleep(SOON).await;
            let error = kv.fail(&9).timeout(SOON).await.unwrap_err();
            assert_error(&error, text, execution);
        }
        // The server gets the first of the two calls.
        let (mut stream, _) = listener.accept().unwrap();
        let (read, mut bytes) = tokio::task::spawn_blocking(move || {
            stream.set_read_timeout(Some(10 * SOON)).unwrap();
            let mut bytes = Vec::new();
            // The client sends no more.
            (stream.read_to_end(&mut bytes).is_err(), bytes)
        })
        .await
        .unwrap();
        let mut numbers = Vec::new();
        while let Some((marker, rest)) = bytes.split_first_chunk() {
            let length = u32::from_be_bytes(*marker) & !(1 << 31);
            numbers.push(rest[23]);
            bytes = rest[length as usize..].to_vec();
        }
        assert!(read, "the connection stays");
        assert_eq!(
            numbers,
            [2, 2, 2, 2, 3, 2, 2, 2, 2],
            "four PUTs, a FAIL, four PUTs"
        );
    });
}

#[test]
fn connecting_without_a_listener_over_rdma() {
    run(async {
        let address: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let device = Fabric::new().device();
        let (channel, runner) = channel(&device, address, ClientConfig::new());
        tokio::spawn(runner);
        let kv = Client::new(channel);
        let error = kv.fail(&9).wait_for_connection(false).await.unwrap_err();
        let text = "can't connect: connect: nothing listens at 127.0.0.1:9";
        assert_error(&error, text, Execution::NotExecuted);
        let error = kv.fail(&9).timeout(SOON).await.unwrap_err();
        let text = "not done within 50ms: not connected: connect: nothing listens at 127.0.0.1:9";
        assert_error(&error, text, Execution::NotExecuted);
    });
}

/// The end of the text comes from the system.
#[test]
fn an_unknown_server_name() {
    run(async {
        let name = "nobody.invalid:2049";
        let device = Fabric::new().device();
        let (channel, runner) = channel(&device, name, ClientConfig::new());
        tokio::spawn(runner);
        for kv in [of_nobody(name), Client::new(channel)] {
            let error = kv.fail(&9).wait_for_connection(false).await.unwrap_err();
            let text = "KV_FAIL of program 0x20000001 version 1 at nobody.invalid:2049: \
                        can't connect: failed to lookup address information: ";
            let whole = error.to_string();
            assert!(whole.starts_with(text), "{whole}");
            assert!(whole.ends_with(" (not executed)"), "{whole}");
            assert_eq!(error.execution(), Execution::NotExecuted);
            assert_documented(&error.kind().to_string(), error.execution());
        }
    });
}

#[test]
fn a_connection_lost_during_a_call() {
    run(async {
        let server = rdma(Config::server());
        let kv = server.client(ClientConfig::new());
        let waits = kv.fail(&3).into_future();
        let waits = tokio::spawn(waits);
        until(|| server.store.fails.load(Relaxed) == 1).await;
        server.fabric.inject(Faults {
            disconnect: u16::MAX,
            ..Faults::default()
        });
        let error = kv.fail(&9).await.unwrap_err();
        let text = "the connection was lost: the peer is gone";
        assert_error(&error, text, Execution::Unknown);
        assert_error(&waits.await.unwrap().unwrap_err(), text, Execution::Unknown);
    });
}

#[test]
fn no_free_slot_before_the_deadline() {
    run(async {
        let (kv, store) = over_tcp(tcp::ClientConfig::new().max_calls(1)).await;
        let blocks = tokio::spawn(kv.fail(&3).into_future());
        until(|| store.fails.load(Relaxed) == 1).await;
        let error = kv.fail(&9).timeout(SOON).await.unwrap_err();
        let text = "not done within 50ms: too many calls in flight";
        assert_error(&error, text, Execution::NotExecuted);
        blocks.abort();

        let server = rdma(Config::server());
        let protocol = Config {
            max_calls: 1,
            credits: 1,
            ..Config::client()
        };
        let kv = server.client(ClientConfig::new().protocol(protocol));
        let blocks = tokio::spawn(kv.fail(&3).into_future());
        until(|| server.store.fails.load(Relaxed) == 1).await;
        let error = kv.fail(&9).timeout(SOON).await.unwrap_err();
        assert_error(&error, text, Execution::NotExecuted);
        blocks.abort();
    });
}

#[test]
fn no_credit_before_the_deadline() {
    run(async {
        let server = rdma(Config {
            max_served: 1,
            ..Config::server()
        });
        let kv = server.client(ClientConfig::new());
        let blocks = tokio::spawn(kv.fail(&3).into_future());
        until(|| server.store.fails.load(Relaxed) == 1).await;
        let error = kv.fail(&9).timeout(SOON).await.unwrap_err();
        let text = "not done within 50ms: no credit from the server";
        assert_error(&error, text, Execution::NotExecuted);
        blocks.abort();
    });
}

#[test]
fn no_reply_before_the_deadline() {
    run(async {
        let text = "not done within 50ms: no reply";
        let (kv, _) = over_tcp(tcp::ClientConfig::new()).await;
        let error = kv.fail(&3).timeout(SOON).await.unwrap_err();
        assert_error(&error, text, Execution::Unknown);
        let server = rdma(Config::server());
        let kv = server.client(ClientConfig::new());
        // A connection is not a part of the time that the next call has.
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
        let error = kv.fail(&3).timeout(SOON).await.unwrap_err();
        assert_error(&error, text, Execution::Unknown);
    });
}

#[test]
fn exhausted_memory() {
    run(async {
        let server = rdma(Config::server());
        let kv = server.client(ClientConfig::new().memory(4 << 20));
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
        let mut kept = Vec::new();
        for _ in 0..16 {
            kept.push(kv.transport().item_buf(1 << 19));
        }
        let error = kv.get(&"a".try_into().unwrap()).await.unwrap_err();
        let text = "the transport failed: 1048576 more bytes would exceed the budget of 4194304 \
                    bytes of registered memory: raise it, or have fewer calls in flight";
        assert_error(&error, text, Execution::NotExecuted);
        // While other calls are in flight, which will free memory, a call waits for it.
        let blocks = tokio::spawn(kv.fail(&3).into_future());
        until(|| server.store.fails.load(Relaxed) == 2).await;
        let key = "a".try_into().unwrap();
        let error = kv.get(&key).timeout(SOON).await.unwrap_err();
        let text = "not done within 50ms: memory budget exhausted";
        assert_error(&error, text, Execution::NotExecuted);
        drop(kept);
        kv.get(&key).await.unwrap();
        blocks.abort();
    });
}

#[test]
fn a_reply_larger_than_its_limit() {
    run(async {
        let server = rdma(Config::server());
        let kv = server.client(ClientConfig::new());
        kv.put(&put("a", vec![7; 100_000])).await.unwrap();
        let key: Text<'_> = "a".try_into().unwrap();
        let get = kv.get(&key).reply_limits(ReplyLimits::new(Some(100)));
        let text = "the transport failed: the peer rejected its header: it is malformed, it has \
                    too many chunks, or the reply needs more memory than it offers";
        assert_error(&get.await.unwrap_err(), text, Execution::Unknown);

        let (kv, store) = over_tcp(tcp::ClientConfig::new().max_record(1000)).await;
        let value = SharedBytes::from(vec![7; 2000]);
        store.insert("a", value);
        let text = "the reply exceeds 1000 bytes";
        let error = kv.get(&key).await.unwrap_err();
        assert_error(&error, text, Execution::Executed);
    });
}

/// Declares a procedure that the schema does not have.
macro_rules! procedure {
    ($name:ident, $program:expr, $version:expr, $number:expr, $args:ty, $results:ty) => {
        struct $name;

        impl Procedure for $name {
            const PROGRAM: u32 = $program;
            const VERSION: u32 = $version;
            const NUMBER: u32 = $number;
            const NAME: &'static str = stringify!($name);
            type Args<'a> = $args;
            type Reply<'a> = $results;
        }

        impl Method for $name {
            type Results = $results;

            fn to_results(results: $results) -> $results {
                results
            }
        }
    };
}
procedure!(OtherProgram, 0x2000_0009, 1, 1, (), ());
procedure!(OtherVersion, kv::PROGRAM, 7, 1, (), ());
procedure!(OtherProcedure, kv::PROGRAM, 1, 77, (), ());
procedure!(OtherArguments, kv::PROGRAM, 1, 2, u32, ());
procedure!(OtherResults, kv::PROGRAM, 1, 3, u32, [bool; 2]);

async fn error_of<P: Method>(kv: &Client<Channel>, args: P::Args<'_>) -> CallError
where
    P::Results: std::fmt::Debug,
{
    let call = Call::<_, P>::new(kv.transport(), &CallOptions::DEFAULT, &args);
    call.await.unwrap_err()
}

#[test]
fn an_unknown_program_version_or_procedure() {
    run(async {
        let kv = in_memory();
        for (error, text) in [
            (
                error_of::<OtherProgram>(&kv, ()).await,
                "OtherProgram of program 0x20000009 version 1 at loopback: \
                 the server does not offer the program (not executed)",
            ),
            (
                error_of::<OtherVersion>(&kv, ()).await,
                "OtherVersion of program 0x20000001 version 7 at loopback: \
                 the server offers versions 1 to 1 of the program (not executed)",
            ),
            (
                error_of::<OtherProcedure>(&kv, ()).await,
                "OtherProcedure of program 0x20000001 version 1 at loopback: \
                 the server does not offer the procedure (not executed)",
            ),
            (
                error_of::<OtherArguments>(&kv, 9).await,
                "OtherArguments of program 0x20000001 version 1 at loopback: \
                 the server can't decode the arguments (not executed)",
            ),
        ] {
            assert_eq!(error.to_string(), text);
            assert_eq!(error.execution(), Execution::NotExecuted);
            assert_documented(&error.kind().to_string(), error.execution());
        }
    });
}

/// A server that refuses each version: the channel ends, and says why to later calls, too.
#[test]
fn a_server_without_a_common_version() {
    run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (device, address) = (iwarp::device(), listener.local_addr().unwrap());
        let (channel, runner) = channel(&device, address, ClientConfig::new());
        let runner = tokio::spawn(runner);
        let kv = Client::new(channel);
        let call = tokio::spawn(kv.fail(&9).into_future());

        let (mut stream, _) = listener.accept().await.unwrap();
        iwarp::accept(&mut stream).await;
        let segment = iwarp::read_segment(&mut stream).await.unwrap();
        // RDMA_ERROR, ERR_VERS: versions 3 to 4 (RFC 8166, section 4.5.2).
        let words = [2, 32, 4, 1, 3, 4].map(u32::to_be_bytes).concat();
        let refusal = iwarp::send(1, &[&segment[18..22], &words].concat());
        stream.write_all(&refusal).await.unwrap();

        let text = "the connection was lost: the two ends have no version in common";
        let error = call.await.unwrap().unwrap_err();
        assert_error(&error, text, Execution::NotExecuted);
        runner.await.unwrap().unwrap();
        let error = kv.fail(&9).await.unwrap_err();
        assert_error(&error, text, Execution::NotExecuted);
    });
}

/// The call in flight fails, and later ones.
#[test]
fn an_aborted_runner() {
    async fn ends(channel: Channel, runner: tokio::task::JoinHandle<()>, store: &Store) {
        let kv = Client::new(channel);
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
        let waits = tokio::spawn({
            let kv = kv.clone();
            async move { kv.fail(&3).await.unwrap_err() }
        });
        until(|| store.fails.load(Relaxed) == 2).await;
        runner.abort();
        let text = "the channel's runner has ended";
        assert_error(&waits.await.unwrap(), text, Execution::Unknown);
        let late = kv.fail(&9).await.unwrap_err();
        assert_error(&late, text, Execution::NotExecuted);
    }
    run(async {
        let (store, fabric) = (Arc::new(Store::default()), Fabric::new());
        let served = store.clone();
        let router = move || Router::new().add_service(kv1::serve(served.clone()));
        let any = "127.0.0.1:0".parse().unwrap();
        let server = ServerBuilder::new(router)
            .rdma(&fabric.device(), any)
            .tcp(any);
        let server = server.start().await.unwrap();
        let [rdma, tcp] = *server.local_addrs() else {
            panic!("the server has two addresses")
        };
        let (over_rdma, runner) = channel(&fabric.device(), rdma, ClientConfig::new());
        ends(
            over_rdma,
            tokio::spawn(async { drop(runner.await) }),
            &store,
        )
        .await;
        store.fails.store(0, Relaxed);
        let (over_tcp, runner) = tcp::channel(&tcp.to_string(), tcp::ClientConfig::new());
        ends(over_tcp, tokio::spawn(runner), &store).await;
    });
}

/// The runner ends before it has a connection. Each call returns the reason, even a later one.
#[test]
fn invalid_settings() {
    run(async {
        let protocol = Config {
            credits: 32,
            max_calls: 16,
            ..Config::client()
        };
        let config = ClientConfig::new().protocol(protocol);
        let address: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let (channel, runner) = channel(&Fabric::new().device(), address, config);
        let kv = Client::new(channel);
        let early = kv.fail(&9).into_future();
        runner.await.unwrap_err();
        for call in [early, kv.fail(&9).into_future()] {
            let text = "the channel's runner has ended: \
                        credits must be one or more, and at most max_calls";
            assert_error(&call.await.unwrap_err(), text, Execution::NotExecuted);
        }
    });
}

#[test]
fn a_reply_of_another_schema() {
    run(async {
        let error = error_of::<OtherResults>(&in_memory(), 9).await;
        let text = "OtherResults of program 0x20000001 version 1 at loopback: \
                    the reply can't be decoded: [0]: boolean is neither 0 nor 1 at byte 24 \
                    (executed)";
        assert_eq!(error.to_string(), text);
        assert_eq!(error.execution(), Execution::Executed);
        assert_documented(&error.kind().to_string(), error.execution());
    });
}

#[test]
fn a_call_larger_than_the_transport_limit() {
    run(async {
        let (kv, _) = over_tcp(tcp::ClientConfig::new()).await;
        let text = "the arguments can't be encoded: length exceeds its bound at byte 8";
        let error = kv.put(&put("a", vec![0; (1 << 20) + 1])).await.unwrap_err();
        assert_error(&error, text, Execution::NotExecuted);
    });
}

/// Checks that a test asserts the whole text of every error in the tutorial's table. In the other
/// direction, `assert_error` checks that the table has each error that a test asserts.
#[test]
fn each_documented_error_is_tested() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let sources = files.filter(|path| path.extension().is_some_and(|name| name == "rs"));
    let tests: String = sources
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let tests = tests.replace("\\\n", "");
    let tests = tests.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows = rows();
    assert!(rows.len() >= 30, "{rows:?}");
    for row in rows {
        // A literal is the error's text alone, or with the procedure and the execution.
        let is_tested = tests.match_indices(row.text).any(|(at, _)| {
            let (before, after) = (&tests[..at], &tests[at + row.text.len()..]);
            let begins = before.ends_with('"') || before.ends_with(": ");
            begins && (after.starts_with('"') || after.starts_with(" ("))
        });
        assert!(is_tested, "not provoked: {}", row.text);
    }
}

/// What a conversion by `?` into `anyhow::Error` and `Box<dyn Error + Send + Sync>` asks of an
/// error, and a task that returns one.
fn converts<E: std::error::Error + Send + Sync + 'static>() {}

#[test]
fn errors_convert_into_those_of_any_kind() {
    converts::<CallError>();
    converts::<oncrpc::BackwardError>();
    converts::<rpcrdma_verbs::TransportError>();
    converts::<rpcrdma_verbs::provider::VerbError>();
    converts::<rpcrdma_verbs::driver::DriverError>();
    converts::<rpcrdma_verbs::driver::BeginError>();
    converts::<rpcrdma_verbs::memory::MemoryError>();
}
