use super::*;
use crate::chunk::{ChunkError, ChunkLimits, Segment};
use crate::connection::config::{MAX_ACCEPTED_SEGMENTS, MAX_CALL_SEGMENTS};
use crate::connection::output::BufferId;
use crate::connection::xid_table::XidTable;
use crate::continuation::{MAX_TRANSMISSIONS, RtrExtConfig};
use crate::error::RefusalReason;
use crate::header::OutgoingHeader;
use crate::placement::{BufferSegment, BufferStructure};
use crate::v2::properties::{ROPT_REQPROP, ROPT_RESPROP};
use crate::v2::{self, MsgType};
use crate::xdr::Encode;
use std::vec::Vec;

/// The first XID of a session reveals nothing about the hash of the peer's XIDs: XIDs that a peer
/// derives from it build no long chain.
#[test]
fn peer_cannot_derive_the_hash_of_xids() {
    let config = Config {
        max_version: Version::One,
        max_served: 4_096,
        hash_seed: 0x1234_5678_9abc_def0,
        ..Config::server()
    };
    let mut session = Session::new(config.clone()).unwrap();
    let seen = session.fresh_xid();
    // XIDs that would share a chain if the seed were visible, or derived from a visible value.
    for guess in [seen, seen.wrapping_sub(1), !seen, !seen.wrapping_sub(1)] {
        let mut guessed = XidTable::new(guess.into());
        guessed.insert(4_095, 1, 0);
        let chosen: Vec<u32> = (1..)
            .filter(|xid| guessed.same_chain(0, *xid))
            .take(1_000)
            .collect();
        for (at, xid) in chosen.iter().enumerate() {
            guessed.insert(at, 1, *xid);
        }
        assert!(
            guessed.longest_chain() >= chosen.len(),
            "with what it guesses"
        );
        let mut session = Session::new(config.clone()).unwrap();
        let longest = session.responder.longest_chain(&chosen);
        assert!(
            longest < 100,
            "{longest} of {} XIDs are in one chain",
            chosen.len()
        );
    }
}

/// Returns a server on an established connection that speaks Version Two, and serves one call at
/// most.
fn server() -> Session {
    let mut session = Session::new(Config {
        max_served: 1,
        ..Config::server()
    })
    .unwrap();
    session.connected(0, PrivateData::DEFAULT).unwrap();
    session
}

/// Returns the refusal of a message.
fn refusal(session: &mut Session, message: &[u8]) -> Refusal {
    let refused = session.counters().refused;
    let disposition = session.received(BufferId(0), message, None);
    assert_eq!(disposition, BufferDisposition::Free);
    assert_eq!(session.counters().refused, refused + 1);
    let refusal = session.take_refusal().unwrap();
    assert_eq!(session.take_refusal(), None, "it is told once");
    refusal
}

/// Returns the reason for which an operation without content is refused that these bytes follow.
fn reason(session: &mut Session, opttype: u32, optdir: MsgType, payload: &[u8]) -> RefusalReason {
    let mut message = [0; 256];
    let body = v2::Body::Optional(v2::Optional {
        optdir,
        opttype,
        optinfo: &[],
    });
    let header = v2::XprtHdr {
        xid: 9,
        vers: 2,
        credit: 1,
        body,
    };
    let length = header.encode_to_slice(&mut message).unwrap();
    message[length..][..payload.len()].copy_from_slice(payload);
    refusal(session, &message[..length + payload.len()]).reason
}

/// The reason for which a message is refused is kept up to the transport.
#[test]
fn a_refusal_has_its_reason() {
    let mut session = server();
    let unknown = reason(&mut session, 99, MsgType::Call, &[]);
    assert_eq!(unknown, RefusalReason::Operation);
    let misdirected = reason(&mut session, ROPT_RESPROP, MsgType::Call, &[]);
    assert_eq!(misdirected, RefusalReason::OperationDirection);
    let followed = reason(&mut session, ROPT_REQPROP, MsgType::Call, &[0; 8]);
    assert_eq!(followed, RefusalReason::Payload);
    let invalid = reason(&mut session, ROPT_REQPROP, MsgType::Call, &[]);
    assert!(matches!(invalid, RefusalReason::Xdr(_)), "{invalid:?}");
    let mut message = [0; 256];
    let misaligned = v2::ReadSegment {
        position: 3,
        target: v2::Segment::from(Segment {
            handle: 1,
            length: 8,
            offset: 0,
        }),
    };
    let length = OutgoingHeader {
        xid: 5,
        version: Version::Two,
        credits: 1,
        direction: MsgType::Call,
        reads: &[misaligned],
        ..OutgoingHeader::EMPTY
    }
    .write(&mut message)
    .unwrap();
    message[length..][..8].copy_from_slice(&[0, 0, 0, 5, 0, 0, 0, 0]);
    let refused = refusal(&mut session, &message[..length + 8]);
    let misaligned = RefusalReason::Chunks(ChunkError::MisalignedPosition);
    assert_eq!((refused.xid, refused.reason), (5, misaligned));
}

