//! The traits of decodable types, which generated code implements: [`Decode`], and [`Visit`] for
//! some unions. Generated code also calls [`field`].
//!
//! All walks over a value (`decode`, `skip`, `visit`) must accept the same input, and charge the
//! same levels and elements to the decoder. A lazy sequence keeps the bytes that one walk has
//! accepted, and decodes them again without limits and without an error for its user.

use crate::{Decoder, Explanation, Limits, Path, Result, Trace, Wire};

/// A type that can be decoded from XDR. A type with a lifetime borrows from the input.
///
/// ```
/// use xdrgen_runtime::{Decode, Limits, Text};
///
/// let bytes = [0, 0, 0, 1, 0, 0, 0, 2, b'h', b'i', 0, 0, 99];
/// let (value, payload) = <Option<Text<'_, 8>>>::from_prefix(&bytes)?;
/// assert_eq!(value.map(|t| t.as_bytes()), Some(&b"hi"[..]));
/// assert_eq!(payload, [99]);
///
/// let explanation = <[bool; 2]>::explain(&[0, 0, 0, 1, 0, 0, 0, 9], &Limits::DEFAULT);
/// let explanation = explanation.map(|e| e.to_string());
/// assert_eq!(explanation.as_deref(), Some("[1]: boolean is neither 0 nor 1 at byte 4"));
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
pub trait Decode<'a>: Wire + Sized {
    /// Decodes a value at the decoder's position.
    ///
    /// # Errors
    /// Returns any [`ErrorKind`](crate::ErrorKind) that does not concern encoding.
    fn decode(d: &mut Decoder<'a>) -> Result<Self>;

    /// Advances past a value without building it. It must accept exactly the input that
    /// [`decode`](Self::decode) accepts within the same limits: lazy sequences decode what `skip`
    /// has accepted, and [`explain`](Self::explain) calls `skip`. A [`PLAIN`](Wire::PLAIN) type
    /// advances by its length. After an error the trace keeps the path of the wrong item.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    fn skip<T: Trace>(d: &mut Decoder<'a>, trace: &mut T) -> Result<()>;

    /// Decodes `count` consecutive elements of an array into `items`. The caller has charged the
    /// elements to the limit ([`Decoder::charge_elements`]), unless the decoder has none, and may
    /// have reserved `count` times [`MIN`](Wire::MIN) bytes ([`Decoder::reserve_bytes`]). Each
    /// implementation releases these bytes ([`Decoder::release_bytes`]). Types of a fixed size
    /// implement it with one bounds check, so that the compiler can vectorize the loop.
    ///
    /// # Errors
    /// As [`decode`](Self::decode). `items` may have received the elements before the wrong one.
    #[inline(always)]
    fn decode_all(d: &mut Decoder<'a>, count: u32, items: &mut impl Extend<Self>) -> Result<()> {
        for _ in 0..count {
            d.release_bytes(Self::MIN);
            items.extend(Some(d.element::<Self, _>(Self::decode)?));
        }
        Ok(())
    }

    /// Decodes all of `bytes`, with [`Limits::DEFAULT`].
    ///
    /// # Errors
    /// Returns `TrailingBytes` if the value ends before the input, and the errors of
    /// [`decode`](Self::decode).
    #[inline(always)]
    fn from_bytes(bytes: &'a [u8]) -> Result<Self> {
        Self::from_bytes_with(bytes, &Limits::DEFAULT)
    }

    /// Decodes all of `bytes`, within `limits`.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes). `SizeLimit` if `bytes` is longer than
    /// [`Limits::bytes`].
    #[inline(always)]
    fn from_bytes_with(bytes: &'a [u8], limits: &Limits) -> Result<Self> {
        limits.check_len(bytes)?;
        let mut d = Decoder::within(bytes, limits);
        let value = Self::decode(&mut d)?;
        d.finish()?;
        Ok(value)
    }

    /// Decodes a value at the start of `bytes`, such as a header before a payload, with
    /// [`Limits::DEFAULT`]. Returns the value and the rest of `bytes`.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    #[inline(always)]
    fn from_prefix(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        Self::from_prefix_with(bytes, &Limits::DEFAULT)
    }

    /// Decodes a value at the start of `bytes`, within `limits`. Returns the value and the rest of
    /// `bytes`.
    ///
    /// # Errors
    /// As [`decode`](Self::decode). `SizeLimit` if `bytes`, with the rest, is longer than
    /// [`Limits::bytes`].
    #[inline(always)]
    fn from_prefix_with(bytes: &'a [u8], limits: &Limits) -> Result<(Self, &'a [u8])> {
        limits.check_len(bytes)?;
        let mut d = Decoder::within(bytes, limits);
        let value = Self::decode(&mut d)?;
        Ok((value, d.remaining()))
    }

    /// Returns the reason why [`from_bytes_with`](Self::from_bytes_with) fails, with the path of
    /// the field. Returns `None` if it does not fail.
    ///
    /// This is a second pass over the input, for a message that a person reads. It finds the first
    /// wrong item in input order. The offset of this item may be greater than that of the error of
    /// the first pass, and the kind of error may differ: decoding rejects a whole run of fields, or
    /// the count of an owned sequence, as soon as the input is too short for all of it.
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

/// A type whose values are decoded for a visitor: the visitor gets their content, and no value is
/// built. `xdrgen` implements it for unions of which a struct has a sequence. For such a union, it
/// also generates a trait with a method for each arm, which `V` must implement.
pub trait Visit<'a, V: ?Sized>: Decode<'a> {
    /// Decodes a value at the decoder's position, and passes its content to a visitor. It must
    /// accept exactly the input that [`decode`](Decode::decode) accepts, because lazy sequences
    /// rely on that.
    ///
    /// # Errors
    /// As [`decode`](Decode::decode).
    fn visit(d: &mut Decoder<'a>, visitor: &mut V) -> Result<()>;
}

/// Skips one field and reports its name to the trace. Generated code calls it for each field. After
/// an error it does not leave the field: the path in the trace is that of the wrong item.
///
/// # Errors
/// As [`Decode::skip`].
#[inline(always)]
pub fn field<'a, D: Decode<'a>, T: Trace>(
    name: &'static str,
    decoder: &mut Decoder<'a>,
    trace: &mut T,
) -> Result<()> {
    trace.enter(name);
    D::skip(decoder, trace)?;
    trace.leave();
    Ok(())
}

#[cfg(test)]
mod tests;
