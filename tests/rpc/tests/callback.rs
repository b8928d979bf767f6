//! Servers that call their clients (RFC 8167).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Store, assert_error, found, key, put, run, until};
use kv1::{Client, GetResults, Service};
use oncrpc::xdr::Text;
use oncrpc::{
    CallError, Channel, Context, Execution, Router, RpcError, loopback, loopback_with_services, tcp,
};
use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::v2::properties::Bkreqsup;
use rpcrdma_proto::version::Version;
use rpcrdma_rpc_tests::kv::PutArgs;
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_verbs::provider::software::{Fabric, Faults};
use rpcrdma_verbs::{
    ClientConfig, RunningServer, ServerConfig, connect, connect_with_services, serve,
};

/// A server whose procedures call the client.
#[derive(Default)]
struct Mirror {
    errors: Mutex<Vec<CallError>>,
    channel: Mutex<Option<Channel>>,
    /// The number of backward calls that have ended.
    ended: AtomicUsize,
}

/// A FAIL that makes a backward call, and cancels it after some time.
const GIVES_UP: u32 = 50;
/// A FAIL that begins many backward calls, none of which gets a reply.
const MANY: u32 = 51;

impl Mirror {
    fn caller(&self, cx: &Context) -> Client<Channel> {
        let channel = cx.caller();
        *self.channel.lock().unwrap() = Some(channel.clone());
        Client::new(channel)
    }

    fn note<T>(&self, result: Result<T, CallError>) -> Result<T, RpcError> {
        self.ended.fetch_add(1, Relaxed);
        result.map_err(|error| {
            self.errors.lock().unwrap().push(error.clone());
            error.into()
        })
    }

    fn error(&self) -> CallError {
        self.errors.lock().unwrap().pop().expect("no error")
    }
}

impl Service for Mirror {
    async fn get(&self, cx: &Context, key: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        let value = self.note(self.caller(cx).get(&key).await)?;
        Ok(value.into())
    }

    async fn put(&self, cx: &Context, args: PutArgs<'_>) -> Result<(), RpcError> {
        self.note(self.caller(cx).put(&args).await)
    }

    async fn fail(&self, cx: &Context, how: u32) -> Result<u32, RpcError> {
        let client = self.caller(cx);
        match how {
            GIVES_UP => {
                let call = client.fail(&3).into_future();
                let given_up = tokio::time::timeout(Duration::from_millis(20), call).await;
                Ok(u32::from(given_up.is_err()))
            }
            MANY => {
                let mut calls: Vec<_> = (0..200).map(|_| client.fail(&3).into_future()).collect();
                // The last calls find no free slot.
                let last = calls.pop().ok_or(RpcError::NoReply)?;
                self.note(last.await)
            }
            how => self.note(client.fail(&how).await),
        }
    }
}

/// A server, its client, and the client's services.
struct World {
    mirror: Arc<Mirror>,
    store: Arc<Store>,
    kv: Client<Channel>,
    rdma: Option<(Arc<Fabric>, RunningServer)>,
}

impl World {
    fn loopback() -> Self {
        let (mirror, store) = (Arc::new(Mirror::default()), Arc::new(Store::default()));
        let router = Router::new().add_service(kv1::serve(mirror.clone()));
        let services = Router::new().add_service(kv1::serve(store.clone()));
        let (channel, runner) = loopback_with_services(router, services);
        tokio::spawn(runner);
        Self {
            mirror,
            store,
            kv: Client::new(channel),
            rdma: None,
        }
    }

    async fn tcp() -> Self {
        let (mirror, store) = (Arc::new(Mirror::default()), Arc::new(Store::default()));
        let router = Router::new().add_service(kv1::serve(mirror.clone()));
        let server = tcp::Server::bind("127.0.0.1:0", router).await.unwrap();
        let address = server.local_addr().unwrap().to_string();
        tokio::spawn(server.run());
        let services = Router::new().add_service(kv1::serve(store.clone()));
        let config = tcp::ClientConfig::new();
        let channel = tcp::connect_with_services(&address, config, services).await;
        Self {
            mirror,
            store,
            kv: Client::new(channel.unwrap()),
            rdma: None,
        }
    }

    fn rdma(client: Config, server: Config) -> Self {
        Self::over_rdma(client, server, true)
    }

    fn over_rdma(client: Config, server: Config, has_services: bool) -> Self {
        let (mirror, store) = (Arc::new(Mirror::default()), Arc::new(Store::default()));
        let (fabric, served) = (Fabric::new(), mirror.clone());
        let address = "127.0.0.1:0".parse().unwrap();
        let server = ServerConfig::new().protocol(server);
        let server = serve(&fabric.device(), address, server, move || {
            Router::new().add_service(kv1::serve(served))
        });
        let server = server.unwrap();
        let (device, address) = (fabric.device(), server.local_addr());
        let config = ClientConfig::new().protocol(client);
        let services = Router::new().add_service(kv1::serve(store.clone()));
        let channel = match has_services {
            true => connect_with_services(&device, address, config, services),
            false => connect(&device, address, config),
        };
        Self {
            mirror,
            store,
            kv: Client::new(channel.unwrap()),
            rdma: Some((fabric, server)),
        }
    }

