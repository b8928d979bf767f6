//! Bodies of calls and replies: a stream of XDR, and items that a transport may transfer
//! separately.
//!
//! Positions ascend, and count with all items and their padding in place: in a [`Body`] from its
//! start, in a [`ReceivedMessage`] from the start of the RPC header. `tcp::outbox` and
//! `rpc_transport::message` of `rpcrdma-verbs` split the stream by them. [`Body::items`] and
//! [`Body::short_items`] together have one element for each item of results: their order assigns
//! the Write chunks of the client (RFC 8166, section 4.3.2.1).

use std::ops::Range;

use xdrgen_runtime::{
    Decode, Decoder, Encode, ErrorKind, Item, ItemList, Matching, Path, ReceivedItem, Result,
    SharedBytes, Sink,
};

/// The body of an outgoing call or reply: the arguments or results, without the RPC header.
///
/// An item in a shared buffer is kept beside the stream, so that a transport can send it without a
/// copy. So is every item of 1,024 bytes or more of a reply: a borrowed item is copied into its own
/// buffer. All other data are in the stream. [`clear`](Self::clear) keeps the memory, so that a
/// body can be reused for successive messages without allocation.
///
/// ```
/// use oncrpc::Body;
/// use oncrpc::xdr::{Item, SharedBytes, Sink};
///
/// let data = Item::from(SharedBytes::from(vec![7; 5000]));
/// let mut body = Body::new();
/// body.encode(&1u32)?;
/// body.encode_with(|sink| sink.item(&data, u32::MAX))?;
/// // The number, the length of the item, and the item itself beside them.
/// assert_eq!((body.stream().len(), body.items().len(), body.len()), (8, 1, 5008));
/// assert_eq!(body.items()[0].position, 8);
/// # Ok::<(), oncrpc::xdr::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Body {
    stream: Vec<u8>,
    items: Vec<ReceivedItem>,
    /// The results whose items are not beside the stream.
    short_items: Vec<ShortItem>,
    /// The number of bytes of the items, with their padding.
    moved: usize,
}

/// The item of a result that is not beside the stream of a [`Body`]. Positions count from the start
/// of the body, with all items in place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShortItem {
    /// Its bytes are in the stream.
    InStream(Range<u32>),
    /// The result has none: for example, of a READ that failed. It would be at this position.
    Absent(u32),
}

impl ShortItem {
    /// Returns the position of the item.
    #[must_use]
    pub const fn position(&self) -> u32 {
        match self {
            Self::InStream(range) => range.start,
            Self::Absent(position) => *position,
        }
    }
}

/// Items shorter than this are copied into the stream, since another segment costs more than the
/// copy.
pub(crate) const MIN_SHARED_LEN: usize = 1024;

