//! Encoding: one code path computes the size, the bytes and the gather list.
//!
//! An `encode` must make the same calls on every sink: `encode_to_vec` allocates what [`Counter`]
//! has counted, and `gather_size` returns what `GatherCounter` has counted.

use crate::gather::GatherCounter;
use crate::{Counter, Encoder, GatherEncoder, GatherEntry, GatherList, GatherSize, Result, Sink};

/// A type that can be encoded as XDR.
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
    /// Encodes the value into `sink`, which may keep references to the value. Temporary values are
    /// encoded into [`Sink::copying`].
    ///
    /// # Errors
    /// Returns `BufferFull` if the sink is full, and `TooLong` or `ArmMismatch` if the value has no
    /// encoding.
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()>;

    /// Encodes the elements of an array, without their count. Types of a fixed size implement it
    /// with one bounds check.
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

    /// Returns the encoded size in bytes, computed by the code that encodes.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), except `BufferFull`.
    #[inline(always)]
    fn encoded_len(&self) -> Result<usize> {
        let mut counter = Counter::new();
        self.encode(&mut counter)?;
        Ok(counter.position())
    }

    /// Encodes at the start of `buf`, and returns the number of bytes used. After an error the
    /// content of `buf` is unspecified.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    #[inline(always)]
    fn encode_to_slice(&self, buf: &mut [u8]) -> Result<usize> {
        let mut encoder = Encoder::new(buf);
        self.encode(&mut encoder)?;
        Ok(encoder.finish())
    }

    /// Encodes as a gather list: copies short items into `buf`, and stores references to items of
    /// [`GatherEncoder::MIN_LEN`] bytes or more in `entries`. See [`GatherEncoder`].
    ///
    /// # Errors
    /// As [`encode`](Self::encode), and `ListFull` if there are too few entries: a long item is
    /// never copied instead.
    #[inline]
    fn gather<'b, 's: 'b>(
        &'s self,
        buf: &'b mut [u8],
        entries: &'b mut [GatherEntry<'s>],
    ) -> Result<GatherList<'b, 's>> {
        let mut gather = GatherEncoder::new(buf, entries);
        self.encode(&mut gather)?;
        Ok(gather.finish())
    }

    /// Returns the sizes of the buffers that [`gather`](Self::gather) needs, computed by the code
    /// that encodes.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), except `BufferFull`.
    #[inline]
    fn gather_size(&self) -> Result<GatherSize> {
        let mut counter = GatherCounter::default();
        self.encode(&mut counter)?;
        Ok(counter.size)
    }

    /// Encodes into a new vector, with one exact allocation.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), and `SizeLimit` if the allocation fails.
    #[cfg(feature = "alloc")]
    fn encode_to_vec(&self) -> Result<alloc::vec::Vec<u8>> {
        let mut bytes = alloc::vec::Vec::new();
        encode_to(self, &mut bytes)?;
        Ok(bytes)
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    #[inline(always)]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        (**self).encode(sink)
    }
}

/// Encodes into `bytes`, replacing its content, with at most one exact allocation.
#[cfg(feature = "alloc")]
pub(crate) fn encode_to<E: Encode + ?Sized>(
    value: &E,
    bytes: &mut alloc::vec::Vec<u8>,
) -> Result<()> {
    let len = value.encoded_len()?;
    bytes.clear();
    bytes
        .try_reserve_exact(len)
        .map_err(|_| crate::Error::at(crate::ErrorKind::SizeLimit, len))?;
    bytes.resize(len, 0);
    value.encode_to_slice(bytes).map(|_| ())
}
