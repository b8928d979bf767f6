//! Enums, unions and overlays are exhaustive: a match names every variant.

use rpcrdma_proto::v2::properties::{OptInfo, Property};
use rpcrdma_proto::v2::{Body, Errcode};

fn code(code: Errcode) -> u32 {
    match code {
        Errcode::Vers => 1,
        Errcode::BadHeader => 2,
    }
}

fn body(body: Body<'_>) -> bool {
    match body {
        Body::Msg(_) | Body::Nomsg(_) => true,
        Body::Error(_) => false,
    }
}

fn operation(info: OptInfo<'_>) -> bool {
    match info {
        OptInfo::Connprop(_) | OptInfo::Reqprop(_) | OptInfo::Resprop(_) | OptInfo::Updprop(_) => {
            true
        }
        OptInfo::Xmtreq(_) | OptInfo::Xmtresp(_) | OptInfo::Xmtcont(_) | OptInfo::Repterr(_) => {
            false
        }
    }
}

fn property(property: Property<'_>) -> Option<u32> {
    match property {
        Property::Rbsiz(size) => Some(size),
        Property::Unknown { .. } => None,
    }
}

fn main() {
    let _ = (code, body, operation, property);
}
