//! Cases of file systems, after the basic and special tests of the Connectathon suite: `cases list`
//! prints their names, and `cases NAME DIR` runs one in a directory, which it leaves as it was.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// ENAMETOOLONG and EINVAL of Linux.
const NAME_TOO_LONG: i32 = 36;
const INVALID: i32 = 22;

type Case = fn(&Path) -> io::Result<()>;

const CASES: [(&str, Case); 18] = [
    ("tree", tree),
    ("lookups", lookups),
    ("attributes", attributes),
    ("data", data),
    ("readdir-and-remove", readdir_and_remove),
    ("links-and-renames", links_and_renames),
    ("symlinks", symlinks),
    ("open-and-removed", open_and_removed),
    ("open-and-replaced", open_and_replaced),
    ("open-without-permission", open_without_permission),
    ("exclusive", exclusive),
    ("negative-seek", negative_seek),
    ("rename-back-and-forth", rename_back_and_forth),
    ("holes", holes),
    ("truncation", truncation),
    ("append", append),
    ("large-offsets", large_offsets),
    ("long-names", long_names),
];

fn ensure(holds: bool, what: impl Into<String>) -> io::Result<()> {
    if holds {
        Ok(())
    } else {
        Err(io::Error::other(what.into()))
    }
}

fn options() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true);
    options
}

/// Returns bytes that differ from those of another seed.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(31) ^ (at >> 8) ^ seed.wrapping_mul(97)) as u8;
    (0..len).map(byte).collect()
}

fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// Returns the names in a directory, each of which may be there once.
fn names(dir: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_new = names.insert(name.clone());
        ensure(is_new, format!("{name} is listed twice"))?;
    }
    Ok(names)
}

/// Creates a tree of depth 5, with 5 files and 2 directories at each place.
fn grow(dir: &Path, depth: u32) -> io::Result<()> {
    for number in 0..5 {
        File::create_new(dir.join(format!("file.{number}")))?;
    }
    for number in 0..if depth > 1 { 2 } else { 0 } {
        let below = dir.join(format!("dir.{number}"));
        fs::create_dir(&below)?;
        grow(&below, depth - 1)?;
    }
    Ok(())
}

/// Counts files and directories below a directory, and removes them.
fn cut_down(dir: &Path) -> io::Result<(u32, u32)> {
    let (mut files, mut dirs) = (0, 0);
    for name in names(dir)? {
        let path = dir.join(name);
        if fs::symlink_metadata(&path)?.is_dir() {
            let (more_files, more_dirs) = cut_down(&path)?;
            fs::remove_dir(&path)?;
            (files, dirs) = (files + more_files, dirs + more_dirs + 1);
        } else {
            fs::remove_file(&path)?;
            files += 1;
        }
    }
    Ok((files, dirs))
}

fn tree(dir: &Path) -> io::Result<()> {
    grow(dir, 5)?;
    let found = cut_down(dir)?;
    ensure(found == (155, 30), format!("{found:?} were there"))
}

fn lookups(dir: &Path) -> io::Result<()> {
    let before = env::current_dir()?;
    for _ in 0..100 {
        env::set_current_dir(dir)?;
        let here = env::current_dir()?;
        ensure(here == fs::canonicalize(".")?, "getcwd tells another place")?;
        ensure(fs::metadata("..")?.is_dir(), "no parent")?;
    }
    env::set_current_dir(before)
}

fn attributes(dir: &Path) -> io::Result<()> {
    for number in 0..10 {
        let path = dir.join(number.to_string());
        File::create_new(&path)?.write_all(b"bytes")?;
        for mode in [0o000, 0o666, 0o4755, 0o2711, 0o1644].repeat(4) {
            fs::set_permissions(&path, Permissions::from_mode(mode))?;
            let found = fs::metadata(&path)?;
            let shown = found.mode() & 0o7777;
            ensure(shown == mode, format!("mode {shown:o} instead of {mode:o}"))?;
            ensure(found.len() == 5, "another size")?;
        }
        fs::remove_file(&path)?;
    }
    Ok(())
}