    /// Returns all worlds with a backward direction.
    async fn all() -> [Self; 5] {
        let rtr = |config: Config| config.with_rtr(RtrExtConfig::ALL);
        [
            Self::loopback(),
            Self::tcp().await,
            Self::rdma(Config::client(), Config::server()),
            Self::rdma(first(Config::client()), first(Config::server())),
            Self::rdma(rtr(Config::client()), rtr(Config::server())),
        ]
    }
}

/// Returns the settings of an end that supports only Version One, with backward calls.
fn first(config: Config) -> Config {
    Config {
        max_version: Version::One,
        backward_v1: true,
        ..config
    }
}

/// A handler waits for the reply of its own client.
#[test]
fn a_handler_calls_its_client() {
    run(async {
        for world in World::all().await {
            assert_eq!(world.kv.fail(&9).await.unwrap(), 9);
            world.kv.put(&put("a", vec![7; 300])).await.unwrap();
            assert_eq!(world.store.puts.load(Relaxed), 1);
        }
    });
}

/// In Version Two, backward calls have chunks if the client accepts them.
#[test]
fn long_items_use_chunks_backward() {
    run(async {
        for world in [
            World::loopback(),
            World::tcp().await,
            World::rdma(Config::client(), Config::server()),
        ] {
            let args = put("a", vec![7; 300_000]);
            world.kv.put(&args).await.unwrap();
            let value = found(world.kv.get(&key("a")).await.unwrap());
            assert_eq!(value.map(|item| item.len()), Some(300_000));
        }
    });
}

// spec: bd-4.2-a, bd-4.2-b, xc3-3.3-c
#[test]
fn a_call_that_needs_chunks_fails_without_them() {
    run(async {
        let inline = Config {
            backward_support: Bkreqsup::Inline,
            ..Config::client()
        };
        for world in [
            World::rdma(first(Config::client()), first(Config::server())),
            World::rdma(inline, Config::server()),
        ] {
            let args = put("a", vec![7; 300_000]);
            world.kv.put(&args).await.unwrap_err();
            let error = world.mirror.error();
            assert_eq!(error.execution(), Execution::NotExecuted, "{error}");
            assert!(error.to_string().contains("chunk"), "{error}");
            assert_eq!(world.store.puts.load(Relaxed), 0);
            // A call whose reply might need chunks fails, too.
            world.kv.get(&key("a")).await.unwrap_err();
            let error = world.mirror.error();
            assert_eq!(error.execution(), Execution::NotExecuted, "{error}");
            assert_eq!(world.kv.fail(&9).await.unwrap(), 9);
        }
    });
}

