//! The manners that all subcommands of a command share. A table has an entry for each subcommand;
//! the manual pages, which are generated from the definition of the command line, tell which
//! subcommands and options there are.
#![allow(dead_code, reason = "each command has some of the manners")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What a subcommand prints.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Printed {
    /// Text, or lines of JSON with these further arguments.
    TextOrJson(&'static [&'static str]),
    /// Text in the format of another tool, or the bytes of a file.
    Format,
    /// Nothing.
    Nothing,
}

/// A subcommand, and arguments with which it succeeds.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The words of the subcommand, such as `nfs ls`.
    pub(crate) name: &'static str,
    pub(crate) arguments: Vec<String>,
    pub(crate) input: Vec<u8>,
    pub(crate) printed: Printed,
    /// Whether it runs until it gets a signal.
    pub(crate) is_server: bool,
}

impl Entry {
    pub(crate) fn new(name: &'static str, arguments: &[&str], printed: Printed) -> Self {
        Self {
            name,
            arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
            input: Vec::new(),
            printed,
            is_server: false,
        }
    }

    pub(crate) fn input(self, input: &[u8]) -> Self {
        let input = input.to_vec();
        Self { input, ..self }
    }

    pub(crate) fn until_signal(self) -> Self {
        Self {
            is_server: true,
            ..self
        }
    }
}

/// The options of a subcommand that have a value: the name of the option, or none for an argument
/// without a name, and the name of the value.
type Options = BTreeSet<(Option<String>, String)>;

/// A command, and the table of its subcommands.
pub(crate) struct Manners<'a> {
    pub(crate) program: &'a str,
    /// The working folder.
    pub(crate) folder: &'a Path,
    pub(crate) entries: Vec<Entry>,
}

