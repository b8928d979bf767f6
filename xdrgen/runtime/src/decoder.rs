//! The decoder: a cursor over octets which checks everything it passes.

use crate::wire::padding;
use crate::{Error, ErrorKind, Fixed, Limits, Result, Wire, vector};

/// A cursor over the octets of one input.
///
/// Every method either moves past what it returns, or fails with the offset of the item which was wrong. After an error
/// the decoder is spent: where it stands and what is left of its budgets is unspecified (but never unsound).
///
/// ```
/// use xdrgen_runtime::{Decoder, ErrorKind};
///
/// let mut d = Decoder::new(&[0, 0, 0, 7, 0, 0, 0, 2]);
/// assert_eq!(d.u32()?, 7);
/// let error = d.bool().unwrap_err();
/// assert_eq!((error.kind(), error.offset()), (ErrorKind::InvalidBool, 4));
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    /// What has not been passed.
    rest: &'a [u8],
    /// Octets of the whole input.
    len: usize,
    /// Levels which may still be entered.
    depth: u32,
    /// Elements which may still come.
    elements: u32,
    /// Octets which the elements still to come of sequences already begun need at least.
    owed: usize,
}

/// Beginning and ending.
impl<'a> Decoder<'a> {
    /// A decoder with [`Limits::DEFAULT`]. Never fails: an input too long for offsets of 32 bits is decoded all the same,
    /// with offsets in errors told as `u32::MAX` from there on; [`Decoder::with_limits`] refuses it.
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::budgeted(bytes, Limits::DEFAULT.depth, Limits::DEFAULT.elements)
    }

    /// A decoder with the limits given.
    ///
    /// # Errors
    /// `SizeLimit` if `bytes` is longer than [`Limits::octets`], at the first octet too many.
    #[inline]
    pub fn with_limits(bytes: &'a [u8], limits: &Limits) -> Result<Self> {
        limits.admit(bytes)?;
        Ok(Self::within(bytes, limits))
    }

    /// A decoder of octets which the limits have admitted. No result: one would take the decoder through memory.
    #[inline(always)]
    pub(crate) fn within(bytes: &'a [u8], limits: &Limits) -> Self {
        Self::budgeted(bytes, limits.depth, limits.elements)
    }

    /// A decoder of octets which have been validated within the limits of their time: budgets would only be charged for
    /// the same again, starting higher than then, and so can't run out.
    #[inline(always)]
    pub(crate) fn validated(bytes: &'a [u8]) -> Self {
        Self::budgeted(bytes, u32::MAX, u32::MAX)
    }

    #[inline(always)]
    fn budgeted(bytes: &'a [u8], depth: u32, elements: u32) -> Self {
        Self { rest: bytes, len: bytes.len(), depth, elements, owed: 0 }
    }

    /// Octets passed so far.
    #[inline(always)]
    pub fn offset(&self) -> usize {
        self.len - self.rest.len()
    }

    /// Octets not passed yet.
    #[inline(always)]
    pub fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    /// Ends the decode.
    ///
    /// # Errors
    /// `TrailingBytes` if any octets remain, at the first of them.
    #[inline(always)]
    pub fn finish(self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(self.error(ErrorKind::TrailingBytes))
    }
}

