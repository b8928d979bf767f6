//! The settings for Version One that two ends exchange when they connect, in the private data of
//! the connection manager (RFC 8797).
//!
//! ```
//! use rpcrdma_proto::private_data::PrivateData;
//!
//! // A client that sends up to 4096 bytes and receives up to 8192, and a server with the defaults.
//! let client = PrivateData::from_sizes(4096, 8192);
//! let server = PrivateData::parse(b"not of RFC 8797");
//! assert_eq!(server, PrivateData::DEFAULT);
//! assert_eq!((client.threshold_to(&server), server.threshold_to(&client)), (1024, 1024));
//! ```

/// The settings of one end.
///
/// ```
/// use rpcrdma_proto::private_data::PrivateData;
///
/// let ours = PrivateData::from_sizes(4096, 8192).with_remote_invalidation(true);
/// assert_eq!(ours.encode(), [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 7]);
///
/// // The connection manager may have put something before, and zeros behind.
/// let theirs = PrivateData::parse(b"mpa\xf6\xab\x0e\x18\x01\x00\x00\x01\0\0\0\0");
/// assert_eq!(theirs, PrivateData::from_sizes(1024, 2048));
/// // We send no more than they take.
/// assert_eq!(ours.threshold_to(&theirs), 2048);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrivateData {
    /// Whether this end supports remote invalidation (section 4.1).
    remote_invalidation: bool,
    /// The maximum size of one Send of this end, in KiB beyond the first.
    send: u8,
    /// The maximum size of one receive of this end, in KiB beyond the first.
    receive: u8,
}

/// The Format Identifier (section 4).
const IDENTIFIER: [u8; 4] = 0xf6ab_0e18_u32.to_be_bytes();
/// The only defined format.
const VERSION: u8 = 1;

impl PrivateData {
    /// The settings of a peer that sends none (section 5.1): 1024 bytes each way, and no remote
    /// invalidation.
    pub const DEFAULT: Self = Self {
        remote_invalidation: false,
        send: 0,
        receive: 0,
    };

    /// Creates settings with these sizes in bytes. Each is rounded down to a multiple of 1024, and
    /// limited to 1024 to 262,144. Version One allows no receive buffer under 1024 bytes.
    #[must_use]
    pub fn from_sizes(send: u32, receive: u32) -> Self {
        Self {
            remote_invalidation: false,
            send: encoded(send),
            receive: encoded(receive),
        }
    }

    /// Returns the same settings with this support for remote invalidation (section 4.1).
    #[must_use]
    pub const fn with_remote_invalidation(self, remote_invalidation: bool) -> Self {
        Self {
            remote_invalidation,
            ..self
        }
    }

    /// Returns the maximum number of bytes that this end sends in one Send.
    #[must_use]
    pub const fn send_size(&self) -> u32 {
        decoded(self.send)
    }

    /// Returns the maximum number of bytes that this end takes in one Receive.
    #[must_use]
    pub const fn receive_size(&self) -> u32 {
        decoded(self.receive)
    }

    /// Returns the inline threshold from this end to its peer, in bytes (section 4.2).
    #[must_use]
    pub fn threshold_to(&self, peer: &Self) -> u32 {
        self.send_size().min(peer.receive_size())
    }

    /// Returns whether a responder may use Send With Invalidate: both ends must have announced
    /// support (section 4.1).
    #[must_use]
    pub const fn invalidates_with(&self, peer: &Self) -> bool {
        self.remote_invalidation && peer.remote_invalidation
    }

    /// Returns the bytes to exchange.
    #[must_use]
    pub fn encode(&self) -> [u8; 8] {
        let [a, b, c, d] = IDENTIFIER;
        [
            a,
            b,
            c,
            d,
            VERSION,
            u8::from(self.remote_invalidation),
            self.send,
            self.receive,
        ]
    }

    /// Finds the settings in the private data of a connection, at any offset (section 5.2). Returns
    /// the default if there are none.
    // spec: rfc8166-3.3.3-c
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let candidates = bytes
            .windows(8)
            .filter(|window| window.starts_with(&IDENTIFIER));
        let mut valid = candidates.filter_map(|window| match window {
            [_, _, _, _, VERSION, flags, send, receive] => Some(Self {
                remote_invalidation: flags & 1 == 1,
                send: *send,
                receive: *receive,
            }),
            _ => None,
        });
        valid.next().unwrap_or(Self::DEFAULT)
    }
}

impl Default for PrivateData {
    fn default() -> Self {
        Self::DEFAULT
    }
}

fn encoded(bytes: u32) -> u8 {
    u8::try_from((bytes / 1024).saturating_sub(1)).unwrap_or(u8::MAX)
}

const fn decoded(size: u8) -> u32 {
    (size as u32 + 1) * 1024
}

#[cfg(test)]
mod tests;
