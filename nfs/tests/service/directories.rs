//! READDIR and READDIRPLUS: sections 3.3.16 and 3.3.17.

use oncrpc::xdr::Wire as _;
use rpcrdma_nfs::nfs3::owned::{Readdir3res, Readdir3resok, Readdirplus3res};
use rpcrdma_nfs::nfs3::{Fattr3, Nfsstat3, Readdir3args, Readdirplus3args, Remove3args};

use crate::service::support::{
    World, attributes_of, each_transport, fh, handle_of, open, place, user,
};

async fn part(
    world: &World,
    dir: &[u8],
    cookie: u64,
    count: u32,
) -> Result<Readdir3resok, Nfsstat3> {
    let args = Readdir3args {
        dir: fh(dir),
        cookie,
        cookieverf: [0; 8],
        count,
    };
    match world.nfs.readdir(&args).await.unwrap() {
        Readdir3res::Ok(ok) => Ok(*ok),
        Readdir3res::Default(status, _) => Err(status),
    }
}

async fn fill(world: &World, dir: &[u8], count: usize) -> Vec<String> {
    let names: Vec<_> = (0..count)
        .map(|at| format!("file-{at:0width$}", width = at % 90))
        .collect();
    for name in &names {
        world.file(dir, name, 0o644).await;
    }
    names
}