fn data(dir: &Path) -> io::Result<()> {
    let path = dir.join("data");
    let bytes = pattern(1, 1 << 20);
    for round in 0..4 {
        let mut file = File::create(&path)?;
        for part in bytes.chunks(8192) {
            file.write_all(part)?;
        }
        let found = file.metadata()?.len();
        ensure(found == 1 << 20, format!("{found} bytes in round {round}"))?;
        drop(file);
        ensure(fs::read(&path)? == bytes, "other bytes")?;
    }
    fs::remove_file(&path)
}

/// Each name is removed once it is listed, while the directory is read.
fn readdir_and_remove(dir: &Path) -> io::Result<()> {
    let count = 200;
    for number in 0..count {
        File::create_new(dir.join(format!("file.{number}")))?;
    }
    ensure(names(dir)?.len() == count, "names are missing")?;
    let mut removed = 0;
    for entry in fs::read_dir(dir)? {
        fs::remove_file(entry?.path())?;
        removed += 1;
    }
    ensure(removed == count, format!("{removed} were listed"))?;
    ensure(names(dir)?.is_empty(), "names are left")
}

fn links_and_renames(dir: &Path) -> io::Result<()> {
    for number in 0..10 {
        let [file, new] = ["file", "new"].map(|kind| dir.join(format!("{kind}.{number}")));
        File::create_new(&file)?;
        for _ in 0..10 {
            fs::rename(&file, &new)?;
            ensure(fs::metadata(&file).is_err(), "the old name is there")?;
            fs::hard_link(&new, &file)?;
            for path in [&new, &file] {
                ensure(fs::metadata(path)?.nlink() == 2, "not two links")?;
            }
            let one = fs::metadata(&new)?.ino() == fs::metadata(&file)?.ino();
            ensure(one, "two objects")?;
            fs::remove_file(&new)?;
            ensure(fs::metadata(&file)?.nlink() == 1, "not one link")?;
        }
        fs::remove_file(&file)?;
    }
    Ok(())
}

fn symlinks(dir: &Path) -> io::Result<()> {
    for number in 0..20 {
        let path = dir.join(format!("symlink.{number}"));
        let target = format!("/this/is/a/symlink/{}", "x".repeat(number * 50));
        symlink(&target, &path)?;
        let found = fs::symlink_metadata(&path)?;
        ensure(found.is_symlink(), "no symbolic link")?;
        ensure(found.len() == target.len() as u64, "another size")?;
        ensure(
            fs::read_link(&path)? == Path::new(&target),
            "another target",
        )?;
        fs::remove_file(&path)?;
    }
    Ok(())
}

