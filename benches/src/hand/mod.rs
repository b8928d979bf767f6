//! Codecs that an expert would write by hand for these messages only. Generated code is compared
//! with them.
//!
//! `visit` validates a message and reads every element; it returns the sum of all elements, so that
//! the compiler cannot omit a read. `locate` only validates the framing, and returns the locations
//! of the lists. `encode` computes the length first and writes from slices. These codecs have no
//! limits, and no offsets or names in their errors.

pub(crate) mod call;
pub(crate) mod chunks;
#[cfg(nfs)]
pub(crate) mod compound;
pub(crate) mod placement;
pub(crate) mod properties;

/// The rest of the input.
#[derive(Clone, Copy)]
pub(crate) struct In<'a>(pub(crate) &'a [u8]);

impl<'a> In<'a> {
    #[inline(always)]
    pub(crate) fn words<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(head)
    }

    #[inline(always)]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.words().map(|word| u32::from_be_bytes(*word))
    }

    #[inline(always)]
    pub(crate) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(head)
    }

    /// Reads a length, that many bytes, and their padding.
    #[inline(always)]
    pub(crate) fn opaque(&mut self, most: u32) -> Option<&'a [u8]> {
        let length = self.u32()?;
        if length > most {
            return None;
        }
        let bytes = self.take(length as usize)?;
        let padding = self.take(length.wrapping_neg() as usize & 3)?;
        padding.iter().all(|byte| *byte == 0).then_some(bytes)
    }

    /// Returns the bytes that were read since the input was `before`.
    #[inline(always)]
    pub(crate) fn since(self, before: Self) -> &'a [u8] {
        &before.0[..before.0.len() - self.0.len()]
    }
}

/// Returns the word at the offset `at` of a fixed part.
#[inline(always)]
pub(crate) fn word<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The rest of the output.
pub(crate) struct Out<'b>(pub(crate) &'b mut [u8]);

impl<'b> Out<'b> {
    /// Returns the next `N` bytes. The caller has computed the total length, so that there is room.
    #[inline(always)]
    pub(crate) fn next<const N: usize>(&mut self) -> Option<&'b mut [u8; N]> {
        let (head, rest) = std::mem::take(&mut self.0).split_first_chunk_mut()?;
        self.0 = rest;
        Some(head)
    }

    #[inline(always)]
    pub(crate) fn u32(&mut self, value: u32) -> Option<()> {
        *self.next()? = value.to_be_bytes();
        Some(())
    }

    #[inline(always)]
    pub(crate) fn opaque(&mut self, bytes: &[u8]) -> Option<()> {
        self.u32(u32::try_from(bytes.len()).ok()?)?;
        let (body, rest) = std::mem::take(&mut self.0).split_at_mut_checked(bytes.len())?;
        body.copy_from_slice(bytes);
        let (padding, rest) = rest.split_at_mut_checked(bytes.len().wrapping_neg() & 3)?;
        padding.fill(0);
        self.0 = rest;
        Some(())
    }
}

#[inline(always)]
pub(crate) fn put<const N: usize, const LEN: usize>(
    out: &mut [u8; N],
    at: usize,
    value: [u8; LEN],
) {
    out[at..at + LEN].copy_from_slice(&value);
}

/// Returns the encoded length of an opaque, with its count and padding.
pub(crate) fn opaque_len(length: usize) -> usize {
    4 + length.next_multiple_of(4)
}
