use std::collections::HashSet;
use std::hash::{BuildHasher as _, BuildHasherDefault};
use std::pin::pin;
use std::task::Waker;
use std::time::Duration;

use xdrgen_runtime::{Item, Matching, ReceivedItem, SharedBytes, Sink as _};

use super::config::OVERHEAD;
use super::shard::HashOfKey;
use super::*;
use crate::auth::Credentials;

fn key(cache: &ReplyCache, port: u16, xid: u32, message: &[u8]) -> Key {
    let message = ReceivedMessage::whole(message.to_vec().into());
    key_of(cache, port, xid, &message)
}

fn key_of(cache: &ReplyCache, port: u16, xid: u32, message: &ReceivedMessage) -> Key {
    let peer = Peer {
        address: Some(([127, 0, 0, 1], port).into()),
        transport: "tcp",
        memory: None,
        caller: Err(crate::BackwardError::Transport),
        status: None,
    };
    let header = CallHeader {
        xid,
        program: 1,
        version: 2,
        number: 3,
        credentials: Credentials::None,
    };
    cache.key(&peer, &header, message).unwrap()
}

/// The first transmission may have its items beside it, and the next one in place.
#[test]
fn key_does_not_depend_on_the_transfer_of_items() {
    let cache = ReplyCache::default();
    let item = ReceivedItem {
        position: 8,
        bytes: vec![7; 6].into(),
    };
    let stream = SharedBytes::from(vec![1, 1, 1, 1, 0, 0, 0, 6, 2, 2, 2, 2]);
    let beside = ReceivedMessage::with_items(stream, vec![item], Matching::ByPosition);
    let whole = [&[1, 1, 1, 1, 0, 0, 0, 6][..], &[7; 6], &[0; 2], &[2; 4]].concat();
    let first = key_of(&cache, 700, 5, &beside);
    assert_eq!(first, key(&cache, 700, 5, &whole));
}

fn reply(len: usize) -> OutgoingReply {
    OutgoingReply {
        header: vec![7; len],
        ..OutgoingReply::default()
    }
}

fn begin(cache: &ReplyCache, key: Key) -> ExecutingCall<'_> {
    match cache.begin(key, None) {
        Lookup::New(execution) => execution,
        _ => panic!("not new"),
    }
}

fn execute(cache: &ReplyCache, key: Key, len: usize) {
    begin(cache, key).finish(&reply(len));
}

fn is_done(cache: &ReplyCache, key: Key) -> bool {
    matches!(cache.begin(key, None), Lookup::Done(Outcome::Reply(_)))
}

/// A reply that fills the cache with its overhead alone is too large. If it were evicted, its call
/// would be executed again.
#[test]
fn a_reply_that_is_almost_as_large_as_the_cache_is_not_executed_again() {
    let config = ReplyCacheConfig::new().max_bytes(5000).max_reply(5000);
    for len in [5000 - OVERHEAD, 5001 - OVERHEAD, 4999, 5000, 6000] {
        let cache = ReplyCache::new(config);
        let key = key(&cache, 700, 5, b"call");
        execute(&cache, key, len);
        let known = cache.begin(key, None);
        assert!(matches!(known, Lookup::Done(_)), "{len} bytes");
        assert_eq!(is_done(&cache, key), len + OVERHEAD <= 5000, "{len} bytes");
    }
}

/// A reply that is not kept: a retransmission may begin before the first execution is dropped.
#[test]
fn end_of_a_call_leaves_the_next_one_in_progress() {
    let cache = ReplyCache::new(ReplyCacheConfig::new().max_age(Duration::ZERO));
    let key = key(&cache, 700, 5, b"call");
    let mut first = begin(&cache, key);
    first.store(&reply(1));
    let second = begin(&cache, key);
    drop(first);
    assert!(matches!(cache.begin(key, None), Lookup::InProgress(_)));
    second.finish(&reply(1));
    let _third = begin(&cache, key);
}

