//! What Version Two saves an NFS client, for each operation and size: exact counts between two ends of
//! this library, and times over a fabric with a delay.
//!
//! `cargo test -p rpcrdma-nfs --test version_two -- --nocapture` prints the table of
//! docs/performance.md.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use oncrpc::xdr::{Opaque, Text};
use oncrpc::{AuthSys, Call, CallOptions, Method, ReplyLimits};
use rpcrdma_nfs::mount3::mount_program::mount_v3;
use rpcrdma_nfs::nfs3::nfs_program::nfs_v3;
use rpcrdma_nfs::nfs3::{
    Create3args, Createhow3, Diropargs3, Getattr3args, Lookup3args, NfsFh3, Read3args,
    Readdirplus3args, Readlink3args, Sattr3, StableHow, Symlink3args, Symlinkdata3, Write3args,
    owned,
};
use rpcrdma_nfs::{
    Export, FileSystem as _, MemoryFileSystem, MountService, NfsService, Squash, router,
};
use rpcrdma_proto::connection::{Config, Properties};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::{LocalChannel, LocalEvent, LocalServer};

type Channel = LocalChannel<SoftwareDevice>;
type Programs = (
    mount_v3::Server<MountService<MemoryFileSystem>>,
    (nfs_v3::Server<NfsService<MemoryFileSystem>>, ()),
);

/// How both ends are configured.
const KINDS: [(&str, fn(Config) -> Config); 4] = [
    ("Version One", |config| Config {
        max_version: Version::One,
        ..config
    }),
    ("Version Two", |config| Config {
        properties: Properties::None,
        ..config
    }),
    ("and properties", |config| Config {
        receive_size: 16_384,
        ..config
    }),
    ("and rtrext-02", |config| config.with_rtr(placing())),
];

/// rtrext-02 with receive buffers of 4 KiB, and 64 KiB for bulk data.
fn placing() -> RtrExtConfig {
    let head = BufferSegment {
        length: 4096,
        align: 8,
        target: false,
    };
    let bulk = BufferSegment {
        length: 1 << 16,
        align: 4096,
        target: true,
    };
    RtrExtConfig {
        structure: Some(BufferStructure::new(&[head, bulk]).unwrap()),
        ..RtrExtConfig::ALL
    }
}

/// Both ends, on one thread that never sleeps.
struct Ends {
    near: Driver<SoftwareDevice>,
    far: Driver<SoftwareDevice>,
    server: LocalServer<Programs>,
    nfs: nfs_v3::Client<Channel>,
    root: Vec<u8>,
    file: Vec<u8>,
    link: Vec<u8>,
    created: u32,
}

/// What both ends do for a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cost {
    round_trips: u64,
    /// RDMA Reads and Writes.
    transfers: u64,
    /// Regions registered for the peer.
    registrations: u64,
    sends: u64,
    copied: u64,
}

const FILE: usize = 1 << 20;

fn fh(handle: &[u8]) -> NfsFh3<'_> {
    NfsFh3 {
        data: Opaque::new(handle).unwrap(),
    }
}

fn place<'a>(dir: &'a [u8], name: &'a str) -> Diropargs3<'a> {
    Diropargs3 {
        dir: fh(dir),
        name: Text::new(name).unwrap(),
    }
}

impl Ends {
    fn new(kind: fn(Config) -> Config, fabric: &Arc<Fabric>) -> Self {
        let driver = || Driver::new(&fabric.device(), &Budget::new(1 << 28), 4096).unwrap();
        let (mut near, mut far) = (driver(), driver());
        let file_system = MemoryFileSystem::new(1 << 26);
        let root = file_system.root().as_bytes().to_vec();
        let export = Export::new(file_system).squash(Squash::None);
        let address = "127.0.0.1:0".parse().unwrap();
        let (client, config) = (kind(Config::client()), kind(Config::server()));
        let server = LocalServer::bind(&mut far, address, config, router(export)).unwrap();
        let channel = LocalChannel::connect(&mut near, server.local_addr(), client).unwrap();
        let options = CallOptions::DEFAULT.credentials(AuthSys::new("client"));
        let nfs = nfs_v3::Client::new(channel).with_options(options);
        let mut ends = Self {
            near,
            far,
            server,
            nfs,
            root,
            file: Vec::new(),
            link: Vec::new(),
            created: 0,
        };
        ends.fill();
        ends
    }

