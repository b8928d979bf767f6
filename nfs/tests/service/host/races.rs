//! Paths that change while they are used: no access leads out of the directory.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rpcrdma_nfs::nfs3::{
    Create3args, Createhow3, Nfsstat3, Readdirplus3args, Remove3args, Rename3args, Sattr3,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::backends::host::HostDir;
use crate::service::support::{World, fh, place, with_host};

/// The duration of a race.
const TIME: Duration = Duration::from_secs(2);

/// Sets a flag when the test ends, even after a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a test while another thread repeats an action.
fn race(again: impl Fn() + Sync, test: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                again();
            }
        });
        let _end = End(&ended);
        test();
    });
}

fn exchange(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
}

/// Calls every procedure with a name of the root that could access the target of a symbolic link.
async fn attack(world: &World, name: &[u8]) {
    let Ok(found) = world.lookup(&world.root, name).await else {
        return;
    };
    for inner in [&b"secret"[..], b"..", b"."] {
        let _ = world.lookup(&found, inner).await;
    }
    let secret = world.lookup(&found, b"secret").await;
    assert!(matches!(secret, Err(Nfsstat3::Noent | Nfsstat3::Notdir)));
    for name in [&b"made"[..], b"secret"] {
        let args = Create3args {
            r#where: place(&found, name),
            how: Createhow3::Unchecked(Sattr3::UNSET),
        };
        let made = world.nfs.create(&args).await.unwrap().status();
        assert!(matches!(made, Nfsstat3::Ok | Nfsstat3::Notdir), "{made:?}");
        let from = place(&found, name);
        let args = Rename3args {
            from,
            to: place(&found, b"moved"),
        };
        world.nfs.rename(&args).await.unwrap();
        let args = Remove3args {
            object: place(&found, b"moved"),
        };
        world.nfs.remove(&args).await.unwrap();
    }
}

#[test]
fn a_directory_replaced_by_a_symbolic_link_is_not_followed() {
    let dir = HostDir::new(0o755);
    let (outside, inside) = (dir.path.with_file_name("outside"), dir.path.join("swapped"));
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    fs::create_dir(&inside).unwrap();
    let link = dir.path.join("link");
    symlink(&outside, &link).unwrap();
    race(
        || exchange(&inside, &link),
        || {
            with_host(dir.open(), async |world| {
                let end = Instant::now() + TIME;
                while Instant::now() < end {
                    attack(world, b"swapped").await;
                    attack(world, b"link").await;
                    let args = Readdirplus3args {
                        dir: fh(&world.root),
                        cookie: 0,
                        cookieverf: [0; 8],
                        dircount: 8192,
                        maxcount: 8192,
                    };
                    world.nfs.readdirplus(&args).await.unwrap();
                }
            });
        },
    );
    let left: Vec<_> = fs::read_dir(&outside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["secret"]);
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
}

#[test]
fn a_directory_moved_out_has_no_parent() {
    let dir = HostDir::new(0o755);
    let outside = dir.path.with_file_name("outside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir_all(dir.path.join("above/moved")).unwrap();
    let (here, there) = (dir.path.join("above/moved"), outside.join("moved"));
    let number = |path: &Path| fs::metadata(path).unwrap().ino();
    let (above, moved) = (number(&dir.path.join("above")), number(&here));
    let [found, refused] = [(); 2].map(|()| AtomicUsize::new(0));
    race(
        || {
            fs::rename(&here, &there).unwrap();
            fs::rename(&there, &here).unwrap();
        },
        || {
            with_host(dir.open(), async |world| {
                let above_handle = world.lookup(&world.root, b"above").await.unwrap();
                let handle = loop {
                    if let Ok(handle) = world.lookup(&above_handle, b"moved").await {
                        break handle;
                    }
                };
                assert_eq!(world.attributes(&handle).await.unwrap().fileid, moved);
                let end = Instant::now() + TIME;
                while Instant::now() < end {
                    let parent = world.lookup(&handle, b"..").await;
                    match parent {
                        Ok(parent) => {
                            found.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(world.attributes(&parent).await.unwrap().fileid, above);
                        }
                        Err(status) => {
                            refused.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(status, Nfsstat3::Stale);
                        }
                    }
                }
            });
        },
    );
    let counts = [found.into_inner(), refused.into_inner()];
    assert!(!counts.contains(&0), "{counts:?}");
}
