//! What a peer of iWARP over TCP is told of an error at this end, on a plain socket.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use rpcrdma_iwarp::{MpaOptions, MpaResponder, TerminateCode};

use super::fixture::{Host, TestEnd, until, whole_range};
use crate::provider::iwarp::IwarpDevice;
use crate::provider::{ConnectionEvent, Operation, Status};

/// RFC 5040, section 7.1: for a request that cannot be sent, a Terminate is.
#[test]
fn a_request_that_cannot_be_sent_ends_with_a_terminate() {
    // rfc: 5040-7.1-b
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    let mut host = Host::new(&IwarpDevice::default(), 64);
    let pair = host.connect(address, b"").expect("a connection");
    let (mut socket, _) = listener.accept().expect("it connects");
    socket.set_nonblocking(true).expect("an option");
    let mut responder = MpaResponder::new();
    let request = until("a request", || {
        host.advance();
        let mut byte = [0];
        let count = socket.read(&mut byte).unwrap_or(0);
        responder.receive(&byte[..count]).expect("it is right")
    });
    let options = MpaOptions {
        crc: true,
        depths: None,
        rtr: None,
        private_data: Vec::new(),
    };
    let (reply, _) = request.accept(&options).expect("a reply");
    socket.write_all(&reply).expect("there is room");
    assert!(matches!(host.event(), ConnectionEvent::Established { .. }));
    let mut end = TestEnd::new(pair, host);
    // Keys of two devices are as good as never the same.
    let foreign = whole_range(Host::new(&IwarpDevice::default(), 16).buf(b"foreign"));
    let number = end.request(Operation::Send { invalidate: None }, &[foreign]);
    assert_eq!(end.wait_for(number), Status::LocalProtection);
    let mut came = Vec::new();
    until("the end of the stream", || {
        let mut bytes = [0; 256];
        match socket.read(&mut bytes) {
            Ok(0) => Some(()),
            Ok(count) => {
                came.extend_from_slice(&bytes[..count]);
                None
            }
            Err(_) => None,
        }
    });
    // Behind the headers of MPA and DDP: layer, type and code, and no headers of a segment.
    let code = TerminateCode::RDMAP_LOCAL_CATASTROPHIC;
    let kind = code.layer << 4 | code.error_type;
    assert_eq!(came[2..4], [0x41, 0x47]);
    assert_eq!(came[20..24], [kind, code.code, 0, 0]);
    assert_eq!(came.len(), 28);
}
