//! The items of a received message that are not in its stream.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::wire::padding;
use crate::{ErrorKind, Item, SharedBytes};

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
/// The decoder finds an item by the address at which its bytes would be in the stream. The elements
/// of a borrowed sequence are decoded later, from the stream alone, so that a message with an item
/// in such an element is rejected. The owned shape supports items in elements.
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
            Matching::InOrder => self.in_order(offset)?,
        };
        let bytes = self.items.get(at)?.bytes.slice(0..len as usize);
        Some(bytes.map(Item::from).ok_or(ErrorKind::UnexpectedEnd))
    }

    /// Returns bytes of the stream as an item: a share in the stream's buffer if that buffer is
    /// known.
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

    /// Returns the number of the item of the field at an offset of the stream. If the field was not
    /// seen before, this is the next item.
    fn in_order(&self, offset: usize) -> Option<usize> {
        let offset = u32::try_from(offset)
            .ok()
            .filter(|offset| *offset != NONE)?;
        for (at, item) in self.items.iter().enumerate() {
            let slot = self.offsets.get(at)?;
            let known = slot.load(Relaxed);
            if known == NONE {
                slot.store(offset, Relaxed);
                self.used.fetch_or(1 << at, Relaxed);
            }
            if known == NONE || known == offset {
                return (!item.bytes.is_empty()).then_some(at);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
