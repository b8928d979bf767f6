//! The state of the server: open documents and their projects. `project` decides which documents
//! belong together, `buffers` has the texts, and `answers` renders the results.
//!
//! Each open document has a key, and each key has a project. A project ends when its last open
//! document is closed. A change of a text must invalidate each project that contains or includes
//! the document: it compiles again on the next request or `refresh`. A document that is opened or
//! closed may be one that any project waits for, or no longer finds. The diagnostics of a document
//! are those of all projects. Only changed ones are published; the editor keeps the others.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::params::{DidChange, DidOpen, DocumentParams, PositionParams, RangeParams};
use super::project::{self, Project, ProjectKey};
use super::{answers, buffers::Buffers, uri};
use crate::args::LspArgs;

/// The reason why a request has no result.
#[derive(Debug)]
pub(crate) enum RequestError {
    UnknownMethod,
    InvalidParams(String),
}

/// A server for one editor.
#[derive(Debug)]
pub(crate) struct Server {
    arguments: LspArgs,
    buffers: Buffers,
    /// The project of each open document.
    keys: BTreeMap<PathBuf, ProjectKey>,
    projects: BTreeMap<ProjectKey, Project>,
    /// Whether a project has ended since the last publication.
    has_ended: bool,
    /// The published diagnostics, by the URI of their document.
    published: BTreeMap<String, Value>,
}

const PUBLISH: &str = "textDocument/publishDiagnostics";

impl Server {
    pub(crate) fn new(arguments: LspArgs) -> Self {
        Self {
            arguments,
            buffers: Buffers::default(),
            keys: BTreeMap::new(),
            projects: BTreeMap::new(),
            has_ended: false,
            published: BTreeMap::new(),
        }
    }

    /// Returns true if [`Self::refresh`] has something to do.
    pub(crate) fn is_stale(&self) -> bool {
        self.has_ended || self.projects.values().any(Project::is_stale)
    }

    /// Handles a notification. Unknown and malformed notifications are ignored.
    pub(crate) fn notification(&mut self, method: &str, params: Value) {
        match method {
            "textDocument/didOpen" => {
                if let Ok(DidOpen { text_document }) = parse(params) {
                    let (uri, version, text) =
                        (text_document.uri, text_document.version, text_document.text);
                    let path = self.buffers.open(uri, version, text);
                    self.invalidate_all();
                    self.assign(&path);
                }
            }
            "textDocument/didChange" => {
                if let Ok(change) = parse::<DidChange>(params) {
                    self.change(change);
                }
            }
            "textDocument/didClose" => {
                if let Ok(DocumentParams { text_document }) = parse(params) {
                    self.close(&uri::path(&text_document.uri));
                }
            }
            // A manifest, an errata file or an included file may have changed.
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => self.reload(),
            _ => {}
        }
    }

