//! Finds the files that the documents of a module include.
//!
//! The file of `#include "b.x"` is part of the document, as it is for rpcgen. `%#include "b.h"` is
//! for C, and names the header that rpcgen generates from `b.x`: the compiler takes the definitions
//! of `b.x` that a module needs. A header without XDR, such as `<stdio.h>`, is not found, which is
//! not a defect.
//!
//! This module loads the files; `compilation` parses them, and `supply` takes definitions from
//! those of `%#include`. `compilation` drops each line for which [`Files::has_found`] is true from
//! `Specification::includes`: `check::places` names the others beside an undefined name. The lexer
//! decides which lines include, after errata, so both agree on the text of a line.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use crate::config::canonical;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::errata::Erratum;
use crate::extract;
use crate::parse::lexer;
use crate::source::{DocumentId, SourceMap};

/// The maximum number of files that include each other in a chain.
const MAX_DEPTH: usize = 32;

/// The documents of a module.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The documents to compile: those of the configuration, and those of `#include`.
    pub(crate) documents: Vec<DocumentId>,
    /// The files of `%#include`.
    pub(crate) supplies: Vec<DocumentId>,
    /// The paths of the files that the configuration does not name.
    pub(crate) included: Vec<PathBuf>,
    /// The lines that include a file that was found.
    found: HashSet<(DocumentId, String)>,
    /// The canonical paths of all files.
    paths: HashSet<PathBuf>,
}

impl Files {
    /// Returns true if the file that a line includes was found.
    pub(crate) fn has_found(&self, document: DocumentId, line: &str) -> bool {
        self.found.contains(&(document, line.to_owned()))
    }
}

/// Reads a file as a document.
pub(crate) type Load<'c> =
    dyn Fn(&mut SourceMap, &Path, &mut Diagnostics) -> Option<DocumentId> + 'c;

/// Searches the includes of one module.
pub(crate) struct Search<'c> {
    /// The folders besides that of the document.
    pub(crate) folders: &'c [PathBuf],
    /// The errata, which may change a line that includes.
    pub(crate) errata: &'c [Erratum],
    /// The documents of all modules.
    pub(crate) sources: &'c mut SourceMap,
    /// The diagnostics.
    pub(crate) diagnostics: &'c mut Diagnostics,
    /// Reads a file as a document.
    pub(crate) load: &'c Load<'c>,
    /// Returns true for a file that exists, on disk or in an editor.
    pub(crate) exists: &'c dyn Fn(&Path) -> bool,
}

/// A file that a document includes.
struct Target {
    path: PathBuf,
    /// The number of files before it in the chain.
    depth: usize,
    /// Whether the file is part of the document.
    whole: bool,
}

/// The files to open.
#[derive(Default)]
struct Targets {
    whole: VecDeque<Target>,
    others: VecDeque<Target>,
}

impl Targets {
    fn extend(&mut self, targets: Vec<Target>) {
        for target in targets {
            let queue = if target.whole {
                &mut self.whole
            } else {
                &mut self.others
            };
            queue.push_back(target);
        }
    }

    /// Returns the next file. Files that are part of a document come first, because they supply
    /// nothing else.
    fn next(&mut self) -> Option<Target> {
        self.whole.pop_front().or_else(|| self.others.pop_front())
    }
}