/// Items.
impl<'a> Decoder<'a> {
    /// The next `N` octets.
    ///
    /// # Errors
    /// `UnexpectedEnd`.
    #[inline(always)]
    pub fn fixed<const N: usize>(&mut self) -> Result<&'a [u8; N]> {
        match self.rest.split_first_chunk() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.error(ErrorKind::UnexpectedEnd)),
        }
    }

    /// The next `n` octets, without padding.
    ///
    /// # Errors
    /// `UnexpectedEnd`.
    #[inline(always)]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(n) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.error(ErrorKind::UnexpectedEnd)),
        }
    }

    /// Passes `n` octets.
    ///
    /// # Errors
    /// `UnexpectedEnd`.
    #[inline(always)]
    pub fn advance(&mut self, n: usize) -> Result<()> {
        self.take(n).map(|_| ())
    }

    /// The next `n` octets, and past their padding (RFC 4506, sections 3 and 4.9).
    ///
    /// # Errors
    /// `UnexpectedEnd`; `InvalidPadding` at the padding, if any of it is not zero.
    #[inline(always)]
    pub fn padded(&mut self, n: usize) -> Result<&'a [u8]> {
        let body = self.take(n)?;
        self.padding_of(n)?;
        Ok(body)
    }

    /// The padding of an item of `n` octets which has just been passed.
    #[inline(always)]
    pub(crate) fn padding_of(&mut self, n: usize) -> Result<()> {
        let zeros = self.take(padding(n))?;
        if zeros.iter().any(|&octet| octet != 0) {
            return Err(self.error_before(ErrorKind::InvalidPadding, zeros.len()));
        }
        Ok(())
    }

    /// A count or length, which stands before a variable-length item (RFC 4506, sections 4.10 to 4.13).
    ///
    /// # Errors
    /// `TooLong` at the count, if it exceeds `max`; `UnexpectedEnd`.
    #[inline(always)]
    pub fn length(&mut self, max: u32) -> Result<u32> {
        let count = self.u32()?;
        if count > max {
            return Err(self.error_before(ErrorKind::TooLong, 4));
        }
        Ok(count)
    }

    /// A boolean (RFC 4506, section 4.4).
    ///
    /// # Errors
    /// `InvalidBool`, if it is neither 0 nor 1; `UnexpectedEnd`.
    #[inline(always)]
    pub fn bool(&mut self) -> Result<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.error_before(ErrorKind::InvalidBool, 4)),
        }
    }

    /// The octets passed since those which remained were `before`; none, if these are of another input.
    #[inline(always)]
    pub fn passed_since(&self, before: &'a [u8]) -> &'a [u8] {
        let passed = before.len().saturating_sub(self.rest.len());
        before.get(..passed).unwrap_or_default()
    }
}

/// Numbers, big-endian.
macro_rules! numbers {
    ($($name:ident $what:literal $section:literal;)*) => {
        /// Numbers.
        impl Decoder<'_> {$(
            #[doc = concat!($what, " (RFC 4506, section ", $section, ").")]
            ///
            /// # Errors
            /// `UnexpectedEnd`.
            #[inline(always)]
            pub fn $name(&mut self) -> Result<$name> {
                self.fixed().map(|octets| $name::from_be_bytes(*octets))
            }
        )*}
    };
}
numbers! {
    u32 "An unsigned integer" "4.2";
    i32 "An integer" "4.1";
    u64 "An unsigned hyper integer" "4.5";
    i64 "A hyper integer" "4.5";
    f32 "A float; a NaN keeps its bits" "4.6";
    f64 "A double; a NaN keeps its bits" "4.7";
}

/// The most elements of an array whose elements may take no octets at all.
const MOST_WITHOUT_OCTETS: u32 = 1 << 16;