#[test]
fn key_has_caller_xid_procedure_and_bytes() {
    let cache = ReplyCache::default();
    let long = [&[0; 5000][..], b"end"].concat();
    execute(&cache, key(&cache, 700, 5, &long), 1);
    assert!(is_done(&cache, key(&cache, 700, 5, &long)));
    let mut longer = long.clone();
    longer.push(0);
    let mut other_end = long.clone();
    other_end[5000] = 0;
    let rdma = Key {
        transport: "rdma",
        ..key(&cache, 700, 5, &long)
    };
    let version = Key {
        procedure: [1, 3, 3],
        ..key(&cache, 700, 5, &long)
    };
    for other in [
        key(&cache, 701, 5, &long),
        key(&cache, 700, 6, &long),
        key(&cache, 700, 5, &other_end),
        key(&cache, 700, 5, &longer),
        rdma,
        version,
    ] {
        assert!(
            matches!(cache.begin(other, None), Lookup::New(_)),
            "{other:?}"
        );
    }
    let stats = cache.stats();
    assert_eq!((stats.executed, stats.hits, stats.replies), (7, 1, 1));
}

/// Two clients at one address may send calls with equal XIDs and arguments, for example CREATE.
#[test]
fn rdma_caller_is_its_connection_or_a_closed_one() {
    let cache = ReplyCache::default();
    let peer = |port, status: &ConnectionStatus| Peer {
        address: Some(([10, 0, 0, 1], port).into()),
        transport: "rdma",
        memory: None,
        caller: Err(crate::BackwardError::Transport),
        status: Some(status.clone()),
    };
    let header = CallHeader {
        xid: 5,
        program: 1,
        version: 2,
        number: 3,
        credentials: Credentials::None,
    };
    let message = ReceivedMessage::whole(b"call".to_vec().into());
    let send = |port, status: &ConnectionStatus, bytes| {
        let key = cache.key(&peer(port, status), &header, &message).unwrap();
        match cache.begin(key, Some(status)) {
            Lookup::New(execution) => {
                execution.finish(&reply(bytes));
                None
            }
            Lookup::Done(Outcome::Reply(reply)) => Some(reply.header.len()),
            _ => panic!("in progress"),
        }
    };
    let [one, other, again, third] = [(); 4].map(|()| ConnectionStatus::open());
    assert_eq!(send(700, &one, 1), None);
    assert_eq!(send(700, &one, 9), Some(1), "the client itself");
    assert_eq!(send(701, &other, 2), None, "another client");
    assert_eq!(send(701, &other, 9), Some(2));
    one.close();
    assert_eq!(
        send(702, &again, 9),
        Some(1),
        "the client's next connection"
    );
    assert_eq!(send(702, &again, 9), Some(1));
    assert_eq!(send(701, &other, 9), Some(2));
    // The first client is known by its next connection now.
    assert_eq!(send(703, &third, 3), None, "a third client");
    assert_eq!(cache.stats().executed, 3);
}

#[test]
fn removed_calls_leave_no_callers() {
    let cache = ReplyCache::new(ReplyCacheConfig::new().max_replies(10));
    for xid in 0..1000 {
        let status = ConnectionStatus::open();
        let key = key(&cache, 700, xid, b"");
        match cache.begin(key, Some(&status)) {
            Lookup::New(execution) if xid % 2 == 0 => execution.finish(&reply(1)),
            Lookup::New(execution) => drop(execution),
            _ => panic!("not new"),
        }
    }
    let shards = cache.0.shards.iter().map(|shard| lock(shard).callers.len());
    assert_eq!(shards.sum::<usize>(), 10);
}

#[test]
fn retransmission_waits_and_is_new_if_there_was_no_reply() {
    let cache = ReplyCache::default();
    let key = key(&cache, 700, 5, b"call");
    let mut cx = Context::from_waker(Waker::noop());
    for has_reply in [false, true] {
        let first = begin(&cache, key);
        let Lookup::InProgress(waiting) = cache.begin(key, None) else {
            panic!("not in progress")
        };
        let mut waiting = pin!(waiting.outcome());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        let Lookup::InProgress(gives_up) = cache.begin(key, None) else {
            panic!("not in progress")
        };
        assert!(gives_up.poll(&mut cx).is_pending());
        drop(gives_up);
        if has_reply {
            first.finish(&reply(9));
        } else {
            drop(first);
        }
        let Poll::Ready(outcome) = waiting.poll(&mut cx) else {
            panic!("still in progress")
        };
        match outcome {
            Outcome::Reply(reply) => assert_eq!((has_reply, reply.header.len()), (true, 9)),
            _ => assert!(!has_reply),
        }
    }
    let stats = cache.stats();
    assert_eq!((stats.executed, stats.in_progress, stats.hits), (2, 4, 0));
}

