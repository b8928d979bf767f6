//! Memory that a peer of iWARP over TCP accesses, and that ends meanwhile.
#![cfg(feature = "iwarp")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "memory is registered and posted by its address")]

mod support;

use rpcrdma_iwarp::{OutgoingKind, ReadRequestHeader, Terminate, TerminateCode};
use rpcrdma_verbs::provider::iwarp::IwarpDevice;
use rpcrdma_verbs::provider::{CompletionQueue as _, MemoryRegion as _};
use support::{Acceptor, Peer, registered, until};

/// Lets both ends make progress until the peer gets a Terminate.
fn terminate(acceptor: &Acceptor, peer: &mut Peer) -> Terminate {
    until("a Terminate", || {
        acceptor.completions.poll(&mut Vec::new(), 16).unwrap();
        peer.receive()
    })
}

/// RFC 5040, section 4.8: the error is found at RDMAP, the memory is protected, and the Terminate
/// has the headers of the RDMA Read Request.
#[test]
fn a_read_of_ended_memory_is_refused() {
    // rfc: 5040-4.8-c, 5040-4.8-d, 5040-4.8-e, 5040-4.8-f, 5040-4.8-k
    const LENGTH: u32 = 32 << 20;
    let device = IwarpDevice::default();
    let (long, at) = registered(&device, LENGTH as usize);
    let (mut ended, ended_at) = registered(&device, 64);
    let mut acceptor = Acceptor::new(&device);
    let (_pair, mut peer) = acceptor.connection(None);
    // The response to the first fills the buffers of the sockets.
    assert!(peer.stream.push_read(1, LENGTH, (long.remote_key(), at)));
    let source = (ended.remote_key(), ended_at);
    assert!(peer.stream.push_read(2, 64, source));
    peer.flush_except(0);
    acceptor.poll();
    assert!(ended.deregister());
    let request = ReadRequestHeader {
        sink_stag: 2,
        sink_offset: 0,
        len: 64,
        source_stag: source.0,
        source_offset: source.1,
    };
    // A Read Request, the last segment, of queue 1, MSN 2.
    let mut header = vec![0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2];
    header.extend([0; 4]);
    let expected = Terminate {
        code: TerminateCode::RDMAP_INVALID_STAG,
        segment: Some((46, header)),
        read_request: Some(request.encode()),
    };
    assert_eq!(terminate(&acceptor, &mut peer), expected);
}

/// RFC 5041, section 7: the error is found at DDP, and the Terminate has the header of the segment.
#[test]
fn a_write_to_ended_memory_is_refused() {
    // rfc: 5041-7.1-g, 5041-7.1-h, 5041-7.2-a
    let device = IwarpDevice::default();
    let (mut region, at) = registered(&device, 10_000);
    let mut acceptor = Acceptor::new(&device);
    let (_pair, mut peer) = acceptor.connection(None);
    let kind = OutgoingKind::Write {
        stag: region.remote_key(),
        offset: at,
    };
    assert!(peer.stream.framer().push_copied(kind, &[&[8; 10_000]]));
    peer.flush_except(5000);
    acceptor.poll();
    let mut header = vec![0xc1, 0x40];
    header.extend(region.remote_key().to_be_bytes());
    header.extend(at.to_be_bytes());
    assert!(region.deregister());
    peer.flush_except(0);
    let expected = Terminate {
        code: TerminateCode::DDP_INVALID_STAG,
        segment: Some((10_014, header)),
        read_request: None,
    };
    assert_eq!(terminate(&acceptor, &mut peer), expected);
}
