//! REMOVE, RMDIR, RENAME and LINK: sections 3.3.12 to 3.3.15.

use rpcrdma_nfs::nfs3::owned::{Link3res, Remove3res, Rename3res, Rmdir3res};
use rpcrdma_nfs::nfs3::{Link3args, Nfsstat3, Remove3args, Rename3args, Rmdir3args};

use crate::service::support::{
    World, assert_unchanged, attributes_of, each_transport, fh, open, place, user,
};

async fn remove(world: &World, dir: &[u8], name: &[u8]) -> Remove3res {
    let args = Remove3args {
        object: place(dir, name),
    };
    world.nfs.remove(&args).await.unwrap()
}

async fn rmdir(world: &World, dir: &[u8], name: &[u8]) -> Rmdir3res {
    let args = Rmdir3args {
        object: place(dir, name),
    };
    world.nfs.rmdir(&args).await.unwrap()
}

async fn rename(world: &World, from: (&[u8], &[u8]), to: (&[u8], &[u8])) -> Rename3res {
    let args = Rename3args {
        from: place(from.0, from.1),
        to: place(to.0, to.1),
    };
    world.nfs.rename(&args).await.unwrap()
}

async fn link(world: &World, file: &[u8], dir: &[u8], name: &[u8]) -> Link3res {
    let args = Link3args {
        file: fh(file),
        link: place(dir, name),
    };
    world.nfs.link(&args).await.unwrap()
}

#[test]
fn a_removed_file_is_stale() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        let Remove3res::Ok(ok) = remove(world, &world.root, b"file").await else {
            panic!("fails");
        };
        world.assert_changed(&ok.dir_wcc);
        assert_eq!(world.attributes(&file).await, Err(Nfsstat3::Stale));
        let Remove3res::Default(Nfsstat3::Noent, failed) =
            remove(world, &world.root, b"file").await
        else {
            panic!("succeeds");
        };
        assert_unchanged(&failed.dir_wcc);
    });
}

#[test]
fn remove_and_rmdir_check_the_type() {
    each_transport(open, async |world| {
        let dir = world.dir(&world.root, "dir", 0o755).await;
        let file = world.file(&dir, "file", 0o644).await;
        let failed = remove(world, &world.root, b"dir").await;
        assert_eq!(failed.status(), Nfsstat3::Isdir);
        let failed = rmdir(world, &dir, b"file").await;
        assert_eq!(failed.status(), Nfsstat3::Notdir);
        let failed = rmdir(world, &file, b"x").await;
        assert_eq!(failed.status(), Nfsstat3::Notdir);
        let failed = rmdir(world, &world.root, b"dir").await;
        assert_eq!(failed.status(), Nfsstat3::Notempty);
        remove(world, &dir, b"file").await;
        let Rmdir3res::Ok(ok) = rmdir(world, &world.root, b"dir").await else {
            panic!("fails");
        };
        world.assert_changed(&ok.dir_wcc);
        assert_eq!(attributes_of(&ok.dir_wcc.after).nlink, 2);
        assert_eq!(world.attributes(&dir).await, Err(Nfsstat3::Stale));
    });
}

#[test]
fn dots_cannot_be_removed_or_renamed() {
    each_transport(open, async |world| {
        let dir = world.dir(&world.root, "dir", 0o755).await;
        assert_eq!(rmdir(world, &dir, b".").await.status(), Nfsstat3::Inval);
        assert_eq!(rmdir(world, &dir, b"..").await.status(), Nfsstat3::Exist);
        for dots in [&b"."[..], b".."] {
            let failed = remove(world, &dir, dots).await;
            assert_eq!(failed.status(), Nfsstat3::Acces);
            let failed = rename(world, (&dir, dots), (&dir, b"x")).await;
            assert_eq!(failed.status(), Nfsstat3::Inval);
            let failed = rename(world, (&world.root, b"dir"), (&dir, dots)).await;
            assert_eq!(failed.status(), Nfsstat3::Inval);
        }
    });
}

#[test]
fn removal_needs_permission() {
    each_transport(open, async |world| {
        let dir = world.dir(&world.root, "dir", 0o755).await;
        let shared = world.dir(&world.root, "shared", 0o1777).await;
        for dir in [&dir, &shared] {
            world.file(dir, "file", 0o666).await;
            let args = Remove3args {
                object: place(dir, b"file"),
            };
            let other = world.nfs.remove(&args).credentials(user(5)).await.unwrap();
            assert_eq!(other.status(), Nfsstat3::Acces);
        }
        assert_eq!(remove(world, &shared, b"file").await.status(), Nfsstat3::Ok);
    });
}

