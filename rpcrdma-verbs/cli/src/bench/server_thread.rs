//! The server of `--apart`, on its own thread as on a separate host. It sleeps when it has nothing
//! to do, so that it does not disturb the reference, which is measured in between.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rpcrdma_verbs::memory::Budget;

use super::Options;
use super::clients::server;
use crate::device_source::DeviceSource;

/// A server that ends when this handle is dropped.
pub(super) struct ServerThread {
    /// The address that it listens on.
    pub(super) address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The maximum delay until the server notices that it must end.
const PATIENCE: Duration = Duration::from_millis(10);

impl ServerThread {
    pub(super) fn new(options: &Options, source: &DeviceSource) -> Result<Self, Box<dyn Error>> {
        let ended = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let (options, source, stop) = (options.clone(), source.clone(), ended.clone());
        let thread = thread::spawn(move || {
            if let Err(error) = serve(&options, &source, &tell, &stop) {
                // If the server has already started, nobody receives this, and the clients notice
                // that it is gone.
                let _ = tell.send(Err(error.to_string()));
            }
        });
        Ok(Self {
            address: told.recv()??,
            ended,
            thread: Some(thread),
        })
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has already printed its message.
            let _ = thread.join();
        }
    }
}

fn serve(
    options: &Options,
    source: &DeviceSource,
    tell: &Sender<Result<SocketAddr, String>>,
    ended: &AtomicBool,
) -> Result<(), Box<dyn Error>> {
    // The budget is that of each end on one thread.
    let (mut driver, mut server) = server(options, source, &Budget::new(1 << 34))?;
    tell.send(Ok(server.local_addr()))?;
    while !ended.load(Ordering::Relaxed) {
        driver.wait(PATIENCE)?;
        server.serve(&mut driver);
    }
    Ok(())
}
