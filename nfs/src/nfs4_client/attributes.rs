//! File attributes with values of a fixed size (RFC 8881, section 5).
//!
//! Values have no lengths, so `MASK`, `MAX_VALUES` and the order in `Values::all` must agree: an
//! attribute is added to all three. `files` and `opening` request `MASK`, and size their replies by
//! `MAX_VALUES`. `delegations` encodes the results of CB_GETATTR by this module.

use oncrpc::xdr::{Decode, Error as XdrError};

use super::error::{Nfs4Error, Nfs4Fault};
use crate::nfs4::{
    FATTR4_CHANGE, FATTR4_FILEID, FATTR4_LEASE_TIME, FATTR4_MAXREAD, FATTR4_MAXWRITE, FATTR4_MODE,
    FATTR4_NUMLINKS, FATTR4_SIZE, FATTR4_TYPE, Fattr4, NfsFtype4, NfsOpnum4, owned,
};

/// The attributes of an object that the server supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Nfs4Attributes {
    /// The type of the object.
    pub kind: Option<NfsFtype4>,
    /// A number that changes with the object.
    pub change: Option<u64>,
    /// The size of the file in bytes.
    pub size: Option<u64>,
    /// The lease time of the server in seconds.
    pub lease_time: Option<u32>,
    /// The fileid of the object in its file system.
    pub fileid: Option<u64>,
    /// The maximum bytes of a READ.
    pub maxread: Option<u64>,
    /// The maximum bytes of a WRITE.
    pub maxwrite: Option<u64>,
    /// The permission bits.
    pub mode: Option<u32>,
    /// The number of names of the object.
    pub numlinks: Option<u32>,
}

/// The attributes that [`Nfs4Attributes`] contains.
pub(super) const MASK: [u32; 2] = [
    bit(FATTR4_TYPE)
        | bit(FATTR4_CHANGE)
        | bit(FATTR4_SIZE)
        | bit(FATTR4_LEASE_TIME)
        | bit(FATTR4_FILEID)
        | bit(FATTR4_MAXREAD)
        | bit(FATTR4_MAXWRITE),
    bit(FATTR4_MODE) | bit(FATTR4_NUMLINKS),
];

/// The maximum bytes of their values.
pub(super) const MAX_VALUES: u32 = 56;

const fn bit(attribute: u32) -> u32 {
    1 << (attribute % 32)
}

impl Nfs4Attributes {
    /// Decodes attributes, which are encoded in the order of their numbers.
    pub(super) fn decode(fattr: &owned::Fattr4) -> Result<Self, Nfs4Error> {
        let fault = || Nfs4Error::fault(NfsOpnum4::Getattr, Nfs4Fault::Attributes);
        let is_unknown = |(at, word): (usize, &u32)| word & !MASK.get(at).unwrap_or(&0) != 0;
        if fattr.attrmask.iter().enumerate().any(is_unknown) {
            return Err(fault());
        }
        let mut values = Values {
            mask: &fattr.attrmask,
            rest: &fattr.attr_vals,
        };
        let attributes = values.all().map_err(|_| fault())?;
        match values.rest.is_empty() {
            true => Ok(attributes),
            false => Err(fault()),
        }
    }
}

struct Values<'a> {
    mask: &'a [u32],
    rest: &'a [u8],
}

impl<'a> Values<'a> {
    fn all(&mut self) -> Result<Nfs4Attributes, XdrError> {
        Ok(Nfs4Attributes {
            kind: self.next(FATTR4_TYPE)?,
            change: self.next(FATTR4_CHANGE)?,
            size: self.next(FATTR4_SIZE)?,
            lease_time: self.next(FATTR4_LEASE_TIME)?,
            fileid: self.next(FATTR4_FILEID)?,
            maxread: self.next(FATTR4_MAXREAD)?,
            maxwrite: self.next(FATTR4_MAXWRITE)?,
            mode: self.next(FATTR4_MODE)?,
            numlinks: self.next(FATTR4_NUMLINKS)?,
        })
    }

    fn next<T: Decode<'a>>(&mut self, attribute: u32) -> Result<Option<T>, XdrError> {
        let word = self.mask.get((attribute / 32) as usize);
        if word.is_none_or(|word| word & bit(attribute) == 0) {
            return Ok(None);
        }
        let (value, rest) = T::from_prefix(self.rest)?;
        self.rest = rest;
        Ok(Some(value))
    }
}

/// Attributes to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Nfs4SetAttributes {
    /// The size of the file in bytes.
    pub size: Option<u64>,
    /// The permission bits.
    pub mode: Option<u32>,
}

