//! Encoding without copying what is long.

use core::mem;

use crate::{Encoder, Error, Result, Sink};

/// Octets of the caller's which a [`Gather`] refers to, and where among the copied ones they belong.
#[derive(Clone, Copy, Default, Debug)]
pub struct Kept<'s> {
    /// Octets copied before it.
    after: usize,
    octets: &'s [u8],
}

/// Encodes a message as a gather list: short items are copied into the caller's buffer, and to long opaques the list only
/// refers.
///
/// A transport which posts scatter/gather elements, or writes vectored, so sends a message of a megabyte without touching
/// it: header octets, the caller's slice, its padding. [`Encode::gather`](crate::Encode::gather) does the whole.
///
/// ```
/// use xdrgen_runtime::{Encode, Gather, Kept};
///
/// let data = vec![7; 1_000_001];
/// let read = (true, &data[..]); // eof and data of an NFS READ
///
/// let (mut buf, mut kept) = ([0; 32], [Kept::default(); 2]);
/// let gathered = read.gather(&mut buf, &mut kept)?;
/// let pieces: Vec<&[u8]> = gathered.pieces().collect();
/// assert_eq!(pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [8, 1_000_001, 3]);
/// assert!(std::ptr::eq(pieces[1], &data[..]));
/// assert_eq!(pieces.concat(), read.encode_to_vec()?);
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct Gather<'b, 's> {
    copied: Encoder<'b>,
    /// Places of the list that are free.
    free: &'b mut [Kept<'s>],
    /// Places that were there.
    places: usize,
    /// Octets referred to.
    kept: usize,
    least: usize,
}

impl<'b, 's> Gather<'b, 's> {
    /// Octets from which on an opaque is referred to, unless [`at_least`](Self::at_least) says otherwise: an element of a
    /// gather list costs about as much as copying so many.
    pub const LEAST: usize = 512;

    /// A list which copies to the beginning of `buf`, and refers to as many opaques as there are places in `kept`;
    /// further ones are copied.
    #[inline]
    pub fn new(buf: &'b mut [u8], kept: &'b mut [Kept<'s>]) -> Self {
        Self { copied: Encoder::new(buf), places: kept.len(), free: kept, kept: 0, least: Self::LEAST }
    }

    /// Refers to opaques of so many octets or more, and copies shorter ones.
    #[inline]
    #[must_use]
    pub fn at_least(self, octets: usize) -> Self {
        Self { least: octets, ..self }
    }

    /// How many octets were copied, and how many opaques are referred to: what [`Gathered::new`] wants to know.
    #[inline]
    pub fn finish(self) -> (usize, usize) {
        (self.copied.position(), self.places - self.free.len())
    }

    #[inline(always)]
    fn keep(&mut self, octets: &'s [u8]) -> bool {
        if octets.len() < self.least.max(1) {
            return false;
        }
        let Some((place, free)) = mem::take(&mut self.free).split_first_mut() else { return false };
        *place = Kept { after: self.copied.position(), octets };
        self.free = free;
        self.kept = self.kept.saturating_add(octets.len());
        true
    }
}

impl<'s> Sink<'s> for Gather<'_, 's> {
    #[inline(always)]
    fn fixed<const N: usize>(&mut self, f: impl FnOnce(&mut [u8; N])) -> Result<()> {
        self.copied.fixed(f).map_err(|error| self.whole(error))
    }

    #[inline]
    fn raw(&mut self, b: &'s [u8]) -> Result<()> {
        if self.keep(b) {
            return Ok(());
        }
        self.copied.raw(b).map_err(|error| self.whole(error))
    }

    #[inline]
    fn many<const N: usize, T>(&mut self, items: &[T], f: impl Fn(&T, &mut [u8; N])) -> Result<()> {
        self.copied.many(items, f).map_err(|error| self.whole(error))
    }

    #[inline(always)]
    fn offset(&self) -> usize {
        self.copied.position().saturating_add(self.kept)
    }
}

impl Gather<'_, '_> {
    /// An error of the copied part, at its place in the whole message.
    #[cold]
    fn whole(&self, error: Error) -> Error {
        Error::at(error.kind(), self.offset())
    }
}

/// A message as a list of pieces, in their order.
#[derive(Clone, Copy, Debug)]
pub struct Gathered<'p> {
    copied: &'p [u8],
    kept: &'p [Kept<'p>],
}

impl<'p> Gathered<'p> {
    /// The list which a [`Gather`] over the same `buf` and `kept` has made: the first `octets` of the one and the first
    /// `opaques` of the other.
    #[inline]
    pub fn new(buf: &'p [u8], kept: &'p [Kept<'p>], (octets, opaques): (usize, usize)) -> Self {
        Self { copied: buf.get(..octets).unwrap_or(buf), kept: kept.get(..opaques).unwrap_or(kept) }
    }

    /// Octets of the whole message.
    #[inline]
    pub fn len(&self) -> usize {
        self.kept.iter().fold(self.copied.len(), |sum, kept| sum.saturating_add(kept.octets.len()))
    }

    /// Whether the message has no octets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The octets that were copied.
    #[inline]
    pub fn copied(&self) -> &'p [u8] {
        self.copied
    }

    /// The pieces, none of them empty: parts of the buffer, and between them the caller's opaques.
    #[inline]
    pub fn pieces(&self) -> impl Iterator<Item = &'p [u8]> + use<'p> {
        let Self { copied, kept } = *self;
        let mut start = 0;
        let pairs = kept.iter().flat_map(move |kept| {
            let before = copied.get(start..kept.after).unwrap_or_default();
            start = kept.after;
            [before, kept.octets]
        });
        let last = kept.last().map_or(0, |kept| kept.after);
        pairs.chain(copied.get(last..)).filter(|piece| !piece.is_empty())
    }
}

#[cfg(test)]
mod tests;