/// A call that a client does not accept is refused for that reason.
#[test]
fn a_refusal_of_a_backward_call_has_its_reason() {
    let mut session = Session::new(Config {
        max_served: 0,
        max_version: Version::One,
        ..Config::client()
    })
    .unwrap();
    while session.poll_action().is_some() {}
    session.connected(0, PrivateData::DEFAULT).unwrap();
    let mut message = [0; 64];
    let length = OutgoingHeader {
        xid: 7,
        version: Version::One,
        credits: 1,
        direction: MsgType::Call,
        ..OutgoingHeader::EMPTY
    }
    .write(&mut message)
    .unwrap();
    message[length..][..8].copy_from_slice(&[0, 0, 0, 7, 0, 0, 0, 0]);
    let refused = refusal(&mut session, &message[..length + 8]);
    assert_eq!(
        (refused.xid, refused.reason),
        (7, RefusalReason::NotAccepted)
    );
}

/// Every peer may send as much as a connection begins with: less is refused, and that much is
/// enough.
// spec: rfc8166-3.3.3-b
#[test]
fn receive_size_has_a_minimum() {
    for (max_version, least) in [(Version::One, 1024), (Version::Two, 4096)] {
        for config in [Config::client(), Config::server()] {
            let config = |receive_size| Config {
                max_version,
                receive_size,
                ..config.clone()
            };
            assert_eq!(config(least).check(), Ok(()));
            assert_eq!(
                config(least - 1).check(),
                Err(ConfigError::ReceiveSize { least })
            );
            assert!(Session::new(config(least - 1)).is_err());
        }
    }
}

/// An end that calls has at least one credit, and no more than calls. An end that never calls needs
/// none. A client calls, and a server serves.
#[test]
fn settings_of_credits_are_checked() {
    let server = |max_calls, credits, max_served| {
        let config = Config {
            max_calls,
            credits,
            max_served,
            ..Config::server()
        };
        config.check()
    };
    for (config, found) in [
        (server(0, 0, 8), Ok(())),
        (server(0, 9, 8), Ok(())),
        (server(4, 4, 8), Ok(())),
        (server(4, 5, 8), Err(ConfigError::Credits)),
        (server(4, 0, 8), Err(ConfigError::Credits)),
        (server(4, 4, 0), Err(ConfigError::Nothing)),
    ] {
        assert_eq!(config, found);
    }
    let client = Config {
        max_calls: 0,
        credits: 0,
        ..Config::client()
    };
    assert_eq!(client.check(), Err(ConfigError::Nothing));
}

/// Each limit of a call's segments is checked by itself.
#[test]
fn limits_of_segments_are_checked() {
    let most = u16::try_from(MAX_CALL_SEGMENTS).unwrap();
    for (max_segments, max_segment_len, found) in [
        (1, 1, Ok(())),
        (most, 1, Ok(())),
        (0, 1, Err(ConfigError::Segments)),
        (1, 0, Err(ConfigError::Segments)),
        (most + 1, 1, Err(ConfigError::Segments)),
    ] {
        let config = Config {
            max_segments,
            max_segment_len,
            send_size: 1024,
            ..Config::client()
        };
        assert_eq!(config.check(), found);
    }
    for (max_segments, found) in [
        (MAX_ACCEPTED_SEGMENTS, Ok(())),
        (MAX_ACCEPTED_SEGMENTS + 1, Err(ConfigError::Segments)),
    ] {
        let limits = ChunkLimits {
            max_segments,
            ..ChunkLimits::DEFAULT
        };
        let config = Config {
            limits,
            ..Config::client()
        };
        assert_eq!(config.check(), found);
    }
}

/// Settings on which both ends must agree are off by default.
#[test]
fn settings_that_both_ends_need_are_off_by_default() {
    for config in [Config::client(), Config::server()] {
        assert!(!config.backward_v1 && !config.send_with_invalidate && !config.remote_invalidation);
    }
}

/// Each limit of transmissions is one at least, and 64 at most.
#[test]
fn limits_of_transmissions_are_checked() {
    for (limit, found) in [
        (0, Err(ConfigError::Transmissions)),
        (1, Ok(())),
        (MAX_TRANSMISSIONS, Ok(())),
        (MAX_TRANSMISSIONS + 1, Err(ConfigError::Transmissions)),
    ] {
        for set in [
            |rtr: &mut RtrExtConfig, limit| rtr.request_limit = limit,
            |rtr: &mut RtrExtConfig, limit| rtr.response_limit = limit,
            |rtr: &mut RtrExtConfig, limit| rtr.reply_receives = limit,
        ] {
            let mut rtr = RtrExtConfig::ALL;
            set(&mut rtr, limit);
            assert_eq!(Config::client().with_rtr(rtr).check(), found);
        }
    }
}

/// Headers go to the first segment of a receive buffer, which is as long as the structure says.
#[test]
fn buffer_structure_must_have_room_for_a_header() {
    let structure = |segments: &[(u32, bool)]| {
        let segments: Vec<_> = segments
            .iter()
            .map(|&(length, target)| BufferSegment {
                length,
                align: 8,
                target,
            })
            .collect();
        let rtr = RtrExtConfig {
            structure: Some(BufferStructure::new(&segments).unwrap()),
            ..RtrExtConfig::ALL
        };
        Config {
            max_receive_size: 1 << 20,
            ..Config::client()
        }
        .with_rtr(rtr)
    };
    let good = structure(&[(1024, false), (8192, true)]);
    assert_eq!(good.check(), Ok(()));
    let bad = [
        structure(&[(1020, false), (8192, true)]),
        structure(&[(4096, true), (8192, true)]),
        Config {
            receive_size: good.receive_size - 4,
            ..good.clone()
        },
        Config {
            max_receive_size: good.receive_size + 4,
            ..good
        },
    ];
    for config in bad {
        assert_eq!(config.check(), Err(ConfigError::Structure));
    }
}
