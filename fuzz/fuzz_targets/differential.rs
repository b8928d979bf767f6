//! Compares the generated codecs with the decoder that interprets the schema on arbitrary bytes:
//! the same results, errors with the same reasons and offsets, the same values, and the same
//! encoding. The first two bytes select the type.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::agree::{LIMITS, agrees};
use rpcrdma_fuzz::debug::Shape;
use rpcrdma_fuzz::schema::{fixtures, published};
use rpcrdma_proto::v2::{characteristics, properties, rtr};
use rpcrdma_proto::{v1, v2};
use xdrgen_build::Schema;
use xdrgen_build::ir::Type;
use xdrgen_fixtures::{
    borrowed_only, every_type, items, kinds, mini, one_shape, opened, owned_items, owned_only, rpc,
    wire,
};
use xdrgen_runtime::{Decode, Encode, Owned};

fuzz_target!(|bytes: &[u8]| {
    static TYPES: OnceLock<Vec<Comparison>> = OnceLock::new();
    let types = TYPES.get_or_init(types);
    if let Some((which, bytes)) = bytes.split_first_chunk() {
        let comparison = &types[usize::from(u16::from_be_bytes(*which)) % types.len()];
        (comparison.compare)(comparison, bytes);
    }
});

/// A type of a schema, and the comparison of its generated codec.
struct Comparison {
    schema: &'static Schema,
    ty: Type,
    compare: fn(&Self, &[u8]),
}

impl Comparison {
    fn new(schema: &'static Schema, name: &str, compare: fn(&Self, &[u8])) -> Self {
        match schema.find(name) {
            Ok(id) => Self {
                schema,
                ty: Type::Named(id),
                compare,
            },
            Err(error) => panic!("{error}"),
        }
    }

    fn shape<'a, T: Decode<'a> + Encode + std::fmt::Debug>(&self, bytes: &'a [u8], shape: Shape) {
        // The default limits, and limits for elements and bytes that inputs reach.
        agrees::<T>(self.schema, &self.ty, bytes, shape, &[LIMITS[0], LIMITS[2]]);
    }
}

fn types() -> Vec<Comparison> {
    let mut types = Vec::new();
    macro_rules! each {
        (one $ty:ty, $module:literal $rust:literal) => {
            types.push(Comparison::new(
                fixtures(),
                concat!($module, "::", $rust),
                |comparison, bytes| {
                    let owned = $module.starts_with("owned_")
                        || stringify!($ty).replace(' ', "").contains("::owned::");
                    comparison
                        .shape::<$ty>(bytes, if owned { Shape::Owned } else { Shape::Borrowed });
                },
            ));
        };
        (two $borrowed:ty, $owned:ty, $module:literal $rust:literal) => {
            types.push(Comparison::new(
                fixtures(),
                concat!($module, "::", $rust),
                |comparison, bytes| {
                    comparison.shape::<<$owned as Owned>::Borrowed<'_>>(bytes, Shape::Borrowed);
                    comparison.shape::<$owned>(bytes, Shape::Owned);
                },
            ));
        };
    }
    every_type!(each);
    macro_rules! messages {
        ($($ty:ty, $name:literal;)*) => {$(
            types.push(Comparison::new(published(), $name, |comparison, bytes| {
                comparison.shape::<<$ty as Owned>::Borrowed<'_>>(bytes, Shape::Borrowed);
                comparison.shape::<$ty>(bytes, Shape::Owned);
            }));
        )*};
    }
    messages! {
        v1::owned::Msg, "v1::Msg";
        v2::owned::XprtHdr, "v2::XprtHdr";
        properties::owned::Connprop, "v2::properties::Connprop";
        properties::owned::Resprop, "v2::properties::Resprop";
        characteristics::owned::Respxch, "v2::characteristics::Respxch";
        rtr::owned::Req, "v2::rtr::Req";
        rtr::owned::Resp, "v2::rtr::Resp";
    }
    types
}
