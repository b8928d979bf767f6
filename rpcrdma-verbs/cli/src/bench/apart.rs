//! The server on a thread of its own, as it is on a machine of its own: it sleeps where it has nothing to do.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rpcrdma_verbs::memory::Budget;

use super::Options;
use super::ends::server;
use crate::ground::Ground;

/// A server that ends when this is dropped.
pub(super) struct Apart {
    /// Where it listens.
    pub(super) address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How late it sees that it is to end.
const PATIENCE: Duration = Duration::from_millis(10);

impl Apart {
    pub(super) fn new(options: &Options, ground: &impl Ground) -> Result<Self, Box<dyn Error>> {
        let ended = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let (options, ground, stop) = (options.clone(), ground.clone(), ended.clone());
        let thread = thread::spawn(move || {
            if let Err(error) = serve(&options, &ground, &tell, &stop) {
                // Where it has begun already its clients see that it is gone.
                let _ = tell.send(Err(error.to_string()));
            }
        });
        Ok(Self { address: told.recv()??, ended, thread: Some(thread) })
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it may have panicked about it has said.
            let _ = thread.join();
        }
    }
}

fn serve(
    options: &Options,
    ground: &impl Ground,
    tell: &Sender<Result<SocketAddr, String>>,
    ended: &AtomicBool,
) -> Result<(), Box<dyn Error>> {
    let (mut driver, mut server) = server(options, ground, &Budget::new(1 << 34))?;
    tell.send(Ok(server.address()))?;
    while !ended.load(Ordering::Relaxed) {
        driver.wait(PATIENCE)?;
        server.serve(&mut driver);
    }
    Ok(())
}
