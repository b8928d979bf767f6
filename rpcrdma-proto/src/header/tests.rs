use super::*;
use crate::error::RefusalAction;
use proptest::prelude::*;
use std::vec::Vec;

/// Words in hexadecimal, and what follows a `#` is a comment.
fn message(text: &str) -> Vec<u8> {
    let words = text
        .lines()
        .flat_map(|line| line.split('#').next().unwrap().split_whitespace());
    words
        .flat_map(|word| u32::from_str_radix(word, 16).unwrap().to_be_bytes())
        .collect()
}

fn refused(message: &[u8]) -> Refusal {
    Header::parse(message, Version::Two).unwrap_err()
}

/// The outcomes of a message: with an unknown XID, and with the XID of an outgoing call.
fn outcomes(message: &[u8]) -> (RefusalAction, RefusalAction) {
    let refusal = refused(message);
    (
        refusal.action(false, Version::One, Version::Two),
        refusal.action(true, Version::One, Version::Two),
    )
}

const CALL: &str = "0000002a 00000000 00000002";
const REPLY: &str = "0000002a 00000001 00000000";

// spec: rfc8166-4.2.2-a, rfc8166-4.2.4-a
#[test]
fn messages_of_both_versions_are_parsed() {
    let two = message(&std::format!(
        "0000002a 00000002 00000020 00000000 00000000 0 0 0 {CALL}"
    ));
    let header = Header::parse(&two, Version::Two).unwrap();
    assert_eq!(
        (header.xid, header.version, header.credits),
        (42, Version::Two, 32)
    );
    let HeaderBody::Message {
        direction: MsgType::Call,
        chunks,
        payload,
    } = header.body
    else {
        panic!("{header:?}")
    };
    assert!(chunks.is_empty() && payload == message(CALL));

    let one = message(&std::format!(
        "0000002a 00000001 00000020 00000000 0 0 0 {REPLY}"
    ));
    let header = Header::parse(&one, Version::One).unwrap();
    let HeaderBody::Message {
        direction: MsgType::Reply,
        chunks,
        payload,
    } = header.body
    else {
        panic!("{header:?}")
    };
    assert!(chunks.is_empty() && payload == message(REPLY));

    // A long call, whose header has a direction only in Version Two.
    let reads = "1 0 7 100 0 1000 0 0 0";
    let two = message(&std::format!("2a 2 20 1 0 {reads}"));
    assert!(matches!(
        Header::parse(&two, Version::Two).unwrap().body,
        HeaderBody::Long { direction: Some(MsgType::Call), chunks } if !chunks.is_empty()
    ));
    let one = message(&std::format!("2a 1 20 1 {reads}"));
    assert!(matches!(
        Header::parse(&one, Version::Two).unwrap().body,
        HeaderBody::Long {
            direction: None,
            ..
        }
    ));

    let operation = message("2a 2 20 5 1 9 4 01020304 ffffffff");
    assert!(matches!(
        Header::parse(&operation, Version::Two).unwrap().body,
        HeaderBody::Operation {
            direction: MsgType::Reply,
            code: 9,
            info: [1, 2, 3, 4],
            payload: [0xff, 0xff, 0xff, 0xff]
        }
    ));
}

#[test]
fn errors_of_both_versions_are_parsed() {
    let cases = [
        ("2a 1 20 4 1 1 1", PeerError::Versions { low: 1, high: 1 }),
        ("2a 2 20 4 1 1 1", PeerError::Versions { low: 1, high: 1 }),
        ("2a 1 20 4 2", PeerError::Header),
        ("2a 2 20 4 2", PeerError::Header),
        ("2a 2 20 4 3", PeerError::Operation),
    ];
    for (text, error) in cases {
        let bytes = message(text);
        let header = Header::parse(&bytes, Version::Two).unwrap();
        assert!(
            matches!(header.body, HeaderBody::Error(found) if found == error),
            "{text}"
        );
    }
}

