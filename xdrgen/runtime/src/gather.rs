//! Encoding without copies of long items.
//!
//! [`GatherEncoder`] references an item only in `raw`, and copies all other bytes. `GatherCounter`
//! must make the same decisions with the default `MIN_LEN`, because `Encode::gather_size` promises
//! the sizes of the buffers. An encoder with another minimum needs other sizes.

use crate::{Error, ErrorKind, Result, Sink};

/// An entry of a gather list: bytes of the caller, and their position among the copied bytes.
#[derive(Clone, Copy, Default, Debug)]
pub struct GatherEntry<'s> {
    /// The number of copied bytes before it.
    after: usize,
    bytes: &'s [u8],
}

/// Encodes a message as a gather list. Short items are copied into the caller's buffer. For long
/// items (opaques, and sequences that refer to encoded input) the list contains references.
///
/// A transport that posts scatter/gather elements, or uses vectored writes, can send a message of a
/// megabyte without a copy: header bytes, the caller's slice, padding.
/// [`Encode::gather`](crate::Encode::gather) builds the list, and
/// [`Encode::gather_size`](crate::Encode::gather_size) returns the sizes of its buffers.
///
/// ```
/// use xdrgen_runtime::{Encode, GatherEntry};
///
/// let data = vec![7; 1_000_001];
/// let messages = [(true, &data[..]), (false, &data[..5])]; // eof and data of an NFS READ
///
/// let mut buf = [0; 32];
/// let mut entries = [GatherEntry::default(); 2];
/// for message in &messages {
///     let list = message.gather(&mut buf, &mut entries)?;
///     let pieces: Vec<&[u8]> = list.pieces().collect();
///     assert_eq!(pieces.concat(), message.encode_to_vec()?);
///     match message.0 {
///         true => assert!(std::ptr::eq(pieces[1], &data[..]) && pieces[2] == [0; 3]),
///         false => assert_eq!(pieces.len(), 1),
///     }
/// }
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct GatherEncoder<'b, 's> {
    buf: &'b mut [u8],
    entries: &'b mut [GatherEntry<'s>],
    used: GatherSize,
    /// The number of referenced bytes.
    referred: usize,
    min_len: usize,
}

/// The sizes of the buffers of a gather list.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GatherSize {
    /// The number of bytes to copy.
    pub bytes: usize,
    /// The number of entries for referenced bytes.
    pub entries: usize,
}

impl<'b, 's> GatherEncoder<'b, 's> {
    /// The default minimum length, in bytes, of an item to reference: an element of a gather list
    /// costs about as much as copying this many bytes.
    pub const MIN_LEN: usize = 512;

    /// Creates a gather list that copies to the start of `buf` and stores references in `entries`.
    #[inline]
    pub fn new(buf: &'b mut [u8], entries: &'b mut [GatherEntry<'s>]) -> Self {
        Self {
            buf,
            entries,
            used: GatherSize {
                bytes: 0,
                entries: 0,
            },
            referred: 0,
            min_len: Self::MIN_LEN,
        }
    }

    /// Sets the minimum length, in bytes, of an item to reference. Shorter items are copied.
    #[inline]
    #[must_use]
    pub fn with_min_len(self, bytes: usize) -> Self {
        Self {
            min_len: bytes,
            ..self
        }
    }

    /// Returns the list.
    #[inline]
    pub fn finish(self) -> GatherList<'b, 's> {
        let Self {
            buf, entries, used, ..
        } = self;
        // Both ranges are in bounds: only successful writes were counted.
        GatherList {
            copied: buf.get(..used.bytes).unwrap_or_default(),
            entries: entries.get(..used.entries).unwrap_or_default(),
        }
    }

    /// Returns the next `n` bytes of the buffer.
    #[inline]
    fn room(&mut self, n: usize) -> Result<&mut [u8]> {
        let start = self.used.bytes;
        match start.checked_add(n).filter(|end| *end <= self.buf.len()) {
            Some(end) => {
                self.used.bytes = end;
                Ok(self.buf.get_mut(start..end).unwrap_or_default())
            }
            None => Err(self.error(ErrorKind::BufferFull)),
        }
    }
}

impl<'s> Sink<'s> for GatherEncoder<'_, 's> {
    #[inline]
    fn fixed<const N: usize>(&mut self, f: impl FnOnce(&mut [u8; N])) -> Result<()> {
        // The chunk always exists: `room` has the requested length.
        if let Some(bytes) = self.room(N)?.first_chunk_mut() {
            f(bytes);
        }
        Ok(())
    }

