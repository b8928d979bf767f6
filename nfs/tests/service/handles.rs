//! Rejected handles: sections 2.6 (NFS3ERR_BADHANDLE and NFS3ERR_STALE) and 3.3. Every procedure
//! returns the same status for a handle.

use rpcrdma_nfs::nfs3::{Nfsstat3, Remove3args, Rmdir3args};
use rpcrdma_nfs::{FileSystem as _, MemoryFileSystem};

use crate::service::procedures::statuses;
use crate::service::support::{World, each_transport, open, place};

async fn assert_all(world: &World, handle: &[u8], expected: &[Nfsstat3]) {
    for (name, status) in statuses(world, handle).await {
        assert!(
            expected.contains(&status),
            "{name}: {status:?}: {handle:02x?}"
        );
    }
}

#[test]
fn malformed_handles_are_bad() {
    each_transport(open, async |world| {
        for handle in [&b""[..], b"x", &[0; 15], &[7; 17], &[0xff; 63], &[0x10; 64]] {
            assert_all(world, handle, &[Nfsstat3::Badhandle]).await;
        }
        // A valid handle with one changed bit has a wrong code.
        for bit in [0, 8, 63, 64, 127] {
            let mut other = world.root.clone();
            if let Some(byte) = other.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            assert_all(world, &other, &[world.expected.unknown]).await;
        }
    });
}

#[test]
fn handles_of_another_file_system_are_rejected() {
    let other = MemoryFileSystem::new(1 << 20);
    each_transport(open, async |world| {
        let other = other.root();
        assert_all(world, other.as_bytes(), &[world.expected.unknown]).await;
    });
}

#[test]
fn handles_of_removed_objects_are_stale() {
    each_transport(open, async |world| {
        let root = &world.root;
        let file = world.file(root, "file", 0o644).await;
        let dir = world.dir(root, "dir", 0o755).await;
        let object = place(root, b"file");
        world.nfs.remove(&Remove3args { object }).await.unwrap();
        let object = place(root, b"dir");
        world.nfs.rmdir(&Rmdir3args { object }).await.unwrap();
        for gone in [file, dir] {
            assert_all(world, &gone, &[Nfsstat3::Stale]).await;
        }
    });
}

/// A client cannot forge the handle of an object that it has not seen: object numbers are
/// consecutive, but their codes are not.
#[test]
fn handles_cannot_be_forged() {
    each_transport(open, async |world| {
        world.dir(&world.root, "hidden", 0o700).await;
        for number in 0..16 {
            let mut other = world.root.clone();
            let last = other.len() - 1;
            other[last] = number;
            if other != world.root {
                assert_all(world, &other, &[world.expected.unknown]).await;
            }
        }
    });
}
