//! Who a client is, and what it asks of a session.

use std::sync::Arc;

/// Who a client is, and what it asks of a session.
///
/// ```
/// use rpcrdma_nfs::nfs4_client::Nfs4Config;
///
/// // The verifier is another one each time that the program starts, such as its start time.
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
    /// Creates the settings of a client with this name and verifier (RFC 8881, section 2.4). A client
    /// with the same name and another verifier is the same client, which has restarted: the server
    /// discards the state of the earlier one. A name has at most 1024 bytes; EXCHANGE_ID of a longer
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

    /// Sets how many COMPOUNDs may be in flight; 16 by default. The server may allow fewer.
    #[must_use]
    pub fn slots(self, slots: u32) -> Self {
        Self {
            slots: slots.clamp(1, 1024),
            ..self
        }
    }

    /// Sets the most bytes that one COMPOUND transfers; 1 MiB by default. The server may allow fewer.
    #[must_use]
    pub fn max_transfer(self, bytes: u32) -> Self {
        Self {
            max_transfer: bytes.clamp(1, 1 << 30),
            ..self
        }
    }

    /// Sets the minor version: 1, the default, or 2.
    #[must_use]
    pub fn minor_version(self, version: u32) -> Self {
        Self {
            minor_version: version,
            ..self
        }
    }
}
