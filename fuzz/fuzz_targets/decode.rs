//! Decodes arbitrary bytes as each message of `rpcrdma-proto` and of ONC RPC, in both shapes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::{both, one};
use rpcrdma_proto::v2::{characteristics, properties, rtr};
use rpcrdma_proto::{v1, v2};
use xdrgen_fixtures::rpc;
use xdrgen_runtime::Encode;

fuzz_target!(|bytes: &[u8]| {
    both::<rpc::owned::RpcMsg>(bytes);
    both::<rpc::owned::AuthsysParms>(bytes);
    both::<v1::owned::Msg>(bytes);
    both::<v2::owned::XprtHdr>(bytes);
    both::<properties::owned::Connprop>(bytes);
    both::<properties::owned::Reqprop>(bytes);
    both::<properties::owned::Resprop>(bytes);
    both::<properties::owned::Updprop>(bytes);
    both::<characteristics::owned::Initxch>(bytes);
    both::<characteristics::owned::Reqxch>(bytes);
    both::<characteristics::owned::Respxch>(bytes);
    both::<characteristics::owned::Updxch>(bytes);
    both::<rtr::owned::Req>(bytes);
    both::<rtr::owned::Resp>(bytes);
    both::<rtr::owned::Rbs>(bytes);
    one::<rtr::Cont>(bytes);
    one::<rtr::OptreptErr>(bytes);
    one::<rtr::Rtrs>(bytes);
    one::<v1::Error>(bytes);
    one::<v2::Error>(bytes);
    overlays(bytes);
});

/// Decodes the contents of opaque fields. The first four bytes are the code.
fn overlays(bytes: &[u8]) {
    let Some((code, data)) = bytes.split_first_chunk::<4>() else {
        return;
    };
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
