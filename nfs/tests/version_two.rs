//! What Version Two saves an NFS client: the same calls of the same client to the same server over
//! Version One and over Version Two, with and without transport properties and rtrext-02. The
//! counts are those of docs/version-two.md.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use oncrpc::xdr::{Opaque, SharedBytes, Text};
use oncrpc::{AuthSys, CallOptions, Method, PendingCall, ReplyLimits};
use rpcrdma_nfs::nfs3::nfs_program::nfs_v3::Client;
use rpcrdma_nfs::nfs3::owned::{Create3res, PostOpFh3};
use rpcrdma_nfs::nfs3::{
    Access3args, Commit3args, Create3args, Createhow3, Diropargs3, Fsinfo3args, Fsstat3args,
    Getattr3args, Link3args, Lookup3args, Mkdir3args, Mknod3args, Mknoddata3, NfsFh3,
    Pathconf3args, Read3args, Readdir3args, Readdirplus3args, Readlink3args, Remove3args,
    Rename3args, Rmdir3args, Sattr3, Sattrguard3, Setattr3args, StableHow, Symlink3args,
    Symlinkdata3, Write3args,
};
use rpcrdma_nfs::{Export, FileSystem, MemoryFileSystem, Squash, router};
use rpcrdma_proto::connection::{Config, Properties};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::driver::{ConnectionCounters, Driver};
use rpcrdma_verbs::memory::{Budget, Frozen};
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::{CompletedCall, LocalChannel, LocalEvent, LocalServer};

type Nfs = Client<LocalChannel<SoftwareDevice>>;

/// Serves the calls that have arrived at a driver, and returns their number.
type Serve = Box<dyn FnMut(&mut Driver<SoftwareDevice>) -> usize>;

/// Makes a call.
type Run = Box<dyn Fn(&mut World, &Files)>;

/// What both ends are configured for.
#[derive(Clone, Copy)]
enum Transport {
    One,
    Two,
    Properties,
    Rtr,
}

const TRANSPORTS: [Transport; 4] = [
    Transport::One,
    Transport::Two,
    Transport::Properties,
    Transport::Rtr,
];

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::One => "One",
            Self::Two => "Two",
            Self::Properties => "Two, properties",
            Self::Rtr => "Two, rtrext-02",
        }
    }

    fn config(self, config: Config) -> Config {
        match self {
            Self::One => Config {
                max_version: Version::One,
                ..config
            },
            Self::Two => Config {
                properties: Properties::None,
                ..config
            },
            Self::Properties => Config {
                receive_size: LARGE,
                send_size: LARGE,
                ..config
            },
            Self::Rtr => {
                let structure = BufferStructure::new(&[
                    BufferSegment {
                        length: 4096,
                        align: 8,
                        target: false,
                    },
                    BufferSegment {
                        length: LARGE,
                        align: 4096,
                        target: true,
                    },
                ]);
                config.with_rtr(RtrExtConfig {
                    structure: Some(structure.unwrap()),
                    request_limit: 32,
                    response_limit: 32,
                    reply_receives: 32,
                    ..RtrExtConfig::ALL
                })
            }
        }
    }
}

/// The size in bytes of large receive buffers.
const LARGE: u32 = 1 << 16;

/// A client and a server, on one thread.
struct World {
    near: Driver<SoftwareDevice>,
    far: Driver<SoftwareDevice>,
    /// Serves the calls that have arrived, and returns their number.
    serve: Serve,
    fabric: Arc<Fabric>,
    /// The time of the fabric.
    now: Duration,
    channel: LocalChannel<SoftwareDevice>,
    nfs: Nfs,
}

impl World {
    fn new(transport: Transport) -> (Self, Vec<u8>) {
        let fabric = Fabric::with_manual_delay(DELAY);
        let budget = Budget::new(256 << 20);
        let memory = MemoryFileSystem::new(64 << 20).root_owner(0, 0, 0o755);
        let root = memory.root().as_bytes().to_vec();
        let router = router(Export::new(memory).squash(Squash::None));
        let mut far = Driver::new(&fabric.device(), &budget, 1024).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let config = transport.config(Config::server());
        let mut server = LocalServer::bind(&mut far, address, config, router).unwrap();
        let mut near = Driver::new(&fabric.device(), &budget, 1024).unwrap();
        let config = transport.config(Config::client());
        let channel = LocalChannel::connect(&mut near, server.local_addr(), config).unwrap();
        let options = CallOptions::DEFAULT.credentials(AuthSys::new("client"));
        let nfs = Client::new(channel.clone()).with_options(options);
        let world = Self {
            near,
            far,
            serve: Box::new(move |far| server.serve(far)),
            fabric,
            now: Duration::ZERO,
            channel,
            nfs,
        };
        (world, root)
    }

