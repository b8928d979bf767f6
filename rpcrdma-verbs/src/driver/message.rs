//! An RPC message as its maker has it: octets of XDR, and items apart.

use std::ops::Range;

use arrayvec::ArrayVec;
use rpcrdma_proto::travel::{ITEMS, Item, RESULTS, ResultItem, Span, Wanted};
use rpcrdma_proto::xdr::{self, Encode};

use crate::memory::{Buf, Frozen, Lent};

/// Writes an RPC message, front to back: XDR, and items in buffers of their own.
///
/// An item is the data of a variable-length opaque; its count goes before it and its padding behind it. It stays in its buffer:
/// on its way it is moved apart where that is allowed and worth it, and else copied into the message.
#[derive(Debug)]
pub struct Writer<'a>(&'a mut Message);

/// Why a message can't be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteError {
    /// A value can't be encoded.
    Xdr(xdr::Error),
    /// A value is longer than its type allows.
    TooLong(xdr::TooLong),
    /// More items than [`ITEMS`].
    TooManyItems,
    /// The operations of a call have more results than there is memory for.
    TooManyResults,
    /// The service has said that there are no results.
    Denied,
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Xdr(error) => error.fmt(f),
            Self::TooLong(error) => error.fmt(f),
            Self::Denied => f.write_str("there are no results"),
            Self::TooManyResults => f.write_str("the operations have more results than the call has buffers for"),
            Self::TooManyItems => write!(f, "a message can have {ITEMS} items in buffers of their own"),
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
    /// It can't be encoded.
    pub fn put(&mut self, value: &impl Encode) -> Result<&mut Self, WriteError> {
        // Most are short, and need no count first.
        let mut short = [0; 64];
        if let Ok(octets) = value.encode_to_slice(&mut short) {
            self.0.head.extend_from_slice(short.get(..octets).unwrap_or_default());
            return Ok(self);
        }
        let (at, octets) = (self.0.head.len(), value.encoded_len()?);
        self.0.head.resize(at + octets, 0);
        value.encode_to_slice(self.0.head.get_mut(at..).unwrap_or_default())?;
        Ok(self)
    }

    /// Writes octets that are XDR already: a multiple of four.
    #[inline]
    pub fn octets(&mut self, octets: &[u8]) -> &mut Self {
        self.0.head.extend_from_slice(octets);
        self
    }

    /// Writes an item: its count, and its data from the buffer.
    ///
    /// # Errors
    /// There are too many.
    pub fn item(&mut self, data: Buf) -> Result<&mut Self, WriteError> {
        self.add(Data::Own(data.into()))
    }

    /// Writes an item whose data stay where they are, and are others', too: those of a cache, say.
    ///
    /// # Errors
    /// There are too many.
    pub fn frozen(&mut self, data: Frozen) -> Result<&mut Self, WriteError> {
        self.add(Data::Frozen(data))
    }

    /// Writes one operation of a call that has several, as a COMPOUND has: the next `results` of the call's results answer it.
    /// Those that are left after all operations answer what follows the last one.
    ///
    /// It makes a difference on connections that speak rtrext-02: where an operation has fewer results than it might, its memory
    /// does not go to those of the next one (section 7.4). The service must tell which operation its results answer
    /// ([`answers`](Self::answers)): if it does not, they stay in the message, and the call fails if the reply is too long for
    /// that. In a reply this means nothing.
    ///
    /// # Errors
    /// As `write` says. That there are more results than buffers is told when the call is begun.
    pub fn operation(
        &mut self,
        results: usize,
        write: impl FnOnce(&mut Self) -> Result<(), WriteError>,
    ) -> Result<&mut Self, WriteError> {
        let begin = self.0.length();
        write(self)?;
        let of = Span { begin, end: self.0.length() };
        self.0.more().operations.push((of, results));
        Ok(self)
    }

    /// Says that the items that follow answer what stands at a position of the call, as
    /// [`Call::position_of`](crate::rpc::Call::position_of) tells it. In a call this means nothing.
    ///
    /// ```
    /// use rpcrdma_proto::xdr::Decode;
    /// use rpcrdma_verbs::driver::Writer;
    /// use rpcrdma_verbs::memory::Frozen;
    /// use rpcrdma_verbs::rpc::{Call, Denial};
    ///
    /// /// Answers one or several reads, each of which has the number of a block.
    /// fn reads(call: &Call<'_>, blocks: &[Frozen], results: &mut Writer<'_>) -> Result<(), Denial> {
    ///     let mut left = call.arguments;
    ///     while !left.is_empty() {
    ///         results.answers(call.position_of(left));
    ///         let (block, rest) = u32::from_prefix(left).map_err(|_| Denial::GarbageArguments)?;
    ///         if let Some(data) = blocks.get(block as usize) {
    ///             results.frozen(data.clone()).map_err(|_| Denial::System)?;
    ///         }
    ///         left = rest;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn answers(&mut self, position: u32) -> &mut Self {
        self.0.more().answers = Some(position);
        self
    }

    fn add(&mut self, data: Data) -> Result<&mut Self, WriteError> {
        self.0.head.extend_from_slice(&data.len().to_be_bytes());
        let position = self.0.length();
        if self.0.push(position, data) { Ok(self) } else { Err(WriteError::TooManyItems) }
    }
}

