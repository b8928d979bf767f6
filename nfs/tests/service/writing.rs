//! WRITE and COMMIT: sections 3.3.7 and 3.3.21.

use rpcrdma_nfs::nfs3::owned::{Commit3res, Write3res};
use rpcrdma_nfs::nfs3::{Commit3args, Nfsstat3, StableHow, Write3args};

use crate::service::support::{
    World, attributes_of, each_transport, each_transport_of_memory, fh, open, user, write_args,
};

async fn write(world: &World, args: &Write3args<'_>) -> rpcrdma_nfs::nfs3::owned::Write3resok {
    match world.nfs.write(args).await.unwrap() {
        Write3res::Ok(ok) => *ok,
        failed => panic!("{failed:?}"),
    }
}

#[test]
fn written_data_are_read_back() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        let bytes: Vec<u8> = (0..1u32 << 20).map(|at| (at % 251) as u8).collect();
        assert_eq!(world.write(&file, 12_345, &bytes).await, Ok(1 << 20));
        assert_eq!(world.read(&file, 12_345, 1 << 20).await, (bytes, true));
        assert_eq!(world.read(&file, 0, 12_345).await.0, vec![0; 12_345]);
    });
}

#[test]
fn a_write_has_the_requested_stability() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        let mut verifiers = Vec::new();
        for stable in [
            StableHow::Unstable,
            StableHow::DataSync,
            StableHow::FileSync,
        ] {
            let args = Write3args {
                stable,
                ..write_args(&file, 0, b"x")
            };
            let ok = write(world, &args).await;
            assert!(ok.committed >= stable);
            verifiers.push(ok.verf);
        }
        let args = Commit3args {
            file: fh(&file),
            offset: 0,
            count: 0,
        };
        let Commit3res::Ok(ok) = world.nfs.commit(&args).await.unwrap() else {
            panic!("fails");
        };
        world.assert_file_unchanged(&ok.file_wcc);
        assert!(verifiers.iter().all(|verifier| *verifier == ok.verf));
        let args = Commit3args {
            file: fh(&[7; 16]),
            ..args
        };
        let failed = world.nfs.commit(&args).await.unwrap();
        assert_eq!(failed.status(), world.expected.unknown);
    });
}

#[test]
fn another_instance_has_another_verifier() {
    let verifiers = std::sync::Mutex::new(Vec::new());
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        let ok = write(world, &write_args(&file, 0, b"x")).await;
        verifiers.lock().unwrap().push(ok.verf);
    });
    let mut verifiers = verifiers.into_inner().unwrap();
    let count = verifiers.len();
    verifiers.sort_unstable();
    verifiers.dedup();
    assert!(count > 1 && verifiers.len() == count);
}

#[test]
fn a_zero_length_write_changes_nothing() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        let ok = write(world, &write_args(&file, 1000, b"")).await;
        assert_eq!(ok.count, 0);
        world.assert_file_unchanged(&ok.file_wcc);
        let ok = write(world, &write_args(&file, 1000, b"x")).await;
        world.assert_file_changed(&ok.file_wcc);
        assert_eq!(attributes_of(&ok.file_wcc.after).size, 1001);
    });
}

#[test]
fn a_write_beyond_wtmax_is_short() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        let bytes = vec![1; (1 << 20) + 1];
        assert_eq!(world.write(&file, 0, &bytes).await, Ok(1 << 20));
        assert_eq!(world.attributes(&file).await.unwrap().size, 1 << 20);
    });
}

#[test]
fn invalid_writes_are_rejected() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        if world.expected.is_memory {
            let end = 1 << 40;
            assert_eq!(world.write(&file, end - 1, b"x").await, Ok(1));
            assert_eq!(world.write(&file, end, b"x").await, Err(Nfsstat3::Fbig));
        }
        assert_eq!(
            world.write(&file, u64::MAX, b"x").await,
            Err(Nfsstat3::Fbig)
        );
        let dir = world.write(&world.root, 0, b"x").await;
        assert_eq!(dir, Err(Nfsstat3::Inval));
        for count in [0, 2, u32::MAX] {
            let args = Write3args {
                count,
                ..write_args(&file, 0, b"x")
            };
            let failed = world.nfs.write(&args).await.unwrap();
            assert_eq!(failed.status(), Nfsstat3::Inval);
        }
        let args = write_args(&file, 0, b"x");
        let other = world.nfs.write(&args).credentials(user(5)).await.unwrap();
        let Write3res::Default(Nfsstat3::Acces, failed) = other else {
            panic!("{other:?}");
        };
        world.assert_file_unchanged(&failed.file_wcc);
    });
}

#[test]
fn memory_is_bounded_and_released() {
    each_transport_of_memory(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        let bytes = vec![1; 1 << 20];
        let mut offset = 0;
        let status = loop {
            match world.write(&file, offset, &bytes).await {
                Ok(count) => offset += u64::from(count),
                Err(status) => break status,
            }
        };
        assert_eq!(status, Nfsstat3::Nospc);
        assert!(offset > 60 << 20 && offset <= 64 << 20, "{offset}");
        assert_eq!(world.attributes(&file).await.unwrap().size, offset);
        let args = rpcrdma_nfs::nfs3::Remove3args {
            object: crate::service::support::place(&world.root, b"file"),
        };
        world.nfs.remove(&args).await.unwrap();
        let file = world.file(&world.root, "other", 0o644).await;
        assert_eq!(world.write(&file, 0, &bytes).await, Ok(1 << 20));
    });
}
