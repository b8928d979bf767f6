//! The user as whom calls are executed.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use oncrpc::AuthSys;
use rpcrdma_nfs::nfs3::{
    Commit3args, Create3args, Createhow3, Nfsstat3, Read3args, Sattr3, Sattrguard3, SetMtime,
    SetSize3, Setattr3args,
};
use rpcrdma_nfs::{HandleKey, HostConfig, HostFileSystem};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::backends::host::{HostDir, is_root};
use crate::service::support::{World, fh, mode, place, user, with_host, write_args};

async fn create(world: &World, name: &str, who: AuthSys) -> Nfsstat3 {
    let args = Create3args {
        r#where: place(&world.root, name.as_bytes()),
        how: Createhow3::Guarded(mode(0o640)),
    };
    let call = world.nfs.create(&args).credentials(who);
    call.await.unwrap().status()
}

async fn read(world: &World, file: &[u8], who: AuthSys) -> Nfsstat3 {
    let args = Read3args {
        file: fh(file),
        offset: 0,
        count: 10,
    };
    let call = world.nfs.read(&args).credentials(who);
    call.await.unwrap().status()
}

async fn write(world: &World, file: &[u8], who: AuthSys) -> Nfsstat3 {
    let args = write_args(file, 0, b"written");
    let call = world.nfs.write(&args).credentials(who);
    call.await.unwrap().status()
}

fn member(uid: u32, gids: &[u32]) -> AuthSys {
    AuthSys {
        gids: gids.to_vec(),
        ..user(uid)
    }
}

/// Asserts that every worker of this process returns to user 0 with all capabilities. Workers of
/// other tests may be in the middle of a call.
fn assert_all_threads_are_root() {
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let status = task.unwrap().path().join("status");
        let end = Instant::now() + Duration::from_secs(20);
        while let Err(found) = is_root_or_gone(&status) {
            assert!(Instant::now() < end, "{found}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Returns an error if a worker is not user 0 for file systems with all capabilities.
fn is_root_or_gone(status: &Path) -> Result<(), String> {
    let Ok(status) = fs::read_to_string(status) else {
        return Ok(());
    };
    let words = |name: &str| -> Vec<&str> {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().skip(1).collect()
    };
    let is_root = words("Uid:") == ["0"; 4]
        && words("Gid:") == ["0"; 4]
        && words("CapEff:") == words("CapPrm:");
    if words("Name:") != ["nfs-host"] || is_root {
        Ok(())
    } else {
        Err(status)
    }
}

#[test]
fn new_objects_belong_to_their_caller() {
    let dir = HostDir::new(0o777);
    if !is_root() {
        return;
    }
    with_host(dir.open(), async |world| {
        assert_eq!(create(world, "file", user(5)).await, Nfsstat3::Ok);
        let metadata = fs::metadata(dir.path.join("file")).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (5, 5));
        assert_eq!(create(world, "of-root", user(0)).await, Nfsstat3::Ok);
        assert_eq!(fs::metadata(dir.path.join("of-root")).unwrap().uid(), 0);
        // No such user exists.
        for nobody in [user(u32::MAX), member(5, &[u32::MAX])] {
            assert_eq!(create(world, "x", nobody).await, Nfsstat3::Acces);
        }
        fs::set_permissions(&dir.path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(create(world, "x", user(5)).await, Nfsstat3::Acces);
    });
    assert_all_threads_are_root();
}

#[test]
fn groups_give_access() {
    let dir = HostDir::new(0o755);
    if !is_root() {
        return;
    }
    let path = dir.path.join("file");
    fs::write(&path, "content").unwrap();
    chown(&path, Some(1), Some(77)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o060)).unwrap();
    with_host(dir.open(), async |world| {
        let file = world.lookup(&world.root, b"file").await.unwrap();
        assert_eq!(read(world, &file, member(5, &[])).await, Nfsstat3::Acces);
        assert_eq!(read(world, &file, member(5, &[3, 77])).await, Nfsstat3::Ok);
        assert_eq!(write(world, &file, member(5, &[77])).await, Nfsstat3::Ok);
        // The groups of one call do not apply to the next.
        for _ in 0..20 {
            assert_eq!(read(world, &file, member(5, &[])).await, Nfsstat3::Acces);
        }
    });
}

#[test]
fn the_owner_reads_and_writes_with_any_mode() {
    let dir = HostDir::new(0o755);
    if !is_root() {
        return;
    }
    let path = dir.path.join("file");
    fs::write(&path, "content").unwrap();
    chown(&path, Some(5), Some(5)).unwrap();
    with_host(dir.open(), async |world| {
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let file = world.lookup(&world.root, b"file").await.unwrap();
        set(0o000);
        assert_eq!(write(world, &file, user(5)).await, Nfsstat3::Ok);
        assert_eq!(read(world, &file, user(5)).await, Nfsstat3::Ok);
        let args = Commit3args {
            file: fh(&file),
            offset: 0,
            count: 0,
        };
        let commit = world.nfs.commit(&args).credentials(user(5)).await.unwrap();
        assert_eq!(commit.status(), Nfsstat3::Ok);
        let args = Setattr3args {
            object: fh(&file),
            new_attributes: Sattr3 {
                size: SetSize3::True(2),
                ..Sattr3::UNSET
            },
            guard: Sattrguard3::False,
        };
        let cut = world.nfs.setattr(&args).credentials(user(5)).await.unwrap();
        assert_eq!(cut.status(), Nfsstat3::Ok);
        assert_eq!(fs::metadata(&path).unwrap().len(), 2);
        assert_eq!(read(world, &file, user(6)).await, Nfsstat3::Acces);
        // A user with execute permission may read, but not write.
        set(0o711);
        assert_eq!(read(world, &file, user(6)).await, Nfsstat3::Ok);
        assert_eq!(write(world, &file, user(6)).await, Nfsstat3::Acces);
    });
    assert_all_threads_are_root();
}

#[test]
fn a_writer_touches_a_file_and_clears_its_set_uid_bit() {
    let dir = HostDir::new(0o755);
    if !is_root() {
        return;
    }
    let path = dir.path.join("file");
    fs::write(&path, "content").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4777)).unwrap();
    with_host(dir.open(), async |world| {
        let file = world.lookup(&world.root, b"file").await.unwrap();
        let before = fs::metadata(&path).unwrap();
        world.let_time_pass().await;
        let args = Setattr3args {
            object: fh(&file),
            new_attributes: Sattr3 {
                mtime: SetMtime::SetToServerTime,
                ..Sattr3::UNSET
            },
            guard: Sattrguard3::False,
        };
        let touched = world.nfs.setattr(&args).credentials(user(6)).await.unwrap();
        assert_eq!(touched.status(), Nfsstat3::Ok);
        let after = fs::metadata(&path).unwrap();
        assert!(before.modified().unwrap() < after.modified().unwrap());
        assert_eq!(before.accessed().unwrap(), after.accessed().unwrap());
        assert_eq!(write(world, &file, user(6)).await, Nfsstat3::Ok);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
    });
}

