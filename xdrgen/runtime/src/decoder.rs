//! The decoder: a cursor over the input that checks every item, and the budgets of one decode:
//! levels, elements and reserved bytes. `limits` has their initial values, and `item_list` finds
//! the items that are not in the stream.
//!
//! All walks over the same input (`decode`, `skip`, `decode_each`, `visit_each`) must charge the
//! same elements and levels: [`Decoder::validated`] has no limits, because an earlier walk has
//! charged them. `xdrgen-build` charges in the same way in `value::decode` and `dissector.lua`.

use crate::wire::padding;
use crate::{Error, ErrorKind, Fixed, Item, Limits, Result, Wire, vector};

/// The items of a message that are not in its stream.
#[cfg(feature = "alloc")]
pub(crate) type Items<'a> = Option<&'a crate::ItemList<'a>>;
/// Without an allocator there are no such items.
#[cfg(not(feature = "alloc"))]
pub(crate) type Items<'a> = core::marker::PhantomData<&'a ()>;

/// A cursor over the bytes of one input.
///
/// Each method either advances past the item that it returns, or fails with the offset of the wrong
/// item. After an error the position and the remaining budgets are unspecified (but never unsound).
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
    /// The input that remains.
    rest: &'a [u8],
    /// The length of the whole input in bytes.
    len: usize,
    /// The number of levels that may still be entered.
    depth: u32,
    /// The number of elements that may still be decoded.
    elements: u32,
    /// The minimum number of bytes for the elements, not yet begun, of open sequences.
    reserved: usize,
    items: Items<'a>,
}

