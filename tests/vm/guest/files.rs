//! Measures a file system: `files transfer FILE read|write BYTES BLOCK THREADS SECONDS` moves
//! blocks with O_DIRECT, at random offsets if they are smaller than 64 KiB, and prints blocks per
//! second; `files names DIR COUNT THREADS` creates, looks up and removes files, and prints the rate
//! of each; `files fill DIR COUNT THREADS` creates empty files; `files check DIR SECONDS` changes
//! names, none of which may be changed twice; `files commit DIR SECONDS` writes and synchronizes
//! (see the jobs `mount_cuts` and `mount_kill`).

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// O_DIRECT of Linux on x86-64.
const DIRECT: i32 = 0o40000;
const PAGE: usize = 4096;

/// A page-aligned block, as O_DIRECT needs it.
struct Block(Vec<u8>, usize, usize);

impl Block {
    fn new(len: usize) -> Self {
        let bytes = vec![0x5a; len + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE);
        Self(bytes, start, len)
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0[self.1..self.1 + self.2]
    }
}

/// A generator of offsets (xorshift).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn transfer(
    path: &Path,
    write: bool,
    size: u64,
    block: u64,
    threads: u64,
    time: u64,
) -> io::Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .write(write)
        .custom_flags(DIRECT)
        .open(path)?;
    let (done, start) = (AtomicU64::new(0), Instant::now());
    let end = start + Duration::from_secs(time);
    let position = AtomicU64::new(0);
    let blocks = size / block;
    let work = |thread: u64| -> io::Result<()> {
        let mut bytes = Block::new(block as usize);
        let mut state = 0x9e37_79b9_7f4a_7c15 ^ (thread + 1);
        while Instant::now() < end {
            let number = if block < 64 << 10 {
                next(&mut state) % blocks
            } else {
                position.fetch_add(1, Ordering::Relaxed) % blocks
            };
            if write {
                file.write_all_at(bytes.bytes(), number * block)?;
            } else {
                file.read_exact_at(bytes.bytes(), number * block)?;
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    each(threads, work)?;
    println!(
        "{:.1}",
        done.into_inner() as f64 / start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Runs work on this number of threads.
fn each(threads: u64, work: impl Fn(u64) -> io::Result<()> + Sync) -> io::Result<()> {
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn({
                    let work = &work;
                    move || work(thread)
                })
            })
            .collect();
        all.into_iter()
            .try_for_each(|one| one.join().expect("a thread panics"))
    })
}

fn names(dir: &Path, count: u64, threads: u64) -> io::Result<()> {
    let path = |number: u64| dir.join(format!("file-{number}"));
    let steps: [&(dyn Fn(u64) -> io::Result<()> + Sync); 3] = [
        &|number| File::create_new(path(number)).map(drop),
        &|number| fs::metadata(path(number)).map(drop),
        &|number| fs::remove_file(path(number)),
    ];
    let mut rates = Vec::new();
    for step in steps {
        let start = Instant::now();
        each(threads, |thread| {
            (thread..count).step_by(threads as usize).try_for_each(step)
        })?;
        rates.push(format!(
            "{:.1}",
            count as f64 / start.elapsed().as_secs_f64()
        ));
    }
    println!("{}", rates.join(" "));
    Ok(())
}

fn fill(dir: &Path, count: u64, threads: u64) -> io::Result<()> {
    each(threads, |thread| {
        let mut numbers = (thread..count).step_by(threads as usize);
        numbers
            .try_for_each(|number| File::create_new(dir.join(format!("file-{number}"))).map(drop))
    })
}

