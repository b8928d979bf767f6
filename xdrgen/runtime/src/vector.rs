//! Loops over the elements of long arrays, with the vector instructions of the processor.
//!
//! Code for any x86 processor may use only SSE2, which takes seven instructions to swap the bytes
//! of four integers. With the feature `simd`, the same loop is compiled for several instruction
//! sets, and the best is selected at run time. The result of a loop must not depend on the
//! selection.

#[cfg(all(feature = "simd", any(target_arch = "x86", target_arch = "x86_64")))]
pub(crate) use detected::run_vectorized;

/// Runs a loop over a number of bytes, `N` for each element.
#[cfg(not(all(feature = "simd", any(target_arch = "x86", target_arch = "x86_64"))))]
#[inline(always)]
pub(crate) fn run_vectorized<const N: usize, R>(_: usize, run: impl FnOnce() -> R) -> R {
    run()
}

#[cfg(all(feature = "simd", any(target_arch = "x86", target_arch = "x86_64")))]
mod detected {
    extern crate std;

    use fearless_simd::{Level, dispatch};
    use std::sync::OnceLock;

    /// The maximum size of an element in bytes, which includes all numbers. Structures occur in
    /// short lists; a second code path costs them up to a quarter more instructions.
    const MAX_ELEMENT: usize = 8;

    /// The minimum number of bytes: twice the number at which the call pays off.
    const MIN_BYTES: usize = 256;

    /// Runs a loop over a number of bytes, `N` for each element. Only code that is inlined into the
    /// loop profits.
    #[inline(always)]
    pub(crate) fn run_vectorized<const N: usize, R>(bytes: usize, run: impl FnOnce() -> R) -> R {
        if N > MAX_ELEMENT || bytes < MIN_BYTES {
            return run();
        }
        dispatch!(level(), _ => run())
    }

    /// Returns the instruction set of the processor. Detection takes longer than the lookup of a
    /// cached result.
    #[inline]
    fn level() -> Level {
        static LEVEL: OnceLock<Level> = OnceLock::new();
        *LEVEL.get_or_init(Level::new)
    }
}

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use crate::testing::{Segment, words};
    use crate::{Array, Decode, Decoder, Encode, Fixed, GatherEncoder, GatherEntry, Quadruple};

    /// Lengths around all multiples that matter to vector instructions.
    const COUNTS: [usize; 19] = [
        0, 1, 2, 3, 7, 8, 15, 16, 17, 20, 21, 22, 31, 32, 33, 63, 64, 65, 1003,
    ];

    /// Checks that an array encodes and decodes as its elements do one by one, at any alignment.
    fn check_against_elements<const N: usize, T>()
    where
        T: for<'a> Decode<'a> + Encode + Fixed<N> + Clone + Default,
    {
        for count in COUNTS {
            // No two elements near each other have the same bytes, at any offset.
            let bytes: Vec<u8> = (0..count * N)
                .map(|at| (at * 31 + at / 251) as u8)
                .collect();
            let items: Vec<T> = bytes.as_chunks().0.iter().map(T::read).collect();
            for moved in 0..9 {
                decodes::<N, T>(&bytes, count, moved);
                encodes::<N, T>(&items, &bytes, moved);
            }
        }
    }

    fn decodes<const N: usize, T: for<'a> Decode<'a> + Fixed<N> + Clone + Default>(
        bytes: &[u8],
        count: usize,
        moved: usize,
    ) {
        let mut message = vec![0xee; moved];
        message.extend(words(&[count as u32]));
        message.extend(bytes);
        let array = Array::<T>::from_bytes(&message[moved..]).unwrap();
        let mut found = vec![T::default(); count];
        assert_eq!(array.copy_to_slice(&mut found), count);
        assert_eq!(bits(&found), bytes);
        let mut found = Vec::new();
        T::decode_all(
            &mut Decoder::new(&message[moved + 4..]),
            count as u32,
            &mut found,
        )
        .unwrap();
        assert_eq!(bits(&found), bytes);
    }

    fn encodes<const N: usize, T: Encode + Fixed<N>>(items: &[T], bytes: &[u8], moved: usize) {
        let array = Array::<T>::from(items);
        let mut expected = words(&[items.len() as u32]);
        expected.extend(bytes);
        let mut room = vec![0xee; moved + expected.len() + 1];
        assert_eq!(
            array.encode_to_slice(&mut room[moved..]),
            Ok(expected.len())
        );
        assert_eq!(room[moved..][..expected.len()], expected);
        assert!(
            room[..moved]
                .iter()
                .chain(room.last())
                .all(|byte| *byte == 0xee)
        );
        let mut entries = [GatherEntry::default(); 2];
        let mut gather = GatherEncoder::new(&mut room[moved..], &mut entries);
        array.encode(&mut gather).unwrap();
        assert!(gather.finish().pieces().flatten().eq(&expected));
    }

    /// Returns the bytes of elements, which are equal even for NaN.
    fn bits<const N: usize, T: Fixed<N>>(items: &[T]) -> Vec<u8> {
        let mut bytes = vec![[0; N]; items.len()];
        items
            .iter()
            .zip(&mut bytes)
            .for_each(|(item, bytes)| item.write(bytes));
        bytes.as_flattened().to_vec()
    }

    #[test]
    fn long_arrays_equal_short_ones() {
        check_against_elements::<4, u32>();
        check_against_elements::<4, i32>();
        check_against_elements::<8, u64>();
        check_against_elements::<8, i64>();
        check_against_elements::<4, f32>();
        check_against_elements::<8, f64>();
        check_against_elements::<12, Segment>();
        check_against_elements::<16, Quadruple>();
    }
}
