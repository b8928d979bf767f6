//! Any octets into the generated codecs and into the decoder that interprets the schema: the same verdicts, for the same
//! reasons at the same places, the same values, and the same octets again. The first two octets say which type.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::agree::{LIMITS, agrees};
use rpcrdma_fuzz::debug::Form;
use rpcrdma_fuzz::schema::{fixtures, published};
use rpcrdma_proto::v2::{characteristics, properties, rtr};
use rpcrdma_proto::{rpc, v1, v2};
use xdrgen_build::Schema;
use xdrgen_build::ir::Type;
use xdrgen_fixtures::{bare, every_type, kept, kinds, mini, seen, wire};
use xdrgen_runtime::{Decode, Encode, Owned};

fuzz_target!(|octets: &[u8]| {
    static TYPES: OnceLock<Vec<Compared>> = OnceLock::new();
    let types = TYPES.get_or_init(types);
    if let Some((which, octets)) = octets.split_first_chunk() {
        let compared = &types[usize::from(u16::from_be_bytes(*which)) % types.len()];
        (compared.compare)(compared, octets);
    }
});

/// A type of a schema, and how its generated codec is compared.
struct Compared {
    schema: &'static Schema,
    ty: Type,
    compare: fn(&Self, &[u8]),
}

impl Compared {
    fn new(schema: &'static Schema, name: &str, compare: fn(&Self, &[u8])) -> Self {
        match schema.find(name) {
            Ok(id) => Self { schema, ty: Type::Named(id), compare },
            Err(error) => panic!("{error}"),
        }
    }

    fn shape<'a, T: Decode<'a> + Encode + std::fmt::Debug>(&self, octets: &'a [u8], form: Form) {
        // The usual limits, and elements and octets that run out.
        agrees::<T>(self.schema, &self.ty, octets, form, &[LIMITS[0], LIMITS[2]]);
    }
}

fn types() -> Vec<Compared> {
    let mut types = Vec::new();
    macro_rules! each {
        (one $ty:ty, $module:literal $rust:literal) => {
            types.push(Compared::new(fixtures(), concat!($module, "::", $rust), |compared, octets| {
                let owned = $module == "kept" || stringify!($ty).replace(' ', "").contains("::owned::");
                compared.shape::<$ty>(octets, if owned { Form::Owned } else { Form::Borrowed });
            }));
        };
        (two $borrowed:ty, $owned:ty, $module:literal $rust:literal) => {
            types.push(Compared::new(fixtures(), concat!($module, "::", $rust), |compared, octets| {
                compared.shape::<<$owned as Owned>::Borrowed<'_>>(octets, Form::Borrowed);
                compared.shape::<$owned>(octets, Form::Owned);
            }));
        };
    }
    every_type!(each);
    macro_rules! messages {
        ($($ty:ty, $name:literal;)*) => {$(
            types.push(Compared::new(published(), $name, |compared, octets| {
                compared.shape::<<$ty as Owned>::Borrowed<'_>>(octets, Form::Borrowed);
                compared.shape::<$ty>(octets, Form::Owned);
            }));
        )*};
    }
    messages! {
        rpc::owned::RpcMsg, "rpc::RpcMsg";
        rpc::owned::AuthsysParms, "rpc::AuthsysParms";
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
