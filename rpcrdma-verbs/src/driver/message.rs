//! An RPC message: bytes of XDR, and items in buffers of their own.
//!
//! A position counts bytes from the beginning of the message with all items and padding in place.
//! The head contains neither, so a range must be copied by `Message::copy`. Items must be in order
//! and begin at multiples of four bytes (XDR), which `Message::push` checks: the engine plans
//! chunks from the positions, and decides which items are reduced.

use std::ops::Range;

use arrayvec::ArrayVec;
use rpcrdma_proto::transfer::{DataItem, MAX_ITEMS, MAX_RESULTS, ResultItem, ResultSpec, Span};
use rpcrdma_proto::xdr::{self, Encode};

use crate::memory::{Buf, Frozen, PostedBuf};

/// Writes an RPC message, front to back: XDR, and items in buffers of their own.
///
/// An item is the data of a variable-length opaque. Its count precedes it, and its padding follows
/// it. The data stay in their buffer: they are reduced to a chunk where that is allowed and saves
/// time, and otherwise copied into the message.
#[derive(Debug)]
pub struct Writer<'a>(&'a mut Message);

/// The reason why a message cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// A value cannot be encoded.
    Xdr(xdr::Error),
    /// A value is longer than its type allows.
    TooLong(xdr::TooLong),
    /// The message has more than [`MAX_ITEMS`] items.
    TooManyItems,
    /// The operations of a call have more results than the call has buffers.
    TooManyResults,
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Xdr(error) => error.fmt(f),
            Self::TooLong(error) => error.fmt(f),
            Self::TooManyResults => {
                f.write_str("the operations have more results than the call has buffers for")
            }
            Self::TooManyItems => write!(
                f,
                "a message can have {MAX_ITEMS} items in buffers of their own"
            ),
        }
    }
}

impl std::error::Error for WriteError {}

impl From<xdr::Error> for WriteError {
    fn from(error: xdr::Error) -> Self {
        Self::Xdr(error)
    }
}

impl From<xdr::TooLong> for WriteError {
    fn from(error: xdr::TooLong) -> Self {
        Self::TooLong(error)
    }
}

impl<'a> Writer<'a> {
    pub(crate) fn new(message: &'a mut Message) -> Self {
        Self(message)
    }

    /// Writes a value in XDR.
    ///
    /// # Errors
    /// Fails if the value cannot be encoded.
    pub fn put(&mut self, value: &impl Encode) -> Result<&mut Self, WriteError> {
        // Most values are short, and their length need not be computed first.
        let mut short = [0; 64];
        if let Ok(bytes) = value.encode_to_slice(&mut short) {
            self.0
                .head
                .extend_from_slice(short.get(..bytes).unwrap_or_default());
            return Ok(self);
        }
        let (at, bytes) = (self.0.head.len(), value.encoded_len()?);
        self.0.head.resize(at + bytes, 0);
        value.encode_to_slice(self.0.head.get_mut(at..).unwrap_or_default())?;
        Ok(self)
    }

