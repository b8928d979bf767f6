//! The settings of a compilation. A build script sets them by this builder, and `manifest` reads
//! them from a file: a new setting needs a key there, except `out_dir` and `edited`. A setting that
//! names an input file also needs a line in `driver`, by which cargo watches the file.
//!
//! The builder checks no value except the code of [`Config::lint`]. `compilation` and `check`
//! report settings that are invalid, so each method accepts any text. The order of modules and
//! documents has a meaning: a module may use only earlier modules, and an extension extends earlier
//! documents.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::diagnostic::{Code, Level, Levels, NotALint};
use crate::ir::{Shapes, Stubs};
use crate::prelude::Prelude;

/// Describes a compilation: its modules and the settings that they share.
///
/// Relative paths start in the current folder; in a build script it is that of the package.
/// `Config::default()` has no prelude, unlike [`Config::new`].
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
    pub(crate) include_dirs: Vec<PathBuf>,
    pub(crate) externs: Vec<(Setting, Setting)>,
    pub(crate) levels: Levels,
    pub(crate) out_dir: Option<PathBuf>,
    pub(crate) owned_feature: Option<Setting>,
    pub(crate) serde_feature: Option<Setting>,
    pub(crate) manifest: Option<PathBuf>,
    /// The texts that replace the content of files, by the files' canonical paths.
    pub(crate) edited: BTreeMap<PathBuf, String>,
}

impl Config {
    /// Returns a configuration without modules and with every [`Prelude`].
    #[must_use]
    pub fn new() -> Self {
        Self {
            prelude: Prelude::ALL.to_vec(),
            ..Self::empty()
        }
    }

    /// Returns a configuration without modules and without a prelude.
    pub(crate) fn empty() -> Self {
        Self::default()
    }

    /// Adds a module. A module comes after the modules that it uses.
    #[must_use]
    pub fn module(mut self, module: Module) -> Self {
        self.modules.push(module);
        self
    }

    /// Sets the preludes, which supply types that documents use and do not declare. The default is
    /// every [`Prelude`].
    #[must_use]
    pub fn prelude(mut self, prelude: &[Prelude]) -> Self {
        self.prelude = prelude.to_vec();
        self
    }

    /// Removes all errata, so that documents are compiled as published.
    #[must_use]
    pub fn without_errata(mut self) -> Self {
        self.errata.clear();
        self
    }

    /// Adds an errata file. See [`crate::errata`] for its format.
    #[must_use]
    pub fn errata(mut self, path: impl Into<PathBuf>) -> Self {
        self.errata.push(path.into());
        self
    }

