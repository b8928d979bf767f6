//! Transport properties (xcharext-03): what is known of a peer's, and what becomes of a request to change them.
//!
//! And transport characteristics (xcharext-02), the form before: [`Knowledge`] says which of the two. Both have the same codes
//! and types; ROPT_INITXCH and ROPT_REQXCH have the octets of ROPT_CONNPROP and ROPT_REQPROP, and are read as those.
//!
//! The three basic properties are here, and the four of rtrext-02 for who uses that. A property of another extension is passed
//! over, as one that nobody knows must be: whoever knows it reads it from the same sets.

mod ability;
mod knowledge;
mod request;
mod response;

use crate::continuation::Abilities;
use crate::placement::Structure;
use crate::v2::properties::{
    Bkreqsup, Connprop, PROP_BRS, PROP_RBSIZ, PROP_REQREMINV, Propid, Propval, Propvalset, Propvalsubset, Updprop,
};
use crate::xdr::{self, Decode};
use knowledge::{Known, bit};

#[cfg(feature = "alloc")]
pub(crate) use ability::ABILITIES;
pub use ability::Ability;
pub use knowledge::Knowledge;
pub use request::{Answer, Decision};
pub use response::{Disposition, characteristic_dispositions, dispositions};

/// A value of a basic property (xcharext-03, section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Basic {
    /// Receive Buffer Size: the least size of receive buffers, in octets.
    ReceiveBufferSize(u32),
    /// Requester Remote Invalidation: whether a responder may reply with Send With Invalidate.
    RemoteInvalidation(bool),
    /// Backward Request Support.
    BackwardSupport(Bkreqsup),
}

impl Basic {
    /// The value in a propval of xcharext-03, where no octets are the default; none if the property is no basic one.
    ///
    /// # Errors
    /// The value is no XDR of the property's type: too short, too long, or no value of it.
    // spec: xc3-2.1-c, xc3-2.1-d, xc3-2.1-e, xc3-2.1-f, xc3-2.1-h, xc3-2.1-i, xc3-2.1-j, xc3-3-e, xc3-3-f, xc3-3-g
    // spec: xc2-2.1-a, xc2-2.1-b, xc2-2.1-e, xc2-2.1-f, xc2-2.1-g
    pub fn of(propval: &Propval<'_>) -> xdr::Result<Option<Self>> {
        Ok(Some(match (propval.which, propval.data.is_empty()) {
            (PROP_RBSIZ, true) => Self::ReceiveBufferSize(Values::DEFAULT.receive_buffer_size),
            (PROP_RBSIZ, false) => Self::ReceiveBufferSize(u32::from_bytes(propval.data)?),
            (PROP_REQREMINV, true) => Self::RemoteInvalidation(Values::DEFAULT.remote_invalidation),
            (PROP_REQREMINV, false) => Self::RemoteInvalidation(bool::from_bytes(propval.data)?),
            (PROP_BRS, true) => Self::BackwardSupport(Values::DEFAULT.backward_support),
            (PROP_BRS, false) => Self::BackwardSupport(Bkreqsup::from_bytes(propval.data)?),
            _ => return Ok(None),
        }))
    }

    /// The property's code.
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
pub struct Values {
    /// The least size of its receive buffers, in octets.
    pub receive_buffer_size: u32,
    /// Whether it takes Send With Invalidate as a requester.
    pub remote_invalidation: bool,
    /// How it takes requests of the backward direction.
    pub backward_support: Bkreqsup,
}

impl Values {
    /// What is assumed of who told nothing (xcharext-03, table 1).
    // spec: xc3-3-d, xc3-3-e, xc3-3-f, xc3-3-g, xc2-3-a, xc2-3-b, xc2-3-c, xc2-3-d
    pub const DEFAULT: Self =
        Self { receive_buffer_size: 4096, remote_invalidation: false, backward_support: Bkreqsup::Inline };

    /// The value of the same property as this one.
    #[must_use]
    pub const fn get(&self, of: Basic) -> Basic {
        match of {
            Basic::ReceiveBufferSize(_) => Basic::ReceiveBufferSize(self.receive_buffer_size),
            Basic::RemoteInvalidation(_) => Basic::RemoteInvalidation(self.remote_invalidation),
            Basic::BackwardSupport(_) => Basic::BackwardSupport(self.backward_support),
        }
    }

    /// Takes over a value.
    pub const fn set(&mut self, value: Basic) {
        match value {
            Basic::ReceiveBufferSize(size) => self.receive_buffer_size = size,
            Basic::RemoteInvalidation(on) => self.remote_invalidation = on,
            Basic::BackwardSupport(support) => self.backward_support = support,
        }
    }
}

impl Default for Values {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Whether a set's subset has the element at `position` (xcharext-03, section 2.1, and decision D17).
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
    subset.get(position / 32).is_some_and(|word| word >> (position % 32) & 1 == 1)
}

/// What is known of a peer's properties.
///
/// ```
/// use rpcrdma_proto::property::{Peer, Values};
/// use rpcrdma_proto::v2::properties::{Connprop, PROP_RBSIZ, Propval};
///
/// let mut peer = Peer::new();
/// assert_eq!(*peer.values(), Values::DEFAULT);
/// let start = [Propval { which: PROP_RBSIZ, data: &[0, 0, 32, 0] }, Propval { which: 99, data: b"who knows" }];
/// peer.connected(&Connprop { start: (&start).into(), nochg: (&[]).into() })?;
/// assert_eq!(peer.values().receive_buffer_size, 8192);
/// # Ok::<(), rpcrdma_proto::xdr::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Peer {
    /// What is known here.
    knowledge: Knowledge,
    values: Values,
    abilities: Abilities,
    /// What it has told of its receive buffers, from which both of the above have theirs.
    size: Option<u32>,
    structure: Option<Structure>,
    /// Whether it has told its properties.
    told: bool,
    /// Properties that it named, and those of them which may change: a bit for each that may be known.
    named: u8,
    may_change: u8,
    /// Values that were told and must not be: of properties that do not change, and a second CONNPROP.
    ignored: u32,
}