impl Body {
    /// Creates an empty body.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            stream: Vec::new(),
            items: Vec::new(),
            short_items: Vec::new(),
            moved: 0,
        }
    }

    /// Creates a body from its XDR, without items beside it.
    #[must_use]
    pub fn from_xdr(stream: Vec<u8>) -> Self {
        Self {
            stream,
            ..Self::new()
        }
    }

    /// Returns the XDR without the items.
    #[must_use]
    pub fn stream(&self) -> &[u8] {
        &self.stream
    }

    /// Returns the items beside the stream, in order. Positions count from the start of the body,
    /// with all items in place.
    #[must_use]
    pub fn items(&self) -> &[ReceivedItem] {
        &self.items
    }

    /// Returns the short items of results, which are in the stream, and the results without an
    /// item. A client over RDMA offers memory for each item, in the order of the results (RFC 8166,
    /// section 4.3.2.1), so that these consume their memory, too.
    #[must_use]
    pub fn short_items(&self) -> &[ShortItem] {
        &self.short_items
    }

    /// Returns the number of bytes with all items in place.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stream.len() + self.moved
    }

    /// Returns true if there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the content and keeps the memory.
    pub fn clear(&mut self) {
        self.stream.clear();
        self.items.clear();
        self.short_items.clear();
        self.moved = 0;
    }

    /// Appends a value.
    ///
    /// # Errors
    /// The value cannot be encoded. The body is unchanged.
    pub fn encode<T: Encode + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.encode_with(|sink| value.encode(sink))
    }

    /// Appends the output of a function.
    ///
    /// # Errors
    /// `f` fails. The body is unchanged.
    pub fn encode_with(
        &mut self,
        f: impl FnOnce(&mut BodyEncoder<'_>) -> Result<()>,
    ) -> Result<()> {
        self.append(false, f)
    }

    /// Appends results. Long borrowed items are copied into their own buffers: a client over RDMA
    /// has memory for an item, but none for a message that contains it.
    pub(crate) fn encode_results<T: Encode + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.append(true, |sink| value.encode(sink))
    }

    fn append(
        &mut self,
        is_reply: bool,
        f: impl FnOnce(&mut BodyEncoder<'_>) -> Result<()>,
    ) -> Result<()> {
        let (stream, moved) = (self.stream.len(), self.moved);
        let (items, short_items) = (self.items.len(), self.short_items.len());
        let encoded = f(&mut BodyEncoder {
            body: self,
            is_reply,
        });
        if encoded.is_err() {
            self.stream.truncate(stream);
            self.items.truncate(items);
            self.short_items.truncate(short_items);
            self.moved = moved;
        }
        encoded
    }

    /// Returns the pieces of the body in order: parts of the stream, items, and padding.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        const ZEROS: [u8; 3] = [0; 3];
        let mut rest = &self.stream[..];
        let mut at = 0;
        let mut items = self.items.iter();
        let mut queue = [&[][..]; 2];
        std::iter::from_fn(move || {
            loop {
                if let Some(piece) = queue.iter_mut().find(|piece| !piece.is_empty()) {
                    return Some(std::mem::take(piece));
                }
                let Some(item) = items.next() else {
                    return (!rest.is_empty()).then(|| std::mem::take(&mut rest));
                };
                let before = (item.position as usize).saturating_sub(at).min(rest.len());
                let (stream, after) = rest.split_at(before);
                let padding = &ZEROS[..padding(item.bytes.len())];
                at += before + item.bytes.len() + padding.len();
                (rest, queue) = (after, [item.bytes.as_bytes(), padding]);
                if !stream.is_empty() {
                    return Some(stream);
                }
            }
        })
    }

    /// Returns all bytes, with the items in place.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        self.pieces().for_each(|piece| all.extend_from_slice(piece));
        all
    }
}

/// Returns the number of bytes of padding behind `len` bytes.
pub(crate) const fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// Encodes into a [`Body`].
#[derive(Debug)]
pub struct BodyEncoder<'b> {
    body: &'b mut Body,
    /// Whether long borrowed items are kept beside the stream, too.
    is_reply: bool,
}

impl BodyEncoder<'_> {
    /// Returns the position of the next byte, with all items in place.
    fn position(&self) -> Result<u32> {
        u32::try_from(self.body.len()).map_err(|_| self.error(ErrorKind::TooLong))
    }
}

impl<'s> Sink<'s> for BodyEncoder<'_> {
    fn fixed<const N: usize>(&mut self, f: impl FnOnce(&mut [u8; N])) -> Result<()> {
        let mut bytes = [0; N];
        f(&mut bytes);
        self.body.stream.extend_from_slice(&bytes);
        Ok(())
    }

    fn copy(&mut self, b: &[u8]) -> Result<()> {
        self.body.stream.extend_from_slice(b);
        Ok(())
    }

    fn fixed_all<const N: usize, T>(
        &mut self,
        items: &[T],
        f: impl Fn(&T, &mut [u8; N]),
    ) -> Result<()> {
        self.body.stream.reserve(items.len().saturating_mul(N));
        for item in items {
            let mut bytes = [0; N];
            f(item, &mut bytes);
            self.body.stream.extend_from_slice(&bytes);
        }
        Ok(())
    }

    fn item(&mut self, item: &'s Item<'_>, max: u32) -> Result<()> {
        if item.len() > max as usize {
            return Err(self.error(ErrorKind::TooLong));
        }
        let is_short = item.len() < MIN_SHARED_LEN;
        if !self.is_reply && (is_short || item.shared().is_none()) {
            return self.opaque(item);
        }
        if is_short {
            let begin = self.position()?;
            self.opaque(item)?;
            // The position is after the count.
            let begin = begin.saturating_add(4);
            let len = u32::try_from(item.len()).unwrap_or(u32::MAX);
            let range = begin..begin.saturating_add(len);
            self.body.short_items.push(ShortItem::InStream(range));
            return Ok(());
        }
        let shared = item.clone().into_shared();
        self.length(shared.len())?;
        let position = self.position()?;
        self.body.moved += shared.len() + padding(shared.len());
        self.body.items.push(ReceivedItem {
            position,
            bytes: shared,
        });
        Ok(())
    }

    fn no_item(&mut self) -> Result<()> {
        if self.is_reply {
            let here = self.position()?;
            self.body.short_items.push(ShortItem::Absent(here));
        }
        Ok(())
    }

    fn offset(&self) -> usize {
        self.body.len()
    }
}

