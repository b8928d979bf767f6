//! Cookies while a directory changes.

use std::collections::HashMap;
use std::fs;

use rpcrdma_nfs::nfs3::owned::Readdir3res;
use rpcrdma_nfs::nfs3::{Readdir3args, Remove3args};

use crate::backends::host::{HostDir, skipped};
use crate::service::support::{World, fh, place, with_host};

const ENTRIES: usize = 10_000;

/// Lists a directory in small parts, and calls `each` with the names of each part. Returns how
/// often each name occurred.
async fn list(
    world: &World,
    dir: &[u8],
    mut each: impl AsyncFnMut(&[String]),
) -> HashMap<String, usize> {
    let (mut seen, mut cookie) = (HashMap::new(), 0);
    loop {
        let args = Readdir3args {
            dir: fh(dir),
            cookie,
            cookieverf: [0; 8],
            count: 8192,
        };
        let Readdir3res::Ok(part) = world.nfs.readdir(&args).await.unwrap() else {
            panic!("fails");
        };
        let entries = part.reply.entries.iter();
        let names: Vec<_> = entries
            .map(|entry| entry.name.to_str().unwrap().to_owned())
            .collect();
        for name in &names {
            *seen.entry(name.clone()).or_default() += 1;
        }
        each(&names).await;
        cookie = part.reply.entries.last().map_or(cookie, |last| last.cookie);
        if part.reply.eof {
            return seen;
        }
    }
}

/// Runs a test with a directory of many entries, on each kind of file system.
fn with_entries(test: impl AsyncFn(&World, &HostDir)) {
    let in_memory = HostDir::in_memory(0o755);
    if in_memory.is_none() {
        skipped("there is no file system in memory");
    }
    for dir in [Some(HostDir::new(0o755)), in_memory].into_iter().flatten() {
        for at in 0..ENTRIES {
            fs::write(dir.path.join(format!("file-{at}")), "").unwrap();
        }
        with_host(dir.open(), async |world| test(world, &dir).await);
    }
}

#[test]
fn removals_during_a_listing_hide_no_entries() {
    with_entries(async |world, dir| {
        let seen = list(world, &world.root, async |names: &[String]| {
            for name in names.iter().filter(|name| !name.starts_with('.')) {
                let args = Remove3args {
                    object: place(&world.root, name.as_bytes()),
                };
                world.nfs.remove(&args).await.unwrap();
            }
        });
        assert_eq!(seen.await.len(), ENTRIES + 2);
        assert_eq!(fs::read_dir(&dir.path).unwrap().count(), 0);
    });
}

#[test]
fn unchanged_entries_are_listed_once() {
    with_entries(async |world, dir| {
        let mut added = 0;
        let seen = list(world, &world.root, async |names: &[String]| {
            // After each part, the host removes every other name of it, and adds as many.
            for name in names.iter().filter(|name| name.ends_with('7')) {
                fs::remove_file(dir.path.join(name)).unwrap();
                fs::write(dir.path.join(format!("new-{added}")), "").unwrap();
                added += 1;
            }
        });
        let seen = seen.await;
        for at in 0..ENTRIES {
            assert_eq!(seen.get(&format!("file-{at}")), Some(&1), "{at}");
        }
    });
}

#[test]
fn the_parent_of_the_root_is_the_root() {
    let dir = HostDir::new(0o755);
    with_host(dir.open(), async |world| {
        let args = Readdir3args {
            dir: fh(&world.root),
            cookie: 0,
            cookieverf: [0; 8],
            count: 4096,
        };
        let Readdir3res::Ok(part) = world.nfs.readdir(&args).await.unwrap() else {
            panic!("fails");
        };
        let fileid = world.attributes(&world.root).await.unwrap().fileid;
        assert_eq!(part.reply.entries.len(), 2);
        assert!(
            part.reply
                .entries
                .iter()
                .all(|entry| entry.fileid == fileid)
        );
    });
}
