use super::{Budget, Buf, Lent, MemoryError, Pool};
use crate::provider::software::Fabric;

#[test]
fn buffers_come_back_to_their_pool() {
    let (device, budget) = (Fabric::new().device(), Budget::new(1 << 20));
    let pool = Pool::new(&device, &budget);
    let first = pool.take(1000).unwrap();
    assert_eq!(first.capacity(), 1024);
    let address = first.as_ptr();
    drop(first);
    assert_eq!(pool.take(1024).unwrap().as_ptr(), address);
    assert_eq!((pool.stats().taken, pool.stats().blocks), (2, 1));
    let held = pool.take(5).unwrap();
    drop(pool);
    assert_eq!(budget.used(), 1 << 18, "its block lives as long as a buffer of it");
    drop(held);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_budget_is_kept() {
    let (device, budget) = (Fabric::new().device(), Budget::new(1 << 20));
    let pool = Pool::new(&device, &budget);
    let large = pool.take(1 << 20).unwrap();
    assert!(matches!(pool.take(1), Err(MemoryError::Budget { limit: 1_048_576, .. })));
    drop((large, pool));
    assert_eq!(budget.used(), 0);
    assert!(matches!(Buf::adopt(&device, &budget, vec![0; 2 << 20]), Err(MemoryError::Budget { .. })));
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
        assert!(buf.iter().all(|octet| *octet == number as u8));
    }
}

#[test]
fn what_is_lent_comes_back_when_nothing_uses_it() {
    let device = Fabric::new().device();
    let pool = Pool::new(&device, &Budget::new(1 << 20));
    let lent = Lent::from(pool.take(100).unwrap());
    let used = lent.clone();
    let lent = lent.into_buf().expect_err("something uses it");
    assert_eq!(lent.slice(1000, 25), None, "beyond its end");
    drop(used);
    assert!(lent.into_buf().is_ok());
}

#[test]
fn a_vector_keeps_its_octets() {
    let (device, budget) = (Fabric::new().device(), Budget::new(1 << 20));
    let mut memory = Vec::with_capacity(100);
    memory.extend_from_slice(b"abc");
    let address = memory.as_ptr();
    let mut buf = Buf::adopt(&device, &budget, memory).unwrap();
    assert_eq!(buf.extend_from_slice(b"def"), 3);
    let back = buf.into_vec().unwrap();
    assert_eq!((back.as_slice(), back.as_ptr(), back.capacity()), (b"abcdef".as_slice(), address, 100));
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_pools_buffer_is_no_vector_and_goes_home() {
    let device = Fabric::new().device();
    let pool = Pool::new(&device, &Budget::new(1 << 20));
    let buf = pool.take(1000).unwrap();
    let address = buf.as_ptr();
    assert_eq!(buf.into_vec(), None);
    assert_eq!(pool.take(1000).unwrap().as_ptr(), address);
}
