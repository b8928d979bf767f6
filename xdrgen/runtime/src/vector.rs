//! Loops over the elements of long arrays, with the vector instructions of the processor that they run on.
//!
//! What is compiled for any x86 may use SSE2 alone, which takes seven instructions to turn the octets of four integers round.
//! With the feature `simd` the processor is asked what it has, and runs the same loop, compiled once more for that.

#[cfg(all(feature = "simd", any(target_arch = "x86", target_arch = "x86_64")))]
pub(crate) use detected::over;

/// Runs a loop over so many octets, `N` of each element.
#[cfg(not(all(feature = "simd", any(target_arch = "x86", target_arch = "x86_64"))))]
#[inline(always)]
pub(crate) fn over<const N: usize, R>(_: usize, run: impl FnOnce() -> R) -> R {
    run()
}

#[cfg(all(feature = "simd", any(target_arch = "x86", target_arch = "x86_64")))]
mod detected {
    extern crate std;

    use fearless_simd::{Level, dispatch};
    use std::sync::OnceLock;

    /// Elements of so many octets at most: numbers. Structures come in short lists, whose code takes up to a quarter more
    /// instructions with a second way out of each.
    const WIDEST: usize = 8;

    /// From so many octets on, twice what it takes for the call to pay.
    const LONG: usize = 256;

    /// Runs a loop over so many octets, `N` of each element. Only what is always inlined into it profits.
    #[inline(always)]
    pub(crate) fn over<const N: usize, R>(octets: usize, run: impl FnOnce() -> R) -> R {
        if N > WIDEST || octets < LONG {
            return run();
        }
        dispatch!(level(), _ => run())
    }

    /// What the processor has. To ask takes longer than to remember.
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
    use crate::{Array, Decode, Decoder, Encode, Fixed, Gather, Kept, Quadruple};

    /// Lengths on both sides of all that vector instructions could make a difference to.
    const COUNTS: [usize; 19] = [0, 1, 2, 3, 7, 8, 15, 16, 17, 20, 21, 22, 31, 32, 33, 63, 64, 65, 1003];

    /// Whole arrays become the octets that their elements become one by one, and come back from these, wherever they begin.
    fn as_one_by_one<const N: usize, T>()
    where
        T: for<'a> Decode<'a> + Encode + Fixed<N> + Clone + Default,
    {
        for count in COUNTS {
            // The octets of no two elements near each other are the same, whatever they are moved by.
            let octets: Vec<u8> = (0..count * N).map(|at| (at * 31 + at / 251) as u8).collect();
            let items: Vec<T> = octets.as_chunks().0.iter().map(T::read).collect();
            for moved in 0..9 {
                decodes::<N, T>(&octets, count, moved);
                encodes::<N, T>(&items, &octets, moved);
            }
        }
    }

    fn decodes<const N: usize, T: for<'a> Decode<'a> + Fixed<N> + Clone + Default>(
        octets: &[u8],
        count: usize,
        moved: usize,
    ) {
        let mut message = vec![0xee; moved];
        message.extend(words(&[count as u32]));
        message.extend(octets);
        let array = Array::<T>::from_bytes(&message[moved..]).unwrap();
        let mut found = vec![T::default(); count];
        assert_eq!(array.copy_to_slice(&mut found), count);
        assert_eq!(bits(&found), octets);
        let mut found = Vec::new();
        T::decode_all(&mut Decoder::new(&message[moved + 4..]), count as u32, &mut found).unwrap();
        assert_eq!(bits(&found), octets);
    }

    fn encodes<const N: usize, T: Encode + Fixed<N>>(items: &[T], octets: &[u8], moved: usize) {
        let array = Array::<T>::from(items);
        let mut wanted = words(&[items.len() as u32]);
        wanted.extend(octets);
        let mut room = vec![0xee; moved + wanted.len() + 1];
        assert_eq!(array.encode_to_slice(&mut room[moved..]), Ok(wanted.len()));
        assert_eq!(room[moved..][..wanted.len()], wanted);
        assert!(room[..moved].iter().chain(room.last()).all(|octet| *octet == 0xee));
        let mut kept = [Kept::default(); 2];
        let mut gather = Gather::new(&mut room[moved..], &mut kept);
        array.encode(&mut gather).unwrap();
        assert!(gather.finish().pieces().flatten().eq(&wanted));
    }

    /// The octets of elements, which are equal where a NaN is not.
    fn bits<const N: usize, T: Fixed<N>>(items: &[T]) -> Vec<u8> {
        let mut octets = vec![[0; N]; items.len()];
        items.iter().zip(&mut octets).for_each(|(item, octets)| item.write(octets));
        octets.as_flattened().to_vec()
    }

    #[test]
    fn long_arrays_are_as_short_ones() {
        as_one_by_one::<4, u32>();
        as_one_by_one::<4, i32>();
        as_one_by_one::<8, u64>();
        as_one_by_one::<8, i64>();
        as_one_by_one::<4, f32>();
        as_one_by_one::<8, f64>();
        as_one_by_one::<12, Segment>();
        as_one_by_one::<16, Quadruple>();
    }
}
