//! The identity of a client, and the session parameters that it requests.

use std::sync::Arc;

/// The identity of a client, and the session parameters that it requests.
///
/// ```
/// use rpcrdma_nfs::nfs4_client::Nfs4Config;
///
/// // The verifier changes each time that the program starts: for example, its start time.
/// let config = Nfs4Config::new("host-7 backup", [0, 0, 0, 0, 0, 0, 0, 42]).slots(4);
/// # let _ = config;
/// ```
#[derive(Clone, Debug)]
pub struct Nfs4Config {
    pub(super) owner: Arc<[u8]>,
    pub(super) verifier: [u8; 8],
    pub(super) slots: u32,
    pub(super) max_transfer: u32,
    pub(super) minor_version: u32,
}

impl Nfs4Config {
    /// Creates the configuration of a client with this name and verifier (RFC 8881, section 2.4). A
    /// client with the same name and another verifier is the same client after a restart: the
    /// server discards its earlier state. A name has at most 1024 bytes; EXCHANGE_ID of a longer
    /// one fails.
    pub fn new(owner: impl AsRef<[u8]>, verifier: [u8; 8]) -> Self {
        Self {
            owner: owner.as_ref().into(),
            verifier,
            slots: 16,
            max_transfer: 1 << 20,
            minor_version: 1,
        }
    }

    /// Sets how many COMPOUNDs can be in flight (default 16). The server can allow fewer.
    #[must_use]
    pub fn slots(self, slots: u32) -> Self {
        Self {
            slots: slots.clamp(1, 1024),
            ..self
        }
    }

    /// Sets the maximum bytes that one COMPOUND transfers (default 1 MiB). The server can allow
    /// fewer.
    #[must_use]
    pub fn max_transfer(self, bytes: u32) -> Self {
        Self {
            max_transfer: bytes.clamp(1, 1 << 30),
            ..self
        }
    }

    /// Sets the minor version: 1 (the default) or 2.
    #[must_use]
    pub fn minor_version(self, version: u32) -> Self {
        Self {
            minor_version: version,
            ..self
        }
    }
}
