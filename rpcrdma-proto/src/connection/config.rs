//! What a session is told before it begins.

use core::fmt;

use crate::chunk::Limits;
use crate::continuation::{Rtr, TRANSMISSIONS};
use crate::private_data::PrivateData;
use crate::property::{Knowledge, Values};
use crate::v2::properties::Bkreqsup;
use crate::version::{THRESHOLD_ONE, THRESHOLD_TWO, Version};

/// The most segments that one message of ours has.
pub const SEGMENTS: usize = 64;

/// Which end of the connection this is (xcharext-03, section 1.3). Forward calls go from the client to the server.
// spec: xc3-1.3-a, xc3-1.3-b, xc3-1.3-c, xc2-1.3-a, xc2-1.3-b, xc2-1.3-c, bd-2.2-a
// spec: rtr-1.4-a, rtr-1.4-b, rtr-1.4-c
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// It makes the connections.
    Client,
    /// It accepts them.
    Server,
}

/// The operations by which each end tells the other of itself. Both ends have to speak the same ones: the two drafts have the
/// same codes and no number that tells them apart (decision D5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Properties {
    /// None: each end assumes the defaults of the other.
    None,
    /// Transport properties (xcharext-03): what to use.
    Properties,
    /// Transport characteristics (xcharext-02), the form before.
    Characteristics,
}

/// The settings of a session. [`Config::client`] and [`Config::server`] are safe ones.
///
/// ```
/// use rpcrdma_proto::connection::{Config, Role};
///
/// let config = Config { calls: 128, credits: 128, ..Config::client() };
/// assert_eq!((config.role, config.check()), (Role::Client, Ok(())));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Which end this is.
    pub role: Role,
    /// The highest version to be spoken. A client tries it first; a server speaks both up to it.
    pub highest: Version,
    /// Calls of ours that may be open at once, waiting ones included.
    pub calls: u16,
    /// Credits to ask for: calls of ours that may be under way at once.
    pub credits: u32,
    /// Calls of the peer's that are served at once: what is granted. Zero for a client that takes no backward calls.
    pub serve: u16,
    /// Receives beyond those for calls and replies, for messages that take no credit (decision D9).
    pub reserve: u32,
    /// Octets of each receive buffer: what we take in one Send. 1024 or more; 4096 or more for Version Two.
    pub receive_size: u32,
    /// Octets up to which the receive buffers may grow when the peer asks for it.
    pub receive_size_most: u32,
    /// Octets of the largest Send.
    pub send_size: u32,
    /// What a peer may offer in one message.
    pub limits: Limits,
    /// Segments of one call of ours, over all its chunks: [`SEGMENTS`] at most.
    pub segments: u16,
    /// The most octets that one segment of ours has.
    pub segment: u32,
    /// Read chunks, besides one at Position zero, that the peer puts together rightly: one for Linux before 6.12.
    pub read_chunks: u32,
    /// Which transport properties are spoken, or none: all of their operations.
    pub properties: Properties,
    /// Messages in several transmissions and send-based data placement (rtrext-02); none to do without. Of no use without
    /// `properties`, of either draft.
    pub rtr: Option<Rtr>,
    /// How backward calls are taken (client) or their replies (server): the property Backward Request Support.
    pub backward: Bkreqsup,
    /// Whether there are backward calls in Version One, too (RFC 8167), where neither end can ask for it.
    pub backward_one: bool,
    /// Whether replies may come by Send With Invalidate.
    pub remote_invalidation: bool,
    /// Whether this end can send replies by Send With Invalidate, to a peer that takes them.
    pub invalidates: bool,
    /// Microseconds to wait for the answer to the first message.
    pub negotiation_timeout: u64,
    /// Microseconds for which a peer that did not answer it is remembered.
    pub memory: u64,
    /// Microseconds before a lost connection is made again; doubled after each failure.
    pub retry: u64,
    /// The most microseconds between two attempts.
    pub retry_most: u64,
    /// Where XIDs begin. Two sessions of one client should not begin alike: give a random number.
    pub seed: u32,
}

/// What is wrong with a [`Config`], and what to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// `receive_size` is less than every peer may send.
    ReceiveSize {
        /// The least.
        least: u32,
    },
    /// `receive_size_most` is less than `receive_size`.
    ReceiveSizeMost,
    /// `send_size` is less than 1024.
    SendSize,
    /// A client without `calls`, or a server with nothing to `serve`.
    Nothing,
    /// `credits` is zero, or more than `calls`.
    Credits,
    /// `segments` or `segment` is zero, or `segments` more than [`SEGMENTS`].
    Segments,
    /// `reserve` is zero: a message without a credit would end the connection.
    Reserve,
    /// The receive buffers' structure has another length than `receive_size`, or its first segment is not plain or too short
    /// for a header; or `receive_size_most` allows for buffers without it.
    Structure,
    /// A limit of transmissions is zero, or more than [`TRANSMISSIONS`].
    Transmissions,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReceiveSize { least } => write!(f, "receive_size must be {least} or more: every peer may send that"),
            Self::ReceiveSizeMost => f.write_str("receive_size_most must not be less than receive_size"),
            Self::SendSize => f.write_str("send_size must be 1024 or more"),
            Self::Nothing => f.write_str("a client needs calls, and a server something to serve: neither may be zero"),
            Self::Credits => f.write_str("credits must be one or more, and not more than calls"),
            Self::Segments => write!(f, "segments and segment must be one or more, and segments {SEGMENTS} at most"),
            Self::Reserve => f.write_str("reserve must be one or more: properties and errors arrive without a credit"),
            Self::Structure => write!(
                f,
                "receive_size and receive_size_most must be the length of rtr.structure, whose first segment must be no target, of {THRESHOLD_ONE} octets or more"
            ),
            Self::Transmissions => write!(
                f,
                "request_limit, response_limit and reserve of rtr must be one or more, and {TRANSMISSIONS} at most"
            ),
        }
    }
}

