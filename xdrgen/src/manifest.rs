//! Reads the manifest, `xdrgen.toml`, into a [`crate::Config`]. A build script and the command
//! `xdrgen` share it.
//!
//! The structs here are the format; `docs/guide.md` (Settings) documents each key beside its method
//! of the builder. Unknown keys are errors. Unlike [`Config::new`], a manifest without `prelude`
//! has none. Of a module, `documents` precede `prose`, and `extends` come last. Ranges of settings
//! are byte offsets in the manifest's text: `compilation` reads the manifest again and maps them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use serde::Deserialize;
use toml::Spanned;

use crate::config::{Config, DocumentSource, Module, Overlay, OverlayRanges, Setting};
use crate::diagnostic::{Code, Diagnostic, Level};
use crate::error::Error;
use crate::ir::{Shapes, Stubs};
use crate::prelude::Prelude;
use crate::source::{SourceMap, Span, TextKind};
use crate::toml_error;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    #[serde(default)]
    prelude: Vec<Prelude>,
    #[serde(default)]
    errata: Vec<String>,
    #[serde(default)]
    include: Vec<String>,
    owned_feature: Option<Spanned<String>>,
    serde_feature: Option<Spanned<String>>,
    #[serde(default)]
    r#extern: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    lints: BTreeMap<Spanned<String>, LevelName>,
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
    #[serde(default)]
    documents: Vec<String>,
    #[serde(default)]
    prose: Vec<ProseTable>,
    #[serde(default)]
    extends: Vec<String>,
    #[serde(default)]
    uses: Vec<Spanned<String>>,
    #[serde(default)]
    shapes: Shapes,
    #[serde(default)]
    strip: Vec<Spanned<String>>,
    #[serde(default)]
    stubs: Option<Spanned<Vec<StubName>>>,
    #[serde(default)]
    ddp: Vec<Spanned<String>>,
    #[serde(default)]
    item_results: Vec<Spanned<String>>,
    #[serde(default)]
    open: Vec<Spanned<String>>,
    #[serde(default)]
    idempotent: Vec<Spanned<String>>,
    #[serde(default)]
    reply_items: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    rename: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    scoped_enums: bool,
    #[serde(default)]
    overlay: Vec<OverlayTable>,
}