    /// Writes bytes that are already XDR. Their number must be a multiple of four.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.head.extend_from_slice(bytes);
        self
    }

    /// Writes an item: its count, and its data from the buffer.
    ///
    /// # Errors
    /// Fails if there are too many items.
    pub fn item(&mut self, data: Buf) -> Result<&mut Self, WriteError> {
        self.add(ItemData::Owned(data.into()))
    }

    /// Writes an item whose data others may share, for example those of a cache.
    ///
    /// # Errors
    /// Fails if there are too many items.
    pub fn frozen(&mut self, data: Frozen) -> Result<&mut Self, WriteError> {
        self.add(ItemData::Frozen(data))
    }

    /// Notes that a result that may have an item has none here, such as the result of a READ that
    /// failed: the next result buffer of the client stays empty (RFC 8267, section 6.4.1). Nothing
    /// is written.
    ///
    /// # Errors
    /// Fails if there are too many items.
    pub fn no_item(&mut self) -> Result<&mut Self, WriteError> {
        let position = self.0.length();
        self.push(position, ItemData::Absent)
    }

    /// Writes one operation of a call with several operations, such as a COMPOUND. The next
    /// `results` result buffers of the call belong to this operation. Buffers that remain after all
    /// operations belong to what follows the last operation.
    ///
    /// This matters on connections with rtrext-02: if an operation has fewer results than buffers,
    /// its buffers are not used for results of the next operation (section 7.4). The service must
    /// tell which operation its results answer ([`answers`](Self::answers)). If it does not, the
    /// results stay in the message, and the call fails if the reply is then too long. In a reply
    /// this call has no effect.
    ///
    /// # Errors
    /// Fails if `write` fails. If there are more results than buffers, the call fails when it
    /// begins.
    pub fn operation(
        &mut self,
        results: usize,
        write: impl FnOnce(&mut Self) -> Result<(), WriteError>,
    ) -> Result<&mut Self, WriteError> {
        let begin = self.0.length();
        write(self)?;
        let of = Span {
            begin,
            end: self.0.length(),
        };
        self.0.attached_mut().operations.push((of, results));
        Ok(self)
    }

    /// Declares that the items that follow answer the operation whose first byte is at a position
    /// of the call, which is counted from the beginning of the RPC message with all items in place.
    /// In a call this has no effect.
    pub fn answers(&mut self, position: u32) -> &mut Self {
        self.0.attached_mut().answers = Some(position);
        self
    }

    fn add(&mut self, data: ItemData) -> Result<&mut Self, WriteError> {
        self.0.head.extend_from_slice(&data.len().to_be_bytes());
        let position = self.0.length();
        self.push(position, data)
    }

    fn push(&mut self, position: u32, data: ItemData) -> Result<&mut Self, WriteError> {
        if self.0.push(position, data) {
            Ok(self)
        } else {
            Err(WriteError::TooManyItems)
        }
    }
}

/// The data of an item.
#[derive(Debug)]
enum ItemData {
    Owned(PostedBuf),
    Frozen(Frozen),
    /// There is no item: the result has none.
    Absent,
}

impl ItemData {
    fn len(&self) -> u32 {
        match self {
            Self::Owned(buf) => buf.len(),
            // It is a part of a buffer, whose length has 32 bits.
            Self::Frozen(part) => u32::try_from(part.len()).unwrap_or(u32::MAX),
            Self::Absent => 0,
        }
    }

    /// Returns the buffer with the data, and the offset at which they begin.
    fn source(&self) -> Option<(&PostedBuf, u32)> {
        match self {
            Self::Owned(buf) => Some((buf, 0)),
            Self::Frozen(part) => Some(part.source()),
            Self::Absent => None,
        }
    }

    /// Returns the bytes, or `None` if something else uses the buffer.
    fn bytes(&mut self) -> Option<&[u8]> {
        match self {
            Self::Owned(buf) => buf.bytes(),
            Self::Frozen(part) => Some(part),
            Self::Absent => Some(&[]),
        }
    }
}

/// A message whose items are in buffers of their own. The head contains all other bytes, including
/// the counts of the items, but not their padding.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub(crate) head: Vec<u8>,
    // Boxed, since most messages have no items.
    attached: Option<Box<MessageItems>>,
}

/// The optional parts of a message.
#[derive(Debug, Default)]
struct MessageItems {
    /// At most `MAX_ITEMS` items, with the data of each.
    items: Vec<ResultItem>,
    data: Vec<ItemData>,
    /// The operations of a call, with the number of results of each.
    operations: Vec<(Span, usize)>,
    /// The position in the call that the next items answer.
    answers: Option<u32>,
}

impl Message {
    fn attached_mut(&mut self) -> &mut MessageItems {
        self.attached.get_or_insert_default()
    }

