//! Sizes on the wire.

// Counts and bounds of XDR have 32 bits, and are used as `usize` all over the crate.
const _: () = assert!(usize::BITS >= 32, "XDR needs a usize of 32 bits");

/// The sizes of a type on the wire, in octets, padding included.
///
/// ```
/// use xdrgen_runtime::{Opaque, Wire};
///
/// assert_eq!(<Opaque<'_, 5>>::MIN, 4); // the count alone
/// assert_eq!(<Opaque<'_, 5>>::MAX, Some(12)); // the count, five octets, three of padding
/// assert!(<(u32, u64)>::PLAIN && !bool::PLAIN);
/// ```
pub trait Wire {
    /// The fewest octets of any value. Decoding never succeeds with fewer: reservations rely on it.
    const MIN: usize;
    /// The most octets of any value; `None` where the XDR sets no bound, or one beyond `usize`.
    const MAX: Option<usize> = None;
    /// Whether all values have `MIN` octets, and all bit patterns of that length are values: such a type is skipped by
    /// its length alone.
    const PLAIN: bool = false;
}

/// Octets of zero which follow `len` octets of an opaque or string (RFC 4506, section 3).
#[inline(always)]
pub(crate) const fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// The sum of two greatest sizes.
pub(crate) const fn add(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    match (a, b) {
        (Some(a), Some(b)) => a.checked_add(b),
        _ => None,
    }
}

/// A greatest size `count` times.
pub(crate) const fn times(count: usize, max: Option<usize>) -> Option<usize> {
    match max {
        Some(max) => max.checked_mul(count),
        None => None,
    }
}

/// The greatest size of an opaque or string: count, octets, padding.
pub(crate) const fn opaque_max(max: u32) -> Option<usize> {
    if max == u32::MAX {
        return None;
    }
    let len = max as usize;
    add(Some(4 + padding(len)), Some(len))
}

/// The greatest size of an array: count and elements.
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
    fn greatest_sizes() {
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
