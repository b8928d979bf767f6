//! GETATTR, SETATTR and ACCESS: sections 3.3.1, 3.3.2 and 3.3.4.

use rpcrdma_nfs::Squash;
use rpcrdma_nfs::nfs3::owned::{Access3res, Setattr3res, Symlink3res};
use rpcrdma_nfs::nfs3::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ,
    Access3args, Ftype3, Nfsstat3, Nfstime3, Sattr3, Sattrguard3, SetAtime, SetGid3, SetMtime,
    SetSize3, SetUid3, Setattr3args, Symlink3args, Symlinkdata3,
};

use crate::backends::Offer;
use crate::service::support::{
    World, assert_unchanged, each_transport, each_transport_of_memory, fh, handle_of, mode, open,
    place, user, write_args,
};

async fn setattr(world: &World, object: &[u8], uid: u32, new: Sattr3) -> Setattr3res {
    let args = Setattr3args {
        object: fh(object),
        new_attributes: new,
        guard: Sattrguard3::False,
    };
    let call = world.nfs.setattr(&args).credentials(user(uid));
    call.await.unwrap()
}

#[test]
fn getattr_returns_the_attributes_of_each_type() {
    each_transport(open, async |world| {
        let root = world.attributes(&world.root).await.unwrap();
        assert_eq!(
            (root.r#type, root.mode, root.nlink),
            (Ftype3::Dir, 0o777, 2)
        );
        let file = world.file(&world.root, "file", 0o640).await;
        let file = world.attributes(&file).await.unwrap();
        assert_eq!(
            (file.r#type, file.mode, file.nlink),
            (Ftype3::Reg, 0o640, 1)
        );
        assert_eq!((file.size, file.used, file.fsid), (0, 0, root.fsid));
        assert_ne!(file.fileid, root.fileid);
    });
}

#[test]
fn forged_handles_are_rejected() {
    each_transport_of_memory(open, async |world| {
        for bad in [&b""[..], b"x", &[7; 15], &[7; 17], &[7; 64]] {
            assert_eq!(world.attributes(bad).await, Err(Nfsstat3::Badhandle));
        }
        // Handles with the right form: of another file system, or of no object.
        let stale = Err(Nfsstat3::Stale);
        assert_eq!(world.attributes(&[7; 16]).await, stale);
        for bit in 0..128 {
            let mut other = world.root.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(world.attributes(&other).await, stale);
        }
    });
}

#[test]
fn setattr_sets_only_the_named_attributes() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        world.write(&file, 0, b"0123456789").await.unwrap();
        let before = world.attributes(&file).await.unwrap();
        let time = |seconds| Nfstime3 {
            seconds,
            nseconds: 5,
        };
        world.let_time_pass().await;
        let new = Sattr3 {
            uid: SetUid3::True(5),
            gid: SetGid3::True(6),
            size: SetSize3::True(4),
            atime: SetAtime::SetToClientTime(time(100)),
            mtime: SetMtime::SetToClientTime(time(200)),
            ..mode(0o600)
        };
        let Setattr3res::Ok(ok) = setattr(world, &file, 0, new).await else {
            panic!("fails");
        };
        world.assert_changed(&ok.obj_wcc);
        let after = world.attributes(&file).await.unwrap();
        assert_eq!(
            (after.mode, after.uid, after.gid, after.size),
            (0o600, 5, 6, 4)
        );
        assert_eq!((after.atime, after.mtime), (time(100), time(200)));
        assert_ne!(after.ctime, before.ctime);
        setattr(world, &file, 0, mode(0o640)).await;
        let last = world.attributes(&file).await.unwrap();
        assert_eq!((last.mode, last.uid, last.size), (0o640, 5, 4));
        assert_eq!((last.atime, last.mtime), (after.atime, after.mtime));
        assert_eq!(world.read(&file, 0, 10).await, (b"0123".to_vec(), true));
    });
}

