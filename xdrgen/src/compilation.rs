//! Runs one compilation from files to a schema: extract, errata, parse, check and lower, then emit
//! and format.
//!
//! This module decides the order of the phases; each phase decides its own rules. For each module,
//! `extend::merge` precedes `supply::Needs`, which finds missing names in the merged definitions.
//! `check::analyze` runs once, after the last module. The inputs keep the order of the
//! configuration, in which a module follows the modules that it uses. `Loaded::read` reads all
//! files, of which errata decide some, since they may change lines that include others;
//! `Loaded::compile` reads none. `check_input` checks the settings that name
//! no XDR, such as paths and `uses`; `check` checks the others.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::ast::{Scope, Specification};
use crate::check::{self, Entry, ModuleInput, OverlayInput};
use crate::config::{Config, DocumentSource, Module, Overlay, OverlayRanges, Setting};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::errata::{self, Erratum};
use crate::error::Error;
use crate::extend;
use crate::extract::{self, Extraction, ProseBlocks};
use crate::include::{Files, Search};
use crate::ir::Schema;
use crate::names;
use crate::parse;
use crate::render::{self, GeneratedFile};
use crate::report::{self, Style};
use crate::source::{DocumentId, SourceMap, Span, TextId, TextKind};
use crate::supply::Needs;

/// The result of a compilation: the diagnostics of all documents, and the schema.
#[derive(Clone, Debug)]
pub struct Compilation {
    sources: SourceMap,
    diagnostics: Vec<Diagnostic>,
    schema: Schema,
    included: Vec<PathBuf>,
}

impl Compilation {
    pub(crate) fn run(config: &Config) -> Self {
        let mut diagnostics = Diagnostics::new(config.levels.clone());
        let loaded = Loaded::read(config, None, &mut diagnostics);
        loaded.compile(config, diagnostics)
    }

    /// Returns all diagnostics, sorted by document and position.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns the documents that the diagnostics point into.
    #[must_use]
    pub fn sources(&self) -> &SourceMap {
        &self.sources
    }

    /// Returns the schema. It is complete only if [`Self::has_errors`] is false.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the paths of the files that documents include, which cargo watches.
    pub(crate) fn included(&self) -> &[PathBuf] {
        &self.included
    }

    /// Returns true if a diagnostic is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Returns the report that a person reads, with an excerpt for each diagnostic.
    #[must_use]
    pub fn report(&self, style: Style) -> String {
        report::human(&self.sources, &report::folded(&self.diagnostics), style)
    }

    /// Generates the Rust files.
    ///
    /// # Errors
    /// Returns the report if the compilation has errors.
    pub fn generate(&self) -> Result<Vec<GeneratedFile>, Error> {
        if self.has_errors() {
            return Err(Error::of(&self.sources, &self.diagnostics));
        }
        render::files(&self.schema).map_err(|message| Error::invalid_rust(&message))
    }

    /// Writes the Rust files into a folder, and creates the folder if it does not exist. A file
    /// whose content does not change is not written, so that cargo does not rebuild its dependents.
    ///
    /// # Errors
    /// As [`Self::generate`], and if a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let files = self.generate()?;
        let fault = |path: &Path, error| Error::unwritable(&path.to_string_lossy(), &error);
        std::fs::create_dir_all(folder).map_err(|error| fault(folder, error))?;
        for file in files {
            let path = folder.join(&file.name);
            if std::fs::read_to_string(&path).is_ok_and(|old| old == file.content) {
                continue;
            }
            std::fs::write(&path, &file.content).map_err(|error| fault(&path, error))?;
        }
        Ok(())
    }
}