/// A client of NFS keeps an open object by a name of its own, and removes it after the last close.
fn is_soon_empty(dir: &Path) -> io::Result<()> {
    let began = Instant::now();
    while !names(dir)?.is_empty() {
        ensure(began.elapsed() < Duration::from_secs(20), "names are left")?;
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// What is open when its last name ends is still there for who has it open.
fn open_and_removed(dir: &Path) -> io::Result<()> {
    let path = dir.join("file");
    let mut file = options().create_new(true).open(&path)?;
    file.write_all(b"before")?;
    fs::remove_file(&path)?;
    ensure(fs::metadata(&path).is_err(), "its name is there")?;
    file.write_all(b" and after")?;
    file.seek(SeekFrom::Start(0))?;
    let mut found = String::new();
    file.read_to_string(&mut found)?;
    ensure(found == "before and after", found)?;
    drop(file);
    is_soon_empty(dir)
}

fn open_and_replaced(dir: &Path) -> io::Result<()> {
    let [old, new] = ["old", "new"].map(|name| dir.join(name));
    fs::write(&old, "old bytes")?;
    fs::write(&new, "new")?;
    let opened = options().open(&old)?;
    fs::rename(&new, &old)?;
    ensure(fs::read_to_string(&old)? == "new", "not replaced")?;
    ensure(read_at(&opened, 0, 9)? == *b"old bytes", "other bytes")?;
    opened.write_all_at(b"OLD", 0)?;
    opened.sync_all()?;
    ensure(read_at(&opened, 0, 9)? == *b"OLD bytes", "not written")?;
    ensure(
        fs::read_to_string(&old)? == "new",
        "the wrong file is written",
    )?;
    drop(opened);
    fs::remove_file(&old)?;
    is_soon_empty(dir)
}

fn open_without_permission(dir: &Path) -> io::Result<()> {
    let path = dir.join("file");
    let file = options().create_new(true).open(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0))?;
    file.write_all_at(&pattern(2, 10_000), 0)?;
    file.sync_all()?;
    ensure(
        read_at(&file, 0, 10_000)? == pattern(2, 10_000),
        "other bytes",
    )?;
    fs::remove_file(&path)
}

fn exclusive(dir: &Path) -> io::Result<()> {
    let path = dir.join("file");
    File::create_new(&path)?.write_all(b"kept")?;
    let again = File::create_new(&path).map_err(|error| error.kind());
    let refused = matches!(again, Err(io::ErrorKind::AlreadyExists));
    ensure(refused, "created again")?;
    ensure(fs::read(&path)? == b"kept", "not kept")?;
    fs::remove_file(&path)
}

fn negative_seek(dir: &Path) -> io::Result<()> {
    let path = dir.join("file");
    let mut file = options().create_new(true).open(&path)?;
    file.write_all(b"0123456789")?;
    let sought = file.seek(SeekFrom::Current(-11));
    let refused = sought.is_err_and(|error| error.raw_os_error() == Some(INVALID));
    ensure(refused, "a negative offset")?;
    ensure(file.stream_position()? == 10, "the offset has changed")?;
    fs::remove_file(&path)
}

fn rename_back_and_forth(dir: &Path) -> io::Result<()> {
    let [one, two] = ["one", "two"].map(|name| dir.join(name));
    fs::create_dir(&one)?;
    fs::write(one.join("file"), "bytes")?;
    for _ in 0..100 {
        fs::rename(&one, &two)?;
        fs::rename(&two, &one)?;
    }
    ensure(fs::read(one.join("file"))? == b"bytes", "other bytes")?;
    ensure(names(dir)?.len() == 1, "names are left")?;
    fs::remove_dir_all(&one)
}

fn holes(dir: &Path) -> io::Result<()> {
    let path = dir.join("file");
    let file = options().create_new(true).open(&path)?;
    let parts = [0, 3, 7, 20, 51].map(|part| (part * 5_003, pattern(part as usize, 517)));
    for (offset, bytes) in &parts {
        file.write_all_at(bytes, *offset)?;
    }
    drop(file);
    let found = fs::read(&path)?;
    let mut expected = vec![0; 51 * 5_003 + 517];
    for (offset, bytes) in &parts {
        let start = *offset as usize;
        expected[start..start + bytes.len()].copy_from_slice(bytes);
    }
    ensure(found == expected, "other bytes")?;
    fs::remove_file(&path)
}

/// What was cut off is zero when the file grows again.
fn truncation(dir: &Path) -> io::Result<()> {
    let path = dir.join("file");
    let file = options().create_new(true).open(&path)?;
    for (round, cut) in [0, 1, 4_095, 4_096, 4_097, 65_537].into_iter().enumerate() {
        let bytes = pattern(round, 100_000);
        file.write_all_at(&bytes, 0)?;
        file.set_len(cut)?;
        ensure(file.metadata()?.len() == cut, "another size")?;
        file.set_len(100_000)?;
        let found = read_at(&file, 0, 100_000)?;
        let (kept, zero) = found.split_at(cut as usize);
        ensure(*kept == bytes[..cut as usize], "other bytes")?;
        ensure(zero.iter().all(|byte| *byte == 0), "bytes come back")?;
    }
    drop(file);
    ensure(File::create(&path)?.metadata()?.len() == 0, "O_TRUNC")?;
    fs::remove_file(&path)
}

fn append(dir: &Path) -> io::Result<()> {
    let path = dir.join("file");
    let open = || File::options().create(true).append(true).open(&path);
    let mut ends = [open()?, open()?];
    let mut expected = Vec::new();
    for round in 0..100 {
        let bytes = pattern(round, 100 + round);
        ends[round % 2].write_all(&bytes)?;
        expected.extend_from_slice(&bytes);
    }
    ensure(fs::read(&path)? == expected, "other bytes")?;
    fs::remove_file(&path)
}

/// Around the limits of 31 and of 32 bits, and far beyond them.
fn large_offsets(dir: &Path) -> io::Result<()> {
    let path = dir.join("file");
    let file = options().create_new(true).open(&path)?;
    let offsets = [31, 32, 33, 40].map(|bits| (1_u64 << bits) - 5_000);
    for (seed, offset) in offsets.into_iter().enumerate() {
        file.write_all_at(&pattern(seed, 10_000), offset)?;
        file.sync_all()?;
        let len = file.metadata()?.len();
        ensure(len == offset + 10_000, format!("{len} bytes"))?;
    }
    drop(file);
    let file = File::open(&path)?;
    for (seed, offset) in offsets.into_iter().enumerate() {
        let right = read_at(&file, offset, 10_000)? == pattern(seed, 10_000);
        ensure(right, format!("other bytes at {offset}"))?;
        let before = read_at(&file, offset - 100, 100)?;
        ensure(before == [0; 100], format!("bytes before {offset}"))?;
    }
    let file = options().open(&path)?;
    for len in [(1 << 32) + 1, 1 << 32, (1 << 32) - 1, (1 << 31) + 1] {
        file.set_len(len)?;
        ensure(fs::metadata(&path)?.len() == len, "another size")?;
    }
    fs::remove_file(&path)
}

fn is_too_long<T>(result: io::Result<T>) -> io::Result<()> {
    let error = result.err().and_then(|error| error.raw_os_error());
    ensure(error == Some(NAME_TOO_LONG), format!("error {error:?}"))
}

/// Names of 255 bytes, of one and of several bytes each character, in every operation; and of 256.
fn long_names(dir: &Path) -> io::Result<()> {
    for name in [
        "x".repeat(255),
        "\u{e9}".repeat(127) + "x",
        "\u{2603}".repeat(85),
    ] {
        let path = dir.join(&name);
        File::create_new(&path)?;
        fs::rename(&path, dir.join("short"))?;
        fs::hard_link(dir.join("short"), &path)?;
        ensure(names(dir)?.contains(&name), "not listed")?;
        fs::remove_file(&path)?;
        fs::create_dir(&path)?;
        symlink("target", path.join(&name))?;
        let long = path.join(&name);
        ensure(
            fs::read_link(&long)?.as_os_str().as_bytes() == b"target",
            "another target",
        )?;
        fs::remove_dir_all(&path)?;
        fs::remove_file(dir.join("short"))?;
    }
    fs::write(dir.join("there"), "")?;
    for len in [256, 257, 1_000, 4_000] {
        let (there, long) = (dir.join("there"), dir.join("x".repeat(len)));
        is_too_long(File::create_new(&long))?;
        is_too_long(fs::metadata(&long))?;
        is_too_long(fs::create_dir(&long))?;
        is_too_long(symlink("target", &long))?;
        is_too_long(fs::hard_link(&there, &long))?;
        is_too_long(fs::rename(&there, &long))?;
        is_too_long(fs::remove_file(&long))?;
        is_too_long(fs::remove_dir(&long))?;
    }
    fs::remove_file(dir.join("there"))
}

fn run(arguments: &[&str]) -> io::Result<()> {
    match arguments {
        ["list"] => CASES.iter().for_each(|(name, _)| println!("{name}")),
        [name, dir] => {
            let case = CASES.iter().find(|(known, _)| known == name);
            let (_, case) = case.ok_or_else(|| io::Error::other("no such case"))?;
            let dir = Path::new(dir).join(format!("case-{name}"));
            fs::create_dir(&dir)?;
            case(&dir)?;
            // It is empty.
            fs::remove_dir(&dir)?;
        }
        _ => return Err(io::Error::other("see the head of cases.rs")),
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cases: {error}");
            ExitCode::FAILURE
        }
    }
}
