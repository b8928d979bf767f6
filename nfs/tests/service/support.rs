//! A server, and clients of it over each transport.
#![allow(unreachable_pub, reason = "the modules of a test share it")]

use std::time::Duration;

use oncrpc::tcp::{Server, connect};
use oncrpc::xdr::{Opaque, Text};
use oncrpc::{AuthSys, CallOptions, Channel, loopback};
use rpcrdma_nfs::mount3::mount_program::mount_v3;
use rpcrdma_nfs::nfs3::nfs_program::nfs_v3;
use rpcrdma_nfs::nfs3::owned::{
    Create3res, Getattr3res, Lookup3res, Mkdir3res, PostOpAttr, PostOpFh3, Read3res, WccData,
};
use rpcrdma_nfs::nfs3::{
    Create3args, Createhow3, Diropargs3, Fattr3, Getattr3args, Lookup3args, Mkdir3args, NfsFh3,
    Nfsstat3, Nfstime3, PreOpAttr, Read3args, Sattr3, SetMode3, StableHow, Write3args,
};
use rpcrdma_nfs::{FileSystem, router};

use crate::backends::{Expected, Offer, Work, on_memory};

/// A handle.
pub type Handle = Vec<u8>;

/// Clients of a server with one file system.
pub struct World {
    pub nfs: nfs_v3::Client<Channel>,
    pub mount: mount_v3::Client<Channel>,
    pub root: Handle,
    pub expected: Expected,
}

/// Returns an offer without squashing.
pub fn open() -> Offer {
    Offer::OPEN
}

pub fn user(uid: u32) -> AuthSys {
    AuthSys {
        uid,
        gid: uid,
        ..AuthSys::new("tester")
    }
}

fn world(channel: Channel, root: Handle, expected: Expected) -> World {
    let options = CallOptions::DEFAULT.credentials(user(0));
    World {
        nfs: nfs_v3::Client::new(channel.clone()).with_options(options.clone()),
        mount: mount_v3::Client::new(channel).with_options(options),
        root,
        expected,
    }
}

/// A test over one transport.
struct Test<T> {
    offer: Offer,
    test: T,
    over_tcp: bool,
}

impl<T: AsyncFn(&World)> Work for Test<&T> {
    type Output = ();

    fn on<F: FileSystem>(&self, file_system: F, expected: Expected) {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        let root = file_system.root().as_bytes().to_vec();
        let services = router(self.offer.export(file_system));
        let run = async {
            let channel = if self.over_tcp {
                let server = Server::bind("127.0.0.1:0", services).await.unwrap();
                let address = server.local_addr().unwrap().to_string();
                tokio::spawn(server.run());
                connect(&address).await.unwrap()
            } else {
                let (channel, runner) = loopback(services);
                tokio::spawn(runner);
                channel
            };
            (self.test)(&world(channel, root, expected)).await;
        };
        let limit = Duration::from_secs(60);
        runtime.block_on(async { tokio::time::timeout(limit, run).await.expect("hangs") });
    }
}

/// The mode of the root: every user may write.
const ROOT_MODE: u32 = 0o777;

/// Runs a test with an in-memory file system, over the loopback transport and over TCP.
pub fn each_transport_of_memory(offer: impl Fn() -> Offer, test: impl AsyncFn(&World)) {
    for over_tcp in [false, true] {
        let (offer, test) = (offer(), &test);
        let test = Test {
            offer,
            test,
            over_tcp,
        };
        on_memory(&test, ROOT_MODE);
    }
}

/// Runs a test with each file system, over the loopback transport and over TCP, with a new file
/// system each time. Directories of the host have kernel handles over loopback, and numbers over
/// TCP.
pub fn each_transport(offer: impl Fn() -> Offer, test: impl AsyncFn(&World)) {
    each_transport_of_memory(&offer, &test);
    #[cfg(all(feature = "host", target_os = "linux"))]
    for over_tcp in [false, true] {
        let (offer, test) = (offer(), &test);
        let test = Test {
            offer,
            test,
            over_tcp,
        };
        crate::backends::host::on_host(&test, ROOT_MODE, !over_tcp);
    }
}

/// Runs a test with a directory of the host over the loopback transport.
#[cfg(all(feature = "host", target_os = "linux"))]
pub fn with_host(host: rpcrdma_nfs::HostFileSystem, test: impl AsyncFn(&World)) {
    let test = Test {
        offer: open(),
        test: &test,
        over_tcp: false,
    };
    test.on(host, crate::backends::host::HOST);
}

pub fn fh(handle: &[u8]) -> NfsFh3<'_> {
    NfsFh3 {
        data: Opaque::new(handle).unwrap(),
    }
}

pub fn place<'a>(dir: &'a [u8], name: &'a [u8]) -> Diropargs3<'a> {
    Diropargs3 {
        dir: fh(dir),
        name: Text::from_bytes(name).unwrap(),
    }
}

pub fn mode(mode: u32) -> Sattr3 {
    Sattr3 {
        mode: SetMode3::True(mode),
        ..Sattr3::UNSET
    }
}