/// A received message: an RPC header, arguments or results, and the items that a transport received
/// separately.
#[derive(Clone, Debug, Default)]
pub struct ReceivedMessage {
    stream: SharedBytes,
    items: Vec<ReceivedItem>,
    matching: Option<Matching>,
    /// Whether an owner of an item in the stream copies it.
    copies: bool,
}

/// The padding of an item.
const PADDING: [u8; 3] = [0; 3];

impl ReceivedMessage {
    /// Creates a message with all items in its stream. The items share its memory.
    #[must_use]
    pub fn whole(stream: SharedBytes) -> Self {
        Self {
            stream,
            items: Vec::new(),
            matching: None,
            copies: false,
        }
    }

    /// Creates a message with all items in its stream. An owner of an item copies it, so that it
    /// retains no more memory than the item.
    #[must_use]
    pub fn short(stream: SharedBytes) -> Self {
        Self {
            copies: true,
            ..Self::whole(stream)
        }
    }

    /// Creates a message of which some items are not in the stream.
    #[must_use]
    pub fn with_items(stream: SharedBytes, items: Vec<ReceivedItem>, matching: Matching) -> Self {
        Self {
            stream,
            items,
            matching: Some(matching),
            copies: false,
        }
    }

    /// Returns the message with another stream, in which the data at `before` are at `now`. The
    /// items behind them move, too.
    pub(crate) fn with_stream(&self, stream: SharedBytes, now: usize, before: usize) -> Self {
        let mut message = Self {
            stream,
            ..self.clone()
        };
        for item in &mut message.items {
            let at = (item.position as usize).saturating_sub(before);
            item.position = u32::try_from(at + now).unwrap_or(u32::MAX);
        }
        message
    }

    /// Returns the stream.
    #[must_use]
    pub fn stream(&self) -> &[u8] {
        &self.stream
    }

    /// Returns the stream, whose memory a transport reuses if nothing else shares it.
    #[must_use]
    pub fn into_stream(self) -> SharedBytes {
        self.stream
    }

    /// Returns the length of the whole message in bytes, items included.
    #[must_use]
    pub fn len(&self) -> usize {
        let items = self.items.iter().map(|item| item.bytes.len());
        self.stream.len() + items.sum::<usize>()
    }

    /// Returns true if the message has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all bytes in pieces; `None` if the stream has all. Items that are matched by
    /// position are in their places.
    pub(crate) fn pieces(&self) -> Option<Vec<&[u8]>> {
        if self.items.is_empty() {
            return None;
        }
        Some(self.pieces_in_place().unwrap_or_else(|| {
            let items = self.items.iter().map(|item| item.bytes.as_bytes());
            std::iter::once(self.stream()).chain(items).collect()
        }))
    }

    /// Returns the pieces of the message with all items in place, if it has items beside it that
    /// are matched by position.
    fn pieces_in_place(&self) -> Option<Vec<&[u8]>> {
        if self.items.is_empty() || self.matching != Some(Matching::ByPosition) {
            return None;
        }
        let mut pieces = Vec::with_capacity(3 * self.items.len() + 1);
        let (mut rest, mut len) = (self.stream(), 0usize);
        for item in &self.items {
            let before = (item.position as usize).checked_sub(len)?;
            let (here, after) = rest.split_at_checked(before)?;
            let end = len + here.len() + item.bytes.len();
            len = end + padding(end);
            pieces.extend([here, &item.bytes, PADDING.get(..padding(end))?]);
            rest = after;
        }
        pieces.push(rest);
        Some(pieces)
    }