#[test]
fn setattr_extends_a_file_with_zeros() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        world.write(&file, 0, b"abc").await.unwrap();
        for size in [2, 1 << 40] {
            let size = Sattr3 {
                size: SetSize3::True(size),
                ..Sattr3::UNSET
            };
            let result = setattr(world, &file, 0, size).await;
            assert_eq!(result.status(), Nfsstat3::Ok);
        }
        assert_eq!(world.read(&file, 0, 4).await.0, *b"ab\0\0");
        assert_eq!(world.read(&file, (1 << 40) - 1, 4).await, (vec![0], true));
        if !world.expected.is_memory {
            return;
        }
        let beyond = Sattr3 {
            size: SetSize3::True((1 << 40) + 1),
            ..Sattr3::UNSET
        };
        let result = setattr(world, &file, 0, beyond).await;
        assert_eq!(result.status(), Nfsstat3::Inval);
    });
}

#[test]
fn a_mismatched_guard_is_rejected() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        let ctime = world.attributes(&file).await.unwrap().ctime;
        let guarded = |ctime| Setattr3args {
            object: fh(&file),
            new_attributes: mode(0o600),
            guard: Sattrguard3::True(ctime),
        };
        world.let_time_pass().await;
        let first = world.nfs.setattr(&guarded(ctime)).await.unwrap();
        assert_eq!(first.status(), Nfsstat3::Ok);
        let second = world.nfs.setattr(&guarded(ctime)).await.unwrap();
        let Setattr3res::Default(Nfsstat3::NotSync, failed) = second else {
            panic!("{second:?}");
        };
        assert_unchanged(&failed.obj_wcc);
    });
}

#[test]
fn only_the_owner_sets_attributes() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        let owned = Sattr3 {
            uid: SetUid3::True(5),
            gid: SetGid3::True(5),
            ..Sattr3::UNSET
        };
        setattr(world, &file, 0, owned).await;
        let status = async |uid, new| setattr(world, &file, uid, new).await.status();
        assert_eq!(status(6, mode(0o777)).await, Nfsstat3::Perm);
        assert_eq!(status(5, mode(0o664)).await, Nfsstat3::Ok);
        let gives_away = Sattr3 {
            uid: SetUid3::True(6),
            ..Sattr3::UNSET
        };
        assert_eq!(status(5, gives_away).await, Nfsstat3::Perm);
        let joins = Sattr3 {
            gid: SetGid3::True(7),
            ..Sattr3::UNSET
        };
        assert_eq!(status(5, joins).await, Nfsstat3::Perm);
        let truncates = Sattr3 {
            size: SetSize3::True(0),
            ..Sattr3::UNSET
        };
        assert_eq!(status(6, truncates).await, Nfsstat3::Acces);
        let touches = Sattr3 {
            mtime: SetMtime::SetToServerTime,
            ..Sattr3::UNSET
        };
        assert_eq!(status(6, touches).await, Nfsstat3::Acces);
        assert_eq!(status(5, touches).await, Nfsstat3::Ok);
    });
}

/// Any user may send it, so it must not change the ctime.
#[test]
fn a_setattr_of_nothing_changes_nothing() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o600).await;
        let before = world.attributes(&file).await.unwrap();
        let result = setattr(world, &file, 6, Sattr3::UNSET).await;
        assert_eq!(result.status(), Nfsstat3::Ok);
        assert_eq!(world.attributes(&file).await.unwrap(), before);
    });
}

/// Otherwise a user's file with the set-user-ID bit would run as user 0 once that owns it. New
/// files in a directory with the set-group-ID bit inherit its group, whichever group that is.
#[test]
fn set_id_bits_of_a_file_end_with_its_owner() {
    each_transport(open, async |world| {
        let owned = |uid, gid| Sattr3 {
            uid: SetUid3::True(uid),
            gid: SetGid3::True(gid),
            ..Sattr3::UNSET
        };
        let dir = world.dir(&world.root, "dir", 0o755).await;
        let file = world.file(&world.root, "file", 0o755).await;
        setattr(world, &dir, 0, owned(5, 0)).await;
        setattr(world, &dir, 0, mode(0o2775)).await;
        setattr(world, &file, 0, owned(5, 5)).await;
        setattr(world, &file, 0, mode(0o6755)).await;
        setattr(world, &file, 0, owned(0, 0)).await;
        let joins = Sattr3 {
            uid: SetUid3::False,
            ..owned(0, 5)
        };
        assert_eq!(setattr(world, &dir, 5, joins).await.status(), Nfsstat3::Ok);
        let file = world.attributes(&file).await.unwrap();
        assert_eq!((file.mode, file.uid, file.gid), (0o755, 0, 0));
        let dir = world.attributes(&dir).await.unwrap();
        assert_eq!((dir.mode, dir.uid, dir.gid), (0o2775, 5, 5));
    });
}