    /// Adds a folder in which files of `#include` and `%#include` are searched, after the folder of
    /// the document. The XDR of `x.h` is `x.x`. A file of `#include` becomes part of the document.
    /// From a file of `%#include`, a module takes the definitions that it uses.
    ///
    /// ```no_run
    /// use xdrgen_build::{Config, Module};
    ///
    /// fn main() -> Result<(), xdrgen_build::Error> {
    ///     let mount = Module::new("mount").document("spec/mount.x");
    ///     Config::new().module(mount).include_dir("spec/rpcsvc").compile()
    /// }
    /// ```
    #[must_use]
    pub fn include_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.include_dirs.push(path.into());
        self
    }

    /// Sets the Rust type of a name, as `prost` does for its external paths. The name is that of a
    /// type from a C header that no document declares, or of a declared type, which this type
    /// replaces. The path begins with `crate` or `::`; for a name that no document declares, it may
    /// be `i32`, `u32`, `i64`, `u64` or `bool`.
    ///
    /// The type implements `xdr::Wire`, `xdr::Encode` and `xdr::Decode<'a>` for any `'a`, and
    /// `Clone`, `Debug` and `PartialEq`, and takes at least four bytes of XDR. Its path has no
    /// lifetime but `'static`. The compiler does not know its encoding: types that contain it
    /// implement neither `Copy` nor `Eq`, and `xdrgen decode` does not show it.
    ///
    /// ```
    /// use xdrgen_build::{Config, Module};
    ///
    /// let log = Module::new("log").text("log.x", "struct entry { time_t when; };");
    /// let config = Config::new().module(log).extern_type("time_t", "crate::Time");
    /// let files = config.check().generate()?;
    /// assert!(files[0].content.contains("pub type TimeT = crate::Time;"));
    /// # Ok::<(), xdrgen_build::Error>(())
    /// ```
    #[must_use]
    pub fn extern_type(mut self, name: impl Into<String>, path: impl Into<String>) -> Self {
        self.externs.push((Setting::new(name), Setting::new(path)));
        self
    }

    /// Sets the level of a lint.
    ///
    /// # Errors
    /// Returns [`NotALint`] if the code is an error and not a lint.
    pub fn lint(mut self, code: Code, level: Level) -> Result<Self, NotALint> {
        self.levels.set(code, level)?;
        Ok(self)
    }

    /// Puts the `owned` modules behind a feature of the crate that is built, for crates that also
    /// build without `alloc`.
    #[must_use]
    pub fn owned_feature(mut self, feature: impl Into<String>) -> Self {
        self.owned_feature = Some(Setting::new(feature));
        self
    }

    /// Derives `Serialize` of serde behind a feature of the crate that is built, and `Deserialize`
    /// for types without a lifetime. The crate depends on `serde` with its feature `derive`, and on
    /// `xdrgen-runtime` with its feature `serde`. An array of more than 32 elements within another
    /// sequence is not supported: put it into a struct.
    #[must_use]
    pub fn serde_feature(mut self, feature: impl Into<String>) -> Self {
        self.serde_feature = Some(Setting::new(feature));
        self
    }

    /// Sets the output folder. The default is `OUT_DIR`, which cargo sets for a build script.
    #[must_use]
    pub fn out_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(path.into());
        self
    }

    /// Reads `content` in place of the file at `path`, whether it is a document or an included
    /// file. An editor uses this for text that is not saved yet. Neither need exist as a file.
    ///
    /// ```
    /// use xdrgen_build::{Config, Module};
    ///
    /// let config = Config::new().module(Module::new("a").document("unsaved.x"));
    /// let compilation = config.edited("unsaved.x", "const A = 1;").check();
    /// assert!(compilation.diagnostics().is_empty());
    /// ```
    #[must_use]
    pub fn edited(mut self, path: impl AsRef<Path>, content: impl Into<String>) -> Self {
        self.edited.insert(canonical(path.as_ref()), content.into());
        self
    }

    /// Returns the text that replaces the content of a file.
    pub(crate) fn edited_text(&self, path: &Path) -> Option<&str> {
        if self.edited.is_empty() {
            return None;
        }
        self.edited.get(&canonical(path)).map(String::as_str)
    }

    /// Returns the paths of the documents that are files, in all modules.
    pub fn document_paths(&self) -> impl Iterator<Item = &Path> {
        let documents = self.modules.iter().flat_map(|module| &module.documents);
        documents.filter_map(DocumentSource::file)
    }

    /// Returns the number of documents in all modules.
    #[must_use]
    pub fn document_count(&self) -> usize {
        self.modules
            .iter()
            .map(|module| module.documents.len())
            .sum()
    }
}

