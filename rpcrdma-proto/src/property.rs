//! Transport properties (xcharext-03): the values that a peer has announced, and the answers to
//! requests to change them.
//!
//! The module also handles transport characteristics (xcharext-02), the earlier form:
//! [`PropertySupport`] selects one of the two. Both use the same codes and types. ROPT_INITXCH and
//! ROPT_REQXCH have the encoding of ROPT_CONNPROP and ROPT_REQPROP, and are decoded as those.
//!
//! It knows the three basic properties, and with rtrext-02 that extension's four. Properties of
//! other extensions are ignored, as the draft requires of unknown ones; an extension can read them
//! from the same sets.
//!
//! ```
//! use rpcrdma_proto::property::{PeerProperties, PropertyValues};
//! use rpcrdma_proto::v2::properties::{Connprop, PROP_RBSIZ, Propval};
//!
//! let mut peer = PeerProperties::new();
//! assert_eq!(*peer.values(), PropertyValues::DEFAULT);
//! // The peer announces receive buffers of 8 KiB, and a property that we do not know.
//! let start = [(PROP_RBSIZ, &[0, 0, 32, 0][..]), (99, b"unknown")];
//! let start = start.map(|(which, data)| Propval { which, data });
//! peer.connected(&Connprop { start: (&start).into(), nochg: (&[]).into() })?;
//! assert_eq!(peer.values().receive_buffer_size, 8192);
//! # Ok::<(), rpcrdma_proto::xdr::Error>(())
//! ```

mod answer;
mod capability;
mod response;
mod support;

use crate::continuation::RtrCapabilities;
use crate::placement::BufferStructure;
use crate::v2::properties::{
    Bkreqsup, Connprop, PROP_BRS, PROP_RBSIZ, PROP_REQREMINV, Propid, Propval, Propvalset,
    Propvalsubset, Updprop,
};
use crate::xdr::{self, Decode};
use support::{KnownProperty, bit};

pub use answer::{Decision, PropertyResponse};
#[cfg(feature = "alloc")]
pub(crate) use capability::CAPABILITIES;
pub use capability::RtrCapability;
pub use response::{Disposition, characteristic_dispositions, dispositions};
pub use support::PropertySupport;

/// A value of a basic property (xcharext-03, section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BasicProperty {
    /// Receive Buffer Size: the minimum size of receive buffers in bytes.
    ReceiveBufferSize(u32),
    /// Requester Remote Invalidation: whether a responder may reply with Send With Invalidate.
    RemoteInvalidation(bool),
    /// Backward Request Support.
    BackwardSupport(Bkreqsup),
}

impl BasicProperty {
    /// Decodes a propval of xcharext-03, in which an empty value stands for the default. Returns
    /// `None` if the property is not a basic one.
    ///
    /// # Errors
    /// The value does not decode as the property's type: it is too short, too long, or out of
    /// range.
    // spec: xc3-2.1-c, xc3-2.1-d, xc3-2.1-e, xc3-2.1-f, xc3-2.1-h, xc3-2.1-i, xc3-2.1-j, xc3-3-e
    // spec: xc3-3-f, xc3-3-g
    // spec: xc2-2.1-a, xc2-2.1-b, xc2-2.1-e, xc2-2.1-f, xc2-2.1-g
    pub fn from_propval(propval: &Propval<'_>) -> xdr::Result<Option<Self>> {
        Ok(Some(match (propval.which, propval.data.is_empty()) {
            (PROP_RBSIZ, true) => {
                Self::ReceiveBufferSize(PropertyValues::DEFAULT.receive_buffer_size)
            }
            (PROP_RBSIZ, false) => Self::ReceiveBufferSize(u32::from_bytes(propval.data)?),
            (PROP_REQREMINV, true) => {
                Self::RemoteInvalidation(PropertyValues::DEFAULT.remote_invalidation)
            }
            (PROP_REQREMINV, false) => Self::RemoteInvalidation(bool::from_bytes(propval.data)?),
            (PROP_BRS, true) => Self::BackwardSupport(PropertyValues::DEFAULT.backward_support),
            (PROP_BRS, false) => Self::BackwardSupport(Bkreqsup::from_bytes(propval.data)?),
            _ => return Ok(None),
        }))
    }

    /// Returns the code of the property.
    #[must_use]
    pub const fn code(self) -> Propid {
        match self {
            Self::ReceiveBufferSize(_) => PROP_RBSIZ,
            Self::RemoteInvalidation(_) => PROP_REQREMINV,
            Self::BackwardSupport(_) => PROP_BRS,
        }
    }
}

