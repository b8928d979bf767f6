//! Converts messages of `oncrpc` to messages of a driver, and back.
//!
//! A position of an item counts bytes of the body with all items in place. `register_items` must
//! precede `write`, with the same body: the items have its positions, and `write` takes them.
//! Result buffers must be in the order of `ReplyLimits`, which is that of the reply's items
//! (`Matching::InOrder`).

use std::fmt;

use arrayvec::ArrayVec;
use oncrpc::xdr::{Matching, ReceivedItem, SharedBytes};
use oncrpc::{Body, ItemMemory, ReceivedMessage, ReplyLimits, ShortItem};
use rpcrdma_proto::transfer::{MAX_ITEMS, MAX_RESULTS};

use crate::driver::{ConnectionId, Driver, Payload, WriteError, Writer};
use crate::memory::{Buf, Frozen, MemoryError, Pool};
use crate::provider::Device;

/// Messages up to this size in bytes are copied out of their receive buffers, so that a few
/// retained bytes retain no registered memory.
pub(super) const MAX_COPIED: usize = 1024;

/// The registered memory of a transport, as items of `oncrpc` use it.
#[derive(Clone)]
pub(super) struct RegisteredMemory<D: Device>(pub(super) Pool<D>);

/// The maximum size of one buffer is the budget divided by this.
const LARGEST_SHARE: usize = 8;

impl<D: Device> fmt::Debug for RegisteredMemory<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RegisteredMemory")
    }
}

impl<D: Device> ItemMemory for RegisteredMemory<D> {
    fn take(&self, len: usize) -> Option<SharedBytes> {
        if len > self.0.budget().limit() / LARGEST_SHARE {
            return None;
        }
        let len = u32::try_from(len).ok()?;
        let mut buf = self.0.take(len).ok()?;
        buf.set_len(len);
        Some(Frozen::from(buf).into())
    }
}

/// An item of an outgoing body.
#[derive(Debug)]
pub(super) struct OutgoingItem {
    /// The position in the body, with all items in place.
    position: u32,
    data: ItemData,
}

#[derive(Debug)]
enum ItemData {
    /// In registered memory, beside the message.
    Registered(Frozen),
    /// In registered memory, and also in the stream of the body.
    AlsoInStream(Frozen),
    /// There is none: the result at this position has no item.
    Absent,
    /// In other memory, from which it is copied into the message.
    Inline(SharedBytes),
}

impl ItemData {
    fn len(&self) -> usize {
        match self {
            Self::Registered(data) | Self::AlsoInStream(data) => data.len(),
            Self::Inline(data) => data.len(),
            Self::Absent => 0,
        }
    }
}

/// The maximum size in bytes of results, without long items, that certainly fit inline: a Send has
/// at least 1,024 bytes (RFC 8166, section 3.3.2), less the headers.
const SURELY_INLINE: usize = 512;

/// Lists the items of a body in registered memory, up to the maximum number of a message. Items in
/// other memory, or in that of another device, are copied.
///
/// Short items of a reply consume the client's memory for items, too. If the reply may not fit
/// inline, they may be written there.
///
/// # Errors
/// Fails if no memory is available.
pub(super) fn register_items<D: Device>(
    pool: &Pool<D>,
    body: &Body,
    items: &mut Vec<OutgoingItem>,
) -> Result<(), MemoryError> {
    items.clear();
    let has_short = !body.short_items().is_empty() && body.stream().len() > SURELY_INLINE;
    if body.items().is_empty() && !has_short {
        return Ok(());
    }
    let mut short = body.short_items().iter().peekable();
    let mut moved = 0;
    let short_item = |short: &ShortItem, moved: usize| {
        let data = match short {
            ShortItem::Absent(_) => ItemData::Absent,
            ShortItem::InStream(range) => {
                let begin = (range.start as usize).saturating_sub(moved);
                let bytes = body.stream().get(begin..).unwrap_or_default();
                let bytes = bytes.get(..range.len()).unwrap_or_default();
                ItemData::AlsoInStream(copied(pool, bytes)?)
            }
        };
        let position = short.position();
        Ok::<_, MemoryError>(OutgoingItem { position, data })
    };
    for item in body.items() {
        while let Some(before) = short.next_if(|short| short.position() < item.position) {
            if items.len() < MAX_ITEMS {
                items.push(short_item(before, moved)?);
            }
        }
        let data = if items.len() < MAX_ITEMS {
            ItemData::Registered(registered(pool, &item.bytes)?)
        } else {
            ItemData::Inline(item.bytes.clone())
        };
        items.push(OutgoingItem {
            position: item.position,
            data,
        });
        moved += item.bytes.len().next_multiple_of(4);
    }
    if has_short {
        for after in short {
            if items.len() < MAX_ITEMS {
                items.push(short_item(after, moved)?);
            }
        }
    }
    Ok(())
}

