//! Sessions, slots and the back channel of the NFSv4.1 client, with a server that follows RFC 8881:
//! over TCP, and over RDMA on the software fabric.

mod attributes;
mod chunks;
mod client_ids;
mod compounds;
mod recalls;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use oncrpc::{CallOptions, Channel, Router, loopback, loopback_with_services, tcp};
use rpcrdma_nfs::nfs4::nfs4_program::nfs_v4;
use rpcrdma_nfs::nfs4::owned::{CbSequence4res, NfsCbResop4};
use rpcrdma_nfs::nfs4::{Nfsstat4, ReferringCall4, Stateid4};
use rpcrdma_nfs::nfs4_client::{
    Nfs4Callbacks, Nfs4Client, Nfs4Config, Nfs4Error, Nfs4Fault, Nfs4Open, Nfs4OpenFile,
    Nfs4Recall, Nfs4Session,
};
use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::provider::software::{Fabric, Faults};
use rpcrdma_verbs::{ClientConfig, RunningServer, ServerConfig, connect_with_services, serve};
use server::{SLOTS, Server, Trick};

/// A server, its client, and the transport between them.
struct World {
    server: Server,
    callbacks: Nfs4Callbacks,
    nfs: Nfs4Client<Channel>,
    rdma: Option<(Arc<Fabric>, RunningServer)>,
    /// The name of the server's metrics.
    name: String,
}

static WORLDS: AtomicU32 = AtomicU32::new(0);

/// The transport of the calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Carrier {
    Loopback,
    Tcp,
    VersionOne,
    VersionTwo,
    WithRtr,
}

const ALL: [Carrier; 5] = [
    Carrier::Loopback,
    Carrier::Tcp,
    Carrier::VersionOne,
    Carrier::VersionTwo,
    Carrier::WithRtr,
];

const RDMA: [Carrier; 3] = [Carrier::VersionOne, Carrier::VersionTwo, Carrier::WithRtr];

impl Carrier {
    fn protocol(self, config: Config) -> Config {
        match self {
            Self::VersionOne => Config {
                max_version: Version::One,
                backward_v1: true,
                ..config
            },
            Self::WithRtr => config.with_rtr(RtrExtConfig::ALL),
            _ => config,
        }
    }

    async fn world(self, slots: u32) -> World {
        let server = Server::default();
        let callbacks = Nfs4Callbacks::new();
        let (router, services) = (
            Router::new().add_service(nfs_v4::serve(server.clone())),
            callbacks.router(),
        );
        let name = format!("world-{}", WORLDS.fetch_add(1, Relaxed));
        let mut rdma = None;
        let channel = match self {
            Self::Loopback => {
                let (channel, runner) = loopback_with_services(router, services);
                tokio::spawn(runner);
                channel
            }
            Self::Tcp => {
                let listener = tcp::Server::bind("127.0.0.1:0", router).await.unwrap();
                let address = listener.local_addr().unwrap().to_string();
                tokio::spawn(listener.run());
                let config = tcp::ClientConfig::new();
                tcp::connect_with_services(&address, config, services)
                    .await
                    .unwrap()
            }
            _ => {
                let fabric = Fabric::new();
                let address = "127.0.0.1:0".parse().unwrap();
                let config = ServerConfig::new().protocol(self.protocol(Config::server()));
                let config = config.publish_metrics(&name);
                let running = serve(&fabric.device(), address, config, move || router).unwrap();
                let address = running.local_addr();
                let device = fabric.device();
                rdma = Some((fabric, running));
                let config = ClientConfig::new().protocol(self.protocol(Config::client()));
                connect_with_services(&device, address, config, services).unwrap()
            }
        };
        let config = Nfs4Config::new("tester", [1; 8]).slots(slots);
        let options = CallOptions::DEFAULT.timeout(Duration::from_secs(20));
        let session = Nfs4Session::new(channel, options, &config, &callbacks);
        let nfs = Nfs4Client::new(session.await.unwrap()).await.unwrap();
        World {
            server,
            callbacks,
            nfs,
            rdma,
            name,
        }
    }
}

fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let limit = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(limit, test).await.expect("hangs") });
}

