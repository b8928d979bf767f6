//! Decodes arbitrary bytes as one type of the fixtures, which have all constructs of XDR. The first
//! two bytes select the type.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::{both, one};
use xdrgen_fixtures::{
    borrowed_only, every_type, items, kinds, mini, one_shape, opened, owned_items, owned_only, rpc,
    wire,
};

fuzz_target!(|bytes: &[u8]| {
    static TYPES: OnceLock<Vec<fn(&[u8])>> = OnceLock::new();
    let types = TYPES.get_or_init(types);
    if let Some((which, bytes)) = bytes.split_first_chunk() {
        types[usize::from(u16::from_be_bytes(*which)) % types.len()](bytes);
    }
});

fn types() -> Vec<fn(&[u8])> {
    let mut types: Vec<fn(&[u8])> = Vec::new();
    macro_rules! each {
        (one $ty:ty, $module:literal $rust:literal) => {
            types.push(|bytes| {
                one::<$ty>(bytes);
            });
        };
        (two $borrowed:ty, $owned:ty, $module:literal $rust:literal) => {
            types.push(|bytes| both::<$owned>(bytes));
        };
    }
    every_type!(each);
    types
}
