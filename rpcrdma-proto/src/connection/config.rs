//! The configuration of a session: its settings, their defaults and their check.
//!
//! The fields are public. `Session::new` calls `check`, and the engine relies on it without another
//! check: on `MAX_CALL_SEGMENTS` for its arrays, on a receive for each message without a credit
//! (decision D9), and on receive buffers as large as their structure. docs/limits.md has the
//! defaults.

use core::fmt;

use crate::chunk::ChunkLimits;
use crate::continuation::{MAX_TRANSMISSIONS, RtrExtConfig};
use crate::private_data::PrivateData;
use crate::property::{PropertySupport, PropertyValues};
use crate::v2::properties::Bkreqsup;
use crate::version::{V1_INLINE_THRESHOLD, V2_INLINE_THRESHOLD, Version};

/// The maximum number of segments in one outgoing message.
pub const MAX_CALL_SEGMENTS: usize = 64;

/// The largest [`limits.max_segments`](Config::limits): a reply that returns the segments of all
/// chunks of its call fits in every buffer for a header.
pub const MAX_ACCEPTED_SEGMENTS: u32 = 128;

/// The maximum number of Write chunks that one incoming call may offer. No upper-layer binding of
/// NFS uses as many.
pub(super) const MAX_WRITE_CHUNKS: usize = 16;

/// The role of this end of the connection (xcharext-03, section 1.3). Forward calls go from the
/// client to the server.
// spec: xc3-1.3-a, xc3-1.3-b, xc3-1.3-c, xc2-1.3-a, xc2-1.3-b, xc2-1.3-c, bd-2.2-a
// spec: rtr-1.4-a, rtr-1.4-b, rtr-1.4-c
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Initiates the connections.
    Client,
    /// Accepts the connections.
    Server,
}

/// Selects the operations by which the two ends exchange transport properties. Both ends must use
/// the same ones: the two drafts share their codes, and no number on the wire distinguishes them
/// (decision D5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Properties {
    /// No operations: each end assumes the default values of the other.
    None,
    /// Transport properties (xcharext-03): the recommended choice.
    Properties,
    /// Transport characteristics (xcharext-02): the predecessor.
    Characteristics,
}

/// Configures a session. [`Config::client`] and [`Config::server`] return safe defaults.
///
/// ```
/// use rpcrdma_proto::connection::{Config, Role};
///
/// let config = Config { max_calls: 128, credits: 128, ..Config::client() };
/// assert_eq!((config.role, config.check()), (Role::Client, Ok(())));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The role of this end.
    pub role: Role,
    /// The highest version to negotiate. A client tries it first; a server accepts every version up
    /// to it.
    pub max_version: Version,
    /// The maximum number of open outgoing calls, including those that wait for a credit. A call
    /// whose end was reported is not open, even if it has its credit until the peer answers it.
    pub max_calls: u16,
    /// The number of credits to request: the maximum number of outgoing calls in flight.
    pub credits: u32,
    /// The maximum number of incoming calls served at once: the largest grant. Zero for a client
    /// that accepts no backward calls.
    pub max_served: u16,
    /// Receives posted beyond those for calls and replies, for messages that take no credit
    /// (decision D9).
    pub reserved_receives: u32,
    /// The size of each receive buffer in bytes: the largest Send that this end accepts. At least
    /// 1024; at least 4096 for Version Two.
    pub receive_size: u32,
    /// The size in bytes to which receive buffers may grow on a connection, at the request of the
    /// peer or by [`Session::set_property`]. Receive buffers do not grow if this is not greater
    /// than `receive_size`: the embedder decides how much memory a connection takes.
    ///
    /// [`Session::set_property`]: crate::connection::Session::set_property
    pub max_receive_size: u32,
    /// The size in bytes of the largest Send that this end posts.
    pub send_size: u32,
    /// Limits on the chunks that a peer may offer in one message.
    pub limits: ChunkLimits,
    /// The maximum number of segments in one outgoing call, over all its chunks; at most
    /// [`MAX_CALL_SEGMENTS`].
    pub max_segments: u16,
    /// The maximum length in bytes of one outgoing segment.
    pub max_segment_len: u32,
    /// The number of Read chunks, besides one at position zero, that the peer reassembles
    /// correctly: one for Linux before 6.12.
    pub max_read_chunks: u32,
    /// The operations that exchange transport properties.
    pub properties: Properties,
    /// Messages in several transmissions and send-based data placement (rtrext-02); `None` disables
    /// both. Has no effect if `properties` is [`Properties::None`].
    pub rtr: Option<RtrExtConfig>,
    /// How a client accepts backward calls, or a server their replies: the property Backward
    /// Request Support.
    pub backward_support: Bkreqsup,
    /// Whether backward calls are allowed in Version One (RFC 8167), where neither end can announce
    /// support.
    pub backward_v1: bool,
    /// Whether the peer may reply with Send With Invalidate.
    pub remote_invalidation: bool,
    /// Whether this end replies with Send With Invalidate to a peer that accepts it.
    pub send_with_invalidate: bool,
    /// Microseconds to wait for the answer to the first message.
    pub negotiation_timeout: u64,
    /// Microseconds after which an unresponsive connection is closed: a message waits for a credit,
    /// every credit belongs to an abandoned call or to a property request, and the peer answers
    /// none of them. A client then reconnects. `u64::MAX` disables the timeout.
    pub unresponsive_timeout: u64,
    /// Microseconds for which a peer that did not answer the first message in Version Two is
    /// remembered.
    pub version_cache_ttl: u64,
    /// Microseconds to wait before the first attempt to reconnect. The delay doubles after each
    /// failure.
    pub reconnect_delay: u64,
    /// The maximum number of microseconds between two attempts to connect.
    pub max_reconnect_delay: u64,
    /// The number before the first XID, which the peer sees. Use a random number: a session should
    /// not begin with an XID that another session of this client used, or that one used before a
    /// restart.
    pub xid_seed: u32,
    /// Seeds the hash of the table of incoming XIDs. Use a secret random number of 64 bits from
    /// which nothing else is derived: a peer that knows the seed can choose XIDs that collide.
    pub hash_seed: u64,
}