/// Finds errata that silence no diagnostic. Each erratum in turn is left out and the documents are
/// compiled again; an erratum is useless if the new compilation reports nothing that the full one
/// does not. The cost is one compilation for each erratum.
///
/// Returns the compilation with all errata. A [`Code::ErratumUseless`] for each useless erratum
/// follows its sorted diagnostics.
#[must_use]
pub fn useless_errata(config: &Config) -> Compilation {
    let read = |without: Option<usize>| {
        let mut diagnostics = Diagnostics::new(config.levels.clone());
        let loaded = Loaded::read(config, without, &mut diagnostics);
        (loaded, diagnostics)
    };
    let (loaded, diagnostics) = read(None);
    let mut full = loaded.compile(config, diagnostics);
    let lines = |compilation: &Compilation| -> BTreeSet<String> {
        compilation
            .diagnostics
            .iter()
            .map(|found| report::short(&compilation.sources, found))
            .collect()
    };
    let before = lines(&full);
    let mut found = Diagnostics::new(config.levels.clone());
    let applies = |erratum: &Erratum| {
        let here = loaded
            .sources
            .documents()
            .any(|(_, document)| document.file_name() == erratum.document);
        let fails =
            |found: &Diagnostic| found.code == Code::ErratumMismatch && found.span == erratum.span;
        here && !full.diagnostics.iter().any(fails)
    };
    for (at, erratum) in loaded
        .errata
        .iter()
        .enumerate()
        .filter(|(_, erratum)| applies(erratum))
    {
        let (without, diagnostics) = read(Some(at));
        let without = without.compile(config, diagnostics);
        if lines(&without).is_subset(&before) {
            let message = format!(
                "the erratum for {}, line {}, silences no diagnostic",
                erratum.document, erratum.line
            );
            let useless = Diagnostic::without_span(Code::ErratumUseless, message);
            found.report(Diagnostic {
                span: erratum.span,
                ..useless
            });
        }
    }
    let found = found.into_sorted(&full.sources);
    full.diagnostics.extend(found);
    full
}

/// The files of a compilation, read once.
struct Loaded {
    sources: SourceMap,
    /// The documents of each module.
    files: Vec<Files>,
    errata: Vec<Erratum>,
    /// The manifest, which diagnostics point into.
    manifest: Option<TextId>,
}

impl Loaded {
    /// Reads all files. Leaves out the erratum at index `without` if there is one.
    fn read(config: &Config, without: Option<usize>, diagnostics: &mut Diagnostics) -> Self {
        let mut sources = SourceMap::new();
        let manifest = config.manifest.as_ref().and_then(|path| {
            let document = load(&mut sources, path, diagnostics)?;
            Some(sources.add_document_text(document, TextKind::Other))
        });
        let mut errata = Vec::new();
        for path in &config.errata {
            match std::fs::read_to_string(path) {
                Ok(text) => errata.extend(errata::read(
                    &mut sources,
                    &path.to_string_lossy(),
                    &text,
                    diagnostics,
                )),
                Err(error) => diagnostics.report(unreadable(path, &error)),
            }
        }
        if let Some(at) = without.filter(|at| *at < errata.len()) {
            errata.remove(at);
        }
        let open =
            |sources: &mut SourceMap, path: &Path, diagnostics: &mut Diagnostics| match config
                .edited_text(path)
            {
                Some(text) => Some(sources.add_document(path.to_string_lossy(), text)),
                None => load(sources, path, diagnostics),
            };
        let mut files: Vec<Files> = Vec::new();
        for module in &config.modules {
            let read = module.documents.iter().filter_map(|from| match from {
                DocumentSource::File(path) => {
                    let document = open(&mut sources, path, diagnostics)?;
                    Some((document, Some(path.clone())))
                }
                DocumentSource::Extension(path) => {
                    let document = open(&mut sources, path, diagnostics)?;
                    sources.set_extension(document);
                    Some((document, Some(path.clone())))
                }
                DocumentSource::Prose { path, sections } => {
                    let document = open(&mut sources, path, diagnostics)?;
                    sources.set_prose(document, sections.clone());
                    Some((document, Some(path.clone())))
                }
                DocumentSource::Text { name, content } => {
                    Some((sources.add_document(name, content), None))
                }
            });
            let documents = read.collect();
            let search = Search {
                folders: &config.include_dirs,
                errata: &errata,
                sources: &mut sources,
                diagnostics,
                load: &open,
                exists: &|path| path.is_file() || config.edited_text(path).is_some(),
            };
            let modules = config.modules.iter().zip(&files);
            let names = |path: &str| module.uses.iter().any(|other| other.text == path);
            let used = modules.filter(|(other, _)| names(&other.path));
            let used: Vec<&Files> = used.map(|(_, files)| files).collect();
            let found = search.files(documents, &used);
            files.push(found);
        }
        Self {
            sources,
            files,
            errata,
            manifest,
        }
    }

