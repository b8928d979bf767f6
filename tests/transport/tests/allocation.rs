//! The cost of an RPC: exact counts of allocations, copies, work requests and completions.

use oncrpc::xdr::SharedBytes;
use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::version::Version;
use rpcrdma_transport_tests::block::bytes;
use rpcrdma_transport_tests::device_source::DeviceSource;
use rpcrdma_transport_tests::ends::{Ends, placing};
use rpcrdma_transport_tests::on_software_and_iwarp;
use rpcrdma_transport_tests::schema::Region;
use rpcrdma_verbs::LocalEvent;
use rpcrdma_verbs::driver::ConnectionCounters;
use rpcrdma_verbs::memory::Frozen;
use rpcrdma_verbs::provider::Device;

/// The number of RPCs until all allocations have grown, and the number of measured RPCs.
const WARM: u32 = 200;
const COUNTED: u32 = 200;

fn null<D: Device>(ends: &mut Ends<D>) {
    ends.null();
}

fn echo<D: Device>(ends: &mut Ends<D>) {
    ends.echo(&bytes()[..512]);
}

/// A message longer than one Send.
fn long_echo<D: Device>(ends: &mut Ends<D>) {
    ends.echo(&bytes()[..16_380]);
}

/// An argument that the server fetches by RDMA Read.
fn write<D: Device>(count: usize) -> impl Fn(&mut Ends<D>) {
    move |ends| {
        let mut buf = ends.near.pool().take(count as u32).unwrap();
        buf.set_len(count as u32);
        let region = Region {
            bytes: SharedBytes::from(Frozen::from(buf)).into(),
        };
        let call = ends.client.write(&region).begin(&mut ends.near).unwrap();
        ends.finish(&call, |_| ()).unwrap();
        assert_eq!(ends.block.take_last().unwrap().len(), count);
    }
}

/// A result that the server places by RDMA Write.
fn read<D: Device>(count: u32) -> impl Fn(&mut Ends<D>) {
    move |ends| {
        let call = ends.begin_read(count);
        let found = ends.finish(&call, |region| region.bytes.len());
        assert_eq!(found.unwrap(), count as usize);
    }
}

/// Returns the allocations of RPCs in the steady state, and their counters.
fn steady<D: Device>(
    ends: &mut Ends<D>,
    rpc: impl Fn(&mut Ends<D>),
) -> (u64, [ConnectionCounters; 2]) {
    (0..WARM).for_each(|_| rpc(ends));
    let before = ends.counters();
    let counted = allocation_counter::measure(|| (0..COUNTED).for_each(|_| rpc(ends)));
    let mut after = ends.counters();
    for (after, before) in after.iter_mut().zip(before) {
        after.sends -= before.sends;
        after.reads -= before.reads;
        after.writes -= before.writes;
        after.exposures -= before.exposures;
        after.copied -= before.copied;
    }
    (counted.count_total, after)
}

fn all_ends<G: DeviceSource>(source: &G) -> impl Iterator<Item = Ends<G::Device>> {
    [Version::One, Version::Two].into_iter().map(|highest| {
        let client = Config {
            max_version: highest,
            remote_invalidation: true,
            ..Config::client()
        };
        let server = Config {
            send_with_invalidate: true,
            ..Config::server()
        };
        Ends::of(source, client, server)
    })
}

fn inline_rpcs_allocate_nothing<G: DeviceSource>(source: &G) {
    for mut ends in all_ends(source) {
        for (name, rpc) in [("null", null as fn(&mut Ends<G::Device>)), ("echo", echo)] {
            let (allocations, did) = steady(&mut ends, rpc);
            println!("{name}: {allocations} allocations in {COUNTED} RPCs; {did:?}");
            assert_eq!(allocations, 0, "{name}");
            assert_eq!(did.map(|did| did.sends), [u64::from(COUNTED); 2]);
            assert_eq!(
                did.map(|did| did.reads + did.writes + did.exposures),
                [0, 0]
            );
        }
    }
}