    /// Makes what the operations need. What an end advertises applies from the third call on.
    fn fill(&mut self) {
        self.file = self.create();
        let root = self.root.clone();
        let args = Symlink3args {
            r#where: place(&root, "link"),
            symlink: Symlinkdata3 {
                symlink_attributes: Sattr3::UNSET,
                symlink_data: Text::new("some/where/else").unwrap().into(),
            },
        };
        let handle = |results: owned::Symlink3res| match results {
            owned::Symlink3res::Ok(ok) => handle(ok.obj),
            owned::Symlink3res::Default(..) => panic!("fails"),
        };
        self.link = self.call(|nfs| nfs.symlink(&args), handle);
        for _ in 0..100 {
            self.create();
        }
        self.write(FILE);
    }

    /// Makes a call, and waits for its end.
    fn call<P: Method, R>(
        &mut self,
        call: impl FnOnce(&nfs_v3::Client<Channel>) -> Call<'_, Channel, P>,
        take: impl FnOnce(P::Results) -> R,
    ) -> R {
        let call = call(&self.nfs).begin(&mut self.near).unwrap();
        loop {
            self.near.turn().unwrap();
            self.far.turn().unwrap();
            self.server.serve(&mut self.far);
            let channel = self.nfs.transport();
            if let Some(LocalEvent::Completed(completed)) = channel.poll_event(&mut self.near) {
                let results = channel.read(&call, &completed, P::to_results);
                return take(results.expect("its reply").unwrap());
            }
        }
    }

    fn null(&mut self) {
        self.call(|nfs| nfs.null(), |()| ());
    }

    fn getattr(&mut self) {
        let file = self.file.clone();
        let args = Getattr3args { object: fh(&file) };
        self.call(
            |nfs| nfs.getattr(&args),
            |results| assert!(matches!(results, owned::Getattr3res::Ok(_))),
        );
    }

    fn lookup(&mut self) {
        let root = self.root.clone();
        let what = place(&root, "file-1");
        self.call(
            |nfs| nfs.lookup(&Lookup3args { what }),
            |results| assert!(matches!(results, owned::Lookup3res::Ok(_))),
        );
    }

    fn create(&mut self) -> Vec<u8> {
        self.created += 1;
        let (root, name) = (self.root.clone(), format!("file-{}", self.created));
        let args = Create3args {
            r#where: place(&root, &name),
            how: Createhow3::Guarded(Sattr3::UNSET),
        };
        let take = |results: owned::Create3res| match results {
            owned::Create3res::Ok(ok) => handle(ok.obj),
            owned::Create3res::Default(..) => panic!("fails"),
        };
        self.call(|nfs| nfs.create(&args), take)
    }

    fn read_link(&mut self) {
        let link = self.link.clone();
        let args = Readlink3args { symlink: fh(&link) };
        let limits = ReplyLimits::new(Some(96)).item(4096);
        self.call(
            |nfs| nfs.readlink(&args).reply_limits(limits),
            |results| assert!(matches!(results, owned::Readlink3res::Ok(_))),
        );
    }

    fn read(&mut self, count: usize) {
        let file = self.file.clone();
        let args = Read3args {
            file: fh(&file),
            offset: 0,
            count: count as u32,
        };
        let take = |results: owned::Read3res| match results {
            owned::Read3res::Ok(ok) => assert_eq!(ok.data.len(), count),
            owned::Read3res::Default(..) => panic!("fails"),
        };
        self.call(|nfs| nfs.read(&args), take);
    }

    fn write(&mut self, count: usize) {
        let (file, data) = (self.file.clone(), vec![7; count]);
        let args = Write3args {
            file: fh(&file),
            offset: 0,
            count: count as u32,
            stable: StableHow::FileSync,
            data: data.into(),
        };
        let take = |results: owned::Write3res| match results {
            owned::Write3res::Ok(ok) => assert_eq!(ok.count as usize, count),
            owned::Write3res::Default(..) => panic!("fails"),
        };
        self.call(|nfs| nfs.write(&args), take);
    }

    fn read_dir_plus(&mut self, maxcount: u32) {
        let root = self.root.clone();
        let args = Readdirplus3args {
            dir: fh(&root),
            cookie: 0,
            cookieverf: [0; 8],
            dircount: maxcount,
            maxcount,
        };
        let limits = ReplyLimits::new(Some(u64::from(maxcount)));
        self.call(
            |nfs| nfs.readdirplus(&args).reply_limits(limits),
            |results| assert!(matches!(results, owned::Readdirplus3res::Ok(_))),
        );
    }