    #[inline]
    fn copy(&mut self, b: &[u8]) -> Result<()> {
        self.room(b.len())?.copy_from_slice(b);
        Ok(())
    }

    #[inline]
    fn raw(&mut self, b: &'s [u8]) -> Result<()> {
        if b.len() < self.min_len.max(1) {
            return self.copy(b);
        }
        match self.entries.get_mut(self.used.entries) {
            Some(entry) => {
                *entry = GatherEntry {
                    after: self.used.bytes,
                    bytes: b,
                }
            }
            None => return Err(self.error(ErrorKind::ListFull)),
        }
        self.used.entries += 1;
        self.referred = self.referred.saturating_add(b.len());
        Ok(())
    }

    #[inline]
    fn fixed_all<const N: usize, T>(
        &mut self,
        items: &[T],
        f: impl Fn(&T, &mut [u8; N]),
    ) -> Result<()> {
        // A product that overflows `usize` exceeds any buffer.
        let room = self.room(items.len().saturating_mul(N))?;
        crate::sink::fill(items, room, f);
        Ok(())
    }

    #[inline]
    fn offset(&self) -> usize {
        self.used.bytes.saturating_add(self.referred)
    }

    #[cold]
    fn error(&self, kind: ErrorKind) -> Error {
        Error::at(kind, self.offset())
    }
}

/// Computes the sizes of a gather list.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct GatherCounter {
    pub(crate) size: GatherSize,
    referred: usize,
}

impl<'s> Sink<'s> for GatherCounter {
    #[inline]
    fn fixed<const N: usize>(&mut self, _: impl FnOnce(&mut [u8; N])) -> Result<()> {
        self.size.bytes = self.size.bytes.saturating_add(N);
        Ok(())
    }

    #[inline]
    fn copy(&mut self, b: &[u8]) -> Result<()> {
        self.size.bytes = self.size.bytes.saturating_add(b.len());
        Ok(())
    }

    #[inline]
    fn raw(&mut self, b: &'s [u8]) -> Result<()> {
        if b.len() < GatherEncoder::MIN_LEN {
            return self.copy(b);
        }
        self.size.entries = self.size.entries.saturating_add(1);
        self.referred = self.referred.saturating_add(b.len());
        Ok(())
    }

    #[inline]
    fn fixed_all<const N: usize, T>(
        &mut self,
        items: &[T],
        _: impl Fn(&T, &mut [u8; N]),
    ) -> Result<()> {
        self.size.bytes = self
            .size
            .bytes
            .saturating_add(items.len().saturating_mul(N));
        Ok(())
    }

    #[inline]
    fn offset(&self) -> usize {
        self.size.bytes.saturating_add(self.referred)
    }
}

/// A message as a list of pieces, in order.
#[derive(Clone, Copy, Debug)]
pub struct GatherList<'b, 's> {
    copied: &'b [u8],
    entries: &'b [GatherEntry<'s>],
}

impl<'b, 's: 'b> GatherList<'b, 's> {
    /// Returns the length of the whole message in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.iter().fold(self.copied.len(), |sum, entry| {
            sum.saturating_add(entry.bytes.len())
        })
    }

    /// Returns true if the message has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the copied bytes: the start of the buffer.
    #[inline]
    pub fn copied(&self) -> &'b [u8] {
        self.copied
    }

    /// Returns the pieces, none of them empty: parts of the buffer, and the caller's bytes between
    /// them.
    #[inline]
    pub fn pieces(&self) -> impl Iterator<Item = &'b [u8]> + use<'b, 's> {
        let Self { copied, entries } = *self;
        let mut start = 0;
        let pairs = entries.iter().flat_map(move |entry| {
            let before = copied.get(start..entry.after).unwrap_or_default();
            start = entry.after;
            [before, entry.bytes]
        });
        let last = entries.last().map_or(0, |entry| entry.after);
        pairs
            .chain(copied.get(last..))
            .filter(|piece| !piece.is_empty())
    }
}

#[cfg(test)]
mod tests;