fn reduced_arguments_are_not_copied<G: DeviceSource>(source: &G) {
    for mut ends in all_ends(source) {
        let mut copied = Vec::new();
        for bytes in [20_000, 100_000] {
            let (allocations, did) = steady(&mut ends, write(bytes));
            println!(
                "argument of {bytes} bytes: {allocations} allocations in {COUNTED} RPCs; {did:?}"
            );
            assert_eq!(allocations, 0);
            assert_eq!(
                (did[0].exposures, did[1].reads),
                (COUNTED.into(), COUNTED.into())
            );
            copied.push(did.map(|did| did.copied));
        }
        assert_eq!(
            copied[0], copied[1],
            "what is copied does not grow with the argument"
        );
        assert!(copied[0].iter().sum::<u64>() < u64::from(COUNTED) * 256);
    }
}

fn reduced_results_are_not_copied<G: DeviceSource>(source: &G) {
    for mut ends in all_ends(source) {
        let mut copied = Vec::new();
        for bytes in [20_000, 100_000] {
            let (allocations, did) = steady(&mut ends, read(bytes));
            println!(
                "result of {bytes} bytes: {allocations} allocations in {COUNTED} RPCs; {did:?}"
            );
            assert_eq!(allocations, 0);
            assert_eq!(
                (did[0].exposures, did[1].writes),
                (COUNTED.into(), COUNTED.into())
            );
            copied.push(did.map(|did| did.copied));
        }
        assert_eq!(
            copied[0], copied[1],
            "what is copied does not grow with the result"
        );
        assert!(copied[0].iter().sum::<u64>() < u64::from(COUNTED) * 256);
    }
}

type Rpc<D> = Box<dyn Fn(&mut Ends<D>)>;

/// Placed data, and messages in several transmissions (rtrext-02).
fn transmissions_allocate_and_copy_nothing<G: DeviceSource>(source: &G) {
    // The list of a call's items is allocated.
    let rpcs: [(&str, Rpc<G::Device>, bool, u64); 3] = [
        ("argument", Box::new(write(1 << 16)), true, 1),
        ("result", Box::new(read(1 << 16)), true, 0),
        ("echo", Box::new(long_echo), false, 0),
    ];
    for (name, rpc, placed, each) in rpcs {
        let rtr = if placed { placing() } else { RtrExtConfig::ALL };
        let client = Config::client().with_rtr(rtr);
        let mut ends = Ends::of(source, client, Config::server().with_rtr(rtr));
        let (allocations, did) = steady(&mut ends, rpc);
        println!("{name}: {allocations} allocations in {COUNTED} RPCs; {did:?}");
        assert_eq!(allocations, each * u64::from(COUNTED), "{name}");
        assert_eq!(
            did.map(|did| did.reads + did.writes + did.exposures),
            [0, 0],
            "{name}"
        );
        let copied = did.iter().map(|did| did.copied).sum::<u64>() / u64::from(COUNTED);
        assert!(!placed || copied < 256, "{name}: {copied} bytes copied");
    }
}

/// Many concurrent calls cost no more: requests are posted together, and few are signaled.
fn concurrent_calls_allocate_nothing<G: DeviceSource>(source: &G) {
    for mut ends in all_ends(source) {
        let burst = |ends: &mut Ends<G::Device>| {
            for _ in 0..16 {
                ends.client.null().begin(&mut ends.near).unwrap();
            }
            let (channel, mut left) = (ends.channel(), 16);
            while left > 0 {
                ends.turn();
                while let Some(event) = ends.event() {
                    if let LocalEvent::Completed(completed) = event {
                        channel.recycle(&mut ends.near, completed);
                        left -= 1;
                    }
                }
            }
        };
        let (allocations, did) = steady(&mut ends, burst);
        println!("16 at once: {allocations} allocations in {COUNTED} bursts; {did:?}");
        assert_eq!(allocations, 0);
    }
}

on_software_and_iwarp! {
    concurrent_calls_allocate_nothing,
    inline_rpcs_allocate_nothing,
    reduced_arguments_are_not_copied,
    reduced_results_are_not_copied,
    transmissions_allocate_and_copy_nothing,
}
