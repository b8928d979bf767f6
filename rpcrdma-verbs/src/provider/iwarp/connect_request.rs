//! A connect request at the listener, with its socket. It is answered once: `accept` of the manager
//! takes `open` and sends the MPA Reply itself, and a request with `open` is rejected by its drop.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rpcrdma_iwarp::MpaRequest;

use super::socket;

/// A request of a peer to connect, over iWARP. Dropping it rejects the connection.
#[derive(Debug)]
pub struct IwarpConnectRequest {
    /// `None` after the answer.
    pub(super) open: Option<(OwnedFd, MpaRequest)>,
    /// The queue pair that was prepared for it.
    pub(super) prepared: OnceLock<u32>,
}

impl IwarpConnectRequest {
    pub(super) const fn new(socket: OwnedFd, request: MpaRequest) -> Self {
        Self {
            open: Some((socket, request)),
            prepared: OnceLock::new(),
        }
    }

    /// Sends the answer, unless it was sent before.
    pub(super) fn answer(&mut self, reply: impl FnOnce(MpaRequest) -> Option<Vec<u8>>) {
        // rfc: 5044-7.1.2-e, 5044-7.1.2-n
        if let Some((socket, request)) = self.open.take() {
            let reply = reply(request).unwrap_or_default();
            // If the rejection cannot be sent, the connection is closed.
            let _ = socket::send(&socket, &[IoSlice::new(&reply)]);
        }
    }
}

impl Drop for IwarpConnectRequest {
    fn drop(&mut self) {
        self.answer(|request| request.reject(&[]).ok());
    }
}