#[test]
fn rename_moves_an_object_with_its_handle() {
    each_transport(open, async |world| {
        let (from, to) = (
            world.dir(&world.root, "from", 0o755).await,
            world.dir(&world.root, "to", 0o755).await,
        );
        let file = world.file(&from, "file", 0o644).await;
        let inner = world.dir(&from, "inner", 0o755).await;
        let Rename3res::Ok(ok) = rename(world, (&from, b"file"), (&to, b"new")).await else {
            panic!("fails");
        };
        world.assert_changed(&ok.fromdir_wcc);
        world.assert_changed(&ok.todir_wcc);
        assert_eq!(world.lookup(&from, b"file").await, Err(Nfsstat3::Noent));
        assert_eq!(world.lookup(&to, b"new").await, Ok(file));
        let moved = rename(world, (&from, b"inner"), (&to, b"inner")).await;
        assert_eq!(moved.status(), Nfsstat3::Ok);
        assert_eq!(world.lookup(&inner, b"..").await, Ok(to.clone()));
        assert_eq!(world.attributes(&from).await.unwrap().nlink, 2);
        assert_eq!(world.attributes(&to).await.unwrap().nlink, 3);
        let failed = rename(world, (&from, b"none"), (&to, b"x")).await;
        let Rename3res::Default(Nfsstat3::Noent, failed) = failed else {
            panic!("{failed:?}");
        };
        assert_unchanged(&failed.fromdir_wcc);
        assert_unchanged(&failed.todir_wcc);
    });
}

#[test]
fn rename_replaces_a_compatible_target() {
    each_transport(open, async |world| {
        let root = &world.root;
        let (a, b) = (
            world.file(root, "a", 0o644).await,
            world.file(root, "b", 0o644).await,
        );
        let dir = world.dir(root, "dir", 0o755).await;
        let empty = world.dir(root, "empty", 0o755).await;
        world.file(&dir, "file", 0o644).await;
        assert_eq!(
            rename(world, (root, b"a"), (root, b"b")).await.status(),
            Nfsstat3::Ok
        );
        assert_eq!(world.lookup(root, b"b").await, Ok(a));
        assert_eq!(world.attributes(&b).await, Err(Nfsstat3::Stale));
        // Not compatible, or not empty.
        for (old, new) in [
            (&b"b"[..], &b"empty"[..]),
            (b"empty", b"b"),
            (b"empty", b"dir"),
        ] {
            let failed = rename(world, (root, old), (root, new)).await;
            assert_eq!(failed.status(), Nfsstat3::Exist);
        }
        let replaced = rename(world, (root, b"dir"), (root, b"empty")).await;
        assert_eq!(replaced.status(), Nfsstat3::Ok);
        assert_eq!(world.lookup(root, b"empty").await, Ok(dir));
        assert_eq!(world.attributes(&empty).await, Err(Nfsstat3::Stale));
        assert_eq!(world.attributes(root).await.unwrap().nlink, 3);
    });
}

#[test]
fn a_directory_does_not_move_into_itself() {
    each_transport(open, async |world| {
        let a = world.dir(&world.root, "a", 0o755).await;
        let b = world.dir(&a, "b", 0o755).await;
        for inside in [&a, &b] {
            let failed = rename(world, (&world.root, b"a"), (inside, b"x")).await;
            assert_eq!(failed.status(), Nfsstat3::Inval);
        }
    });
}

#[test]
fn rename_of_two_names_of_one_file_does_nothing() {
    each_transport(open, async |world| {
        let root = &world.root;
        let file = world.file(root, "a", 0o644).await;
        link(world, &file, root, b"b").await;
        for to in [b"b", b"a"] {
            let Rename3res::Ok(ok) = rename(world, (root, b"a"), (root, to)).await else {
                panic!("fails");
            };
            assert_unchanged(&ok.todir_wcc);
        }
        assert_eq!(world.lookup(root, b"a").await, Ok(file.clone()));
        assert_eq!(world.attributes(&file).await.unwrap().nlink, 2);
    });
}

#[test]
fn link_adds_a_name() {
    each_transport(open, async |world| {
        let root = &world.root;
        let file = world.file(root, "a", 0o644).await;
        let Link3res::Ok(ok) = link(world, &file, root, b"b").await else {
            panic!("fails");
        };
        world.assert_changed(&ok.linkdir_wcc);
        assert_eq!(attributes_of(&ok.file_attributes).nlink, 2);
        remove(world, root, b"a").await;
        assert_eq!(world.attributes(&file).await.unwrap().nlink, 1);
        assert_eq!(world.lookup(root, b"b").await, Ok(file.clone()));
        let Link3res::Default(Nfsstat3::Exist, failed) = link(world, &file, root, b"b").await
        else {
            panic!("succeeds");
        };
        assert_unchanged(&failed.linkdir_wcc);
        assert_eq!(attributes_of(&failed.file_attributes).nlink, 1);
        let dir = world.dir(root, "dir", 0o755).await;
        assert_eq!(
            link(world, &dir, root, b"x").await.status(),
            Nfsstat3::Inval
        );
        assert_eq!(
            link(world, &file, &file, b"x").await.status(),
            Nfsstat3::Notdir
        );
        assert_eq!(
            link(world, &[7; 16], root, b"x").await.status(),
            world.expected.unknown
        );
    });
}