/// Every kind of message that breaks a rule, with what becomes of it.
// spec: rfc8166-4.2.1-a, rfc8166-4.2.4-b, rfc8166-4.2.4-c, rfc8166-4.5-b, rfc8166-4.5-c
// spec: rfc8166-4.6.1-b, rfc8166-4.6.2-b
#[test]
fn each_broken_rule_has_its_outcome() {
    let (drop, header) = (
        RefusalAction::Drop,
        RefusalAction::Answer(PeerError::Header),
    );
    let versions = RefusalAction::Answer(PeerError::Versions { low: 1, high: 2 });
    // The message; its words; the outcome for an unknown XID, and for the XID of an outgoing call.
    let cases: [(&str, &str, RefusalReason, RefusalAction, RefusalAction); 24] = [
        ("nothing", "", RefusalReason::Short, drop, drop),
        (
            "less than the fixed fields",
            "2a 1 20",
            RefusalReason::Short,
            drop,
            drop,
        ),
        (
            "Version One, under 28 bytes",
            "2a 1 20 0 0 0",
            RefusalReason::Short,
            drop,
            drop,
        ),
        (
            "version zero",
            "2a 0 20 0 0 0 0",
            RefusalReason::Version,
            versions,
            drop,
        ),
        (
            "a version to come",
            "2a 3 20 0 0 0 0",
            RefusalReason::Version,
            versions,
            drop,
        ),
        (
            "an error of a version to come",
            "2a 3 20 4 1 3 3",
            RefusalReason::Version,
            drop,
            drop,
        ),
        (
            "Version One, procedure 5",
            "2a 1 20 5 0 0 0 0",
            RefusalReason::Procedure,
            header,
            drop,
        ),
        (
            "Version Two, procedure 6",
            "2a 2 20 6 0",
            RefusalReason::Procedure,
            header,
            drop,
        ),
        (
            "Version Two, RDMA_MSGP",
            "2a 2 20 2 0 0 0 0 0",
            RefusalReason::Procedure,
            header,
            drop,
        ),
        (
            "Version Two, RDMA_DONE",
            "2a 2 20 3",
            RefusalReason::Procedure,
            header,
            drop,
        ),
        (
            "RDMA_MSGP",
            "2a 1 20 2 0 0 0 0 0 2a 0",
            RefusalReason::Padded,
            header,
            drop,
        ),
        (
            "RDMA_DONE",
            "2a 1 20 3 0 0 0",
            RefusalReason::Done,
            drop,
            drop,
        ),
        (
            "a call without an RPC message",
            "2a 2 20 0 0 0 0 0",
            RefusalReason::NoMessage,
            header,
            header,
        ),
        (
            "a reply without an RPC message",
            "2a 2 20 0 1 0 0 0",
            RefusalReason::NoMessage,
            drop,
            drop,
        ),
        (
            "half an RPC header",
            "2a 2 20 0 0 0 0 0 2a",
            RefusalReason::NoMessage,
            header,
            header,
        ),
        (
            "a long call without chunks",
            "2a 2 20 1 0 0 0 0",
            RefusalReason::NoMessage,
            header,
            header,
        ),
        (
            "Version One, the same",
            "2a 1 20 1 0 0 0",
            RefusalReason::NoMessage,
            header,
            drop,
        ),
        (
            "a long call before a message",
            "2a 2 20 1 0 1 0 7 4 0 0 0 0 0 2a 0",
            RefusalReason::Payload,
            header,
            header,
        ),
        (
            "an error before a message",
            "2a 2 20 4 2 2a 1",
            RefusalReason::Payload,
            drop,
            drop,
        ),
        (
            "another XID in the RPC call",
            "2a 2 20 0 0 0 0 0 2b 0",
            RefusalReason::Xid,
            header,
            header,
        ),
        (
            "another XID in the RPC reply",
            "2a 2 20 0 1 0 0 0 2b 1",
            RefusalReason::Xid,
            drop,
            drop,
        ),
        (
            "a call that holds a reply",
            "2a 2 20 0 0 0 0 0 2a 1",
            RefusalReason::Direction,
            header,
            header,
        ),
        (
            "a reply that holds a call",
            "2a 2 20 0 1 0 0 0 2a 0",
            RefusalReason::Direction,
            drop,
            drop,
        ),
        (
            "neither call nor reply",
            "2a 1 20 0 0 0 0 2a 2",
            RefusalReason::Direction,
            header,
            drop,
        ),
    ];
    for (what, text, why, nobodys, ours) in cases {
        let bytes = message(text);
        assert_eq!(
            (refused(&bytes).reason, outcomes(&bytes)),
            (why, (nobodys, ours)),
            "{what}"
        );
    }
}