/// Describes why a [`Config`] is invalid, and what to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// `receive_size` is smaller than a Send that every peer may post.
    ReceiveSize {
        /// The minimum.
        least: u32,
    },
    /// `send_size` is less than 1024.
    SendSize,
    /// `max_calls` of a client or `max_served` of a server is zero.
    Nothing,
    /// `credits` is zero or exceeds `max_calls`.
    Credits,
    /// `max_segments` or `max_segment_len` is zero, `max_segments` exceeds [`MAX_CALL_SEGMENTS`],
    /// or `limits.max_segments` exceeds [`MAX_ACCEPTED_SEGMENTS`].
    Segments,
    /// `reserved_receives` is zero: a message without a credit would end the connection.
    Reserve,
    /// The length of the receive buffer structure differs from `receive_size`; or its first segment
    /// is a target or too short for a header; or `max_receive_size` exceeds its length.
    Structure,
    /// A limit of transmissions is zero or exceeds [`MAX_TRANSMISSIONS`].
    Transmissions,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReceiveSize { least } => write!(
                f,
                "receive_size must be {least} or more: every \
                peer may send that"
            ),
            Self::SendSize => f.write_str("send_size must be 1024 or more"),
            Self::Nothing => f.write_str(
                "max_calls of a client and max_served of a server must \
                be one or more",
            ),
            Self::Credits => f.write_str("credits must be one or more, and at most max_calls"),
            Self::Segments => {
                write!(
                    f,
                    "max_segments must be 1 to {MAX_CALL_SEGMENTS}, max_segment_len \
                    one or more, and limits.max_segments at most {MAX_ACCEPTED_SEGMENTS}"
                )
            }
            Self::Reserve => f.write_str(
                "reserved_receives must be one or more: properties and errors arrive \
                    without a credit",
            ),
            Self::Structure => write!(
                f,
                "receive_size must be the length of rtr.structure and max_receive_size at most \
                that length; the first segment must have {V1_INLINE_THRESHOLD} bytes or more and \
                must not be a target"
            ),
            Self::Transmissions => {
                write!(
                    f,
                    "request_limit, response_limit and reply_receives of rtr must be 1 to \
                    {MAX_TRANSMISSIONS}"
                )
            }
        }
    }
}

impl core::error::Error for ConfigError {}

impl Config {
    /// Returns the defaults of a client: Version Two if the server supports it, with properties; 32
    /// calls in flight, and 8 backward calls.
    #[must_use]
    pub const fn client() -> Self {
        Self {
            role: Role::Client,
            max_version: Version::Two,
            max_calls: 64,
            credits: 32,
            max_served: 8,
            reserved_receives: 4,
            receive_size: V2_INLINE_THRESHOLD,
            max_receive_size: 0,
            send_size: 1 << 16,
            limits: ChunkLimits::DEFAULT,
            max_segments: 64,
            max_segment_len: 1 << 20,
            max_read_chunks: u32::MAX,
            properties: Properties::Properties,
            rtr: None,
            backward_support: Bkreqsup::Genl,
            backward_v1: false,
            remote_invalidation: false,
            send_with_invalidate: false,
            negotiation_timeout: 10_000_000,
            unresponsive_timeout: 30_000_000,
            version_cache_ttl: 600_000_000,
            reconnect_delay: 100_000,
            max_reconnect_delay: 30_000_000,
            xid_seed: 0,
            hash_seed: 0,
        }
    }

    /// Returns the defaults of a server: both versions, with properties; 32 calls served, and 8
    /// backward calls in flight.
    #[must_use]
    pub const fn server() -> Self {
        Self {
            role: Role::Server,
            max_calls: 16,
            credits: 8,
            max_served: 32,
            ..Self::client()
        }
    }

