//! Requests and replies that are not right, by RFC 5044, section 7.1, and RFC 6581.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rpcrdma_iwarp::{MpaInitiator, MpaOptions, MpaResponder, ReadDepths, RtrTypes, SetupError};

fn options(depths: Option<ReadDepths>, rtr: Option<RtrTypes>) -> MpaOptions {
    MpaOptions {
        crc: false,
        depths,
        rtr,
        private_data: vec![],
    }
}

fn frame(key: &[u8; 16], rest: &[u8]) -> Vec<u8> {
    [key, rest].concat()
}

#[test]
fn wrong_requests_are_refused() {
    let key = b"MPA ID Req Frame";
    let long = [&[0, 1, 2, 1][..], &[0; 513]].concat();
    let cases = [
        (frame(b"MPA ID Rep Frame", &[0, 1, 0, 0]), SetupError::Key),
        (b"G".to_vec(), SetupError::Key),
        (frame(key, &[0, 0, 0, 0]), SetupError::Revision(0)),
        (frame(key, &[0, 3, 0, 0]), SetupError::Revision(3)),
        (frame(key, &long), SetupError::PrivateDataLen(513)),
        (
            frame(key, &[0x10, 2, 0, 3, 0, 0, 0]),
            SetupError::PrivateDataLen(3),
        ),
        (frame(key, &[0, 1, 0, 0, 0]), SetupError::EarlyData),
    ];
    for (request, error) in cases {
        assert_eq!(MpaResponder::new().receive(&request).unwrap_err(), error);
    }
}

#[test]
fn a_request_has_the_bits_of_rfc_6581() {
    let rtr = RtrTypes {
        send: true,
        write: false,
        read: true,
    };
    let depths = ReadDepths { ird: 5, ord: 6 };
    let (_, request) = MpaInitiator::new(options(Some(depths), Some(rtr))).unwrap();
    let rest = [0x10, 2, 0, 4, 0xc0, 5, 0x40, 6];
    assert_eq!(request, frame(b"MPA ID Req Frame", &rest));
    let (_, request) = MpaInitiator::new(options(None, None)).unwrap();
    assert_eq!(request, frame(b"MPA ID Req Frame", &[0, 1, 0, 0]));
}

#[test]
fn an_initiator_checks_the_reply() {
    let rtr = RtrTypes {
        send: true,
        ..RtrTypes::default()
    };
    let depths = ReadDepths { ird: 4, ord: 4 };
    let reply = |rest: &[u8]| {
        let (mut initiator, _) = MpaInitiator::new(options(Some(depths), Some(rtr))).unwrap();
        initiator
            .receive(&frame(b"MPA ID Rep Frame", rest))
            .map(|(_, end)| end.unwrap())
    };
    // RFC 6581, section 9.1: the responder's ORD exceeds our IRD.
    let error = reply(&[0x10, 2, 0, 4, 0xc0, 4, 0, 5]).unwrap_err();
    assert_eq!(error, SetupError::InsufficientIrd);
    // RFC 6581, section 9.2: only a Write would suit the responder.
    assert_eq!(
        reply(&[0x10, 2, 0, 4, 0x80, 4, 0x80, 4]).unwrap_err(),
        SetupError::NoRtr
    );
    assert_eq!(reply(&[0x20, 2, 0, 0]).unwrap_err(), SetupError::Rejected);
    let end = reply(&[0xd0, 2, 0, 4, 0xc0, 3, 0, 4]).unwrap();
    assert_eq!(end.depths, Some(ReadDepths { ird: 4, ord: 3 }));
    assert_eq!((end.crc, end.markers, end.rtr), (true, true, Some(rtr)));
    // 0x3fff leaves our depths as they are.
    let end = reply(&[0x10, 2, 0, 4, 0xff, 0xff, 0x3f, 0xff]).unwrap();
    assert_eq!(end.depths, Some(depths));
}

#[test]
fn a_rejection_has_private_data() {
    let (mut initiator, request) = MpaInitiator::new(options(None, None)).unwrap();
    let request = MpaResponder::new().receive(&request).unwrap().unwrap();
    let reply = request.reject(b"no").unwrap();
    assert_eq!(initiator.receive(&reply), Err(SetupError::Rejected));
    assert_eq!(initiator.rejection(), b"no");
}