impl World {
    /// Returns a client with another client ID, on the same connection.
    async fn another_client(&self) -> Nfs4Client<Channel> {
        self.client("another", [2; 8]).await
    }

    /// Returns a client with another session, on the same connection.
    async fn client(&self, owner: &str, verifier: [u8; 8]) -> Nfs4Client<Channel> {
        let channel = self.nfs.session().stubs().transport().clone();
        let config = Nfs4Config::new(owner, verifier).slots(4);
        let session = Nfs4Session::new(channel, CallOptions::DEFAULT, &config, &self.callbacks);
        Nfs4Client::new(session.await.unwrap()).await.unwrap()
    }

    async fn delegated(&self, name: &str) -> Nfs4OpenFile {
        self.server.add_file(name, b"content");
        let root = self.nfs.root();
        let file = self.nfs.open(root, name.as_bytes(), Nfs4Open::READ).await;
        let file = file.unwrap();
        assert!(file.delegation.is_some() && self.server.is_delegated(name));
        file
    }

    /// Recalls a delegation, and waits for the client to return it.
    async fn recall(&self, name: &str, file: &Nfs4OpenFile) {
        let reply = self.server.call_back(&self.server.recall_of(name)).await;
        assert_eq!(reply.unwrap().status, Nfsstat4::Ok);
        let Nfs4Recall::Delegation {
            stateid, handle, ..
        } = self.callbacks.next_recall().await
        else {
            panic!("another recall")
        };
        assert_eq!(handle, file.handle);
        assert_eq!(stateid, file.delegation.unwrap().stateid);
        self.nfs.return_delegation(&handle, stateid).await.unwrap();
        assert!(!self.server.is_delegated(name));
    }

    /// Waits until a work request of the calls in flight has cut the connection. Each seed draws
    /// other work requests.
    async fn cut(&self, seed: u64, disconnect: u16) {
        let (fabric, _) = self.rdma.as_ref().unwrap();
        let before = fabric.injected().disconnects;
        self.faults(Faults {
            seed,
            disconnect,
            ..Faults::default()
        });
        while fabric.injected().disconnects == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.faults(Faults::default());
        tokio::time::sleep(Duration::from_millis(3)).await;
    }

    fn faults(&self, faults: Faults) {
        let (fabric, _) = self.rdma.as_ref().unwrap();
        fabric.inject(faults);
    }
}

#[test]
fn no_call_transfers_more_than_the_maximum_of_the_configuration() {
    run(async {
        let world = Carrier::Loopback.world(16).await;
        let channel = world.nfs.session().stubs().transport().clone();
        let config = Nfs4Config::new("small", [3; 8]).max_transfer(8192);
        let options = CallOptions::DEFAULT;
        let session = Nfs4Session::new(channel, options, &config, &world.callbacks);
        let nfs = Nfs4Client::new(session.await.unwrap()).await.unwrap();
        assert_eq!((nfs.max_read(), nfs.max_write()), (8192, 8192));
    });
}

#[test]
fn files_are_written_and_read() {
    run(async {
        for carrier in ALL {
            let World {
                server,
                nfs,
                rdma: _running,
                ..
            } = carrier.world(16).await;
            assert_eq!(nfs.session().limits().slots, SLOTS);
            assert!(nfs.max_read() < 100_000);
            let file = nfs.open(nfs.root(), b"file", Nfs4Open::create(0o600));
            let file = file.await.unwrap();
            let again = nfs.open(nfs.root(), b"file", Nfs4Open::create(0o600)).await;
            assert_eq!(again.unwrap_err().status(), Some(Nfsstat4::Exist));
            let data: Vec<u8> = (0..=250).cycle().take(250_001).collect();
            nfs.write_all(&file.handle, file.stateid, 3, &data[..])
                .await
                .unwrap();
            let content = server.file("file").unwrap();
            assert!(content[..3] == [0; 3] && content[3..] == data);
            let mut into = vec![0; 300_000];
            let read = nfs.read_into(&file.handle, file.stateid, 3, &mut into);
            assert_eq!(read.await.unwrap(), data.len(), "{carrier:?}");
            assert!(into[..data.len()] == data);
            let found = nfs.lookup(nfs.root(), b"file").await.unwrap();
            assert_eq!(found.1.size, Some(data.len() as u64 + 3));
            nfs.close(&file).await.unwrap();
            nfs.remove(nfs.root(), b"file").await.unwrap();
            assert!(server.file("file").is_none());
            nfs.into_session().destroy().await.unwrap();
        }
    });
}

