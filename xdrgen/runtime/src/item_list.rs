//! The items of a received message that are not in its stream: which item belongs to which field.
//! `Decoder::item`, `skip_item` and `no_item` ask; `oncrpc` and `rpcrdma-verbs` build the lists.
//!
//! A field is known by its address, so that a decoder must read parts of `stream` itself and no
//! copy. Where items are matched in order, the first walk must follow the order of the stream: a
//! match is stored once, and later walks find the stored one.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::wire::padding;
use crate::{ErrorKind, Item, Result, SharedBytes, Sink};

/// The maximum number of items in a list.
pub const MAX_LISTED_ITEMS: usize = 32;

/// Stands for an offset that is not known yet.
const NONE: u32 = u32::MAX;

/// How the items of an [`ItemList`] are matched to fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Matching {
    /// By their positions in the stream as if all items were inline: Read chunks of RPC-over-RDMA
    /// (RFC 8166, section 3.4.5).
    ByPosition,
    /// By their order among the fields that are eligible: Write chunks of a reply (RFC 8166,
    /// section 4.3.2.1). An empty item marks a field whose bytes are in the stream.
    InOrder,
}

/// An item that a transport received outside of the message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedItem {
    /// The offset of its first byte in the stream as if all items were inline. It has no meaning if
    /// items are matched in order.
    pub position: u32,
    /// The bytes. Bytes beyond the length in the stream are ignored.
    pub bytes: SharedBytes,
}

/// The items of one received message, for the decoder
/// ([`Decoder::with_items`](crate::Decoder::with_items)).
///
/// The decoder finds an item by the address at which its bytes would be in the stream, so that the
/// elements of a borrowed sequence, which are decoded later and perhaps several times, find theirs.
///
/// ```
/// use xdrgen_runtime::{Decoder, ItemList, Limits, Matching, ReceivedItem};
///
/// // A number, an item of 5 bytes that is not in the stream, and a number.
/// let stream = [0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 9];
/// let items = [ReceivedItem { position: 8, bytes: b"hello".to_vec().into() }];
/// let list = ItemList::new(&stream, &items, Matching::ByPosition);
///
/// let mut d = Decoder::with_items(&list, &Limits::DEFAULT)?;
/// assert_eq!(d.u32()?, 1);
/// assert_eq!(*d.item(u32::MAX)?, *b"hello");
/// assert_eq!(d.u32()?, 9);
/// assert!(list.is_used_up());
/// assert_eq!(list.total_len(), 12 + 5);
/// # Ok::<(), xdrgen_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct ItemList<'a> {
    stream: &'a [u8],
    items: &'a [ReceivedItem],
    matching: Matching,
    /// The buffer that contains the stream. Inline items are shares in it.
    home: Option<&'a SharedBytes>,
    /// A bit for each item that was matched to a field.
    used: AtomicU32,
    /// The offsets in the stream of the fields whose items are matched in order.
    offsets: [AtomicU32; MAX_LISTED_ITEMS],
}

impl<'a> ItemList<'a> {
    /// Creates the list of a stream's items, in the order of their positions. Items beyond the
    /// first [`MAX_LISTED_ITEMS`] are never found.
    #[must_use]
    pub fn new(stream: &'a [u8], items: &'a [ReceivedItem], matching: Matching) -> Self {
        Self {
            stream,
            items: items.get(..MAX_LISTED_ITEMS).unwrap_or(items),
            matching,
            home: None,
            used: AtomicU32::new(0),
            offsets: [const { AtomicU32::new(NONE) }; MAX_LISTED_ITEMS],
        }
    }

    /// Creates the list of a stream that consists of all of `home` and contains all items inline.
    /// Each decoded item is a share in `home`.
    #[must_use]
    pub fn shared(home: &'a SharedBytes) -> Self {
        Self {
            home: Some(home),
            ..Self::new(home, &[], Matching::ByPosition)
        }
    }