#[test]
fn concurrent_users_do_not_mix() {
    let dir = HostDir::new(0o777);
    if !is_root() {
        return;
    }
    with_host(dir.open(), async |world| {
        let calls: Vec<_> = (1..=40u32)
            .map(|uid| {
                let (nfs, root) = (world.nfs.clone(), world.root.clone());
                tokio::spawn(async move {
                    for at in 0..20 {
                        let name = format!("{uid}-{at}");
                        let args = Create3args {
                            r#where: place(&root, name.as_bytes()),
                            how: Createhow3::Guarded(mode(0o600)),
                        };
                        let call = nfs.create(&args).credentials(user(uid));
                        assert_eq!(call.await.unwrap().status(), Nfsstat3::Ok);
                    }
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        for entry in fs::read_dir(&dir.path).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let (uid, _) = name.split_once('-').unwrap();
            assert_eq!(entry.metadata().unwrap().uid().to_string(), uid);
        }
    });
    assert_all_threads_are_root();
}

#[test]
fn an_unprivileged_server_acts_as_one_user() {
    let dir = HostDir::new(0o755);
    let path = dir.path.clone();
    // Each thread has its own capabilities.
    let opened = std::thread::spawn(move || {
        let mut sets = capabilities(None).unwrap();
        let lost = CapabilitySet::SETUID | CapabilitySet::DAC_READ_SEARCH;
        sets.effective.remove(lost);
        set_capabilities(None, sets).unwrap();
        let config = HostConfig::new(HandleKey::random().unwrap()).sync(false);
        HostFileSystem::open(path, config).unwrap()
    });
    let host = opened.join().unwrap();
    assert!(!host.acts_as_callers() && !host.keeps_handles());
    with_host(host, async |world| {
        assert_eq!(create(world, "file", user(5)).await, Nfsstat3::Ok);
        let metadata = fs::metadata(dir.path.join("file")).unwrap();
        let own = fs::metadata(&dir.path).unwrap();
        assert_eq!(metadata.uid(), own.uid());
        let file = world.lookup(&world.root, b"file").await.unwrap();
        assert_eq!(write(world, &file, user(6)).await, Nfsstat3::Ok);
    });
}

/// The server keeps files open, but checks permissions for every call.
#[test]
fn changed_permissions_apply_to_the_next_call() {
    let dir = HostDir::new(0o755);
    if !is_root() {
        return;
    }
    let path = dir.path.join("file");
    fs::write(&path, "content").unwrap();
    let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    with_host(dir.open(), async |world| {
        let file = world.lookup(&world.root, b"file").await.unwrap();
        let both = async |who: AuthSys| {
            let read = read(world, &file, who.clone()).await;
            (read, write(world, &file, who).await)
        };
        let (ok, no) = (Nfsstat3::Ok, Nfsstat3::Acces);
        set(0o666);
        for _ in 0..3 {
            assert_eq!(both(user(5)).await, (ok, ok));
        }
        set(0o644);
        assert_eq!(both(user(5)).await, (ok, no));
        assert_eq!(both(user(0)).await, (ok, ok));
        assert_eq!(both(user(5)).await, (ok, no));
        set(0o600);
        assert_eq!(both(user(5)).await, (no, no));
        chown(&path, Some(5), Some(5)).unwrap();
        assert_eq!(both(user(5)).await, (ok, ok));
        assert_eq!(both(user(6)).await, (no, no));
        // With another group, this is another caller.
        set(0o660);
        assert_eq!(both(member(6, &[5])).await, (ok, ok));
        assert_eq!(both(user(6)).await, (no, no));
    });
    assert_all_threads_are_root();
}
