//! The manifest, `xdrgen.toml`: which documents make which modules, and how. It says what [`crate::Config`] does in
//! code, so that a build script and the command read the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use serde::Deserialize;
use toml::Spanned;

use crate::config::{Config, Module, Overlay, Source};
use crate::diagnostic::{Code, Diagnostic, Level};
use crate::error::Error;
use crate::ir::Shapes;
use crate::prelude::Prelude;
use crate::source::{Sources, Span, TextKind};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    #[serde(default)]
    prelude: Vec<Prelude>,
    #[serde(default)]
    errata: Vec<String>,
    owned_feature: Option<String>,
    #[serde(default)]
    lints: BTreeMap<String, LevelName>,
    #[serde(default)]
    module: Vec<ModuleTable>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LevelName {
    Allow,
    Warn,
    Deny,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModuleTable {
    path: Spanned<String>,
    documents: Vec<String>,
    #[serde(default)]
    uses: Vec<String>,
    #[serde(default)]
    shapes: Shapes,
    #[serde(default)]
    strip: Vec<String>,
    #[serde(default)]
    overlay: Vec<OverlayTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverlayTable {
    name: Spanned<String>,
    r#struct: String,
    code: String,
    data: String,
    #[serde(default)]
    empty_is_default: bool,
    #[serde(default)]
    strip: Vec<String>,
    cases: Vec<(String, String)>,
}

impl Config {
    /// What a manifest says. The paths in it are relative to it.
    ///
    /// # Errors
    /// The manifest can't be read or is wrong; the error shows where.
    pub fn from_manifest(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.to_string_lossy();
        let text = std::fs::read_to_string(path).map_err(|error| Error::unreadable(&name, &error))?;
        let mut sources = Sources::new();
        read(&mut sources, &name, &text).map_err(|diagnostic| Error::of(&sources, &[*diagnostic]))
    }
}

/// Reads a manifest's text; `name` is its path, and what it names lies beside it.
///
/// # Errors
/// What is wrong, at its line.
fn read(sources: &mut Sources, name: &str, text: &str) -> Result<Config, Box<Diagnostic>> {
    let document = sources.add_document(name, text);
    let whole = sources.add_whole(document, TextKind::Other);
    let at = |range: Option<std::ops::Range<usize>>| Span::new(whole, range.unwrap_or(0..0));
    let fault = |span, message: &str| Box::new(Diagnostic::new(Code::Configuration, span, message));
    let manifest: Manifest = toml::from_str(text).map_err(|error| fault(at(error.span()), error.message()))?;
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let beside = |file: &String| folder.join(file);
    let mut config = Config::bare();
    config.manifest = Some(name.into());
    config.prelude = manifest.prelude;
    config.owned_feature = manifest.owned_feature;
    config.errata = manifest.errata.iter().map(beside).collect();
    for (lint, level) in &manifest.lints {
        let place = text.find(lint.as_str()).map(|start| start..start + lint.len());
        let code = Code::from_str(lint).map_err(|error| fault(at(place.clone()), &error.to_string()))?;
        config.levels.set(code, Level::from(*level)).map_err(|error| fault(at(place), &error.to_string()))?;
    }
    config.modules = manifest.module.into_iter().map(|table| module(table, &beside)).collect();
    Ok(config)
}

fn module(table: ModuleTable, beside: &impl Fn(&String) -> std::path::PathBuf) -> Module {
    let place = table.path.span();
    let mut module = Module::new(table.path.into_inner());
    module.place = Some(place);
    module.overlay_places = table.overlay.iter().map(|overlay| overlay.name.span()).collect();
    module.documents = table.documents.iter().map(beside).map(Source::File).collect();
    module.uses = table.uses;
    module.shapes = table.shapes;
    module.strip = table.strip;
    module.overlays = table.overlay.into_iter().map(overlay).collect();
    module
}

fn overlay(table: OverlayTable) -> Overlay {
    Overlay {
        name: table.name.into_inner(),
        carrier: table.r#struct,
        code: table.code,
        data: table.data,
        empty_is_default: table.empty_is_default,
        strip: table.strip,
        cases: table.cases,
    }
}

impl From<LevelName> for Level {
    fn from(name: LevelName) -> Self {
        match name {
            LevelName::Allow => Self::Allow,
            LevelName::Warn => Self::Warn,
            LevelName::Deny => Self::Deny,
        }
    }
}