const NOBODY: Stateid4 = Stateid4 {
    seqid: 0,
    other: [0; 12],
};

#[test]
fn a_delegation_is_recalled_over_the_same_connection() {
    run(async {
        for carrier in ALL {
            let world = carrier.world(4).await;
            for name in ["one", "two"] {
                let file = world.delegated(name).await;
                let open = async || {
                    let name = name.as_bytes();
                    world
                        .nfs
                        .open(world.nfs.root(), name, Nfs4Open::WRITE)
                        .await
                };
                assert!(open().await.unwrap_err().is_temporary());
                world.recall(name, &file).await;
                world.nfs.close(&open().await.unwrap()).await.unwrap();
                world.nfs.close(&file).await.unwrap();
            }
        }
    });
}

/// Nobody else could close it, and a recall of its delegation would be refused.
#[test]
fn a_file_without_handle_or_attributes_is_closed_again() {
    run(async {
        let world = Carrier::Loopback.world(4).await;
        let (nfs, server) = (&world.nfs, &world.server);
        server.add_file("file", b"content");
        let open = || nfs.open(nfs.root(), b"file", Nfs4Open::READ);
        for (trick, status) in [
            (Trick::FailsGetfh, Some(Nfsstat4::Delay)),
            (Trick::FailsGetattr, Some(Nfsstat4::Delay)),
            (Trick::OtherAttributes, None),
        ] {
            server.play(trick);
            assert_eq!(open().await.unwrap_err().status(), status, "{trick:?}");
            let left = (server.opens(), server.is_delegated("file"));
            assert_eq!(left, (0, false), "{trick:?}");
        }
        let file = open().await.unwrap();
        assert!(file.delegation.is_some());
        nfs.close(&file).await.unwrap();
        assert_eq!(server.opens(), 0);
    });
}

/// RFC 8881, section 18.16.3: a server takes two opens of one owner for one, which the first CLOSE
/// ends.
#[test]
fn opens_of_two_sessions_of_a_client_are_closed_independently() {
    run(async {
        let world = Carrier::Loopback.world(4).await;
        let other = world.client("tester", [1; 8]).await;
        let (nfs, server) = (&world.nfs, &world.server);
        assert_eq!(nfs.session().client_id(), other.session().client_id());
        server.add_file("file", b"content");
        let open = async |nfs: &Nfs4Client<_>| {
            let file = nfs.open(nfs.root(), b"file", Nfs4Open::READ).await;
            file.unwrap()
        };
        let (first, second) = (open(nfs).await, open(&other).await);
        assert_ne!(first.stateid.other, second.stateid.other);
        nfs.close(&first).await.unwrap();
        assert_eq!(server.opens(), 1);
        other.close(&second).await.unwrap();
        assert_eq!(server.opens(), 0);
    });
}

/// Without its service, the server must not be asked to call back: it would grant delegations that
/// it cannot recall.
#[test]
fn a_session_without_a_callback_service_has_no_back_channel() {
    run(async {
        let server = Server::default();
        let services = Router::new().add_service(nfs_v4::serve(server.clone()));
        let (channel, runner) = loopback(services);
        tokio::spawn(runner);
        let config = Nfs4Config::new("tester", [1; 8]);
        let callbacks = Nfs4Callbacks::new();
        let session = Nfs4Session::new(channel, CallOptions::DEFAULT, &config, &callbacks);
        let session = session.await.unwrap();
        assert!(!server.calls_back());
        session.bind().await.unwrap();
        assert_eq!((server.calls_back(), session.binds()), (false, 1));
        session.renew().await.unwrap();
    });
}

