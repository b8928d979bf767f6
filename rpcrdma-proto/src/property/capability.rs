//! The four properties of rtrext-02 (section 8), which announce an end's support of messages in
//! several transmissions.
//!
//! This module decodes and encodes the values. `PeerProperties` reconciles the structure with the
//! Receive Buffer Size, and `connection::rtr::extension` decides what the announced values allow.

use arrayvec::ArrayVec;

use crate::continuation::{OperationSet, RtrCapabilities};
use crate::placement::{BufferStructure, MAX_BUFFER_SEGMENTS};
use crate::v2::properties::{Propid, Propval};
use crate::v2::rtr::{Buf, Group, XPROP_RBSTRUCT, XPROP_REQRXLIM, XPROP_RESPSXLIM, XPROP_RTRSUPP};
use crate::xdr::{self, Decode, Encode, ErrorKind, Wire};

/// A value of a property of rtrext-02.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RtrCapability {
    /// RTR Support.
    Operations(OperationSet),
    /// Receive Buffer Structure; `None` for one plain segment of the Receive Buffer Size.
    Structure(Option<BufferStructure>),
    /// Request Transmission Receive Limit, at least 1.
    RequestLimit(u32),
    /// Response Transmission Send Limit, at least 1.
    ResponseLimit(u32),
}

/// The maximum encoded size of a structure in bytes.
const MAX_STRUCTURE_LEN: usize =
    <Buf<'_> as Wire>::MIN + MAX_BUFFER_SEGMENTS * <Group as Wire>::MIN;

/// The number of these properties.
pub(crate) const CAPABILITIES: usize = 4;

impl RtrCapability {
    /// Decodes a propval; returns `None` if the property is not of rtrext-02. An empty value stands
    /// for the default, which for RTR Support is no operation: a peer that announces it is not
    /// probed.
    ///
    /// # Errors
    /// The value does not decode as the property's type, or is invalid: a structure whose length is
    /// not the sum of its groups' lengths (decision D21) is `TooLong`, and a limit of zero
    /// transmissions is `InvalidEnum`.
    // spec: rtr-8.1-a, rtr-8.1-b, rtr-8.1-c, rtr-8.1-e, rtr-8.1-f, rtr-8.1-g, rtr-8.1-h
    pub fn from_propval(propval: &Propval<'_>) -> xdr::Result<Option<Self>> {
        Ok(Some(match (propval.which, propval.data) {
            (XPROP_RTRSUPP, []) => Self::Operations(OperationSet::NONE),
            (XPROP_RTRSUPP, data) => {
                Self::Operations(OperationSet::from_bits(u32::from_bytes(data)?))
            }
            (XPROP_RBSTRUCT, []) => Self::Structure(None),
            (XPROP_RBSTRUCT, data) => {
                let structures = BufferStructure::from_xdr(&Buf::from_bytes(data)?);
                Self::Structure(Some(
                    structures.map_err(|_| xdr::Error::new(ErrorKind::TooLong, 0))?,
                ))
            }
            (XPROP_REQRXLIM, data) => {
                Self::RequestLimit(limit(data, RtrCapabilities::DEFAULT.request_limit)?)
            }
            (XPROP_RESPSXLIM, data) => {
                Self::ResponseLimit(limit(data, RtrCapabilities::DEFAULT.response_limit)?)
            }
            _ => return Ok(None),
        }))
    }

    /// Returns the code of the property.
    #[must_use]
    pub const fn code(&self) -> Propid {
        match self {
            Self::Operations(_) => XPROP_RTRSUPP,
            Self::Structure(_) => XPROP_RBSTRUCT,
            Self::RequestLimit(_) => XPROP_REQRXLIM,
            Self::ResponseLimit(_) => XPROP_RESPSXLIM,
        }
    }
}

/// Decodes a limit of transmissions, which is at least 1.
fn limit(data: &[u8], default: u32) -> xdr::Result<u32> {
    if data.is_empty() {
        return Ok(default);
    }
    match u32::from_bytes(data)? {
        0 => Err(xdr::Error::new(ErrorKind::InvalidEnum, 0)),
        limit => Ok(limit),
    }
}

impl RtrCapabilities {
    /// Applies a value.
    pub const fn set(&mut self, value: RtrCapability) {
        match value {
            RtrCapability::Operations(operations) => self.operations = Some(operations),
            RtrCapability::Structure(structure) => self.structure = structure,
            RtrCapability::RequestLimit(limit) => self.request_limit = limit,
            RtrCapability::ResponseLimit(limit) => self.response_limit = limit,
        }
    }

    /// Passes them to `f` as propvals. A structure of one plain segment is left out: it is the
    /// default, and may grow with the Receive Buffer Size.
    // spec: rtr-8.1-a, rtr-8.1-b, rtr-8.1-c, rtr-8.3-a
    pub fn with_xdr<R>(&self, f: impl FnOnce(&[Propval<'_>]) -> R) -> R {
        let support = self
            .operations
            .map(|operations| operations.bits().to_be_bytes());
        let limits = [self.request_limit, self.response_limit].map(u32::to_be_bytes);
        let mut place = [0; MAX_STRUCTURE_LEN];
        let bytes = self.structure.and_then(|structure| {
            structure
                .with_xdr(|buf| buf.encode_to_slice(&mut place))
                .ok()
        });
        let structure = bytes.and_then(|bytes| place.get(..bytes));
        let all: [(Propid, Option<&[u8]>); CAPABILITIES] = [
            (XPROP_RTRSUPP, support.as_ref().map(<[u8; 4]>::as_slice)),
            (XPROP_RBSTRUCT, structure),
            (XPROP_REQRXLIM, Some(&limits[0])),
            (XPROP_RESPSXLIM, Some(&limits[1])),
        ];
        let structures = all
            .into_iter()
            .filter_map(|(which, data)| Some(Propval { which, data: data? }));
        f(&structures.collect::<ArrayVec<_, CAPABILITIES>>())
    }
}

#[cfg(test)]
mod tests;