/// Budgets.
impl Decoder<'_> {
    /// Charges `count` elements of a variable-length sequence.
    ///
    /// # Errors
    /// `ElementLimit`, if there would be more than [`Limits::elements`].
    #[inline(always)]
    pub fn elements(&mut self, count: u32) -> Result<()> {
        match self.elements.checked_sub(count) {
            Some(left) => {
                self.elements = left;
                Ok(())
            }
            None => Err(self.error(ErrorKind::ElementLimit)),
        }
    }

    /// Charges the elements of an array. Of elements without octets no input has to pay for a claimed number, so they have
    /// a bound of their own.
    #[inline(always)]
    pub(crate) fn array_of<T: Wire>(&mut self, count: u32) -> Result<()> {
        if T::MIN == 0 && count > MOST_WITHOUT_OCTETS {
            return Err(self.error(ErrorKind::ElementLimit));
        }
        self.elements(count)
    }

    /// Runs `f` one level deeper.
    ///
    /// # Errors
    /// `DepthLimit`, if more than [`Limits::depth`] levels would be open; those of `f`.
    #[inline(always)]
    pub fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = self.depth;
        match before.checked_sub(1) {
            Some(left) => self.depth = left,
            None => return Err(self.error(ErrorKind::DepthLimit)),
        }
        let value = f(self);
        self.depth = before;
        value
    }

    /// Runs `f` on one element of a variable-length sequence, one level deeper unless elements are plain: a type may hold
    /// a sequence of itself without any box, and plain elements hold nothing.
    #[inline(always)]
    pub(crate) fn element<W: Wire, T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if W::PLAIN { f(self) } else { self.nested(f) }
    }

    /// Begins an owned sequence of `count` elements with at least `min` octets each; call [`pay`](Self::pay) before each.
    ///
    /// Memory for `count` elements may be reserved if this succeeds. That is what makes one exact allocation for each
    /// sequence safe: `owed` is what the elements not yet begun, of all open sequences, need at least. It never exceeds
    /// the input, because only octets which remain and are not owed already can be added to it. So the elements reserved
    /// and not begun are at most `owed / min`, those begun have had their `min` octets paid for by input that they pass,
    /// and everything held at any time is at most twice the input, times the greatest ratio of a type's size in memory
    /// to its `MIN`. Counts nested in counts can't multiply: the inner ones must fit in what the outer ones leave.
    ///
    /// # Errors
    /// `UnexpectedEnd` where the first element would begin, if the octets which remain and are not owed to other
    /// elements are fewer than `count * min`.
    #[inline]
    pub fn owe(&mut self, count: u32, min: usize) -> Result<()> {
        let free = self.rest.len().saturating_sub(self.owed);
        match (count as usize).checked_mul(min) {
            Some(octets) if octets <= free => {
                self.owed = self.owed.saturating_add(octets);
                Ok(())
            }
            _ => Err(self.error(ErrorKind::UnexpectedEnd)),
        }
    }

    /// Decodes `count` elements of a fixed size; for [`Decode::decode_all`](crate::Decode::decode_all) of such types.
    ///
    /// # Errors
    /// `UnexpectedEnd`.
    #[inline(always)]
    pub fn fixed_all<const N: usize, T: Fixed<N>>(&mut self, count: u32, items: &mut impl Extend<T>) -> Result<()> {
        const { assert!(N > 0, "elements without octets") };
        // A product beyond `usize` is beyond any input, too.
        let octets = (count as usize).saturating_mul(N);
        self.pay(octets);
        let elements = self.take(octets)?.as_chunks().0;
        vector::over::<N, _>(
            octets,
            #[inline(always)]
            || items.extend(elements.iter().map(T::read)),
        );
        Ok(())
    }

    /// Begins an element of a sequence which [`owe`](Self::owe) began with the same `min`: its octets are no longer owed.
    #[inline(always)]
    pub fn pay(&mut self, min: usize) {
        self.owed = self.owed.saturating_sub(min);
    }
}

/// Errors.
impl Decoder<'_> {
    /// An error here: at the next octet.
    #[inline(always)]
    pub fn error(&self, kind: ErrorKind) -> Error {
        Error::at(kind, self.offset())
    }

    /// An error at the item of `octets` octets which has just been passed.
    #[inline(always)]
    pub fn error_before(&self, kind: ErrorKind, octets: usize) -> Error {
        Error::at(kind, self.offset().saturating_sub(octets))
    }

    /// An error at `offset` octets from the beginning of the input.
    #[inline(always)]
    pub fn error_at(&self, kind: ErrorKind, offset: usize) -> Error {
        Error::at(kind, offset)
    }
}

#[cfg(test)]
mod tests;
