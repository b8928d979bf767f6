//! Settings of two ends, drawn at random.

use rpcrdma_proto::chunk::ChunkLimits;
use rpcrdma_proto::connection::{Config, Properties, Role};
use rpcrdma_proto::continuation::{OperationSet, RtrExtConfig};
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
use rpcrdma_proto::transfer::{MethodPreference, ResultPlacement};
use rpcrdma_proto::v2::properties::Bkreqsup;
use rpcrdma_proto::version::Version;

use super::random::Random;

/// The settings of two ends.
pub(crate) fn pair(random: &mut Random) -> [Config; 2] {
    // Now and then the ends use different drafts. Then few properties are exchanged, and calls
    // continue.
    let drafts = [Properties::Properties, Properties::Characteristics];
    let draft = random.pick(&drafts);
    let other = if random.one_in(10) {
        random.pick(&drafts)
    } else {
        draft
    };
    let ends = [
        config(Role::Client, draft, random),
        config(Role::Server, other, random),
    ];
    // Two pairs of three use rtrext-02, at nearly all of their ends.
    if random.one_in(3) {
        return with_near_xids(ends, random);
    }
    let ends = ends.map(|config| {
        if random.one_in(8) {
            config
        } else {
            extended(config, random)
        }
    });
    with_near_xids(ends, random)
}

/// XIDs of both ends that meet, of calls and of other messages, or that wrap.
fn with_near_xids([client, server]: [Config; 2], random: &mut Random) -> [Config; 2] {
    if random.one_in(2) {
        return [client, server];
    }
    let near = u32::MAX - random.below(8) as u32;
    let seed = random.pick(&[
        client.xid_seed,
        client.xid_seed.wrapping_add(3),
        client.xid_seed.wrapping_sub(4),
        near,
    ]);
    let own = if random.one_in(4) {
        [seed, near, u32::MAX / 2 - 2][random.below(3) as usize]
    } else {
        client.xid_seed
    };
    [
        Config {
            xid_seed: own,
            ..client
        },
        Config {
            xid_seed: seed,
            ..server
        },
    ]
}

/// The same with rtrext-02, which takes Version Two and properties.
fn extended(config: Config, random: &mut Random) -> Config {
    let plain = Config {
        rtr: None,
        ..config
    };
    let spoken = if plain.properties == Properties::None {
        Properties::Properties
    } else {
        plain.properties
    };
    let both = if random.one_in(8) {
        plain
    } else {
        Config {
            max_version: Version::Two,
            properties: spoken,
            ..plain
        }
    };
    let least = both.receive_size.max(if both.max_version == Version::One {
        1024
    } else {
        4096
    });
    let sized = Config {
        receive_size: least,
        ..both
    };
    let settings = rtr(sized.max_version, random);
    // Smaller Sends than a peer's buffers have are a way to fail.
    let send_size = sized
        .send_size
        .max(settings.structure.map_or(0, |structure| structure.length()));
    Config {
        send_size,
        ..sized.with_rtr(settings)
    }
}

/// Settings of two ends with which calls and replies go in several transmissions.
pub(crate) fn groups(random: &mut Random) -> [Config; 2] {
    let draft = random.pick(&[
        Properties::Properties,
        Properties::Properties,
        Properties::Characteristics,
    ]);
    let ends = [Role::Client, Role::Server].map(|role| group_end(role, draft, random));
    with_near_xids(ends, random)
}

/// The settings of one of them.
fn group_end(role: Role, draft: Properties, random: &mut Random) -> Config {
    let config = Config {
        max_version: Version::Two,
        properties: draft,
        ..config(role, draft, random)
    };
    let calls = random.pick(&[3u16, 8, 16, 64]);
    let config = Config {
        max_calls: calls,
        credits: calls.into(),
        max_served: random.pick(&[3, 4, 16, 32]),
        max_segments: 64,
        limits: if random.one_in(4) {
            config.limits
        } else {
            ChunkLimits {
                max_segments: 64,
                max_bytes: 1 << 24,
            }
        },
        ..extended(
            Config {
                send_size: 16_384,
                ..config
            },
            random,
        )
    };
    let Some(rtr) = config.rtr.filter(|_| !random.one_in(4)) else {
        return config;
    };
    let (request_limit, response_limit) = (rtr.request_limit.max(3), rtr.response_limit.max(3));
    let rtr = RtrExtConfig {
        operations: OperationSet::ALL,
        preference: MethodPreference::Groups,
        request_limit,
        response_limit,
        ..rtr
    };
    let grows = if rtr.structure.is_none() {
        random.pick(&[0, 4096, 12_288])
    } else {
        0
    };
    let max_receive_size = config.largest_receive() + grows;
    Config {
        rtr: Some(RtrExtConfig {
            reply_receives: rtr.reply_receives.max(3),
            ..rtr
        }),
        max_receive_size,
        ..config
    }
}

