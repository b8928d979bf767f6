//! Encoding: one code path for the size, for the octets and for a gather list.

use crate::gather::Tally;
use crate::{Counter, Encoder, Gather, Gathered, Kept, Needs, Result, Sink};

/// A type which can be encoded as XDR.
///
/// ```
/// use xdrgen_runtime::Encode;
///
/// let mut buf = [0; 16];
/// let value = (7u32, Some(true));
/// assert_eq!(value.encoded_len()?, 12);
/// let used = value.encode_to_slice(&mut buf)?;
/// assert_eq!(buf[..used], [0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1]);
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
pub trait Encode {
    /// Encodes the value to `sink`, which may keep references into it; what is made up on the way goes to
    /// [`Sink::copying`].
    ///
    /// # Errors
    /// `BufferFull`; `TooLong` or `ArmMismatch` if the value has no encoding.
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()>;

    /// Encodes the elements of an array, without their count. Types of fixed size do it under one bounds check.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    #[inline(always)]
    fn encode_all<'s, S: Sink<'s>>(items: &'s [Self], sink: &mut S) -> Result<()>
    where
        Self: Sized,
    {
        items.iter().try_for_each(|item| item.encode(sink))
    }

    /// The octets which the value takes, counted by the code which writes them.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), without `BufferFull`.
    #[inline(always)]
    fn encoded_len(&self) -> Result<usize> {
        let mut counter = Counter::new();
        self.encode(&mut counter)?;
        Ok(counter.position())
    }

    /// Encodes to the beginning of `buf`, and returns how many octets it took. After an error the contents of `buf` are
    /// unspecified.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    #[inline(always)]
    fn encode_to_slice(&self, buf: &mut [u8]) -> Result<usize> {
        let mut encoder = Encoder::new(buf);
        self.encode(&mut encoder)?;
        Ok(encoder.finish())
    }

    /// Encodes as a gather list: what is short is copied into `buf`, and to what has [`Gather::LEAST`] octets or more the
    /// list refers, in a place of `kept`. See [`Gather`].
    ///
    /// # Errors
    /// As [`encode`](Self::encode), and `ListFull` if there are too few places: nothing long is copied by mistake.
    #[inline]
    fn gather<'b, 's: 'b>(&'s self, buf: &'b mut [u8], kept: &'b mut [Kept<'s>]) -> Result<Gathered<'b, 's>> {
        let mut gather = Gather::new(buf, kept);
        self.encode(&mut gather)?;
        Ok(gather.finish())
    }

    /// What [`gather`](Self::gather) takes, counted by the code which does it.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), without `BufferFull`.
    #[inline]
    fn gather_needs(&self) -> Result<Needs> {
        let mut tally = Tally::default();
        self.encode(&mut tally)?;
        Ok(tally.needs)
    }

    /// Encodes to a new vector: counts first, then makes one exact allocation.
    ///
    /// # Errors
    /// As [`encode`](Self::encode); `SizeLimit` if there is no memory.
    #[cfg(feature = "alloc")]
    fn encode_to_vec(&self) -> Result<alloc::vec::Vec<u8>> {
        let mut octets = alloc::vec::Vec::new();
        crate::owned::encode_to(self, &mut octets)?;
        Ok(octets)
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    #[inline(always)]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        (**self).encode(sink)
    }
}