    /// Turns both ends, and the clock if neither has anything to do. Returns a reply.
    fn turn(&mut self) -> Option<CompletedCall> {
        let worked = self.near.turn().unwrap() + self.far.turn().unwrap();
        let served = (self.serve)(&mut self.far);
        match self.channel.poll_event(&mut self.near) {
            Some(LocalEvent::Completed(completed)) => return Some(completed),
            Some(_) => {}
            None if worked + served > 0 => {}
            None => self.now = self.fabric.advance().unwrap_or(self.now),
        }
        None
    }

    /// Makes a call, and returns what `read` makes of its results.
    fn call<P: Method, R>(
        &mut self,
        begin: impl FnOnce(&Nfs, &mut Driver<SoftwareDevice>) -> PendingCall<P>,
        read: impl FnOnce(P::Reply<'_>) -> R,
    ) -> R {
        let call = begin(&self.nfs, &mut self.near);
        let completed = loop {
            if let Some(completed) = self.turn() {
                break completed;
            }
        };
        let result = self.channel.read(&call, &completed, read).unwrap().unwrap();
        self.channel.recycle(&mut self.near, completed);
        result
    }

    /// Turns until what follows the last reply has been sent, such as acknowledgements.
    fn settle(&mut self) {
        (0..50).for_each(|_| assert!(self.turn().is_none()));
    }

    fn counters(&self) -> [ConnectionCounters; 2] {
        [&self.near, &self.far].map(Driver::total_counters)
    }

    fn create(&mut self, dir: &[u8], name: &str) -> Vec<u8> {
        let args = Create3args {
            r#where: place(dir, name),
            how: Createhow3::Unchecked(Sattr3::UNSET),
        };
        let begin = |nfs: &Nfs, near: &mut _| nfs.create(&args).begin(near).unwrap();
        match self.call(begin, |reply| reply.into()) {
            Create3res::Ok(ok) => match ok.obj {
                PostOpFh3::True(handle) => handle.data.into_inner(),
                PostOpFh3::False => panic!("no handle"),
            },
            failed => panic!("{failed:?}"),
        }
    }
}

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

/// An operation, and what it is about.
struct Operation {
    name: &'static str,
    run: Run,
}

/// The handles of the root, of a file of 1 MiB, and of a link of 1,000 bytes.
struct Files {
    root: Vec<u8>,
    file: Vec<u8>,
    link: Vec<u8>,
}

/// The entries of the root beside `file` and `link`.
const ENTRIES: usize = 100;

fn operation(name: &'static str, run: impl Fn(&mut World, &Files) + 'static) -> Operation {
    Operation {
        name,
        run: Box::new(run),
    }
}

/// Begins the call of a method with arguments, and asserts that it succeeded.
macro_rules! call {
    ($world:ident, $method:ident, $args:expr $(, $limits:expr)?) => {
        $world.call(
            |nfs, near| nfs.$method(&$args) $(.reply_limits($limits))? .begin(near).unwrap(),
            |reply| assert_eq!(reply.status(), rpcrdma_nfs::nfs3::Nfsstat3::Ok),
        )
    };
}

fn write(len: u32) -> impl Fn(&mut World, &Files) {
    move |world, files| {
        // The file's data are in memory of the transport, as a cache has them.
        let mut buf = world.near.pool().take(len).unwrap();
        buf.set_len(len);
        let args = Write3args {
            file: fh(&files.file),
            offset: 0,
            count: len,
            stable: StableHow::FileSync,
            data: SharedBytes::from(Frozen::from(buf)).into(),
        };
        call!(world, write, args);
    }
}

fn read(count: u32) -> impl Fn(&mut World, &Files) {
    move |world, files| {
        let args = Read3args {
            file: fh(&files.file),
            offset: 0,
            count,
        };
        call!(world, read, args);
    }
}

fn operations() -> Vec<Operation> {
    let mut operations = vec![
        operation("NULL", |world, _| {
            world.call(|nfs, near| nfs.null().begin(near).unwrap(), drop);
        }),
        operation("GETATTR", |world, files| {
            let object = fh(&files.file);
            call!(world, getattr, Getattr3args { object });
        }),
        operation("SETATTR", |world, files| {
            let args = Setattr3args {
                object: fh(&files.file),
                new_attributes: Sattr3::UNSET,
                guard: Sattrguard3::False,
            };
            call!(world, setattr, args);
        }),
        operation("ACCESS", |world, files| {
            let (object, access) = (fh(&files.file), 0x3f);
            call!(world, access, Access3args { object, access });
        }),
        operation("LOOKUP", |world, files| {
            let what = place(&files.root, "file");
            call!(world, lookup, Lookup3args { what });
        }),
        operation("CREATE", |world, files| {
            world.create(&files.root, "other");
        }),
        operation("RENAME", {
            let names = Cell::new(["other", "moved"]);
            move |world, files| {
                let [from, to] = names.get();
                let [from, to] = [from, to].map(|name| place(&files.root, name));
                call!(world, rename, Rename3args { from, to });
                let [from, to] = names.get();
                names.set([to, from]);
            }
        }),
        operation("READLINK of 1,000 bytes", |world, files| {
            let symlink = fh(&files.link);
            call!(world, readlink, Readlink3args { symlink });
        }),
        operation("READDIR of 102 entries", |world, files| {
            let args = Readdir3args {
                dir: fh(&files.root),
                cookie: 0,
                cookieverf: [0; 8],
                count: 1 << 15,
            };
            call!(world, readdir, args, ReplyLimits::new(Some(1 << 15)));
        }),
        operation("READDIRPLUS of 102 entries", |world, files| {
            let args = Readdirplus3args {
                dir: fh(&files.root),
                cookie: 0,
                cookieverf: [0; 8],
                dircount: 1 << 15,
                maxcount: 1 << 15,
            };
            call!(world, readdirplus, args, ReplyLimits::new(Some(1 << 15)));
        }),
        operation("READ of 512 bytes", read(512)),
        operation("READ of 4 KiB", read(4 << 10)),
        operation("READ of 32 KiB", read(32 << 10)),
        operation("READ of 1 MiB", read(1 << 20)),
        operation("WRITE of 512 bytes", write(512)),
        operation("WRITE of 4 KiB", write(4 << 10)),
        operation("WRITE of 32 KiB", write(32 << 10)),
        operation("WRITE of 1 MiB", write(1 << 20)),
        operation("COMMIT", |world, files| {
            let args = Commit3args {
                file: fh(&files.file),
                offset: 0,
                count: 0,
            };
            call!(world, commit, args);
        }),
        with_name("REMOVE", "entry", |world, files, name| {
            let object = place(&files.root, name);
            call!(world, remove, Remove3args { object });
        }),
    ];
    operations.extend(rare_operations());
    operations
}

/// Returns an operation on the next name at each run: `prefix-0`, `prefix-1`.
fn with_name(
    name: &'static str,
    prefix: &'static str,
    run: impl Fn(&mut World, &Files, &str) + 'static,
) -> Operation {
    let number = Cell::new(0);
    operation(name, move |world, files| {
        let object = format!("{prefix}-{}", number.replace(number.get() + 1));
        run(world, files, &object);
    })
}

/// Makes a symbolic link of 1,000 bytes.
fn symlink(world: &mut World, dir: &[u8], name: &str) {
    let path = vec![b'p'; 1000];
    let args = Symlink3args {
        r#where: place(dir, name),
        symlink: Symlinkdata3 {
            symlink_attributes: Sattr3::UNSET,
            symlink_data: path.as_slice().into(),
        },
    };
    call!(world, symlink, args);
}

/// The procedures that clients call least.
fn rare_operations() -> Vec<Operation> {
    vec![
        with_name("MKDIR", "dir", |world, files, name| {
            let args = Mkdir3args {
                r#where: place(&files.root, name),
                attributes: Sattr3::UNSET,
            };
            call!(world, mkdir, args);
        }),
        with_name("RMDIR", "dir", |world, files, name| {
            let object = place(&files.root, name);
            call!(world, rmdir, Rmdir3args { object });
        }),
        with_name("SYMLINK of 1,000 bytes", "symlink", |world, files, name| {
            symlink(world, &files.root, name);
        }),
        with_name("MKNOD", "node", |world, files, name| {
            let args = Mknod3args {
                r#where: place(&files.root, name),
                what: Mknoddata3::Fifo(Sattr3::UNSET),
            };
            call!(world, mknod, args);
        }),
        with_name("LINK", "hard-link", |world, files, name| {
            let args = Link3args {
                file: fh(&files.file),
                link: place(&files.root, name),
            };
            call!(world, link, args);
        }),
        operation("FSSTAT", |world, files| {
            let fsroot = fh(&files.root);
            call!(world, fsstat, Fsstat3args { fsroot });
        }),
        operation("FSINFO", |world, files| {
            let fsroot = fh(&files.root);
            call!(world, fsinfo, Fsinfo3args { fsroot });
        }),
        operation("PATHCONF", |world, files| {
            let object = fh(&files.root);
            call!(world, pathconf, Pathconf3args { object });
        }),
    ]
}

fn files(world: &mut World, root: Vec<u8>) -> Files {
    let file = world.create(&root, "file");
    for number in 0..ENTRIES - 1 {
        world.create(&root, &format!("entry-{number}"));
    }
    world.create(&root, "other");
    symlink(world, &root, "link");
    let what = place(&root, "link");
    let found = world.call(
        |nfs, near| nfs.lookup(&Lookup3args { what }).begin(near).unwrap(),
        |reply| rpcrdma_nfs::nfs3::owned::Lookup3res::from(reply),
    );
    let rpcrdma_nfs::nfs3::owned::Lookup3res::Ok(found) = found else {
        panic!("{found:?}")
    };
    let link = found.object.data.into_inner();
    let files = Files { root, file, link };
    write(1 << 20)(world, &files);
    files
}

/// What one call of an operation costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cost {
    /// The time, in one-way delays of the fabric.
    delays: u128,
    round_trips: u64,
    sends: u64,
    operations: u64,
    exposures: u64,
    copied: u64,
}

