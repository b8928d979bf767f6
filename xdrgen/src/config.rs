//! What to compile, and how: the builder that a build script meets.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::diagnostic::{Code, Level, Levels, NotALint};
use crate::ir::Shapes;
use crate::prelude::Prelude;

/// A compilation to be: modules of documents, and what they have in common.
///
/// ```no_run
/// use xdrgen_build::{Config, Module, Shapes};
///
/// fn main() -> Result<(), xdrgen_build::Error> {
///     Config::new()
///         .module(Module::new("nfs4").document("spec/rfc7863.txt").shapes(Shapes::Owned))
///         .compile()
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub(crate) modules: Vec<Module>,
    pub(crate) prelude: Vec<Prelude>,
    pub(crate) errata: Vec<PathBuf>,
    pub(crate) levels: Levels,
    pub(crate) out_dir: Option<PathBuf>,
    pub(crate) owned_feature: Option<String>,
    pub(crate) manifest: Option<PathBuf>,
}

impl Config {
    /// Nothing to compile yet, with all [`Prelude`]s.
    #[must_use]
    pub fn new() -> Self {
        Self { prelude: Prelude::ALL.to_vec(), ..Self::bare() }
    }

    /// Nothing at all.
    pub(crate) fn bare() -> Self {
        Self::default()
    }

    /// Adds a module. One that uses another comes after it.
    #[must_use]
    pub fn module(mut self, module: Module) -> Self {
        self.modules.push(module);
        self
    }

    /// Which types need no declaration: by default all [`Prelude`]s.
    #[must_use]
    pub fn prelude(mut self, prelude: &[Prelude]) -> Self {
        self.prelude = prelude.to_vec();
        self
    }

    /// Leaves out all errata: what the documents say as published.
    #[must_use]
    pub fn without_errata(mut self) -> Self {
        self.errata.clear();
        self
    }

    /// Adds a file of errata.
    #[must_use]
    pub fn errata(mut self, path: impl Into<PathBuf>) -> Self {
        self.errata.push(path.into());
        self
    }

    /// Sets the level of a lint.
    ///
    /// # Errors
    /// The code is an error, not a lint.
    pub fn lint(mut self, code: Code, level: Level) -> Result<Self, NotALint> {
        self.levels.set(code, level)?;
        Ok(self)
    }

    /// Puts the modules `owned` behind a feature of the crate that is built: for crates that also do without `alloc`.
    #[must_use]
    pub fn owned_feature(mut self, feature: impl Into<String>) -> Self {
        self.owned_feature = Some(feature.into());
        self
    }

    /// Where the files go; by default the folder that cargo gives a build script in `OUT_DIR`.
    #[must_use]
    pub fn out_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(path.into());
        self
    }

    /// How many documents the modules have together.
    #[must_use]
    pub fn document_count(&self) -> usize {
        self.modules.iter().map(|module| module.documents.len()).sum()
    }
}

/// A Rust module, and the documents it is compiled from.
#[derive(Clone, Debug, Default)]
pub struct Module {
    pub(crate) path: String,
    pub(crate) documents: Vec<Source>,
    pub(crate) uses: Vec<String>,
    pub(crate) shapes: Shapes,
    pub(crate) strip: Vec<String>,
    pub(crate) overlays: Vec<Overlay>,
    /// Where the manifest names it, and each of its overlays.
    pub(crate) place: Option<Range<usize>>,
    pub(crate) overlay_places: Vec<Range<usize>>,
}

impl Module {
    /// A module by its path, as `v2::rtr`.
    #[must_use]
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }

    /// Adds a document: a draft or an RFC as published (`.txt`), or XDR (`.x`).
    #[must_use]
    pub fn document(mut self, path: impl Into<PathBuf>) -> Self {
        self.documents.push(Source::File(path.into()));
        self
    }

    /// Adds a document that is no file: one that a program made, or has in memory. Its name stands in reports, and
    /// its ending says what it is, as that of a file does.
    ///
    /// ```
    /// use xdrgen_build::{Config, Module, Style};
    ///
    /// let module = Module::new("a").text("a.x", "struct point { int x; int z; };\nstruct line { piont ends[2]; };\n");
    /// let compilation = Config::new().module(module).check();
    /// assert!(compilation.report(Style::Plain).contains("a.x:2:15"));
    /// ```
    #[must_use]
    pub fn text(mut self, name: impl Into<String>, content: impl Into<String>) -> Self {
        self.documents.push(Source::Text { name: name.into(), content: content.into() });
        self
    }

    /// Sees the names of another module.
    #[must_use]
    pub fn uses(mut self, path: impl Into<String>) -> Self {
        self.uses.push(path.into());
        self
    }

    /// Which forms of each type to emit: by default both.
    #[must_use]
    pub fn shapes(mut self, shapes: Shapes) -> Self {
        self.shapes = shapes;
        self
    }

    /// Adds a prefix that Rust names go without. The first that fits counts.
    #[must_use]
    pub fn strip(mut self, prefix: impl Into<String>) -> Self {
        self.strip.push(prefix.into());
        self
    }

    /// Adds typed contents of an opaque field.
    #[must_use]
    pub fn overlay(mut self, overlay: Overlay) -> Self {
        self.overlays.push(overlay);
        self
    }
}

/// Where a document comes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A file.
    File(PathBuf),
    /// Memory.
    Text { name: String, content: String },
}

impl Source {
    /// The file, if it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Text { .. } => None,
        }
    }
}

/// Typed contents of an opaque field, chosen by a code beside it, which XDR can't express.
///
/// It becomes an enum with a variant for each case, and `Unknown` for other codes.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    /// The enum's name in Rust.
    pub name: String,
    /// The struct with both fields, by its name in XDR.
    pub carrier: String,
    /// The field with the code.
    pub code: String,
    /// The opaque field.
    pub data: String,
    /// Whether no octets at all stand for the default value of what the code names.
    pub empty_is_default: bool,
    /// The prefixes that the variants' names go without.
    pub strip: Vec<String>,
    /// Each known code, a constant's name, and the type of its content.
    pub cases: Vec<(String, String)>,
}