/// Encodes those of the two attributes that are requested and known, for CB_GETATTR. `requested` is
/// the first word of the bitmap.
pub(super) fn change_and_size(
    requested: u32,
    change: Option<u64>,
    size: Option<u64>,
) -> owned::Fattr4 {
    let (mut mask, mut attr_vals) = (0, Vec::new());
    for (attribute, value) in [(FATTR4_CHANGE, change), (FATTR4_SIZE, size)] {
        if let Some(value) = value.filter(|_| requested & bit(attribute) != 0) {
            mask |= bit(attribute);
            attr_vals.extend(value.to_be_bytes());
        }
    }
    owned::Fattr4 {
        attrmask: vec![mask],
        attr_vals,
    }
}

/// Returns the size among attributes to set. It is the first of those that can be set.
pub(super) fn size_of(set: &Fattr4<'_>) -> Option<u64> {
    let mask = set.attrmask.iter().next()?;
    let first = 1_u32 << mask.trailing_zeros().min(31);
    let (size, _) = set.attr_vals.split_first_chunk()?;
    (mask & first == bit(FATTR4_SIZE)).then(|| u64::from_be_bytes(*size))
}

/// Attributes to set, encoded.
pub(super) struct EncodedAttributes {
    mask: [u32; 2],
    values: Vec<u8>,
}

impl Nfs4SetAttributes {
    pub(super) fn encode(&self) -> EncodedAttributes {
        let mut encoded = EncodedAttributes {
            mask: [0; 2],
            values: Vec::new(),
        };
        if let Some(size) = self.size {
            encoded.mask[0] |= bit(FATTR4_SIZE);
            encoded.values.extend(size.to_be_bytes());
        }
        if let Some(mode) = self.mode {
            encoded.mask[1] |= bit(FATTR4_MODE);
            encoded.values.extend(mode.to_be_bytes());
        }
        encoded
    }
}

impl EncodedAttributes {
    pub(super) fn as_args(&self) -> Fattr4<'_> {
        Fattr4 {
            attrmask: (&self.mask).into(),
            attr_vals: &self.values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fattr(attrmask: Vec<u32>, attr_vals: Vec<u8>) -> owned::Fattr4 {
        owned::Fattr4 {
            attrmask,
            attr_vals,
        }
    }

    #[test]
    fn attributes_are_decoded_in_numeric_order() {
        // Section 5: type 1, change 3, size 4, fileid 20; mode 33 is bit 1 of the second word.
        let mask = vec![1 << 1 | 1 << 3 | 1 << 4 | 1 << 20, 1 << 1];
        let mut values = 1_u32.to_be_bytes().to_vec();
        for value in [7_u64, 8, 9] {
            values.extend(value.to_be_bytes());
        }
        values.extend(0o640_u32.to_be_bytes());
        let found = Nfs4Attributes::decode(&fattr(mask, values)).unwrap();
        let expected = Nfs4Attributes {
            kind: Some(NfsFtype4::Reg),
            change: Some(7),
            size: Some(8),
            fileid: Some(9),
            mode: Some(0o640),
            ..Nfs4Attributes::default()
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn the_size_is_found_among_attributes_to_set() {
        let set = |size, mode| {
            let encoded = Nfs4SetAttributes { size, mode }.encode();
            size_of(&encoded.as_args())
        };
        assert_eq!(set(Some(7), Some(0o600)), Some(7));
        assert_eq!(set(Some(0), None), Some(0));
        assert_eq!(set(None, Some(0o600)), None);
        assert_eq!(set(None, None), None);
        let args = |mask: &'static [u32], attr_vals| Fattr4 {
            attrmask: mask.into(),
            attr_vals,
        };
        // Attributes that no client sets, and a value that is too short.
        assert_eq!(size_of(&args(&[1 << 3 | 1 << 4], &[0; 16])), None);
        assert_eq!(size_of(&args(&[1 << 4], &[0; 7])), None);
        assert_eq!(size_of(&args(&[], &[0; 8])), None);
    }

    #[test]
    fn unexpected_attributes_and_lengths_are_faults() {
        let size = 1 << 4;
        for (mask, values) in [
            (vec![size | 1 << 5], vec![0; 12]),
            (vec![size], vec![0; 7]),
            (vec![size], vec![0; 12]),
            (vec![0, 0, 1], vec![0; 4]),
        ] {
            assert!(Nfs4Attributes::decode(&fattr(mask, values)).is_err());
        }
        assert!(Nfs4Attributes::decode(&fattr(vec![], vec![])).is_ok());
    }
}