    /// Compiles the loaded files.
    fn compile(&self, config: &Config, mut diagnostics: Diagnostics) -> Compilation {
        let mut sources = self.sources.clone();
        self.report_unknown_documents(&mut diagnostics);
        let span = |range: &Range<usize>| self.manifest.map(|text| Span::new(text, range.clone()));
        check_settings(config, &span, &mut diagnostics);
        let mut inputs: Vec<ModuleInput> = Vec::new();
        for (module, files) in config.modules.iter().zip(&self.files) {
            let mut input = check_input(module, config, &inputs, &span, &mut diagnostics);
            let parse = |sources: &mut SourceMap, document: DocumentId, diagnostics: &mut _| {
                let (text, mut parsed) =
                    parse_document(sources, document, &self.errata, diagnostics);
                parsed
                    .includes
                    .retain(|span| !files.has_found(document, sources.slice(*span)));
                (text, parsed)
            };
            for document in &files.documents {
                let parsed = parse(&mut sources, *document, &mut diagnostics);
                input.specifications.push(parsed);
            }
            extend::merge(&sources, &mut input.specifications, &mut diagnostics);
            let mut needs = Needs::after_macros(&mut input, &inputs);
            if !needs.is_empty() {
                let included = files.supplies.iter();
                let included = included
                    .map(|document| parse(&mut sources, *document, &mut diagnostics))
                    .collect();
                needs.take_included(&mut input, included);
            }
            needs.take_preludes(&mut sources, &mut input, &mut diagnostics);
            needs.take_external(&mut input);
            inputs.push(input);
        }
        if diagnostics.is_enabled(Code::ProseName) {
            check_prose(&mut sources, &inputs, &mut diagnostics);
        }
        let schema = check::analyze(&sources, &inputs, &mut diagnostics);
        let diagnostics = diagnostics.into_sorted(&sources);
        let included = self.files.iter().flat_map(|files| &files.included);
        Compilation {
            sources,
            diagnostics,
            schema,
            included: included.cloned().collect(),
        }
    }

    /// Reports errata that name a document of no module.
    fn report_unknown_documents(&self, diagnostics: &mut Diagnostics) {
        for erratum in &self.errata {
            let known = self
                .sources
                .documents()
                .any(|(_, document)| document.file_name() == erratum.document);
            // Only a manifest lists a complete set: a command that checks one document may be given
            // the errata of a whole set.
            if !known && self.manifest.is_some() {
                let message = format!("no module has the document `{}`", erratum.document);
                let found = Diagnostic::without_span(Code::ErratumMismatch, message);
                diagnostics.report(Diagnostic {
                    span: erratum.span,
                    ..found
                });
            }
        }
    }
}

fn load(sources: &mut SourceMap, path: &Path, diagnostics: &mut Diagnostics) -> Option<DocumentId> {
    let name = path.to_string_lossy();
    match std::fs::read(path) {
        // Old RFCs contain Latin-1 names. The lossy conversion keeps line numbers.
        Ok(bytes) => Some(sources.add_document(name, String::from_utf8_lossy(&bytes))),
        Err(error) => {
            diagnostics.report(unreadable(path, &error));
            None
        }
    }
}

