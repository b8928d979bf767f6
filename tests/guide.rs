//! Tests the guide and the README: builds the project of `docs/guide.md` from that page, in its
//! order, compares the output of cargo, and checks that the lists in both are complete.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use xdrgen_build::{Code, Config, Level, Module, Style, report};

const GUIDE: &str = include_str!("../docs/guide.md");
const README: &str = include_str!("../README.md");
const DRAFT: &str = "spec/draft-dnoveck-nfsv4-rpcrdma-xcharext-03.txt";

/// A block of code: the line before it, its language, and its content.
struct Block<'t> {
    title: &'t str,
    language: &'t str,
    content: String,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let (mut title, mut open) = ("", false);
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(language) if !open => {
                blocks.push(Block {
                    title,
                    language,
                    content: String::new(),
                });
                open = true;
            }
            Some(_) => open = false,
            None if open => {
                let content = &mut blocks.last_mut().unwrap().content;
                content.push_str(line);
                content.push('\n');
            }
            None if !line.trim().is_empty() => title = line.trim(),
            None => {}
        }
    }
    blocks
}

/// The project of the guide, in the temporary folder that cargo provides for tests, with a target
/// folder beside it.
struct Project {
    folder: PathBuf,
}

impl Project {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide/connprop");
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let project = Self { folder };
        project.write(DRAFT, &fs::read_to_string(root.join(DRAFT)).unwrap());
        // Use the dependency versions of this workspace, so that the build needs no network.
        project.write(
            "Cargo.lock",
            &fs::read_to_string(root.join("Cargo.lock")).unwrap(),
        );
        project
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Adds a file of the guide. Its `Cargo.toml` gets the crates of this workspace instead of
    /// published ones.
    fn add(&self, name: &str, content: &str) {
        if name != "Cargo.toml" {
            return self.write(name, content);
        }
        let root = env!("CARGO_MANIFEST_DIR");
        let patch = format!(
            "\n[workspace]\n\n[patch.crates-io]\nxdrgen-build = {{ path = '{root}/xdrgen' \
            }}\nxdrgen-runtime = {{ path = '{root}/xdrgen/runtime' }}\n"
        );
        self.write(name, &(content.to_owned() + &patch));
    }

    /// Runs a command of the guide, such as `cargo build`.
    fn run(&self, line: &str) -> Output {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("cargo"), "{line}");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(words).arg("--offline").current_dir(&self.folder);
        cargo.env("CARGO_TARGET_DIR", self.folder.with_file_name("target"));
        cargo
            .env("RUST_BACKTRACE", "1")
            .env("CARGO_TERM_COLOR", "never");
        cargo.output().unwrap()
    }
}

/// Asserts that a run printed all lines that the guide shows, in order. `...` stands for omitted
/// lines.
fn assert_shows(expected: &str, output: &Output) {
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let mut lines = printed.lines().map(str::trim);
    for wanted in expected
        .lines()
        .map(str::trim)
        .filter(|line| *line != "...")
    {
        assert!(
            lines.any(|line| line == wanted),
            "`{wanted}` is not there, or not in its place:\n{printed}"
        );
    }
    let fails = expected.lines().any(|line| line.starts_with("error"));
    assert_eq!(output.status.success(), !fails, "{printed}");
    for panic in ["panicked", "stack backtrace", "RUST_BACKTRACE"] {
        assert!(!printed.contains(panic), "{printed}");
    }
}

#[test]
fn guide_project_prints_the_shown_output() {
    let project = Project::new();
    let (mut files, mut runs, mut failures) = (0, 0, 0);
    for Block {
        title,
        language,
        content,
    } in blocks(GUIDE)
    {
        if let Some(name) = title
            .strip_prefix('`')
            .and_then(|title| title.strip_suffix("`:"))
            && language != "console"
        {
            project.add(name, &content);
            files += 1;
        } else if let Some((line, expected)) = content
            .strip_prefix("$ ")
            .and_then(|rest| rest.split_once('\n'))
        {
            let output = project.run(line);
            assert_shows(expected, &output);
            runs += 1;
            failures += usize::from(!output.status.success());
        }
    }
    assert_eq!(
        (files, runs, failures),
        (9, 4, 1),
        "blocks of the guide were not recognized"
    );
}