/// Construction and end.
impl<'a> Decoder<'a> {
    /// Creates a decoder with [`Limits::DEFAULT`]. It accepts input that is too long for 32-bit
    /// offsets; errors beyond `u32::MAX` have the offset `u32::MAX`. [`Decoder::with_limits`]
    /// rejects such input.
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::budgeted(bytes, Limits::DEFAULT.depth, Limits::DEFAULT.elements)
    }

    /// Creates a decoder with limits.
    ///
    /// # Errors
    /// Returns `SizeLimit`, with the offset of the first excess byte, if `bytes` is longer than
    /// [`Limits::bytes`].
    #[inline]
    pub fn with_limits(bytes: &'a [u8], limits: &Limits) -> Result<Self> {
        limits.check_len(bytes)?;
        Ok(Self::within(bytes, limits))
    }

    /// Creates a decoder of input whose length was checked. It returns no `Result`, which would
    /// move the decoder through memory.
    #[inline(always)]
    pub(crate) fn within(bytes: &'a [u8], limits: &Limits) -> Self {
        Self::budgeted(bytes, limits.depth, limits.elements)
    }

    /// Creates a decoder of validated input. The validation charged the same elements and levels
    /// against lower budgets, so these budgets cannot run out.
    #[inline(always)]
    pub(crate) fn validated(bytes: &'a [u8], items: Items<'a>) -> Self {
        Self {
            items,
            ..Self::budgeted(bytes, u32::MAX, u32::MAX)
        }
    }

    /// Returns the items that are not in the stream, for what is decoded later.
    #[inline(always)]
    pub(crate) fn items(&self) -> Items<'a> {
        self.items
    }

    /// Creates a decoder of a message of which some items are not in the stream.
    ///
    /// # Errors
    /// Returns `SizeLimit`, with the offset of the first excess byte, if the stream is longer than
    /// [`Limits::bytes`].
    #[cfg(feature = "alloc")]
    #[inline]
    pub fn with_items(items: &'a crate::ItemList<'a>, limits: &Limits) -> Result<Self> {
        let mut decoder = Self::with_limits(items.stream(), limits)?;
        decoder.items = Some(items);
        Ok(decoder)
    }

    #[inline(always)]
    fn budgeted(bytes: &'a [u8], depth: u32, elements: u32) -> Self {
        Self {
            rest: bytes,
            len: bytes.len(),
            depth,
            elements,
            reserved: 0,
            items: Items::default(),
        }
    }

    /// Returns the number of bytes consumed.
    #[inline(always)]
    pub fn offset(&self) -> usize {
        self.len - self.rest.len()
    }

    /// Returns the bytes that remain.
    #[inline(always)]
    pub fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    /// Ends the decode.
    ///
    /// # Errors
    /// Returns `TrailingBytes`, with the offset of the first, if bytes remain.
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
    /// Decodes `N` bytes.
    ///
    /// # Errors
    /// Returns `UnexpectedEnd` if the input is too short.
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

    /// Decodes `n` bytes without padding.
    ///
    /// # Errors
    /// Returns `UnexpectedEnd` if the input is too short.
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

    /// Advances by `n` bytes.
    ///
    /// # Errors
    /// Returns `UnexpectedEnd` if the input is too short.
    #[inline(always)]
    pub fn advance(&mut self, n: usize) -> Result<()> {
        self.take(n).map(|_| ())
    }

    /// Decodes `n` bytes and their padding (RFC 4506, sections 3 and 4.9). Returns the bytes
    /// without the padding.
    ///
    /// # Errors
    /// Returns `UnexpectedEnd` if the input is too short, and `InvalidPadding` if the padding is
    /// not zero.
    #[inline(always)]
    pub fn padded(&mut self, n: usize) -> Result<&'a [u8]> {
        let body = self.take(n)?;
        self.padding_of(n)?;
        Ok(body)
    }

    /// Decodes an item of at most `max` bytes, whether its bytes are in the stream or were received
    /// separately.
    ///
    /// # Errors
    /// Returns `TooLong` if the length exceeds `max`, `UnexpectedEnd` if the input or the bytes
    /// that the transport received for the item are too short, and `InvalidPadding` if the padding
    /// is not zero.
    pub fn item(&mut self, max: u32) -> Result<Item<'a>> {
        let len = self.length(max)?;
        #[cfg(feature = "alloc")]
        if let Some(items) = self.items {
            return match items.find(self.rest, len) {
                Some(found) => found.map_err(|kind| self.error_before(kind, 4)),
                None => self
                    .padded(len as usize)
                    .map(|bytes| items.in_stream(bytes)),
            };
        }
        self.padded(len as usize).map(Item::from)
    }

    /// Advances past an item of at most `max` bytes. It accepts what [`item`](Self::item) accepts.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    pub fn skip_item(&mut self, max: u32) -> Result<()> {
        let len = self.length(max)?;
        #[cfg(feature = "alloc")]
        if let Some(found) = self.items.and_then(|items| items.find(self.rest, len)) {
            return found.map(|_| ()).map_err(|kind| self.error_before(kind, 4));
        }
        self.padded(len as usize).map(|_| ())
    }

    /// Notes that a result that may have an item has none here, such as the result of a READ that
    /// failed. Where items are matched in order, the next one stands for it, and is empty (RFC
    /// 8267, section 6.4.1). For generated code.
    #[doc(hidden)]
    #[inline]
    pub fn no_item(&mut self) {
        #[cfg(feature = "alloc")]
        if let Some(items) = self.items {
            items.pass_over(self.rest);
        }
    }

    /// Decodes the padding of an item of `n` bytes.
    #[inline(always)]
    pub(crate) fn padding_of(&mut self, n: usize) -> Result<()> {
        let zeros = self.take(padding(n))?;
        if zeros.iter().any(|&byte| byte != 0) {
            return Err(self.error_before(ErrorKind::InvalidPadding, zeros.len()));
        }
        Ok(())
    }

    /// Decodes the count or length of a variable-length item (RFC 4506, sections 4.10 to 4.13).
    ///
    /// # Errors
    /// Returns `TooLong` if the count exceeds `max`, and `UnexpectedEnd` if the input is too short.
    #[inline(always)]
    pub fn length(&mut self, max: u32) -> Result<u32> {
        let count = self.u32()?;
        if count > max {
            return Err(self.error_before(ErrorKind::TooLong, 4));
        }
        Ok(count)
    }

    /// Decodes a boolean (RFC 4506, section 4.4).
    ///
    /// # Errors
    /// Returns `InvalidBool` if it is neither 0 nor 1, and `UnexpectedEnd` if the input is too
    /// short.
    #[inline(always)]
    pub fn bool(&mut self) -> Result<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.error_before(ErrorKind::InvalidBool, 4)),
        }
    }

    /// Returns the bytes consumed since `before` remained. Returns none if `before` is from another
    /// input.
    #[inline(always)]
    pub fn consumed_since(&self, before: &'a [u8]) -> &'a [u8] {
        let passed = before.len().saturating_sub(self.rest.len());
        before.get(..passed).unwrap_or_default()
    }
}