/// The values of the basic properties of one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PropertyValues {
    /// The minimum size of its receive buffers in bytes.
    pub receive_buffer_size: u32,
    /// Whether it accepts Send With Invalidate as a requester.
    pub remote_invalidation: bool,
    /// Its support of backward-direction requests.
    pub backward_support: Bkreqsup,
}

impl PropertyValues {
    /// The default values, which apply until a peer announces others (xcharext-03, table 1).
    // spec: xc3-3-d, xc3-3-e, xc3-3-f, xc3-3-g, xc2-3-a, xc2-3-b, xc2-3-c, xc2-3-d
    pub const DEFAULT: Self = Self {
        receive_buffer_size: 4096,
        remote_invalidation: false,
        backward_support: Bkreqsup::Inline,
    };

    /// Returns the value of the same property as `of`.
    #[must_use]
    pub const fn get(&self, of: BasicProperty) -> BasicProperty {
        match of {
            BasicProperty::ReceiveBufferSize(_) => {
                BasicProperty::ReceiveBufferSize(self.receive_buffer_size)
            }
            BasicProperty::RemoteInvalidation(_) => {
                BasicProperty::RemoteInvalidation(self.remote_invalidation)
            }
            BasicProperty::BackwardSupport(_) => {
                BasicProperty::BackwardSupport(self.backward_support)
            }
        }
    }

    /// Applies a value.
    pub const fn set(&mut self, value: BasicProperty) {
        match value {
            BasicProperty::ReceiveBufferSize(size) => self.receive_buffer_size = size,
            BasicProperty::RemoteInvalidation(on) => self.remote_invalidation = on,
            BasicProperty::BackwardSupport(support) => self.backward_support = support,
        }
    }
}

impl Default for PropertyValues {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Returns whether a set's subset has the element at `position` (xcharext-03, section 2.1, and
/// decision D17).
///
/// ```
/// use rpcrdma_proto::property::in_subset;
///
/// let subset = [0b101, 1 << 31];
/// assert!(in_subset(&(&subset).into(), 2) && in_subset(&(&subset).into(), 63));
/// assert!(!in_subset(&(&subset).into(), 1) && !in_subset(&(&subset).into(), 64));
/// ```
// spec: xc3-2.1-n, xc3-2.1-o, xc3-2.1-p, xc3-2.1-q, xc2-2.1-k, xc2-2.1-l, xc2-2.1-m, xc2-2.1-n
#[must_use]
pub fn in_subset(subset: &Propvalsubset<'_>, position: usize) -> bool {
    subset
        .get(position / 32)
        .is_some_and(|word| word >> (position % 32) & 1 == 1)
}

/// The properties that a peer has announced.
///
/// ```
/// use rpcrdma_proto::property::{PeerProperties, PropertyValues};
/// use rpcrdma_proto::v2::properties::{Connprop, PROP_RBSIZ, Propval};
///
/// let mut peer = PeerProperties::new();
/// assert_eq!(*peer.values(), PropertyValues::DEFAULT);
/// let start = [Propval { which: PROP_RBSIZ, data: &[0, 0, 32, 0] }, Propval { which: 99, data: b"who knows" }];
/// peer.connected(&Connprop { start: (&start).into(), nochg: (&[]).into() })?;
/// assert_eq!(peer.values().receive_buffer_size, 8192);
/// # Ok::<(), rpcrdma_proto::xdr::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PeerProperties {
    /// The properties that this end knows.
    support: PropertySupport,
    values: PropertyValues,
    capabilities: RtrCapabilities,
    /// The announced size and structure of its receive buffers, from which the two fields above are
    /// derived.
    size: Option<u32>,
    structure: Option<BufferStructure>,
    /// Whether it has announced its properties.
    announced: bool,
    /// The properties that it announced, and those of them that may change: one bit for each known
    /// property.
    named: u8,
    may_change: u8,
    /// The number of values that the peer was not allowed to send: changes of fixed properties, and
    /// those of a second CONNPROP.
    ignored: u32,
}

impl PeerProperties {
    /// Creates a peer that has announced nothing. The basic properties are known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a peer that has announced nothing, with this support.
    #[must_use]
    pub fn with_support(support: PropertySupport) -> Self {
        Self {
            support,
            ..Self::default()
        }
    }

    /// Returns the properties that this end knows.
    #[must_use]
    pub const fn support(&self) -> PropertySupport {
        self.support
    }

    /// Returns the current values.
    #[must_use]
    pub const fn values(&self) -> &PropertyValues {
        &self.values
    }

    /// Returns the peer's capabilities of rtrext-02.
    #[must_use]
    pub const fn capabilities(&self) -> &RtrCapabilities {
        &self.capabilities
    }

