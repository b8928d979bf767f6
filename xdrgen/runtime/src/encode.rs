//! The trait [`Encode`]: a type implements `encode`, and gets its size, its bytes and its gather
//! list.
//!
//! All of them come from the same `encode`, by different sinks. So an `encode` must make the same
//! calls on every sink: `encode_to_vec` allocates as many bytes as [`Counter`] has counted, and
//! `gather_size` returns what `GatherCounter` has counted. An `encode_all` must make the sink write
//! the bytes that the default one does. The sinks own the format, the checks of bounds, and the
//! positions of errors.
//!
//! Generated code implements this trait, and so do users.

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
    /// Encodes the value into `sink`, which may keep references to the value. If the implementation
    /// makes a temporary value, it encodes this value into [`Sink::copying`], which copies.
    ///
    /// # Errors
    /// Returns `BufferFull` if the sink is full, `ListFull` if a [`GatherEncoder`] has no entry
    /// left, and `TooLong` or `ArmMismatch` if the value has no encoding.
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()>;

    /// Encodes the elements of an array, without their count. Types of a fixed size override this,
    /// so that one bounds check is sufficient for all elements.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    #[inline(always)]
    fn encode_all<'s, S: Sink<'s>>(elements: &'s [Self], sink: &mut S) -> Result<()>
    where
        Self: Sized,
    {
        elements.iter().try_for_each(|element| element.encode(sink))
    }

    /// Returns the encoded size in bytes.
    ///
    /// # Errors
    /// Returns `TooLong` or `ArmMismatch` if the value has no encoding.
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
    /// Returns `BufferFull` if `buf` is too short, and `TooLong` or `ArmMismatch` if the value has
    /// no encoding.
    #[inline(always)]
    fn encode_to_slice(&self, buf: &mut [u8]) -> Result<usize> {
        let mut encoder = Encoder::new(buf);
        self.encode(&mut encoder)?;
        Ok(encoder.finish())
    }

    /// Encodes as a gather list: `entries` gets references to opaque data of
    /// [`GatherEncoder::MIN_LEN`] bytes or more, and the rest is copied into `buf`. See
    /// [`GatherEncoder`].
    ///
    /// # Errors
    /// As [`encode`](Self::encode). If there are too few entries, this returns `ListFull`, and
    /// never copies long data instead.
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

    /// Returns the sizes of the buffers that [`gather`](Self::gather) needs.
    ///
    /// # Errors
    /// As [`encoded_len`](Self::encoded_len).
    #[inline]
    fn gather_size(&self) -> Result<GatherSize> {
        let mut counter = GatherCounter::default();
        self.encode(&mut counter)?;
        Ok(counter.size)
    }

    /// Encodes into a new vector, with one allocation of the exact size.
    ///
    /// # Errors
    /// As [`encoded_len`](Self::encoded_len), and `SizeLimit` if the allocation fails.
    #[cfg(feature = "alloc")]
    fn encode_to_vec(&self) -> Result<alloc::vec::Vec<u8>> {
        let mut bytes = alloc::vec::Vec::new();
        replace_with_encoded(self, &mut bytes)?;
        Ok(bytes)
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    #[inline(always)]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        (**self).encode(sink)
    }
}

/// Replaces the content of `bytes` by the encoded value. If `bytes` has too little capacity, one
/// allocation of the exact size is made. If the value has no encoding, the content stays.
#[cfg(feature = "alloc")]
pub(crate) fn replace_with_encoded<E: Encode + ?Sized>(
    value: &E,
    bytes: &mut alloc::vec::Vec<u8>,
) -> Result<()> {
    let len = value.encoded_len()?;
    bytes.clear();
    bytes
        .try_reserve_exact(len)
        .map_err(|_| crate::Error::at(crate::ErrorKind::SizeLimit, len))?;
    bytes.resize(len, 0);
    let used = value.encode_to_slice(bytes)?;
    debug_assert_eq!(used, len, "`encode` makes other calls on another sink");
    Ok(())
}