/// Returns these bytes in memory of the pool's device.
fn registered<D: Device>(pool: &Pool<D>, bytes: &SharedBytes) -> Result<Frozen, MemoryError> {
    let domain = pool.device().protection_domain();
    match Frozen::from_shared(bytes).filter(|frozen| frozen.protection_domain() == domain) {
        Some(frozen) => Ok(frozen),
        None => copied(pool, bytes),
    }
}

fn copied<D: Device>(pool: &Pool<D>, bytes: &[u8]) -> Result<Frozen, MemoryError> {
    let length = bytes.len();
    let mut buf = pool.take(u32::try_from(length).map_err(|_| MemoryError::TooLarge(length))?)?;
    buf.extend_from_slice(bytes);
    Ok(buf.into())
}

/// Writes a message: its RPC header, and a body with these items, which are taken.
pub(super) fn write(
    writer: &mut Writer<'_>,
    header: &[u8],
    body: &Body,
    items: &mut Vec<OutgoingItem>,
) -> Result<(), WriteError> {
    writer.bytes(header);
    if items.is_empty() {
        writer.bytes(body.stream());
        return Ok(());
    }
    let (mut rest, mut at) = (body.stream(), 0);
    for OutgoingItem { position, data } in items.drain(..) {
        let before = (position as usize).saturating_sub(at).min(rest.len());
        let (stream, after) = rest.split_at(before);
        rest = after;
        // The writer writes the count, which precedes the item in the stream.
        let without_count = stream.get(..before.saturating_sub(4)).unwrap_or_default();
        let length = data.len().next_multiple_of(4);
        at += before + length;
        match data {
            ItemData::Absent => {
                writer.bytes(stream).no_item()?;
            }
            ItemData::Registered(data) => {
                writer.bytes(without_count).frozen(data)?;
            }
            ItemData::AlsoInStream(data) => {
                writer.bytes(without_count).frozen(data)?;
                rest = after.get(length..).unwrap_or_default();
            }
            ItemData::Inline(data) => {
                let padding = [0; 3].get(..length - data.len()).unwrap_or_default();
                writer.bytes(stream).bytes(&data).bytes(padding);
            }
        }
    }
    writer.bytes(rest);
    Ok(())
}

/// The default maximum size in bytes of a reply without a bound.
pub(super) const MAX_UNBOUNDED_REPLY: u32 = 64 << 10;

/// The length in bytes of the header of a reply with an empty verifier.
const REPLY_HEADER: u32 = 24;

/// Takes buffers for the first items of a reply, which the server writes in order (RFC 8166,
/// section 4.3.2.1). So an item without a bound has none, and neither have those that follow it.
///
/// # Errors
/// Fails if no memory is available.
pub(super) fn result_buffers<D: Device>(
    pool: &Pool<D>,
    limits: &ReplyLimits,
) -> Result<ArrayVec<Buf, MAX_RESULTS>, MemoryError> {
    if limits.items().is_empty() {
        return Ok(ArrayVec::new());
    }
    let bounded = limits.items().iter().map_while(|max| *max);
    let results = bounded.take(MAX_RESULTS).map(|max| pool.take(max));
    results.collect()
}

/// Returns the maximum size in bytes of a reply, with all items in place. `unbounded` is the size
/// for a reply without a bound.
pub(super) fn max_reply(limits: &ReplyLimits, results: &[Buf], unbounded: u32) -> u32 {
    let has_unbounded = limits.items().iter().any(Option::is_none);
    let inline = limits.inline_max().filter(|_| !has_unbounded);
    let inline = inline.unwrap_or(unbounded.into());
    let placed = results.iter().map(|buf| u64::from(buf.capacity()));
    let others = limits.items().iter().skip(results.len()).flatten();
    let items: u64 = placed.chain(others.map(|max| u64::from(*max))).sum();
    u32::try_from(inline.saturating_add(items))
        .unwrap_or(u32::MAX)
        .saturating_add(REPLY_HEADER)
}

