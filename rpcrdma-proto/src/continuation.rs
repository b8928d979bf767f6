//! Messages in several transmissions (rtrext-02, sections 4 and 9): the capabilities and settings
//! of the two ends.
//!
//! ```
//! use rpcrdma_proto::connection::Config;
//! use rpcrdma_proto::continuation::{OperationSet, RtrExtConfig};
//!
//! // A client that accepts replies in several transmissions, and sends its calls in one.
//! let operations = OperationSet::RESPONSES.union(OperationSet::CONTINUATIONS);
//! let config = Config::client().with_rtr(RtrExtConfig { operations, ..RtrExtConfig::ALL });
//! assert_eq!(config.check(), Ok(()));
//! ```

mod group_error;
#[cfg(feature = "alloc")]
mod reassembled;

use crate::placement::BufferStructure;
use crate::transfer::{MethodPreference, ResultPlacement};
use crate::v2::rtr::{RTRS_XCONT, RTRS_XREQ, RTRS_XRESP};

pub use group_error::{GroupError, GroupErrorReport, Mismatch, OutOfRange, TransmissionId};
#[cfg(feature = "alloc")]
pub use reassembled::{BufferRange, ReassembledMessage, ReducedItem, Reduction, Source, Sources};

/// The operations of rtrext-02 that one end accepts: the property RTR Support.
///
/// ```
/// use rpcrdma_proto::continuation::OperationSet;
///
/// let told = OperationSet::REQUESTS.union(OperationSet::CONTINUATIONS);
/// assert!(told.contains(OperationSet::REQUESTS) && !told.contains(OperationSet::RESPONSES));
/// assert_eq!(told.bits(), 5);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct OperationSet(u32);

impl OperationSet {
    /// None.
    pub const NONE: Self = Self(0);
    /// ROPT_XMTREQ.
    pub const REQUESTS: Self = Self(RTRS_XREQ);
    /// ROPT_XMTRESP.
    pub const RESPONSES: Self = Self(RTRS_XRESP);
    /// ROPT_XMTCONT.
    pub const CONTINUATIONS: Self = Self(RTRS_XCONT);
    /// All three.
    pub const ALL: Self = Self(RTRS_XREQ | RTRS_XRESP | RTRS_XCONT);

    /// Returns the set in a property's value. Unknown bits are ignored.
    // spec: rtr-8.1-e
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// Returns the property's value.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns whether the set contains all of these operations.
    #[must_use]
    pub const fn contains(self, these: Self) -> bool {
        self.0 & these.0 == these.0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn union(self, those: Self) -> Self {
        Self(self.0 | those.0)
    }

    /// Returns the operations of the set that are not in `these`.
    #[must_use]
    pub const fn difference(self, these: Self) -> Self {
        Self(self.0 & !these.0)
    }
}

/// The capabilities that one end announces by its four properties (section 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtrCapabilities {
    /// RTR Support; `None` if the peer has not announced it: then the operations can be probed
    /// (decision D24).
    pub operations: Option<OperationSet>,
    /// Receive Buffer Structure; `None` for one plain segment of the Receive Buffer Size.
    pub structure: Option<BufferStructure>,
    /// Request Transmission Receive Limit: the maximum number of transmissions of a request that it
    /// accepts as responder.
    pub request_limit: u32,
    /// Response Transmission Send Limit: the maximum number of transmissions of a reply that it
    /// sends as responder.
    pub response_limit: u32,
}

impl RtrCapabilities {
    /// The values of a peer that has announced nothing (rtrext-02, table 3).
    // spec: rtr-8.1-d, rtr-8.1-e, rtr-8.1-f, rtr-8.1-g, rtr-8.1-h
    pub const DEFAULT: Self = Self {
        operations: None,
        structure: None,
        request_limit: 1,
        response_limit: 1,
    };
}

impl Default for RtrCapabilities {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The settings of rtrext-02: the capabilities of this end, and how it uses those of the peer.
/// [`RtrExtConfig::ALL`] enables everything.
///
/// ```
/// use rpcrdma_proto::connection::Config;
/// use rpcrdma_proto::continuation::RtrExtConfig;
/// use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
///
/// // Receive buffers of 4 KiB, and 64 KiB for bulk data.
/// let head = BufferSegment { length: 4096, align: 8, target: false };
/// let bulk = BufferSegment { length: 65536, align: 4096, target: true };
/// let structure = BufferStructure::new(&[head, bulk])?;
/// let config = Config::client().with_rtr(RtrExtConfig { structure: Some(structure), ..RtrExtConfig::ALL });
/// assert_eq!((config.receive_size, config.check()), (69632, Ok(())));
/// # Ok::<(), rpcrdma_proto::placement::StructureError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtrExtConfig {
    /// The operations that this end accepts. Every end that supports rtrext-02 accepts
    /// ROPT_REPTERR.
    pub operations: OperationSet,
    /// Whether this end probes operations that the peer has not announced.
    pub probe: bool,
    /// The structure of each receive buffer, whose length is `Config::receive_size`; `None` for one
    /// plain segment.
    pub structure: Option<BufferStructure>,
    /// The maximum number of transmissions of a request that this end accepts as responder.
    pub request_limit: u32,
    /// The maximum number of transmissions of a reply that this end sends as responder.
    pub response_limit: u32,
    /// The maximum number of transmissions of a reply that this end accepts as requester. As many
    /// receives are posted for a call whose reply may need them.
    pub reply_receives: u32,
    /// The minimum length in bytes of an item that is placed. Shorter items stay in the message.
    pub min_placed_len: u32,
    /// The transfer method of a call for which there are two.
    pub preference: MethodPreference,
    /// The placement of results that calls direct.
    pub placement: ResultPlacement,
    /// The time in microseconds for which a reply in several transmissions is retained, to be
    /// retransmitted if the peer reports it as broken.
    pub reply_retention: u64,
}

impl RtrExtConfig {
    /// All operations; groups of up to 8 transmissions; receive buffers of one plain segment.
    pub const ALL: Self = Self {
        operations: OperationSet::ALL,
        probe: false,
        structure: None,
        request_limit: DEFAULT_TRANSMISSIONS,
        response_limit: DEFAULT_TRANSMISSIONS,
        reply_receives: DEFAULT_TRANSMISSIONS,
        min_placed_len: 4096,
        preference: MethodPreference::Cheaper,
        placement: ResultPlacement::Cheaper,
        reply_retention: 1_000_000,
    };

    /// Returns the capabilities to announce for these settings.
    #[must_use]
    pub const fn capabilities(&self) -> RtrCapabilities {
        RtrCapabilities {
            operations: Some(self.operations),
            structure: self.structure,
            request_limit: self.request_limit,
            response_limit: self.response_limit,
        }
    }
}

/// The default maximum number of transmissions of one message.
const DEFAULT_TRANSMISSIONS: u32 = 8;

/// The largest number of transmissions of one message that settings may allow.
pub const MAX_TRANSMISSIONS: u32 = 64;
