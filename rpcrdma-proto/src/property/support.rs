//! The properties that an end knows, and the decoding of their values.
//!
//! `CODES` gives each known property a bit. `PeerProperties` and `PropertyResponse` keep sets of
//! these bits in a `u8`, so more than eight properties need a larger type. An unknown property has
//! no bit: it is ignored in an announcement and rejected in a request.

use super::{BasicProperty, RtrCapability};
use crate::v2::properties::{PROP_BRS, PROP_RBSIZ, PROP_REQREMINV, Propid, Propval};
use crate::v2::rtr::{XPROP_RBSTRUCT, XPROP_REQRXLIM, XPROP_RESPSXLIM, XPROP_RTRSUPP};
use crate::xdr::{self, ErrorKind};

/// The properties that one end knows. It always knows the three basic ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PropertySupport {
    /// Whether it also knows the four properties of rtrext-02.
    pub rtr: bool,
    /// Whether an empty value stands for the default, as in xcharext-03. In xcharext-02 it is an
    /// error (decision D5).
    pub empty_is_default: bool,
}

impl PropertySupport {
    /// Transport properties (xcharext-03), without those of rtrext-02.
    pub const PROPERTIES: Self = Self {
        rtr: false,
        empty_is_default: true,
    };
    /// Transport characteristics (xcharext-02), without the properties of rtrext-02.
    pub const CHARACTERISTICS: Self = Self {
        empty_is_default: false,
        ..Self::PROPERTIES
    };

    /// Decodes a propval; returns `None` if the property is unknown.
    // spec: xc2-2.1-a, xc2-2.1-b, xc2-2.1-c, xc2-2.1-e, xc2-2.1-f, xc2-2.1-g
    pub(super) fn read(self, propval: &Propval<'_>) -> xdr::Result<Option<KnownProperty>> {
        let known = match BasicProperty::from_propval(propval)? {
            Some(value) => Some(KnownProperty::Basic(value)),
            None if self.rtr => RtrCapability::from_propval(propval)?.map(KnownProperty::Ability),
            None => None,
        };
        // None of their types has an empty encoding.
        if known.is_some() && propval.data.is_empty() && !self.empty_is_default {
            return Err(xdr::Error::new(ErrorKind::UnexpectedEnd, 0));
        }
        Ok(known)
    }
}

impl Default for PropertySupport {
    fn default() -> Self {
        Self::PROPERTIES
    }
}

/// A value of a known property.
#[derive(Clone, Copy)]
pub(super) enum KnownProperty {
    Basic(BasicProperty),
    Ability(RtrCapability),
}

impl KnownProperty {
    pub(super) const fn code(&self) -> Propid {
        match self {
            Self::Basic(value) => value.code(),
            Self::Ability(value) => value.code(),
        }
    }
}

/// All properties that an end may know, in the order of their bits.
pub(super) const CODES: [Propid; 7] = [
    PROP_RBSIZ,
    PROP_REQREMINV,
    PROP_BRS,
    XPROP_RTRSUPP,
    XPROP_RBSTRUCT,
    XPROP_REQRXLIM,
    XPROP_RESPSXLIM,
];

pub(super) fn bit(code: Propid) -> u8 {
    CODES
        .iter()
        .position(|known| *known == code)
        .map_or(0, |at| 1 << at)
}

#[cfg(test)]
mod tests;
