//! The documents that are compiled together: the documents of a manifest, or a single document.
//!
//! A project caches one compilation. Whoever changes a buffer or a setting must call
//! [`Project::invalidate`] or [`Project::configure`]: `compilation` does not compare texts.
//! `is_stale` concerns the publication of diagnostics, and not the cache. Paths are compared in the
//! form of [`canonical`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use xdrgen_build::source::{Document, DocumentId};
use xdrgen_build::{Compilation, Config, canonical};

use super::buffers::Buffers;
use crate::args::{Input, Lints, LspArgs, Settings};
use crate::{CommandError, input};

/// Identifies a project.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProjectKey {
    /// The path of the manifest.
    Manifest(PathBuf),
    /// The path of the document.
    Document(PathBuf),
}

/// Documents that are compiled together, and the result of their compilation.
#[derive(Debug)]
pub(crate) struct Project {
    config: Config,
    /// The result for the current texts; `None` after a change.
    compilation: Option<Compilation>,
    /// Whether the diagnostics of the current texts are not published yet. A request may cause a
    /// compilation before they are.
    is_stale: bool,
    /// The diagnostics to publish, by the URI of their document.
    found: BTreeMap<String, Vec<Value>>,
}

impl Project {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            compilation: None,
            is_stale: true,
            found: BTreeMap::new(),
        }
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Records that a text has changed.
    pub(crate) fn invalidate(&mut self) {
        self.compilation = None;
        self.is_stale = true;
    }

    /// Records that the text of a document has changed, which the project may include.
    pub(crate) fn change(&mut self, path: &Path) {
        let compilation = self.compilation.as_ref();
        if compilation.is_none_or(|compilation| document(compilation, path).is_some()) {
            self.invalidate();
        }
    }

    /// Sets the diagnostics of the current texts.
    pub(crate) fn set_found(&mut self, found: BTreeMap<String, Vec<Value>>) {
        self.found = found;
        self.is_stale = false;
    }

    /// Returns the diagnostics that were set last.
    pub(crate) fn found(&self) -> &BTreeMap<String, Vec<Value>> {
        &self.found
    }

    /// Replaces the settings.
    pub(crate) fn configure(&mut self, config: Config) {
        self.config = config;
        self.invalidate();
    }

    /// Returns the result for the current texts. Files that are not open are read from disk.
    pub(crate) fn compilation(&mut self, buffers: &Buffers) -> &Compilation {
        let Self {
            config,
            compilation,
            ..
        } = self;
        compilation.get_or_insert_with(|| {
            let edited = buffers.iter();
            let edited = edited.fold(config.clone(), |config, (path, buffer)| {
                config.edited(path, buffer.text.as_str())
            });
            edited.check()
        })
    }
}

/// Returns the document with a path in a compilation.
pub(crate) fn document<'c>(
    compilation: &'c Compilation,
    path: &Path,
) -> Option<(DocumentId, &'c Document)> {
    let mut documents = compilation.sources().documents();
    documents.find(|(_, document)| document_path(document) == path)
}

/// Returns the path of a document.
pub(crate) fn document_path(document: &Document) -> PathBuf {
    canonical(Path::new(document.name()))
}

/// Returns the project of a document: the nearest manifest that names it, in a folder above the
/// document or in the folder `spec` of such a folder, or else the document alone.
pub(crate) fn of_document(path: &Path, arguments: &LspArgs) -> (ProjectKey, Config) {
    let folders = path.ancestors().skip(1).filter(|_| path.is_absolute());
    let manifests = folders.flat_map(|folder| {
        ["xdrgen.toml", "spec/xdrgen.toml"].map(|manifest| folder.join(manifest))
    });
    for manifest in manifests.filter(|manifest| manifest.is_file()) {
        let Some(config) = of_manifest(&manifest, arguments) else {
            continue;
        };
        let is_here = |document: &Path| canonical(document) == path;
        if config.document_paths().any(is_here) {
            return (ProjectKey::Manifest(manifest), config);
        }
    }
    let key = ProjectKey::Document(path.to_owned());
    (key, alone(path, arguments))
}

/// Returns the settings of a manifest, or `None` if the manifest has an error.
fn of_manifest(path: &Path, arguments: &LspArgs) -> Option<Config> {
    let config = Config::from_manifest(path).ok()?;
    input::levels(config, &arguments.lints).ok()
}

/// Returns the settings for a document that no manifest names. They are the same as for `xdrgen
/// check FILE`.
///
/// # Errors
/// Fails if an argument is wrong.
pub(crate) fn settings(path: &Path, arguments: &LspArgs) -> Result<Config, CommandError> {
    let LspArgs {
        errata,
        include,
        prelude,
        lints,
    } = arguments;
    let settings = Settings {
        manifest: None,
        errata: errata.clone(),
        no_errata: false,
        include: include.clone(),
        prelude: prelude.clone(),
    };
    input::config(&of_path(path, settings, lints.clone()), None)
}

/// Returns [`settings`]. The arguments were checked when the server started. If a file that they
/// name is gone since, the defaults apply.
fn alone(path: &Path, arguments: &LspArgs) -> Config {
    let plain = || of_path(path, Settings::default(), Lints::default());
    settings(path, arguments)
        .or_else(|_| input::config(&plain(), None))
        .unwrap_or_else(|_| Config::new())
}

fn of_path(path: &Path, settings: Settings, lints: Lints) -> Input {
    Input {
        paths: vec![path.to_owned()],
        settings,
        lints,
    }
}