/// RFC 8881, section 20.9.3.
#[test]
fn the_back_channel_executes_a_call_once() {
    run(async {
        let world = Carrier::VersionTwo.world(4).await;
        let file = world.delegated("file").await;
        let call = world.server.recall_of("file");
        let first = world.server.call_back(&call).await.unwrap();
        assert_eq!((first.status, &first.tag[..]), (Nfsstat4::Ok, &b"tag"[..]));
        let again = world.server.call_back(&call).await.unwrap();
        assert_eq!(again, first);
        world.callbacks.next_recall().await;
        let more = tokio::time::timeout(Duration::from_millis(20), world.callbacks.next_recall());
        assert!(more.await.is_err(), "it was recalled twice");

        let refuse = async |status, change: &dyn Fn(&mut server::Callback)| {
            let mut call = world.server.recall_of("file");
            change(&mut call);
            let reply = world.server.call_back(&call).await.unwrap();
            assert_eq!(reply.status, status);
            reply
        };
        refuse(Nfsstat4::SeqMisordered, &|call| call.sequence += 1).await;
        refuse(Nfsstat4::SeqMisordered, &|call| call.sequence = 0).await;
        refuse(Nfsstat4::Badslot, &|call| call.slot = 1000).await;
        refuse(Nfsstat4::Badsession, &|call| call.session = [9; 16]).await;
        refuse(Nfsstat4::OpNotInSession, &|call| call.has_sequence = false).await;
        refuse(Nfsstat4::MinorVersMismatch, &|call| call.minor_version = 0).await;
        refuse(Nfsstat4::BadStateid, &|call| call.recall.0.other = [9; 12]).await;
        let other = refuse(Nfsstat4::BadStateid, &|call| call.recall.1 = b"x".to_vec()).await;
        assert_eq!(other.resarray.len(), 2);
        assert!(matches!(other.resarray[1], NfsCbResop4::Recall(_)));
        // A recall that lasts until the delegation is returned.
        let reply = refuse(Nfsstat4::Ok, &|_| {}).await;
        assert_eq!(reply.resarray.len(), 2);
        let held = file.delegation.unwrap().stateid;
        let returned = world.nfs.return_delegation(&file.handle, held);
        returned.await.unwrap();
    });
}

/// RFC 8881, section 2.10.6.1.3.1. A server that has lost a reply may use its number for another
/// recall, as Linux does: this is not taken for a retransmission, so that the recall is not lost.
#[test]
fn a_false_retry_of_the_server_is_delayed() {
    run(async {
        let world = Carrier::VersionTwo.world(4).await;
        for name in ["one", "two"] {
            world.delegated(name).await;
        }
        let first = world.server.recall_of("one");
        let reply = world.server.call_back(&first).await.unwrap();
        world.callbacks.next_recall().await;
        let mut second = world.server.recall_of("two");
        second.sequence = first.sequence;
        let delayed = world.server.call_back(&second).await.unwrap();
        assert_eq!(delayed.status, Nfsstat4::Delay);
        let [NfsCbResop4::Sequence(sequence), NfsCbResop4::Recall(recall)] = &delayed.resarray[..]
        else {
            panic!("{delayed:?}")
        };
        assert!(matches!(sequence, CbSequence4res::Ok(ok) if ok.csr_sequenceid == first.sequence));
        assert_eq!(recall.status, Nfsstat4::Delay);
        // The slot is unchanged.
        assert_eq!(world.server.call_back(&first).await.unwrap(), reply);
        second.sequence += 1;
        let reply = world.server.call_back(&second).await.unwrap();
        assert_eq!(reply.status, Nfsstat4::Ok);
        let recalled = world.callbacks.next_recall().await;
        assert!(
            matches!(recalled, Nfs4Recall::Delegation { stateid, .. } if stateid == second.recall.0)
        );
    });
}

/// RFC 8881, section 2.10.6.3: the reply to the call that this one refers to has not arrived.
#[test]
fn a_callback_waits_for_referred_replies() {
    run(async {
        let world = Carrier::Tcp.world(1).await;
        world.delegated("file").await;
        let mut call = world.server.recall_of("file");
        // The only slot of the session is in use, with a number that the client does not know.
        world.server.play(Trick::LoseReply);
        let root = world.nfs.root().clone();
        let waiting = world.nfs.attributes(&root);
        let calls_back = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            call.refers_to = (1..20)
                .map(|rc_sequenceid| ReferringCall4 {
                    rc_sequenceid,
                    rc_slotid: 0,
                })
                .collect();
            let early = world.server.call_back(&call).await.unwrap();
            assert_eq!(early.status, Nfsstat4::Delay);
            // The other replies have arrived.
            call.refers_to.truncate(2);
            let reply = world.server.call_back(&call).await.unwrap();
            assert_eq!(reply.status, Nfsstat4::Ok);
        };
        tokio::select! {
            _ = waiting => panic!("a reply came"),
            () = calls_back => {}
        }
    });
}