fn rtr(highest: Version, random: &mut Random) -> RtrExtConfig {
    let operations = if random.one_in(2) {
        OperationSet::ALL
    } else {
        OperationSet::from_bits(random.below(8) as u32)
    };
    let limit = |random: &mut Random| random.pick(&[1, 2, 3, 8, 8, 64]);
    RtrExtConfig {
        operations,
        probe: random.one_in(2),
        structure: structure(random).filter(|_| highest == Version::Two),
        request_limit: limit(random),
        response_limit: limit(random),
        reply_receives: random.between(1, 8),
        min_placed_len: random.pick(&[1, 100, 1024, 4096]),
        preference: random.pick(&[MethodPreference::Cheaper, MethodPreference::Groups]),
        placement: random.pick(&[
            ResultPlacement::Cheaper,
            ResultPlacement::Explicit,
            ResultPlacement::Choice,
            ResultPlacement::BySize(1000),
        ]),
        reply_retention: random.pick(&[0u64, 1, 500, 100_000, 10_000_000]),
    }
}

/// How receive buffers are made: of small segments, so that messages take several.
fn structure(random: &mut Random) -> Option<BufferStructure> {
    let plain = |length| BufferSegment {
        length,
        align: 8,
        target: false,
    };
    let target = |length| BufferSegment {
        length,
        align: 4096,
        target: true,
    };
    let segments: &[BufferSegment] = match random.below(8) {
        0 => &[plain(4096), target(4096)],
        1 => &[plain(4096), target(8192)],
        2 => &[plain(2048), target(1024), target(1024), target(1024)],
        3 => &[plain(1024), target(4096), plain(1024)],
        4 => &[
            plain(1024),
            plain(1024),
            target(2048),
            plain(512),
            target(512),
            target(4),
        ],
        5 => &[plain(4096), plain(1024)],
        _ => return None,
    };
    BufferStructure::new(segments).ok()
}

fn config(role: Role, draft: Properties, random: &mut Random) -> Config {
    let highest = random.pick(&[Version::One, Version::Two, Version::Two, Version::Two]);
    let calls = random.pick(&[1u16, 2, 3, 8, 16, 64]);
    let credits = random.between(1, calls.into());
    let serve = random.pick(&[1u16, 2, 4, 8, 32]);
    let (calls, credits, serve) = match role {
        Role::Client if random.one_in(3) => (calls, credits, 0),
        Role::Server if random.one_in(3) => (0, 0, serve),
        _ => (calls, credits, serve),
    };
    let least = if highest == Version::One { 1024 } else { 4096 };
    let receive_size = least + random.pick(&[0, 0, 100, 1024, 4096, 12_288]);
    Config {
        role,
        max_version: highest,
        max_calls: calls,
        credits,
        max_served: serve,
        reserved_receives: random.between(1, 4),
        receive_size,
        max_receive_size: random.pick(&[
            0,
            receive_size,
            receive_size + 4096,
            receive_size + 12_288,
        ]),
        send_size: random.pick(&[1024, 1500, 4096, 8192, 16_384]),
        limits: ChunkLimits {
            max_segments: random.pick(&[4, 16, 64, 64]),
            max_bytes: random.pick(&[1 << 14, 1 << 24, 1 << 24, 1 << 24]),
        },
        max_segments: random.pick(&[1, 4, 16, 64, 64]),
        max_segment_len: random.pick(&[512, 4096, 1 << 16, 1 << 20, 1 << 20]),
        max_read_chunks: random.pick(&[0, 1, u32::MAX, u32::MAX]),
        properties: if random.one_in(4) {
            Properties::None
        } else {
            draft
        },
        rtr: None,
        backward_support: random.pick(&[
            Bkreqsup::None,
            Bkreqsup::Inline,
            Bkreqsup::Genl,
            Bkreqsup::Genl,
        ]),
        backward_v1: random.one_in(2),
        remote_invalidation: random.one_in(2),
        send_with_invalidate: random.one_in(2),
        negotiation_timeout: u64::from(random.between(2_000, 20_000)),
        unresponsive_timeout: u64::from(random.pick(&[2_000u32, 20_000, 1_000_000])),
        version_cache_ttl: u64::from(random.pick(&[1_000u32, 100_000, 10_000_000])),
        reconnect_delay: u64::from(random.between(1, 2_000)),
        max_reconnect_delay: 100_000,
        xid_seed: random.word(),
        hash_seed: random.next(),
    }
}
