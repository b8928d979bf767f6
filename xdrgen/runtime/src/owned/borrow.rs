//! From the owned shape to the borrowed.

use alloc::vec::Vec;

use super::encode_to;
use crate::{Decode, Decoder, Encode, Result};

/// A type of the owned shape, which can be seen in the borrowed one. The other way is `From`.
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
    /// The same type of XDR in the borrowed shape.
    type Borrowed<'a>: Decode<'a>;

    /// Encodes the value into `buf`, whose contents are replaced, and decodes that: borrowed sequences and recursion lie
    /// in octets, of which the owned shape has none. Without limits, since the value is the caller's own.
    ///
    /// # Errors
    /// Those of [`Encode::encode_to_vec`]; those of [`Decode::decode`] only if the two types are not the same XDR.
    fn borrow_in<'a>(&self, buf: &'a mut Vec<u8>) -> Result<Self::Borrowed<'a>> {
        encode_to(self, buf)?;
        let mut d = Decoder::validated(buf);
        let borrowed = Self::Borrowed::decode(&mut d)?;
        d.finish()?;
        Ok(borrowed)
    }
}