#[test]
fn bounds_evict_the_oldest_replies_first() {
    let bytes = ReplyCacheConfig::new().max_bytes(10 * (OVERHEAD + 100));
    let replies = ReplyCacheConfig::new().max_bytes(100_000).max_replies(10);
    for config in [bytes, replies] {
        let cache = ReplyCache::new(config);
        for xid in 0..100 {
            execute(&cache, key(&cache, 700, xid, b""), 100);
        }
        let kept: Vec<u32> = (0..100)
            .filter(|xid| is_done(&cache, key(&cache, 700, *xid, b"")))
            .collect();
        assert_eq!(kept, (90..100).collect::<Vec<_>>());
        let stats = cache.stats();
        let expected = (10, 10 * (OVERHEAD + 100), 90);
        assert_eq!((stats.replies, stats.bytes, stats.evicted), expected);
    }
}

#[test]
fn shards_together_obey_the_bounds() {
    let config = ReplyCacheConfig::new().max_bytes(4 << 20);
    let cache = ReplyCache::new(config);
    for xid in 0..100_000u32 {
        execute(&cache, key(&cache, 700, xid, &xid.to_be_bytes()), 1000);
    }
    let stats = cache.stats();
    assert!(stats.bytes <= 4 << 20 && stats.bytes > 3 << 20, "{stats:?}");
    assert_eq!(stats.replies as u64 + stats.evicted, 100_000);
}

/// An item may refer to a much larger buffer, which the cache must not retain.
#[test]
fn stored_items_are_copied() {
    let cache = ReplyCache::default();
    let key = key(&cache, 700, 5, b"call");
    let buffer = SharedBytes::from(vec![7; 1 << 20]);
    let item = Item::from(buffer.slice(10..2010).unwrap());
    let mut reply = reply(1);
    reply
        .body
        .encode_with(|sink| sink.item(&item, 9999))
        .unwrap();
    begin(&cache, key).finish(&reply);
    let Lookup::Done(Outcome::Reply(kept)) = cache.begin(key, None) else {
        panic!("not kept")
    };
    assert_eq!(kept.body.to_vec(), reply.body.to_vec());
    let (owner, from) = kept.body.items()[0].bytes.buffer_as::<Vec<u8>>().unwrap();
    assert_eq!((owner.len(), from), (2000, 0));
}

#[test]
fn call_with_too_large_reply_is_not_executed_again() {
    let cache = ReplyCache::new(ReplyCacheConfig::new().max_reply(100));
    let key = key(&cache, 700, 5, b"call");
    execute(&cache, key, 101);
    let again = cache.begin(key, None);
    assert!(matches!(again, Lookup::Done(Outcome::TooLarge)));
    let stats = cache.stats();
    assert_eq!((stats.too_large, stats.bytes), (1, OVERHEAD));
}

#[test]
fn replies_expire() {
    let cache = ReplyCache::new(ReplyCacheConfig::new().max_age(Duration::ZERO));
    let key = key(&cache, 700, 5, b"call");
    execute(&cache, key, 1);
    assert!(!is_done(&cache, key));
    assert_eq!(cache.stats().expired, 1);
}

/// The tables take the hash of a key as it is. So a peer must not be able to make keys with equal
/// hashes, such as those of one call over many connections.
#[test]
fn equal_calls_of_many_callers_have_different_hashes() {
    let cache = ReplyCache::default();
    let mut hashes: HashSet<_> = (0..1000)
        .map(|port| hash_of(&key(&cache, port, 5, b"call")))
        .collect();
    let call = key(&cache, 1000, 5, b"call");
    hashes.extend((0..1000).map(|number| hash_of(&Key { number, ..call })));
    assert_eq!(hashes.len(), 2000);
    // The tables use the lowest bits, and those of one shard must differ in them.
    let of_shard = (0..16_000).map(|port| key(&cache, port, 5, b"call"));
    let of_shard = of_shard.filter(|key| std::ptr::eq(cache.shard(key), &cache.0.shards[0]));
    let lowest: HashSet<_> = of_shard.map(|key| hash_of(&key) % 16).collect();
    assert_eq!(lowest.len(), 16);
}

fn hash_of(key: &Key) -> u64 {
    BuildHasherDefault::<HashOfKey>::default().hash_one(key)
}
