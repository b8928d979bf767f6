//! The current texts of the documents that are open in the editor. The keys are canonical paths
//! (`uri::path`), and each buffer keeps the URI that the editor uses. `lines` of a buffer must be
//! computed again after each change, because the next change of the same message refers to them.
//! The caller invalidates the projects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::lines::Lines;
use super::params::Change;
use super::uri;

/// An open document.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// The URI that the editor uses.
    pub(crate) uri: String,
    pub(crate) version: i64,
    pub(crate) text: String,
    pub(crate) lines: Lines,
}

/// The open documents, by their paths.
#[derive(Debug, Default)]
pub(crate) struct Buffers(BTreeMap<PathBuf, Buffer>);

impl Buffers {
    /// Adds a document, and returns its path.
    pub(crate) fn open(&mut self, uri: String, version: i64, text: String) -> PathBuf {
        let path = uri::path(&uri);
        let lines = Lines::of(&text);
        let buffer = Buffer {
            uri,
            version,
            text,
            lines,
        };
        self.0.insert(path.clone(), buffer);
        path
    }

    /// Applies changes, one after the other. Returns false if the document is not open.
    pub(crate) fn change(&mut self, path: &Path, version: i64, changes: Vec<Change>) -> bool {
        let Some(buffer) = self.0.get_mut(path) else {
            return false;
        };
        buffer.version = version;
        for change in changes {
            match change.range {
                None => buffer.text = change.text,
                Some(range) => {
                    let bytes = buffer.lines.offsets(&buffer.text, range);
                    buffer.text.replace_range(bytes, &change.text);
                }
            }
            buffer.lines = Lines::of(&buffer.text);
        }
        true
    }

    pub(crate) fn close(&mut self, path: &Path) {
        self.0.remove(path);
    }

    pub(crate) fn get(&self, path: &Path) -> Option<&Buffer> {
        self.0.get(path)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &Buffer)> {
        self.0.iter().map(|(path, buffer)| (path.as_path(), buffer))
    }
}
