//! The service over RDMA, with the software fabric: the DDP-eligible data of RFC 8267, section 4,
//! in chunks, and long replies.

use oncrpc::xdr::{Opaque, Text};
use oncrpc::{AuthSys, CallOptions};
use rpcrdma_nfs::nfs3::nfs_program::nfs_v3::Client;
use rpcrdma_nfs::nfs3::owned::{
    Create3res, Lookup3res, PostOpFh3, Read3res, Readdirplus3res, Readlink3res, Write3res,
};
use rpcrdma_nfs::nfs3::{
    Create3args, Createhow3, Diropargs3, Lookup3args, NfsFh3, Nfsstat3, Read3args,
    Readdirplus3args, Readlink3args, Sattr3, StableHow, Symlink3args, Symlinkdata3, Write3args,
};
use rpcrdma_nfs::{FileSystem, router};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, ServerConfig, connect, serve};

use crate::backends::{Expected, Offer, Work, on_memory};

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

type Nfs = Client<oncrpc::Channel>;

/// A test with a client over RDMA, and the handle of the root.
struct OverRdma<T>(T);

impl<T: AsyncFn(&Nfs, &[u8])> Work for OverRdma<T> {
    type Output = ();

    fn on<F: FileSystem>(&self, file_system: F, _: Expected) {
        let fabric = Fabric::new();
        let root = file_system.root().as_bytes().to_vec();
        let services = router(Offer::OPEN.export(file_system));
        let address = "127.0.0.1:0".parse().unwrap();
        let config = ServerConfig::new();
        let server = serve(&fabric.device(), address, config, move || services).unwrap();
        let address = server.local_addr();
        let channel = connect(&fabric.device(), address, ClientConfig::new()).unwrap();
        let options = CallOptions::DEFAULT.credentials(AuthSys::new("tester"));
        let nfs = Client::new(channel).with_options(options);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let limit = std::time::Duration::from_secs(60);
        let test = async { tokio::time::timeout(limit, (self.0)(&nfs, &root)).await };
        runtime.block_on(test).expect("hangs");
        drop(nfs);
        server.drain().unwrap();
    }
}

/// Runs a test with each file system.
fn over_rdma(test: impl AsyncFn(&Nfs, &[u8])) {
    let test = OverRdma(test);
    on_memory(&test, 0o755);
    #[cfg(all(feature = "host", target_os = "linux"))]
    crate::backends::host::on_host(&test, 0o755, true);
}

async fn create(nfs: &Nfs, dir: &[u8], name: &str) -> Vec<u8> {
    let args = Create3args {
        r#where: place(dir, name),
        how: Createhow3::Guarded(Sattr3::UNSET),
    };
    match nfs.create(&args).await.unwrap() {
        Create3res::Ok(ok) => match ok.obj {
            PostOpFh3::True(handle) => handle.data.into_inner(),
            PostOpFh3::False => panic!("no handle"),
        },
        failed => panic!("{failed:?}"),
    }
}

#[test]
fn data_of_any_length_round_trip() {
    over_rdma(async |nfs, root| {
        let file = create(nfs, root, "file").await;
        for len in [0, 1, 3, 4, 1000, 4096, 4097, 131_072, 131_075, 1 << 20] {
            let data: Vec<u8> = (0..len).map(|at: u32| (at % 251) as u8).collect();
            let args = Write3args {
                file: fh(&file),
                offset: 7,
                count: len,
                stable: StableHow::FileSync,
                data: data.as_slice().into(),
            };
            let Write3res::Ok(ok) = nfs.write(&args).await.unwrap() else {
                panic!("fails");
            };
            assert_eq!(ok.count, len);
            // READ requests more than the file has, and less.
            for count in [len, len + 100, len / 2] {
                let args = Read3args {
                    file: fh(&file),
                    offset: 7,
                    count: count.min(1 << 20),
                };
                let Read3res::Ok(ok) = nfs.read(&args).await.unwrap() else {
                    panic!("fails");
                };
                let expected = &data[..args.count.min(len) as usize];
                assert!(
                    ok.data.get(..expected.len()) == Some(expected),
                    "{len} {count}"
                );
            }
        }
    });
}

#[test]
fn a_failed_read_leaves_its_chunk_unused() {
    over_rdma(async |nfs, root| {
        let args = Read3args {
            file: fh(root),
            offset: 0,
            count: 65536,
        };
        let failed = nfs.read(&args).await.unwrap();
        assert_eq!(failed.status(), Nfsstat3::Inval);
    });
}

#[test]
fn symbolic_link_paths_use_chunks() {
    over_rdma(async |nfs, root| {
        for len in [1, 100, 4000] {
            let (name, path) = (format!("link-{len}"), vec![b'x'; len]);
            let args = Symlink3args {
                r#where: place(root, &name),
                symlink: Symlinkdata3 {
                    symlink_attributes: Sattr3::UNSET,
                    symlink_data: path.as_slice().into(),
                },
            };
            let made = nfs.symlink(&args).await.unwrap();
            assert_eq!(made.status(), Nfsstat3::Ok);
            let args = Lookup3args {
                what: place(root, &name),
            };
            let Lookup3res::Ok(found) = nfs.lookup(&args).await.unwrap() else {
                panic!("fails");
            };
            let args = Readlink3args {
                symlink: fh(found.object.data.as_bytes()),
            };
            let Readlink3res::Ok(ok) = nfs.readlink(&args).await.unwrap() else {
                panic!("fails");
            };
            assert_eq!(*ok.data, path);
        }
    });
}

#[test]
fn a_long_directory_needs_long_replies() {
    over_rdma(async |nfs, root| {
        for at in 0..300 {
            create(nfs, root, &format!("file-{at}")).await;
        }
        let (mut count, mut cookie) = (0, 0);
        loop {
            let args = Readdirplus3args {
                dir: fh(root),
                cookie,
                cookieverf: [0; 8],
                dircount: 32768,
                maxcount: 32768,
            };
            let Readdirplus3res::Ok(ok) = nfs.readdirplus(&args).await.unwrap() else {
                panic!("fails");
            };
            count += ok.reply.entries.len();
            cookie = ok.reply.entries.last().map_or(cookie, |entry| entry.cookie);
            if ok.reply.eof {
                break;
            }
        }
        assert_eq!(count, 302);
    });
}