    /// Returns this configuration with rtrext-02 enabled. Receive buffers take the configured
    /// structure, if there is one. Sends may have up to 1 MiB: a peer that directs results to be
    /// placed cannot know that its buffers are larger than our Sends.
    ///
    /// ```
    /// use rpcrdma_proto::connection::Config;
    /// use rpcrdma_proto::continuation::RtrExtConfig;
    /// use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
    ///
    /// let head = BufferSegment { length: 4096, align: 8, target: false };
    /// let bulk = BufferSegment { length: 65536, align: 4096, target: true };
    /// let structure = BufferStructure::new(&[head, bulk]).expect("two segments");
    /// let rtr = RtrExtConfig { structure: Some(structure), ..RtrExtConfig::ALL };
    /// let config = Config::client().with_rtr(rtr);
    /// ```
    #[must_use]
    pub fn with_rtr(self, rtr: RtrExtConfig) -> Self {
        let send_size = self.send_size.max(1 << 20);
        let size = rtr.structure.map(|structure| structure.length());
        let receive_size = size.unwrap_or(self.receive_size);
        let max_receive_size = if size.is_some() {
            0
        } else {
            self.max_receive_size
        };
        Self {
            rtr: Some(rtr),
            receive_size,
            max_receive_size,
            send_size,
            ..self
        }
    }

    /// Checks that the settings are consistent.
    ///
    /// # Errors
    /// A setting is invalid; the error says what to change.
    // spec: v2-2.3-a
    // spec: rfc8166-3.3.3-b
    pub fn check(&self) -> Result<(), ConfigError> {
        let least = match self.max_version {
            Version::One => V1_INLINE_THRESHOLD,
            Version::Two => V2_INLINE_THRESHOLD,
        };
        let nothing = match self.role {
            Role::Client => self.max_calls == 0,
            Role::Server => self.max_served == 0,
        };
        if self.receive_size < least {
            Err(ConfigError::ReceiveSize { least })
        } else if self.send_size < V1_INLINE_THRESHOLD {
            Err(ConfigError::SendSize)
        } else if nothing {
            Err(ConfigError::Nothing)
        } else if self.max_calls > 0 && (self.credits == 0 || self.credits > self.max_calls as u32)
        {
            Err(ConfigError::Credits)
        } else if self.max_segments == 0
            || self.max_segment_len == 0
            || self.max_segments as usize > MAX_CALL_SEGMENTS
            || self.limits.max_segments > MAX_ACCEPTED_SEGMENTS
        {
            Err(ConfigError::Segments)
        } else if self.reserved_receives == 0 {
            Err(ConfigError::Reserve)
        } else {
            self.check_rtr()
        }
    }

    /// Returns the bytes of the largest receive buffer that a connection may have.
    #[must_use]
    pub const fn largest_receive(&self) -> u32 {
        if self.max_receive_size > self.receive_size {
            self.max_receive_size
        } else {
            self.receive_size
        }
    }

    fn check_rtr(&self) -> Result<(), ConfigError> {
        let Some(rtr) = &self.rtr else { return Ok(()) };
        let limits = [rtr.request_limit, rtr.response_limit, rtr.reply_receives];
        if limits
            .iter()
            .any(|limit| *limit == 0 || *limit > MAX_TRANSMISSIONS)
        {
            return Err(ConfigError::Transmissions);
        }
        let Some(structure) = &rtr.structure else {
            return Ok(());
        };
        let sizes = [self.receive_size, self.largest_receive()];
        let head = structure
            .segments()
            .first()
            .is_some_and(|head| !head.target && head.length >= V1_INLINE_THRESHOLD);
        if head && sizes == [structure.length(); 2] {
            Ok(())
        } else {
            Err(ConfigError::Structure)
        }
    }

    /// Returns the private data to connect or accept with (RFC 8797).
    #[must_use]
    pub fn private_data(&self) -> PrivateData {
        let invalidation = match self.role {
            Role::Client => self.remote_invalidation,
            Role::Server => self.send_with_invalidate,
        };
        PrivateData::from_sizes(self.send_size, self.receive_size)
            .with_remote_invalidation(invalidation)
    }

    /// Returns our property values at the start of a connection.
    pub(super) const fn property_values(&self) -> PropertyValues {
        PropertyValues {
            receive_buffer_size: self.receive_size,
            remote_invalidation: self.remote_invalidation,
            backward_support: self.backward_support,
        }
    }

    /// Returns which properties of the peer this end understands.
    pub(super) fn property_support(&self) -> PropertySupport {
        let of_draft = match self.properties {
            Properties::None | Properties::Properties => PropertySupport::PROPERTIES,
            Properties::Characteristics => PropertySupport::CHARACTERISTICS,
        };
        PropertySupport {
            rtr: self.rtr.is_some(),
            ..of_draft
        }
    }

    /// Returns whether backward calls are possible in this version.
    // spec: v2-4.2.2-a
    pub(super) const fn has_backward(&self, version: Version) -> bool {
        match version {
            Version::One => self.backward_v1,
            Version::Two => true,
        }
    }
}
