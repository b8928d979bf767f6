//! Any octets into every message of `rpcrdma-proto`, in both shapes: `decode` and `skip` accept the same and end at the
//! same octet, what was decoded encodes to the octets that it came from, and both shapes hold the same.
#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use rpcrdma_proto::v2::{characteristics, properties, rtr};
use rpcrdma_proto::{rpc, v1, v2};
use xdrgen_runtime::{Decode, Decoder, Encode, Limits, NoTrace, Owned};

fuzz_target!(|octets: &[u8]| {
    both::<rpc::owned::RpcMsg>(octets);
    both::<rpc::owned::AuthsysParms>(octets);
    both::<v1::owned::Msg>(octets);
    both::<v2::owned::XprtHdr>(octets);
    both::<properties::owned::Connprop>(octets);
    both::<properties::owned::Reqprop>(octets);
    both::<properties::owned::Resprop>(octets);
    both::<properties::owned::Updprop>(octets);
    both::<characteristics::owned::Initxch>(octets);
    both::<characteristics::owned::Reqxch>(octets);
    both::<characteristics::owned::Respxch>(octets);
    both::<characteristics::owned::Updxch>(octets);
    both::<rtr::owned::Req>(octets);
    both::<rtr::owned::Resp>(octets);
    both::<rtr::owned::Rbs>(octets);
    one::<rtr::Cont>(octets);
    one::<rtr::OptreptErr>(octets);
    one::<rtr::Rtrs>(octets);
    one::<v1::Error>(octets);
    one::<v2::Error>(octets);
    overlays(octets);
});

/// A type in both shapes.
fn both<'a, T>(octets: &'a [u8])
where
    T: Owned + Decode<'a> + PartialEq + Debug + From<T::Borrowed<'a>>,
    for<'b> T::Borrowed<'b>: Encode + PartialEq + Debug + Clone,
{
    let borrowed = one::<T::Borrowed<'a>>(octets);
    let owned = one::<T>(octets);
    assert_eq!(borrowed.is_some(), owned.is_some());
    if let Some((borrowed, owned)) = borrowed.zip(owned) {
        assert_eq!(owned, T::from(borrowed));
        let mut buffer = Vec::new();
        assert!(matches!(owned.borrow_in(&mut buffer), Ok(again) if again.encode_to_vec() == owned.encode_to_vec()));
    }
}

/// A type in one shape: the value that the octets begin with.
fn one<'a, T: Decode<'a> + Encode + PartialEq + Debug>(octets: &'a [u8]) -> Option<T> {
    let explained = T::explain(octets, &Limits::DEFAULT);
    assert_eq!(explained.is_none(), T::from_bytes(octets).is_ok(), "{explained:?}");
    let mut decoder = Decoder::new(octets);
    let skipped = T::skip(&mut decoder, &mut NoTrace);
    let decoded = T::from_prefix(octets);
    assert_eq!(skipped.is_ok(), decoded.is_ok(), "{skipped:?} {decoded:?}");
    let (value, rest) = decoded.ok()?;
    assert_eq!(decoder.remaining(), rest);
    let used = &octets[..octets.len() - rest.len()];
    assert!(T::MIN <= used.len() && T::MAX.is_none_or(|max| used.len() <= max));
    assert_eq!(value.encoded_len(), Ok(used.len()));
    assert_eq!(value.encode_to_vec().as_deref(), Ok(used));
    Some(value)
}

/// Contents of opaque fields: the first four octets are the code.
fn overlays(octets: &[u8]) {
    let Some((code, data)) = octets.split_first_chunk::<4>() else { return };
    let code = u32::from_be_bytes(*code);
    macro_rules! overlay {
        ($($module:ident::$name:ident)*) => {$({
            let borrowed = $module::$name::decode(code, data);
            let owned = $module::owned::$name::decode(code, data);
            assert_eq!(borrowed.is_ok(), owned.is_ok());
            if let (Ok(borrowed), Ok(owned)) = (borrowed, owned) {
                assert_eq!((borrowed.code(), owned.code()), (code, code));
                assert_eq!(borrowed.encode_to_vec().as_deref(), Ok(data));
                assert_eq!(owned.encode_to_vec().as_deref(), Ok(data));
            }
        })*};
    }
    overlay! { properties::OptInfo properties::Property characteristics::OptInfo characteristics::Characteristic }
}
