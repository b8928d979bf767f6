//! CREATE, MKDIR, SYMLINK and MKNOD: sections 3.3.8 to 3.3.11.

use rpcrdma_nfs::nfs3::owned::{Create3res, Mkdir3res, Mknod3res, Symlink3res};
use rpcrdma_nfs::nfs3::{
    Create3args, Createhow3, Devicedata3, Ftype3, Mkdir3args, Mknod3args, Mknoddata3, Nfsstat3,
    Nfstime3, Sattr3, SetGid3, SetMtime, SetSize3, SetUid3, Specdata3, Symlink3args, Symlinkdata3,
};

use crate::service::support::{
    World, assert_unchanged, attributes_of, each_transport, handle_of, mode, open, place, user,
};

async fn create(world: &World, dir: &[u8], name: &[u8], how: Createhow3) -> Create3res {
    let args = Create3args {
        r#where: place(dir, name),
        how,
    };
    world.nfs.create(&args).await.unwrap()
}

#[test]
fn create_returns_the_new_file() {
    each_transport(open, async |world| {
        let how = Createhow3::Guarded(mode(0o640));
        let Create3res::Ok(ok) = create(world, &world.root, b"file", how).await else {
            panic!("fails");
        };
        world.assert_changed(&ok.dir_wcc);
        let attributes = attributes_of(&ok.obj_attributes);
        assert_eq!((attributes.r#type, attributes.mode), (Ftype3::Reg, 0o640));
        let found = world.lookup(&world.root, b"file").await;
        assert_eq!(found, Ok(handle_of(ok.obj)));
    });
}

#[test]
fn a_guarded_create_fails_if_the_name_exists() {
    each_transport(open, async |world| {
        world.file(&world.root, "file", 0o644).await;
        let failed = create(
            world,
            &world.root,
            b"file",
            Createhow3::Guarded(Sattr3::UNSET),
        )
        .await;
        let Create3res::Default(Nfsstat3::Exist, failed) = failed else {
            panic!("{failed:?}");
        };
        assert_unchanged(&failed.dir_wcc);
    });
}

/// The attributes of a new file are set after its creation, which happens once.
#[test]
fn a_new_file_gets_its_size_and_times() {
    each_transport(open, async |world| {
        let at = Nfstime3 {
            seconds: 1_000_000,
            nseconds: 7,
        };
        for (name, size) in [(&b"empty"[..], 0), (b"long", 3000)] {
            for guarded in [true, false] {
                let name = [name, if guarded { b"1" } else { b"2" }].concat();
                let new = Sattr3 {
                    size: SetSize3::True(size),
                    mtime: SetMtime::SetToClientTime(at),
                    ..mode(0o640)
                };
                let how = match guarded {
                    true => Createhow3::Guarded(new),
                    false => Createhow3::Unchecked(new),
                };
                let Create3res::Ok(ok) = create(world, &world.root, &name, how).await else {
                    panic!("fails");
                };
                world.assert_changed(&ok.dir_wcc);
                let attributes = attributes_of(&ok.obj_attributes);
                let seen = (attributes.size, attributes.mode, attributes.mtime);
                assert_eq!(seen, (size, 0o640, at));
            }
        }
    });
}

#[test]
fn an_unchecked_create_opens_an_existing_file() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        world.write(&file, 0, b"content").await.unwrap();
        for (size, left) in [(SetSize3::False, 7), (SetSize3::True(3), 3)] {
            let how = Createhow3::Unchecked(Sattr3 {
                size,
                ..Sattr3::UNSET
            });
            let Create3res::Ok(ok) = create(world, &world.root, b"file", how).await else {
                panic!("fails");
            };
            assert_eq!(attributes_of(&ok.obj_attributes).size, left);
            assert_eq!(handle_of(ok.obj), file);
        }
        world.dir(&world.root, "dir", 0o755).await;
        let how = Createhow3::Unchecked(Sattr3::UNSET);
        let failed = create(world, &world.root, b"dir", how).await;
        assert_eq!(failed.status(), Nfsstat3::Exist);
    });
}

#[test]
fn an_exclusive_create_is_repeatable_with_its_verifier() {
    each_transport(open, async |world| {
        let how = |byte| Createhow3::Exclusive([byte; 8]);
        let Create3res::Ok(first) = create(world, &world.root, b"file", how(1)).await else {
            panic!("fails");
        };
        let Create3res::Ok(again) = create(world, &world.root, b"file", how(1)).await else {
            panic!("fails");
        };
        assert_eq!(handle_of(first.obj), handle_of(again.obj));
        let other = create(world, &world.root, b"file", how(2)).await;
        assert_eq!(other.status(), Nfsstat3::Exist);
        world.file(&world.root, "guarded", 0o644).await;
        let other = create(world, &world.root, b"guarded", how(0)).await;
        assert_eq!(other.status(), Nfsstat3::Exist);
    });
}