    /// Adds an item. Its position is that of its data in the whole message. Returns false if there
    /// are too many items, or if they are out of order.
    fn push(&mut self, position: u32, data: ItemData) -> bool {
        let MessageItems {
            items,
            data: all,
            answers,
            ..
        } = self.attached_mut();
        let end = items.last().map_or(0, |last| end(&last.item));
        let item = DataItem {
            position,
            length: data.len(),
        };
        let fits = position.is_multiple_of(4) && position >= end && items.len() < MAX_ITEMS;
        if fits {
            items.push(ResultItem {
                item,
                answers: *answers,
            });
            all.push(data);
        }
        fits
    }

    /// Returns the items of a reply, for the engine.
    #[inline]
    pub(crate) fn results(&self) -> &[ResultItem] {
        self.attached.as_ref().map_or(&[], |more| &more.items)
    }

    /// Collects the items of a call, for the engine.
    #[inline]
    pub(crate) fn collect_items(&self, to: &mut ArrayVec<DataItem, MAX_ITEMS>) {
        to.extend(self.results().iter().map(|part| part.item));
    }

    /// Collects the specification of each result buffer, with the operation that it belongs to, for
    /// the engine.
    #[inline]
    pub(crate) fn collect_result_specs(
        &self,
        buffers: &[Buf],
        wanted: &mut ArrayVec<ResultSpec, MAX_RESULTS>,
    ) -> Result<(), WriteError> {
        let mut left = buffers.iter();
        let mut end = 0;
        for (of, count) in self.attached.iter().flat_map(|more| &more.operations) {
            if *count > left.len() {
                return Err(WriteError::TooManyResults);
            }
            wanted.extend(left.by_ref().take(*count).map(|buf| ResultSpec {
                max_length: buf.capacity(),
                of: *of,
            }));
            end = of.end;
        }
        let of = Span {
            begin: end,
            ..Span::CALL
        };
        wanted.extend(left.map(|buf| ResultSpec {
            max_length: buf.capacity(),
            of,
        }));
        Ok(())
    }

    /// Returns the buffer of an item, and the offset at which the item begins.
    pub(crate) fn source(&self, number: usize) -> Option<(&PostedBuf, u32)> {
        self.attached
            .as_ref()?
            .data
            .get(number)
            .and_then(ItemData::source)
    }

    /// Returns the buffer and the offset of the data at a position, or `None` if no item covers it.
    pub(crate) fn source_at(&self, position: u32) -> Option<(&PostedBuf, u32)> {
        let is_in =
            |item: &DataItem| (item.position..item.position + item.length).contains(&position);
        let MessageItems { items, data, .. } = self.attached.as_deref()?;
        let (part, data) = items.iter().zip(data).find(|(part, _)| is_in(&part.item))?;
        let (buf, from) = data.source()?;
        Some((buf, from + (position - part.item.position)))
    }

    /// Returns the length of the whole message, including items and padding.
    pub(crate) fn length(&self) -> u32 {
        let items: u32 = self
            .results()
            .iter()
            .map(|part| part.item.length.next_multiple_of(4))
            .sum();
        u32::try_from(self.head.len())
            .unwrap_or(u32::MAX)
            .saturating_add(items)
    }

    /// Copies a range of the whole message to the beginning of `out`. Items in buffers that
    /// something else uses are skipped; no message that is copied has one.
    #[inline]
    pub(crate) fn copy(&mut self, range: Range<u32>, out: &mut [u8]) {
        if let Some(more) = &mut self.attached {
            return more.copy(&self.head, range, out);
        }
        let bytes = self
            .head
            .get(range.start as usize..range.end as usize)
            .unwrap_or_default();
        if let Some(out) = out.get_mut(..bytes.len()) {
            out.copy_from_slice(bytes);
        }
    }

    /// Removes the contents, and keeps the allocations.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.head.clear();
        if let Some(more) = &mut self.attached {
            more.reset();
        }
    }

    /// Removes the contents, keeps the allocations, and returns the items that the message owns.
    pub(crate) fn take_items(&mut self) -> ArrayVec<PostedBuf, MAX_ITEMS> {
        let own = |data| {
            if let ItemData::Owned(buf) = data {
                Some(buf)
            } else {
                None
            }
        };
        let own = self
            .attached
            .iter_mut()
            .flat_map(|more| more.data.drain(..))
            .filter_map(own)
            .collect();
        self.reset();
        own
    }
}

