//! Converts the owned shape to the borrowed shape.

use alloc::vec::Vec;

use crate::encode::replace_with_encoded;
use crate::{Decode, Decoder, Encode, Result};

/// A type of the owned shape. [`borrow_in`](Self::borrow_in) converts it to the borrowed shape;
/// `From` converts the other way.
///
/// ```
/// use xdrgen_runtime::{Array, Encode, Owned, Result, Sink};
///
/// struct Ids(Vec<u32>);
///
/// impl Encode for Ids {
///     fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> { self.0.encode(sink) }
/// }
/// impl Owned for Ids {
///     type Borrowed<'a> = Array<'a, u32>;
/// }
///
/// let mut buf = Vec::new();
/// let ids = Ids(vec![7, 8]);
/// assert_eq!(ids.borrow_in(&mut buf)?, Array::from(&[7, 8]));
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
pub trait Owned: Encode {
    /// The borrowed shape of this type.
    type Borrowed<'a>: Decode<'a>;

    /// Encodes the value into `buf`, replacing its content, and decodes the result: borrowed
    /// sequences and recursive values need encoded bytes, which the owned shape does not have. No
    /// limits apply, because the value is the caller's.
    ///
    /// # Errors
    /// Returns the errors of [`Encode::encode_to_vec`], and those of [`Decode::decode`] if the two
    /// types have different encodings.
    fn borrow_in<'a>(&self, buf: &'a mut Vec<u8>) -> Result<Self::Borrowed<'a>> {
        replace_with_encoded(self, buf)?;
        let mut d = Decoder::validated(buf, None);
        let borrowed = Self::Borrowed::decode(&mut d)?;
        d.finish()?;
        Ok(borrowed)
    }
}
