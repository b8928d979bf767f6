use std::hash::{BuildHasher, RandomState};
use std::sync::Barrier;

use super::{BlockRange, Budget, Buf, BufCache, Frozen, MemoryError, Pool, PostedBuf};
use crate::driver::Driver;
use crate::provider::software::{Fabric, SoftwareDevice};

#[test]
fn memory_goes_from_thread_to_thread() {
    const fn is_send<T: Send>() {}
    const fn is_sync<T: Sync>() {}
    is_send::<Buf>();
    is_sync::<Buf>();
    is_send::<Frozen>();
    is_sync::<Frozen>();
    is_send::<Pool<SoftwareDevice>>();
    is_sync::<Pool<SoftwareDevice>>();
    is_send::<Driver<SoftwareDevice>>();
}

/// Threads that drop the last references to a buffer at once return it once.
#[test]
fn a_buffer_comes_back_once_from_several_threads() {
    const THREADS: usize = 3;
    let (device, budget) = (Fabric::new().device(), Budget::new(1 << 22));
    let pool = Pool::new(&device, &budget);
    let barrier = Barrier::new(THREADS);
    for round in 0..300 {
        let frozen = || Frozen::from(pool.take(1 + 1000 * (round % 3)).unwrap());
        let bufs: Vec<Frozen> = (0..32).map(|_| frozen()).collect();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                let (bufs, barrier) = (bufs.clone(), &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    drop(bufs);
                });
            }
            drop(bufs);
        });
        assert_eq!(pool.stats().used, 0, "round {round}");
    }
    let mut places: Vec<_> = (0..1024).map(|_| pool.take(256).unwrap()).collect();
    places.sort_by_key(|buf| buf.as_ptr());
    places.dedup_by_key(|buf| buf.as_ptr());
    assert_eq!(places.len(), 1024, "each place once");
    drop((places, pool));
    assert_eq!(budget.used(), 0);
}

/// A pool that ends while other threads drop its buffers leaves nothing behind.
#[test]
fn a_pool_ends_while_its_buffers_come_back() {
    let device = Fabric::new().device();
    for _ in 0..300 {
        let budget = Budget::new(1 << 20);
        let pool = Pool::new(&device, &budget);
        let bufs: Vec<Buf> = (0..64).map(|_| pool.take(256).unwrap()).collect();
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                drop(bufs);
            });
            barrier.wait();
            drop(pool);
        });
        assert_eq!(budget.used(), 0);
    }
}

/// A cache returns the buffers that were put into it, and takes missing ones from the pool.
#[test]
fn a_cache_has_the_size_of_its_receives() {
    let device = Fabric::new().device();
    let pool = Pool::new(&device, &Budget::new(1 << 20));
    let mut cache = BufCache::default();
    let mut first = cache.take(3000, &pool).unwrap();
    first.extend_from_slice(b"bytes");
    let address = first.as_ptr();
    cache.put(first);
    let again = cache.take(4096, &pool).unwrap();
    assert_eq!((again.as_ptr(), again.len()), (address, 0));
    let other = cache.take(1024, &pool).unwrap();
    assert_eq!(other.capacity(), 1024);
    cache.put(again);
    cache.put(Buf::adopt(&device, &Budget::new(1 << 20), Vec::with_capacity(1024)).unwrap());
    assert!(cache.take(1000, &pool).unwrap().into_vec().is_none());
    drop((cache, other));
    assert_eq!(pool.stats().used, 0);
}

