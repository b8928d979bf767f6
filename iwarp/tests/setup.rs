//! Invalid requests and replies, by RFC 5044, section 7.1, and RFC 6581.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rpcrdma_iwarp::{
    MpaEstablished, MpaInitiator, MpaOptions, MpaResponder, ReadDepths, RtrTypes, SetupError,
};

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
fn invalid_requests_are_rejected() {
    // rfc: 5044-7.1.1-b, 5044-7.1.1-o, 5044-7.1.1-p, 5044-7.1.1-r, 5044-7.1.2-l, 5044-7.1.2-q
    // rfc: 5044-7.1.2-r, 5044-7.1.2-s, 6581-6-e
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
fn requests_are_encoded_by_rfc_6581() {
    // rfc: 5044-7.1.1-a, 5044-7.1.1-m, 5044-7.1.1-n, 5044-7.1.1-q, 5044-7.1.1-s, 5044-7.1.2-a
    // rfc: 6581-6-a, 6581-6-b, 6581-6-c, 6581-9-a, 6581-9.2-a, 6581-9.2-b, 6581-9.2-l, 6581-10-c
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
    // rfc: 6581-9.1-f, 6581-9.1-k, 6581-9.1-m
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
    // RFC 6581, section 9.1: the responder's ORD exceeds the initiator's IRD.
    let error = reply(&[0x10, 2, 0, 4, 0xc0, 4, 0, 5]).unwrap_err();
    assert_eq!(error, SetupError::InsufficientIrd);
    // RFC 6581, section 9.2: the responder supports only a Write.
    assert_eq!(
        reply(&[0x10, 2, 0, 4, 0x80, 4, 0x80, 4]).unwrap_err(),
        SetupError::NoRtr
    );
    assert_eq!(reply(&[0x20, 2, 0, 0]).unwrap_err(), SetupError::Rejected);
    let end = reply(&[0xd0, 2, 0, 4, 0xc0, 3, 0, 4]).unwrap();
    assert_eq!(end.depths, Some(ReadDepths { ird: 4, ord: 3 }));
    assert_eq!((end.crc, end.markers, end.rtr), (true, true, Some(rtr)));
    // 0x3fff leaves the initiator's depths unchanged.
    let end = reply(&[0x10, 2, 0, 4, 0xff, 0xff, 0x3f, 0xff]).unwrap();
    assert_eq!(end.depths, Some(depths));
}

#[test]
fn a_rejection_has_private_data() {
    // rfc: 5044-7.1.2-e, 5044-7.1.2-i, 5044-7.1.2-n, 6581-9.1-i
    let (mut initiator, request) = MpaInitiator::new(options(None, None)).unwrap();
    let request = MpaResponder::new().receive(&request).unwrap().unwrap();
    let reply = request.reject(b"no").unwrap();
    assert_eq!(initiator.receive(&reply), Err(SetupError::Rejected));
    assert_eq!(initiator.rejection(), b"no");
    assert_eq!(initiator.rejected_depths(), None);
    assert_eq!(initiator.terminate(), b"");
    // In revision 2, with the responder's depths.
    let depths = ReadDepths { ird: 4, ord: 4 };
    let (mut initiator, _) = MpaInitiator::new(options(Some(depths), None)).unwrap();
    let reply = frame(
        b"MPA ID Rep Frame",
        &[0x30, 2, 0, 6, 0, 7, 0, 9, b'n', b'o'],
    );
    assert_eq!(initiator.receive(&reply), Err(SetupError::Rejected));
    assert_eq!(initiator.rejection(), b"no");
    let named = ReadDepths { ird: 7, ord: 9 };
    assert_eq!(initiator.rejected_depths(), Some(named));
}

#[test]
fn invalid_replies_are_rejected() {
    // rfc: 5044-7.1.1-d, 5044-7.1.1-o, 5044-7.1.1-p, 5044-7.1.1-r, 5044-7.1.2-g, 5044-7.1.2-h
    // rfc: 5044-7.1.2-o
    let key = b"MPA ID Rep Frame";
    let long = [&[0, 1, 2, 1][..], &[0; 513]].concat();
    let cases = [
        // Both ends began as initiators.
        (frame(b"MPA ID Req Frame", &[0, 1, 0, 0]), SetupError::Key),
        (frame(key, &[0, 0, 0, 0]), SetupError::Revision(0)),
        (frame(key, &[0, 9, 0, 0]), SetupError::Revision(9)),
        (frame(key, &long), SetupError::PrivateDataLen(513)),
        (
            frame(key, &[0x10, 2, 0, 2, 0, 0]),
            SetupError::PrivateDataLen(2),
        ),
    ];
    for (reply, error) in cases {
        let (mut initiator, _) = MpaInitiator::new(options(None, None)).unwrap();
        assert_eq!(initiator.receive(&reply), Err(error));
        assert_eq!(initiator.terminate(), b"");
    }
}

#[test]
fn an_initiator_terminates_with_the_reason() {
    // rfc: 6581-9.1-g, 6581-9.1-h, 6581-9.2-j, 6581-9.2-k
    // The FPDU of a Terminate: layer 2, error type 0, and these codes (RFC 6581, section 8).
    let write = RtrTypes {
        write: true,
        ..RtrTypes::default()
    };
    let depths = ReadDepths { ird: 4, ord: 4 };
    for (reply, code) in [
        ([0x50, 2, 0, 4, 0x80, 4, 0x80, 5], 6),
        ([0x50, 2, 0, 4, 0xc0, 4, 0x40, 4], 7),
    ] {
        let (mut initiator, _) = MpaInitiator::new(options(Some(depths), Some(write))).unwrap();
        let reply = frame(b"MPA ID Rep Frame", &reply);
        initiator.receive(&reply).unwrap_err();
        let fpdu = initiator.terminate();
        let mut expected = vec![0, 22, 0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1];
        expected.extend([0, 0, 0, 0, 0x20, code, 0, 0]);
        let sum = crc32c::crc32c(&expected);
        expected.extend(sum.to_le_bytes());
        assert_eq!(fpdu, expected);
    }
}

/// Lets a responder accept a request with these bytes after the key. Returns the bytes after the
/// key of its reply.
fn accepted(request: &[u8], options: &MpaOptions) -> (Vec<u8>, MpaEstablished) {
    let request = frame(b"MPA ID Req Frame", request);
    let request = MpaResponder::new().receive(&request).unwrap().unwrap();
    let (reply, established) = request.accept(options).unwrap();
    assert_eq!(reply[..16], *b"MPA ID Rep Frame");
    (reply[16..].to_vec(), established)
}

#[test]
fn a_reply_matches_its_request() {
    // rfc: 5044-3-i, 5044-7.1.1-c, 5044-7.1.1-m, 5044-7.1.2-f, 6581-6-a, 6581-6-d, 6581-6-e
    // rfc: 6581-9.1-a, 6581-9.1-b, 6581-9.1-c, 6581-9.1-j, 6581-9.1-l, 6581-9.2-c, 6581-9.2-d
    // rfc: 6581-9.2-e, 6581-9.2-f, 6581-9.2-h, 6581-9.2-m, 6581-9.2-n, 6581-10-a, 6581-10-b
    // rfc: 6581-10-d, 6581-10-e, 6581-10-f
    let rtr = RtrTypes {
        read: true,
        ..RtrTypes::default()
    };
    let ours = options(Some(ReadDepths { ird: 0, ord: 6 }), Some(rtr));
    let depths = |established: &MpaEstablished| established.depths.unwrap();
    // Revision 1, with reserved bits set: not enhanced, and the reply has none of these bits.
    let (reply, established) = accepted(&[0x0f, 1, 0, 0], &ours);
    assert_eq!(reply, [0, 1, 0, 0]);
    assert_eq!((established.depths, established.rtr), (None, None));
    // The responder's ORD is at most the peer's IRD; flags B, C and D are ignored without A.
    let (reply, established) = accepted(&[0x10, 2, 0, 4, 0x40, 3, 0xc0, 5], &ours);
    assert_eq!(reply, [0x10, 2, 0, 4, 0, 0, 0, 3]);
    assert_eq!(depths(&established), ReadDepths { ird: 0, ord: 3 });
    let named = ReadDepths { ird: 3, ord: 5 };
    assert_eq!(
        (established.peer_depths, established.rtr),
        (Some(named), None)
    );
    // A Read as ready-to-receive message gets an IRD of 1 even if the peer has no Reads.
    let (reply, established) = accepted(&[0x10, 2, 0, 4, 0x80, 3, 0x40, 0], &ours);
    assert_eq!(reply, [0x10, 2, 0, 4, 0x80, 1, 0x40, 3]);
    assert_eq!((depths(&established).ird, established.rtr), (1, Some(rtr)));
    // The peer requests a Write: the reply names the supported messages.
    let (reply, _) = accepted(&[0x10, 2, 0, 4, 0x80, 3, 0x80, 5], &ours);
    assert_eq!(reply, [0x10, 2, 0, 4, 0x80, 1, 0x40, 3]);
    // The reply to 0x3fff is 0x3fff, and the responder's depths stay unchanged.
    let (reply, established) = accepted(&[0x10, 2, 0, 4, 0x3f, 0xff, 0x3f, 0xff], &ours);
    assert_eq!(reply, [0x10, 2, 0, 4, 0x3f, 0xff, 0x3f, 0xff]);
    assert_eq!(depths(&established), ReadDepths { ird: 0, ord: 6 });
}

#[test]
fn crc_and_markers_are_negotiated() {
    // rfc: 5044-1.2-b, 5044-4.4-c, 5044-4.4-d, 5044-4.4-f, 5044-4.4-g, 5044-7.1.1-f, 5044-7.1.1-g
    // rfc: 5044-7.1.1-h, 5044-7.1.1-i, 5044-7.1.1-k
    for (asked, ours, crc) in [
        (0x00, false, false),
        (0x40, false, true),
        (0x00, true, true),
        (0x40, true, true),
    ] {
        let options = MpaOptions {
            crc: ours,
            ..options(None, None)
        };
        let (reply, established) = accepted(&[asked, 1, 0, 0], &options);
        assert_eq!((reply[0] & 0x40 != 0, established.crc), (crc, crc));
        let (reply, established) = accepted(&[asked | 0x80, 1, 0, 0], &options);
        // The responder requires no markers.
        assert_eq!((reply[0] & 0x80, established.markers), (0, true));
    }
}
