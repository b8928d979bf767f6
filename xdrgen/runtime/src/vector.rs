//! Selects the instruction set for loops over the elements of long arrays.
//!
//! Code that must run on every 64-bit x86 processor has only SSE2, which takes seven instructions
//! to swap the bytes of four integers. With the feature `simd`, `run_vectorized` compiles a loop
//! for several instruction sets, and selects the best one at run time. Without the feature, and on
//! other processors, it just runs the loop.
//!
//! `Decoder::fixed_all` and `sink::fill` own the loops. They rely on this: the loop runs exactly
//! once, and its result does not depend on the selection. The function must be inlined, and the
//! whole loop into it: a function that the loop calls is compiled for SSE2 only. The thresholds
//! affect only speed; the lengths in the tests are on both sides of them.

#[cfg(all(feature = "simd", any(target_arch = "x86", target_arch = "x86_64")))]
pub(crate) use detected::run_vectorized;

/// Runs a loop over the elements of an array of this many bytes, `N` bytes for each element.
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

    /// The maximum size in bytes of an element. All numbers have at most this size. Larger elements
    /// are structures: their arrays are usually short, and the selection would cost up to a quarter
    /// more instructions.
    const MAX_ELEMENT: usize = 8;

    /// The minimum size in bytes of an array. From half of this size, the faster loop saves more
    /// time than its selection takes.
    const MIN_BYTES: usize = 256;

    /// Runs a loop over the elements of an array of this many bytes, `N` bytes for each element.
    #[inline(always)]
    pub(crate) fn run_vectorized<const N: usize, R>(bytes: usize, run: impl FnOnce() -> R) -> R {
        if N > MAX_ELEMENT || bytes < MIN_BYTES {
            return run();
        }
        dispatch!(level(), _ => run())
    }

    /// Returns the instruction set of the processor, which is detected once.
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

    /// Numbers of elements: around the multiples of the elements in a vector, and on both sides of
    /// `MIN_BYTES`.
    const COUNTS: [usize; 19] = [
        0, 1, 2, 3, 7, 8, 15, 16, 17, 20, 21, 22, 31, 32, 33, 63, 64, 65, 1003,
    ];

    /// Checks arrays against the bytes of their elements, at any alignment: `Fixed::read` decodes
    /// one element, without a loop.
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
            for offset in 0..9 {
                check_decoding::<N, T>(&bytes, count, offset);
                check_encoding::<N, T>(&items, &bytes, offset);
            }
        }
    }

    fn check_decoding<const N: usize, T: for<'a> Decode<'a> + Fixed<N> + Clone + Default>(
        bytes: &[u8],
        count: usize,
        offset: usize,
    ) {
        let mut message = vec![0xee; offset];
        message.extend(words(&[count as u32]));
        message.extend(bytes);
        let array = Array::<T>::from_bytes(&message[offset..]).unwrap();
        let mut found = vec![T::default(); count];
        assert_eq!(array.copy_to_slice(&mut found), count);
        assert_eq!(bits(&found), bytes);
        let mut found = Vec::new();
        T::decode_all(
            &mut Decoder::new(&message[offset + 4..]),
            count as u32,
            &mut found,
        )
        .unwrap();
        assert_eq!(bits(&found), bytes);
    }

    fn check_encoding<const N: usize, T: Encode + Fixed<N>>(
        items: &[T],
        bytes: &[u8],
        offset: usize,
    ) {
        let array = Array::<T>::from(items);
        let mut expected = words(&[items.len() as u32]);
        expected.extend(bytes);
        let mut room = vec![0xee; offset + expected.len() + 1];
        assert_eq!(
            array.encode_to_slice(&mut room[offset..]),
            Ok(expected.len())
        );
        assert_eq!(room[offset..][..expected.len()], expected);
        assert!(
            room[..offset]
                .iter()
                .chain(room.last())
                .all(|byte| *byte == 0xee)
        );
        let mut entries = [GatherEntry::default(); 2];
        let mut gather = GatherEncoder::new(&mut room[offset..], &mut entries);
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
    fn arrays_of_any_length_have_the_bytes_of_their_elements() {
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
