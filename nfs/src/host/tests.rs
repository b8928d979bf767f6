//! Synchronization failures, which a real disk does not produce on demand, and the lifetime of
//! descriptors.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use oncrpc::ItemAllocator;
use oncrpc::xdr::Item;
use tempfile::TempDir;

use super::table::Table;
use super::tree::Tree;
use super::workers::Workers;
use super::{HandleKey, HostConfig, HostFileSystem};
use crate::caller::Caller;
use crate::directory::DirList;
use crate::file_system::{DirOp, FileSystem as _, FsResult, Written};
use crate::handle::FileHandle;
use crate::name::Name;
use crate::nfs3::{Createhow3, Nfsstat3, Sattr3, SetSize3, StableHow};
use crate::wcc::Wcc;

/// A directory that is served to the user of this process.
struct TestHost {
    host: HostFileSystem,
    caller: Caller,
    dir: TempDir,
}

impl TestHost {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = HostConfig::new(HandleKey::random().unwrap());
        let caller = Caller {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            gids: Vec::new(),
        };
        let host = HostFileSystem::open(dir.path(), config).unwrap();
        Self { host, caller, dir }
    }

    /// Makes the next `count` synchronizations fail.
    fn fail(&self, count: u64) {
        let failures = &self.host.tree.stability.failures;
        failures.store(count, Ordering::SeqCst);
    }

    /// Returns how many descriptors of a file this process has, even after its name was removed.
    fn descriptors(&self, name: &str) -> usize {
        let path = self.dir.path().join(name);
        let path = path.to_str().unwrap();
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = descriptors.filter_map(|entry| entry.unwrap().path().read_link().ok());
        let of_file = targets.filter(|target| target.to_string_lossy().starts_with(path));
        of_file.count()
    }

    async fn read(&self, file: &FileHandle) -> FsResult<Vec<u8>> {
        let buffers = ItemAllocator::default();
        let read = self.host.read(&self.caller, file, 0, 100, &buffers).await?;
        Ok(read.data.to_vec())
    }

    async fn create(&self, name: &[u8]) -> FsResult<FileHandle> {
        let root = self.host.root();
        let place = DirOp {
            dir: &root,
            name: Name::new(name).unwrap(),
        };
        let how = Createhow3::Guarded(Sattr3::UNSET);
        let mut wcc = Wcc::default();
        let made = self.host.create(&self.caller, place, &how, &mut wcc);
        let made = made.await;
        assert!(wcc.after().is_some());
        Ok(made?.handle)
    }

    async fn remove(&self, name: &[u8]) -> FsResult<()> {
        let root = self.host.root();
        let name = Name::new(name).unwrap();
        let object = DirOp { dir: &root, name };
        let mut wcc = Wcc::default();
        self.host.remove(&self.caller, object, &mut wcc).await
    }

    async fn write(&self, file: &FileHandle, stable: StableHow) -> FsResult<Written> {
        let (data, mut wcc) = (Item::from(b"data"), Wcc::default());
        let written = self
            .host
            .write(&self.caller, file, 0, data, stable, &mut wcc);
        let written = written.await;
        assert!(wcc.after().is_some());
        written
    }

    async fn commit(&self, file: &FileHandle) -> FsResult<[u8; 8]> {
        let mut wcc = Wcc::default();
        self.host.commit(&self.caller, file, 0, 0, &mut wcc).await
    }
}

#[tokio::test]
async fn a_failed_commit_changes_the_verifier() {
    let served = TestHost::new();
    let file = served.create(b"file").await.unwrap();
    let first = served.write(&file, StableHow::Unstable).await.unwrap();
    assert_eq!(first.committed, StableHow::Unstable);
    served.fail(1);
    assert_eq!(served.commit(&file).await, Err(Nfsstat3::Io));
    // Uncommitted bytes of other clients may also be lost: the verifier reports it.
    let verifier = served.commit(&file).await.unwrap();
    assert_ne!(verifier, first.verifier);
    let again = served.write(&file, StableHow::Unstable).await.unwrap();
    assert_eq!(again.verifier, verifier);
    assert_eq!(served.commit(&file).await, Ok(verifier));
}