/// Returns the XDR of one document. With `prose`, returns the definitions in the text of these
/// sections, or of all sections if the list is empty.
pub(crate) fn extract(path: &Path, prose: Option<&[String]>) -> Result<String, Error> {
    let mut sources = SourceMap::new();
    let mut diagnostics = Diagnostics::default();
    let xdr = load(&mut sources, path, &mut diagnostics).map(|document| {
        if let Some(sections) = prose {
            sources.set_prose(document, sections.to_vec());
        }
        let extracted = extract::extract(&mut sources, document, &[], &mut diagnostics);
        match prose {
            Some(_) => without_variables(&sources, extracted.xdr),
            None => extract::xdr_of(&sources, extracted.xdr),
        }
    });
    let found = diagnostics.into_sorted(&sources);
    xdr.filter(|_| found.is_empty())
        .ok_or_else(|| Error::of(&sources, &found))
}

/// Returns XDR from running text without names such as that of `} reply;`, which only running text
/// may have.
fn without_variables(sources: &SourceMap, xdr: TextId) -> String {
    let mut diagnostics = Diagnostics::default();
    parse::parse(sources, xdr, &mut diagnostics);
    let content = sources.text(xdr).content();
    let mut found = String::new();
    let mut at = 0;
    let diagnostics = diagnostics.into_sorted(sources).into_iter();
    for diagnostic in diagnostics.filter(|found| found.code == Code::VariableName) {
        let Some(name) = diagnostic.span.map(|span| span.range()) else {
            continue;
        };
        found += content.get(at..name.start).unwrap_or_default().trim_end();
        at = name.end;
    }
    found + content.get(at..).unwrap_or_default()
}

