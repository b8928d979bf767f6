//! Renders diagnostics as SARIF 2.1.0, the OASIS format for the results of static analysis.
//!
//! The structs are the format: their names and those of their fields follow the specification, and
//! an absent property is left out. `rule_id` is the name of a [`Code`], whose name is an interface.

use serde::Serialize;

use super::level_name;
use super::place::{self, LineRange};
use crate::diagnostic::{Code, Diagnostic, Fix, Level, Note};
use crate::source::{SourceMap, Span};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Renders diagnostics as a log of SARIF 2.1.0 with one run, in one line. Code scanning services
/// and editors read it.
///
/// The log contains all codes with their default levels. A result has its position, its notes as
/// related locations, and those fixes that change one line of the document as published. A relative
/// file name is a relative URI. Columns count characters.
#[must_use]
pub fn sarif(sources: &SourceMap, diagnostics: &[Diagnostic]) -> String {
    let results = diagnostics.iter();
    let log = Log {
        schema: SCHEMA,
        version: "2.1.0",
        runs: [Run {
            tool: Tool {
                driver: Driver {
                    name: "xdrgen",
                    semantic_version: env!("CARGO_PKG_VERSION"),
                    rules: Code::ALL.iter().copied().map(Rule::of).collect(),
                },
            },
            column_kind: "unicodeCodePoints",
            results: results.map(|found| Outcome::of(sources, found)).collect(),
        }],
    };
    // Serialization cannot fail: the log contains no maps and no custom serializers.
    serde_json::to_string(&log).unwrap_or_default() + "\n"
}

#[derive(Serialize)]
struct Log<'s> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run<'s>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run<'s> {
    tool: Tool,
    column_kind: &'static str,
    results: Vec<Outcome<'s>>,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    semantic_version: &'static str,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: &'static str,
    short_description: Message<'static>,
    default_configuration: Configuration,
}

#[derive(Serialize)]
struct Configuration {
    level: &'static str,
}

#[derive(Serialize)]
struct Message<'s> {
    text: &'s str,
}

/// A `result` of SARIF.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'s> {
    rule_id: &'static str,
    level: &'static str,
    message: Message<'s>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    locations: Vec<Location<'s>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_locations: Vec<Location<'s>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fixes: Vec<Change<'s>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Location<'s> {
    #[serde(skip_serializing_if = "Option::is_none")]
    physical_location: Option<PhysicalLocation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message<'s>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: Artifact,
    region: Region,
}

#[derive(Serialize)]
struct Artifact {
    uri: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: usize,
    start_column: usize,
    end_line: usize,
    end_column: usize,
}

/// A `fix` of SARIF.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Change<'s> {
    description: Message<'s>,
    artifact_changes: [ArtifactChange<'s>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactChange<'s> {
    artifact_location: Artifact,
    replacements: [Replacement<'s>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replacement<'s> {
    deleted_region: Region,
    inserted_content: Message<'s>,
}

impl Rule {
    fn of(code: Code) -> Self {
        let level = match code.default_level() {
            None => level_name(Level::Deny),
            Some(Level::Allow) => "none",
            Some(level) => level_name(level),
        };
        Self {
            id: code.name(),
            short_description: Message {
                text: code.explanation(),
            },
            default_configuration: Configuration { level },
        }
    }
}

impl<'s> Outcome<'s> {
    fn of(sources: &'s SourceMap, found: &'s Diagnostic) -> Self {
        let place = found.span.map(|span| Location {
            physical_location: Some(PhysicalLocation::of(sources, span)),
            message: (!found.label.is_empty()).then_some(Message { text: &found.label }),
        });
        let notes = found.notes.iter();
        let fixes = found.fixes.iter();
        Self {
            rule_id: found.code.name(),
            level: level_name(found.level),
            message: Message {
                text: &found.message,
            },
            locations: place.into_iter().collect(),
            related_locations: notes.map(|note| Location::of(sources, note)).collect(),
            fixes: fixes
                .filter(|fix| place::changes_one_line(sources, fix))
                .map(|fix| Change::of(sources, fix))
                .collect(),
        }
    }
}

impl<'s> Location<'s> {
    fn of(sources: &SourceMap, note: &'s Note) -> Self {
        Self {
            physical_location: note.span.map(|span| PhysicalLocation::of(sources, span)),
            message: Some(Message {
                text: &note.message,
            }),
        }
    }
}

impl PhysicalLocation {
    fn of(sources: &SourceMap, span: Span) -> Self {
        let range = LineRange::of(sources, span);
        Self {
            artifact_location: Artifact {
                uri: uri(range.file),
            },
            region: Region {
                start_line: range.line,
                start_column: range.column,
                end_line: range.end_line,
                end_column: range.end_column,
            },
        }
    }
}

impl<'s> Change<'s> {
    fn of(sources: &SourceMap, fix: &'s Fix) -> Self {
        let PhysicalLocation {
            artifact_location,
            region: deleted_region,
        } = PhysicalLocation::of(sources, fix.span);
        let inserted_content = Message {
            text: &fix.replacement,
        };
        Self {
            description: Message { text: &fix.message },
            artifact_changes: [ArtifactChange {
                artifact_location,
                replacements: [Replacement {
                    deleted_region,
                    inserted_content,
                }],
            }],
        }
    }
}

/// Returns a file name as a URI reference (RFC 3986).
fn uri(file: &str) -> String {
    let mut uri = String::from(if file.starts_with('/') { "file://" } else { "" });
    for byte in file.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    #[test]
    fn file_names_are_uris() {
        assert_eq!(super::uri("spec/a b:c.x"), "spec/a%20b%3Ac.x");
        assert_eq!(super::uri("/tmp/é.x"), "file:///tmp/%C3%A9.x");
    }
}
