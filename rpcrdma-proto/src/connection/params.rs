//! The parameters of the current connection: its version, and the limits of each end.
//!
//! This module decides the inline thresholds (`send_limit`, `receive_limit`), and which calls
//! either end may send. `session::connecting` sets the version, and `exchange` and
//! `Session::set_property` set the properties. `lost` and `connected` replace the whole value.
//! `receive_limit` must not exceed what the peer knows, and `local` may be raised only when no
//! smaller receive is posted.

use super::config::{Config, Role};
use crate::private_data::PrivateData;
use crate::property::{PeerProperties, PropertyValues};
use crate::transfer::{self, GroupLimits};
use crate::v2::properties::Bkreqsup;
use crate::version::{Negotiation, V1_INLINE_THRESHOLD, V2_INLINE_THRESHOLD, Version};

use super::responder::ReplyLimits;

/// The parameters of the current connection.
#[derive(Debug)]
pub(super) struct ConnectionParams {
    pub(super) role: Role,
    /// The negotiation of a client. A server takes the version from the first message.
    pub(super) negotiation: Negotiation,
    /// The time by which the first message must be answered.
    pub(super) negotiation_deadline: Option<u64>,
    /// The negotiated version.
    pub(super) version: Option<Version>,
    /// Whether the server has answered in Version Two. Until then the inline threshold is that of
    /// the first message.
    pub(super) peer_answered: bool,
    local_private: PrivateData,
    peer_private: PrivateData,
    // Copies of the fields of `Config` that each call needs.
    max_version: Version,
    send_with_invalidate: bool,
    send_size: u32,
    max_segment_len: u32,
    max_read_chunks: u32,
    pub(super) peer: PeerProperties,
    /// A size of the peer's receive buffers that we requested, and that already limits our Sends.
    pub(super) requested_size: Option<u32>,
    /// Our properties.
    pub(super) local: PropertyValues,
    /// Whether the peer has shown that it supports properties, and whether ours were announced.
    pub(super) peer_has_properties: bool,
    pub(super) announced: bool,
}

impl ConnectionParams {
    pub(super) fn new(config: &Config, theirs: PrivateData, remembered: bool) -> Self {
        let version = match (config.role, config.max_version) {
            (Role::Client, Version::Two) if remembered => Some(Version::One),
            (_, Version::One) => Some(Version::One),
            _ => None,
        };
        Self {
            role: config.role,
            negotiation: Negotiation::new(config.max_version, remembered),
            negotiation_deadline: None,
            version,
            peer_answered: config.role == Role::Client,
            local_private: config.private_data(),
            peer_private: theirs,
            max_version: config.max_version,
            send_with_invalidate: config.send_with_invalidate,
            send_size: config.send_size,
            max_segment_len: config.max_segment_len,
            max_read_chunks: config.max_read_chunks,
            peer: PeerProperties::with_support(config.property_support()),
            requested_size: None,
            local: config.property_values(),
            peer_has_properties: false,
            announced: false,
        }
    }

    /// Returns the version of our next message: the negotiated version, or the one to probe with.
    pub(super) fn send_version(&self) -> Option<Version> {
        match self.role {
            Role::Client => self.negotiation.version(),
            // A server initiates no message before it has received one (decision D7).
            Role::Server => self.version,
        }
    }

    /// Returns the highest version that an incoming message may have.
    // spec: bd-5.1-b, v2-5.2-f
    pub(super) fn max_receive_version(&self) -> Version {
        match self.role {
            Role::Client => self.negotiation.version().unwrap_or(Version::One),
            // The negotiated version is fixed for the connection.
            Role::Server => self
                .version
                .filter(|version| *version == Version::One)
                .unwrap_or(self.max_version),
        }
    }

    /// Returns the size in bytes of the largest Send that the peer accepts in this version.
    // spec: v2-2.1-a, v2-2.1-b, v2-2.1-c, v2-2.3-b, v2-2.3-c, v2-5-d, v2-5.1-b, v2-5.2-f, v2-5.2-g
    // spec: xc3-3.1-c, xc3-3.1-d, xc3-3.1-j
    // spec: bd-4.2-c
    // spec: xc2-3.1-c, xc2-3.1-d, xc2-3.1-j
    pub(super) fn send_limit(&self, version: Version) -> u32 {
        match version {
            Version::One => self.local_private.threshold_to(&self.peer_private),
            Version::Two if self.version.is_none() || !self.peer_answered => V1_INLINE_THRESHOLD,
            Version::Two => {
                let advertised = self
                    .peer
                    .values()
                    .receive_buffer_size
                    .max(V1_INLINE_THRESHOLD);
                advertised
                    .min(self.send_size)
                    .min(self.requested_size.unwrap_or(u32::MAX))
            }
        }
    }

