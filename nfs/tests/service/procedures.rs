//! Every procedure with one handle, for tests of its status.

use rpcrdma_nfs::nfs3::{
    Access3args, Commit3args, Create3args, Createhow3, Fsinfo3args, Fsstat3args, Getattr3args,
    Link3args, Lookup3args, Mkdir3args, Mknod3args, Mknoddata3, Nfsstat3, Pathconf3args, Read3args,
    Readdir3args, Readdirplus3args, Readlink3args, Remove3args, Rename3args, Rmdir3args,
    Sattrguard3, Setattr3args, Symlink3args, Symlinkdata3,
};

use crate::service::support::{World, fh, mode, place, write_args};

/// Returns the status of every procedure with arguments that are valid except for the handle.
/// RENAME and LINK appear twice: with the handle first, and with the handle second after that of
/// the root.
pub(crate) async fn statuses(world: &World, handle: &[u8]) -> Vec<(&'static str, Nfsstat3)> {
    let (object, at, new_attributes) = (fh(handle), place(handle, b"x"), mode(0o644));
    let (root, nfs) = (world.root.as_slice(), &world.nfs);
    let at_root = place(root, b"y");
    let guard = Sattrguard3::False;
    let how = Createhow3::Guarded(new_attributes);
    let (offset, count) = (0, 1);
    let (cookie, cookieverf) = (0, [0; 8]);
    let symlink = Symlinkdata3 {
        symlink_attributes: new_attributes,
        symlink_data: (&b"to"[..]).into(),
    };
    macro_rules! table {
        ($($name:ident: $args:expr;)*) => {
            vec![$((stringify!($name), nfs.$name(&$args).await.unwrap().status())),*]
        };
    }
    table! {
        getattr: Getattr3args { object };
        setattr: Setattr3args { object, new_attributes, guard };
        lookup: Lookup3args { what: at };
        access: Access3args { object, access: 1 };
        readlink: Readlink3args { symlink: object };
        read: Read3args { file: object, offset, count };
        write: write_args(handle, 0, b"x");
        create: Create3args { r#where: at, how };
        mkdir: Mkdir3args { r#where: at, attributes: new_attributes };
        symlink: Symlink3args { r#where: at, symlink };
        mknod: Mknod3args { r#where: at, what: Mknoddata3::Fifo(new_attributes) };
        remove: Remove3args { object: at };
        rmdir: Rmdir3args { object: at };
        rename: Rename3args { from: at, to: at };
        rename: Rename3args { from: at_root, to: at };
        link: Link3args { file: object, link: at };
        link: Link3args { file: fh(root), link: at };
        readdir: Readdir3args { dir: object, cookie, cookieverf, count: 4096 };
        readdirplus:
            Readdirplus3args { dir: object, cookie, cookieverf, dircount: 4096, maxcount: 4096 };
        fsstat: Fsstat3args { fsroot: object };
        fsinfo: Fsinfo3args { fsroot: object };
        pathconf: Pathconf3args { object };
        commit: Commit3args { file: object, offset, count };
    }
}
