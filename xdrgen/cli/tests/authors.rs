//! Tests the page for authors of drafts: runs its commands in order, on its documents.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../../docs/draft-authors.md");

/// A block of code of the page: its language, the paragraph before it, and its lines.
struct Block<'p> {
    language: &'p str,
    before: &'p str,
    text: String,
}

fn blocks() -> Vec<Block<'static>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let (mut before, mut open) = ("", false);
    for line in PAGE.lines() {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(language) => {
                open = true;
                blocks.push(Block {
                    language,
                    before,
                    text: String::new(),
                });
            }
            None if open => {
                let block = blocks.last_mut().expect("a block");
                writeln!(block.text, "{line}").expect("a text");
            }
            None if !line.is_empty() => before = line,
            None => {}
        }
    }
    blocks
}

/// Runs a command of the page, and returns what it prints.
fn run(folder: &Path, command: &str) -> (Option<i32>, String) {
    let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_xdrgen"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("xdrgen runs");
    let printed = [output.stderr, output.stdout].concat();
    let printed = String::from_utf8(printed).expect("UTF-8");
    (output.status.code(), printed)
}

#[test]
fn the_page_shows_actual_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let (mut commands, mut steps) = (0, 0);
    for block in blocks() {
        match block.language {
            "markdown" => {
                let name = block
                    .before
                    .split('`')
                    .nth_back(1)
                    .expect("the name of a file");
                std::fs::write(folder.join(name), &block.text).expect("a file");
            }
            "console" => {
                let (command, expected) = block.text.split_once('\n').expect("a command");
                let command = command.strip_prefix("$ ").expect("a prompt");
                if command.starts_with("xdrgen ") {
                    let (_, printed) = run(folder, command);
                    assert_eq!(printed, expected, "{command}");
                    commands += 1;
                }
            }
            "yaml" => {
                for line in block.text.lines() {
                    let command = line.trim().strip_prefix("- run: xdrgen ");
                    let Some(command) = command else {
                        continue;
                    };
                    let command = command.split(" > ").next().unwrap_or_default();
                    let (code, printed) = run(folder, &format!("xdrgen {command}"));
                    assert_eq!(code, Some(0), "{command}: {printed}");
                    steps += 1;
                }
            }
            _ => {}
        }
    }
    assert_eq!((commands, steps), (4, 2));
}