/// The data of an item.
#[derive(Debug)]
enum Data {
    Own(Lent),
    Frozen(Frozen),
}

impl Data {
    fn len(&self) -> u32 {
        match self {
            Self::Own(buf) => buf.len(),
            // Part of a buffer, of 32 bits.
            Self::Frozen(part) => u32::try_from(part.len()).unwrap_or(u32::MAX),
        }
    }

    /// The buffer that has them, and where they begin in it.
    fn source(&self) -> (&Lent, u32) {
        match self {
            Self::Own(buf) => (buf, 0),
            Self::Frozen(part) => part.source(),
        }
    }

    /// Their octets; none if something uses a buffer of our own.
    fn octets(&mut self) -> Option<&[u8]> {
        match self {
            Self::Own(buf) => buf.octets(),
            Self::Frozen(part) => Some(part),
        }
    }
}

/// A message whose items are in buffers of their own: the head has all else, counts of the items included, padding not.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub(crate) head: Vec<u8>,
    // Apart, since most messages have nothing of it.
    more: Option<Box<More>>,
}

/// What a message may have beside its head.
#[derive(Debug, Default)]
struct More {
    /// At most `ITEMS`, and the data of each.
    items: Vec<ResultItem>,
    data: Vec<Data>,
    /// The operations of a call, and how many results each has.
    operations: Vec<(Span, usize)>,
    /// What of the call the next items answer.
    answers: Option<u32>,
}

impl Message {
    fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// Takes a new item. Items stand where their data begin in the whole; false if there are too many, or not in their order.
    fn push(&mut self, position: u32, data: Data) -> bool {
        let More { items, data: all, answers, .. } = self.more();
        let end = items.last().map_or(0, |last| end(&last.item));
        let item = Item { position, length: data.len() };
        let fits = position.is_multiple_of(4) && position >= end && items.len() < ITEMS;
        if fits {
            items.push(ResultItem { item, asked: *answers });
            all.push(data);
        }
        fits
    }

    /// The items of a reply, for the engine.
    #[inline]
    pub(crate) fn results(&self) -> &[ResultItem] {
        self.more.as_ref().map_or(&[], |more| &more.items)
    }

    /// Tells the engine of the items of a call.
    #[inline]
    pub(crate) fn tell_items(&self, to: &mut ArrayVec<Item, ITEMS>) {
        to.extend(self.results().iter().map(|part| part.item));
    }

    /// Tells the engine what results the buffers are for, each of the operation that has it.
    #[inline]
    pub(crate) fn tell_wanted(
        &self,
        buffers: &[Buf],
        wanted: &mut ArrayVec<Wanted, RESULTS>,
    ) -> Result<(), WriteError> {
        let mut left = buffers.iter();
        let mut end = 0;
        for (of, count) in self.more.iter().flat_map(|more| &more.operations) {
            if *count > left.len() {
                return Err(WriteError::TooManyResults);
            }
            wanted.extend(left.by_ref().take(*count).map(|buf| Wanted { most: buf.capacity(), of: *of }));
            end = of.end;
        }
        let of = Span { begin: end, ..Span::CALL };
        wanted.extend(left.map(|buf| Wanted { most: buf.capacity(), of }));
        Ok(())
    }

    /// The buffer of an item, by its number, and where the item begins in it.
    pub(crate) fn source(&self, number: usize) -> Option<(&Lent, u32)> {
        self.more.as_ref()?.data.get(number).map(Data::source)
    }

