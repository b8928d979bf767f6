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

use std::process::ExitCode;

use message::{Job, Message};

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
            each(&messages, |name, job| if name == wanted { (job.run)(times) });
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
    for message in messages {
        for task in message::Task::ALL {
            let jobs: Vec<&Job> = message.jobs.iter().filter(|job| job.task == task).collect();
            let mut timed: Vec<measure::Timed<'_>> = jobs
                .iter()
                .map(|job| Box::new(|count| measure::timed(|| (job.run)(count))) as measure::Timed<'_>)
                .collect();
            let times = measure::measure(&mut timed);
            print!("{:14} {:4} {:7}", message.name, message.octets.len(), task.name());
            for (job, times) in jobs.iter().zip(times) {
                print!("  {} {:.1} ({:.1}-{:.1})", job.by.name(), times.median, times.quartiles[0], times.quartiles[1]);
            }
            println!();
        }
    }
}