/// Headers that are no XDR: answered if they are calls, dropped if they are replies or errors.
// spec: rfc8166-4.5-a, rfc8166-4.5-g, rfc8166-4.5.2-a
#[test]
fn each_malformed_encoding_has_its_outcome() {
    let (drop, header) = (
        RefusalAction::Drop,
        RefusalAction::Answer(PeerError::Header),
    );
    let cases: [(&str, &str, RefusalAction, RefusalAction); 10] = [
        (
            "a list that ends too early",
            "2a 2 20 0 0 1 28 7 100 0",
            header,
            header,
        ),
        (
            "the same in a reply",
            "2a 2 20 0 1 1 28 7 100 0",
            drop,
            drop,
        ),
        (
            "Version One, the same",
            "2a 1 20 0 1 28 7 100 0",
            header,
            drop,
        ),
        (
            "a list that neither ends nor goes on",
            "2a 2 20 0 0 2 0 0 0 2a 0",
            header,
            header,
        ),
        (
            "more segments than could follow",
            "2a 2 20 0 0 0 1 ffffffff 0 0",
            header,
            header,
        ),
        (
            "neither call nor reply",
            "2a 2 20 0 2 0 0 0 2a 0",
            header,
            drop,
        ),
        (
            "an operation longer than the message",
            "2a 2 20 5 0 1 100 0",
            header,
            header,
        ),
        ("the same of a responder", "2a 2 20 5 1 1 100 0", drop, drop),
        ("an error without its code", "2a 2 20 4", drop, drop),
        ("an unknown error", "2a 2 20 4 9", drop, drop),
    ];
    for (what, text, nobodys, ours) in cases {
        let bytes = message(text);
        assert!(
            matches!(refused(&bytes).reason, RefusalReason::Xdr(_)),
            "{what}: {:?}",
            refused(&bytes)
        );
        assert_eq!(outcomes(&bytes), (nobodys, ours), "{what}");
    }
}

/// The range of versions is correct for an end with Version One only, and for one with both.
// spec: rfc8166-4.5.1-a
#[test]
fn unsupported_versions_are_answered_with_the_supported_range() {
    let bytes = message("2a 2 20 0 0 0 0 0 2a 0");
    let refusal = Header::parse(&bytes, Version::One).unwrap_err();
    let range = PeerError::Versions { low: 1, high: 1 };
    assert_eq!(
        refusal.action(false, Version::One, Version::One),
        RefusalAction::Answer(range)
    );
    let mut buffer = [0; 64];
    let used = refusal.write_error(range, 32, &mut buffer).unwrap();
    assert_eq!(buffer[..used], message("2a 2 20 4 1 1 1"));
    // Of both versions the range has both.
    let bytes = message("2a 3 20 0 0 0 0 0 2a 0");
    let refusal = Header::parse(&bytes, Version::Two).unwrap_err();
    let range = PeerError::Versions { low: 1, high: 2 };
    assert_eq!(
        refusal.action(false, Version::One, Version::Two),
        RefusalAction::Answer(range)
    );
    let used = refusal.write_error(range, 32, &mut buffer).unwrap();
    assert_eq!(buffer[..used], message("2a 3 20 4 1 1 2"));
}