pub fn handle_of(handle: PostOpFh3) -> Handle {
    match handle {
        PostOpFh3::True(handle) => handle.data.into_inner(),
        PostOpFh3::False => panic!("no handle"),
    }
}

pub fn attributes_of(attributes: &PostOpAttr) -> Fattr3 {
    match attributes {
        PostOpAttr::True(attributes) => **attributes,
        PostOpAttr::False => panic!("no attributes"),
    }
}

/// Asserts that an operation did not change an object, according to its wcc data.
pub fn assert_unchanged(wcc: &WccData) {
    let (PreOpAttr::True(before), after) = (&wcc.before, attributes_of(&wcc.after)) else {
        panic!("no attributes before");
    };
    let after = (after.size, after.mtime, after.ctime);
    assert_eq!((before.size, before.mtime, before.ctime), after);
}

impl World {
    /// Asserts that an operation changed an object, according to its wcc data, if times are precise
    /// enough.
    pub fn assert_changed(&self, wcc: &WccData) {
        let (PreOpAttr::True(before), after) = (&wcc.before, attributes_of(&wcc.after)) else {
            panic!("no attributes before");
        };
        if self.expected.is_memory {
            assert_ne!(before.ctime, after.ctime);
            assert_ne!(before.mtime, after.mtime);
        } else {
            let time = |time: Nfstime3| (time.seconds, time.nseconds);
            assert!(time(before.ctime) <= time(after.ctime));
        }
    }

    /// Waits until a new change gets a later time than an earlier one.
    pub async fn let_time_pass(&self) {
        if !self.expected.is_memory {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Asserts that an operation on a file did not change it. A file system whose files other
    /// processes write returns no attributes from before the operation.
    pub fn assert_file_unchanged(&self, wcc: &WccData) {
        match wcc.before {
            PreOpAttr::False if !self.expected.is_memory => drop(attributes_of(&wcc.after)),
            _ => assert_unchanged(wcc),
        }
    }

    /// Asserts that an operation on a file changed it.
    pub fn assert_file_changed(&self, wcc: &WccData) {
        match wcc.before {
            PreOpAttr::False if !self.expected.is_memory => drop(attributes_of(&wcc.after)),
            _ => self.assert_changed(wcc),
        }
    }

    /// Creates a file of user 0.
    pub async fn file(&self, dir: &[u8], name: &str, bits: u32) -> Handle {
        let args = Create3args {
            r#where: place(dir, name.as_bytes()),
            how: Createhow3::Guarded(mode(bits)),
        };
        match self.nfs.create(&args).await.unwrap() {
            Create3res::Ok(ok) => handle_of(ok.obj),
            failed => panic!("{failed:?}"),
        }
    }

    /// Creates a directory of user 0.
    pub async fn dir(&self, dir: &[u8], name: &str, bits: u32) -> Handle {
        let args = Mkdir3args {
            r#where: place(dir, name.as_bytes()),
            attributes: mode(bits),
        };
        match self.nfs.mkdir(&args).await.unwrap() {
            Mkdir3res::Ok(ok) => handle_of(ok.obj),
            failed => panic!("{failed:?}"),
        }
    }

    pub async fn attributes(&self, object: &[u8]) -> Result<Fattr3, Nfsstat3> {
        let args = Getattr3args { object: fh(object) };
        match self.nfs.getattr(&args).await.unwrap() {
            Getattr3res::Ok(ok) => Ok(ok.obj_attributes),
            Getattr3res::Default(status) => Err(status),
        }
    }

    pub async fn lookup(&self, dir: &[u8], name: &[u8]) -> Result<Handle, Nfsstat3> {
        let args = Lookup3args {
            what: place(dir, name),
        };
        match self.nfs.lookup(&args).await.unwrap() {
            Lookup3res::Ok(ok) => Ok(ok.object.data.into_inner()),
            Lookup3res::Default(status, _) => Err(status),
        }
    }

    /// Reads bytes. Returns them, and whether they reach the end of the file.
    pub async fn read(&self, file: &[u8], offset: u64, count: u32) -> (Vec<u8>, bool) {
        let args = Read3args {
            file: fh(file),
            offset,
            count,
        };
        match self.nfs.read(&args).await.unwrap() {
            Read3res::Ok(ok) => {
                assert_eq!(ok.count as usize, ok.data.len());
                (ok.data.to_vec(), ok.eof)
            }
            failed @ Read3res::Default(..) => panic!("{failed:?}"),
        }
    }

    /// Writes bytes. Returns the status and the number of bytes written.
    pub async fn write(&self, file: &[u8], offset: u64, data: &[u8]) -> Result<u32, Nfsstat3> {
        let args = write_args(file, offset, data);
        match self.nfs.write(&args).await.unwrap() {
            rpcrdma_nfs::nfs3::owned::Write3res::Ok(ok) => Ok(ok.count),
            rpcrdma_nfs::nfs3::owned::Write3res::Default(status, _) => Err(status),
        }
    }
}

pub fn write_args<'a>(file: &'a [u8], offset: u64, data: &'a [u8]) -> Write3args<'a> {
    Write3args {
        file: fh(file),
        offset,
        count: u32::try_from(data.len()).unwrap(),
        stable: StableHow::Unstable,
        data: data.into(),
    }
}