impl Manners<'_> {
    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(name.split(' ')).args(arguments);
        command.current_dir(self.folder).env_remove("RUST_LOG");
        command
    }

    /// Runs a subcommand with an output. It ends by itself, or by a signal after its first line.
    fn run(&self, entry: &Entry, more: &[&str], output: impl Into<Stdio>, ends: bool) -> Output {
        let mut command = self.command(entry.name, more);
        let command = command.args(&entry.arguments).stdin(Stdio::piped());
        let mut process = command
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A subcommand that does not read its input may have ended.
        let _ = process.stdin.take().unwrap().write_all(&entry.input);
        if ends {
            return process.wait_with_output().unwrap();
        }
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut text = String::new();
        stdout.read_line(&mut text).unwrap();
        let id = process.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        stdout.read_to_string(&mut text).unwrap();
        let output = process.wait_with_output().unwrap();
        Output {
            stdout: text.into_bytes(),
            ..output
        }
    }

    /// Returns the subcommands that do something, with their options that have a value, and with
    /// the names of all their options.
    fn pages(&self) -> BTreeMap<String, (Options, BTreeSet<String>)> {
        let folder = tempfile::tempdir().unwrap();
        let output = self
            .command("man", &[folder.path().to_str().unwrap()])
            .output();
        assert!(output.unwrap().status.success());
        let mut pages = BTreeMap::new();
        for file in fs::read_dir(folder.path()).unwrap() {
            let path = file.unwrap().path();
            let page = fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap();
            // Others only have subcommands.
            if !page.contains("\n.SH SUBCOMMANDS\n") {
                let (_, words) = name.split_once('-').unwrap();
                pages.insert(words.replace('-', " "), (valued(&page), names(&page)));
            }
        }
        pages
    }

    /// Tests that the table has all subcommands. Hidden ones have no page.
    pub(crate) fn assert_complete(&self, hidden: &[&str]) {
        let names = self.entries.iter().map(|entry| entry.name);
        let names: BTreeSet<_> = names.filter(|name| !hidden.contains(name)).collect();
        let pages = self.pages();
        let found: BTreeSet<_> = pages.keys().map(String::as_str).collect();
        assert_eq!(
            names, found,
            "the table of tests does not have all subcommands"
        );
        assert_eq!(self.entries.len(), found.len() + hidden.len());
    }

    /// Tests help, and the status of arguments that are wrong.
    pub(crate) fn assert_usage(&self) {
        for Entry { name, .. } in &self.entries {
            let output = self.command(name, &["--help"]).output().unwrap();
            let help = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{name}");
            assert!(
                help.contains("Usage: ") && help.contains(name),
                "{name}: {help}"
            );
            for wrong in ["--no-such-option", "--help=1"] {
                let output = self.command(name, &[wrong]).output().unwrap();
                let error = String::from_utf8(output.stderr).unwrap();
                assert_eq!(output.status.code(), Some(2), "{name} {wrong}: {error}");
                assert!(
                    error.contains(wrong.split('=').next().unwrap()),
                    "{name}: {error}"
                );
                assert!(output.stdout.is_empty(), "{name} {wrong}");
            }
        }
    }

    /// Tests the status and the errors where the output is read, where the reader has left, and
    /// where the disk is full.
    pub(crate) fn assert_output(&self) {
        let full = File::options().write(true).open("/dev/full").ok();
        for entry in &self.entries {
            let name = entry.name;
            let prints = !matches!(entry.printed, Printed::Nothing);
            let output = self.run(entry, &[], Stdio::piped(), !entry.is_server);
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{name}: {error}");
            assert_eq!(!output.stdout.is_empty(), prints, "{name}");

            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let output = self.run(entry, &[], writer, true);
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{name} | true: {error}");
            assert!(
                !error.contains("can't be written"),
                "{name} | true: {error}"
            );

            let Some(full) = &full else { continue };
            let output = self.run(entry, &[], full.try_clone().unwrap(), true);
            let error = String::from_utf8(output.stderr).unwrap();
            let status = Some(i32::from(prints));
            assert_eq!(output.status.code(), status, "{name} > /dev/full: {error}");
            let text = "the output can't be written: No space left on device";
            assert_eq!(error.contains(text), prints, "{name} > /dev/full: {error}");
            assert!(!error.contains("panicked"), "{name} > /dev/full: {error}");
        }
    }

    /// Tests that there is JSON exactly where the table says so, and that each line is.
    pub(crate) fn assert_json(&self) {
        let pages = self.pages();
        for entry in &self.entries {
            let name = entry.name;
            let offers = pages
                .get(name)
                .is_some_and(|(_, options)| options.contains("json") || options.contains("format"));
            let Printed::TextOrJson(arguments) = entry.printed else {
                assert!(!offers, "{name} offers JSON: {:?}", entry.printed);
                continue;
            };
            assert!(offers, "{name}");
            let output = self.run(entry, arguments, Stdio::piped(), !entry.is_server);
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{name} {arguments:?}");
            assert!(!text.is_empty(), "{name} {arguments:?}");
            for line in text.lines() {
                let json = serde_json::from_str::<serde_json::Value>(line);
                assert!(json.is_ok(), "{name} {arguments:?}: {line}");
            }
        }
    }

    /// Tests that shells accept their scripts, which have all subcommands and these words.
    pub(crate) fn assert_completions(&self, words: &[&str]) {
        let pages = self.pages();
        let subcommands = pages.keys().flat_map(|name| name.split(' '));
        let words: Vec<_> = subcommands.chain(words.iter().copied()).collect();
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let output = self.command("completions", &[shell]).output().unwrap();
            assert!(output.status.success(), "{shell}");
            let script = String::from_utf8(output.stdout).unwrap();
            for word in &words {
                assert!(script.contains(word), "{shell}: {word}");
            }
            if matches!(shell, "bash" | "zsh" | "fish") {
                let file = tempfile::NamedTempFile::new().unwrap();
                fs::write(file.path(), script).unwrap();
                accepts(shell, &["-n"], file.path());
            }
        }
    }

    /// Tests that mandoc finds no error in the manual pages.
    pub(crate) fn assert_pages(&self) {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("man1");
        let output = self.command("man", &[pages.to_str().unwrap()]).output();
        assert!(output.unwrap().status.success());
        for page in fs::read_dir(&pages).unwrap() {
            accepts(
                "mandoc",
                &["-T", "lint", "-W", "error"],
                &page.unwrap().path(),
            );
        }
        // A file has the name of the folder.
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let output = self.command("man", &[file.to_str().unwrap()]).output();
        assert_eq!(output.unwrap().status.code(), Some(1));
    }

    /// Tests that values of these kinds are refused with these texts: the name of the value, a
    /// wrong value, and the text. Options with such names have to be of the kind.
    pub(crate) fn assert_units(&self, kinds: &[(&str, &str, &str, &[&str])]) {
        let pages = self.pages();
        for entry in &self.entries {
            let name = entry.name;
            let options = pages.get(name).map(|(options, _)| options.clone());
            for (option, value) in options.unwrap_or_default() {
                let word = option.clone().unwrap_or_default();
                for (kind, wrong, text, words) in kinds {
                    let is_named = words.contains(&word.as_str());
                    assert!(!is_named || value == *kind, "{name} --{word}: {value}");
                    if value != *kind {
                        continue;
                    }
                    let argument = match &option {
                        Some(option) => format!("--{option}={wrong}"),
                        None => (*wrong).to_owned(),
                    };
                    // It comes first: the first mistake is reported.
                    let mut command = self.command(name, &[&argument]);
                    let command = command.args(&entry.arguments).stdin(Stdio::null());
                    let output = command.output().unwrap();
                    let error = String::from_utf8(output.stderr).unwrap();
                    assert_eq!(output.status.code(), Some(2), "{name} {argument}: {error}");
                    assert!(error.contains(text), "{name} {argument}: {error}");
                }
            }
        }
    }
}