fn names(part: &Readdir3resok) -> Vec<String> {
    let names = part.reply.entries.iter();
    names
        .map(|entry| entry.name.to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_entry_is_returned_once() {
    each_transport(open, async |world| {
        let dir = world.dir(&world.root, "dir", 0o755).await;
        let mut expected = vec![".".to_owned(), "..".to_owned()];
        expected.extend(fill(world, &dir, 150).await);
        expected.sort();
        for count in [300, 512, 4096, 65536, u32::MAX] {
            let (mut found, mut cookie) = (Vec::new(), 0);
            loop {
                let part = part(world, &dir, cookie, count).await.unwrap();
                assert!(size(&part) <= count as usize);
                found.extend(names(&part));
                cookie = part.reply.entries.last().map_or(cookie, |last| last.cookie);
                if part.reply.eof {
                    break;
                }
            }
            found.sort();
            assert_eq!(found, expected);
        }
    });
}

/// Returns the bytes of a READDIR3resok in XDR.
fn size(part: &Readdir3resok) -> usize {
    let entries = part.reply.entries.iter();
    let entries: usize = entries
        .map(|entry| 4 + 8 + 4 + entry.name.as_bytes().len().next_multiple_of(4) + 8)
        .sum();
    4 + rpcrdma_nfs::nfs3::Fattr3::MIN + 8 + entries + 4 + 4
}

#[test]
fn entries_have_the_fileids_of_their_objects() {
    each_transport(open, async |world| {
        let dir = world.dir(&world.root, "dir", 0o755).await;
        let file = world.file(&dir, "file", 0o644).await;
        let part = part(world, &dir, 0, 4096).await.unwrap();
        for (name, object) in [(".", &dir), ("..", &world.root), ("file", &file)] {
            let fileid = world.attributes(object).await.unwrap().fileid;
            let entries = &part.reply.entries;
            let entry = entries
                .iter()
                .find(|entry| entry.name.to_str() == Ok(name))
                .unwrap();
            assert_eq!(entry.fileid, fileid);
            assert_ne!((entry.fileid, entry.cookie), (0, 0));
        }
        assert_eq!(attributes_of(&part.dir_attributes).nlink, 2);
    });
}

#[test]
fn cookies_stay_valid_while_entries_change() {
    each_transport(open, async |world| {
        let dir = world.dir(&world.root, "dir", 0o755).await;
        let mut names_before = fill(world, &dir, 40).await;
        let first = part(world, &dir, 0, 800).await.unwrap();
        assert!(!first.reply.eof);
        let seen = names(&first);
        // Entries that were returned are removed, including the one of the cookie.
        for name in seen.iter().filter(|name| !name.starts_with('.')) {
            let args = Remove3args {
                object: place(&dir, name.as_bytes()),
            };
            world.nfs.remove(&args).await.unwrap();
        }
        let cookie = first.reply.entries.last().unwrap().cookie;
        world.file(&dir, "new", 0o644).await;
        let rest = names(&part(world, &dir, cookie, 65536).await.unwrap());
        let mut all: Vec<_> = seen.into_iter().chain(rest).collect();
        all.retain(|name| !name.starts_with('.') && name != "new");
        all.sort();
        names_before.sort();
        assert_eq!(all, names_before);
    });
}

#[test]
fn readdir_rejects_invalid_arguments() {
    each_transport(open, async |world| {
        let file = world.file(&world.root, "file", 0o644).await;
        let root = &world.root;
        let status = async |dir: &[u8], cookie, count| part(world, dir, cookie, count).await.err();
        assert_eq!(status(&file, 0, 4096).await, Some(Nfsstat3::Notdir));
        assert_eq!(
            status(&[7; 16], 0, 4096).await,
            Some(world.expected.unknown)
        );
        for count in [0, 100, 130] {
            assert_eq!(status(root, 0, count).await, Some(Nfsstat3::Toosmall));
        }
        // Other file systems may continue at any position.
        let never_given = if world.expected.is_memory {
            1000
        } else {
            u64::MAX
        };
        for cookie in [never_given, u64::MAX] {
            assert_eq!(status(root, cookie, 4096).await, Some(Nfsstat3::BadCookie));
        }
        let args = Readdir3args {
            dir: fh(root),
            cookie: 1,
            cookieverf: [1; 8],
            count: 4096,
        };
        let failed = world.nfs.readdir(&args).await.unwrap();
        assert_eq!(failed.status(), Nfsstat3::BadCookie);
        let secret = world.dir(root, "secret", 0o711).await;
        let args = Readdir3args {
            dir: fh(&secret),
            cookie: 0,
            cookieverf: [0; 8],
            count: 4096,
        };
        let failed = world.nfs.readdir(&args).credentials(user(5)).await.unwrap();
        assert_eq!(failed.status(), Nfsstat3::Acces);
    });
}

#[test]
fn readdirplus_respects_both_bounds() {
    each_transport(open, async |world| {
        let dir = world.dir(&world.root, "dir", 0o755).await;
        let expected = fill(world, &dir, 60).await.len() + 2;
        for (dircount, maxcount) in [(200, 65536), (65536, 700), (65536, 65536), (0, 65536)] {
            let (mut count, mut cookie) = (0, 0);
            loop {
                let args = Readdirplus3args {
                    dir: fh(&dir),
                    cookie,
                    cookieverf: [0; 8],
                    dircount,
                    maxcount,
                };
                let Readdirplus3res::Ok(ok) = world.nfs.readdirplus(&args).await.unwrap() else {
                    panic!("fails");
                };
                let entries = ok.reply.entries.into_inner();
                let (mut names, mut all) = (0, 104);
                for entry in entries {
                    let name = 8 + 4 + entry.name.as_bytes().len().next_multiple_of(4) + 8;
                    names += name;
                    all += 4 + name + 88 + 24;
                    count += 1;
                    cookie = entry.cookie;
                    let handle = handle_of(entry.name_handle);
                    let found = world.lookup(&dir, entry.name.as_bytes()).await;
                    assert_eq!(found, Ok(handle.clone()));
                    let attributes = world.attributes(&handle).await.unwrap();
                    let found = attributes_of(&entry.name_attributes);
                    // Listing a directory may change its atime.
                    let atime = attributes.atime;
                    assert_eq!(Fattr3 { atime, ..found }, attributes);
                    assert_eq!(entry.fileid, attributes.fileid);
                }
                assert!(all <= maxcount as usize);
                assert!(names <= dircount as usize || dircount == 0);
                if ok.reply.eof {
                    break;
                }
            }
            assert_eq!(count, expected);
        }
        let args = Readdirplus3args {
            dir: fh(&dir),
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 4096,
            maxcount: 200,
        };
        let failed = world.nfs.readdirplus(&args).await.unwrap();
        assert_eq!(failed.status(), Nfsstat3::Toosmall);
        let args = Readdirplus3args {
            dir: fh(&dir),
            cookie: u64::MAX,
            maxcount: 4096,
            ..args
        };
        let failed = world.nfs.readdirplus(&args).await.unwrap();
        assert_eq!(failed.status(), Nfsstat3::BadCookie);
    });
}