#[test]
fn a_slot_with_a_lost_reply_is_resolved() {
    run(async {
        for carrier in ALL {
            let world = carrier.world(1).await;
            let root = world.nfs.root().clone();
            world.server.add_file("file", b"");
            // One request was executed, and one was not sent completely.
            world.server.play(Trick::LoseReply);
            tokio::select! {
                removed = world.nfs.remove(&root, b"file") => {
                    assert!(removed.is_err(), "{carrier:?}");
                }
                () = world.server.played() => {}
            }
            let gone = world.nfs.remove(&root, b"file").await.unwrap_err();
            assert_eq!(gone.status(), Some(Nfsstat4::Noent), "{carrier:?}");
            let dropped = world.nfs.attributes(&root);
            let _ = tokio::time::timeout(Duration::ZERO, dropped).await;
            for _ in 0..5 {
                world.nfs.attributes(&root).await.unwrap();
            }
            assert_eq!(world.server.most_executions(), 1);
        }
    });
}

/// RFC 8881, section 15.1.1.3: NFS4ERR_DELAY of SEQUENCE belongs to the slot and its number, which
/// no other request may use.
#[test]
fn a_slot_in_execution_is_not_used_for_another_request() {
    run(async {
        let world = Carrier::Tcp.world(1).await;
        let root = world.nfs.root().clone();
        for name in ["first", "second"] {
            world.server.add_file(name, b"");
        }
        world.server.play(Trick::Executing);
        let error = world.nfs.remove(&root, b"first").await.unwrap_err();
        assert_eq!(error.status(), Some(Nfsstat4::Delay));
        assert!(!error.is_temporary(), "it may be executed");
        // The server still executes it, and the next request of the slot is not sent.
        world.server.play(Trick::Executing);
        let error = world.nfs.remove(&root, b"second").await.unwrap_err();
        assert!(matches!(error, Nfs4Error::NotSent(_)), "{error}");
        assert!(error.is_temporary(), "{error}");
        world.nfs.remove(&root, b"second").await.unwrap();
        for name in ["first", "second"] {
            let gone = world.nfs.lookup(&root, name.as_bytes()).await.unwrap_err();
            assert_eq!(gone.status(), Some(Nfsstat4::Noent), "{name}");
        }
        assert_eq!(world.server.most_executions(), 1);
    });
}

#[test]
fn an_uncached_reply_is_requested_again() {
    run(async {
        let world = Carrier::VersionTwo.world(2).await;
        world.server.add_file("file", b"content");
        let (file, _) = world.nfs.lookup(world.nfs.root(), b"file").await.unwrap();
        world.server.play(Trick::Uncached);
        let part = world.nfs.read(&file, NOBODY, 0, 100).await.unwrap();
        assert_eq!(part.data.as_bytes(), b"content");
        // A request that must not be executed twice is not repeated.
        world.server.play(Trick::Uncached);
        let root = world.nfs.root().clone();
        let error = world.nfs.remove(&root, b"file").await.unwrap_err();
        assert_eq!(error.status(), Some(Nfsstat4::RetryUncachedRep));
        assert_eq!(world.server.most_executions(), 1);
    });
}

