//! Encoded sizes.
//!
//! Generated code implements [`Wire`] for each type, and decoders trust it: `MIN` limits the memory
//! that a count in a message may claim, and a `PLAIN` type may be skipped without a look at its
//! bytes. A `MIN` that is too large rejects valid messages; one that is too small claims more.
//! `layout` in `xdrgen-build` computes the constants, and must agree with the impls of this crate.

// Counts and bounds of XDR have 32 bits. The crate uses them as `usize`.
const _: () = assert!(usize::BITS >= 32, "XDR needs a usize of 32 bits");

/// The encoded size of a type, in bytes, with padding.
///
/// ```
/// use xdrgen_runtime::{Opaque, Wire};
///
/// assert_eq!(<Opaque<'_, 5>>::MIN, 4); // only the count
/// assert_eq!(<Opaque<'_, 5>>::MAX, Some(12)); // the count, five bytes, three bytes of padding
/// assert!(<(u32, u64)>::PLAIN && !bool::PLAIN);
/// ```
pub trait Wire {
    /// The minimum size of a value. Decoding never succeeds with fewer bytes: allocations rely on
    /// it.
    const MIN: usize;
    /// The maximum size of a value; `None` if it is unbounded or exceeds `usize`.
    const MAX: Option<usize> = None;
    /// Whether every value has `MIN` bytes and every bit pattern of that size is valid, so that the
    /// type can be skipped by its length.
    const PLAIN: bool = false;
}

/// Returns the number of zero bytes after `len` bytes of an opaque or string (RFC 4506, section 3).
#[inline(always)]
pub(crate) const fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// Returns the sum of two maximum sizes.
pub(crate) const fn add(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    match (a, b) {
        (Some(a), Some(b)) => a.checked_add(b),
        _ => None,
    }
}

/// Returns a maximum size multiplied by `count`.
pub(crate) const fn times(count: usize, max: Option<usize>) -> Option<usize> {
    match max {
        Some(max) => max.checked_mul(count),
        None => None,
    }
}

/// Returns the maximum size of an opaque or a string: count, bytes, padding.
pub(crate) const fn opaque_max(max: u32) -> Option<usize> {
    if max == u32::MAX {
        return None;
    }
    let len = max as usize;
    add(Some(4 + padding(len)), Some(len))
}

/// Returns the maximum size of an array: count and elements.
pub(crate) const fn array_max(max: u32, element: Option<usize>) -> Option<usize> {
    if max == u32::MAX {
        return None;
    }
    add(Some(4), times(max as usize, element))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_completes_units_of_four() {
        let found: [usize; 6] = core::array::from_fn(padding);
        assert_eq!(found, [0, 3, 2, 1, 0, 3]);
        assert_eq!(padding(usize::MAX), 1);
    }

    #[test]
    fn maximum_sizes() {
        assert_eq!(opaque_max(0), Some(4));
        assert_eq!(opaque_max(6), Some(12));
        assert_eq!(opaque_max(u32::MAX), None);
        assert_eq!(array_max(3, Some(16)), Some(52));
        assert_eq!(array_max(3, None), None);
        assert_eq!(array_max(u32::MAX, Some(4)), None);
        assert_eq!(array_max(2, Some(usize::MAX)), None);
        assert_eq!(add(Some(usize::MAX), Some(1)), None);
    }
}
