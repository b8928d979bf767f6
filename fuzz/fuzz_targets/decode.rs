//! Any octets into every message of `rpcrdma-proto`, in both shapes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::{both, one};
use rpcrdma_proto::v2::{characteristics, properties, rtr};
use rpcrdma_proto::{rpc, v1, v2};
use xdrgen_runtime::Encode;

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