/// A connection of a driver.
pub(super) type Connection<'d, D> = (&'d mut Driver<D>, ConnectionId);

/// Returns a received call in the memory into which the device has placed it. Items that the peer's
/// Sends have placed are not copied. If one has several parts, all are copied into place.
///
/// # Errors
/// Fails if no memory is available to copy the items into place.
pub(super) fn call<D: Device>(
    (driver, id): Connection<'_, D>,
    mut payload: Payload,
) -> Result<ReceivedMessage, MemoryError> {
    if let Some(items) = payload.take_whole_items() {
        let received = items.iter().map(|item| ReceivedItem {
            position: item.position(),
            bytes: item.first().clone().into(),
        });
        let received = received.collect();
        driver.recycle_items(id, items);
        let stream = payload.into_shared();
        return Ok(ReceivedMessage::with_items(
            stream,
            received,
            Matching::ByPosition,
        ));
    }
    let payload = payload.flattened(driver.pool())?;
    let is_short = payload.bytes().len() <= MAX_COPIED;
    let stream = payload.into_shared();
    Ok(if is_short {
        ReceivedMessage::short(stream)
    } else {
        ReceivedMessage::whole(stream)
    })
}

#[cfg(test)]
mod tests {
    use oncrpc::xdr::{Item, Sink};

    use super::*;
    use crate::memory::Budget;
    use crate::provider::software::{Fabric, SoftwareDevice};

    fn pool() -> Pool<SoftwareDevice> {
        Pool::new(&Fabric::new().device(), &Budget::new(1 << 20))
    }

    fn body_of(item: &Item<'_>) -> Body {
        let mut body = Body::new();
        body.encode_with(|sink| sink.item(item, u32::MAX)).unwrap();
        body
    }

    fn item_of(memory: &RegisteredMemory<SoftwareDevice>) -> Item<'static> {
        let mut buf = memory.take(5000).unwrap();
        buf.get_mut().unwrap().fill(7);
        buf.truncate(4999);
        buf.into()
    }

    fn only_registered(items: &[OutgoingItem]) -> &Frozen {
        match items {
            [
                OutgoingItem {
                    data: ItemData::Registered(data),
                    ..
                },
            ] => data,
            _ => panic!("{} items", items.len()),
        }
    }

    #[test]
    fn an_item_of_the_device_is_not_copied() {
        let pool = pool();
        let item = item_of(&RegisteredMemory(pool.clone()));
        let body = body_of(&item);
        let mut items = Vec::new();
        register_items(&pool, &body, &mut items).unwrap();
        let data = only_registered(&items);
        assert_eq!((data.as_ptr(), data.len()), (item.as_ptr(), 4999));
        drop((items, body, item));
        assert_eq!(pool.stats().used, 0);
    }

    #[test]
    fn an_item_of_another_device_or_of_none_is_copied() {
        let pool = pool();
        let other = item_of(&RegisteredMemory(self::pool()));
        let plain = Item::from(SharedBytes::from(vec![7; 4999]));
        for item in [other, plain] {
            let body = body_of(&item);
            let mut items = Vec::new();
            register_items(&pool, &body, &mut items).unwrap();
            let data = only_registered(&items);
            assert_ne!(data.as_ptr(), item.as_ptr());
            assert_eq!(data[..], item.as_bytes()[..]);
        }
    }

    /// The server matches items and chunks in order: a chunk of a later item would be used for an
    /// item without a bound.
    #[test]
    fn no_item_behind_one_without_a_bound_has_a_buffer() {
        let pool = pool();
        let limits = ReplyLimits::new(Some(100));
        for (limits, lengths, max) in [
            (
                limits.item(256).item(1024),
                vec![256, 1024],
                100 + 256 + 1024,
            ),
            (limits.unbounded_item().item(1024), vec![], 9000 + 1024),
            (
                limits.item(256).unbounded_item().item(1024),
                vec![256],
                9000 + 256 + 1024,
            ),
        ] {
            let results = result_buffers(&pool, &limits).unwrap();
            let capacities: Vec<u32> = results.iter().map(Buf::capacity).collect();
            assert_eq!(capacities, lengths);
            assert_eq!(max_reply(&limits, &results, 9000), max + REPLY_HEADER);
        }
    }
}