    /// Returns the number of announced values that break a rule and were ignored.
    #[must_use]
    pub const fn ignored(&self) -> u32 {
        self.ignored
    }

    /// Returns whether a request to change this property may be sent: the peer has announced it as
    /// changeable (decision D18).
    // spec: xc3-4.1-d, xc3-4.1-h, xc3-4.1-i, xc2-4.1-d, xc2-3-e
    #[must_use]
    pub fn may_change(&self, code: Propid) -> bool {
        bit(code) & self.may_change != 0
    }

    /// Handles a CONNPROP or INITXCH. A second one is ignored. If a property occurs twice, its
    /// first value applies.
    ///
    /// # Errors
    /// A value is malformed; then no value is applied (decision D15 covers the message itself).
    // spec: xc3-2.1-k, xc3-2.1-l, xc3-2.1-m, xc3-2.1-r, xc3-4.1-d, xc3-4.1-h, xc3-4.1-j, xc3-4.1-k
    // spec: xc2-2.1-h, xc2-2.1-i, xc2-2.1-j, xc2-4.1-d, xc2-4.1-h, xc2-4.1-i
    pub fn connected(&mut self, connprop: &Connprop<'_>) -> xdr::Result<()> {
        let mut next = Self {
            announced: true,
            ..Self::with_support(self.support)
        };
        for (position, value) in self.known(&connprop.start).enumerate() {
            let Some(value) = value? else { continue };
            let bit = bit(value.code());
            if next.named & bit != 0 {
                continue;
            }
            next.store(value);
            next.named |= bit;
            if !in_subset(&connprop.nochg, position) {
                next.may_change |= bit;
            }
        }
        if self.announced {
            self.ignored = self.ignored.saturating_add(1);
        } else {
            *self = Self {
                ignored: self.ignored,
                ..next
            };
        }
        Ok(())
    }

    /// Handles an UPDPROP, or an UPDXCH with its single value. Properties that the peer announced
    /// as fixed, or not at all, do not change.
    ///
    /// # Errors
    /// A value is malformed; then no value is applied.
    // spec: xc3-4.4-a, xc3-4.4-c, xc3-2.1-k, xc2-2.1-h, xc2-4.4-a, xc2-4.4-f
    pub fn on_updprop(&mut self, updprop: &Updprop<'_>) -> xdr::Result<()> {
        let mut next = self.clone();
        for value in self.known(&updprop.now) {
            match value? {
                Some(value) if self.may_change(value.code()) => next.store(value),
                Some(_) => next.ignored = next.ignored.saturating_add(1),
                None => {}
            }
        }
        *self = next;
        Ok(())
    }

    /// Applies a requested change that the peer has made (xcharext-03, section 4.3).
    // spec: xc3-4.3-d, xc2-4.3-d
    pub fn on_changed(&mut self, value: BasicProperty) {
        self.store(KnownProperty::Basic(value));
    }

    /// Returns the values of a set in order, with `None` for each unknown property.
    fn known<'a>(
        &self,
        set: &Propvalset<'a>,
    ) -> impl Iterator<Item = xdr::Result<Option<KnownProperty>>> + use<'a> {
        let support = self.support;
        set.iter().map(move |propval| support.read(&propval))
    }

    fn store(&mut self, value: KnownProperty) {
        match value {
            KnownProperty::Basic(BasicProperty::ReceiveBufferSize(size)) => self.size = Some(size),
            KnownProperty::Basic(value) => self.values.set(value),
            KnownProperty::Ability(RtrCapability::Structure(structure)) => {
                self.structure = structure
            }
            KnownProperty::Ability(value) => self.capabilities.set(value),
        }
        self.reconcile_buffer_size();
    }

    /// Reconciles the size and the structure of the receive buffers: if their lengths differ, the
    /// smaller length applies and the structure is ignored.
    // spec: rtr-8.1-i, rtr-8.1-j, rtr-8.3-b, rtr-8.3-c, rtr-8.3-d, rtr-8.3-e
    fn reconcile_buffer_size(&mut self) {
        let of_structure = self.structure.map(|structure| structure.length());
        let least = [self.size, of_structure].into_iter().flatten().min();
        let size = least.unwrap_or(PropertyValues::DEFAULT.receive_buffer_size);
        self.values.receive_buffer_size = size;
        let agrees = self
            .size
            .is_none_or(|advertised| Some(advertised) == of_structure);
        self.capabilities.structure = self
            .structure
            .filter(|one| agrees && *one != BufferStructure::plain(size));
    }
}

#[cfg(test)]
mod tests;