/// Returns the canonical path of a file, in which [`Config::edited`] compares paths. If there is no
/// such file, canonicalizes its folder.
#[doc(hidden)]
#[must_use]
pub fn canonical(path: &Path) -> PathBuf {
    let whole = path.canonicalize().ok();
    let by_folder = || {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    whole.or_else(by_folder).unwrap_or_else(|| path.to_owned())
}

/// Describes a Rust module and the documents that it is compiled from.
#[derive(Clone, Debug, Default)]
pub struct Module {
    pub(crate) path: String,
    pub(crate) documents: Vec<DocumentSource>,
    pub(crate) uses: Vec<Setting>,
    pub(crate) shapes: Shapes,
    pub(crate) strip: Vec<Setting>,
    pub(crate) overlays: Vec<Overlay>,
    /// The range of the module's path in the manifest.
    pub(crate) path_range: Option<Range<usize>>,
    /// The ranges of each overlay in the manifest; empty without a manifest.
    pub(crate) overlay_ranges: Vec<OverlayRanges>,
    pub(crate) ddp: Vec<Setting>,
    pub(crate) item_results: Vec<Setting>,
    pub(crate) open: Vec<Setting>,
    pub(crate) stubs: Stubs,
    /// The range of the stubs in the manifest.
    pub(crate) stubs_range: Option<Range<usize>>,
    pub(crate) idempotent: Vec<Setting>,
    pub(crate) reply_items: Vec<(Setting, Setting)>,
    pub(crate) rename: Vec<(Setting, Setting)>,
    pub(crate) scoped_enums: bool,
}

/// A setting, and its range in the manifest.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) text: String,
    pub(crate) range: Option<Range<usize>>,
}

/// The ranges of an overlay's texts in the manifest, in the order of [`Overlay`].
#[derive(Clone, Debug)]
pub(crate) struct OverlayRanges {
    pub(crate) name: Range<usize>,
    pub(crate) carrier: Range<usize>,
    pub(crate) code: Range<usize>,
    pub(crate) data: Range<usize>,
    pub(crate) strip: Vec<Range<usize>>,
    pub(crate) cases: Vec<(Range<usize>, Range<usize>)>,
}

impl Setting {
    fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            range: None,
        }
    }
}