/// Calls of both directions may have the same XIDs.
// spec: bd-5.2-a
#[test]
fn many_calls_run_in_both_directions() {
    run(async {
        let seeded = |config: Config| Config {
            xid_seed: 77,
            ..config
        };
        for world in [
            World::loopback(),
            World::tcp().await,
            World::rdma(seeded(Config::client()), seeded(Config::server())),
            World::rdma(
                seeded(first(Config::client())),
                seeded(first(Config::server())),
            ),
        ] {
            let tasks: Vec<_> = (0..64u32)
                .map(|task| {
                    let kv = world.kv.clone();
                    tokio::spawn(async move {
                        for how in 100..150 {
                            assert_eq!(kv.fail(&(how + task)).await.unwrap(), how + task);
                        }
                        assert_eq!(kv.fail(&4).await.unwrap(), 4);
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(world.store.fails.load(Relaxed), 64 * 51);
        }
    });
}

#[test]
fn a_client_without_services_is_not_called() {
    run(async {
        let refused = "can't call the client: it carries no services over this connection";
        let world = World::over_rdma(Config::client(), Config::server(), false);
        world.kv.fail(&9).await.unwrap_err();
        assert_error(&world.mirror.error(), refused, Execution::NotExecuted);
        // In Version One, neither end allows backward calls unless it is configured to.
        let one = |config: Config| Config {
            max_version: Version::One,
            ..config
        };
        let world = World::rdma(one(Config::client()), one(Config::server()));
        world.kv.fail(&9).await.unwrap_err();
        assert_error(&world.mirror.error(), refused, Execution::NotExecuted);

        let mirror = Arc::new(Mirror::default());
        let router = || Router::new().add_service(kv1::serve(mirror.clone()));
        let (channel, runner) = loopback(router());
        tokio::spawn(runner);
        Client::new(channel).fail(&9).await.unwrap_err();
        assert_error(&mirror.error(), refused, Execution::NotExecuted);

        let server = tcp::Server::bind("127.0.0.1:0", router()).await.unwrap();
        let address = server.local_addr().unwrap().to_string();
        tokio::spawn(server.run());
        let channel = tcp::connect(&address).await.unwrap();
        Client::new(channel).fail(&9).await.unwrap_err();
        // TCP has no message by which a client can report that it has no services.
        let text = "the server does not offer the program";
        assert_error(&mirror.error(), text, Execution::NotExecuted);
    });
}

/// In Version One a client cannot announce that it accepts no calls: the server learns it from a
/// rejection.
#[test]
fn a_client_of_version_one_without_services_rejects_the_call() {
    run(async {
        let (client, server) = (first(Config::client()), first(Config::server()));
        let world = World::over_rdma(client, server, false);
        world.kv.fail(&9).await.unwrap_err();
        let error = world.mirror.error();
        assert!(
            error.to_string().contains("the transport failed"),
            "{error}"
        );
        assert_eq!(error.execution(), Execution::Unknown);
    });
}

#[test]
fn failures_of_client_handlers_are_replies() {
    run(async {
        for world in World::all().await {
            world.kv.fail(&0).await.unwrap_err();
            let error = world.mirror.error();
            assert_error(&error, "the server failed", Execution::Unknown);
            world.kv.fail(&2).await.unwrap_err();
            let text = "the server does not offer the procedure";
            assert_error(&world.mirror.error(), text, Execution::NotExecuted);
            assert_eq!(world.kv.fail(&9).await.unwrap(), 9);
        }
    });
}

#[test]
fn a_call_fails_with_its_connection() {
    run(async {
        let world = World::rdma(Config::client(), Config::server());
        let kv = world.kv.clone();
        let call = tokio::spawn(async move { kv.fail(&3).await });
        until(|| world.store.fails.load(Relaxed) == 1).await;
        let channel = world.mirror.channel.lock().unwrap().clone().unwrap();
        let (fabric, _) = world.rdma.as_ref().unwrap();
        fabric.inject(Faults {
            disconnect: u16::MAX,
            ..Faults::default()
        });
        let error = world.kv.fail(&3).await.unwrap_err();
        assert_eq!(error.execution(), Execution::Unknown);
        call.await.unwrap().unwrap_err();
        until(|| world.mirror.ended.load(Relaxed) > 0).await;
        fabric.inject(Faults::default());
        let error = world.mirror.error();
        assert!(
            error.to_string().contains("the connection was lost"),
            "{error}"
        );
        assert_eq!(error.execution(), Execution::Unknown);
        // The channel belongs to the lost connection.
        let error = Client::new(channel).fail(&9).await.unwrap_err();
        assert!(
            error.to_string().contains("the connection was lost"),
            "{error}"
        );
        assert_eq!(error.execution(), Execution::NotExecuted);
        // The client announces its services again over the next connection.
        assert_eq!(world.kv.fail(&9).await.unwrap(), 9);
    });
}

#[test]
fn a_call_ends_at_its_deadline() {
    run(async {
        for world in World::all().await {
            assert_eq!(world.kv.fail(&9).await.unwrap(), 9);
            let channel = world.mirror.channel.lock().unwrap().clone().unwrap();
            let client = Client::new(channel);
            let error = client
                .fail(&3)
                .timeout(Duration::from_millis(50))
                .await
                .unwrap_err();
            assert_error(&error, "not done within 50ms: no reply", Execution::Unknown);
        }
    });
}

#[test]
fn a_cancelled_call_ends() {
    run(async {
        for world in World::all().await {
            // The first reply grants more than one credit.
            assert_eq!(world.kv.fail(&9).await.unwrap(), 9);
            for _ in 0..3 {
                assert_eq!(world.kv.fail(&GIVES_UP).await.unwrap(), 1);
            }
            assert_eq!(world.kv.fail(&9).await.unwrap(), 9);
        }
    });
}

/// A client that does not answer gets as many calls as it has granted credits, and a bounded number
/// of calls waits.
#[test]
fn waiting_calls_are_limited() {
    run(async {
        for (world, max) in [
            (
                World::rdma(Config::client(), Config::server()),
                usize::from(Config::client().max_served),
            ),
            (World::tcp().await, 64),
        ] {
            world.kv.fail(&MANY).await.unwrap_err();
            let text = "can't call the client: too many calls wait for it";
            assert_error(&world.mirror.error(), text, Execution::NotExecuted);
            let served = world.store.fails.load(Relaxed);
            assert!(served <= max, "{served}");
        }
    });
}