#[tokio::test]
async fn a_failed_stable_write_is_an_error() {
    let served = TestHost::new();
    let file = served.create(b"file").await.unwrap();
    let mut verifier = served.commit(&file).await.unwrap();
    for stable in [StableHow::DataSync, StableHow::FileSync] {
        served.fail(1);
        let failed = served.write(&file, stable).await;
        assert_eq!(failed, Err(Nfsstat3::Io));
        let written = served.write(&file, stable).await.unwrap();
        assert_eq!(written.committed, stable);
        assert_ne!(written.verifier, verifier);
        verifier = written.verifier;
    }
}

#[tokio::test]
async fn a_failed_directory_sync_is_an_error() {
    let served = TestHost::new();
    served.fail(1);
    assert_eq!(served.create(b"file").await, Err(Nfsstat3::Io));
    assert_eq!(served.create(b"file").await, Err(Nfsstat3::Exist));
    served.fail(1);
    assert_eq!(served.remove(b"file").await, Err(Nfsstat3::Io));
    served.fail(0);
    assert!(!served.dir.path().join("file").exists());
}

/// A directory is opened as the caller who changed it, to synchronize it.
#[tokio::test]
async fn a_directory_that_its_caller_cannot_read_is_synchronized() {
    let mut served = TestHost::new();
    if !served.host.acts_as_callers() {
        return;
    }
    (served.caller.uid, served.caller.gid) = (5, 5);
    let mode = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(served.dir.path(), mode).unwrap();
    };
    for bits in [0o777, 0o733] {
        mode(bits);
        served.create(b"file").await.unwrap();
        served.fail(1);
        assert_eq!(served.remove(b"file").await, Err(Nfsstat3::Io), "{bits:o}");
        served.fail(0);
    }
}

/// Otherwise the change of the size could be between the attributes before and after another change
/// of the file, whose client would take it for its own.
#[tokio::test]
async fn a_create_that_sets_the_size_of_a_file_waits_for_other_changes_of_it() {
    let served = TestHost::new();
    let file = served.create(b"file").await.unwrap();
    served.write(&file, StableHow::FileSync).await.unwrap();
    let (tree, root) = (&served.host.tree, served.host.root());
    let id = tree.resolve(&file).unwrap().id();
    let create = || {
        let how = Createhow3::Unchecked(Sattr3 {
            size: SetSize3::True(0),
            ..Sattr3::UNSET
        });
        tree.create(&served.caller, (&root, b"file"), &how, &mut Wcc::default())
    };
    std::thread::scope(|scope| {
        let other_change = || {
            let created = scope.spawn(create);
            while !tree.locks.is_awaited(id) {
                assert!(!created.is_finished(), "it did not wait");
                std::thread::yield_now();
            }
            assert_eq!(tree.get_attributes(&file).unwrap().size, 4);
            Ok(created)
        };
        let created = tree.locks.with(id, other_change).unwrap();
        let object = created.join().unwrap().unwrap();
        assert_eq!((object.handle, object.attributes.size), (file, 0));
    });
}

/// As above, for WRITE. WRITEs of one file do not wait for each other.
#[tokio::test]
async fn a_write_waits_for_other_changes_of_the_file() {
    let served = TestHost::new();
    let file = served.create(b"file").await.unwrap();
    let tree = &served.host.tree;
    let id = tree.resolve(&file).unwrap().id();
    let write = |stable| {
        let (caller, wcc) = (&served.caller, &mut Wcc::default());
        tree.write(caller, &file, (0, b"data"), stable, wcc)
    };
    for stable in [StableHow::Unstable, StableHow::FileSync] {
        std::thread::scope(|scope| {
            let other_change = || {
                let written = scope.spawn(move || write(stable));
                while !tree.locks.is_awaited(id) {
                    assert!(!written.is_finished(), "it did not wait");
                    std::thread::yield_now();
                }
                Ok(written)
            };
            let written = tree.locks.with(id, other_change).unwrap();
            assert_eq!(written.join().unwrap().unwrap().count, 4);
        });
        let beside = || {
            Ok(std::thread::scope(|scope| {
                scope.spawn(|| write(stable)).join()
            }))
        };
        let written = tree.locks.with_shared(id, beside).unwrap();
        assert_eq!(written.unwrap().unwrap().count, 4);
    }
}

