//! The Terminate that an iWARP device sends to its peer after a local error.
//!
//! The peer is a plain TCP socket, so that the test sees each byte on the wire. The test is the
//! evidence for requirement 5040-7.1-b: a tool reads the comment `rfc:`. `fixture` drives the
//! device, and limits each wait.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use rpcrdma_iwarp::{MpaOptions, MpaResponder, TerminateCode};

use super::fixture::{Host, TestEnd, until, whole_range};
use crate::provider::iwarp::IwarpDevice;
use crate::provider::{ConnectionEvent, Operation, Status};

/// RFC 5040, section 7.1: if a request cannot be sent, a Terminate is sent in its place.
#[test]
fn a_request_that_cannot_be_sent_ends_with_a_terminate() {
    // rfc: 5040-7.1-b
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener is bound");
    let address = listener.local_addr().expect("it has an address");
    let mut host = Host::new(&IwarpDevice::default(), 64);
    let pair = host.connect(address, b"").expect("the connection begins");
    let (mut socket, _) = listener.accept().expect("the device connects");
    // This thread also drives the device.
    socket.set_nonblocking(true).expect("the option is set");
    let mut responder = MpaResponder::new();
    let request = until("the MPA request", || {
        host.advance();
        // One byte at a time: what follows the request stays in the socket.
        let mut byte = [0];
        let count = received(&mut socket, &mut byte).unwrap_or(0);
        let parsed = responder.receive(&byte[..count]);
        parsed.expect("the request is valid")
    });
    let options = MpaOptions {
        crc: true,
        depths: None,
        rtr: None,
        private_data: Vec::new(),
    };
    let (reply, _) = request.accept(&options).expect("the request is accepted");
    socket.write_all(&reply).expect("the socket has room");
    assert!(matches!(host.event(), ConnectionEvent::Established { .. }));
    let mut device = TestEnd::new(pair, host);
    // Memory of another device: its random key is invalid here.
    let foreign = whole_range(Host::new(&IwarpDevice::default(), 16).buf(b"foreign"));
    let number = device.request(Operation::Send { invalidate: None }, &[foreign]);
    assert_eq!(device.wait_for(number), Status::LocalProtection);
    // The device has sent the Terminate by now: it needs no more driving.
    let mut stream = Vec::new();
    until("the end of the stream", || {
        let mut bytes = [0; 256];
        let count = received(&mut socket, &mut bytes)?;
        stream.extend_from_slice(&bytes[..count]);
        (count == 0).then_some(())
    });
    check_terminate(&stream, TerminateCode::RDMAP_LOCAL_CATASTROPHIC);
}

/// Returns the number of bytes received, 0 at the end of the stream, and `None` if none have
/// arrived yet.
fn received(socket: &mut TcpStream, bytes: &mut [u8]) -> Option<usize> {
    match socket.read(bytes) {
        Ok(count) => Some(count),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("the connection is lost: {error}"),
    }
}

/// Checks that a stream is one FPDU: a Terminate with this code, without the headers of a segment.
fn check_terminate(stream: &[u8], code: TerminateCode) {
    // MPA: the bytes between the length and the CRC (RFC 5044, section 4.1).
    assert_eq!(stream[..2], [0, 22]);
    // DDP: untagged, last segment, version 1. RDMAP: version 1, opcode 7 (Terminate).
    assert_eq!(stream[2..4], [0x41, 0x47]);
    // Terminate: layer and type, code, and three flags that say which headers follow (RFC 5040,
    // section 4.8).
    let kind = code.layer << 4 | code.error_type;
    assert_eq!(stream[20..24], [kind, code.code, 0, 0]);
    // The CRC ends the FPDU: 22 bytes and the length need no padding.
    assert_eq!(stream.len(), 2 + 22 + 4);
}
