use super::*;
use proptest::prelude::*;
use std::vec::Vec;

#[test]
fn sizes_are_kib_beyond_the_first() {
    for (bytes, told) in [
        (0, 1024),
        (1023, 1024),
        (1024, 1024),
        (2047, 1024),
        (2048, 2048),
        (262_144, 262_144),
        (u32::MAX, 262_144),
    ] {
        let data = PrivateData::from_sizes(bytes, bytes);
        assert_eq!(
            (data.send_size(), data.receive_size()),
            (told, told),
            "{bytes}"
        );
    }
    assert_eq!(
        PrivateData::from_sizes(1024, 262_144).encode()[6..],
        [0, 255]
    );
}

/// Section 4.2: the smaller of what one end sends and the other takes, each way by itself.
#[test]
fn threshold_is_the_minimum_of_both_ends() {
    let (client, server) = (
        PrivateData::from_sizes(4096, 1024),
        PrivateData::from_sizes(8192, 2048),
    );
    assert_eq!(
        (client.threshold_to(&server), server.threshold_to(&client)),
        (2048, 1024)
    );
    assert_eq!(client.threshold_to(&PrivateData::DEFAULT), 1024);
}

/// Section 4.1: both ends must set the flag.
#[test]
fn remote_invalidation_needs_both_ends() {
    let with = PrivateData::DEFAULT.with_remote_invalidation(true);
    assert!(with.invalidates_with(&with));
    assert!(!with.invalidates_with(&PrivateData::from_sizes(4096, 4096)));
    assert!(
        !with.invalidates_with(&PrivateData::DEFAULT)
            && !PrivateData::DEFAULT.invalidates_with(&with)
    );
}

/// Sections 5.1 and 5.2: undecodable private data count as missing, and reserved bits are ignored.
// spec: rfc8166-3.3.3-c
#[test]
fn missing_private_data_means_the_default() {
    let known = PrivateData::from_sizes(4096, 4096).with_remote_invalidation(true);
    let cases: [(&[u8], PrivateData); 7] = [
        (b"", PrivateData::DEFAULT),
        (b"\xf6\xab\x0e\x18\x01\x01\x03", PrivateData::DEFAULT),
        (b"\xf6\xab\x0e\x18\x02\x01\x03\x03", PrivateData::DEFAULT),
        (b"\x18\x0e\xab\xf6\x01\x01\x03\x03", PrivateData::DEFAULT),
        (b"\xf6\xab\x0e\x18\x01\xff\x03\x03", known),
        (b"\xf6\xab\x0e\xf6\xab\x0e\x18\x01\x01\x03\x03", known),
        (
            b"\xf6\xab\x0e\x18\x09\0\0\0\xf6\xab\x0e\x18\x01\x01\x03\x03",
            known,
        ),
    ];
    for (bytes, expected) in cases {
        assert_eq!(PrivateData::parse(bytes), expected, "{bytes:?}");
    }
}

proptest! {
    /// Wherever the settings lie in what a connection manager brings, they are found.
    #[test]
    fn settings_are_found_at_any_offset(
        before in proptest::collection::vec(0u8..0xf0, 0..40), zeros in 0usize..40, send: u32, receive: u32, on: bool,
    ) {
        let data = PrivateData::from_sizes(send, receive).with_remote_invalidation(on);
        let bytes: Vec<u8> = before.into_iter().chain(data.encode()).chain(std::iter::repeat_n(0, zeros)).collect();
        prop_assert_eq!(PrivateData::parse(&bytes), data);
    }

    #[test]
    fn any_private_data_decode_to_settings(bytes: Vec<u8>) {
        let data = PrivateData::parse(&bytes);
        prop_assert!((1024..=262_144).contains(&data.send_size()));
    }
}