#[tokio::test]
async fn each_start_has_a_new_verifier() {
    let mut verifiers = Vec::new();
    for _ in 0..3 {
        let served = TestHost::new();
        let file = served.create(b"file").await.unwrap();
        verifiers.push(served.commit(&file).await.unwrap());
    }
    verifiers.sort_unstable();
    verifiers.dedup();
    assert_eq!(verifiers.len(), 3);
}

#[tokio::test]
async fn the_root_is_never_evicted() {
    let mut served = TestHost::new();
    let key = HandleKey::random().unwrap();
    let mut tree = Tree::open(served.dir.path(), key, false).unwrap();
    tree.table = Table::new(1);
    served.host = HostFileSystem {
        root: tree.handle(&tree.root().unwrap()).unwrap(),
        tree: tree.into(),
        workers: Workers::default(),
    };
    let first = served.create(b"first").await.unwrap();
    served.create(b"second").await.unwrap();
    let host = &served.host;
    assert_eq!(host.attributes(&first).await, Err(Nfsstat3::Stale));
    assert!(host.attributes(&host.root()).await.is_ok());
}

#[tokio::test]
async fn a_removed_file_is_closed() {
    let served = TestHost::new();
    let file = served.create(b"file").await.unwrap();
    served.write(&file, StableHow::Unstable).await.unwrap();
    let is_open = || served.descriptors("file") > 0;
    assert!(is_open());
    served.remove(b"file").await.unwrap();
    assert!(!is_open());
}

/// Otherwise an error in writing its uncommitted bytes back would be lost.
#[tokio::test]
async fn a_file_with_another_name_stays_open() {
    let served = TestHost::new();
    let file = served.create(b"file").await.unwrap();
    served.write(&file, StableHow::Unstable).await.unwrap();
    let before = served.descriptors("file");
    let path = served.dir.path();
    std::fs::hard_link(path.join("file"), path.join("other")).unwrap();
    served.remove(b"file").await.unwrap();
    assert_eq!(served.descriptors("file"), before);
    assert_eq!(served.read(&file).await.unwrap(), b"data");
}

