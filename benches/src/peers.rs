//! Codecs of other projects, each in a process of its own, so that neither C code nor old crates
//! are part of this workspace.
//!
//! A peer answers each line with a line:
//!
//! - `message NAME HEX`: the tasks that it supports for these bytes, after it has tried them; or
//!   `-` and the reason why there are none;
//! - `run NAME TASK COUNT`: the nanoseconds for COUNT executions. The peer measures them, so that
//!   communication is not included.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::codec::Codec;
use crate::message::{Message, Task};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

/// The running peers, and notes on missing ones.
pub(crate) struct Peers {
    pub(crate) running: Vec<Peer>,
    pub(crate) notes: Vec<Note>,
}

/// The reason why a peer, or one message of a peer, is not measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub(crate) codec: Codec,
    /// The message; `None` if it applies to all messages.
    pub(crate) message: Option<&'static str>,
    pub(crate) reason: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.codec.name())?;
        if let Some(message) = self.message {
            write!(f, ", {message}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Builds the peers into `target`, starts them, and shows them every message.
pub(crate) fn start(messages: &[Message], target: &Path) -> Peers {
    let mut peers = Peers {
        running: Vec::new(),
        notes: Vec::new(),
    };
    let out = target.join("peers");
    let crates = |name| {
        build_crates(&out).map(|()| command(&out.join("release/rpcrdma-benches-peers"), &[name]))
    };
    peers.add(
        Codec::Rpcgen,
        build_rpcgen(&out).map(|()| command(&out.join("rpcgen/peer"), &[])),
        messages,
    );
    peers.add(Codec::Fastxdr, crates("fastxdr"), messages);
    peers.add(Codec::CrateXdr, crates("xdr-codec"), messages);
    peers
}

impl Peers {
    fn add(&mut self, codec: Codec, command: Result<Command, String>, messages: &[Message]) {
        let bytes: Vec<_> = messages
            .iter()
            .map(|message| (message.name, message.bytes))
            .collect();
        let started = command.and_then(|command| {
            Peer::start(codec, command, &bytes).map_err(|error| format!("does not run: {error}"))
        });
        match started {
            Ok((peer, notes)) => {
                self.running.push(peer);
                self.notes.extend(notes);
            }
            Err(reason) => self.notes.push(Note {
                codec,
                message: None,
                reason,
            }),
        }
    }
}

fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

fn build_rpcgen(out: &Path) -> Result<(), String> {
    let mut command = Command::new("bash");
    command
        .arg(format!("{DIRECTORY}/rpcgen/make"))
        .arg(out.join("rpcgen"))
        .args(option_env!("NFS"));
    build(&mut command)
}

/// Builds the peers that are crates. Cargo does not rebuild a fresh crate, so that this may be
/// called for each crate.
fn build_crates(out: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = format!("{DIRECTORY}/crates/Cargo.toml");
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--quiet",
        "--release",
        "--locked",
        "--manifest-path",
        &manifest,
        "--target-dir",
    ]);
    command
        .arg(out)
        .env("NFS", option_env!("NFS").unwrap_or_default());
    build(&mut command)
}

fn build(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(complaint(&String::from_utf8_lossy(&output.stderr)))
    }
}

/// Returns the most informative line of a compiler's output.
fn complaint(written: &str) -> String {
    let lines = || {
        written
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let found = lines()
        .find(|line| line.starts_with("error"))
        .or_else(|| lines().next_back());
    found.unwrap_or("does not build").to_owned()
}

/// A codec in another process.
pub(crate) struct Peer {
    pub(crate) codec: Codec,
    tasks: HashMap<&'static str, Vec<Task>>,
    child: Child,
    /// `None` after the pipes are closed to end the peer.
    pipes: RefCell<Option<Pipes>>,
}

struct Pipes {
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(
        codec: Codec,
        mut command: Command,
        messages: &[(&'static str, &'static [u8])],
    ) -> io::Result<(Self, Vec<Note>)> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let pipes = pipes.map(|(questions, answers)| Pipes {
            questions,
            answers: BufReader::new(answers),
        });
        let mut peer = Self {
            codec,
            tasks: HashMap::new(),
            child,
            pipes: RefCell::new(pipes),
        };
        let mut notes = Vec::new();
        for (name, bytes) in messages {
            match parse_tasks(&peer.ask(&format!("message {name} {}", hex(bytes)))?) {
                Ok(tasks) => drop(peer.tasks.insert(name, tasks)),
                Err(reason) => notes.push(Note {
                    codec,
                    message: Some(name),
                    reason,
                }),
            }
        }
        Ok((peer, notes))
    }

    /// Returns the tasks that it supports for a message; none if a note gives the reason.
    pub(crate) fn tasks(&self, message: &str) -> &[Task] {
        self.tasks.get(message).map_or(&[], Vec::as_slice)
    }

    /// Returns the time for `count` executions; the maximum if the peer has ended.
    pub(crate) fn run(&self, message: &str, task: Task, count: u64) -> Duration {
        let answer = self.ask(&format!("run {message} {} {count}", task.name()));
        match answer
            .map_err(|error| error.to_string())
            .and_then(|answer| parse_time(&answer))
        {
            Ok(time) => time,
            Err(reason) => {
                eprintln!(
                    "{}, {message}, {}: {reason}",
                    self.codec.name(),
                    task.name()
                );
                Duration::MAX
            }
        }
    }

    fn ask(&self, question: &str) -> io::Result<String> {
        let mut pipes = self.pipes.borrow_mut();
        let pipes = pipes.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        pipes
            .questions
            .write_all(format!("{question}\n").as_bytes())?;
        let mut answer = String::new();
        match pipes.answers.read_line(&mut answer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(answer),
        }
    }
}

