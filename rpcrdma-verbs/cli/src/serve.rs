//! `rpcrdma serve`: a server for `rpcrdma ping` and `rpcrdma bench --connect`.

use std::error::Error;
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::server::Server;

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
    /// End after so long, where it is given.
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
        let began = Instant::now();
        let (mut served, mut connections) = (0, 0);
        while self.seconds.is_none_or(|seconds| began.elapsed().as_secs() < seconds) {
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

/// Room for the completions of some hundred connections.
const COMPLETIONS: u32 = 1 << 14;
