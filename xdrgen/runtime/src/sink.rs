//! Sinks: destinations of encoded bytes.
//!
//! A transport's sink (`oncrpc`) overrides [`Sink::item`] and [`Sink::no_item`] to move items; the
//! sinks here encode items in place. [`CopySink`] forwards neither, so that items of temporary
//! values stay in the message. Every sink must count in `offset` the bytes that it does not copy,
//! too.

use core::mem;

use crate::wire::padding;
use crate::{Error, ErrorKind, Fixed, Item, Result, vector};

/// Big-endian numbers.
macro_rules! numbers {
    ($($name:ident $what:literal $section:literal;)*) => {$(
        #[doc = concat!($what, " (RFC 4506, section ", $section, ").")]
        ///
        /// # Errors
        /// Returns `BufferFull` if the sink is full.
        #[inline(always)]
        fn $name(&mut self, value: $name) -> Result<()> {
            self.fixed(|bytes| value.write(bytes))
        }
    )*};
}

/// The destination of encoded bytes: an [`Encoder`] writes them, a [`Counter`] counts them, a
/// [`GatherEncoder`](crate::GatherEncoder) keeps references to long items.
///
/// `'s` is the lifetime of the value, so that a sink may keep references to it. The required
/// methods write nothing if they fail.
pub trait Sink<'s> {
    /// Encodes `N` bytes, which `f` fills in.
    ///
    /// # Errors
    /// Returns `BufferFull` if the sink is full.
    fn fixed<const N: usize>(&mut self, f: impl FnOnce(&mut [u8; N])) -> Result<()>;

    /// Encodes bytes without padding. The sink copies them.
    ///
    /// # Errors
    /// Returns `BufferFull` if the sink is full.
    fn copy(&mut self, b: &[u8]) -> Result<()>;

    /// Encodes bytes without padding. The sink may keep the reference.
    ///
    /// # Errors
    /// Returns `BufferFull` if the sink is full, and `ListFull` if a
    /// [`GatherEncoder`](crate::GatherEncoder) has no entry left.
    #[inline(always)]
    fn raw(&mut self, b: &'s [u8]) -> Result<()> {
        self.copy(b)
    }

    /// Encodes `N` bytes for each item, which `f` fills in, with one bounds check for all.
    ///
    /// # Errors
    /// Returns `BufferFull` if the sink is full.
    fn fixed_all<const N: usize, T>(
        &mut self,
        items: &[T],
        f: impl Fn(&T, &mut [u8; N]),
    ) -> Result<()>;

    /// Returns the number of bytes encoded so far.
    fn offset(&self) -> usize;

    /// Encodes bytes of a fixed length and their padding (RFC 4506, section 4.9).
    ///
    /// # Errors
    /// Returns `BufferFull` if the sink is full.
    #[inline]
    fn padded(&mut self, b: &'s [u8]) -> Result<()> {
        self.raw(b)?;
        match padding(b.len()) {
            0 => Ok(()),
            1 => self.fixed(|zeros: &mut [u8; 1]| zeros.fill(0)),
            2 => self.fixed(|zeros: &mut [u8; 2]| zeros.fill(0)),
            _ => self.fixed(|zeros: &mut [u8; 3]| zeros.fill(0)),
        }
    }

    /// Encodes a length, bytes, and padding (RFC 4506, section 4.10).
    ///
    /// # Errors
    /// Returns `TooLong` if the length does not fit in 32 bits, and `BufferFull` if the sink is
    /// full.
    #[inline]
    fn opaque(&mut self, b: &'s [u8]) -> Result<()> {
        self.length(b.len())?;
        self.padded(b)
    }

    /// Encodes an item of at most `max` bytes. A transport's sink may move it out of the message;
    /// by default its bytes are encoded in place.
    ///
    /// # Errors
    /// Returns `TooLong` if the item is longer than `max`, and `BufferFull` if the sink is full.
    #[inline]
    fn item(&mut self, item: &'s Item<'_>, max: u32) -> Result<()> {
        if item.len() > max as usize {
            return Err(self.error(ErrorKind::TooLong));
        }
        self.opaque(item)
    }

    /// Notes that a result that may have an item has none here, such as the result of a READ that
    /// failed. A transport that has memory for each result's item leaves this one's empty (RFC
    /// 8267, section 6.4.1). For generated code.
    ///
    /// # Errors
    /// Returns `TooLong` if the sink has no position for it.
    #[doc(hidden)]
    #[inline]
    fn no_item(&mut self) -> Result<()> {
        Ok(())
    }

    /// Encodes a count or length.
    ///
    /// # Errors
    /// Returns `TooLong` if it does not fit in 32 bits, and `BufferFull` if the sink is full.
    #[inline]
    fn length(&mut self, count: usize) -> Result<()> {
        match u32::try_from(count) {
            Ok(count) => self.u32(count),
            Err(_) => Err(self.error(ErrorKind::TooLong)),
        }
    }

    /// Encodes a boolean (RFC 4506, section 4.4).
    ///
    /// # Errors
    /// Returns `BufferFull` if the sink is full.
    #[inline(always)]
    fn bool(&mut self, value: bool) -> Result<()> {
        self.u32(value.into())
    }

    numbers! {
        u32 "An unsigned integer" "4.2";
        i32 "An integer" "4.1";
        u64 "An unsigned hyper integer" "4.5";
        i64 "A hyper integer" "4.5";
        f32 "A float" "4.6";
        f64 "A double" "4.7";
    }

    /// Returns this sink for values that do not live as long as `'s`. It copies their bytes.
    ///
    /// ```
    /// use xdrgen_runtime::{Encode, Result, Sink};
    ///
    /// struct Time(u64); // in nanoseconds; seconds and nanoseconds in XDR
    ///
    /// impl Encode for Time {
    ///     fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
    ///         let parts = [self.0 / 1_000_000_000, self.0 % 1_000_000_000];
    ///         parts.encode(&mut sink.copying())
    ///     }
    /// }
    /// let bytes = Time(7_000_000_009).encode_to_vec()?;
    /// assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9]);
    /// # Ok::<(), xdrgen_runtime::Error>(())
    /// ```
    #[inline(always)]
    fn copying(&mut self) -> CopySink<'_, Self>
    where
        Self: Sized,
    {
        CopySink(self)
    }

    /// Returns an error at the current offset.
    #[inline(always)]
    fn error(&self, kind: ErrorKind) -> Error {
        Error::at(kind, self.offset())
    }
}

