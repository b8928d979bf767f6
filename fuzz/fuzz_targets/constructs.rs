//! Any octets into one type of the fixtures, which have every construct of XDR; the first two octets say which.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::{both, one};
use xdrgen_fixtures::{bare, every_type, kept, kinds, mini, seen, wire};

fuzz_target!(|octets: &[u8]| {
    static TYPES: OnceLock<Vec<fn(&[u8])>> = OnceLock::new();
    let types = TYPES.get_or_init(types);
    if let Some((which, octets)) = octets.split_first_chunk() {
        types[usize::from(u16::from_be_bytes(*which)) % types.len()](octets);
    }
});

fn types() -> Vec<fn(&[u8])> {
    let mut types: Vec<fn(&[u8])> = Vec::new();
    macro_rules! each {
        (one $ty:ty, $module:literal $rust:literal) => {
            types.push(|octets| {
                one::<$ty>(octets);
            });
        };
        (two $borrowed:ty, $owned:ty, $module:literal $rust:literal) => {
            types.push(|octets| both::<$owned>(octets));
        };
    }
    every_type!(each);
    types
}