/// Tests that a program accepts a file. If it is not installed, records that this is skipped.
fn accepts(program: &str, arguments: &[&str], file: &Path) {
    let Ok(output) = Command::new(program).args(arguments).arg(file).output() else {
        let note = format!("manners: {program} is not installed");
        eprintln!("skipped: {note}");
        if let Some(notes) = std::env::var_os("RPCRDMA_SKIPPED") {
            let mut notes = File::options().append(true).open(notes).unwrap();
            writeln!(notes, "{note}").unwrap();
        }
        return;
    };
    let errors = [output.stdout, output.stderr].concat();
    let errors = String::from_utf8_lossy(&errors);
    assert!(output.status.success(), "{program}: {errors}");
}

/// Returns the lines of a page that begin the description of an option, without fonts.
fn headings(page: &str) -> impl Iterator<Item = String> {
    let (_, options) = page.split_once("\n.SH OPTIONS\n").unwrap_or_default();
    let headings = options.split(".TP\n").skip(1);
    let headings = headings.filter_map(|text| text.lines().next());
    headings.map(|line| {
        ["\\fB", "\\fI", "\\fR", "\\"]
            .iter()
            .fold(line.to_owned(), |line, font| line.replace(font, ""))
    })
}

/// Returns the names of all options of a page.
fn names(page: &str) -> BTreeSet<String> {
    headings(page).filter_map(|line| long_name(&line)).collect()
}

/// Returns the name in a heading such as `-v, --verbose` or `--rdma[=<PORT>]`.
fn long_name(heading: &str) -> Option<String> {
    let (_, rest) = heading.split_once("--")?;
    let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    Some(rest[..rest.find(is_end).unwrap_or(rest.len())].to_owned())
}

/// Returns the options of a page that have a value.
fn valued(page: &str) -> Options {
    let value = |line: &str| {
        let (_, rest) = line.split_once('<')?;
        Some(rest.split_once('>')?.0.to_owned())
    };
    headings(page)
        .filter_map(|line| Some((long_name(&line), value(&line)?)))
        .collect()
}