/// A sink that writes into the caller's buffer.
///
/// ```
/// use xdrgen_runtime::{Encoder, Encode, ErrorKind, Sink};
///
/// let mut buf = [0; 12];
/// let mut encoder = Encoder::new(&mut buf);
/// encoder.opaque(b"abc")?;
/// assert_eq!(encoder.position(), 8);
/// let error = 7u64.encode(&mut encoder).unwrap_err();
/// assert_eq!((error.kind(), error.offset()), (ErrorKind::BufferFull, 8));
/// assert_eq!(buf, [0, 0, 0, 3, b'a', b'b', b'c', 0, 0, 0, 0, 0]);
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct Encoder<'b> {
    /// The rest of the buffer.
    rest: &'b mut [u8],
    /// The length of the whole buffer in bytes.
    len: usize,
}

impl<'b> Encoder<'b> {
    /// Creates an encoder at the start of `buf`.
    #[inline(always)]
    pub fn new(buf: &'b mut [u8]) -> Self {
        Self {
            len: buf.len(),
            rest: buf,
        }
    }

    /// Returns the number of bytes written so far.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.len - self.rest.len()
    }

    /// Ends the borrow of the buffer, and returns the number of bytes written.
    #[inline(always)]
    pub fn finish(self) -> usize {
        self.position()
    }

    /// Returns the next `n` bytes of the buffer.
    #[inline(always)]
    fn room(&mut self, n: usize) -> Result<&'b mut [u8]> {
        // The check is first, because a failed split would not return the slice.
        if n > self.rest.len() {
            return Err(Error::at(ErrorKind::BufferFull, self.position()));
        }
        let (room, rest) = mem::take(&mut self.rest).split_at_mut(n);
        self.rest = rest;
        Ok(room)
    }
}