/// As Linux does (`setattr_should_drop_sgid`): without group-execute permission the set-group-ID
/// bit makes no program run as the group, and stays, unless the user is not in the group.
#[test]
fn the_set_group_id_bit_ends_where_it_gives_rights() {
    each_transport(open, async |world| {
        let sized = Sattr3 {
            size: SetSize3::True(0),
            ..Sattr3::UNSET
        };
        let cases = [
            (0o2644, 5, 0o2644),
            (0o2654, 5, 0o654),
            (0o6644, 5, 0o2644),
            (0o6655, 5, 0o655),
            (0o2644, 9, 0o644),
        ];
        for (bits, group, expected) in cases {
            let mut modes = Vec::new();
            for change in ["write", "size", "group"] {
                let name = format!("{change}-{bits:o}-{group}");
                let file = world.file(&world.root, &name, 0o600).await;
                let owner = Sattr3 {
                    uid: SetUid3::True(5),
                    gid: SetGid3::True(group),
                    ..Sattr3::UNSET
                };
                setattr(world, &file, 0, owner).await;
                setattr(world, &file, 0, mode(bits)).await;
                let same_group = Sattr3 {
                    uid: SetUid3::False,
                    ..owner
                };
                let status = match change {
                    "size" => setattr(world, &file, 5, sized).await.status(),
                    "group" => setattr(world, &file, 5, same_group).await.status(),
                    _ => {
                        let args = write_args(&file, 0, b"bytes");
                        let written = world.nfs.write(&args).credentials(user(5));
                        written.await.unwrap().status()
                    }
                };
                assert_eq!(status, Nfsstat3::Ok, "{name}");
                modes.push(world.attributes(&file).await.unwrap().mode);
            }
            assert_eq!(modes, [expected; 3], "{bits:o} {group}");
        }
    });
}

/// Only a new mode is compared with the groups of the user.
#[test]
fn other_changes_keep_the_set_group_id_bit() {
    each_transport(open, async |world| {
        let dir = world.dir(&world.root, "dir", 0o755).await;
        let owner = Sattr3 {
            uid: SetUid3::True(5),
            gid: SetGid3::True(9),
            ..Sattr3::UNSET
        };
        setattr(world, &dir, 0, owner).await;
        setattr(world, &dir, 0, mode(0o2775)).await;
        let touches = Sattr3 {
            mtime: SetMtime::SetToServerTime,
            ..Sattr3::UNSET
        };
        let touched = setattr(world, &dir, 5, touches).await;
        assert_eq!(touched.status(), Nfsstat3::Ok);
        assert_eq!(world.attributes(&dir).await.unwrap().mode, 0o2775);
        setattr(world, &dir, 5, mode(0o2770)).await;
        assert_eq!(world.attributes(&dir).await.unwrap().mode, 0o770);
    });
}

/// As Linux's server does. Some clients set the mode of a symbolic link when they copy it.
#[test]
fn a_new_mode_of_a_symbolic_link_is_no_error() {
    each_transport(open, async |world| {
        let args = Symlink3args {
            r#where: place(&world.root, b"link"),
            symlink: Symlinkdata3 {
                symlink_attributes: Sattr3::UNSET,
                symlink_data: b"path".into(),
            },
        };
        let link = match world.nfs.symlink(&args).await.unwrap() {
            Symlink3res::Ok(ok) => handle_of(ok.obj),
            failed => panic!("{failed:?}"),
        };
        let at = Nfstime3 {
            seconds: 1_000_000,
            nseconds: 7,
        };
        let new = Sattr3 {
            uid: SetUid3::True(5),
            mtime: SetMtime::SetToClientTime(at),
            ..mode(0o755)
        };
        let result = setattr(world, &link, 0, new).await;
        assert_eq!(result.status(), Nfsstat3::Ok);
        let attributes = world.attributes(&link).await.unwrap();
        assert_eq!((attributes.uid, attributes.mtime), (5, at));
        assert_eq!(
            setattr(world, &link, 5, mode(0o700)).await.status(),
            Nfsstat3::Ok
        );
        assert_eq!(
            setattr(world, &link, 6, mode(0o700)).await.status(),
            Nfsstat3::Perm
        );
    });
}

