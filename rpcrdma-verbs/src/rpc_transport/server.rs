//! The server's end: a router that is served on one thread.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;
use std::thread::JoinHandle;

use ::tokio::sync::oneshot;
use oncrpc::{LocalPrograms, Router};

use super::config::ServerConfig;
use super::local_server::LocalServer;
use super::thread::{TransportError, spawn_thread};
use super::waiter::Waiter;
use crate::driver::Driver;
use crate::memory::Budget;
use crate::provider::Device;

/// A server on a thread of its own. When it is dropped, the server drains: it takes no more
/// connections, and answers the calls that it has.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: JoinHandle<Result<(), TransportError>>,
}

impl RunningServer {
    /// Returns the address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Lets the server drain, and waits until it has.
    ///
    /// # Errors
    /// Returns why the server ended earlier.
    pub fn drain(mut self) -> Result<(), TransportError> {
        self.end.take();
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err(std::io::Error::other("the server's thread panicked").into()))
    }
}

/// Serves a router at an address, on a thread of its own, on which `router` makes the router.
///
/// # Errors
/// Fails if the settings are invalid or the address is not available.
pub fn serve<D: Device, P: LocalPrograms>(
    device: &D,
    address: SocketAddr,
    config: ServerConfig,
    router: impl FnOnce() -> Router<P> + Send + 'static,
) -> Result<RunningServer, TransportError> {
    let (end, ended) = oneshot::channel::<()>();
    let (bound, binding) = std::sync::mpsc::channel();
    let device = device.clone();
    let thread = spawn_thread("rpcrdma-server", move || async move {
        let until = async {
            // It ends by being dropped.
            let _ = ended.await;
        };
        let tell = move |address| {
            // The caller waits for it.
            let _ = bound.send(address);
        };
        run_server(&device, address, config, router(), tell, until).await
    })?;
    match binding.recv() {
        Ok(address) => Ok(RunningServer {
            address,
            end: Some(end),
            thread,
        }),
        Err(_) => {
            let ended = thread.join();
            let ended = ended.unwrap_or(Ok(()));
            ended.and(Err(
                std::io::Error::other("the server's thread ended").into()
            ))
        }
    }
}

/// Serves a router at an address until a future ends, and then until the calls that were taken are
/// answered. `bound` gets the address once the server listens.
///
/// # Errors
/// Fails if the settings are invalid, the address is not available, or the driver cannot go on.
pub async fn run_server<D: Device, P: LocalPrograms>(
    device: &D,
    address: SocketAddr,
    config: ServerConfig,
    router: Router<P>,
    bound: impl FnOnce(SocketAddr),
    until: impl Future<Output = ()>,
) -> Result<(), TransportError> {
    let mut driver = Driver::new(device, &Budget::new(config.memory), config.completions)?;
    driver.set_spin(config.spin);
    let mut server = LocalServer::bind(&mut driver, address, config.protocol, router)?;
    server.control(&config.control.unwrap_or_default());
    let waiter = Waiter::new(&driver)?;
    bound(server.local_addr());
    let mut until = pin!(until);
    let mut drains = false;
    loop {
        let mut busy = driver.turn()?;
        busy += poll_fn(|cx| Poll::Ready(server.poll(&mut driver, cx))).await;
        if drains && server.is_drained() {
            return Ok(());
        }
        if driver.looks_for_work(busy) {
            ::tokio::task::yield_now().await;
            continue;
        }
        driver.arm()?;
        if driver.turn()? > 0 {
            continue;
        }
        let timeout = server.timeout(&driver);
        ::tokio::select! {
            () = poll_fn(|cx| match server.poll(&mut driver, cx) {
                0 => Poll::Pending,
                _ => Poll::Ready(()),
            }) => {}
            ready = waiter.wait(timeout) => ready?,
            () = &mut until, if !drains => {
                drains = true;
                server.drain(&mut driver);
            }
        }
        driver.acknowledge()?;
        driver.has_slept();
    }
}
