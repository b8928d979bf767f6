//! An owned value is not a borrowed value; only a conversion leads from one to the other.

use rpcrdma_proto::v2;
use xdrgen_fixtures::rpc;
use xdrgen_runtime::Decode;

fn header(chunks: v2::owned::ChunkLists) -> v2::XprtHdr<'static> {
    v2::XprtHdr {
        xid: 1,
        vers: 2,
        credit: 3,
        body: v2::Body::Msg(chunks),
    }
}

fn reads(entries: Vec<v2::ReadSegment>) -> v2::ReadListItems<'static> {
    entries.into()
}

fn call(body: rpc::CallBody<'_>) -> rpc::owned::CallBody {
    body
}

fn copied(body: &rpc::owned::CallBody) -> rpc::owned::CallBody {
    *body
}

fn main() {
    let _ = (header, reads, call, copied);
    let _ = v2::XprtHdr::<'static>::from_bytes(&vec![0; 20]);
}