/// Returns the definitions in the text of one document.
pub(crate) fn prose_blocks(path: &Path, sections: &[String]) -> Result<ProseBlocks, Error> {
    let mut sources = SourceMap::new();
    let mut diagnostics = Diagnostics::default();
    match load(&mut sources, path, &mut diagnostics) {
        Some(document) => Ok(extract::prose_blocks(sources.document(document), sections)),
        None => Err(Error::of(&sources, &diagnostics.into_sorted(&sources))),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::without_span(
        Code::Unreadable,
        format!("`{}` can't be read: {error}", path.display()),
    )
}

/// Extracts and parses one document, and compares its definitions with the copies in its running
/// text.
fn parse_document(
    sources: &mut SourceMap,
    document: DocumentId,
    errata: &[Erratum],
    diagnostics: &mut Diagnostics,
) -> (TextId, Specification) {
    let Extraction {
        xdr,
        copies,
        markers,
    } = extract::extract(sources, document, errata, diagnostics);
    let Some(specification) = parse_xdr(sources, document, xdr, diagnostics) else {
        return (xdr, Specification::default());
    };
    let copies: Vec<_> = copies
        .iter()
        .map(|copy| (*copy, parse::parse(sources, *copy, diagnostics)))
        .collect();
    let copies: Vec<_> = copies
        .iter()
        .map(|(text, specification)| (*text, specification))
        .collect();
    check::consistency::check(sources, &[(xdr, &specification)], &copies, diagnostics);
    let parsed = (xdr, &specification);
    check::unmarked::check(sources, document, &markers, parsed, diagnostics);
    (xdr, specification)
}

/// Parses the XDR of a document. Returns `None` if its lines with markers hold another language,
/// which is reported once.
fn parse_xdr(
    sources: &SourceMap,
    document: DocumentId,
    xdr: TextId,
    diagnostics: &mut Diagnostics,
) -> Option<Specification> {
    let mut found = Diagnostics::new(diagnostics.levels().clone());
    let specification = parse::parse(sources, xdr, &mut found);
    let marked = extract::has_markers(sources.document(document));
    if marked && specification.fragments.is_empty() && is_foreign(sources, xdr, &found) {
        let end = sources.text(xdr).content().trim_end().len();
        let message = "the lines with `///` are not XDR";
        let report = Diagnostic::new(Code::NoXdr, Span::new(xdr, 0..end), message)
            .label("no line begins a definition");
        diagnostics.report(report);
        return None;
    }
    diagnostics.append(found);
    Some(specification)
}

/// Returns true if a text with errors has no line that begins a definition.
fn is_foreign(sources: &SourceMap, xdr: TextId, found: &Diagnostics) -> bool {
    /// One definition alone may cause fewer errors than this.
    const MIN_ERRORS: usize = 5;
    let content = sources.text(xdr).content();
    let begins = |line: &str| {
        let word = line.split_whitespace().next();
        word.is_some_and(|word| extract::KEYWORDS.contains(&word))
    };
    found.error_count() >= MIN_ERRORS && !content.lines().any(begins)
}

/// Finds the place of a setting in the manifest.
type FindSpan<'a> = &'a dyn Fn(&Range<usize>) -> Option<Span>;

/// Checks the settings that concern no single module.
fn check_settings(config: &Config, span: FindSpan<'_>, diagnostics: &mut Diagnostics) {
    let mut fault = |range: Option<&Range<usize>>, message: &str| {
        let found = Diagnostic::without_span(Code::Configuration, message);
        diagnostics.report(Diagnostic {
            span: range.and_then(span),
            ..found
        });
    };
    if config.modules.is_empty() {
        fault(Some(&(0..0)), "there is no module to compile");
    }
    for Setting { text, range } in config.owned_feature.iter().chain(&config.serde_feature) {
        let allowed = |c: char| c.is_alphanumeric() || "_-+.".contains(c);
        if text.is_empty() || !text.chars().all(allowed) {
            let message = format!("`{text}` is not the name of a cargo feature");
            fault(range.as_ref(), &message);
        }
    }
}

fn feature(setting: Option<&Setting>) -> Option<String> {
    setting.map(|feature| feature.text.clone())
}

/// Checks what a configuration says of a module, and takes its settings over.
fn check_input(
    module: &Module,
    config: &Config,
    before: &[ModuleInput],
    span: FindSpan<'_>,
    diagnostics: &mut Diagnostics,
) -> ModuleInput {
    let mut fault = |range: Option<&Range<usize>>, message: String| {
        let found = Diagnostic::without_span(Code::Configuration, message);
        diagnostics.report(Diagnostic {
            span: range.and_then(span),
            ..found
        });
    };
    let place = module.path_range.as_ref();
    let path = check_path(module, before, &mut |message| fault(place, message));
    if module.documents.is_empty() {
        fault(
            place,
            format!("the module `{}` has no document", module.path),
        );
    }
    let entries = |key, settings: &[Setting]| -> Vec<Entry> {
        let settings = settings.iter();
        settings.map(|each| entry(key, each, span)).collect()
    };
    let pairs = |key, settings: &[(Setting, Setting)]| -> Vec<(Entry, Entry)> {
        let pairs = settings.iter();
        pairs
            .map(|(name, value)| (entry(key, name, span), entry(key, value, span)))
            .collect()
    };
    ModuleInput {
        path,
        uses: check_uses(module, before, &mut fault),
        shapes: module.shapes,
        owned_feature: feature(config.owned_feature.as_ref()),
        serde_feature: feature(config.serde_feature.as_ref()),
        strip: module
            .strip
            .iter()
            .map(|prefix| prefix.text.clone())
            .collect(),
        strip_spans: module
            .strip
            .iter()
            .map(|prefix| prefix.range.as_ref().and_then(span))
            .collect(),
        prelude: config.prelude.clone(),
        specifications: Vec::new(),
        overlays: overlays(module, span),
        ddp: entries("ddp", &module.ddp),
        item_results: entries("item_results", &module.item_results),
        open: entries("open", &module.open),
        stubs: module.stubs,
        stubs_span: module.stubs_range.as_ref().and_then(span),
        idempotent: entries("idempotent", &module.idempotent),
        reply_items: pairs("reply_items", &module.reply_items),
        externs: pairs("extern", &config.externs),
        rename: pairs("rename", &module.rename),
        scoped_enums: module.scoped_enums,
    }
}

/// Returns the parts of a module's path.
fn check_path(
    module: &Module,
    before: &[ModuleInput],
    fault: &mut impl FnMut(String),
) -> Vec<String> {
    let path: Vec<String> = module.path.split("::").map(str::to_owned).collect();
    if !path.iter().all(|part| is_module_name(part)) {
        fault(format!("`{}` is not a Rust module path", module.path));
    }
    if before.iter().any(|other| other.path == path) {
        fault(format!("two modules are called `{}`", module.path));
    }
    let taken = |last: &String| {
        let hides = path.len() > 1 && (last == "xdr" || names::is_primitive(last));
        last == "owned" || hides || path == ["xdrgen"]
    };
    if path.last().is_some_and(taken) {
        fault(format!(
            "a module can't be called `{}`: generated code uses that name",
            module.path
        ));
    }
    path
}

/// Returns the indices of the modules whose types a module uses.
fn check_uses(
    module: &Module,
    before: &[ModuleInput],
    fault: &mut impl FnMut(Option<&Range<usize>>, String),
) -> Vec<usize> {
    let mut uses = Vec::new();
    for Setting { text: name, range } in &module.uses {
        let mut others = before.iter();
        let Some(at) = others.position(|other| other.path.join("::") == *name) else {
            let message = format!(
                "`{}` uses `{name}`, but no module of that path precedes it",
                module.path
            );
            fault(range.as_ref(), message);
            continue;
        };
        let (has, needs) = (before[at].shapes, module.shapes);
        if (needs.owned() && !has.owned()) || (needs.borrowed() && !has.borrowed()) {
            let message = format!(
                "`{}` needs a shape that the types of `{name}` do not have",
                module.path
            );
            fault(range.as_ref(), message);
        }
        uses.push(at);
    }
    uses
}

fn overlays(module: &Module, span: FindSpan<'_>) -> Vec<OverlayInput> {
    let overlays = module.overlays.iter().enumerate();
    overlays
        .map(|(at, overlay)| overlay_input(overlay, module.overlay_ranges.get(at), span))
        .collect()
}

fn overlay_input(
    overlay: &Overlay,
    ranges: Option<&OverlayRanges>,
    span: FindSpan<'_>,
) -> OverlayInput {
    let entry = |key, text: &str, range: Option<&Range<usize>>| Entry {
        key,
        text: text.to_owned(),
        span: range.and_then(span),
    };
    let strip = overlay.strip.iter().enumerate().map(|(at, prefix)| {
        let range = ranges.and_then(|ranges| ranges.strip.get(at));
        entry("strip", prefix, range)
    });
    let cases = overlay
        .cases
        .iter()
        .enumerate()
        .map(|(at, (code, content))| {
            let range = ranges.and_then(|ranges| ranges.cases.get(at));
            let code = entry("cases", code, range.map(|(code, _)| code));
            (
                code,
                entry("cases", content, range.map(|(_, content)| content)),
            )
        });
    OverlayInput {
        name: entry("name", &overlay.name, ranges.map(|ranges| &ranges.name)),
        carrier: entry(
            "struct",
            &overlay.carrier,
            ranges.map(|ranges| &ranges.carrier),
        ),
        code: entry("code", &overlay.code, ranges.map(|ranges| &ranges.code)),
        data: entry("data", &overlay.data, ranges.map(|ranges| &ranges.data)),
        empty_is_default: overlay.empty_is_default,
        cases: cases.collect(),
        strip: strip.collect(),
    }
}

fn entry(key: &'static str, setting: &Setting, span: FindSpan<'_>) -> Entry {
    Entry {
        key,
        text: setting.text.clone(),
        span: setting.range.as_ref().and_then(span),
    }
}

/// Returns true if Rust accepts `part` as a module name.
#[must_use]
pub fn is_module_name(part: &str) -> bool {
    names::identifier(part).is_some_and(|name| name == part)
}

/// Runs the `prose-name` lint on every document with the names of all modules.
fn check_prose(sources: &mut SourceMap, inputs: &[ModuleInput], diagnostics: &mut Diagnostics) {
    let all = inputs.iter().flat_map(|input| &input.specifications);
    let names: BTreeSet<String> = all
        .clone()
        .flat_map(|(_, specification)| specification.names(Scope::All))
        .collect();
    for (text, _) in all {
        let document = sources.text(*text).document();
        check::prose::check(sources, document, &names, diagnostics);
    }
}
