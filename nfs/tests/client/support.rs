//! A server, and a client of it over each transport.
#![allow(unreachable_pub, reason = "the modules of a test share it")]

use std::time::Duration;

use oncrpc::tcp::{Server, connect};
use oncrpc::{AuthSys, CallOptions, Channel, loopback};
use rpcrdma_nfs::client::{Client, TransferLimits, mount};
use rpcrdma_nfs::nfs3::{Createhow3, Sattr3, SetMode3};
use rpcrdma_nfs::{FileHandle, FileSystem, Object, router};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, RunningServer, ServerConfig, serve};

use crate::backends::{Expected, Offer, Work, on_memory};

pub type Nfs = Client<Channel>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Carrier {
    Loopback,
    Tcp,
    Rdma,
}

struct Test<T> {
    test: T,
    carrier: Carrier,
    limits: TransferLimits,
}

pub fn options() -> CallOptions {
    CallOptions::DEFAULT.credentials(AuthSys::new("tester"))
}

impl<T: AsyncFn(&Nfs)> Work for Test<&T> {
    type Output = ();

    fn on<F: FileSystem>(&self, file_system: F, _: Expected) {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        let services = router(Offer::OPEN.export(file_system));
        let mut rdma: Option<RunningServer> = None;
        let run = async {
            let channel = match self.carrier {
                Carrier::Loopback => {
                    let (channel, runner) = loopback(services);
                    tokio::spawn(runner);
                    channel
                }
                Carrier::Tcp => {
                    let server = Server::bind("127.0.0.1:0", services).await.unwrap();
                    let address = server.local_addr().unwrap().to_string();
                    tokio::spawn(server.run());
                    connect(&address).await.unwrap()
                }
                Carrier::Rdma => {
                    let (fabric, any) = (Fabric::new(), "127.0.0.1:0".parse().unwrap());
                    let config = ServerConfig::new();
                    let server = serve(&fabric.device(), any, config, move || services).unwrap();
                    let address = server.local_addr();
                    rdma = Some(server);
                    let config = ClientConfig::new();
                    rpcrdma_verbs::connect(&fabric.device(), address, config).unwrap()
                }
            };
            let root = mount(&channel, &options(), "/").await.unwrap();
            let client = Client::with_limits(channel, options(), root, self.limits);
            (self.test)(&client.await.unwrap()).await;
        };
        let limit = Duration::from_secs(60);
        runtime.block_on(async { tokio::time::timeout(limit, run).await.expect("hangs") });
    }
}

/// Runs a test with each file system over each transport, with a new file system each time.
pub fn everywhere(limits: TransferLimits, test: impl AsyncFn(&Nfs)) {
    for carrier in [Carrier::Loopback, Carrier::Tcp, Carrier::Rdma] {
        let test = Test {
            test: &test,
            carrier,
            limits,
        };
        on_memory(&test, 0o777);
        #[cfg(all(feature = "host", target_os = "linux"))]
        crate::backends::host::on_host(&test, 0o777, carrier != Carrier::Tcp);
    }
}

pub fn mode(bits: u32) -> Sattr3 {
    Sattr3 {
        mode: SetMode3::True(bits),
        ..Sattr3::UNSET
    }
}

pub async fn file(nfs: &Nfs, dir: &FileHandle, name: &str) -> Object {
    let how = Createhow3::Guarded(mode(0o644));
    nfs.create(dir, name, &how).await.unwrap()
}

/// Bytes that differ from their neighbours.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..=250).cycle().take(len).collect();
    for byte in &mut bytes {
        *byte = byte.wrapping_add(seed);
    }
    bytes
}