#[test]
fn unsupported_values_are_invalid() {
    each_transport(open, async |world| {
        let time = Nfstime3 {
            seconds: 0,
            nseconds: 1_000_000_000,
        };
        let bad_time = Sattr3 {
            atime: SetAtime::SetToClientTime(time),
            ..Sattr3::UNSET
        };
        let result = setattr(world, &world.root, 0, bad_time).await;
        assert_eq!(result.status(), Nfsstat3::Inval);
        let sized = Sattr3 {
            size: SetSize3::True(0),
            ..Sattr3::UNSET
        };
        let result = setattr(world, &world.root, 0, sized).await;
        assert_eq!(result.status(), Nfsstat3::Inval);
    });
}

async fn access(world: &World, object: &[u8], uid: u32) -> u32 {
    let args = Access3args {
        object: fh(object),
        access: u32::MAX,
    };
    let call = world.nfs.access(&args).credentials(user(uid));
    match call.await.unwrap() {
        Access3res::Ok(ok) => ok.access,
        failed => panic!("{failed:?}"),
    }
}

#[test]
fn access_follows_the_mode() {
    const CHANGE: u32 = ACCESS3_MODIFY | ACCESS3_EXTEND;
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o754).await;
        let owner = Sattr3 {
            uid: SetUid3::True(5),
            gid: SetGid3::True(6),
            ..Sattr3::UNSET
        };
        setattr(world, &file, 0, owner).await;
        setattr(world, &file, 0, mode(0o754)).await;
        let all = ACCESS3_READ | CHANGE | ACCESS3_EXECUTE;
        assert_eq!(access(world, &file, 0).await, all);
        assert_eq!(access(world, &file, 5).await, all);
        assert_eq!(
            access(world, &file, 6).await,
            ACCESS3_READ | ACCESS3_EXECUTE
        );
        assert_eq!(access(world, &file, 7).await, ACCESS3_READ);
        let dir = world.dir(&world.root, "dir", 0o703).await;
        let change = CHANGE | ACCESS3_DELETE;
        assert_eq!(access(world, &dir, 7).await, ACCESS3_LOOKUP | change);
        assert_eq!(
            access(world, &dir, 0).await,
            ACCESS3_READ | ACCESS3_LOOKUP | change
        );
        let args = Access3args {
            object: fh(&dir),
            access: ACCESS3_READ,
        };
        let Access3res::Ok(ok) = world.nfs.access(&args).await.unwrap() else {
            panic!("fails");
        };
        assert_eq!(ok.access, ACCESS3_READ);
        let args = Access3args {
            object: fh(&[7; 16]),
            access: ACCESS3_READ,
        };
        let failed = world.nfs.access(&args).await.unwrap();
        assert_eq!(failed.status(), world.expected.unknown);
    });
}

#[test]
fn user_0_is_squashed_by_root_squash() {
    let squashed = || Offer {
        squash: Squash::Root,
        anonymous: 99,
        ..open()
    };
    each_transport(squashed, async |world| {
        let file = world.file(&world.root, "file", 0o600).await;
        let attributes = world.attributes(&file).await.unwrap();
        assert_eq!((attributes.uid, attributes.gid), (99, 99));
        let result = setattr(world, &world.root, 0, mode(0o700)).await;
        assert_eq!(result.status(), Nfsstat3::Perm);
    });
}

#[test]
fn a_read_only_export_grants_no_changes() {
    let read_only = || Offer {
        read_only: true,
        ..open()
    };
    each_transport(read_only, async |world| {
        let bits = access(world, &world.root, 0).await;
        assert_eq!(bits, ACCESS3_READ | ACCESS3_LOOKUP);
        let result = setattr(world, &world.root, 0, mode(0o700)).await;
        assert_eq!(result.status(), Nfsstat3::Rofs);
        let written = world.write(&world.root, 0, b"x").await;
        assert_eq!(written, Err(Nfsstat3::Rofs));
    });
}