impl Module {
    /// Creates a module with a path such as `v2::rtr`.
    #[must_use]
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            ..Self::default()
        }
    }

    /// Adds a document: a draft or an RFC as published (`.txt`), or XDR (`.x`).
    #[must_use]
    pub fn document(mut self, path: impl Into<PathBuf>) -> Self {
        self.documents.push(DocumentSource::File(path.into()));
        self
    }

    /// Adds a document that has its XDR only in running text, without markers, as RFC 1813 does.
    /// The definitions in the named sections and their subsections are compiled; without a section,
    /// those of the whole document. `xdrgen extract --prose` shows them.
    #[must_use]
    pub fn prose(mut self, path: impl Into<PathBuf>, sections: &[&str]) -> Self {
        self.documents.push(DocumentSource::Prose {
            path: path.into(),
            sections: sections.iter().map(|&section| section.to_owned()).collect(),
        });
        self
    }

    /// Adds a document that extends those before it, such as a draft that adds operations to NFSv4.
    /// If it defines an enum, a union or a program again, its members, arms, versions and
    /// procedures are added to the first definition. It may contain members and arms without a
    /// definition around them, if a comment before them names the definition.
    ///
    /// ```
    /// use xdrgen_build::{Config, Module};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = |name: &str| folder.path().join(name);
    /// std::fs::write(path("base.x"), "enum op { OP_READ = 1 };")?;
    /// std::fs::write(path("more.x"), "/* To be added to enum op: */ OP_COPY = 2,")?;
    /// let module = Module::new("ops").document(path("base.x")).extension(path("more.x"));
    /// let files = Config::new().module(module).check().generate()?;
    /// assert!(files[0].content.contains("Copy = 2"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn extension(mut self, path: impl Into<PathBuf>) -> Self {
        self.documents.push(DocumentSource::Extension(path.into()));
        self
    }

    /// Adds a document from memory. Diagnostics show `name`; its extension decides the format, as
    /// it does for a file.
    ///
    /// ```
    /// use xdrgen_build::{Config, Module, Style};
    ///
    /// let xdr = "struct point { int x; int z; };\nstruct line { piont ends[2]; };\n";
    /// let module = Module::new("a").text("a.x", xdr);
    /// let compilation = Config::new().module(module).check();
    /// assert!(compilation.report(Style::Plain).contains("a.x:2:15"));
    /// ```
    #[must_use]
    pub fn text(mut self, name: impl Into<String>, content: impl Into<String>) -> Self {
        self.documents.push(DocumentSource::Text {
            name: name.into(),
            content: content.into(),
        });
        self
    }

    /// Makes the names of another module visible in this one. The other module comes before, and
    /// has at least the shapes of this one.
    #[must_use]
    pub fn uses(mut self, path: impl Into<String>) -> Self {
        self.uses.push(Setting::new(path));
        self
    }

    /// Sets which shapes of each type to emit. The default is both.
    #[must_use]
    pub fn shapes(mut self, shapes: Shapes) -> Self {
        self.shapes = shapes;
        self
    }

    /// Adds a prefix to strip from Rust names. The first prefix that matches is stripped. A prefix
    /// with which no name of a type, constant, field or member begins is an error.
    #[must_use]
    pub fn strip(mut self, prefix: impl Into<String>) -> Self {
        self.strip.push(Setting::new(prefix));
        self
    }

    /// Makes a field or an arm eligible for direct data placement, so that a transport may move its
    /// bytes out of the message. It is an opaque or a string of variable length, named
    /// `"struct.field"` or `"union.arm"` as in XDR. Its Rust type is `xdr::Item`.
    ///
    /// ```
    /// use xdrgen_build::{Config, Module};
    ///
    /// let kv = Module::new("kv").text("kv.x", "struct pair { int key; opaque value<>; };");
    /// let files = Config::new().module(kv.ddp("pair.value")).check().generate()?;
    /// assert!(files[0].content.contains("pub value: xdr::Item<'a>"));
    /// # Ok::<(), xdrgen_build::Error>(())
    /// ```
    #[must_use]
    pub fn ddp(mut self, part: impl Into<String>) -> Self {
        self.ddp.push(Setting::new(part));
        self
    }

    /// Names the union that is the result of one operation of several in a reply, such as READ in
    /// NFSv4's COMPOUND. Each such result consumes the memory that a client over RDMA offers for
    /// one item (a Write chunk), whether its arm has an item or not (RFC 8267, section 6.4.1).
    ///
    /// ```
    /// use xdrgen_build::{Config, Module};
    ///
    /// let text = "union READ4res switch (int status) { case 0: opaque data<>; default: void; };";
    /// let nfs = Module::new("nfs").text("nfs.x", text).ddp("READ4res.data");
    /// let files = Config::new().module(nfs.item_result("READ4res")).check().generate()?;
    /// assert!(files[0].content.contains("no_item()"));
    /// # Ok::<(), xdrgen_build::Error>(())
    /// ```
    #[must_use]
    pub fn item_result(mut self, name: impl Into<String>) -> Self {
        self.item_results.push(Setting::new(name));
        self
    }

    /// Opens an enum, by its name in XDR: values without a member decode as its variant `Unknown`,
    /// and a union over it takes them in its `default` arm. Other enums are closed (RFC 4506,
    /// section 4.3): such a value is a decode error.
    ///
    /// ```
    /// use xdrgen_build::{Config, Module};
    ///
    /// let nfs = Module::new("nfs").text("nfs.x", "enum status { OK = 0, PERM = 1 };");
    /// let files = Config::new().module(nfs.open("status")).check().generate()?;
    /// assert!(files[0].content.contains("Unknown(i32)"));
    /// # Ok::<(), xdrgen_build::Error>(())
    /// ```
    #[must_use]
    pub fn open(mut self, name: impl Into<String>) -> Self {
        self.open.push(Setting::new(name));
        self
    }

    /// Sets the stubs to emit for each version of a program: a client, the traits of a service, or
    /// both. The code depends on the crate `oncrpc` only.
    #[must_use]
    pub fn stubs(mut self, stubs: Stubs) -> Self {
        self.stubs = stubs;
        self
    }

    /// Marks a procedure, by its name in XDR, as idempotent: a client may retransmit its calls
    /// after it has lost its connection. Requires [`stubs`](Self::stubs).
    #[must_use]
    pub fn idempotent(mut self, procedure: impl Into<String>) -> Self {
        self.idempotent.push(Setting::new(procedure));
        self
    }

    /// Names the argument that limits the length of an item of the results, so that a client has
    /// memory for the item: `reply_item("READ3resok.data", "READ3args.count")`. Requires
    /// [`stubs`](Self::stubs).
    #[must_use]
    pub fn reply_item(mut self, item: impl Into<String>, argument: impl Into<String>) -> Self {
        self.reply_items
            .push((Setting::new(item), Setting::new(argument)));
        self
    }

    /// Sets the name in Rust of a type, a constant or a procedure (`"nfs_fh4"`), or of a field, a
    /// member or a case (`"fattr4.obj_attributes"`). Two equal names are an error, `name-clash`;
    /// renaming one of them resolves it.
    ///
    /// ```
    /// use xdrgen_build::{Config, Module};
    ///
    /// let nfs = Module::new("nfs").text("nfs.x", "struct nfs_fh { int fh_no; };");
    /// let nfs = nfs.rename("nfs_fh", "FileHandle").rename("nfs_fh.fh_no", "number");
    /// let files = Config::new().module(nfs).check().generate()?;
    /// assert!(files[0].content.contains("pub struct FileHandle"));
    /// assert!(files[0].content.contains("pub number: i32"));
    /// # Ok::<(), xdrgen_build::Error>(())
    /// ```
    #[must_use]
    pub fn rename(mut self, xdr: impl Into<String>, rust: impl Into<String>) -> Self {
        self.rename.push((Setting::new(xdr), Setting::new(rust)));
        self
    }

    /// Scopes the members of enums by their enum, as some compilers do: two enums may have members
    /// with the same name, and a case of a union names a member of its discriminant's enum. In RFC
    /// 4506 (section 6.4) the scope of members is the whole specification.
    ///
    /// ```
    /// use xdrgen_build::{Config, Module};
    ///
    /// let xdr = "enum a { NONE = 0, A = 1 };\nenum b { NONE = 0, B = 1 };";
    /// let module = Module::new("a").text("a.x", xdr);
    /// assert!(Config::new().module(module.clone()).check().has_errors());
    /// assert!(!Config::new().module(module.scoped_enums(true)).check().has_errors());
    /// ```
    #[must_use]
    pub fn scoped_enums(mut self, scoped: bool) -> Self {
        self.scoped_enums = scoped;
        self
    }

    /// Adds an overlay: typed contents for an opaque field.
    #[must_use]
    pub fn overlay(mut self, overlay: Overlay) -> Self {
        self.overlays.push(overlay);
        self
    }
}