/// A document without markers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProseTable {
    document: String,
    #[serde(default)]
    sections: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StubName {
    Client,
    Server,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverlayTable {
    name: Spanned<String>,
    r#struct: Spanned<String>,
    code: Spanned<String>,
    data: Spanned<String>,
    #[serde(default)]
    empty_is_default: bool,
    #[serde(default)]
    strip: Vec<Spanned<String>>,
    cases: Vec<(Spanned<String>, Spanned<String>)>,
}

impl Config {
    /// Reads a manifest. Paths in it are relative to the manifest's folder.
    ///
    /// # Errors
    /// Returns a report if the manifest cannot be read or is invalid.
    pub fn from_manifest(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.to_string_lossy();
        let text =
            std::fs::read_to_string(path).map_err(|error| Error::unreadable(&name, &error))?;
        let mut sources = SourceMap::new();
        read(&mut sources, &name, &text).map_err(|diagnostic| Error::of(&sources, &[*diagnostic]))
    }
}

/// Parses a manifest's text. `name` is the path of the manifest; relative paths start in its
/// folder.
///
/// # Errors
/// Returns a diagnostic at the first defect.
fn read(sources: &mut SourceMap, name: &str, text: &str) -> Result<Config, Box<Diagnostic>> {
    let document = sources.add_document(name, text);
    let whole = sources.add_document_text(document, TextKind::Other);
    let at = |range: Option<Range<usize>>| Span::new(whole, range.unwrap_or(0..0));
    let fault = |span, message: &str| Diagnostic::new(Code::Configuration, span, message);
    // The text and not the document is parsed: its lines end in one byte, so that offsets from
    // `toml` are offsets of the text.
    let manifest: Manifest = toml::from_str(sources.text(whole).content())
        .map_err(|error| toml_error::diagnostic(sources, whole, &error))?;
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let beside = |file: &String| folder.join(file);
    let mut config = Config::empty();
    config.manifest = Some(name.into());
    config.prelude = manifest.prelude;
    config.owned_feature = manifest.owned_feature.map(setting);
    config.serde_feature = manifest.serde_feature.map(setting);
    config.externs = pairs(manifest.r#extern);
    config.include_dirs = manifest.include.iter().map(beside).collect();
    config.errata = manifest.errata.iter().map(beside).collect();
    let mut lints: Vec<_> = manifest.lints.into_iter().collect();
    lints.sort_by_key(|(lint, _)| lint.span().start);
    for (lint, level) in lints {
        let Setting { text: name, range } = setting(lint);
        let place = at(range);
        let code = Code::from_str(&name).map_err(|error| {
            let names = Code::ALL.iter().map(|code| code.name());
            toml_error::suggest(fault(place, &error.to_string()), Some(place), &name, names)
        })?;
        let set = config.levels.set(code, Level::from(level));
        set.map_err(|error| fault(place, &error.to_string()))?;
    }
    config.modules = manifest
        .module
        .into_iter()
        .map(|table| module(table, &beside))
        .collect();
    Ok(config)
}

fn module(table: ModuleTable, beside: &impl Fn(&String) -> std::path::PathBuf) -> Module {
    let range = table.path.span();
    let mut module = Module::new(table.path.into_inner());
    module.path_range = Some(range);
    module.overlay_ranges = table.overlay.iter().map(overlay_ranges).collect();
    module.documents = table
        .documents
        .iter()
        .map(beside)
        .map(DocumentSource::File)
        .collect();
    let prose = table.prose.into_iter().map(|table| DocumentSource::Prose {
        path: beside(&table.document),
        sections: table.sections,
    });
    module.documents.extend(prose);
    let extensions = table.extends.iter().map(beside);
    let extensions = extensions.map(DocumentSource::Extension);
    module.documents.extend(extensions);
    module.uses = settings(table.uses);
    module.shapes = table.shapes;
    module.strip = settings(table.strip);
    module.ddp = settings(table.ddp);
    module.item_results = settings(table.item_results);
    module.open = settings(table.open);
    module.idempotent = settings(table.idempotent);
    module.reply_items = pairs(table.reply_items);
    module.rename = pairs(table.rename);
    module.scoped_enums = table.scoped_enums;
    module.stubs_range = table.stubs.as_ref().map(Spanned::span);
    if let Some(names) = table.stubs.map(Spanned::into_inner) {
        module.stubs = Stubs {
            client: names.contains(&StubName::Client),
            server: names.contains(&StubName::Server),
        };
    }
    module.overlays = table.overlay.into_iter().map(overlay).collect();
    module
}

/// Returns the entries of a list.
fn settings(list: Vec<Spanned<String>>) -> Vec<Setting> {
    list.into_iter().map(setting).collect()
}

/// Returns the entries of a table.
fn pairs(table: BTreeMap<Spanned<String>, Spanned<String>>) -> Vec<(Setting, Setting)> {
    let entries = table.into_iter();
    entries
        .map(|(key, value)| (setting(key), setting(value)))
        .collect()
}

fn setting(text: Spanned<String>) -> Setting {
    Setting {
        range: Some(range(&text)),
        text: text.into_inner(),
    }
}

/// Returns the range of a text, without the quotes around it.
fn range(text: &Spanned<String>) -> Range<usize> {
    let whole = text.span();
    let quotes = whole.len().saturating_sub(text.get_ref().len()) / 2;
    whole.start + quotes..whole.end - quotes
}

fn overlay(table: OverlayTable) -> Overlay {
    let cases = table.cases.into_iter();
    Overlay {
        name: table.name.into_inner(),
        carrier: table.r#struct.into_inner(),
        code: table.code.into_inner(),
        data: table.data.into_inner(),
        empty_is_default: table.empty_is_default,
        strip: table.strip.into_iter().map(Spanned::into_inner).collect(),
        cases: cases
            .map(|(code, content)| (code.into_inner(), content.into_inner()))
            .collect(),
    }
}

fn overlay_ranges(table: &OverlayTable) -> OverlayRanges {
    let cases = table.cases.iter();
    OverlayRanges {
        name: range(&table.name),
        carrier: range(&table.r#struct),
        code: range(&table.code),
        data: range(&table.data),
        strip: table.strip.iter().map(range).collect(),
        cases: cases
            .map(|(code, content)| (range(code), range(content)))
            .collect(),
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
