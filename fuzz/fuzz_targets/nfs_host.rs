//! Sends a server of NFSv3 and MOUNT, with a directory of the host, what a client likes to send. No
//! reply contains what is outside of the directory, and nothing outside of it changes.
#![no_main]

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::nfs::{Client, Input, contains};
use rpcrdma_nfs::{Export, HandleKey, HostConfig, HostFileSystem, Squash};

const SECRET: &[u8] = b"outside of the export";

fuzz_target!(|bytes: &[u8]| {
    let Some((&config, input)) = bytes.split_first() else {
        return;
    };
    // A client may read what it has written.
    if SECRET.windows(8).any(|part| contains(input, part)) {
        return;
    }
    let parent = parent();
    let dir = prepare(parent.path());
    let outside = Outside::new(parent.path());
    let export = Export::new(host(&dir, config)).squash(match config & 4 {
        0 => Squash::Root,
        _ => Squash::None,
    });
    let mut client = Client::new(export).secret(SECRET);
    for name in ["file", "dir", "up", "link", "absolute"] {
        client.look_up(name);
    }
    client.calls(Input(input));
    drop(client);
    outside.check(parent.path());
    make_removable(&dir);
});

/// Returns a folder, in memory if there is such a file system.
fn parent() -> tempfile::TempDir {
    let mut builder = tempfile::Builder::new();
    builder.permissions(Permissions::from_mode(0o755));
    let in_memory = builder.tempdir_in("/dev/shm");
    let parent = in_memory.or_else(|_| builder.tempdir());
    parent.expect("a folder for temporary files")
}

fn host(dir: &Path, config: u8) -> HostFileSystem {
    let key = HandleKey::random().expect("the host has random bytes");
    let config = HostConfig::new(key)
        .kernel_handles(config & 1 != 0)
        .in_place(config & 2 != 0)
        .sync(false);
    HostFileSystem::open(dir, config).expect("the directory opens")
}

/// Makes the directory that is exported, with links that lead out of it.
fn prepare(parent: &Path) -> PathBuf {
    let dir = parent.join("export");
    let made = || {
        make_dir(&dir, 0o777)?;
        make_dir(&dir.join("dir"), 0o755)?;
        make_file(&dir.join("file"), b"inside")?;
        symlink("..", dir.join("up"))?;
        symlink("../outside/secret", dir.join("link"))?;
        symlink(parent.join("outside"), dir.join("absolute"))
    };
    made().expect("the directory can be made");
    dir
}

/// Makes a directory. Its mode does not depend on the umask, which a server that works in place
/// clears.
fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn make_file(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, Permissions::from_mode(0o644))
}

/// What is beside the directory: the attributes and the names. Times alone would not tell of a
/// change in the same tick of the host's clock.
#[derive(PartialEq, Eq, Debug)]
struct Outside {
    attributes: [[u64; 6]; 3],
    names: [Vec<OsString>; 2],
}

impl Outside {
    fn new(parent: &Path) -> Self {
        let made = || {
            make_dir(&parent.join("outside"), 0o755)?;
            make_file(&parent.join("outside/secret"), SECRET)
        };
        made().expect("the other directory can be made");
        Self::of(parent).expect("it can be read")
    }

    fn of(parent: &Path) -> io::Result<Self> {
        let dir = parent.join("outside");
        Ok(Self {
            attributes: [
                attributes(parent)?,
                attributes(&dir)?,
                attributes(&dir.join("secret"))?,
            ],
            names: [names(parent)?, names(&dir)?],
        })
    }

    fn check(&self, parent: &Path) {
        let secret = parent.join("outside/secret");
        assert_eq!(fs::read(secret).expect("it is there"), SECRET);
        assert_eq!(Self::of(parent).expect("it can be read"), *self);
    }
}

fn attributes(path: &Path) -> io::Result<[u64; 6]> {
    let found = fs::metadata(path)?;
    let [mode, uid, gid] = [found.mode(), found.uid(), found.gid()].map(u64::from);
    let modified = found.mtime().cast_unsigned();
    Ok([mode, uid, gid, found.nlink(), found.size(), modified])
}

fn names(dir: &Path) -> io::Result<Vec<OsString>> {
    let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name()));
    let mut names: Vec<_> = names.collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

/// Lets this process remove a directory, whatever the client has done to its permissions.
fn make_removable(dir: &Path) {
    _ = fs::set_permissions(dir, Permissions::from_mode(0o700));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_removable(&entry.path());
        }
    }
}
