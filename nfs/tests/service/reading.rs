//! LOOKUP, READLINK and READ: sections 3.3.3, 3.3.5 and 3.3.6.

use rpcrdma_nfs::nfs3::owned::{Lookup3res, Read3res, Readlink3res};
use rpcrdma_nfs::nfs3::{
    Ftype3, Lookup3args, Nfsstat3, Read3args, Readlink3args, Sattr3, Symlink3args, Symlinkdata3,
};

use crate::service::support::{attributes_of, each_transport, fh, open, place, user};

#[test]
fn lookup_finds_names_and_directories() {
    each_transport(open, async |world| {
        let dir = world.dir(&world.root, "dir", 0o755).await;
        let file = world.file(&dir, "file", 0o644).await;
        assert_eq!(world.lookup(&world.root, b"dir").await, Ok(dir.clone()));
        assert_eq!(world.lookup(&dir, b"file").await, Ok(file.clone()));
        assert_eq!(world.lookup(&dir, b".").await, Ok(dir.clone()));
        assert_eq!(world.lookup(&dir, b"..").await, Ok(world.root.clone()));
        let above = world.lookup(&world.root, b"..").await;
        assert_eq!(above, Ok(world.root.clone()));
        assert_eq!(world.lookup(&dir, b"none").await, Err(Nfsstat3::Noent));
        assert_eq!(world.lookup(&file, b"x").await, Err(Nfsstat3::Notdir));
        assert_eq!(
            world.lookup(&[7; 16], b"x").await,
            Err(world.expected.unknown)
        );
    });
}

#[test]
fn lookup_returns_both_attributes() {
    each_transport(open, async |world| {
        let dir = world.dir(&world.root, "dir", 0o700).await;
        world.file(&dir, "file", 0o644).await;
        let args = |name| Lookup3args {
            what: place(&dir, name),
        };
        let Lookup3res::Ok(ok) = world.nfs.lookup(&args(b"file")).await.unwrap() else {
            panic!("fails");
        };
        assert_eq!(attributes_of(&ok.obj_attributes).r#type, Ftype3::Reg);
        assert_eq!(attributes_of(&ok.dir_attributes).r#type, Ftype3::Dir);
        let Lookup3res::Default(Nfsstat3::Noent, failed) =
            world.nfs.lookup(&args(b"none")).await.unwrap()
        else {
            panic!("succeeds");
        };
        assert_eq!(attributes_of(&failed.dir_attributes).mode, 0o700);
        let args = args(b"file");
        let refused = world.nfs.lookup(&args).credentials(user(5)).await.unwrap();
        assert_eq!(refused.status(), Nfsstat3::Acces);
    });
}

#[test]
fn readlink_returns_the_original_path() {
    each_transport(open, async |world| {
        let path = [b"../\xff/".as_slice(), &[b'x'; 3000]].concat();
        let args = Symlink3args {
            r#where: place(&world.root, b"link"),
            symlink: Symlinkdata3 {
                symlink_attributes: Sattr3::UNSET,
                symlink_data: path.as_slice().into(),
            },
        };
        world.nfs.symlink(&args).await.unwrap();
        let link = world.lookup(&world.root, b"link").await.unwrap();
        let args = Readlink3args { symlink: fh(&link) };
        let Readlink3res::Ok(ok) = world.nfs.readlink(&args).await.unwrap() else {
            panic!("fails");
        };
        assert_eq!(*ok.data, path);
        let attributes = attributes_of(&ok.symlink_attributes);
        assert_eq!(
            (attributes.r#type, attributes.size),
            (Ftype3::Lnk, path.len() as u64)
        );
        let args = Readlink3args {
            symlink: fh(&world.root),
        };
        let failed = world.nfs.readlink(&args).await.unwrap();
        assert_eq!(failed.status(), Nfsstat3::Inval);
    });
}

#[test]
fn read_returns_data_and_eof() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        // A READ of an empty file returns eof as TRUE.
        assert_eq!(world.read(&file, 0, 10).await, (vec![], true));
        world.write(&file, 0, b"0123456789").await.unwrap();
        assert_eq!(world.read(&file, 0, 4).await, (b"0123".to_vec(), false));
        assert_eq!(world.read(&file, 6, 4).await, (b"6789".to_vec(), true));
        assert_eq!(world.read(&file, 6, 5).await, (b"6789".to_vec(), true));
        assert_eq!(world.read(&file, 10, 1).await, (vec![], true));
        assert_eq!(world.read(&file, u64::MAX, u32::MAX).await, (vec![], true));
        assert_eq!(world.read(&file, 0, 0).await, (vec![], false));
    });
}

#[test]
fn a_read_beyond_rtmax_is_short() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        world.write(&file, 2 << 20, b"end").await.unwrap();
        let (bytes, eof) = world.read(&file, 0, u32::MAX).await;
        assert_eq!((bytes, eof), (vec![0; 1 << 20], false));
    });
}

#[test]
fn read_needs_a_regular_file_and_permission() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o600).await;
        let args = |file| Read3args {
            file: fh(file),
            offset: 0,
            count: 1,
        };
        let dir = world.nfs.read(&args(&world.root)).await.unwrap();
        assert_eq!(dir.status(), Nfsstat3::Inval);
        let args = args(&file);
        let other = world.nfs.read(&args).credentials(user(5)).await.unwrap();
        let Read3res::Default(Nfsstat3::Acces, failed) = other else {
            panic!("{other:?}");
        };
        assert_eq!(attributes_of(&failed.file_attributes).mode, 0o600);
    });
}