/// The origin of a document's content.
#[derive(Clone, Debug)]
pub(crate) enum DocumentSource {
    File(PathBuf),
    /// A document without markers, and the sections to read; an empty list stands for all sections.
    Prose {
        path: PathBuf,
        sections: Vec<String>,
    },
    /// A document that extends definitions of the documents before it.
    Extension(PathBuf),
    Text {
        name: String,
        content: String,
    },
}

impl DocumentSource {
    /// Returns the path of a document that is a file.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::Extension(path) | Self::Prose { path, .. } => Some(path),
            Self::Text { .. } => None,
        }
    }
}

/// Assigns types to the contents of an opaque field, selected by a code field in the same struct.
/// XDR itself cannot express this relation.
///
/// The emitter generates an enum with one variant for each case, and `Unknown` for other codes.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    /// The enum's name in Rust.
    pub name: String,
    /// The XDR name of the struct that contains both fields.
    pub carrier: String,
    /// The XDR name of the field that holds the code.
    pub code: String,
    /// The XDR name of the opaque field.
    pub data: String,
    /// Whether zero bytes stand for the default value of the content's type.
    pub empty_is_default: bool,
    /// The prefixes to strip from variant names.
    pub strip: Vec<String>,
    /// The name of each code's constant, and the XDR type of its content.
    pub cases: Vec<(String, String)>,
}
