//! `rpcrdma serve`: a server for `rpcrdma ping` and `rpcrdma bench --connect`, until it is told to end.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::server::Server;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::block::Block;
use crate::ground::{self, Ground, Job};

/// The port of NFS over RDMA (RFC 5667).
pub(crate) const PORT: u16 = 20049;
/// Blocks of memory to be read.
const BLOCKS: usize = 16;

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    ground: ground::Options,
    /// Calls served at once on each connection.
    #[arg(long, default_value_t = 32)]
    depth: u16,
    /// End after so long, where it is given, as after SIGTERM: when the calls that have come are answered.
    #[arg(long)]
    seconds: Option<u64>,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        self.ground.clone().run(ground::Reach::Network, self)
    }
}

impl Job for Options {
    type Done = ();

    fn on<G: Ground>(self, ground: &G) -> Result<(), Box<dyn Error>> {
        let mut driver = ground.driver(&Budget::new(1 << 30), COMPLETIONS)?;
        let block = Block::new(&driver, BLOCKS)?;
        let mut address = ground.address();
        if address.port() == 0 {
            address.set_port(PORT);
        }
        let config = Config { serve: self.depth, ..Config::server() };
        let mut server = Server::bind(&mut driver, address, config, block)?;
        println!("serving at {} on {}", server.address(), driver.device().capabilities().name);
        let (told, began) = (told_to_end()?, Instant::now());
        let (mut served, mut connections, mut ends) = (0, 0, None);
        while ends.is_none() || !server.connections().is_empty() {
            let is_over = self.seconds.is_some_and(|seconds| began.elapsed().as_secs() >= seconds);
            if ends.is_none() && (is_over || told.load(Ordering::Relaxed)) {
                server.drain(&mut driver);
                ends = Some(Instant::now());
            }
            if ends.is_some_and(|since| since.elapsed() >= GRACE) {
                break;
            }
            driver.wait(Duration::from_secs(1))?;
            served += server.serve(&mut driver);
            if connections != server.connections().len() {
                connections = server.connections().len();
                println!("{connections} connections, {served} calls served");
            }
        }
        println!("{served} calls served");
        Ok(())
    }
}

/// What SIGINT and SIGTERM set: a second one ends the process at once.
fn told_to_end() -> io::Result<Arc<AtomicBool>> {
    let told = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 1, told.clone())?;
        flag::register(signal, told.clone())?;
    }
    Ok(told)
}

/// What calls that have come have time for in the end.
const GRACE: Duration = Duration::from_secs(10);
/// Room for the completions of some hundred connections.
const COMPLETIONS: u32 = 1 << 14;