#[test]
fn creation_needs_permission_and_a_directory() {
    each_transport(open, async |world| {
        let dir = world.dir(&world.root, "dir", 0o755).await;
        let args = Create3args {
            r#where: place(&dir, b"file"),
            how: Createhow3::Guarded(Sattr3::UNSET),
        };
        let other = world.nfs.create(&args).credentials(user(5)).await.unwrap();
        assert_eq!(other.status(), Nfsstat3::Acces);
        let file = world.file(&dir, "file", 0o644).await;
        let failed = create(world, &file, b"x", Createhow3::Guarded(Sattr3::UNSET)).await;
        assert_eq!(failed.status(), Nfsstat3::Notdir);
        let failed = create(world, &[7; 16], b"x", Createhow3::Guarded(Sattr3::UNSET)).await;
        assert_eq!(failed.status(), world.expected.unknown);
    });
}

#[test]
fn a_new_file_has_its_mode_and_its_owners() {
    each_transport(open, async |world| {
        for bits in [0o640, 0o6755, 0o1777] {
            let new = Sattr3 {
                uid: SetUid3::True(5),
                gid: SetGid3::True(6),
                ..mode(bits)
            };
            let (name, how) = (format!("{bits:o}"), Createhow3::Guarded(new));
            let made = create(world, &world.root, name.as_bytes(), how).await;
            let Create3res::Ok(ok) = made else {
                panic!("{made:?}");
            };
            let attributes = attributes_of(&ok.obj_attributes);
            let seen = (attributes.mode, attributes.uid, attributes.gid);
            assert_eq!(seen, (bits, 5, 6));
        }
    });
}

/// An error must not leave an object behind: a client that tries again would find it.
#[test]
fn invalid_attributes_create_nothing() {
    each_transport(open, async |world| {
        let at = Nfstime3 {
            seconds: 1,
            nseconds: 1_000_000_000,
        };
        let bad = Sattr3 {
            mtime: SetMtime::SetToClientTime(at),
            ..mode(0o644)
        };
        let large = Sattr3 {
            size: SetSize3::True(u64::MAX),
            ..mode(0o644)
        };
        for new in [bad, large] {
            for how in [Createhow3::Guarded(new), Createhow3::Unchecked(new)] {
                let failed = create(world, &world.root, b"new", how).await.status();
                assert!(
                    matches!(failed, Nfsstat3::Inval | Nfsstat3::Fbig),
                    "{failed:?}"
                );
                let found = world.lookup(&world.root, b"new").await;
                assert_eq!(found, Err(Nfsstat3::Noent));
            }
        }
        let args = Mkdir3args {
            r#where: place(&world.root, b"new"),
            attributes: bad,
        };
        let dir = world.nfs.mkdir(&args).await.unwrap().status();
        let args = Symlink3args {
            r#where: place(&world.root, b"new"),
            symlink: Symlinkdata3 {
                symlink_attributes: bad,
                symlink_data: b"path".into(),
            },
        };
        let link = world.nfs.symlink(&args).await.unwrap().status();
        let args = Mknod3args {
            r#where: place(&world.root, b"new"),
            what: Mknoddata3::Fifo(bad),
        };
        let fifo = world.nfs.mknod(&args).await.unwrap().status();
        assert_eq!([dir, link, fifo], [Nfsstat3::Inval; 3]);
        let found = world.lookup(&world.root, b"new").await;
        assert_eq!(found, Err(Nfsstat3::Noent));
    });
}