    /// Returns what both ends do for an operation.
    fn cost(&mut self, operation: fn(&mut Self)) -> Cost {
        self.settle();
        let before = self.near.total_counters() + self.far.total_counters();
        operation(self);
        self.settle();
        let after = self.near.total_counters() + self.far.total_counters();
        Cost {
            round_trips: after.round_trips - before.round_trips,
            transfers: after.reads + after.writes - before.reads - before.writes,
            registrations: after.exposures - before.exposures,
            sends: after.sends - before.sends,
            copied: after.copied - before.copied,
        }
    }

    /// Turns both ends until nothing of the last call is left.
    fn settle(&mut self) {
        for _ in 0..20 {
            self.near.turn().unwrap();
            self.far.turn().unwrap();
            self.server.serve(&mut self.far);
        }
    }

    /// Returns the median of how long an operation takes.
    fn time(&mut self, operation: fn(&mut Self)) -> Duration {
        let mut times = [(); 5].map(|()| {
            let began = Instant::now();
            operation(self);
            began.elapsed()
        });
        times.sort_unstable();
        times[2]
    }
}

fn handle(returned: owned::PostOpFh3) -> Vec<u8> {
    match returned {
        owned::PostOpFh3::True(handle) => handle.data.as_bytes().to_vec(),
        owned::PostOpFh3::False => panic!("no handle"),
    }
}

/// The operations, and what each costs in the kinds: round trips, RDMA Reads and Writes,
/// registrations, Sends.
type Row = (&'static str, fn(&mut Ends), [[u64; 4]; 4]);

const INLINE: [u64; 4] = [1, 0, 0, 2];
const WRITTEN: [u64; 4] = [1, 1, 1, 2];
const FETCHED: [u64; 4] = [2, 1, 1, 2];

const ROWS: [Row; 13] = [
    ("NULL", |ends| ends.null(), [INLINE; 4]),
    ("GETATTR", |ends| ends.getattr(), [INLINE; 4]),
    ("LOOKUP", |ends| ends.lookup(), [INLINE; 4]),
    ("CREATE", |ends| drop(ends.create()), [INLINE; 4]),
    ("READLINK", |ends| ends.read_link(), [INLINE; 4]),
    (
        "READDIRPLUS of 8 KiB",
        |ends| ends.read_dir_plus(8192),
        [WRITTEN, WRITTEN, INLINE, INLINE],
    ),
    (
        "READDIRPLUS of 32 KiB",
        |ends| ends.read_dir_plus(32_768),
        [WRITTEN, WRITTEN, INLINE, INLINE],
    ),
    (
        "READ of 2 KiB",
        |ends| ends.read(2048),
        [WRITTEN, INLINE, INLINE, INLINE],
    ),
    (
        "READ of 64 KiB",
        |ends| ends.read(65_536),
        [WRITTEN, WRITTEN, WRITTEN, INLINE],
    ),
    (
        "READ of 1 MiB",
        |ends| ends.read(FILE),
        [WRITTEN, WRITTEN, WRITTEN, INLINE],
    ),
    (
        "WRITE of 2 KiB",
        |ends| ends.write(2048),
        [FETCHED, INLINE, INLINE, INLINE],
    ),
    (
        "WRITE of 64 KiB",
        |ends| ends.write(65_536),
        [FETCHED, FETCHED, FETCHED, INLINE],
    ),
    (
        "WRITE of 1 MiB",
        |ends| ends.write(FILE),
        [FETCHED, FETCHED, FETCHED, INLINE],
    ),
];

/// One way.
const DELAY: Duration = Duration::from_micros(500);

#[test]
fn version_two_saves_what_the_table_says() {
    let mut table = String::new();
    for (kind, (name, config)) in KINDS.into_iter().enumerate() {
        let mut ends = Ends::new(config, &Fabric::new());
        let mut slow = Ends::new(config, &Fabric::with_delay(DELAY));
        for (operation, make, expected) in ROWS {
            // Once to warm up: registered memory, and the sizes that the ends have agreed on.
            ends.cost(make);
            let cost = ends.cost(make);
            let time = slow.time(make);
            let Cost {
                round_trips,
                transfers,
                registrations,
                sends,
                copied,
            } = cost;
            let time_us = time.as_micros();
            writeln!(
                table,
                "| {operation} | {name} | {round_trips} | {transfers} | {registrations} | {sends} | {copied} | {time_us} |"
            )
            .unwrap();
            let found = [round_trips, transfers, registrations, sends];
            if std::env::var_os("PROBE").is_none() {
                assert_eq!(found, expected[kind], "{operation}, {name}");
            }
            let trips = u32::try_from(2 * round_trips).unwrap();
            assert!(time >= DELAY * trips, "{operation}, {name}: {time:?}");
        }
    }
    println!("{table}");
}