    /// Returns the stream.
    #[must_use]
    pub fn stream(&self) -> &'a [u8] {
        self.stream
    }

    /// Returns the bytes of the stream and of the items that are not in it.
    #[must_use]
    pub fn total_len(&self) -> usize {
        let items = self.items.iter().map(|item| item.bytes.len());
        self.stream.len() + items.sum::<usize>()
    }

    /// Returns true if every item was matched to a field. If a decode succeeds and this is false,
    /// the peer has reduced data that is not eligible, and the decoded value differs from the one
    /// that it sent.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        let all = self.items.iter().enumerate();
        let used = self.used.load(Relaxed);
        let mut needed =
            all.filter(|(_, item)| self.matching == Matching::ByPosition || !item.bytes.is_empty());
        needed.all(|(at, _)| used >> at & 1 == 1)
    }

    /// Returns the item whose bytes would be at the start of `rest` and whose length in the stream
    /// is `len`; `None` if its bytes are in the stream.
    pub(crate) fn find(
        &self,
        rest: &'a [u8],
        len: u32,
    ) -> Option<core::result::Result<Item<'a>, ErrorKind>> {
        let offset = self.offset(rest)?;
        let at = match self.matching {
            Matching::ByPosition => self.at_position(offset)?,
            Matching::InOrder => self.in_order(offset, len)?,
        };
        let bytes = self.items.get(at)?.bytes.slice(0..len as usize);
        Some(bytes.map(Item::from).ok_or(ErrorKind::UnexpectedEnd))
    }

    /// Returns true if there are items that are not in the stream.
    pub(crate) fn has_separate_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// Where items are matched in order: matches the next one, if it is empty, to a result without
    /// an item. `rest` is the stream behind the start of the result.
    pub(crate) fn pass_over(&self, rest: &'a [u8]) {
        if self.matching == Matching::InOrder
            && let Some(offset) = self.offset(rest).and_then(|at| u32::try_from(at).ok())
        {
            self.slot(offset, |item| item.bytes.is_empty());
        }
    }

    /// Encodes a part of the stream with its items in place.
    pub(crate) fn encode<'s, S: Sink<'s>>(&self, part: &[u8], sink: &mut S) -> Result<()> {
        let (mut rest, mut at) = (part, self.offset(part).unwrap_or(usize::MAX));
        for (offset, bytes) in self.separate_items() {
            // The length precedes the item.
            let before = offset.checked_sub(at).filter(|before| *before >= 4);
            let Some((head, tail)) = before.and_then(|before| rest.split_at_checked(before)) else {
                continue;
            };
            sink.copy(head)?;
            let len = head.last_chunk().map_or(0, |len| u32::from_be_bytes(*len)) as usize;
            sink.copy(bytes.get(..len).unwrap_or(bytes))?;
            sink.copy([0; 3].get(..padding(len)).unwrap_or_default())?;
            (rest, at) = (tail, offset);
        }
        sink.copy(rest)
    }

    /// Returns the items that are not in the stream, each with the offset at which its bytes would
    /// be, as far as fields were found for them.
    fn separate_items(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut moved = 0;
        let items = self.items.iter().zip(&self.offsets);
        items.filter_map(move |(item, offset)| {
            let bytes = item.bytes.as_bytes();
            let offset = match self.matching {
                Matching::ByPosition => {
                    let offset = (item.position as usize).checked_sub(moved)?;
                    moved += bytes.len() + padding(bytes.len());
                    offset
                }
                Matching::InOrder => match offset.load(Relaxed) {
                    NONE => return None,
                    offset => offset as usize,
                },
            };
            (!bytes.is_empty()).then_some((offset, bytes))
        })
    }

    /// Returns bytes of the stream as an item: a share in the stream's memory, if that is known.
    pub(crate) fn in_stream(&self, bytes: &'a [u8]) -> Item<'a> {
        let share = self
            .home
            .zip(self.offset(bytes))
            .and_then(|(home, offset)| home.slice(offset..offset.checked_add(bytes.len())?));
        share.map_or(Item::from(bytes), Item::from)
    }

    /// Returns the offset at which a part of the stream starts, from the addresses of the two
    /// slices.
    fn offset(&self, part: &[u8]) -> Option<usize> {
        (part.as_ptr() as usize).checked_sub(self.stream.as_ptr() as usize)
    }

    /// Returns the number of the item that belongs at an offset of the stream.
    fn at_position(&self, offset: usize) -> Option<usize> {
        let mut moved = 0usize;
        for (at, item) in self.items.iter().enumerate() {
            let here = (item.position as usize).checked_sub(moved)?;
            if here == offset {
                self.used.fetch_or(1 << at, Relaxed);
                return Some(at);
            }
            if here > offset {
                return None;
            }
            let len = item.bytes.len();
            moved = moved.saturating_add(len).saturating_add(padding(len));
        }
        None
    }

    /// Returns the number of the item of the field at an offset of the stream, which has `len`
    /// bytes; `None` if the field's bytes are in the stream.
    ///
    /// A field without bytes leaves an item with bytes to the next field: Linux's NFS server moves
    /// the data of the READ after an empty one there.
    fn in_order(&self, offset: usize, len: u32) -> Option<usize> {
        let is_for = |item: &ReceivedItem| len > 0 || item.bytes.is_empty();
        let at = self.slot(u32::try_from(offset).ok()?, is_for)?;
        self.used.fetch_or(1 << at, Relaxed);
        let item = self.items.get(at)?;
        (!item.bytes.is_empty()).then_some(at)
    }

    /// Returns the number of the item that is matched to an offset of the stream, which is the next
    /// one if the offset is met for the first time, and `is_for` accepts it.
    fn slot(&self, offset: u32, is_for: impl Fn(&ReceivedItem) -> bool) -> Option<usize> {
        let mut slots = self.items.iter().zip(&self.offsets).enumerate();
        let (at, (item, slot)) = slots.find(|(_, (_, slot))| {
            let known = slot.load(Relaxed);
            known == NONE || known == offset
        })?;
        is_for(item).then(|| slot.store(offset, Relaxed))?;
        Some(at)
    }
}

#[cfg(test)]
mod tests;