/// The disk space becomes free soon after a process of the host removes a file.
#[tokio::test]
async fn a_file_removed_by_the_host_is_closed_soon() {
    let served = TestHost::new();
    let file = served.create(b"file").await.unwrap();
    served.write(&file, StableHow::FileSync).await.unwrap();
    assert_eq!(served.read(&file).await.unwrap(), b"data");
    std::fs::remove_file(served.dir.path().join("file")).unwrap();
    assert_eq!(served.read(&file).await, Err(Nfsstat3::Stale));
    let idle = served.create(b"idle").await.unwrap();
    assert_eq!(served.read(&idle).await.unwrap(), b"");
    std::fs::remove_file(served.dir.path().join("idle")).unwrap();
    let start = Instant::now();
    // No call arrives in the meantime.
    while served.descriptors("file") + served.descriptors("idle") > 0 {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The host cannot execute a file that is open for writing.
#[tokio::test]
async fn the_host_executes_a_file_written_by_a_client() {
    let served = TestHost::new();
    let program = std::fs::read("/bin/true").unwrap();
    let half = program.len() / 2;
    for (name, parts, stable) in [
        ("one", [0..program.len(), 0..0], StableHow::FileSync),
        ("two", [0..half, half..program.len()], StableHow::Unstable),
    ] {
        let file = served.create(name.as_bytes()).await.unwrap();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let (offset, mut wcc) = (part.start as u64, Wcc::default());
            let data = Item::from(&program[part]);
            let (host, caller) = (&served.host, &served.caller);
            let written = host.write(caller, &file, offset, data, stable, &mut wcc);
            written.await.unwrap();
        }
        if stable == StableHow::Unstable {
            served.commit(&file).await.unwrap();
        }
        let path = served.dir.path().join(name);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        let ran = std::process::Command::new(&path).status();
        assert!(ran.unwrap().success(), "{name}");
    }
}

/// A file that is read many times is opened once.
#[tokio::test]
async fn a_file_stays_open_between_calls() {
    let served = TestHost::new();
    let file = served.create(b"file").await.unwrap();
    for _ in 0..4 {
        served.write(&file, StableHow::FileSync).await.unwrap();
        served.read(&file).await.unwrap();
    }
    let few = served.descriptors("file");
    for _ in 0..100 {
        served.write(&file, StableHow::FileSync).await.unwrap();
        served.read(&file).await.unwrap();
    }
    assert!((2..=3).contains(&few), "{few}");
    assert_eq!(served.descriptors("file"), few);
}

/// A file that a client reads again may have changed on the host.
#[tokio::test]
async fn a_file_that_is_kept_open_is_read_as_it_is() {
    let served = TestHost::new();
    let (file, path) = (served.create(b"file").await.unwrap(), served.dir.path());
    let path = path.join("file");
    for content in ["first", "second, longer", "", "third", "last"] {
        std::fs::write(&path, content).unwrap();
        for _ in 0..3 {
            let (buffers, count) = (ItemAllocator::default(), 8);
            let read = served.host.read(&served.caller, &file, 0, count, &buffers);
            let read = read.await.unwrap();
            let expected = &content.as_bytes()[..content.len().min(8)];
            assert_eq!(read.data.to_vec(), expected);
            assert_eq!(read.eof, content.len() <= 8);
            assert_eq!(read.attributes.size, content.len() as u64);
        }
    }
    std::fs::remove_file(path).unwrap();
    assert_eq!(served.read(&file).await, Err(Nfsstat3::Stale));
}

/// A directory is opened once for many changes, to synchronize it.
#[tokio::test]
async fn a_synchronized_directory_stays_open() {
    for kernel_handles in [true, false] {
        let mut served = TestHost::new();
        let config = HostConfig::new(HandleKey::random().unwrap()).kernel_handles(kernel_handles);
        served.host = HostFileSystem::open(served.dir.path(), config).unwrap();
        let root = served.host.root();
        let place = |name| DirOp {
            dir: &root,
            name: Name::new(name).unwrap(),
        };
        let (new, mut wcc) = (Sattr3::UNSET, Wcc::default());
        let made = served
            .host
            .make_dir(&served.caller, place(b"dir"), &new, &mut wcc);
        let dir = made.await.unwrap().handle;
        let mut counts = BTreeSet::new();
        for _ in 0..3 {
            let (how, name) = (Createhow3::Guarded(new), Name::new(b"file").unwrap());
            let place = DirOp { dir: &dir, name };
            let made = served.host.create(&served.caller, place, &how, &mut wcc);
            made.await.unwrap();
            let removed = served.host.remove(&served.caller, place, &mut wcc);
            removed.await.unwrap();
            counts.insert(served.descriptors("dir"));
            served.fail(1);
            let failed = served.host.create(&served.caller, place, &how, &mut wcc);
            assert_eq!(failed.await.map(drop), Err(Nfsstat3::Io));
            let removed = served.host.remove(&served.caller, place, &mut wcc);
            removed.await.unwrap();
        }
        assert_eq!(counts.len(), 1, "{counts:?}");
        let removed = served
            .host
            .remove_dir(&served.caller, place(b"dir"), &mut wcc);
        removed.await.unwrap();
        assert_eq!(served.descriptors("dir"), 0);
    }
}

#[tokio::test]
async fn short_operations_of_the_servers_user_run_in_place() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let config = HostConfig::new(HandleKey::random().unwrap()).in_place(true);
    let host = HostFileSystem::open(dir.path(), config).unwrap();
    if !host.acts_as_callers() || !host.tree.in_place {
        return;
    }
    let caller = Caller {
        uid: 0,
        gid: 0,
        gids: vec![7],
    };
    let mut test = TestHost { host, caller, dir };
    test.create(b"of-root").await.unwrap();
    assert_eq!(test.host.workers.submitted(), 0);
    // Another user cannot create a name in this directory.
    test.caller.uid = 5;
    assert_eq!(test.create(b"of-user").await, Err(Nfsstat3::Acces));
    assert_eq!(test.host.workers.submitted(), 1);
}

