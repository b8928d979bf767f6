//! The generated codecs beside codecs written by hand, `rpcgen`'s, and other crates': one table of ratios.
//!
//! - without an argument: measures, and prints the table;
//! - `list`: prints the name of every job in this process, for `count`;
//! - `count JOB TIMES`: does one job so many times and prints nothing, for a tool that counts instructions.

#![forbid(unsafe_code)]

mod by;
mod hand;
mod measure;
mod message;
mod messages;
mod table;

use std::process::ExitCode;

use measure::Timed;
use message::{Job, Message, Task};
use table::{Row, Table};

#[cfg(nfs)]
include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let messages = messages::all();
    match arguments[..] {
        [] => report(&messages),
        ["list"] => each(&messages, |name, _| println!("{name}")),
        ["count", wanted, times] => {
            let Ok(times) = times.parse() else { return usage() };
            each(&messages, |name, job| {
                if name == wanted {
                    (job.run)(times)
                }
            });
        }
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: rpcrdma-benches [list | count JOB TIMES]");
    ExitCode::from(2)
}

fn each(messages: &[Message], mut job: impl FnMut(String, &Job)) {
    for message in messages {
        for found in &message.jobs {
            job(format!("{}/{}/{}", message.name, found.task.name(), found.by.name().replace(' ', "-")), found);
        }
    }
}

fn report(messages: &[Message]) {
    let rows = messages.iter().flat_map(|message| Task::ALL.map(|task| row(message, task)));
    print!("{}", Table(rows.flatten().collect()));
}

/// Measures all that do one task with one message, in turns.
fn row(message: &Message, task: Task) -> Option<Row> {
    let jobs: Vec<&Job> = message.jobs.iter().filter(|job| job.task == task).collect();
    let timed = jobs.iter().map(|job| -> Timed<'_> { Box::new(|count| measure::timed(|| (job.run)(count))) });
    let found = measure::measure(&mut timed.collect::<Vec<_>>());
    let times = jobs.iter().map(|job| job.by).zip(found).collect();
    (!jobs.is_empty()).then_some(Row { message: message.name, octets: message.octets.len(), task, times })
}