    /// Answers a request.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Result<Value, RequestError> {
        match method {
            "textDocument/hover" => {
                let params: PositionParams = parse(params)?;
                Ok(self.at(params, |server, path, offset| {
                    let (project, buffers) = server.project(path)?;
                    answers::hover(project.compilation(buffers), path, offset)
                }))
            }
            "textDocument/definition" => {
                let params: PositionParams = parse(params)?;
                Ok(self.at(params, |server, path, offset| {
                    let (project, buffers) = server.project(path)?;
                    answers::definition(project.compilation(buffers), buffers, path, offset)
                }))
            }
            "textDocument/codeAction" => {
                let RangeParams {
                    text_document,
                    range,
                } = parse(params)?;
                let path = uri::path(&text_document.uri);
                let Some((project, buffers)) = self.project(&path) else {
                    return Ok(Value::Null);
                };
                let compilation = project.compilation(buffers);
                Ok(answers::code_actions(compilation, buffers, &path, range))
            }
            "textDocument/documentSymbol" => {
                let DocumentParams { text_document } = parse(params)?;
                let path = uri::path(&text_document.uri);
                let Some((project, buffers)) = self.project(&path) else {
                    return Ok(Value::Null);
                };
                let compilation = project.compilation(buffers);
                Ok(answers::document_symbols(compilation, buffers, &path))
            }
            "textDocument/formatting" => {
                let DocumentParams { text_document } = parse(params)?;
                Ok(self.formatting(&uri::path(&text_document.uri)))
            }
            _ => Err(RequestError::UnknownMethod),
        }
    }

    /// Checks the changed projects, and returns the diagnostics that were not published yet.
    pub(crate) fn refresh(&mut self) -> Vec<(&'static str, Value)> {
        self.has_ended = false;
        for (key, project) in &mut self.projects {
            if !project.is_stale() {
                continue;
            }
            let mut open = self.keys.iter().filter(|(_, other)| *other == key);
            let Some((path, _)) = open.next() else {
                continue;
            };
            let compilation = project.compilation(&self.buffers);
            let found = answers::diagnostics(compilation, &self.buffers, path);
            project.set_found(found);
        }
        let found = merged(self.projects.values().map(Project::found));
        publications(&mut self.published, found, &self.buffers)
    }

    /// Returns the project of an open document.
    fn project(&mut self, path: &Path) -> Option<(&mut Project, &Buffers)> {
        let key = self.keys.get(path)?;
        Some((self.projects.get_mut(key)?, &self.buffers))
    }

    /// Calls `answer` with the path and the byte offset of a position. The result is null if the
    /// document is not open or `answer` returns `None`.
    fn at(
        &mut self,
        params: PositionParams,
        answer: impl FnOnce(&mut Self, &Path, usize) -> Option<Value>,
    ) -> Value {
        let path = uri::path(&params.text_document.uri);
        let buffer = self.buffers.get(&path);
        let offset = buffer.map(|buffer| buffer.lines.offset(&buffer.text, params.position));
        offset
            .and_then(|offset| answer(self, &path, offset))
            .unwrap_or_default()
    }

    fn change(&mut self, change: DidChange) {
        let DidChange {
            text_document,
            content_changes,
        } = change;
        let path = uri::path(&text_document.uri);
        let version = text_document.version;
        if self.buffers.change(&path, version, content_changes) {
            for project in self.projects.values_mut() {
                project.change(&path);
            }
        }
    }

    fn invalidate_all(&mut self) {
        self.projects.values_mut().for_each(Project::invalidate);
    }

    /// Finds the project of a document that was opened.
    fn assign(&mut self, path: &Path) {
        let (key, config) = project::of_document(path, &self.arguments);
        self.keys.insert(path.to_owned(), key.clone());
        match self.projects.get_mut(&key) {
            Some(project) => project.configure(config),
            None => {
                self.projects.insert(key, Project::new(config));
            }
        }
    }

    /// Removes a document. Closing the last open document of a project ends the project.
    fn close(&mut self, path: &Path) {
        self.buffers.close(path);
        if self.keys.remove(path).is_some() {
            self.end_unused();
            self.invalidate_all();
        }
    }

    /// Ends the projects without an open document.
    fn end_unused(&mut self) {
        let before = self.projects.len();
        let keys = &self.keys;
        let is_used = |key: &ProjectKey| keys.values().any(|used| used == key);
        self.projects.retain(|key, _| is_used(key));
        self.has_ended |= self.projects.len() < before;
    }

    /// Finds the project of every open document again, and checks all projects.
    fn reload(&mut self) {
        let paths: Vec<PathBuf> = self.keys.keys().cloned().collect();
        for path in paths {
            self.assign(&path);
        }
        self.end_unused();
    }

    /// Returns the edit that formats a document of plain XDR; null for other documents, and for a
    /// document with a syntax error.
    fn formatting(&self, path: &Path) -> Value {
        let is_xdr = path.extension().is_some_and(|extension| extension == "x");
        let buffer = self.buffers.get(path).filter(|_| is_xdr);
        let formatted = buffer.and_then(|buffer| {
            let text = xdrgen_build::format(&buffer.uri, &buffer.text).ok()?;
            Some((buffer, text))
        });
        match formatted {
            None => Value::Null,
            Some((buffer, text)) if text == buffer.text => json!([]),
            Some((buffer, text)) => {
                let range = buffer.lines.whole(&buffer.text);
                json!([{ "range": range, "newText": text }])
            }
        }
    }
}

/// Returns the diagnostics of each document in several projects, each of them once.
fn merged<'p>(
    projects: impl Iterator<Item = &'p BTreeMap<String, Vec<Value>>>,
) -> BTreeMap<String, Value> {
    let mut lists: BTreeMap<&str, (Vec<Value>, HashSet<&Value>)> = BTreeMap::new();
    for (uri, list) in projects.flatten() {
        let (all, seen) = lists.entry(uri).or_default();
        all.extend(list.iter().filter(|found| seen.insert(found)).cloned());
    }
    let lists = lists.into_iter();
    lists
        .map(|(uri, (list, _))| (uri.to_owned(), Value::Array(list)))
        .collect()
}

/// Returns the notifications that replace the diagnostics `published` by `found`, and stores
/// `found`.
fn publications(
    published: &mut BTreeMap<String, Value>,
    found: BTreeMap<String, Value>,
    buffers: &Buffers,
) -> Vec<(&'static str, Value)> {
    let publish = |uri: &str, list: Value| {
        let mut params = json!({ "uri": uri, "diagnostics": list });
        if let Some(buffer) = buffers.get(&uri::path(uri)) {
            params["version"] = buffer.version.into();
        }
        (PUBLISH, params)
    };
    let gone = published.keys().filter(|uri| !found.contains_key(*uri));
    let gone: Vec<_> = gone.map(|uri| publish(uri, json!([]))).collect();
    let new = found
        .iter()
        .filter(|(uri, list)| published.get(*uri) != Some(*list));
    let new: Vec<_> = new.map(|(uri, list)| publish(uri, list.clone())).collect();
    *published = found;
    gone.into_iter().chain(new).collect()
}

fn parse<T: DeserializeOwned>(params: Value) -> Result<T, RequestError> {
    serde_json::from_value(params).map_err(|error| RequestError::InvalidParams(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both projects have the diagnostics of one document, which the second finds in another order
    /// and with others. Comparing each pair would take minutes.
    #[test]
    fn diagnostics_of_several_projects_are_merged_once_and_in_order() {
        const COUNT: usize = 100_000;
        let found = |numbers: &mut dyn Iterator<Item = usize>| {
            let list = numbers.map(|number| json!({ "message": number })).collect();
            BTreeMap::from([("file:///a.x".to_owned(), list)])
        };
        let one = found(&mut (0..COUNT));
        let two = found(&mut (COUNT / 2..COUNT + COUNT / 2).rev());
        let expected = (0..COUNT).chain((COUNT..COUNT + COUNT / 2).rev());
        let expected: Vec<Value> = expected
            .map(|number| json!({ "message": number }))
            .collect();
        let merged = merged([&one, &two].into_iter());
        assert_eq!(merged["file:///a.x"], Value::Array(expected));
    }
}
