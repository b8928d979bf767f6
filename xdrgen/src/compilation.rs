//! One compilation, from files to a schema: draft -> extract -> errata -> parse -> check -> IR, then emit and format.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use crate::ast::{Scope, Specification};
use crate::check::{self, Input, OverlayInput};
use crate::config::{Config, Module, Source};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::errata::{self, Erratum};
use crate::error::Error;
use crate::extract::{self, Extracted};
use crate::ir::Schema;
use crate::parse;
use crate::render::{self, GeneratedFile};
use crate::report::{self, Style};
use crate::source::{DocumentId, Sources, Span, TextId, TextKind};

/// What came of a compilation: all diagnostics of all documents, and the schema.
#[derive(Clone, Debug)]
pub struct Compilation {
    sources: Sources,
    diagnostics: Vec<Diagnostic>,
    schema: Schema,
}

impl Compilation {
    pub(crate) fn run(config: &Config) -> Self {
        let mut diagnostics = Diagnostics::new(config.levels.clone());
        let loaded = Loaded::read(config, &mut diagnostics);
        loaded.compile(config, diagnostics, None)
    }

    /// All diagnostics, by document and place.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The documents, to which diagnostics point.
    #[must_use]
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// What the documents define. It is whole only if there are no errors.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Whether it failed.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// The report, for people.
    #[must_use]
    pub fn report(&self, style: Style) -> String {
        report::human(&self.sources, &self.diagnostics, style)
    }

    /// The Rust files.
    ///
    /// # Errors
    /// The compilation failed; the error is the report.
    pub fn generate(&self) -> Result<Vec<GeneratedFile>, Error> {
        if self.has_errors() {
            return Err(Error::of(&self.sources, &self.diagnostics));
        }
        render::files(&self.schema).map_err(|message| Error::emitted(&message))
    }

    /// Writes the Rust files into a folder, which is made if it is not there. A file that would not change is left
    /// alone, so that what depends on it is not built again.
    ///
    /// # Errors
    /// As [`Self::generate`], or a file can't be written.
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

/// Finds errata that silence nothing: each is left out in turn, and something must be reported that was not before.
/// This compiles once more for each erratum.
#[must_use]
pub fn useless_errata(config: &Config) -> Compilation {
    let mut diagnostics = Diagnostics::new(config.levels.clone());
    let loaded = Loaded::read(config, &mut diagnostics);
    let whole = loaded.compile(config, diagnostics.clone(), None);
    let lines = |compilation: &Compilation| -> BTreeSet<String> {
        compilation.diagnostics.iter().map(|found| report::short(&compilation.sources, found)).collect()
    };
    let before = lines(&whole);
    let mut found = diagnostics.clone();
    let applies = |erratum: &Erratum| {
        let here = loaded.sources.documents().any(|(_, document)| document.file_name() == erratum.document);
        let fails = |found: &Diagnostic| found.code == Code::ErratumMismatch && found.span == erratum.span;
        here && !whole.diagnostics.iter().any(fails)
    };
    for (at, erratum) in loaded.errata.iter().enumerate().filter(|(_, erratum)| applies(erratum)) {
        let without = loaded.compile(config, diagnostics.clone(), Some(at));
        if lines(&without).is_subset(&before) {
            let message =
                format!("the erratum for {}, line {}, silences no diagnostic", erratum.document, erratum.line);
            let useless = Diagnostic::nowhere(Code::ErratumUseless, message);
            found.report(Diagnostic { span: erratum.span, ..useless });
        }
    }
    let mut whole = whole;
    let mut found = found.into_sorted(&whole.sources);
    found.retain(|diagnostic| !whole.diagnostics.contains(diagnostic));
    whole.diagnostics.extend(found);
    whole
}

/// The files of a compilation, read once.
struct Loaded {
    sources: Sources,
    /// For each module its documents.
    documents: Vec<Vec<DocumentId>>,
    errata: Vec<Erratum>,
    /// The manifest, to point at.
    manifest: Option<TextId>,
}

impl Loaded {
    fn read(config: &Config, diagnostics: &mut Diagnostics) -> Self {
        let mut sources = Sources::new();
        let manifest = config.manifest.as_ref().and_then(|path| {
            let document = file(&mut sources, path, diagnostics)?;
            Some(sources.add_whole(document, TextKind::Other))
        });
        let mut errata = Vec::new();
        for path in &config.errata {
            match std::fs::read_to_string(path) {
                Ok(text) => errata.extend(errata::read(&mut sources, &path.to_string_lossy(), &text, diagnostics)),
                Err(error) => diagnostics.report(unreadable(path, &error)),
            }
        }
        let mut documents = Vec::new();
        for module in &config.modules {
            let read = module.documents.iter().filter_map(|from| match from {
                Source::File(path) => file(&mut sources, path, diagnostics),
                Source::Text { name, content } => Some(sources.add_document(name, content)),
            });
            documents.push(read.collect());
        }
        Self { sources, documents, errata, manifest }
    }