impl Search<'_> {
    /// Finds the includes of documents, each of which has a path unless it is from memory. `used`
    /// are the modules that the module uses: it takes none of their files again.
    pub(crate) fn files(
        mut self,
        documents: Vec<(DocumentId, Option<PathBuf>)>,
        used: &[&Files],
    ) -> Files {
        let mut files = Files::default();
        let mut targets = Targets::default();
        let theirs = used.iter().flat_map(|files| files.paths.iter().cloned());
        let mut seen: HashSet<PathBuf> = theirs.collect();
        for (document, path) in &documents {
            files.documents.push(*document);
            let canonical = path.as_deref().map(canonical);
            seen.extend(canonical.clone());
            files.paths.extend(canonical);
        }
        for (document, path) in documents {
            let from = (document, path.as_deref(), 0, true);
            targets.extend(self.targets(from, &mut files));
        }
        while let Some(target) = targets.next() {
            targets.extend(self.open(target, &mut files, &mut seen));
        }
        files
    }

    /// Reads a file that was not read before, and returns the files that it includes.
    fn open(
        &mut self,
        target: Target,
        files: &mut Files,
        seen: &mut HashSet<PathBuf>,
    ) -> Vec<Target> {
        let Target { path, depth, whole } = target;
        let canonical = canonical(&path);
        if !seen.insert(canonical.clone()) {
            return Vec::new();
        }
        if depth > MAX_DEPTH {
            let message = format!(
                "`{}` is included by a chain of more than {MAX_DEPTH} files",
                path.display()
            );
            let found = Diagnostic::without_span(Code::Unreadable, message);
            self.diagnostics.report(found);
            return Vec::new();
        }
        let Some(document) = (self.load)(self.sources, &path, self.diagnostics) else {
            return Vec::new();
        };
        if whole {
            files.documents.push(document);
            files.paths.insert(canonical);
        } else {
            files.supplies.push(document);
        }
        files.included.push(path.clone());
        self.targets((document, Some(&path), depth, whole), files)
    }

    /// Returns the files that a document includes.
    fn targets(
        &mut self,
        (document, path, depth, whole): (DocumentId, Option<&Path>, usize, bool),
        files: &mut Files,
    ) -> Vec<Target> {
        let mut targets = Vec::new();
        for line in self.lines(document) {
            let Some(path) = name(&line).and_then(|name| self.search(path, name)) else {
                continue;
            };
            targets.push(Target {
                path,
                depth: depth + 1,
                whole: whole && line.starts_with('#'),
            });
            files.found.insert((document, line));
        }
        targets
    }

    /// Returns the lines of a document that include others.
    fn lines(&self, document: DocumentId) -> Vec<String> {
        let document = self.sources.document(document);
        let mut errata = self.errata.iter();
        let has_erratum = errata.any(|erratum| erratum.document == document.file_name());
        let may_include = document.text().contains("include") || has_erratum;
        if document.prose_sections().is_some() || !may_include {
            return Vec::new();
        }
        let mut sources = SourceMap::new();
        let copy = sources.add_document(document.name(), document.text());
        let mut ignored = Diagnostics::default();
        let extraction = extract::extract(&mut sources, copy, self.errata, &mut ignored);
        let content = sources.text(extraction.xdr).content();
        let includes = lexer::lex(content, extraction.xdr).includes;
        let lines = includes.iter().map(|span| sources.slice(*span).to_owned());
        lines.collect()
    }

    /// Returns the path of an included file: beside the document at `path`, or in another folder.
    /// The document's folder may also have the file without the folders before its name.
    fn search(&self, path: Option<&Path>, name: &str) -> Option<PathBuf> {
        let file = Path::new(name);
        let xdr = match file.extension()?.to_str()? {
            "h" | "x" => file.with_extension("x"),
            _ => return None,
        };
        let beside = path.and_then(Path::parent).into_iter();
        let beside = beside.flat_map(|folder| [Some(folder.join(&xdr)), beside_of(folder, &xdr)]);
        let others = self.folders.iter().map(|folder| Some(folder.join(&xdr)));
        let mut paths = beside.chain(others).flatten();
        paths.find(|path| (self.exists)(path))
    }
}

fn beside_of(folder: &Path, file: &Path) -> Option<PathBuf> {
    Some(folder.join(file.file_name()?))
}

/// Returns the name in a line such as `%#include "name"` or `#include <name>`.
fn name(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("include")?;
    let rest = rest.trim_start();
    let end = match rest.chars().next()? {
        '"' => '"',
        '<' => '>',
        _ => return None,
    };
    rest[1..].split_once(end).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn names_of_included_files() {
        assert_eq!(name("%#include \"a.h\" /* b */"), Some("a.h"));
        assert_eq!(name("#  include <a/b.x>"), Some("a/b.x"));
        for other in [
            "%#include",
            "#include a.h",
            "#include \"a.h",
            "#include <a.h",
            "#includé",
        ] {
            assert_eq!(name(other), None, "{other}");
        }
    }
}