/// The server moves the future of each call several times.
#[tokio::test]
async fn the_future_of_an_operation_does_not_contain_its_work() {
    let TestHost {
        host, caller, dir, ..
    } = TestHost::new();
    let (root, mut one, mut other) = (host.root(), Wcc::default(), Wcc::default());
    let place = |name| DirOp {
        dir: &root,
        name: Name::new(name).unwrap(),
    };
    let how = Createhow3::Guarded(Sattr3::UNSET);
    let create = host.create(&caller, place(b"old"), &how, &mut one);
    assert!(size_of_val(&create) <= 1024, "{}", size_of_val(&create));
    create.await.unwrap();
    let rename = host.rename(&caller, place(b"old"), place(b"new"), &mut one, &mut other);
    assert!(size_of_val(&rename) <= 1024, "{}", size_of_val(&rename));
    rename.await.unwrap();
    assert!(dir.path().join("new").exists());
}

/// The attributes of LOOKUP's results are part of its work: to ask for them is another operation,
/// and they could be those after a change that the lookup has not seen.
#[tokio::test]
async fn a_lookup_returns_the_attributes_of_its_directory() {
    let served = TestHost::new();
    let file = served.create(b"file").await.unwrap();
    let root = served.host.root();
    let attributes = served.host.attributes(&root).await.unwrap();
    let submitted = served.host.workers.submitted();
    for (name, found) in [(&b"file"[..], Ok(file)), (b"none", Err(Nfsstat3::Noent))] {
        let what = DirOp {
            dir: &root,
            name: Name::new(name).unwrap(),
        };
        let mut of_dir = None;
        let looked_up = served.host.lookup(&served.caller, what, &mut of_dir);
        assert_eq!(looked_up.await.map(|object| object.handle), found);
        assert_eq!(of_dir, Some(attributes));
    }
    assert_eq!(served.host.workers.submitted(), submitted + 2);
}

/// Without cookies of the file system, a call keeps no more entries than fit its reply.
#[tokio::test]
async fn a_directory_without_cookies_is_listed_in_parts() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let names: BTreeSet<_> = (0..1000).map(|number| format!("name-{number}")).collect();
    for name in &names {
        std::fs::write(dir.path().join(name), b"").unwrap();
    }
    let config = HostConfig::new(HandleKey::random().unwrap());
    let host = HostFileSystem::open(dir.path(), config).unwrap();
    assert!(!host.tree.has_cookies);
    let (caller, root) = (TestHost::new().caller, host.root());
    for list in [|| DirList::new(1000), || DirList::plus(1000, 4096)] {
        let (mut found, mut cookie) = (Vec::new(), 0);
        loop {
            let mut part = list();
            let most = part.max_entries();
            let end = host.read_dir(&caller, &root, cookie, [0; 8], &mut part);
            let end = end.await.unwrap();
            assert!((1..=most).contains(&part.entries().len()));
            cookie = part.entries().last().unwrap().cookie;
            found.extend(part.into_entries().map(|entry| entry.name));
            if end.eof {
                break;
            }
        }
        assert_eq!(found.len(), names.len() + 2);
        let found: BTreeSet<_> = found.into_iter().collect();
        let listed = |name: &String| found.contains(name.as_bytes());
        assert!(names.iter().all(listed));
    }
}
