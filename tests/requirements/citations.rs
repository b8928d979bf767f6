//! The citations of requirements in the sources, and the coverage of each draft.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::list::{Requirement, Status, requirements};
use super::{BIDIRECTION, DRAFTS, RFC, ROOT, SOURCES, UNSEARCHED};

#[derive(Debug, PartialEq)]
pub(crate) struct Citation {
    pub(crate) id: String,
    /// The file and the line.
    pub(crate) place: String,
    pub(crate) is_test: bool,
}

/// Returns the ids in a citation comment, which contains nothing else.
pub(crate) fn cited(line: &str) -> impl Iterator<Item = &str> {
    let comment = line.match_indices("//").find_map(|(at, _)| {
        let text = line[at..].trim_start_matches(['/', '!']).trim_start();
        text.strip_prefix("spec:")
    });
    comment
        .into_iter()
        .flat_map(|ids| ids.split(',').map(str::trim))
}

/// The lines and the modules in other files that are compiled only for tests.
#[derive(Default)]
pub(crate) struct TestParts {
    pub(crate) lines: Vec<bool>,
    pub(crate) modules: Vec<String>,
}

/// Returns the test parts of a source file. An item ends at a closing brace with its indentation,
/// as rustfmt formats it.
pub(crate) fn test_parts(source: &str) -> TestParts {
    let mut parts = TestParts::default();
    let (mut whole_file, mut attributed, mut within) = (false, false, None);
    for line in source.lines() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        whole_file |= code.starts_with("#![cfg(test)]");
        let is_attribute = code.starts_with("#[cfg(test)]") || code.starts_with("#[cfg(all(test,");
        parts
            .lines
            .push(whole_file || attributed || is_attribute || within.is_some());
        if within == Some(indent) && code.starts_with('}') {
            within = None;
        } else if within.is_none() && is_attribute {
            attributed = true;
        } else if attributed && !code.starts_with('#') && !code.starts_with("//") {
            attributed = false;
            let ends_here = code.ends_with(';') || code.ends_with('}');
            within = (!ends_here).then_some(indent);
            let module = code
                .strip_suffix(';')
                .and_then(|code| code.rsplit_once("mod "));
            parts
                .modules
                .extend(module.map(|(_, name)| name.to_owned()));
        }
    }
    parts
}

/// Returns the folder with the modules of a source file.
pub(crate) fn modules_folder(file: &Path) -> PathBuf {
    let is_root = ["lib.rs", "main.rs", "mod.rs"]
        .iter()
        .any(|root| file.ends_with(root));
    if is_root {
        file.parent().unwrap().to_owned()
    } else {
        file.with_extension("")
    }
}

/// Returns true for a test file, by its path: it is in a folder of tests or is named after tests.
pub(crate) fn is_test_file(file: &Path) -> bool {
    file.ends_with("tests.rs") || file.components().any(|part| part.as_os_str() == "tests")
}

pub(crate) fn citations(sources: &[(PathBuf, String)]) -> Vec<Citation> {
    let parts: Vec<_> = sources
        .iter()
        .map(|(_, source)| test_parts(source))
        .collect();
    let test_modules: Vec<_> = sources
        .iter()
        .zip(&parts)
        .flat_map(|((file, _), parts)| {
            parts
                .modules
                .iter()
                .map(|module| modules_folder(file).join(module))
        })
        .collect();
    let mut citations = Vec::new();
    for ((file, source), parts) in sources.iter().zip(&parts) {
        let gated = test_modules
            .iter()
            .any(|module| file.starts_with(module) || *file == module.with_extension("rs"));
        for (index, line) in source.lines().enumerate() {
            let is_test = is_test_file(file) || gated || parts.lines[index];
            let place = format!("{}:{}", file.display(), index + 1);
            citations.extend(cited(line).map(|id| Citation {
                id: id.to_owned(),
                place: place.clone(),
                is_test,
            }));
        }
    }
    citations
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut sources = Vec::new();
    for folder in SOURCES {
        read_sources(&Path::new(ROOT).join(folder), &mut sources);
    }
    sources.retain(|(file, _)| UNSEARCHED.iter().all(|other| !file.starts_with(other)));
    sources
}

