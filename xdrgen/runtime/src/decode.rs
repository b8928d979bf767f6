//! The trait of what can be decoded.

use crate::{Decoder, Explanation, Limits, Path, Result, Trace, Wire};

/// A type which can be decoded from XDR, borrowing from the octets where it has a lifetime.
///
/// ```
/// use xdrgen_runtime::{Decode, Limits, Text};
///
/// let octets = [0, 0, 0, 1, 0, 0, 0, 2, b'h', b'i', 0, 0, 99];
/// let (value, payload) = <Option<Text<'_, 8>>>::from_prefix(&octets)?;
/// assert_eq!(value.map(|t| t.as_bytes()), Some(&b"hi"[..]));
/// assert_eq!(payload, [99]);
///
/// let explanation = <[bool; 2]>::explain(&[0, 0, 0, 1, 0, 0, 0, 9], &Limits::DEFAULT);
/// let explanation = explanation.map(|e| e.to_string());
/// assert_eq!(explanation.as_deref(), Some("[1]: boolean is neither 0 nor 1 at octet 4"));
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
pub trait Decode<'a>: Wire + Sized {
    /// Decodes a value from where the decoder stands.
    ///
    /// # Errors
    /// Any kind of [`ErrorKind`](crate::ErrorKind) which is not about encoding.
    fn decode(d: &mut Decoder<'a>) -> Result<Self>;

    /// Passes a value without building it, and accepts exactly what [`decode`](Self::decode) accepts: lazy sequences
    /// rely on that. A [`PLAIN`](Wire::PLAIN) type advances by its length.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    fn skip<T: Trace>(d: &mut Decoder<'a>, trace: &mut T) -> Result<()>;

    /// Decodes `count` elements of an array, one after the other, into `items`. What they cost of the budgets has been
    /// charged, but for [`Decoder::pay`], which this calls. Types of fixed size do it under one bounds check, which leaves
    /// the compiler a loop it can vectorize.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    #[inline(always)]
    fn decode_all(d: &mut Decoder<'a>, count: u32, items: &mut impl Extend<Self>) -> Result<()> {
        for _ in 0..count {
            d.pay(Self::MIN);
            items.extend(Some(d.element::<Self, _>(Self::decode)?));
        }
        Ok(())
    }

    /// Decodes the whole of `bytes`, with [`Limits::DEFAULT`].
    ///
    /// # Errors
    /// `TrailingBytes` if the value ends before the input; those of [`decode`](Self::decode).
    #[inline(always)]
    fn from_bytes(bytes: &'a [u8]) -> Result<Self> {
        Self::from_bytes_with(bytes, &Limits::DEFAULT)
    }

    /// Decodes the whole of `bytes`, with the limits given.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes).
    #[inline(always)]
    fn from_bytes_with(bytes: &'a [u8], limits: &Limits) -> Result<Self> {
        limits.admit(bytes)?;
        let mut d = Decoder::within(bytes, limits);
        let value = Self::decode(&mut d)?;
        d.finish()?;
        Ok(value)
    }

    /// Decodes the beginning of `bytes`, with [`Limits::DEFAULT`], and returns the rest: a header before a payload.
    ///
    /// # Errors
    /// Those of [`decode`](Self::decode).
    #[inline(always)]
    fn from_prefix(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        Self::from_prefix_with(bytes, &Limits::DEFAULT)
    }

    /// Decodes the beginning of `bytes`, with the limits given, and returns the rest.
    ///
    /// # Errors
    /// Those of [`decode`](Self::decode).
    #[inline(always)]
    fn from_prefix_with(bytes: &'a [u8], limits: &Limits) -> Result<(Self, &'a [u8])> {
        limits.admit(bytes)?;
        let mut d = Decoder::within(bytes, limits);
        let value = Self::decode(&mut d)?;
        Ok((value, d.remaining()))
    }

    /// Why [`from_bytes_with`](Self::from_bytes_with) fails, with the path of the field; `None` if it does not fail.
    ///
    /// A second pass, for when the first has failed and someone will read why. It names the first wrong item in the
    /// order of the octets, so its offset may lie after that of the error which it explains, and what it names
    /// may be another fault: decoding gives up on a whole run of fields, or an owned form on a count, as soon as input is
    /// known to be too short for all of it.
    #[cold]
    fn explain(bytes: &'a [u8], limits: &Limits) -> Option<Explanation> {
        let mut path = Path::new();
        let walk = Decoder::with_limits(bytes, limits).and_then(|mut d| {
            Self::skip(&mut d, &mut path)?;
            d.finish()
        });
        Some(Explanation::new(path, walk.err()?))
    }
}

#[cfg(test)]
mod tests;
