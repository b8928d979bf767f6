//! Helpers for the tests of this folder.
#![allow(dead_code, reason = "each test uses a part of the helpers")]

use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::path::Path;

use tempfile::TempDir;
use xdrgen_build::source::{SourceMap, Span};
use xdrgen_build::{Code, Compilation, Config, Diagnostic, Level, Module, Style};

/// The drafts' folder. Tests run in the package's folder.
pub(crate) const SPEC: &str = "../spec";

/// RPC-over-RDMA Version Two.
pub(crate) const V2: &str = "draft-cel-nfsv4-rpcrdma-version-two-01.txt";
/// Message continuation and send-based data placement.
pub(crate) const RTREXT: &str = "draft-dnoveck-nfsv4-rpcrdma-rtrext-02.txt";
/// Transport characteristics.
pub(crate) const XCHAREXT_02: &str = "draft-dnoveck-nfsv4-rpcrdma-xcharext-02.txt";
/// Transport properties.
pub(crate) const XCHAREXT_03: &str = "draft-dnoveck-nfsv4-rpcrdma-xcharext-03.txt";

/// The drafts of one protocol, with either draft of its properties.
pub(crate) const SETS: [[&str; 3]; 2] = [[V2, XCHAREXT_03, RTREXT], [V2, XCHAREXT_02, RTREXT]];

/// Reads a file of `spec/`.
pub(crate) fn spec(file: &str) -> String {
    let path = format!("{SPEC}/{file}");
    std::fs::read_to_string(&path).expect(&path)
}

/// A temporary folder with files.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn with(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.0.path().join(name), content).expect(name);
        self
    }

    /// Adds all files of `spec/`.
    pub(crate) fn with_spec(self) -> Self {
        for entry in Path::new(SPEC).read_dir().expect(SPEC) {
            let entry = entry.expect(SPEC);
            std::fs::copy(entry.path(), self.0.path().join(entry.file_name())).expect(SPEC);
        }
        self
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }

    /// Removes this folder from the paths in a report.
    pub(crate) fn relative(&self, report: &str) -> String {
        report.replace(&self.path(""), "")
    }
}

/// Checks one text as `a.x`, with all preludes.
pub(crate) fn check(xdr: &str) -> Compilation {
    Config::new()
        .module(Module::new("a").text("a.x", xdr))
        .check()
}

/// Checks one text with a lint at a level.
pub(crate) fn check_with(xdr: &str, lint: Code, level: Level) -> Compilation {
    let config = Config::new().lint(lint, level).expect("a lint");
    config.module(Module::new("a").text("a.x", xdr)).check()
}

/// Denies the lints that compare a draft with itself.
pub(crate) fn strict(config: Config) -> Config {
    let lints = [Code::Consistency, Code::TextSyntax];
    lints.into_iter().fold(config, |config, lint| {
        config.lint(lint, Level::Deny).expect("a lint")
    })
}

/// Returns the full report, with paths relative to the workspace.
pub(crate) fn report(compilation: &Compilation) -> String {
    compilation
        .report(Style::Plain)
        .replace("../spec/", "spec/")
}

/// Returns the line and column of a span.
pub(crate) fn line_and_column(sources: &SourceMap, span: Span) -> (usize, usize) {
    let location = sources.locate(span);
    (location.line, location.column)
}

/// Returns true if a diagnostic is on one of the lines of a document.
pub(crate) fn is_on_lines(
    sources: &SourceMap,
    diagnostic: &Diagnostic,
    document: &str,
    lines: &[usize],
) -> bool {
    diagnostic.span.is_some_and(|span| {
        sources.document_of(span).file_name() == document
            && lines.contains(&sources.locate(span).line)
    })
}

/// A generator of pseudo-random numbers.
pub(crate) struct Xorshift(u64);

impl Xorshift {
    /// Takes the seed from the variable `XDRGEN_SEED`, or from the system, and prints it.
    pub(crate) fn from_environment() -> Self {
        let seed = match std::env::var("XDRGEN_SEED") {
            Ok(seed) => seed.parse().expect("XDRGEN_SEED is a number"),
            Err(_) => RandomState::new().hash_one("seed"),
        };
        println!("XDRGEN_SEED={seed}");
        Self(seed.max(1))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % bound.max(1)
    }
}

/// How many times as many random cases the variable `XDRGEN_CASES` asks for.
pub(crate) fn case_factor() -> usize {
    let factor = std::env::var("XDRGEN_CASES");
    factor.map_or(1, |text| text.parse().expect("XDRGEN_CASES is a number"))
}

/// Notes that a test is skipped: the summary of `.ci/run` counts these lines.
pub(crate) fn note_skipped(note: &str) {
    eprintln!("skipped: {note}");
    if let Some(notes) = std::env::var_os("RPCRDMA_SKIPPED") {
        let notes = std::fs::OpenOptions::new().append(true).open(notes);
        writeln!(notes.expect("the notes"), "{note}").expect("it is written");
    }
}
