//! Malformed names: section 3.2.

use rpcrdma_nfs::nfs3::{
    Create3args, Createhow3, Link3args, Lookup3args, Mkdir3args, Mknod3args, Mknoddata3, Nfsstat3,
    Remove3args, Rename3args, Rmdir3args, Sattr3, Symlink3args, Symlinkdata3,
};

use crate::service::support::{World, each_transport, fh, open, place};

/// Returns the status of each procedure that takes a name.
async fn statuses(world: &World, name: &[u8]) -> Vec<Nfsstat3> {
    let (nfs, root) = (&world.nfs, &world.root[..]);
    let object = place(root, name);
    let rename = async |from, to| {
        nfs.rename(&Rename3args { from, to })
            .await
            .unwrap()
            .status()
    };
    let symlink = Symlinkdata3 {
        symlink_attributes: Sattr3::UNSET,
        symlink_data: b"x".into(),
    };
    let file = fh(root);
    let create = Create3args {
        r#where: object,
        how: Createhow3::Unchecked(Sattr3::UNSET),
    };
    let mkdir = Mkdir3args {
        r#where: object,
        attributes: Sattr3::UNSET,
    };
    let symlink = Symlink3args {
        r#where: object,
        symlink,
    };
    let mknod = Mknod3args {
        r#where: object,
        what: Mknoddata3::Fifo(Sattr3::UNSET),
    };
    let link = Link3args { file, link: object };
    vec![
        nfs.lookup(&Lookup3args { what: object })
            .await
            .unwrap()
            .status(),
        nfs.create(&create).await.unwrap().status(),
        nfs.mkdir(&mkdir).await.unwrap().status(),
        nfs.symlink(&symlink).await.unwrap().status(),
        nfs.mknod(&mknod).await.unwrap().status(),
        nfs.remove(&Remove3args { object }).await.unwrap().status(),
        nfs.rmdir(&Rmdir3args { object }).await.unwrap().status(),
        nfs.link(&link).await.unwrap().status(),
        rename(object, place(root, b"x")).await,
        rename(place(root, b"there"), object).await,
    ]
}

#[test]
fn malformed_names_are_rejected_by_every_procedure() {
    each_transport(open, async |world| {
        world.file(&world.root, "there", 0o644).await;
        for name in [&b""[..], b"/", b"a/b", b"\0", b"a\0"] {
            assert_eq!(statuses(world, name).await, [Nfsstat3::Acces; 10]);
        }
        for len in [256, 1000, 100_000] {
            let long = vec![b'x'; len];
            assert_eq!(statuses(world, &long).await, [Nfsstat3::Nametoolong; 10]);
        }
    });
}

#[test]
fn names_of_up_to_255_bytes_are_valid() {
    each_transport(open, async |world| {
        let values = (1..=255).filter(|byte| *byte != b'/');
        for name in [values.collect(), vec![b'x'; 255], b"...".to_vec()] {
            let args = Mkdir3args {
                r#where: place(&world.root, &name),
                attributes: Sattr3::UNSET,
            };
            let made = world.nfs.mkdir(&args).await.unwrap();
            assert_eq!(made.status(), Nfsstat3::Ok);
            assert!(world.lookup(&world.root, &name).await.is_ok());
        }
    });
}