/// Writes and synchronizes files with contents that match their names, and renames, links and
/// removes them, for some time. No operation may fail, and none may be executed twice.
fn check(dir: &Path, time: u64) -> io::Result<()> {
    let end = Instant::now() + Duration::from_secs(time);
    let rounds = AtomicU64::new(0);
    each(4, |thread| {
        let dir = dir.join(format!("t{thread}"));
        fs::create_dir(&dir)?;
        let mut number = 0;
        while Instant::now() < end {
            let at = |kind: &str| dir.join(format!("{kind}-{number}"));
            let content: Vec<u8> = (0..5000_u64)
                .map(|byte| (byte * 7 + number) as u8)
                .collect();
            // Exclusive creation: a second execution would find the file.
            let file = File::create_new(at("new"))?;
            file.write_all_at(&content, 0)?;
            file.sync_all()?;
            drop(file);
            fs::hard_link(at("new"), at("link"))?;
            fs::rename(at("new"), at("renamed"))?;
            fs::create_dir(at("dir"))?;
            fs::remove_dir(at("dir"))?;
            fs::remove_file(at("link"))?;
            if number >= 8 {
                fs::remove_file(dir.join(format!("renamed-{}", number - 8)))?;
            }
            number += 1;
            rounds.fetch_add(1, Ordering::Relaxed);
        }
        let first = number.saturating_sub(8);
        for number in first..number {
            let read = fs::read(dir.join(format!("renamed-{number}")))?;
            let right = read.len() == 5000
                && read
                    .iter()
                    .zip(0_u64..)
                    .all(|(byte, at)| *byte == (at * 7 + number) as u8);
            if !right {
                return Err(io::Error::other(format!(
                    "renamed-{number} of {thread} has other bytes"
                )));
            }
        }
        let left = fs::read_dir(&dir)?.count() as u64;
        if left != number - first {
            return Err(io::Error::other(format!(
                "{left} names are left of {}",
                number - first
            )));
        }
        fs::remove_dir_all(&dir)
    })?;
    println!("{}", rounds.into_inner());
    Ok(())
}

/// Writes and synchronizes files repeatedly for some time, and finally checks that each has the
/// content of its last synchronization. Each operation may be executed twice.
fn commit(dir: &Path, time: u64) -> io::Result<()> {
    let end = Instant::now() + Duration::from_secs(time);
    let commits = AtomicU64::new(0);
    each(4, |thread| {
        let path = |number: u64| dir.join(format!("committed-{thread}-{number}"));
        let content = |round: u64| -> Vec<u8> {
            (0..300_001_u64)
                .map(|byte| (byte * 13 + round) as u8)
                .collect()
        };
        let mut rounds = [0_u64; 4];
        let mut round = 0;
        while Instant::now() < end {
            round += 1;
            let number = round % 4;
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).open(path(number))?;
            // In parts, so that some are uncommitted when the server is killed.
            for (part, bytes) in content(round).chunks(50_000).enumerate() {
                file.write_all_at(bytes, part as u64 * 50_000)?;
            }
            file.sync_all()?;
            rounds[number as usize] = round;
            commits.fetch_add(1, Ordering::Relaxed);
        }
        for (number, round) in rounds.iter().enumerate().filter(|(_, round)| **round > 0) {
            if fs::read(path(number as u64))? != content(*round) {
                let lost = format!("file {number} of {thread} lost what was committed");
                return Err(io::Error::other(lost));
            }
        }
        Ok(())
    })?;
    println!("{}", commits.into_inner());
    Ok(())
}

fn run(arguments: &[&str]) -> io::Result<()> {
    let number = |text: &str| text.parse::<u64>().map_err(io::Error::other);
    match arguments {
        [
            "transfer",
            file,
            how @ ("read" | "write"),
            size,
            block,
            threads,
            time,
        ] => transfer(
            Path::new(file),
            *how == "write",
            number(size)?,
            number(block)?,
            number(threads)?,
            number(time)?,
        ),
        ["names", dir, count, threads] => names(Path::new(dir), number(count)?, number(threads)?),
        ["fill", dir, count, threads] => fill(Path::new(dir), number(count)?, number(threads)?),
        ["check", dir, time] => check(Path::new(dir), number(time)?),
        ["commit", dir, time] => commit(Path::new(dir), number(time)?),
        _ => Err(io::Error::other("see the head of files.rs")),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("files: {error}");
            ExitCode::FAILURE
        }
    }
}