/// Guarded creations and removals run until their connection has been cut several times: each of
/// them is executed once.
#[test]
fn slots_survive_lost_connections() {
    for carrier in RDMA {
        run(async {
            let world = carrier.world(SLOTS).await;
            let (nfs, root) = (&world.nfs, world.nfs.root().clone());
            let is_cut = AtomicBool::new(false);
            let work = async |task: u32| {
                for number in 0.. {
                    if is_cut.load(Relaxed) {
                        break;
                    }
                    let name = format!("{task}-{number}");
                    let name = name.as_bytes();
                    let file = nfs.open(&root, name, Nfs4Open::create(0o600)).await;
                    let file = file.unwrap_or_else(|error| panic!("{task} {number}: {error}"));
                    nfs.write_all(&file.handle, file.stateid, 0, &[7; 5000])
                        .await
                        .unwrap();
                    nfs.close(&file).await.unwrap();
                    nfs.remove(&root, name).await.unwrap();
                }
            };
            let work = async { tokio::join!(work(0), work(1), work(2), work(3), work(4)) };
            tokio::join!(work, async {
                for seed in 0..CUTS {
                    world.cut(seed, 4000).await;
                }
                is_cut.store(true, Relaxed);
            });
            nfs.session().renew().await.unwrap();
            assert_eq!(world.server.most_executions(), 1);
            assert!(nfs.session().binds() > 0, "{carrier:?}");
            println!(
                "{carrier:?}: {} replies came from slots, {} connections were bound again",
                world.server.replays(),
                nfs.session().binds()
            );
        });
    }
}

/// How often a test cuts a connection that is in use.
const CUTS: u64 = 5;

#[test]
fn the_back_channel_is_restored_over_another_connection() {
    run(async {
        for carrier in RDMA {
            let world = carrier.world(4).await;
            let file = world.delegated("before").await;
            for round in 1..=3 {
                let cut = world.cut(round.into(), u16::MAX);
                let ((), renewed) = tokio::join!(cut, world.nfs.session().renew());
                renewed.unwrap();
                world.nfs.session().renew().await.unwrap();
                assert!(world.nfs.session().binds() >= round, "{carrier:?}");
                let name = format!("after-{round}");
                let file = world.delegated(&name).await;
                world.recall(&name, &file).await;
            }
            world.recall("before", &file).await;
        }
    });
}

#[test]
fn contradictory_replies_are_faults() {
    run(async {
        let world = Carrier::Tcp.world(1).await;
        world.server.add_file("file", b"content");
        let (file, _) = world.nfs.lookup(world.nfs.root(), b"file").await.unwrap();
        for (trick, expected) in [
            (Trick::OtherSlot, Nfs4Fault::Slot),
            (Trick::FewerResults, Nfs4Fault::Results),
            (Trick::OtherResults, Nfs4Fault::Results),
            (Trick::MoreData, Nfs4Fault::Count),
        ] {
            world.server.play(trick);
            let error = world.nfs.read(&file, NOBODY, 0, 7).await.unwrap_err();
            let Nfs4Error::Protocol { fault, .. } = error else {
                panic!("{trick:?}: {error}")
            };
            assert_eq!(fault, expected, "{trick:?}");
            // The session continues.
            let part = world.nfs.read(&file, NOBODY, 0, 7).await.unwrap();
            assert_eq!(part.data.as_bytes(), b"content");
        }
    });
}

/// The server has executed the COMPOUND: with the same number, the next one would get its results.
#[test]
fn a_slot_is_in_doubt_after_a_reply_without_sequence() {
    run(async {
        let world = Carrier::Tcp.world(1).await;
        let root = world.nfs.root().clone();
        for name in ["first", "second"] {
            world.server.add_file(name, b"");
        }
        world.server.play(Trick::NoResults);
        let error = world.nfs.remove(&root, b"first").await.unwrap_err();
        assert!(matches!(error, Nfs4Error::Protocol { .. }), "{error}");
        world.nfs.remove(&root, b"second").await.unwrap();
        assert_eq!(world.server.file("second"), None);
    });
}

#[test]
fn a_lost_session_is_an_error() {
    run(async {
        let world = Carrier::Loopback.world(4).await;
        let (id, stubs) = (world.nfs.session().id(), world.nfs.session().stubs());
        use rpcrdma_nfs::nfs4::{Compound4args, DestroySession4args, NfsArgop4};
        let operation = [NfsArgop4::DestroySession(DestroySession4args {
            dsa_sessionid: id,
        })];
        let args = Compound4args {
            tag: b"",
            minorversion: 1,
            argarray: (&operation).into(),
        };
        assert_eq!(stubs.compound(&args).await.unwrap().status, Nfsstat4::Ok);
        let error = world.nfs.session().renew().await.unwrap_err();
        assert!(error.is_session_lost(), "{error}");
    });
}