impl<'s> Sink<'s> for Encoder<'_> {
    #[inline(always)]
    fn fixed<const N: usize>(&mut self, f: impl FnOnce(&mut [u8; N])) -> Result<()> {
        // The chunk always exists: `room` has the requested length.
        if let Some(bytes) = self.room(N)?.first_chunk_mut() {
            f(bytes);
        }
        Ok(())
    }

    #[inline(always)]
    fn copy(&mut self, b: &[u8]) -> Result<()> {
        self.room(b.len())?.copy_from_slice(b);
        Ok(())
    }

    #[inline(always)]
    fn fixed_all<const N: usize, T>(
        &mut self,
        items: &[T],
        f: impl Fn(&T, &mut [u8; N]),
    ) -> Result<()> {
        // A product that overflows `usize` exceeds any buffer.
        let room = self.room(items.len().saturating_mul(N))?;
        fill(items, room, f);
        Ok(())
    }

    #[inline(always)]
    fn offset(&self) -> usize {
        self.position()
    }
}

/// Fills `N` bytes for each item.
#[inline(always)]
pub(crate) fn fill<const N: usize, T>(items: &[T], room: &mut [u8], f: impl Fn(&T, &mut [u8; N])) {
    if N > 0 {
        vector::run_vectorized::<N, _>(
            room.len(),
            #[inline(always)]
            || {
                items
                    .iter()
                    .zip(room.as_chunks_mut().0)
                    .for_each(|(item, bytes)| f(item, bytes))
            },
        );
    }
}

/// A sink that copies all bytes. [`Sink::copying`] creates it.
#[derive(Debug)]
pub struct CopySink<'k, S>(&'k mut S);

impl<'s, 't, S: Sink<'s>> Sink<'t> for CopySink<'_, S> {
    #[inline(always)]
    fn fixed<const N: usize>(&mut self, f: impl FnOnce(&mut [u8; N])) -> Result<()> {
        self.0.fixed(f)
    }

    #[inline(always)]
    fn copy(&mut self, b: &[u8]) -> Result<()> {
        self.0.copy(b)
    }

    #[inline(always)]
    fn fixed_all<const N: usize, T>(
        &mut self,
        items: &[T],
        f: impl Fn(&T, &mut [u8; N]),
    ) -> Result<()> {
        self.0.fixed_all(items, f)
    }

    #[inline(always)]
    fn offset(&self) -> usize {
        self.0.offset()
    }
}

/// A sink that counts bytes and writes none. It saturates at `usize::MAX`.
///
/// ```
/// use xdrgen_runtime::{Counter, Encode};
///
/// let mut counter = Counter::new();
/// (7u32, [1u8; 5]).encode(&mut counter)?;
/// assert_eq!(counter.position(), 12);
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct Counter {
    bytes: usize,
}

impl Counter {
    /// Creates a counter at 0.
    pub const fn new() -> Self {
        Self { bytes: 0 }
    }

    /// Returns the number of bytes counted so far.
    pub const fn position(&self) -> usize {
        self.bytes
    }
}

impl<'s> Sink<'s> for Counter {
    #[inline(always)]
    fn fixed<const N: usize>(&mut self, _: impl FnOnce(&mut [u8; N])) -> Result<()> {
        self.bytes = self.bytes.saturating_add(N);
        Ok(())
    }

    #[inline(always)]
    fn copy(&mut self, b: &[u8]) -> Result<()> {
        self.bytes = self.bytes.saturating_add(b.len());
        Ok(())
    }

    #[inline(always)]
    fn fixed_all<const N: usize, T>(
        &mut self,
        items: &[T],
        _: impl Fn(&T, &mut [u8; N]),
    ) -> Result<()> {
        self.bytes = self.bytes.saturating_add(items.len().saturating_mul(N));
        Ok(())
    }

    #[inline(always)]
    fn offset(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests;