/// Big-endian numbers.
macro_rules! numbers {
    ($($name:ident $what:literal $section:literal;)*) => {
        /// Numbers.
        impl Decoder<'_> {$(
            #[doc = concat!($what, " (RFC 4506, section ", $section, ").")]
            ///
            /// # Errors
            /// Returns `UnexpectedEnd` if the input is too short.
            #[inline(always)]
            pub fn $name(&mut self) -> Result<$name> {
                self.fixed().map(|bytes| $name::from_be_bytes(*bytes))
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

/// The maximum number of elements of an array whose elements have an encoded size of zero.
const MAX_EMPTY_ELEMENTS: u32 = 1 << 16;

/// Budgets.
impl Decoder<'_> {
    /// Charges `count` elements of a variable-length sequence.
    ///
    /// # Errors
    /// Returns `ElementLimit` if the total exceeds [`Limits::elements`].
    #[inline(always)]
    pub fn charge_elements(&mut self, count: u32) -> Result<()> {
        match self.elements.checked_sub(count) {
            Some(left) => {
                self.elements = left;
                Ok(())
            }
            None => Err(self.error(ErrorKind::ElementLimit)),
        }
    }

    /// Charges the elements of an array. Elements with an encoded size of zero have a separate
    /// maximum, because the input's length does not bound their number.
    #[inline(always)]
    pub(crate) fn charge_array<T: Wire>(&mut self, count: u32) -> Result<()> {
        if T::MIN == 0 && count > MAX_EMPTY_ELEMENTS {
            return Err(self.error(ErrorKind::ElementLimit));
        }
        self.charge_elements(count)
    }

    /// Runs `f` one level deeper.
    ///
    /// # Errors
    /// Returns `DepthLimit` if more than [`Limits::depth`] levels are open, and the errors of `f`.
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

    /// Runs `f` on one element of a variable-length sequence. An element that is not plain is a
    /// level: a type may contain a sequence of itself without a box.
    #[inline(always)]
    pub(crate) fn element<W: Wire, T>(
        &mut self,
        f: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if W::PLAIN { f(self) } else { self.nested(f) }
    }

    /// Runs `f` on each element of a variable-length sequence. As [`element`](Self::element), with
    /// one level for all, which an error does not leave.
    #[inline(always)]
    pub(crate) fn elements<W: Wire>(
        &mut self,
        count: u32,
        mut f: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let before = self.enter::<W>(count)?;
        for _ in 0..count {
            f(self)?;
        }
        self.leave(before);
        Ok(())
    }

    /// Enters the level of so many elements of a variable-length sequence, and returns the number
    /// of levels that were left, for [`leave`](Self::leave).
    #[inline(always)]
    pub(crate) fn enter<W: Wire>(&mut self, count: u32) -> Result<u32> {
        let before = self.depth;
        let levels = u32::from(!W::PLAIN && count != 0);
        let Some(left) = before.checked_sub(levels) else {
            return Err(self.error(ErrorKind::DepthLimit));
        };
        self.depth = left;
        Ok(before)
    }

    /// Leaves the level of a sequence's elements.
    #[inline(always)]
    pub(crate) const fn leave(&mut self, before: u32) {
        self.depth = before;
    }

    /// Reserves bytes for an owned sequence of `count` elements of at least `min` bytes each. Call
    /// [`release_bytes`](Self::release_bytes) before each element.
    ///
    /// If this succeeds, memory for `count` elements may be allocated at once. The argument:
    /// `reserved` is the minimum number of bytes for the elements, not yet begun, of all open
    /// sequences. It never exceeds the input that remains, because a reservation succeeds only
    /// within the remaining bytes that are not yet reserved. The elements allocated and not begun
    /// are therefore at most `reserved / min`, and the elements that are begun consume at least
    /// `min` bytes each. All memory held at any time is at most twice the input, times the maximum
    /// ratio of a type's size in memory to its `MIN`. Nested counts cannot multiply: an inner
    /// reservation must fit in the bytes that the outer ones leave.
    ///
    /// # Errors
    /// Returns `UnexpectedEnd`, with the offset of the first element, if fewer than `count * min`
    /// unreserved bytes remain.
    #[inline]
    pub fn reserve_bytes(&mut self, count: u32, min: usize) -> Result<()> {
        let free = self.rest.len().saturating_sub(self.reserved);
        match (count as usize).checked_mul(min) {
            Some(bytes) if bytes <= free => {
                self.reserved = self.reserved.saturating_add(bytes);
                Ok(())
            }
            _ => Err(self.error(ErrorKind::UnexpectedEnd)),
        }
    }

    /// Decodes `count` elements of a fixed size, for
    /// [`Decode::decode_all`](crate::Decode::decode_all).
    ///
    /// # Errors
    /// Returns `UnexpectedEnd` if the input is too short.
    #[inline(always)]
    pub fn fixed_all<const N: usize, T: Fixed<N>>(
        &mut self,
        count: u32,
        items: &mut impl Extend<T>,
    ) -> Result<()> {
        const { assert!(N > 0, "elements without bytes") };
        // A product that overflows `usize` exceeds any input.
        let bytes = (count as usize).saturating_mul(N);
        self.release_bytes(bytes);
        let elements = self.take(bytes)?.as_chunks().0;
        vector::run_vectorized::<N, _>(
            bytes,
            #[inline(always)]
            || items.extend(elements.iter().map(T::read)),
        );
        Ok(())
    }

    /// Releases the bytes of one element that [`reserve_bytes`](Self::reserve_bytes) reserved with
    /// the same `min`.
    #[inline(always)]
    pub fn release_bytes(&mut self, min: usize) {
        self.reserved = self.reserved.saturating_sub(min);
    }
}

/// Errors.
impl Decoder<'_> {
    /// Returns an error at the next byte.
    #[inline(always)]
    pub fn error(&self, kind: ErrorKind) -> Error {
        Error::at(kind, self.offset())
    }

    /// Returns an error at the start of the item of `bytes` bytes that was just consumed.
    #[inline(always)]
    pub fn error_before(&self, kind: ErrorKind, bytes: usize) -> Error {
        Error::at(kind, self.offset().saturating_sub(bytes))
    }

    /// Returns an error at an offset from the start of the input.
    #[inline(always)]
    pub fn error_at(&self, kind: ErrorKind, offset: usize) -> Error {
        Error::at(kind, offset)
    }
}

#[cfg(test)]
mod tests;