impl Peer {
    /// A peer that has told nothing, and of which the basic properties will be known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with other knowledge.
    #[must_use]
    pub fn knowing(knowledge: Knowledge) -> Self {
        Self { knowledge, ..Self::default() }
    }

    /// What is known here.
    #[must_use]
    pub const fn knowledge(&self) -> Knowledge {
        self.knowledge
    }

    /// The values to go by.
    #[must_use]
    pub const fn values(&self) -> &Values {
        &self.values
    }

    /// What it can do of rtrext-02.
    #[must_use]
    pub const fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    /// Values that it told against the rules, and which were ignored.
    #[must_use]
    pub const fn ignored(&self) -> u32 {
        self.ignored
    }

    /// Whether a request to change this property may be sent: it was named, and not as one that stays
    /// (decision D18).
    // spec: xc3-4.1-d, xc3-4.1-h, xc3-4.1-i, xc2-4.1-d, xc2-3-e
    #[must_use]
    pub fn may_change(&self, code: Propid) -> bool {
        bit(code) & self.may_change != 0
    }

    /// Its CONNPROP, or INITXCH, has come. Of a second one nothing is taken over. The first value of a property counts.
    ///
    /// # Errors
    /// A value is malformed; then nothing is taken over (decision D15 says what becomes of the message).
    // spec: xc3-2.1-k, xc3-2.1-l, xc3-2.1-m, xc3-2.1-r, xc3-4.1-d, xc3-4.1-h, xc3-4.1-j, xc3-4.1-k
    // spec: xc2-2.1-h, xc2-2.1-i, xc2-2.1-j, xc2-4.1-d, xc2-4.1-h, xc2-4.1-i
    pub fn connected(&mut self, connprop: &Connprop<'_>) -> xdr::Result<()> {
        let mut next = Self { told: true, ..Self::knowing(self.knowledge) };
        for (position, value) in self.known(&connprop.start).enumerate() {
            let Some(value) = value? else { continue };
            let bit = bit(value.code());
            if next.named & bit != 0 {
                continue;
            }
            next.take(value);
            next.named |= bit;
            if !in_subset(&connprop.nochg, position) {
                next.may_change |= bit;
            }
        }
        if self.told {
            self.ignored = self.ignored.saturating_add(1);
        } else {
            *self = Self { ignored: self.ignored, ..next };
        }
        Ok(())
    }

    /// Its UPDPROP, or UPDXCH with its one value, has come. Properties that it said would not change, or did not name, do not.
    ///
    /// # Errors
    /// A value is malformed; then nothing is taken over.
    // spec: xc3-4.4-a, xc3-4.4-c, xc3-2.1-k, xc2-2.1-h, xc2-4.4-a, xc2-4.4-f
    pub fn updated(&mut self, updprop: &Updprop<'_>) -> xdr::Result<()> {
        let mut next = self.clone();
        for value in self.known(&updprop.now) {
            match value? {
                Some(value) if self.may_change(value.code()) => next.take(value),
                Some(_) => next.ignored = next.ignored.saturating_add(1),
                None => {}
            }
        }
        *self = next;
        Ok(())
    }

    /// A change that was asked for has been made (xcharext-03, section 4.3).
    // spec: xc3-4.3-d, xc2-4.3-d
    pub fn changed(&mut self, value: Basic) {
        self.take(Known::Basic(value));
    }

    /// The values of a set that are known here, in its order; none where the property is another.
    fn known<'a>(&self, set: &Propvalset<'a>) -> impl Iterator<Item = xdr::Result<Option<Known>>> + use<'a> {
        let knowledge = self.knowledge;
        set.iter().map(move |propval| knowledge.read(&propval))
    }

    fn take(&mut self, value: Known) {
        match value {
            Known::Basic(Basic::ReceiveBufferSize(size)) => self.size = Some(size),
            Known::Basic(value) => self.values.set(value),
            Known::Ability(Ability::Structure(structure)) => self.structure = structure,
            Known::Ability(value) => self.abilities.set(value),
        }
        self.agree();
    }

    /// Size and structure of the receive buffers say the same, or the smaller length counts, and no structure.
    // spec: rtr-8.1-i, rtr-8.1-j, rtr-8.3-b, rtr-8.3-c, rtr-8.3-d, rtr-8.3-e
    fn agree(&mut self) {
        let of_structure = self.structure.map(|structure| structure.length());
        let least = [self.size, of_structure].into_iter().flatten().min();
        let size = least.unwrap_or(Values::DEFAULT.receive_buffer_size);
        self.values.receive_buffer_size = size;
        let agrees = self.size.is_none_or(|told| Some(told) == of_structure);
        self.abilities.structure = self.structure.filter(|one| agrees && *one != Structure::plain(size));
    }
}

#[cfg(test)]
mod tests;