    /// Returns the size in bytes of the largest Send that the peer knows us to accept in this
    /// version.
    // spec: v2-2.1-b, xc3-3.1-e, xc3-4.1-c, xc2-3.1-e, xc2-4.1-c
    pub(super) fn receive_limit(&self, version: Version) -> u32 {
        match version {
            Version::One => self.peer_private.threshold_to(&self.local_private),
            Version::Two if self.version.is_none() => V1_INLINE_THRESHOLD,
            // A peer without support for properties assumes the default.
            Version::Two if self.announced => self.local.receive_buffer_size,
            Version::Two => V2_INLINE_THRESHOLD.min(self.local.receive_buffer_size),
        }
    }

    /// Returns the limits of outgoing calls; `None` if the peer accepts none now.
    // spec: bd-4.2-a, bd-4.2-b, bd-5.3-a, bd-5.3-b, bd-5.3-c, xc3-3.3-b, xc3-3.3-c, xc3-3.3-d
    // spec: v2-2.2-c
    // spec: xc2-3.3-b, xc2-3.3-c, xc2-3.3-d
    pub(super) fn call_limits<'a>(
        &self,
        config: &Config,
        groups: Option<&'a GroupLimits>,
    ) -> Option<transfer::PathLimits<'a>> {
        let version = self.send_version()?;
        let chunks = match (self.role, version, self.peer.values().backward_support) {
            (Role::Client, ..) => true,
            (Role::Server, Version::Two, Bkreqsup::None) => return None,
            (Role::Server, Version::Two, Bkreqsup::Genl) => true,
            (Role::Server, Version::Two, Bkreqsup::Inline) | (Role::Server, Version::One, _) => {
                false
            }
        };
        if self.role == Role::Server && !config.has_backward(version) {
            return None;
        }
        Some(self.path_limits(version, chunks, groups))
    }

    /// Returns the limits of property requests, which are allowed even if calls are not.
    pub(super) fn property_request_limits(&self) -> Option<transfer::PathLimits<'static>> {
        Some(self.path_limits(self.send_version()?, false, None))
    }

    fn path_limits<'a>(
        &self,
        version: Version,
        chunks: bool,
        groups: Option<&'a GroupLimits>,
    ) -> transfer::PathLimits<'a> {
        transfer::PathLimits {
            version,
            call_threshold: self.send_limit(version),
            reply_threshold: self.receive_limit(version),
            chunks,
            max_read_chunks: self.max_read_chunks,
            max_segment_len: self.max_segment_len,
            groups,
            available_credits: 0,
        }
    }

    /// Returns the limits of replies to calls of this version.
    // spec: xc3-3.2-a, xc3-3.2-b, xc3-3.2-c, xc2-3.2-a, xc2-3.2-b, xc2-3.2-c
    pub(super) fn reply_limits(&self, version: Version) -> ReplyLimits<'static> {
        let wanted = match version {
            Version::One => self.local_private.invalidates_with(&self.peer_private),
            Version::Two => self.peer.values().remote_invalidation,
        };
        ReplyLimits {
            threshold: self.send_limit(version),
            invalidate: self.send_with_invalidate && wanted,
            groups: None,
        }
    }

    /// Returns whether an incoming call is accepted: a server accepts all, a client those that it
    /// has announced.
    // spec: xc3-3.3-a, bd-6-a, xc2-3.3-a
    pub(super) fn accepts_call(&self, config: &Config, version: Version, has_chunks: bool) -> bool {
        let taken = match (version, self.local.backward_support) {
            (Version::One, _) => !has_chunks,
            (Version::Two, support) => {
                support == Bkreqsup::Genl || (support == Bkreqsup::Inline && !has_chunks)
            }
        };
        self.role == Role::Server
            || (config.max_served > 0 && config.has_backward(version) && taken)
    }
}
