//! Runs of fields of a fixed size, read or written behind one bounds check.

/// A type with an encoded size of exactly `N` bytes, all of whose bit patterns are valid.
///
/// Generated code takes a whole run of such fields from the [`Decoder`](crate::Decoder) at once,
/// and reads each field from its [`part`].
///
/// ```
/// use xdrgen_runtime::{Decoder, Fixed, part};
///
/// let mut d = Decoder::new(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
/// let run = d.fixed::<12>()?;
/// let (handle, offset) = (u32::read(part::<12, 0, 4>(run)), u64::read(part::<12, 4, 8>(run)));
/// assert_eq!((handle, offset), (1, 2));
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
pub trait Fixed<const N: usize>: Sized {
    /// Reads a value.
    fn read(b: &[u8; N]) -> Self;
    /// Writes all bytes of the value.
    fn write(&self, b: &mut [u8; N]);
}

/// Opaque data of a length that needs no padding (RFC 4506, section 4.9).
impl<const N: usize> Fixed<N> for [u8; N] {
    #[inline(always)]
    fn read(b: &[u8; N]) -> Self {
        const {
            assert!(
                N.is_multiple_of(4),
                "opaque data of this length has padding"
            )
        };
        *b
    }

    #[inline(always)]
    fn write(&self, b: &mut [u8; N]) {
        const {
            assert!(
                N.is_multiple_of(4),
                "opaque data of this length has padding"
            )
        };
        *b = *self;
    }
}

/// Returns the `LEN` bytes at `AT` of a run of `N`. The range is checked at compile time.
#[inline(always)]
pub fn part<const N: usize, const AT: usize, const LEN: usize>(b: &[u8; N]) -> &[u8; LEN] {
    const { assert!(AT <= N && LEN <= N - AT, "part is outside of its run") };
    match b.split_at(AT).1.first_chunk() {
        Some(part) => part,
        // The assertion excludes this arm, so the optimizer removes the match.
        None => unreachable!(),
    }
}

/// Returns the mutable `LEN` bytes at `AT` of a run of `N`. The range is checked at compile time.
///
/// ```
/// use xdrgen_runtime::{Fixed, part_mut};
///
/// let mut run = [0; 8];
/// 7u32.write(part_mut::<8, 4, 4>(&mut run));
/// assert_eq!(run, [0, 0, 0, 0, 0, 0, 0, 7]);
/// ```
///
/// ```compile_fail
/// xdrgen_runtime::part_mut::<8, 5, 4>(&mut [0; 8]);
/// ```
#[inline(always)]
pub fn part_mut<const N: usize, const AT: usize, const LEN: usize>(
    b: &mut [u8; N],
) -> &mut [u8; LEN] {
    const { assert!(AT <= N && LEN <= N - AT, "part is outside of its run") };
    match b.split_at_mut(AT).1.first_chunk_mut() {
        Some(part) => part,
        // As in `part`.
        None => unreachable!(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_right_offsets() {
        let run: [u8; 12] = core::array::from_fn(|i| i as u8);
        assert_eq!(part::<12, 0, 4>(&run), &[0, 1, 2, 3]);
        assert_eq!(part::<12, 8, 4>(&run), &[8, 9, 10, 11]);
        assert_eq!(part::<12, 12, 0>(&run), &[]);
        let mut run = run;
        part_mut::<12, 4, 4>(&mut run).fill(9);
        assert_eq!(run, [0, 1, 2, 3, 9, 9, 9, 9, 8, 9, 10, 11]);
    }

    #[test]
    fn bytes_are_copied() {
        assert_eq!(<[u8; 4]>::read(&[1, 2, 3, 4]), [1, 2, 3, 4]);
        let mut out = [0; 4];
        [5u8, 6, 7, 8].write(&mut out);
        assert_eq!(out, [5, 6, 7, 8]);
    }
}