    /// Returns the message with all items in place, if it has items beside it that are matched by
    /// position. They are copied.
    pub(crate) fn put_together(&self) -> Option<Vec<u8>> {
        Some(self.pieces_in_place()?.concat())
    }

    /// Returns the list of the items, for a decoder.
    #[must_use]
    pub fn item_list(&self) -> ItemList<'_> {
        match self.matching {
            None if self.copies => ItemList::new(&self.stream, &[], Matching::ByPosition),
            None => ItemList::shared(&self.stream),
            Some(matching) => ItemList::new(&self.stream, &self.items, matching),
        }
    }
}

/// An outgoing reply.
#[derive(Clone, Debug, Default)]
pub struct OutgoingReply {
    /// The RPC header.
    pub header: Vec<u8>,
    /// The results.
    pub body: Body,
}

impl OutgoingReply {
    /// Removes the content and keeps the memory.
    pub fn clear(&mut self) {
        self.header.clear();
        self.body.clear();
    }

    /// Returns the length of the whole message in bytes, items included.
    pub(crate) fn len(&self) -> usize {
        self.header.len() + self.body.len()
    }

    /// Returns a copy whose items have their own buffers.
    pub(crate) fn detached(&self) -> Self {
        let mut copy = self.clone();
        for item in &mut copy.body.items {
            item.bytes = item.bytes.as_bytes().to_vec().into();
        }
        copy
    }
}

/// Returns the path of the field that cannot be decoded; `None` if it is not a field that is wrong.
/// The decoder is at the value, and knows the items that are not in the stream.
#[cold]
pub(crate) fn wrong_field<'a, T: Decode<'a>>(mut d: Decoder<'a>) -> Option<String> {
    let mut path = Path::new();
    T::skip(&mut d, &mut path).and_then(|()| d.finish()).err()?;
    Some(path.to_string()).filter(|path| !path.is_empty())
}

/// Returns the number at a word of a message; `None` if the message is shorter.
pub(crate) fn word(bytes: &[u8], number: usize) -> Option<u32> {
    let bytes = bytes.get(4 * number..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths of the items beside the stream, of borrowed items and of shared ones.
    fn beside(encode: impl Fn(&mut Body, &Item<'_>)) -> [Vec<usize>; 2] {
        let bytes = [7; 5000];
        let body_of = |item: fn(&[u8]) -> Item<'_>| {
            let mut body = Body::new();
            for len in [0, 1023, 1024, 5000] {
                encode(&mut body, &item(&bytes[..len]));
            }
            assert_eq!(body.len(), body.to_vec().len());
            body
        };
        let borrowed = body_of(|bytes| bytes.into());
        let shared = body_of(|bytes| bytes.to_vec().into());
        assert_eq!(borrowed.to_vec(), shared.to_vec());
        [borrowed, shared].map(|body| body.items().iter().map(|item| item.bytes.len()).collect())
    }

    #[test]
    fn long_items_of_results_are_beside_the_stream() {
        struct Results<'r>(&'r Item<'r>);
        impl Encode for Results<'_> {
            fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
                sink.item(self.0, u32::MAX)
            }
        }
        let of_results = beside(|body, item| body.encode_results(&Results(item)).unwrap());
        assert_eq!(of_results, [vec![1024, 5000], vec![1024, 5000]]);
        let of_arguments = beside(|body, item| body.encode(&Results(item)).unwrap());
        assert_eq!(of_arguments, [vec![], vec![1024, 5000]]);
        let (short, mut body) = (Item::from(&b"short"[..]), Body::new());
        body.encode(&Results(&short)).unwrap();
        assert!(body.short_items().is_empty(), "of arguments");
        body.encode_results(&Results(&short)).unwrap();
        assert_eq!(
            body.short_items().first(),
            Some(&ShortItem::InStream(16..21))
        );
        assert_eq!(&body.to_vec()[16..21], b"short");
    }
}