/// Measures the second call of an operation: the first one allocates.
fn cost(world: &mut World, files: &Files, operation: &Operation) -> Cost {
    (operation.run)(world, files);
    world.settle();
    let (began, before) = (world.now, world.counters());
    (operation.run)(world, files);
    let taken = world.now - began;
    world.settle();
    let after = world.counters();
    let sum = |of: fn(&ConnectionCounters) -> u64| {
        let all = |counters: &[ConnectionCounters]| counters.iter().map(of).sum::<u64>();
        all(&after) - all(&before)
    };
    let delays = taken.as_nanos() / DELAY.as_nanos();
    assert_eq!(taken, DELAY * u32::try_from(delays).unwrap());
    Cost {
        delays,
        round_trips: sum(|one| one.round_trips),
        sends: sum(|one| one.sends),
        operations: sum(|one| one.reads + one.writes),
        exposures: sum(|one| one.exposures),
        copied: sum(|one| one.copied),
    }
}

/// The delay of the fabric in each direction, in its own time.
const DELAY: Duration = Duration::from_millis(1);

/// Returns the rows of the table: of each operation, a row for each transport.
fn rows() -> Vec<(&'static str, &'static str, Cost)> {
    let measured = TRANSPORTS.map(|transport| {
        let (mut world, root) = World::new(transport);
        let files = files(&mut world, root);
        let operations = operations();
        let costs = operations.iter().map(|one| cost(&mut world, &files, one));
        (transport.name(), costs.collect::<Vec<_>>())
    });
    let operations = operations().into_iter().enumerate();
    let rows = operations.flat_map(|(at, operation)| {
        measured
            .iter()
            .map(move |(transport, costs)| (operation.name, *transport, costs[at]))
    });
    rows.collect()
}

