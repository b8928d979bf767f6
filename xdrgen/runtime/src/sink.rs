//! Where encoded octets go.

use core::mem;

use crate::wire::padding;
use crate::{Error, ErrorKind, Fixed, Result, vector};

/// Numbers, big-endian.
macro_rules! numbers {
    ($($name:ident $what:literal $section:literal;)*) => {$(
        #[doc = concat!($what, " (RFC 4506, section ", $section, ").")]
        ///
        /// # Errors
        /// `BufferFull`.
        #[inline(always)]
        fn $name(&mut self, value: $name) -> Result<()> {
            self.fixed(|octets| value.write(octets))
        }
    )*};
}

/// Where octets go: an [`Encoder`] writes them, a [`Counter`] counts them, a [`Gather`](crate::Gather) keeps references to
/// the long ones.
///
/// `'s` is how long the octets of the value live, so that a sink may keep them. The required methods write nothing if they
/// fail.
pub trait Sink<'s> {
    /// `N` octets, which `f` fills in.
    ///
    /// # Errors
    /// `BufferFull`.
    fn fixed<const N: usize>(&mut self, f: impl FnOnce(&mut [u8; N])) -> Result<()>;

    /// These octets as they are, without padding, copied if they are not to be kept.
    ///
    /// # Errors
    /// `BufferFull`.
    fn copy(&mut self, b: &[u8]) -> Result<()>;

    /// These octets as they are, without padding. The sink may keep the reference.
    ///
    /// # Errors
    /// `BufferFull`; `ListFull` of a [`Gather`](crate::Gather).
    #[inline(always)]
    fn raw(&mut self, b: &'s [u8]) -> Result<()> {
        self.copy(b)
    }

    /// `N` octets for each item, which `f` fills in: one bounds check for all.
    ///
    /// # Errors
    /// `BufferFull`.
    fn many<const N: usize, T>(&mut self, items: &[T], f: impl Fn(&T, &mut [u8; N])) -> Result<()>;

    /// Octets so far.
    fn offset(&self) -> usize;

    /// Octets of a fixed length, then their padding (RFC 4506, section 4.9).
    ///
    /// # Errors
    /// `BufferFull`.
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

    /// A length, octets, padding (RFC 4506, section 4.10).
    ///
    /// # Errors
    /// `TooLong` if the length does not fit in 32 bits; `BufferFull`.
    #[inline]
    fn opaque(&mut self, b: &'s [u8]) -> Result<()> {
        self.length(b.len())?;
        self.padded(b)
    }

    /// A count or length.
    ///
    /// # Errors
    /// `TooLong` if it does not fit in 32 bits; `BufferFull`.
    #[inline]
    fn length(&mut self, count: usize) -> Result<()> {
        match u32::try_from(count) {
            Ok(count) => self.u32(count),
            Err(_) => Err(self.error(ErrorKind::TooLong)),
        }
    }

    /// A boolean (RFC 4506, section 4.4).
    ///
    /// # Errors
    /// `BufferFull`.
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

    /// This sink for values which do not live as long as `'s`, of which it keeps nothing.
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
    /// assert_eq!(Time(7_000_000_009).encode_to_vec()?, [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9]);
    /// # Ok::<(), xdrgen_runtime::Error>(())
    /// ```
    #[inline(always)]
    fn copying(&mut self) -> Copying<'_, Self>
    where
        Self: Sized,
    {
        Copying(self)
    }

    /// An error here.
    #[inline(always)]
    fn error(&self, kind: ErrorKind) -> Error {
        Error::at(kind, self.offset())
    }
}

/// Writes into the caller's buffer.
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
    /// What is not written yet.
    rest: &'b mut [u8],
    /// Octets of the whole buffer.
    len: usize,
}

impl<'b> Encoder<'b> {
    /// An encoder from the beginning of `buf`.
    #[inline(always)]
    pub fn new(buf: &'b mut [u8]) -> Self {
        Self { len: buf.len(), rest: buf }
    }

    /// Octets written so far.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.len - self.rest.len()
    }

    /// Gives the buffer back to its owner; returns the octets written.
    #[inline(always)]
    pub fn finish(self) -> usize {
        self.position()
    }

    /// The next `n` octets, to be written.
    #[inline(always)]
    fn room(&mut self, n: usize) -> Result<&'b mut [u8]> {
        // Asked first, because a split that fails would not give back what it was to split.
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
        // Always of the length asked for.
        if let Some(octets) = self.room(N)?.first_chunk_mut() {
            f(octets);
        }
        Ok(())
    }

    #[inline(always)]
    fn copy(&mut self, b: &[u8]) -> Result<()> {
        self.room(b.len())?.copy_from_slice(b);
        Ok(())
    }

    #[inline(always)]
    fn many<const N: usize, T>(&mut self, items: &[T], f: impl Fn(&T, &mut [u8; N])) -> Result<()> {
        // A product beyond `usize` is beyond any buffer, too.
        let room = self.room(items.len().saturating_mul(N))?;
        fill(items, room, f);
        Ok(())
    }

    #[inline(always)]
    fn offset(&self) -> usize {
        self.position()
    }
}

/// Fills a room of `N` octets for each item.
#[inline(always)]
pub(crate) fn fill<const N: usize, T>(items: &[T], room: &mut [u8], f: impl Fn(&T, &mut [u8; N])) {
    if N > 0 {
        vector::over::<N, _>(
            room.len(),
            #[inline(always)]
            || items.iter().zip(room.as_chunks_mut().0).for_each(|(item, octets)| f(item, octets)),
        );
    }
}

/// A sink which keeps nothing of what it is given; from [`Sink::copying`].
#[derive(Debug)]
pub struct Copying<'k, S>(&'k mut S);

impl<'s, 't, S: Sink<'s>> Sink<'t> for Copying<'_, S> {
    #[inline(always)]
    fn fixed<const N: usize>(&mut self, f: impl FnOnce(&mut [u8; N])) -> Result<()> {
        self.0.fixed(f)
    }

    #[inline(always)]
    fn copy(&mut self, b: &[u8]) -> Result<()> {
        self.0.copy(b)
    }

    #[inline(always)]
    fn many<const N: usize, T>(&mut self, items: &[T], f: impl Fn(&T, &mut [u8; N])) -> Result<()> {
        self.0.many(items, f)
    }

    #[inline(always)]
    fn offset(&self) -> usize {
        self.0.offset()
    }
}

/// Counts octets and writes none; saturates at `usize::MAX`.
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
    octets: usize,
}

impl Counter {
    /// A counter at 0.
    pub const fn new() -> Self {
        Self { octets: 0 }
    }

    /// Octets counted so far.
    pub const fn position(&self) -> usize {
        self.octets
    }
}

impl<'s> Sink<'s> for Counter {
    #[inline(always)]
    fn fixed<const N: usize>(&mut self, _: impl FnOnce(&mut [u8; N])) -> Result<()> {
        self.octets = self.octets.saturating_add(N);
        Ok(())
    }

    #[inline(always)]
    fn copy(&mut self, b: &[u8]) -> Result<()> {
        self.octets = self.octets.saturating_add(b.len());
        Ok(())
    }

    #[inline(always)]
    fn many<const N: usize, T>(&mut self, items: &[T], _: impl Fn(&T, &mut [u8; N])) -> Result<()> {
        self.octets = self.octets.saturating_add(items.len().saturating_mul(N));
        Ok(())
    }

    #[inline(always)]
    fn offset(&self) -> usize {
        self.octets
    }
}

#[cfg(test)]
mod tests;
