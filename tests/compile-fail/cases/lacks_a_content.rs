//! A union's variant has its own content and no other.

use rpcrdma_proto::v1::{Body, Error, Errvers, Header};

fn main() {
    let range = Errvers {
        vers_low: 1,
        vers_high: 1,
    };
    let _: Error = Error::Vers(1, 1);
    let _ = Error::Chunk(range);
    let _: Body<'_> = Body::Error(range);
    let _ = Header {
        reads: Default::default(),
        writes: Default::default(),
    };
}
