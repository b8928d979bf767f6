//! The validity of handles.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use rpcrdma_nfs::nfs3::Nfsstat3;
use rpcrdma_nfs::{HandleKey, HostConfig, HostFileSystem};

use crate::backends::host::{HostDir, is_root};
use crate::service::support::{World, with_host};

fn open(dir: &HostDir, key: &HandleKey, kernel_handles: bool) -> HostFileSystem {
    let config = HostConfig::new(key.clone()).kernel_handles(kernel_handles);
    HostFileSystem::open(&dir.path, config.sync(false)).unwrap()
}

/// Returns true if the process can open kernel handles.
fn opens_handles(dir: &HostDir) -> bool {
    is_root() && dir.open().keeps_handles()
}

#[test]
fn forged_handles_are_bad() {
    let dir = HostDir::new(0o755);
    fs::write(dir.path.join("file"), "x").unwrap();
    for kernel_handles in [true, false] {
        let host = open(&dir, &HandleKey::random().unwrap(), kernel_handles);
        with_host(host, async |world| {
            let file = world.lookup(&world.root, b"file").await.unwrap();
            for good in [&world.root, &file] {
                assert!(good.len() <= 64);
                for bit in 0..good.len() * 8 {
                    let mut forged = good.clone();
                    forged[bit / 8] ^= 1 << (bit % 8);
                    let refused = world.attributes(&forged).await;
                    assert_eq!(refused, Err(Nfsstat3::Badhandle), "bit {bit}");
                }
                for len in 0..good.len() {
                    let refused = world.attributes(&good[..len]).await;
                    assert_eq!(refused, Err(Nfsstat3::Badhandle));
                }
            }
        });
    }
}

#[test]
fn handles_outlive_the_server_with_the_same_key() {
    let dir = HostDir::new(0o755);
    if !opens_handles(&dir) {
        return;
    }
    fs::create_dir(dir.path.join("dir")).unwrap();
    fs::write(dir.path.join("dir/file"), "content").unwrap();
    let (key, other) = (HandleKey::random().unwrap(), HandleKey::random().unwrap());
    let handles = std::sync::Mutex::new(Vec::new());
    with_host(open(&dir, &key, true), async |world| {
        let inner = world.lookup(&world.root, b"dir").await.unwrap();
        let file = world.lookup(&inner, b"file").await.unwrap();
        *handles.lock().unwrap() = vec![world.root.clone(), inner, file];
    });
    // A rename on the host changes no handle.
    fs::rename(dir.path.join("dir"), dir.path.join("renamed")).unwrap();
    let handles = handles.into_inner().unwrap();
    with_host(open(&dir, &key, true), async |world| {
        assert_eq!(world.root, handles[0]);
        assert_eq!(
            world.lookup(&handles[1], b"file").await.unwrap(),
            handles[2]
        );
        assert_eq!(world.lookup(&handles[1], b"..").await.unwrap(), handles[0]);
        assert_eq!(world.read(&handles[2], 0, 100).await.0, b"content");
    });
    with_host(open(&dir, &other, true), async |world| {
        for handle in &handles {
            let refused = world.attributes(handle).await;
            assert_eq!(refused, Err(Nfsstat3::Badhandle));
        }
    });
    // Another export has the same key.
    let elsewhere = HostDir::new(0o755);
    with_host(open(&elsewhere, &key, true), async |world| {
        for handle in &handles {
            assert_eq!(world.attributes(handle).await, Err(Nfsstat3::Stale));
        }
    });
}

#[test]
fn numbered_handles_end_with_the_server() {
    let (dir, key) = (HostDir::new(0o755), HandleKey::random().unwrap());
    fs::write(dir.path.join("file"), "x").unwrap();
    let first = std::sync::Mutex::new(Vec::new());
    with_host(open(&dir, &key, false), async |world| {
        let file = world.lookup(&world.root, b"file").await.unwrap();
        // A number identifies the object, not its name.
        fs::rename(dir.path.join("file"), dir.path.join("renamed")).unwrap();
        assert_eq!(world.read(&file, 0, 1).await.0, b"x");
        assert_eq!(world.lookup(&world.root, b"renamed").await.unwrap(), file);
        *first.lock().unwrap() = vec![world.root.clone(), file];
    });
    with_host(open(&dir, &key, false), async |world| {
        let handles = first.lock().unwrap().clone();
        for handle in handles {
            assert_eq!(world.attributes(&handle).await, Err(Nfsstat3::Stale));
        }
    });
}

async fn is_stale_after(world: &World, name: &[u8], remove: impl FnOnce()) {
    let handle = world.lookup(&world.root, name).await.unwrap();
    remove();
    assert_eq!(world.attributes(&handle).await, Err(Nfsstat3::Stale));
    let inner = world.lookup(&handle, b"x").await;
    assert_eq!(inner, Err(Nfsstat3::Stale));
}

#[test]
fn a_removed_object_stays_stale() {
    let dir = HostDir::new(0o755);
    for kernel_handles in [true, false] {
        let host = open(&dir, &HandleKey::random().unwrap(), kernel_handles);
        with_host(host, async |world| {
            let path = |name: &str| dir.path.join(name);
            fs::write(path("file"), "x").unwrap();
            is_stale_after(world, b"file", || fs::remove_file(path("file")).unwrap()).await;
            fs::create_dir(path("dir")).unwrap();
            is_stale_after(world, b"dir", || fs::remove_dir(path("dir")).unwrap()).await;
            // Another process still has the file open.
            fs::write(path("open"), "x").unwrap();
            let _open = fs::File::open(path("open")).unwrap();
            is_stale_after(world, b"open", || fs::remove_file(path("open")).unwrap()).await;
            // A new object gets the same inode number, as on ext4.
            fs::write(path("a"), "x").unwrap();
            let old = world.lookup(&world.root, b"a").await.unwrap();
            fs::remove_file(path("a")).unwrap();
            let stale = world.attributes(&old).await;
            assert_eq!(stale, Err(Nfsstat3::Stale));
            for at in 0..50 {
                fs::write(path(&format!("b{at}")), "x").unwrap();
            }
            assert_eq!(world.attributes(&old).await, Err(Nfsstat3::Stale));
            for at in 0..50 {
                fs::remove_file(path(&format!("b{at}"))).unwrap();
            }
        });
    }
}

#[test]
fn the_key_file_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    let key = HandleKey::from_file(&path).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o7777), (16, 0o600));
    assert!(HandleKey::from_file(&path).unwrap() == key);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let refused = |path| HandleKey::from_file(path).unwrap_err().to_string();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(refused(&path).contains("0600"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, [1; 15]).unwrap();
    assert!(refused(&path).contains("16 bytes"));
    assert!(!format!("{key:?}").contains('['));
}

#[test]
fn mounts_below_the_directory_are_not_entered() {
    let device = |path: &str| fs::metadata(path).map(|found| found.dev()).ok();
    let (above, mount) = (device("/dev"), device("/dev/shm"));
    if mount.is_none() || above == mount {
        return crate::backends::host::skipped("it needs a mount at /dev/shm");
    }
    let config = HostConfig::new(HandleKey::random().unwrap());
    with_host(
        HostFileSystem::open("/dev", config).unwrap(),
        async |world| {
            let found = world.lookup(&world.root, b"shm").await;
            assert_eq!(found, Err(Nfsstat3::Acces));
            assert!(world.lookup(&world.root, b"null").await.is_ok());
        },
    );
}