#[test]
fn the_guide_lists_every_lint_and_error() {
    for code in Code::ALL {
        let level = code.default_level().map_or("error", Level::name);
        let row = format!("| `{}` | {level} | {} |", code.name(), code.explanation());
        assert!(
            GUIDE.lines().any(|line| line == row),
            "the guide lacks\n{row}"
        );
    }
    let rows = GUIDE
        .lines()
        .filter(|line| line.contains("` | error | ") || line.contains("` | allow | "));
    let names = rows.map(|row| row.trim_start_matches("| `").split('`').next().unwrap());
    for name in names {
        assert!(
            Code::ALL.iter().any(|code| code.name() == name),
            "the guide has `{name}`, which is none"
        );
    }
}

#[test]
fn the_guide_lists_every_key_of_the_manifest() {
    let path = folder("keys").join("xdrgen.toml");
    for above in [
        "",
        "[[module]]\n",
        "[[module]]\npath = 'a'\ndocuments = []\n[[module.overlay]]\n",
    ] {
        fs::write(&path, format!("{above}nonsense = 1\n")).unwrap();
        let error = Config::from_manifest(&path).unwrap_err().to_string();
        let (_, keys) = error
            .split_once("expected one of ")
            .unwrap_or_else(|| panic!("{error}"));
        let keys = keys
            .lines()
            .next()
            .unwrap()
            .split(", ")
            .map(|key| key.trim_matches('`'));
        for key in keys {
            let row = [
                format!("| `{key}` |"),
                format!("| `[{key}]` |"),
                format!("| `[[{key}]]` |"),
            ];
            let nested = format!("| `[[module.{key}]]` |");
            let there = GUIDE.lines().any(|line| {
                row.iter()
                    .chain([&nested])
                    .any(|row| line.starts_with(row.as_str()))
            });
            assert!(there, "the guide lacks the key `{key}`");
        }
    }
}

/// Creates an empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("guide")
        .join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn check_of_the_draft() -> xdrgen_build::Compilation {
    Config::new()
        .module(Module::new("draft").document(DRAFT))
        .check()
}

#[test]
fn the_guide_lists_every_key_of_a_diagnostic() {
    let compilation = check_of_the_draft();
    let json = report::json(compilation.sources(), compilation.diagnostics());
    let keys = json
        .split('"')
        .zip(json.split('"').skip(1))
        .filter(|(_, after)| after.starts_with(':'));
    let mut found = 0;
    for (key, _) in keys {
        assert!(
            GUIDE.contains(&format!("`{key}`")),
            "the guide lacks the key `{key}`"
        );
        found += 1;
    }
    assert!(found > 30, "{json}");
}

#[test]
fn the_readme_shows_what_check_reports() {
    let report = check_of_the_draft().report(Style::Plain);
    let command = format!("$ xdrgen check {DRAFT}\n");
    let mut shown = blocks(README)
        .into_iter()
        .filter(|block| block.content.starts_with(&command));
    let shown = shown.next().unwrap().content;
    let mut lines = report.lines();
    for wanted in shown.lines().skip(1).filter(|line| *line != "...") {
        assert!(
            lines.any(|line| line == wanted),
            "`{wanted}` is not there, or not in its place:\n{report}"
        );
    }
}

#[test]
fn the_readme_shows_code_that_is_tested() {
    let tested = [
        GUIDE,
        include_str!("../rpcrdma-proto/README.md"),
        include_str!("../xdrgen/README.md"),
        include_str!("../examples/kv/src/main.rs"),
    ];
    for block in blocks(README)
        .into_iter()
        .filter(|block| block.language == "rust")
    {
        assert!(
            tested.iter().any(|page| page.contains(&block.content)),
            "untested:\n{}",
            block.content
        );
    }
}

#[test]
fn the_readme_begins_with_two_commands() {
    let first = blocks(README).into_iter().next().unwrap();
    let commands: Vec<&str> = first.content.lines().collect();
    assert_eq!(
        commands,
        ["cargo run -p rpcrdma-cli -- demo", "cargo test --workspace"]
    );
}