#[test]
fn mkdir_counts_as_a_link_of_its_parent() {
    each_transport(open, async |world| {
        let args = |name| Mkdir3args {
            r#where: place(&world.root, name),
            attributes: mode(0o750),
        };
        let Mkdir3res::Ok(ok) = world.nfs.mkdir(&args(b"dir")).await.unwrap() else {
            panic!("fails");
        };
        world.assert_changed(&ok.dir_wcc);
        assert_eq!(attributes_of(&ok.dir_wcc.after).nlink, 3);
        let attributes = attributes_of(&ok.obj_attributes);
        assert_eq!((attributes.r#type, attributes.mode), (Ftype3::Dir, 0o750));
        assert_eq!(attributes.nlink, 2);
        for there in [&b"dir"[..], b".", b".."] {
            let failed = world.nfs.mkdir(&args(there)).await.unwrap();
            assert_eq!(failed.status(), Nfsstat3::Exist);
        }
    });
}

#[test]
fn symlink_accepts_valid_paths() {
    each_transport(open, async |world| {
        let link = async |name: &[u8], path: &[u8]| {
            let args = Symlink3args {
                r#where: place(&world.root, name),
                symlink: Symlinkdata3 {
                    symlink_attributes: Sattr3::UNSET,
                    symlink_data: path.into(),
                },
            };
            world.nfs.symlink(&args).await.unwrap()
        };
        let Symlink3res::Ok(ok) = link(b"link", b"/etc").await else {
            panic!("fails");
        };
        world.assert_changed(&ok.dir_wcc);
        assert_eq!(attributes_of(&ok.obj_attributes).r#type, Ftype3::Lnk);
        assert_eq!(link(b"link", b"x").await.status(), Nfsstat3::Exist);
        assert_eq!(link(b"a", b"").await.status(), Nfsstat3::Acces);
        assert_eq!(link(b"a", b"x\0").await.status(), Nfsstat3::Acces);
        let long = vec![b'x'; 5000];
        assert_eq!(link(b"a", &long).await.status(), Nfsstat3::Nametoolong);
    });
}

#[test]
fn mknod_creates_only_special_files() {
    each_transport(open, async |world| {
        let spec = Specdata3 {
            specdata1: 8,
            specdata2: 1,
        };
        let device = Devicedata3 {
            dev_attributes: mode(0o600),
            spec,
        };
        let args = |name, what| Mknod3args {
            r#where: place(&world.root, name),
            what,
        };
        let made = [
            (&b"blk"[..], Mknoddata3::Blk(device), Ftype3::Blk),
            (b"chr", Mknoddata3::Chr(device), Ftype3::Chr),
            (b"sock", Mknoddata3::Sock(Sattr3::UNSET), Ftype3::Sock),
            (b"fifo", Mknoddata3::Fifo(Sattr3::UNSET), Ftype3::Fifo),
        ];
        for (name, what, kind) in made {
            let Mknod3res::Ok(ok) = world.nfs.mknod(&args(name, what)).await.unwrap() else {
                panic!("fails");
            };
            world.assert_changed(&ok.dir_wcc);
            let attributes = attributes_of(&ok.obj_attributes);
            assert_eq!(attributes.r#type, kind);
            let is_device = matches!(kind, Ftype3::Blk | Ftype3::Chr);
            assert_eq!(attributes.rdev == spec, is_device);
        }
        for kind in [Ftype3::Reg, Ftype3::Dir, Ftype3::Lnk] {
            let args = args(b"other", Mknoddata3::Default(kind));
            let failed = world.nfs.mknod(&args).await.unwrap();
            assert_eq!(failed.status(), Nfsstat3::Badtype);
        }
        let args = args(b"other", Mknoddata3::Blk(device));
        let other = world.nfs.mknod(&args).credentials(user(5)).await.unwrap();
        assert_eq!(other.status(), Nfsstat3::Acces);
    });
}

/// The kernel has 12 bits for the major number and 20 for the minor one: another device must not be
/// created instead.
#[test]
fn a_device_has_the_requested_numbers() {
    each_transport(open, async |world| {
        let numbers = [(4095, 0xf_ffff), (4097, 3), (1, 0x10_0003), (u32::MAX, 0)];
        for (specdata1, specdata2) in numbers {
            let spec = Specdata3 {
                specdata1,
                specdata2,
            };
            let name = format!("{specdata1}-{specdata2}");
            let args = Mknod3args {
                r#where: place(&world.root, name.as_bytes()),
                what: Mknoddata3::Chr(Devicedata3 {
                    dev_attributes: mode(0o600),
                    spec,
                }),
            };
            let is_valid = specdata1 < 1 << 12 && specdata2 < 1 << 20;
            match world.nfs.mknod(&args).await.unwrap() {
                Mknod3res::Ok(ok) => {
                    assert!(is_valid || world.expected.is_memory, "{name}");
                    assert_eq!(attributes_of(&ok.obj_attributes).rdev, spec);
                }
                failed => {
                    assert_eq!((failed.status(), is_valid), (Nfsstat3::Inval, false));
                    let found = world.lookup(&world.root, name.as_bytes()).await;
                    assert_eq!(found, Err(Nfsstat3::Noent));
                }
            }
        }
    });
}