impl MessageItems {
    /// Copies a range of a message with this head and these items.
    fn copy(&mut self, bytes: &[u8], range: Range<u32>, out: &mut [u8]) {
        let mut head = 0u32;
        let mut at = 0u32;
        let put = |out: &mut [u8], whole: Range<u32>, from: &[u8]| {
            let (start, stop) = (whole.start.max(range.start), whole.end.min(range.end));
            if start >= stop {
                return;
            }
            let source = from.get((start - whole.start) as usize..(stop - whole.start) as usize);
            let target = out.get_mut((start - range.start) as usize..(stop - range.start) as usize);
            if let (Some(source), Some(target)) = (source, target) {
                target.copy_from_slice(source);
            }
        };
        for (ResultItem { item, .. }, buf) in self.items.iter().zip(&mut self.data) {
            let count = item.position - at;
            if let Some(part) = bytes.get(head as usize..(head + count) as usize) {
                put(out, at..item.position, part);
            }
            (head, at) = (head + count, item.position);
            if let Some(data) = buf.bytes() {
                put(out, at..at + item.length, data);
            }
            let padded = item.length.next_multiple_of(4);
            put(out, at + item.length..at + padded, &[0; 3]);
            at += padded;
        }
        let rest = bytes.get(head as usize..).unwrap_or_default();
        let end = at.saturating_add(u32::try_from(rest.len()).unwrap_or(u32::MAX));
        put(out, at..end, rest);
    }

    fn reset(&mut self) {
        let Self {
            items,
            data,
            operations,
            answers,
        } = self;
        items.clear();
        data.clear();
        operations.clear();
        *answers = None;
    }
}

fn end(item: &DataItem) -> u32 {
    item.position
        .saturating_add(item.length.next_multiple_of(4))
}

#[cfg(test)]
mod tests {
    use super::{ItemData, Message};
    use crate::memory::{Budget, Buf, Frozen};
    use crate::provider::software::Fabric;

    #[test]
    fn any_range_of_the_whole_is_copied() {
        let device = Fabric::new().device();
        let budget = Budget::new(1 << 20);
        let own = |bytes: &[u8]| Buf::adopt(&device, &budget, bytes.to_vec()).unwrap();
        let item = |bytes: &[u8]| ItemData::Owned(own(bytes).into());
        let part = |bytes: &[u8]| {
            let whole = [&[1, 2], bytes, &[3]].concat();
            ItemData::Frozen(
                Frozen::from(own(&whole))
                    .part(2, bytes.len() as u32)
                    .unwrap(),
            )
        };
        let mut message = Message {
            head: (0..16).collect(),
            ..Message::default()
        };
        assert!(message.push(8, item(&[100, 101, 102, 103, 104])));
        assert!(message.push(20, part(&[200, 201])));
        assert!(!message.push(20, item(&[1])), "out of order");
        let whole = [
            0, 1, 2, 3, 4, 5, 6, 7, 100, 101, 102, 103, 104, 0, 0, 0, 8, 9, 10, 11, 200, 201, 0, 0,
            12, 13, 14, 15,
        ];
        assert_eq!(message.length() as usize, whole.len());
        every_range(&mut message, &whole);
        every_range(
            &mut Message {
                head: whole.to_vec(),
                ..Message::default()
            },
            &whole,
        );
    }

    /// Copies every range to the beginning of a larger buffer.
    fn every_range(message: &mut Message, whole: &[u8]) {
        for from in 0..whole.len() {
            for to in from..=whole.len() {
                let mut out = vec![0xff; to - from + 1];
                message.copy(from as u32..to as u32, &mut out);
                assert_eq!(out, [&whole[from..to], &[0xff]].concat(), "{from}..{to}");
            }
        }
    }
}