    /// Compiles what was read, without one of the errata if asked to.
    fn compile(&self, config: &Config, mut diagnostics: Diagnostics, without: Option<usize>) -> Compilation {
        let mut sources = self.sources.clone();
        let mut errata = self.errata.clone();
        if let Some(at) = without {
            errata.remove(at);
        }
        self.strangers(&errata, &mut diagnostics);
        if config.modules.is_empty() {
            let found = Diagnostic::nowhere(Code::Configuration, "there is no module to compile");
            diagnostics.report(Diagnostic { span: self.manifest.map(|text| Span::new(text, 0..0)), ..found });
        }
        let mut inputs: Vec<Input> = Vec::new();
        for (module, documents) in config.modules.iter().zip(&self.documents) {
            let place = |range: &Range<usize>| self.manifest.map(|text| Span::new(text, range.clone()));
            let mut input = input(module, config, &inputs, &place, &mut diagnostics);
            for document in documents {
                let parsed = document_of(&mut sources, *document, &errata, &mut diagnostics);
                input.specifications.push(parsed);
            }
            supply(&mut sources, &mut input, &inputs, &mut diagnostics);
            inputs.push(input);
        }
        if diagnostics.wants(Code::ProseName) {
            prose(&mut sources, &inputs, &mut diagnostics);
        }
        let schema = check::analyze(&sources, &inputs, &mut diagnostics);
        let diagnostics = diagnostics.into_sorted(&sources);
        Compilation { sources, diagnostics, schema }
    }

