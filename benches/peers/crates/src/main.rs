//! Codecs of other crates, for the benchmark. Each line of the input is a request; each line of the
//! output is its answer.
//!
//! - `message NAME HEX`: the supported tasks, or `-` and the reason why there are none;
//! - `run NAME TASK COUNT`: the nanoseconds for COUNT executions.
//!
//! The argument selects the codec: `fastxdr` or `xdr-codec`. The code that xdrgen 0.4 generates for
//! NFSv4.1 contains unsafe code.

mod by_fastxdr;
mod by_xdr_codec;

use std::collections::HashMap;
use std::hint::black_box;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::time::Instant;

/// The tasks that a codec supports for a message. Each job runs a number of times.
#[derive(Default)]
struct Jobs(Vec<(&'static str, Job)>);

type Job = Box<dyn Fn(u64)>;

impl Jobs {
    fn with<R>(mut self, task: &'static str, work: impl Fn() -> R + 'static) -> Self {
        let run = move |count| {
            for _ in 0..count {
                // The time includes the drop of the result.
                black_box(&once(&work));
            }
        };
        self.0.push((task, Box::new(run)));
        self
    }
}

/// Calls the work without inlining it, as in a program of several modules.
#[inline(never)]
fn once<R>(work: &impl Fn() -> R) -> R {
    work()
}

/// The jobs of a message, or why there are none.
type Prepare = fn(&str, Vec<u8>) -> Result<Jobs, String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let prepare: Prepare = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["fastxdr"] => by_fastxdr::prepare,
        ["xdr-codec"] => by_xdr_codec::prepare,
        _ => {
            eprintln!("usage: rpcrdma-benches-peers fastxdr | xdr-codec");
            return ExitCode::from(2);
        }
    };
    match answer_all(prepare) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn answer_all(prepare: Prepare) -> io::Result<()> {
    let mut known = HashMap::new();
    for line in io::stdin().lock().lines() {
        let answer =
            answer(&line?, prepare, &mut known).unwrap_or_else(|reason| format!("- {reason}"));
        let mut out = io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(
    question: &str,
    prepare: Prepare,
    known: &mut HashMap<String, Jobs>,
) -> Result<String, String> {
    match question.split(' ').collect::<Vec<_>>()[..] {
        ["message", name, hex] => {
            let jobs = prepare(name, bytes(hex).ok_or("not hexadecimal")?)?;
            let tasks: Vec<&str> = jobs.0.iter().map(|(task, _)| *task).collect();
            let answer = tasks.join(" ");
            known.insert(name.to_owned(), jobs);
            Ok(answer)
        }
        ["run", name, task, count] => {
            let count = count.parse().map_err(|_| "not a count")?;
            let jobs = known.get(name).ok_or("no such message")?;
            let (_, run) = jobs
                .0
                .iter()
                .find(|(found, _)| *found == task)
                .ok_or("no such task")?;
            let start = Instant::now();
            run(count);
            Ok(start.elapsed().as_nanos().to_string())
        }
        _ => Err("not a question".to_owned()),
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = hex.chars().map(|digit| digit.to_digit(16)).collect();
    let (pairs, rest) = digits.as_ref()?.as_chunks::<2>();
    let bytes = pairs
        .iter()
        .map(|[high, low]| u8::try_from(16 * high + low));
    if rest.is_empty() {
        bytes.collect::<Result<_, _>>().ok()
    } else {
        None
    }
}
