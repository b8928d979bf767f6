//! Renders diagnostics as GitHub workflow commands, which become annotations of a change.

use std::fmt::{self, Write as _};

use super::level_name;
use super::place::LineRange;
use crate::diagnostic::Diagnostic;
use crate::source::SourceMap;

/// Renders diagnostics as commands of GitHub's workflows, one on each line. A workflow step that
/// prints `::error file=FILE,line=LINE,..::MESSAGE` annotates the line in the list of changes. The
/// message contains the notes and the suggested fixes.
///
/// File names are those that the user gave. GitHub finds them if they are relative to the root of
/// the repository. It shows at most ten errors and ten warnings for each step.
#[must_use]
pub fn github(sources: &SourceMap, diagnostics: &[Diagnostic]) -> String {
    let lines = diagnostics.iter();
    lines
        .map(|diagnostic| command(sources, diagnostic))
        .collect()
}

fn command(sources: &SourceMap, diagnostic: &Diagnostic) -> String {
    let level = match level_name(diagnostic.level) {
        "note" => "notice",
        level => level,
    };
    let place = diagnostic.span.map(|span| place(sources, span));
    let place = place.unwrap_or_default();
    let code = diagnostic.code;
    let message = Escaped(&message(diagnostic), false).to_string();
    format!("::{level} {place}title=xdrgen({code})::{message}\n")
}

/// Returns the properties of a position, each followed by a comma. A range of columns is only valid
/// within one line.
fn place(sources: &SourceMap, span: crate::source::Span) -> String {
    let range = LineRange::of(sources, span);
    let (file, line, column) = (Escaped(range.file, true), range.line, range.column);
    let mut place = format!("file={file},line={line},endLine={},", range.end_line);
    if range.line == range.end_line {
        let end = range.end_column;
        place += &format!("col={column},endColumn={end},");
    }
    place
}

/// Returns the message with its label, notes and fixes, one per line.
fn message(diagnostic: &Diagnostic) -> String {
    let mut text = diagnostic.message.clone();
    let mut add = |line: &str| {
        text.push('\n');
        text.push_str(line);
    };
    if !diagnostic.label.is_empty() {
        add(&diagnostic.label);
    }
    for note in &diagnostic.notes {
        add(&format!("note: {}", note.message));
    }
    for fix in &diagnostic.fixes {
        add(&format!("help: {}: `{}`", fix.message, fix.replacement));
    }
    text
}

/// A text that is escaped for a command; the flag is true for a property.
struct Escaped<'s>(&'s str, bool);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match (c, self.1) {
                ('%', _) => f.write_str("%25")?,
                ('\r', _) => f.write_str("%0D")?,
                ('\n', _) => f.write_str("%0A")?,
                (':', true) => f.write_str("%3A")?,
                (',', true) => f.write_str("%2C")?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Escaped;

    #[test]
    fn command_and_property_delimiters_are_escaped() {
        let text = "50%, a:b\r\nc";
        assert_eq!(Escaped(text, false).to_string(), "50%25, a:b%0D%0Ac");
        assert_eq!(Escaped(text, true).to_string(), "50%25%2C a%3Ab%0D%0Ac");
    }
}
