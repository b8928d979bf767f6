//! Encoding without copying what is long.

use crate::{Error, ErrorKind, Result, Sink};

/// Octets of the caller's which a [`Gather`] refers to, and where among the copied ones they belong.
#[derive(Clone, Copy, Default, Debug)]
pub struct Kept<'s> {
    /// Octets copied before it.
    after: usize,
    octets: &'s [u8],
}

/// Encodes a message as a gather list: short items are copied into the caller's buffer, and to what is long (opaques, and
/// sequences which are octets of a message themselves) the list only refers.
///
/// A transport which posts scatter/gather elements, or writes vectored, so sends a message of a megabyte without touching
/// it: header octets, the caller's slice, its padding. [`Encode::gather`](crate::Encode::gather) does the whole, and
/// [`Encode::gather_needs`](crate::Encode::gather_needs) tells the sizes.
///
/// ```
/// use xdrgen_runtime::{Encode, Kept};
///
/// let data = vec![7; 1_000_001];
/// let messages = [(true, &data[..]), (false, &data[..5])]; // eof and data of an NFS READ
///
/// let mut buf = [0; 32];
/// let mut kept = [Kept::default(); 2];
/// for message in &messages {
///     let gathered = message.gather(&mut buf, &mut kept)?;
///     let pieces: Vec<&[u8]> = gathered.pieces().collect();
///     assert_eq!(pieces.concat(), message.encode_to_vec()?);
///     match message.0 {
///         true => assert!(std::ptr::eq(pieces[1], &data[..]) && pieces[2] == [0; 3]),
///         false => assert_eq!(pieces.len(), 1),
///     }
/// }
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct Gather<'b, 's> {
    buf: &'b mut [u8],
    kept: &'b mut [Kept<'s>],
    done: Needs,
    /// Octets referred to.
    referred: usize,
    least: usize,
}

/// What a gather list takes, or has taken.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Needs {
    /// Octets of buffer.
    pub octets: usize,
    /// Places for what is referred to.
    pub places: usize,
}

impl<'b, 's> Gather<'b, 's> {
    /// Octets from which on an item is referred to, unless [`at_least`](Self::at_least) says otherwise: an element of a
    /// gather list costs about as much as copying so many.
    pub const LEAST: usize = 512;

    /// A list which copies to the beginning of `buf`, and refers to as many long items as there are places in `kept`.
    #[inline]
    pub fn new(buf: &'b mut [u8], kept: &'b mut [Kept<'s>]) -> Self {
        Self { buf, kept, done: Needs { octets: 0, places: 0 }, referred: 0, least: Self::LEAST }
    }

    /// Refers to items of so many octets or more, and copies shorter ones.
    #[inline]
    #[must_use]
    pub fn at_least(self, octets: usize) -> Self {
        Self { least: octets, ..self }
    }

    /// The list.
    #[inline]
    pub fn finish(self) -> Gathered<'b, 's> {
        let Self { buf, kept, done, .. } = self;
        // Both are within: nothing was counted without a place.
        Gathered {
            copied: buf.get(..done.octets).unwrap_or_default(),
            kept: kept.get(..done.places).unwrap_or_default(),
        }
    }

    /// The next `n` octets of the buffer, to be written.
    #[inline]
    fn room(&mut self, n: usize) -> Result<&mut [u8]> {
        let start = self.done.octets;
        match start.checked_add(n).filter(|end| *end <= self.buf.len()) {
            Some(end) => {
                self.done.octets = end;
                Ok(self.buf.get_mut(start..end).unwrap_or_default())
            }
            None => Err(self.error(ErrorKind::BufferFull)),
        }
    }
}

impl<'s> Sink<'s> for Gather<'_, 's> {
    #[inline]
    fn fixed<const N: usize>(&mut self, f: impl FnOnce(&mut [u8; N])) -> Result<()> {
        // Always of the length asked for.
        if let Some(octets) = self.room(N)?.first_chunk_mut() {
            f(octets);
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
        if b.len() < self.least.max(1) {
            return self.copy(b);
        }
        match self.kept.get_mut(self.done.places) {
            Some(place) => *place = Kept { after: self.done.octets, octets: b },
            None => return Err(self.error(ErrorKind::ListFull)),
        }
        self.done.places += 1;
        self.referred = self.referred.saturating_add(b.len());
        Ok(())
    }

    #[inline]
    fn many<const N: usize, T>(&mut self, items: &[T], f: impl Fn(&T, &mut [u8; N])) -> Result<()> {
        // A product beyond `usize` is beyond any buffer, too.
        let room = self.room(items.len().saturating_mul(N))?;
        crate::sink::fill(items, room, f);
        Ok(())
    }

    #[inline]
    fn offset(&self) -> usize {
        self.done.octets.saturating_add(self.referred)
    }

    #[cold]
    fn error(&self, kind: ErrorKind) -> Error {
        Error::at(kind, self.offset())
    }
}

/// Counts what a [`Gather`] would take.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) needs: Needs,
    referred: usize,
}

impl<'s> Sink<'s> for Tally {
    #[inline]
    fn fixed<const N: usize>(&mut self, _: impl FnOnce(&mut [u8; N])) -> Result<()> {
        self.needs.octets = self.needs.octets.saturating_add(N);
        Ok(())
    }

    #[inline]
    fn copy(&mut self, b: &[u8]) -> Result<()> {
        self.needs.octets = self.needs.octets.saturating_add(b.len());
        Ok(())
    }

    #[inline]
    fn raw(&mut self, b: &'s [u8]) -> Result<()> {
        if b.len() < Gather::LEAST {
            return self.copy(b);
        }
        self.needs.places = self.needs.places.saturating_add(1);
        self.referred = self.referred.saturating_add(b.len());
        Ok(())
    }

    #[inline]
    fn many<const N: usize, T>(&mut self, items: &[T], _: impl Fn(&T, &mut [u8; N])) -> Result<()> {
        self.needs.octets = self.needs.octets.saturating_add(items.len().saturating_mul(N));
        Ok(())
    }

    #[inline]
    fn offset(&self) -> usize {
        self.needs.octets.saturating_add(self.referred)
    }
}

/// A message as a list of pieces, in their order.
#[derive(Clone, Copy, Debug)]
pub struct Gathered<'b, 's> {
    copied: &'b [u8],
    kept: &'b [Kept<'s>],
}

impl<'b, 's: 'b> Gathered<'b, 's> {
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

    /// The octets that were copied: the beginning of the buffer.
    #[inline]
    pub fn copied(&self) -> &'b [u8] {
        self.copied
    }

    /// The pieces, none of them empty: parts of the buffer, and between them the caller's octets.
    #[inline]
    pub fn pieces(&self) -> impl Iterator<Item = &'b [u8]> + use<'b, 's> {
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