fn table(rows: &[(&str, &str, Cost)]) -> String {
    let mut table = String::from(
        "| operation | version | time in delays | round trips | Sends | RDMA Reads and Writes \
         | regions registered for the peer | bytes copied |\n|---|---|---|---|---|---|---|---|\n",
    );
    for (operation, transport, cost) in rows {
        let Cost {
            delays,
            round_trips,
            sends,
            operations,
            exposures,
            copied,
        } = cost;
        writeln!(
            table,
            "| {operation} | {transport} | {delays} | {round_trips} | {sends} | {operations} \
             | {exposures} | {copied} |"
        )
        .unwrap();
    }
    table
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/version-two.md");

/// `NFS_UPDATE=1` writes the table anew.
#[test]
fn the_table_of_the_documentation_is_what_is_counted() {
    let table = table(&rows());
    println!("{table}");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once("<!-- counted -->\n").unwrap();
    let (found, after) = rest.split_once("<!-- end -->\n").unwrap();
    if std::env::var_os("NFS_UPDATE").is_some() {
        let page = format!("{before}<!-- counted -->\n{table}<!-- end -->\n{after}");
        std::fs::write(PAGE, page).unwrap();
    } else {
        assert_eq!(found, table);
    }
}

/// The fabric's clock as a judge of the counters: a call takes as long as the round trips that are
/// counted, so that it waits for nothing else.
#[test]
fn calls_take_the_round_trips_that_are_counted() {
    for (operation, transport, cost) in rows() {
        let Cost {
            delays,
            round_trips,
            ..
        } = cost;
        let name = format!("{operation} over Version {transport}");
        assert_eq!(delays, u128::from(2 * round_trips), "{name}");
    }
}