#[test]
fn buffers_come_back_to_their_pool() {
    let (device, budget) = (Fabric::new().device(), Budget::new(1 << 20));
    let pool = Pool::new(&device, &budget);
    let first = pool.take(1000).unwrap();
    assert_eq!(first.capacity(), 1024);
    let address = first.as_ptr();
    drop(first);
    assert_eq!(pool.stats().used, 0);
    assert_eq!(pool.take(1024).unwrap().as_ptr(), address);
    assert_eq!((pool.stats().taken, pool.stats().blocks), (2, 1));
    let held = pool.take(5).unwrap();
    drop(pool);
    assert_eq!(
        budget.used(),
        1 << 18,
        "its block lives as long as a buffer of it"
    );
    drop(held);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_budget_is_kept() {
    let (device, budget) = (Fabric::new().device(), Budget::new(1 << 20));
    let pool = Pool::new(&device, &budget);
    let large = pool.take(1 << 20).unwrap();
    assert!(matches!(
        pool.take(1),
        Err(MemoryError::Budget {
            limit: 1_048_576,
            ..
        })
    ));
    drop((large, pool));
    assert_eq!(budget.used(), 0);
    assert!(matches!(
        Buf::adopt(&device, &budget, vec![0; 2 << 20]),
        Err(MemoryError::Budget { .. })
    ));
    assert_eq!(budget.refused(), 2);
}

#[test]
fn places_do_not_overlap() {
    let device = Fabric::new().device();
    let pool = Pool::new(&device, &Budget::new(1 << 22));
    let mut all: Vec<Buf> = (0..700).map(|_| pool.take(1024).unwrap()).collect();
    for (number, buf) in all.iter_mut().enumerate() {
        buf.as_full_mut().fill(number as u8);
        buf.set_len(1024);
    }
    for (number, buf) in all.iter().enumerate() {
        assert!(buf.iter().all(|byte| *byte == number as u8));
    }
}

#[test]
fn posted_buffer_converts_back_when_unused() {
    let device = Fabric::new().device();
    let pool = Pool::new(&device, &Budget::new(1 << 20));
    let lent = PostedBuf::from(pool.take(100).unwrap());
    let used = lent.clone();
    let lent = lent.into_buf().expect_err("something uses it");
    assert_eq!(lent.slice(1000, 25), None, "beyond its end");
    drop(used);
    assert!(lent.into_buf().is_ok());
}

#[test]
fn a_vector_keeps_its_bytes() {
    let (device, budget) = (Fabric::new().device(), Budget::new(1 << 20));
    let mut memory = Vec::with_capacity(100);
    memory.extend_from_slice(b"abc");
    let address = memory.as_ptr();
    let mut buf = Buf::adopt(&device, &budget, memory).unwrap();
    assert_eq!(buf.extend_from_slice(b"def"), 3);
    let back = buf.into_vec().unwrap();
    assert_eq!(
        (back.as_slice(), back.as_ptr(), back.capacity()),
        (b"abcdef".as_slice(), address, 100)
    );
    assert_eq!(budget.used(), 0);
}

/// The range does not trust the length of its buffer.
#[test]
fn a_vector_is_not_longer_than_its_capacity() {
    let (device, budget) = (Fabric::new().device(), Budget::new(1 << 20));
    let range = BlockRange::adopt(&device, &budget, vec![7; 10]).unwrap();
    let back = range.into_vec(u32::MAX).unwrap();
    assert_eq!((back.len(), back.capacity()), (10, 10));
}

/// Devices refuse to register an empty range.
#[test]
fn an_empty_vector_gets_memory() {
    let (device, budget) = (Fabric::new().device(), Budget::new(1 << 20));
    let mut buf = Buf::adopt(&device, &budget, Vec::new()).unwrap();
    assert!(buf.is_empty() && buf.extend_from_slice(b"a") == 1);
    assert_eq!(buf.into_vec().unwrap(), b"a");
    assert_eq!(budget.used(), 0);
}

#[test]
fn pool_buffer_is_no_vector_and_returns_to_its_pool() {
    let device = Fabric::new().device();
    let pool = Pool::new(&device, &Budget::new(1 << 20));
    let buf = pool.take(1000).unwrap();
    let address = buf.as_ptr();
    assert_eq!(buf.into_vec(), None);
    assert_eq!(pool.take(1000).unwrap().as_ptr(), address);
}

/// Memory that one size class has freed is available to another.
#[test]
fn free_blocks_serve_other_sizes() {
    let (device, budget) = (Fabric::new().device(), Budget::new(64 << 20));
    let pool = Pool::new(&device, &budget);
    let large: Vec<Buf> = (0..4).map(|_| pool.take(16 << 20).unwrap()).collect();
    assert!(
        matches!(pool.take(4096), Err(MemoryError::Budget { .. })),
        "all of it is used"
    );
    drop(large);
    let small = pool.take(4096).unwrap();
    assert!(pool.stats().freed > 0);
    drop((small, pool));
    assert_eq!(budget.used(), 0);
}

/// Below the limit of idle memory no block is freed. Above it, enough are freed that the next burst
/// frees none.
#[test]
fn reused_blocks_stay_registered() {
    let (device, budget) = (Fabric::new().device(), Budget::new(64 << 20));
    let pool = Pool::new(&device, &budget);
    let burst = |count: usize, size: u32| {
        let all: Vec<Buf> = (0..count).map(|_| pool.take(size).unwrap()).collect();
        drop(all);
        pool.collect();
    };
    for _ in 0..100 {
        burst(15, 1 << 20);
        burst(32, 1000);
    }
    let steady = pool.stats();
    assert_eq!((steady.blocks, steady.freed), (16, 0));
    burst(17, 1 << 20);
    let over = pool.stats();
    assert!(over.freed > 0 && over.idle <= 10 << 20, "{over:?}");
    let mut blocks = Vec::new();
    for _ in 0..100 {
        burst(7, 1 << 20);
        burst(32, 1000);
        blocks.push(pool.stats().blocks);
    }
    assert_eq!(
        blocks.first(),
        blocks.last(),
        "an eighth of the budget is kept for good"
    );
}

/// A request that can never fit evicts nothing.
#[test]
fn oversized_request_releases_nothing() {
    let (device, budget) = (Fabric::new().device(), Budget::new(16 << 20));
    let pool = Pool::new(&device, &budget);
    let held: Vec<Buf> = (0..13).map(|_| pool.take(1 << 20).unwrap()).collect();
    drop(
        (0..3)
            .map(|_| pool.take(1 << 20).unwrap())
            .collect::<Vec<Buf>>(),
    );
    for _ in 0..10 {
        assert!(matches!(
            pool.take(4 << 20),
            Err(MemoryError::Budget { .. })
        ));
        assert!(matches!(
            pool.take(32 << 20),
            Err(MemoryError::Budget { .. })
        ));
    }
    assert_eq!((pool.stats().blocks, pool.stats().freed), (16, 0));
    drop(held);
}

/// Pools that share a budget together keep a quarter of it.
#[test]
fn pools_share_the_limit_of_idle_memory() {
    let (device, budget) = (Fabric::new().device(), Budget::new(64 << 20));
    let pools: Vec<_> = (0..4).map(|_| Pool::new(&device, &budget)).collect();
    for pool in &pools {
        drop(
            (0..32)
                .map(|_| pool.take(1 << 20).unwrap())
                .collect::<Vec<Buf>>(),
        );
    }
    pools.iter().for_each(Pool::collect);
    assert!(budget.used() <= 16 << 20, "{} bytes", budget.used());
}

/// Takes buffers of all sizes until the budget is used up, and drops them at random. The seed is
/// `RPCRDMA_SEED`, or random.
#[test]
fn blocks_that_are_not_full_have_a_quarter_of_the_budget_at_most() {
    let seed = match std::env::var("RPCRDMA_SEED") {
        Ok(seed) => seed.parse().expect("RPCRDMA_SEED is a number"),
        Err(_) => RandomState::new().hash_one(0),
    };
    println!("RPCRDMA_SEED={seed}");
    let mut random = Random(seed);
    for largest in [20, 22, 24] {
        churn(&mut random, largest);
    }
}

/// Takes and drops buffers of up to 2 to the power of `largest` bytes.
fn churn(random: &mut Random, largest: u64) {
    const LIMIT: usize = 64 << 20;
    let (device, budget) = (Fabric::new().device(), Budget::new(LIMIT));
    let pool = Pool::new(&device, &budget);
    let (mut held, mut used, mut most, mut refused) = (Vec::<Buf>::new(), 0, 0, 0);
    for step in 0..30_000u32 {
        // Phases in which more buffers are taken than dropped alternate with phases of the
        // opposite.
        let takes = random.below(100) < if (step / 1000) % 2 == 0 { 60 } else { 40 };
        if takes {
            let bits = random.below(largest + 1);
            let size = random.below(1 << bits) + 1;
            match pool.take(size as u32) {
                Ok(buf) => {
                    used += buf.capacity() as usize;
                    held.push(buf);
                }
                Err(MemoryError::Budget { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        } else if !held.is_empty() {
            let buf = held.swap_remove(random.below(held.len() as u64) as usize);
            used -= buf.capacity() as usize;
        }
        let idle = pool.stats().idle;
        assert!(
            budget.used() - used <= idle,
            "what nobody has is in blocks that are not full"
        );
        assert!(
            idle <= LIMIT / 4,
            "step {step}: {idle} bytes are in blocks that are not full"
        );
        most = most.max(idle);
    }
    println!(
        "up to {} bytes: {most} idle at most, {refused} refused, {:?}",
        1u64 << largest,
        pool.stats()
    );
    held.clear();
    drop(pool);
    assert_eq!(budget.used(), 0);
}

/// A random number generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % most
    }
}

/// Returns how many pages of a buffer the system has filled (proc_pid_pagemap(5), bit 63).
fn filled_pages(buf: &mut Buf) -> usize {
    use std::os::unix::fs::FileExt as _;

    const PRESENT: u64 = 1 << 63;
    let page = rustix::param::page_size();
    let map = std::fs::File::open("/proc/self/pagemap").unwrap();
    let first = buf.as_full_mut().as_ptr().addr() / page;
    let pages = buf.capacity() as usize / page;
    let is_filled = |page: &usize| {
        let mut entry = [0; 8];
        map.read_exact_at(&mut entry, *page as u64 * 8).unwrap();
        u64::from_ne_bytes(entry) & PRESENT != 0
    };
    (first..first + pages).filter(is_filled).count()
}

/// A peer that has large buffers allocated takes no time for bytes that never arrive.
#[test]
fn memory_is_zeroed_when_it_is_used() {
    let pool = Pool::new(&Fabric::new().device(), &Budget::new(1 << 26));
    let mut bufs: Vec<Buf> = (0..4).map(|_| pool.take(1 << 22).unwrap()).collect();
    for buf in &mut bufs {
        assert_eq!(filled_pages(buf), 0);
        buf.as_full_mut()[1 << 20] = 7;
        assert!(filled_pages(buf) > 0);
        let others = buf.as_full_mut().iter().filter(|byte| **byte != 0);
        assert_eq!(others.count(), 1);
    }
}