impl core::error::Error for ConfigError {}

impl Config {
    /// A client: Version Two if the server speaks it, with properties; 32 calls under way, and 8 backward calls.
    #[must_use]
    pub const fn client() -> Self {
        Self {
            role: Role::Client,
            highest: Version::Two,
            calls: 64,
            credits: 32,
            serve: 8,
            reserve: 4,
            receive_size: THRESHOLD_TWO,
            receive_size_most: 1 << 16,
            send_size: 1 << 16,
            limits: Limits::DEFAULT,
            segments: 64,
            segment: 1 << 20,
            read_chunks: u32::MAX,
            properties: Properties::Properties,
            rtr: None,
            backward: Bkreqsup::Genl,
            backward_one: false,
            remote_invalidation: false,
            invalidates: false,
            negotiation_timeout: 10_000_000,
            memory: 600_000_000,
            retry: 100_000,
            retry_most: 30_000_000,
            seed: 0,
        }
    }

    /// A server: both versions, with properties; 32 calls served, and 8 backward calls under way.
    #[must_use]
    pub const fn server() -> Self {
        Self { role: Role::Server, calls: 16, credits: 8, serve: 32, ..Self::client() }
    }

    /// The same with rtrext-02: its receive buffers have the structure that is set there, if there is one, and Sends have up to
    /// a mebioctet, since a peer that directs its results to be placed can't know that its buffers are larger than our Sends.
    #[must_use]
    pub fn with_rtr(self, rtr: Rtr) -> Self {
        let send_size = self.send_size.max(1 << 20);
        let size = rtr.structure.map(|structure| structure.length());
        let receive_size = size.unwrap_or(self.receive_size);
        let receive_size_most = size.unwrap_or(self.receive_size_most);
        Self { rtr: Some(rtr), receive_size, receive_size_most, send_size, ..self }
    }

    /// Whether the settings make sense together.
    ///
    /// # Errors
    /// They do not; the error says what to change.
    // spec: v2-2.3-a
    pub fn check(&self) -> Result<(), ConfigError> {
        let least = match self.highest {
            Version::One => THRESHOLD_ONE,
            Version::Two => THRESHOLD_TWO,
        };
        let nothing = match self.role {
            Role::Client => self.calls == 0,
            Role::Server => self.serve == 0,
        };
        if self.receive_size < least {
            Err(ConfigError::ReceiveSize { least })
        } else if self.receive_size_most < self.receive_size {
            Err(ConfigError::ReceiveSizeMost)
        } else if self.send_size < THRESHOLD_ONE {
            Err(ConfigError::SendSize)
        } else if nothing {
            Err(ConfigError::Nothing)
        } else if self.calls > 0 && (self.credits == 0 || self.credits > self.calls as u32) {
            Err(ConfigError::Credits)
        } else if self.segments == 0 || self.segment == 0 || self.segments as usize > SEGMENTS {
            Err(ConfigError::Segments)
        } else if self.reserve == 0 {
            Err(ConfigError::Reserve)
        } else {
            self.check_rtr()
        }
    }

    fn check_rtr(&self) -> Result<(), ConfigError> {
        let Some(rtr) = &self.rtr else { return Ok(()) };
        let limits = [rtr.request_limit, rtr.response_limit, rtr.reserve];
        if limits.iter().any(|limit| *limit == 0 || *limit > TRANSMISSIONS) {
            return Err(ConfigError::Transmissions);
        }
        let Some(structure) = &rtr.structure else { return Ok(()) };
        let sizes = [self.receive_size, self.receive_size_most];
        let head = structure.segments().first().is_some_and(|head| !head.target && head.length >= THRESHOLD_ONE);
        if head && sizes == [structure.length(); 2] { Ok(()) } else { Err(ConfigError::Structure) }
    }

    /// The private data to connect or accept with (RFC 8797).
    #[must_use]
    pub fn private_data(&self) -> PrivateData {
        let invalidation = match self.role {
            Role::Client => self.remote_invalidation,
            Role::Server => self.invalidates,
        };
        PrivateData::of_sizes(self.send_size, self.receive_size).with_remote_invalidation(invalidation)
    }

    /// Our properties when a connection begins.
    pub(super) const fn values(&self) -> Values {
        Values {
            receive_buffer_size: self.receive_size,
            remote_invalidation: self.remote_invalidation,
            backward_support: self.backward,
        }
    }

    /// What is known here of the peer's properties.
    pub(super) fn knowledge(&self) -> Knowledge {
        let of_draft = match self.properties {
            Properties::None | Properties::Properties => Knowledge::PROPERTIES,
            Properties::Characteristics => Knowledge::CHARACTERISTICS,
        };
        Knowledge { rtr: self.rtr.is_some(), ..of_draft }
    }

    /// Whether backward calls can go in this version.
    // spec: v2-4.2.2-a
    pub(super) const fn has_backward(&self, version: Version) -> bool {
        match version {
            Version::One => self.backward_one,
            Version::Two => true,
        }
    }
}