    /// Reports errata for documents that no module has.
    fn strangers(&self, errata: &[Erratum], diagnostics: &mut Diagnostics) {
        for erratum in errata {
            let known = self.sources.documents().any(|(_, document)| document.file_name() == erratum.document);
            // A command that checks one document of a set may have the errata of all.
            if !known && self.manifest.is_some() {
                let message = format!("no module has the document `{}`", erratum.document);
                let found = Diagnostic::nowhere(Code::ErratumMismatch, message);
                diagnostics.report(Diagnostic { span: erratum.span, ..found });
            }
        }
    }
}

fn file(sources: &mut Sources, path: &Path, diagnostics: &mut Diagnostics) -> Option<DocumentId> {
    let name = path.to_string_lossy();
    match std::fs::read(path) {
        // What is not UTF-8 (RFCs of old have Latin-1 names) keeps its lines.
        Ok(octets) => Some(sources.add_document(name, String::from_utf8_lossy(&octets))),
        Err(error) => {
            diagnostics.report(unreadable(path, &error));
            None
        }
    }
}

/// The XDR of one document.
pub(crate) fn extract(path: &Path) -> Result<String, Error> {
    let mut sources = Sources::new();
    let mut diagnostics = Diagnostics::default();
    let xdr = file(&mut sources, path, &mut diagnostics).map(|document| {
        let extracted = extract::extract(&mut sources, document, &[], &mut diagnostics);
        extract::xdr_of(&sources, extracted.xdr)
    });
    let found = diagnostics.into_sorted(&sources);
    xdr.filter(|_| found.is_empty()).ok_or_else(|| Error::of(&sources, &found))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::nowhere(Code::Unreadable, format!("`{}` can't be read: {error}", path.display()))
}

/// Extracts and parses one document, and holds it against its own copies.
fn document_of(
    sources: &mut Sources,
    document: DocumentId,
    errata: &[Erratum],
    diagnostics: &mut Diagnostics,
) -> (TextId, Specification) {
    let Extracted { xdr, copies } = extract::extract(sources, document, errata, diagnostics);
    let specification = parse::parse(sources, xdr, diagnostics);
    let copies: Vec<_> = copies.iter().map(|copy| (*copy, parse::parse(sources, *copy, diagnostics))).collect();
    let copies: Vec<_> = copies.iter().map(|(text, specification)| (*text, specification)).collect();
    check::consistency::check(sources, &[(xdr, &specification)], &copies, diagnostics);
    (xdr, specification)
}

fn input(
    module: &Module,
    config: &Config,
    before: &[Input],
    place: &dyn Fn(&Range<usize>) -> Option<Span>,
    diagnostics: &mut Diagnostics,
) -> Input {
    let path: Vec<String> = module.path.split("::").map(str::to_owned).collect();
    let mut fault = |message: String| {
        let found = Diagnostic::nowhere(Code::Configuration, message);
        diagnostics.report(Diagnostic { span: module.place.as_ref().and_then(place), ..found });
    };
    if !path.iter().all(|part| is_module_name(part)) {
        fault(format!("`{}` is no path of Rust modules", module.path));
    }
    if before.iter().any(|other| other.path == path) {
        fault(format!("two modules are called `{}`", module.path));
    }
    let taken = |last: &String| last == "owned" || (last == "xdr" && path.len() > 1) || path == ["xdrgen"];
    if path.last().is_some_and(taken) {
        fault(format!("a module can't be called `{}`: the name is taken by what is generated", module.path));
    }
    if module.documents.is_empty() {
        fault(format!("the module `{}` has no document", module.path));
    }
    let mut uses = Vec::new();
    for name in &module.uses {
        match before.iter().position(|other| other.path.join("::") == *name) {
            Some(at) => {
                let (has, needs) = (before[at].shapes, module.shapes);
                if (needs.owned() && !has.owned()) || (needs.borrowed() && !has.borrowed()) {
                    fault(format!("`{}` needs forms of the types of `{name}` that it does not have", module.path));
                }
                uses.push(at);
            }
            None => fault(format!("`{}` uses `{name}`, which is no module before it", module.path)),
        }
    }
    let overlays = module.overlays.iter().enumerate().map(|(at, overlay)| OverlayInput {
        span: module.overlay_places.get(at).and_then(place),
        name: overlay.name.clone(),
        carrier: overlay.carrier.clone(),
        code: overlay.code.clone(),
        data: overlay.data.clone(),
        empty_is_default: overlay.empty_is_default,
        cases: overlay.cases.clone(),
        strip: overlay.strip.clone(),
    });
    Input {
        path,
        uses,
        shapes: module.shapes,
        owned_feature: config.owned_feature.clone(),
        strip: module.strip.clone(),
        prelude: config.prelude.clone(),
        specifications: Vec::new(),
        overlays: overlays.collect(),
    }
}

/// Adds to a module those definitions of its preludes that it needs and nobody defines.
fn supply(sources: &mut Sources, input: &mut Input, before: &[Input], diagnostics: &mut Diagnostics) {
    for prelude in input.prelude.clone() {
        let Some(xdr) = prelude.xdr() else { continue };
        let used = input.uses.iter().flat_map(|at| &before[*at].specifications);
        let visible: BTreeSet<String> = used
            .chain(&input.specifications)
            .flat_map(|(_, specification)| specification.names(Scope::Global))
            .collect();
        let mut wanted = BTreeMap::new();
        for definition in input.specifications.iter().flat_map(|(_, specification)| &specification.definitions) {
            crate::ast::references(definition, &mut |name, span| {
                if !visible.contains(name) {
                    wanted.entry(name.to_owned()).or_insert(span);
                }
            });
        }
        let document = sources.add_document(format!("prelude-{}.x", prelude.name()), xdr);
        let text = sources.add_whole(document, TextKind::Xdr);
        let mut specification = parse::parse(sources, text, diagnostics);
        specification.definitions.retain(|definition| wanted.contains_key(&definition.name.name));
        for definition in &specification.definitions {
            let name = &definition.name.name;
            let message = format!("`{name}` is declared by no document; the prelude supplies it");
            diagnostics.report(Diagnostic::new(Code::PreludeType, wanted[name], message));
        }
        if !specification.definitions.is_empty() {
            input.specifications.push((text, specification));
        }
    }
}

/// Whether Rust takes a name for a module.
#[must_use]
pub fn is_module_name(part: &str) -> bool {
    syn::parse_str::<syn::Ident>(part).is_ok()
}

/// The lint for names in running text, with every name that is one.
fn prose(sources: &mut Sources, inputs: &[Input], diagnostics: &mut Diagnostics) {
    let all = inputs.iter().flat_map(|input| &input.specifications);
    let names: BTreeSet<String> = all.clone().flat_map(|(_, specification)| specification.names(Scope::All)).collect();
    for (text, _) in all {
        let document = sources.text(*text).document();
        check::prose::check(sources, document, &names, diagnostics);
    }
}