// spec: rfc8166-4.5-d, rfc8166-4.5-e, rfc8166-4.5-f
#[test]
fn answers_have_the_layout_of_their_version() {
    let mut buffer = [0; 64];
    for (text, error, answer) in [
        ("2a 1 20 5 0 0 0 0", PeerError::Header, "2a 1 7 4 2"),
        ("2a 2 20 6 0", PeerError::Header, "2a 2 7 4 2"),
        ("2a 2 20 6 0", PeerError::Operation, "2a 2 7 4 3"),
        (
            "2a 63 20 0 0 0 0",
            PeerError::Versions { low: 1, high: 2 },
            "2a 63 7 4 1 1 2",
        ),
    ] {
        let used = refused(&message(text))
            .write_error(error, 7, &mut buffer)
            .unwrap();
        assert_eq!(buffer[..used], message(answer), "{text}");
    }
    assert!(
        refused(&message("2a 2 20 6 0"))
            .write_error(PeerError::Header, 7, &mut buffer[..19])
            .is_err()
    );
}

/// The fast writer writes the same bytes as the encoder, and fails for the same buffers.
// spec: rfc8166-4-a
// spec: rfc8166-4.6.1-a, rfc8166-4.6.2-a
#[test]
fn fast_writer_equals_the_encoder() {
    for direction in [MsgType::Call, MsgType::Reply] {
        let header = OutgoingHeader {
            xid: 0x0102_0304,
            credits: 32,
            direction,
            ..OutgoingHeader::EMPTY
        };
        for room in [0, 31, 32, 64] {
            let (mut written, mut encoded) = ([0xff; 64], [0xff; 64]);
            let lengths = (
                header.write(&mut written[..room]),
                header.encode(&mut encoded[..room]),
            );
            assert_eq!(lengths.0, lengths.1);
            assert_eq!((lengths.0.is_ok(), written), (room >= 32, encoded));
        }
    }
}

proptest! {
    /// The fast parser agrees with the decoder for plain messages with one changed word, or cut
    /// short.
    #[test]
    fn fast_parser_equals_the_decoder(at in 0usize..12, word in 0u32..7, length in 24usize..=48, reply: bool) {
        let mut bytes = message(&std::format!("5 2 20 0 {0} 0 0 0 5 {0} 2 3", u32::from(reply)));
        bytes[4 * at..][..4].copy_from_slice(&word.to_be_bytes());
        bytes.truncate(length);
        for highest in [Version::One, Version::Two] {
            let (parsed, decoded) = (Header::parse(&bytes, highest), Header::decode(&bytes, highest));
            prop_assert_eq!(std::format!("{:?}", parsed), std::format!("{:?}", decoded));
        }
    }

    /// No answer to any error or reply: it could cause an endless exchange.
    #[test]
    fn errors_and_replies_are_never_answered(words in proptest::collection::vec(0u32..8, 0..24), bytes: Vec<u8>, ours: bool) {
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        for message in [words, bytes] {
            let Err(refusal) = Header::parse(&message, Version::Two) else { continue };
            let RefusalAction::Answer(error) = refusal.action(ours, Version::One, Version::Two) else { continue };
            let mut buffer = [0; 28];
            let used = refusal.write_error(error, 1, &mut buffer).unwrap();
            match Header::parse(&buffer[..used], Version::Two) {
                Ok(header) => {
                    prop_assert!(matches!(header.body, HeaderBody::Error(found) if found == error));
                    prop_assert_eq!(header.xid, refusal.xid);
                }
                // A message in an unsupported version is answered in that version.
                Err(again) => prop_assert_eq!(again.action(ours, Version::One, Version::Two), RefusalAction::Drop),
            }
        }
    }
}

/// A message without a procedure is not an error message of the peer.
#[test]
fn short_message_is_not_an_error() {
    let refusal = Header::parse(&[0; 15], Version::Two).unwrap_err();
    assert_eq!(
        (refusal.reason, refusal.direction, refusal.error),
        (RefusalReason::Short, None, false)
    );
}