impl Drop for Peer {
    /// The peer ends when its input is closed.
    fn drop(&mut self) {
        drop(self.pipes.get_mut().take());
        // The exit status does not matter.
        let _ = self.child.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Parses the answer to `message`.
fn parse_tasks(answer: &str) -> Result<Vec<Task>, String> {
    let answer = refusal(answer)?;
    let task = |name: &str| Task::ALL.into_iter().find(|task| task.name() == name);
    let tasks: Option<Vec<Task>> = answer.split(' ').map(task).collect();
    tasks.ok_or_else(|| not_understood(answer))
}

/// Parses the answer to `run`.
fn parse_time(answer: &str) -> Result<Duration, String> {
    let answer = refusal(answer)?;
    answer
        .parse()
        .map(Duration::from_nanos)
        .map_err(|_| not_understood(answer))
}

/// Returns the answer, or the reason of a refusal as an error.
fn refusal(answer: &str) -> Result<&str, String> {
    let answer = answer.trim_end();
    match answer.strip_prefix('-') {
        None => Ok(answer),
        Some(reason) => Err(reason.trim_start().to_owned()),
    }
}

fn not_understood(answer: &str) -> String {
    format!("answers {answer:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: [(&str, &[u8]); 2] = [("known", &[0, 0xab]), ("unknown", &[])];

    /// Returns a peer that prints fixed answers.
    fn rote(script: &str) -> io::Result<(Peer, Vec<Note>)> {
        Peer::start(
            Codec::Fastxdr,
            command(Path::new("sh"), &["-c", script]),
            &MESSAGES,
        )
    }

    #[test]
    fn parses_task_answers() {
        assert_eq!(
            parse_tasks("decode encode\n"),
            Ok(vec![Task::Decode, Task::Encode])
        );
        assert_eq!(parse_tasks("decode\n"), Ok(vec![Task::Decode]));
        assert_eq!(parse_tasks("- not known\n"), Err("not known".to_owned()));
        assert_eq!(
            parse_tasks("decode play\n"),
            Err("answers \"decode play\"".to_owned())
        );
        assert_eq!(parse_tasks("\n"), Err("answers \"\"".to_owned()));
    }

    #[test]
    fn parses_time_answers() {
        assert_eq!(parse_time("1500\n"), Ok(Duration::from_nanos(1500)));
        assert_eq!(parse_time("- it failed\n"), Err("it failed".to_owned()));
        assert_eq!(parse_time("-5\n"), Err("5".to_owned()));
        assert_eq!(parse_time("1.5\n"), Err("answers \"1.5\"".to_owned()));
    }

    #[test]
    fn formats_hexadecimal() {
        assert_eq!(hex(&[0, 0x0a, 0xff]), "000aff");
        assert_eq!(hex(&[]), "");
    }

    #[test]
    fn selects_the_error_line() {
        assert_eq!(
            complaint("warning: old\nerror: no network\nnote: more\n"),
            "error: no network"
        );
        assert_eq!(
            complaint("missing rpcsvc-proto\n\n"),
            "missing rpcsvc-proto"
        );
        assert_eq!(complaint(""), "does not build");
    }

    #[test]
    fn formats_notes() {
        let note = Note {
            codec: Codec::Rpcgen,
            message: None,
            reason: "missing rpcsvc-proto".to_owned(),
        };
        assert_eq!(note.to_string(), "rpcgen: missing rpcsvc-proto");
        let note = Note {
            message: Some("connprop"),
            reason: "does not decode".to_owned(),
            ..note
        };
        assert_eq!(note.to_string(), "rpcgen, connprop: does not decode");
    }

    #[test]
    fn peer_answers_requests() -> io::Result<()> {
        let script = r#"
            read verb name hex; [ "$verb $name $hex" = "message known 00ab" ] && echo decode
            read line; echo "- what?"
            read line; [ "$line" = "run known decode 7" ] && echo 42
        "#;
        let (peer, notes) = rote(script)?;
        let reason = "what?".to_owned();
        assert_eq!(
            notes,
            [Note {
                codec: Codec::Fastxdr,
                message: Some("unknown"),
                reason
            }]
        );
        assert_eq!(peer.tasks("known"), [Task::Decode]);
        assert_eq!(peer.tasks("unknown"), []);
        assert_eq!(peer.run("known", Task::Decode, 7), Duration::from_nanos(42));
        assert_eq!(
            peer.run("known", Task::Decode, 7),
            Duration::MAX,
            "it has come to its end"
        );
        Ok(())
    }

    #[test]
    fn silent_peer_is_reported() {
        assert!(rote("exit 1").is_err());
    }

    #[test]
    fn missing_peer_is_reported() {
        let mut peers = Peers {
            running: Vec::new(),
            notes: Vec::new(),
        };
        peers.add(Codec::Rpcgen, Err("missing rpcsvc-proto".to_owned()), &[]);
        peers.add(
            Codec::Fastxdr,
            Ok(command(Path::new("/nowhere/peer"), &[])),
            &[],
        );
        let notes: Vec<String> = peers.notes.iter().map(Note::to_string).collect();
        assert!(peers.running.is_empty());
        assert_eq!(notes[0], "rpcgen: missing rpcsvc-proto");
        assert!(
            notes[1].starts_with("fastxdr: does not run: "),
            "{}",
            notes[1]
        );
    }
}
