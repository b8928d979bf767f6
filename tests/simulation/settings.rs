//! Settings of two ends, drawn at random.

use rpcrdma_proto::chunk::Limits;
use rpcrdma_proto::connection::{Config, Properties, Role};
use rpcrdma_proto::continuation::{Operations, Rtr};
use rpcrdma_proto::placement::{Segment, Structure};
use rpcrdma_proto::travel::{Direct, Prefer};
use rpcrdma_proto::v2::properties::Bkreqsup;
use rpcrdma_proto::version::Version;

use super::random::Random;

/// The settings of two ends.
pub(crate) fn pair(random: &mut Random) -> [Config; 2] {
    // Now and then each end speaks another draft: then little is told, and all else goes on.
    let drafts = [Properties::Properties, Properties::Characteristics];
    let draft = random.pick(&drafts);
    let other = if random.one_in(10) { random.pick(&drafts) } else { draft };
    let ends = [config(Role::Client, draft, random), config(Role::Server, other, random)];
    // Messages in transmissions are spoken of in two pairs of three, and there by nearly all ends.
    if random.one_in(3) {
        return ends;
    }
    ends.map(|config| if random.one_in(8) { config } else { extended(config, random) })
}

/// The same with rtrext-02, which takes Version Two and properties.
fn extended(config: Config, random: &mut Random) -> Config {
    let plain = Config { rtr: None, ..config };
    let spoken = if plain.properties == Properties::None { Properties::Properties } else { plain.properties };
    let both = if random.one_in(8) { plain } else { Config { highest: Version::Two, properties: spoken, ..plain } };
    let least = both.receive_size.max(if both.highest == Version::One { 1024 } else { 4096 });
    let most = both.receive_size_most.max(least);
    let sized = Config { receive_size: least, receive_size_most: most, ..both };
    let settings = rtr(sized.highest, random);
    // Smaller Sends than a peer's buffers have are a way to fail.
    let send_size = sized.send_size.max(settings.structure.map_or(0, |structure| structure.length()));
    Config { send_size, ..sized.with_rtr(settings) }
}

/// Settings of two ends with which calls and replies go in several transmissions.
pub(crate) fn groups(random: &mut Random) -> [Config; 2] {
    let draft = random.pick(&[Properties::Properties, Properties::Properties, Properties::Characteristics]);
    [Role::Client, Role::Server].map(|role| {
        let config = Config { highest: Version::Two, properties: draft, ..config(role, draft, random) };
        let calls = random.pick(&[3u16, 8, 16, 64]);
        let config = Config {
            calls,
            credits: calls.into(),
            serve: random.pick(&[3, 4, 16, 32]),
            segments: 64,
            limits: if random.one_in(4) { config.limits } else { Limits { segments: 64, octets: 1 << 24 } },
            ..extended(Config { send_size: 16_384, ..config }, random)
        };
        let Some(rtr) = config.rtr.filter(|_| !random.one_in(4)) else { return config };
        let (request_limit, response_limit) = (rtr.request_limit.max(3), rtr.response_limit.max(3));
        let rtr = Rtr { operations: Operations::ALL, prefer: Prefer::Groups, request_limit, response_limit, ..rtr };
        let grows = if rtr.structure.is_none() { random.pick(&[0, 4096, 12_288]) } else { 0 };
        let receive_size_most = config.receive_size_most + grows;
        Config { rtr: Some(Rtr { reserve: rtr.reserve.max(3), ..rtr }), receive_size_most, ..config }
    })
}

fn rtr(highest: Version, random: &mut Random) -> Rtr {
    let operations = if random.one_in(2) { Operations::ALL } else { Operations::of(random.below(8) as u32) };
    let limit = |random: &mut Random| random.pick(&[1, 2, 3, 8, 8, 64]);
    Rtr {
        operations,
        tries: random.one_in(2),
        structure: structure(random).filter(|_| highest == Version::Two),
        request_limit: limit(random),
        response_limit: limit(random),
        reserve: random.between(1, 8),
        place_from: random.pick(&[1, 100, 1024, 4096]),
        prefer: random.pick(&[Prefer::Cheaper, Prefer::Groups]),
        direct: random.pick(&[Direct::Cheaper, Direct::Explicit, Direct::Choice, Direct::BySize(1000)]),
        keep: random.pick(&[0u64, 1, 500, 100_000, 10_000_000]),
    }
}

/// How receive buffers are made: of small segments, so that messages take several.
fn structure(random: &mut Random) -> Option<Structure> {
    let plain = |length| Segment { length, align: 8, target: false };
    let target = |length| Segment { length, align: 4096, target: true };
    let segments: &[Segment] = match random.below(8) {
        0 => &[plain(4096), target(4096)],
        1 => &[plain(4096), target(8192)],
        2 => &[plain(2048), target(1024), target(1024), target(1024)],
        3 => &[plain(1024), target(4096), plain(1024)],
        4 => &[plain(1024), plain(1024), target(2048), plain(512), target(512), target(4)],
        5 => &[plain(4096), plain(1024)],
        _ => return None,
    };
    Structure::new(segments).ok()
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
        highest,
        calls,
        credits,
        serve,
        reserve: random.between(1, 4),
        receive_size,
        receive_size_most: receive_size + random.pick(&[0, 1000, 4096, 12_288]),
        send_size: random.pick(&[1024, 1500, 4096, 8192, 16_384]),
        limits: Limits {
            segments: random.pick(&[4, 16, 64, 64]),
            octets: random.pick(&[1 << 14, 1 << 24, 1 << 24, 1 << 24]),
        },
        segments: random.pick(&[1, 4, 16, 64, 64]),
        segment: random.pick(&[512, 4096, 1 << 16, 1 << 20, 1 << 20]),
        read_chunks: random.pick(&[0, 1, u32::MAX, u32::MAX]),
        properties: if random.one_in(4) { Properties::None } else { draft },
        rtr: None,
        backward: random.pick(&[Bkreqsup::None, Bkreqsup::Inline, Bkreqsup::Genl, Bkreqsup::Genl]),
        backward_one: random.one_in(2),
        remote_invalidation: random.one_in(2),
        invalidates: random.one_in(2),
        negotiation_timeout: u64::from(random.between(2_000, 20_000)),
        memory: u64::from(random.pick(&[1_000u32, 100_000, 10_000_000])),
        retry: u64::from(random.between(1, 2_000)),
        retry_most: 100_000,
        seed: random.word(),
    }
}
