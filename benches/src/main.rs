//! Compares the generated codecs with codecs written by hand, rpcgen's code, and other crates, and
//! prints a table of ratios.
//!
//! - without an argument: measures all messages and prints the table; `only PART`: measures only
//!   messages whose names contain PART;
//! - `engine`: measures null RPCs through the engine alone, and prints a table of its own;
//! - `list`: prints the name of every job in this process, for `count`;
//! - `count JOB TIMES`: runs one job TIMES times and prints nothing, for a tool that counts
//!   instructions (`.ci/instructions`).

#![forbid(unsafe_code)]

mod codec;
mod engine;
mod hand;
mod measure;
mod message;
mod messages;
mod peers;
#[cfg(feature = "metrics")]
mod recorder;
mod table;
mod transport;
mod typed;

use std::process::ExitCode;

use measure::Timed;
use message::{Job, Message, Task};
use peers::Peer;
use table::{Row, Table};

#[cfg(nfs)]
include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));

/// The folder in which peers are built, unless `CARGO_TARGET_DIR` is set.
const TARGET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target");

fn main() -> ExitCode {
    #[cfg(feature = "metrics")]
    recorder::install();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let messages = messages::all();
    match arguments[..] {
        [] => {
            report(messages);
            println!("\n{}", engine::report());
        }
        ["engine"] => print!("{}", engine::report()),
        ["only", part] => report(
            messages
                .into_iter()
                .filter(|message| message.name.contains(part))
                .collect(),
        ),
        ["list"] => {
            each(&messages, |name, _| println!("{name}"));
            engine::JOBS
                .iter()
                .chain(&transport::JOBS)
                .chain(&typed::JOBS)
                .for_each(|(name, _)| println!("{name}"));
        }
        ["count", wanted, times] => {
            let Ok(times) = times.parse() else {
                return usage();
            };
            each(&messages, |name, job| {
                if name == wanted {
                    (job.run.borrow_mut())(times)
                }
            });
            let job = engine::JOBS.iter().find(|(name, _)| *name == wanted);
            job.into_iter()
                .for_each(|(_, outstanding)| engine::Engine::new(*outstanding).run(times));
            let job = transport::JOBS.iter().find(|(name, _)| *name == wanted);
            job.into_iter()
                .for_each(|(_, outstanding)| transport::Transport::new(*outstanding).run(times));
            let job = typed::JOBS.iter().find(|(name, _)| *name == wanted);
            job.into_iter()
                .for_each(|(_, outstanding)| typed::Typed::new(*outstanding).run(times));
        }
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: rpcrdma-benches [only PART | engine | list | count JOB TIMES]");
    ExitCode::from(2)
}

fn each(messages: &[Message], mut job: impl FnMut(String, &Job)) {
    for message in messages {
        for found in &message.jobs {
            job(
                format!(
                    "{}/{}/{}",
                    message.name,
                    found.task.name(),
                    found.codec.name().replace(' ', "-")
                ),
                found,
            );
        }
    }
}

fn report(messages: Vec<Message>) {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| TARGET.into());
    let peers = peers::start(&messages, target.as_ref());
    let rows = messages
        .iter()
        .flat_map(|message| Task::ALL.map(|task| row(message, task, &peers.running)));
    print!("{}", Table(rows.flatten().collect()));
    for note in &peers.notes {
        println!("\n{note}");
    }
}

/// Measures all codecs that support a task of a message, in turns.
fn row(message: &Message, task: Task, peers: &[Peer]) -> Option<Row> {
    let jobs: Vec<&Job> = message.jobs.iter().filter(|job| job.task == task).collect();
    if jobs.is_empty() {
        return None;
    }
    let peers: Vec<&Peer> = peers
        .iter()
        .filter(|peer| peer.tasks(message.name).contains(&task))
        .collect();
    let here = jobs.iter().map(|job| -> Timed<'_> {
        Box::new(|count| measure::timed(|| (job.run.borrow_mut())(count)))
    });
    let there = peers
        .iter()
        .map(|peer| -> Timed<'_> { Box::new(|count| peer.run(message.name, task, count)) });
    let found = measure::measure(&mut here.chain(there).collect::<Vec<_>>());
    let names = jobs
        .iter()
        .map(|job| job.codec)
        .chain(peers.iter().map(|peer| peer.codec));
    Some(Row {
        message: message.name,
        bytes: message.bytes.len(),
        task,
        times: names.zip(found).collect(),
    })
}
