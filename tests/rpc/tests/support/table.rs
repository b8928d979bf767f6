//! The tutorial's table of errors.

use oncrpc::Execution;

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    /// The text of the error, or its beginning.
    pub text: &'static str,
    /// Whether the text of an error may differ after its last colon.
    pub has_variants: bool,
    /// Whether the call was executed.
    executed: &'static str,
}

/// Returns the rows of the table.
pub fn rows() -> Vec<Row> {
    let tutorial = include_str!("../../../../docs/rpc.md");
    let (_, section) = tutorial.split_once("\n## Errors\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.contains("| `"));
    rows.map(|line| {
        let cells: Vec<_> = line.split(" | ").collect();
        let [_, error, executed] = cells[..] else {
            panic!("a row has three cells: {line}");
        };
        let mut parts = error.split('`').skip(1);
        Row {
            text: parts.next().unwrap(),
            has_variants: parts.next().is_some_and(|rest| !rest.is_empty()),
            executed: executed.trim_end_matches(" |"),
        }
    })
    .collect()
}

/// Asserts that a row has an error. Numbers may differ.
#[track_caller]
pub fn assert_documented(text: &str, execution: Execution) {
    let is_documented = rows().iter().any(|row| {
        let (documented, text) = (without_numbers(row.text), without_numbers(text));
        let begin = documented
            .rfind(": ")
            .map_or("", |at| &documented[..at + 2]);
        let is_same = match row.has_variants && !begin.is_empty() {
            true => text.starts_with(begin),
            false => text == documented,
        };
        let mut executed = row.executed.split(", or ");
        is_same && executed.any(|executed| executed.starts_with(&execution.to_string()))
    });
    assert!(is_documented, "no row has `{text}` ({execution})");
}

/// Replaces each number by `0`.
fn without_numbers(text: &str) -> String {
    let mut replaced = String::new();
    for letter in text.chars() {
        match letter {
            '0'..='9' if replaced.ends_with('0') => {}
            '0'..='9' => replaced.push('0'),
            letter => replaced.push(letter),
        }
    }
    replaced
}