fn read_sources(folder: &Path, sources: &mut Vec<(PathBuf, String)>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with("target") {
            read_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            sources.push((path.strip_prefix(ROOT).unwrap().to_owned(), source));
        }
    }
}

/// The citations of each rule in code and in tests. A rule that repeats another one shares its
/// citations.
struct Coverage<'a> {
    code: BTreeSet<&'a str>,
    tests: BTreeSet<&'a str>,
}

impl<'a> Coverage<'a> {
    fn new(requirements: &'a [Requirement], citations: &[Citation]) -> Self {
        let rules: BTreeMap<_, _> = requirements
            .iter()
            .map(|one| (one.id.as_str(), one.cited_as()))
            .collect();
        let in_place = |is_test: bool| {
            let ours = citations
                .iter()
                .filter(|citation| citation.is_test == is_test);
            ours.filter_map(|citation| rules.get(citation.id.as_str()).copied())
                .collect()
        };
        Self {
            code: in_place(false),
            tests: in_place(true),
        }
    }

    fn of(&self, one: &Requirement) -> (bool, bool) {
        (
            self.code.contains(one.cited_as()),
            self.tests.contains(one.cited_as()),
        )
    }
}

pub(crate) fn uncovered(requirements: &[Requirement], citations: &[Citation]) -> Vec<String> {
    let ids: BTreeSet<_> = requirements.iter().map(|one| one.id.as_str()).collect();
    let unknown = citations
        .iter()
        .filter(|citation| !ids.contains(citation.id.as_str()));
    let mut faults: Vec<_> = unknown
        .map(|citation| format!("{}: no requirement {:?}", citation.place, citation.id))
        .collect();
    let coverage = Coverage::new(requirements, citations);
    for one in requirements {
        let fault = match (one.status, coverage.of(one)) {
            (Status::Covered, (false, false)) => "covered, but nothing cites it",
            (Status::Covered, (false, true)) => "covered, but no code cites it",
            (Status::Covered, (true, false)) => "covered, but no test cites it",
            (Status::Open, (true, true)) => "code and a test cite it: mark it covered",
            _ => continue,
        };
        faults.push(format!("{}: {fault}", one.id));
    }
    faults
}

pub(crate) fn report(requirements: &[Requirement], citations: &[Citation]) -> String {
    let mut lines = vec![format!(
        "{:8}{:>6}{:>9}{:>6}{:>16}",
        "draft", "total", "covered", "open", "not applicable"
    )];
    let drafts = DRAFTS.iter().map(|(draft, _)| *draft);
    let drafts = drafts.chain([BIDIRECTION, RFC.0]);
    for draft in drafts {
        let ours: Vec<_> = requirements
            .iter()
            .filter(|one| one.draft() == draft)
            .collect();
        let count = |status| ours.iter().filter(|one| one.status == status).count();
        let [covered, open, not] =
            [Status::Covered, Status::Open, Status::NotApplicable].map(count);
        lines.push(format!(
            "{draft:8}{:>6}{covered:>9}{open:>6}{not:>16}",
            ours.len()
        ));
    }
    let coverage = Coverage::new(requirements, citations);
    for (title, half) in [
        ("code alone", (true, false)),
        ("a test alone", (false, true)),
    ] {
        let ours = requirements
            .iter()
            .filter(|one| one.status != Status::NotApplicable && coverage.of(one) == half);
        let ids: Vec<_> = ours.map(|one| one.id.as_str()).collect();
        lines.push(format!(
            "cited in {title}: {}",
            if ids.is_empty() {
                "none".to_owned()
            } else {
                ids.join(", ")
            }
        ));
    }
    lines.join("\n")
}

#[test]
fn requirements_are_covered_as_marked() {
    let (requirements, citations) = (requirements(), citations(&sources()));
    println!("{}", report(&requirements, &citations));
    let faults = uncovered(&requirements, &citations);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
