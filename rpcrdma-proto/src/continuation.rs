//! Messages in several transmissions (rtrext-02, sections 4 and 9): what the two ends can do.

mod broken;
#[cfg(feature = "alloc")]
mod gathered;

use crate::placement::Structure;
use crate::travel::{Direct, Prefer};
use crate::v2::rtr::{RTRS_XCONT, RTRS_XREQ, RTRS_XRESP};

pub use broken::{Broken, Mismatch, Part, Range, Report};
#[cfg(feature = "alloc")]
pub use gathered::{Excised, Gathered, How, Octets, Source, Sources};

/// Operations of rtrext-02 that one end takes: the property RTR Support.
///
/// ```
/// use rpcrdma_proto::continuation::Operations;
///
/// let told = Operations::REQUESTS.and(Operations::CONTINUATIONS);
/// assert!(told.has(Operations::REQUESTS) && !told.has(Operations::RESPONSES));
/// assert_eq!(told.bits(), 5);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Operations(u32);

impl Operations {
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

    /// Those that the property's value names. Bits that nobody knows are passed over.
    // spec: rtr-8.1-e
    #[must_use]
    pub const fn of(bits: u32) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// The property's value.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of these are among them.
    #[must_use]
    pub const fn has(self, these: Self) -> bool {
        self.0 & these.0 == these.0
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, those: Self) -> Self {
        Self(self.0 | those.0)
    }

    /// Those of them that are not among these.
    #[must_use]
    pub const fn without(self, these: Self) -> Self {
        Self(self.0 & !these.0)
    }
}

/// What one end tells of rtrext-02 by its four properties (section 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// RTR Support; none where nothing is told of it: then the operations can be tried (decision D24).
    pub operations: Option<Operations>,
    /// Receive Buffer Structure; none where it is one plain segment of the Receive Buffer Size.
    pub structure: Option<Structure>,
    /// Request Transmission Receive Limit: transmissions of a request that it takes as responder.
    pub request_limit: u32,
    /// Response Transmission Send Limit: transmissions of a reply that it sends as responder.
    pub response_limit: u32,
}

impl Abilities {
    /// What is assumed of who told nothing (rtrext-02, table 3).
    // spec: rtr-8.1-d, rtr-8.1-e, rtr-8.1-f, rtr-8.1-g, rtr-8.1-h
    pub const DEFAULT: Self = Self { operations: None, structure: None, request_limit: 1, response_limit: 1 };
}

impl Default for Abilities {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Settings of rtrext-02: what this end tells of itself, and how it uses what the peer tells. [`Rtr::ALL`] has all of it.
///
/// ```
/// use rpcrdma_proto::connection::Config;
/// use rpcrdma_proto::continuation::Rtr;
/// use rpcrdma_proto::placement::{Segment, Structure};
///
/// // Receive buffers of 4 KiB, and 64 KiB for bulk data.
/// let head = Segment { length: 4096, align: 8, target: false };
/// let bulk = Segment { length: 65536, align: 4096, target: true };
/// let structure = Structure::new(&[head, bulk])?;
/// let config = Config::client().with_rtr(Rtr { structure: Some(structure), ..Rtr::ALL });
/// assert_eq!((config.receive_size, config.check()), (69632, Ok(())));
/// # Ok::<(), rpcrdma_proto::placement::StructureError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rtr {
    /// Operations that this end takes. ROPT_REPTERR is taken by all who speak of rtrext-02 at all.
    pub operations: Operations,
    /// Whether operations are tried of which the peer has told nothing.
    pub tries: bool,
    /// How each receive buffer is made: its length is `Config::receive_size`. None for one plain segment.
    pub structure: Option<Structure>,
    /// Transmissions of a request that this end takes as responder.
    pub request_limit: u32,
    /// Transmissions of a reply that it sends as responder.
    pub response_limit: u32,
    /// Transmissions of a reply that it takes as requester: so many receives are posted for a call whose reply may need them.
    pub reserve: u32,
    /// Octets from which on an item is worth being placed: shorter ones stay in the message.
    pub place_from: u32,
    /// Which way a call takes where there are two.
    pub prefer: Prefer,
    /// How results are directed to be placed.
    pub direct: Direct,
    /// Microseconds for which a reply in several transmissions is kept, to be sent again if the peer reports it broken.
    pub keep: u64,
}

impl Rtr {
    /// All operations; groups of up to 8 transmissions; receive buffers of one plain segment.
    pub const ALL: Self = Self {
        operations: Operations::ALL,
        tries: false,
        structure: None,
        request_limit: LIMIT,
        response_limit: LIMIT,
        reserve: LIMIT,
        place_from: 4096,
        prefer: Prefer::Cheaper,
        direct: Direct::Cheaper,
        keep: 1_000_000,
    };

    /// What is told of these settings.
    #[must_use]
    pub const fn abilities(&self) -> Abilities {
        Abilities {
            operations: Some(self.operations),
            structure: self.structure,
            request_limit: self.request_limit,
            response_limit: self.response_limit,
        }
    }
}

/// Transmissions of one message, where nothing else is said.
const LIMIT: u32 = 8;

/// The most transmissions of one message that settings may allow.
pub const TRANSMISSIONS: u32 = 64;