    /// The buffer that has what is at a position, and where; none if it is not in an item.
    pub(crate) fn source_at(&self, position: u32) -> Option<(&Lent, u32)> {
        let is_in = |item: &Item| (item.position..item.position + item.length).contains(&position);
        let More { items, data, .. } = self.more.as_deref()?;
        let (part, data) = items.iter().zip(data).find(|(part, _)| is_in(&part.item))?;
        let (buf, from) = data.source();
        Some((buf, from + (position - part.item.position)))
    }

    /// Octets of the whole, items and padding included.
    pub(crate) fn length(&self) -> u32 {
        let items: u32 = self.results().iter().map(|part| part.item.length.next_multiple_of(4)).sum();
        u32::try_from(self.head.len()).unwrap_or(u32::MAX).saturating_add(items)
    }

    /// Copies a range of the whole to the beginning of `out`. Items that something uses are left out: none is, when a message
    /// is to be copied.
    #[inline]
    pub(crate) fn copy(&mut self, range: Range<u32>, out: &mut [u8]) {
        if let Some(more) = &mut self.more {
            return more.copy(&self.head, range, out);
        }
        let octets = self.head.get(range.start as usize..range.end as usize).unwrap_or_default();
        if let Some(out) = out.get_mut(..octets.len()) {
            out.copy_from_slice(octets);
        }
    }

    /// Forgets all but its memory.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.head.clear();
        if let Some(more) = &mut self.more {
            more.forget();
        }
    }

    /// Forgets all but its memory, and gives back the items that are our own.
    pub(crate) fn clear(&mut self) -> ArrayVec<Lent, ITEMS> {
        let own = |data| if let Data::Own(buf) = data { Some(buf) } else { None };
        let own = self.more.iter_mut().flat_map(|more| more.data.drain(..)).filter_map(own).collect();
        self.forget();
        own
    }
}

impl More {
    /// Copies a range of a message with this head and these items.
    fn copy(&mut self, octets: &[u8], range: Range<u32>, out: &mut [u8]) {
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
            if let Some(part) = octets.get(head as usize..(head + count) as usize) {
                put(out, at..item.position, part);
            }
            (head, at) = (head + count, item.position);
            if let Some(data) = buf.octets() {
                put(out, at..at + item.length, data);
            }
            let padded = item.length.next_multiple_of(4);
            put(out, at + item.length..at + padded, &[0; 3]);
            at += padded;
        }
        let rest = octets.get(head as usize..).unwrap_or_default();
        let end = at.saturating_add(u32::try_from(rest.len()).unwrap_or(u32::MAX));
        put(out, at..end, rest);
    }

    fn forget(&mut self) {
        let Self { items, data, operations, answers } = self;
        items.clear();
        data.clear();
        operations.clear();
        *answers = None;
    }
}

fn end(item: &Item) -> u32 {
    item.position.saturating_add(item.length.next_multiple_of(4))
}

#[cfg(test)]
mod tests {
    use super::{Data, Message};
    use crate::memory::{Budget, Buf, Frozen};
    use crate::provider::software::Fabric;

    #[test]
    fn any_range_of_the_whole_is_copied() {
        let device = Fabric::new().device();
        let budget = Budget::new(1 << 20);
        let own = |octets: &[u8]| Buf::adopt(&device, &budget, octets.to_vec()).unwrap();
        let item = |octets: &[u8]| Data::Own(own(octets).into());
        let part = |octets: &[u8]| {
            let whole = [&[1, 2], octets, &[3]].concat();
            Data::Frozen(Frozen::from(own(&whole)).part(2, octets.len() as u32).unwrap())
        };
        let mut message = Message { head: (0..16).collect(), ..Message::default() };
        assert!(message.push(8, item(&[100, 101, 102, 103, 104])));
        assert!(message.push(20, part(&[200, 201])));
        assert!(!message.push(20, item(&[1])), "out of order");
        let whole =
            [0, 1, 2, 3, 4, 5, 6, 7, 100, 101, 102, 103, 104, 0, 0, 0, 8, 9, 10, 11, 200, 201, 0, 0, 12, 13, 14, 15];
        assert_eq!(message.length() as usize, whole.len());
        every_range(&mut message, &whole);
        every_range(&mut Message { head: whole.to_vec(), ..Message::default() }, &whole);
    }

    /// Copies every range to the beginning of something larger.
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
