//! Content of files, and the verifiers of exclusive creates.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rpcrdma_nfs::nfs3::owned::{Commit3res, Create3res, Write3res};
use rpcrdma_nfs::nfs3::{
    Commit3args, Create3args, Createhow3, Ftype3, Nfsstat3, Read3args, SetAtime, SetMtime,
    Setattr3args, StableHow, Write3args,
};
use rpcrdma_nfs::nfs3::{Sattr3, Sattrguard3, SetMode3, SetSize3};
use rpcrdma_nfs::{HandleKey, HostConfig, HostFileSystem};

use crate::backends::host::{HostDir, is_root};
use crate::service::support::{World, fh, handle_of, place, with_host, write_args};

const GIB: u64 = 1 << 30;

#[test]
fn files_beyond_4_gib_have_holes() {
    let dir = HostDir::new(0o755);
    with_host(dir.open(), async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        assert_eq!(world.write(&file, 5 * GIB, b"end").await, Ok(3));
        let attributes = world.attributes(&file).await.unwrap();
        assert_eq!(attributes.size, 5 * GIB + 3);
        assert!(attributes.used < 1 << 20);
        assert_eq!(
            world.read(&file, 5 * GIB - 2, 10).await,
            (b"\0\0end".to_vec(), true)
        );
        assert_eq!(world.read(&file, 4 * GIB - 1, 3).await, (vec![0; 3], false));
        let args = Setattr3args {
            object: fh(&file),
            new_attributes: Sattr3 {
                size: SetSize3::True(6 * GIB),
                ..Sattr3::UNSET
            },
            guard: Sattrguard3::False,
        };
        world.nfs.setattr(&args).await.unwrap();
        let size = fs::metadata(dir.path.join("file")).unwrap().size();
        assert_eq!(size, 6 * GIB);
        let beyond = world.write(&file, i64::MAX as u64, b"x").await;
        assert_eq!(beyond, Err(Nfsstat3::Fbig));
    });
}

#[test]
fn host_and_clients_see_each_others_writes() {
    let dir = HostDir::new(0o755);
    with_host(dir.open(), async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        let bytes: Vec<u8> = (0..1u32 << 20).map(|at| (at % 249) as u8).collect();
        for stable in [
            StableHow::Unstable,
            StableHow::DataSync,
            StableHow::FileSync,
        ] {
            let args = Write3args {
                stable,
                ..write_args(&file, 3, &bytes)
            };
            let Write3res::Ok(ok) = world.nfs.write(&args).await.unwrap() else {
                panic!("fails");
            };
            assert_eq!((ok.count, ok.committed), (1 << 20, stable));
        }
        let commit = Commit3args {
            file: fh(&file),
            offset: 0,
            count: 0,
        };
        let committed = world.nfs.commit(&commit).await.unwrap();
        assert!(matches!(committed, Commit3res::Ok(_)));
        assert!(fs::read(dir.path.join("file")).unwrap()[3..] == bytes);
        fs::write(dir.path.join("file"), "of the host").unwrap();
        assert_eq!(
            world.read(&file, 3, 100).await,
            (b"the host".to_vec(), true)
        );
    });
}

#[test]
fn special_files_are_not_opened() {
    let dir = HostDir::new(0o755);
    with_host(dir.open(), async |world| {
        let args = rpcrdma_nfs::nfs3::Mknod3args {
            r#where: place(&world.root, b"fifo"),
            what: rpcrdma_nfs::nfs3::Mknoddata3::Fifo(Sattr3::UNSET),
        };
        world.nfs.mknod(&args).await.unwrap();
        let fifo = world.lookup(&world.root, b"fifo").await.unwrap();
        let kind = world.attributes(&fifo).await.unwrap().r#type;
        assert_eq!(kind, Ftype3::Fifo);
        // An open for reading would wait for a writer.
        let args = Read3args {
            file: fh(&fifo),
            offset: 0,
            count: 1,
        };
        let read = world.nfs.read(&args).await.unwrap();
        assert_eq!(read.status(), Nfsstat3::Inval);
        let write = world.write(&fifo, 0, b"x").await;
        assert_eq!(write, Err(Nfsstat3::Inval));
    });
}

async fn exclusive(world: &World, name: &[u8], verifier: [u8; 8]) -> Create3res {
    let args = Create3args {
        r#where: place(&world.root, name),
        how: Createhow3::Exclusive(verifier),
    };
    world.nfs.create(&args).await.unwrap()
}

#[test]
fn every_bit_of_an_exclusive_verifier_is_compared() {
    let (dir, key) = (HostDir::new(0o755), HandleKey::random().unwrap());
    let open = || {
        let config = HostConfig::new(key.clone()).sync(false);
        HostFileSystem::open(&dir.path, config).unwrap()
    };
    let verifier = [0x80, 1, 0xff, 3, 0xfe, 5, 0, 0xff];
    for restart in [false, true] {
        with_host(open(), async |world| {
            // The same call is repeated, also after a restart.
            for _ in 0..2 {
                let Create3res::Ok(ok) = exclusive(world, b"file", verifier).await else {
                    panic!("fails, restarted: {restart}");
                };
                let found = world.lookup(&world.root, b"file").await.unwrap();
                assert_eq!(handle_of(ok.obj), found);
            }
            for bit in 0..64 {
                let mut other = verifier;
                other[bit / 8] ^= 1 << (bit % 8);
                let refused = exclusive(world, b"file", other).await;
                assert_eq!(refused.status(), Nfsstat3::Exist, "bit {bit}");
            }
        });
    }
    with_host(open(), async |world| {
        // The client then sets the attributes, as Linux does, and the verifier is gone.
        let file = world.lookup(&world.root, b"file").await.unwrap();
        let args = Setattr3args {
            object: fh(&file),
            new_attributes: Sattr3 {
                mode: SetMode3::True(0o640),
                atime: SetAtime::SetToServerTime,
                mtime: SetMtime::SetToServerTime,
                ..Sattr3::UNSET
            },
            guard: Sattrguard3::False,
        };
        world.nfs.setattr(&args).await.unwrap();
        let refused = exclusive(world, b"file", verifier).await;
        assert_eq!(refused.status(), Nfsstat3::Exist);
    });
}

#[test]
fn the_servers_umask_does_not_change_modes() {
    let dir = HostDir::new(0o755);
    with_host(dir.open(), async |world| {
        for mode in [0o777, 0o666, 0o6755, 0o1777] {
            let file = world.file(&world.root, &format!("f{mode:o}"), mode).await;
            assert_eq!(world.attributes(&file).await.unwrap().mode, mode);
            let dir = world.dir(&world.root, &format!("d{mode:o}"), mode).await;
            assert_eq!(world.attributes(&dir).await.unwrap().mode, mode);
        }
        if is_root() {
            let umask = fs::read_to_string("/proc/self/status").unwrap();
            assert!(!umask.contains("Umask:\t0000"), "the process keeps its own");
        }
    });
}
