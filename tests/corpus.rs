//! Tests XDR files of other projects: every file is parsed to its end, and the findings of each
//! match a reviewed list.
//!
//! The files are not part of this repository: the tests need a folder `shared` beside the checkout.
//! Small examples in this file repeat the unusual constructs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use xdrgen_build::{Compilation, Config, Module, Shapes};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "x") {
            found.push(path);
        }
    }
    found.sort();
}

fn compiled(name: &str, path: &Path, shapes: Shapes) -> Compilation {
    Config::new()
        .module(Module::new(name).document(path).shapes(shapes))
        .check()
}

/// Returns the number of findings for each code, such as `3 undefined-type, 1 syntax`.
fn codes(compilation: &Compilation, errors: bool) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for diagnostic in compilation
        .diagnostics()
        .iter()
        .filter(|diagnostic| diagnostic.is_error() == errors)
    {
        *counts.entry(diagnostic.code.to_string()).or_default() += 1;
    }
    let codes: Vec<String> = counts
        .iter()
        .map(|(code, count)| format!("{count} {code}"))
        .collect();
    codes.join(", ")
}

#[test]
fn findings_match_the_reviewed_list() {
    let Some(corpus) = common::shared("corpus") else {
        return;
    };
    let mut found = Vec::new();
    files(&corpus, &mut found);
    assert!(!found.is_empty());
    let mut report = String::new();
    for path in &found {
        let name = path
            .strip_prefix(&corpus)
            .unwrap()
            .to_string_lossy()
            .replace('\\', "/");
        let compilation = compiled("corpus", path, Shapes::Both);
        assert_eq!(
            compilation.has_errors(),
            compilation.generate().is_err(),
            "{name}"
        );
        let (errors, warnings) = (codes(&compilation, true), codes(&compilation, false));
        let errors = if errors.is_empty() {
            "compiles".to_owned()
        } else {
            errors
        };
        let warnings = if warnings.is_empty() {
            warnings
        } else {
            format!(" (warnings: {warnings})")
        };
        writeln!(report, "{name}: {errors}{warnings}").unwrap();
    }
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("corpus", report);
    });
}

/// Files without references to other files become Rust that compiles without a warning. The other
/// shapes are only generated.
#[test]
fn self_contained_files_compile() {
    let Some(corpus) = common::shared("corpus") else {
        return;
    };
    let mut found = Vec::new();
    files(&corpus, &mut found);
    let mut library = common::ThrowAway::new("corpus");
    for (number, path) in found.iter().enumerate() {
        for shapes in [Shapes::Owned, Shapes::Borrowed] {
            let compilation = compiled("corpus", path, shapes);
            assert_eq!(
                compilation.generate().is_err(),
                compilation.has_errors(),
                "{}",
                path.display()
            );
        }
        let name = path
            .file_stem()
            .unwrap()
            .to_string_lossy()
            .replace('-', "_");
        let name = format!("{name}_{number}");
        if let Ok(files) = compiled(&name, path, Shapes::Both).generate() {
            library.add(&name, files);
        }
    }
    library.check();
}

/// The reply to a rejected call, in the style of RFC 5531, section 9.
const REJECTED: &str = "
enum reject_reason { VERSION = 0, CREDENTIAL = 1 };
enum credential_fault { EXPIRED = 1, FORGED = 2 };
union rejection switch (reject_reason fault) {
case VERSION:
    struct { unsigned int least; unsigned int most; } range;
case CREDENTIAL:
    credential_fault fault;
};
";

/// Two headers that declare the same types, in the style of the NIS and mount protocols.
const REPEATED: &str = "
const NAME_MAX = 255;
typedef string name<NAME_MAX>;
struct export { name path; };
typedef string name<NAME_MAX>;
typedef opaque handle[32];
typedef opaque handle[0x20];
struct mounted { handle root; name path; };
";

/// A list whose link is a union (RFC 4506, section 4.19), and a filter with recursive terms, in the
/// style of search protocols.
const UNION_LISTS: &str = "
union names switch (bool more) {
case TRUE:
    named head;
case FALSE:
    void;
};
struct named { string name<32>; names rest; };
enum filter_kind { ALWAYS = 0, NOT = 1, BOTH = 2, GROUP = 3 };
union filter switch (filter_kind kind) {
case ALWAYS: void;
case NOT:    filter negated;
case BOTH:   filter sides[2];
case GROUP:  grouped group;
};
struct grouped { names labels; filter within; };
program SEARCH { version SEARCH_V1 { names FIND(filter) = 1; } = 1; } = 100998;
";

/// A file protocol with one program number whose versions are in separate documents, like NFSv3
/// (RFC 1813) and NFSv4 (RFC 7531), and two revisions of one version, like RFC 7531 and RFC 5662.
const VERSIONS: [(&str, &str); 3] = [
    (
        "store3",
        "struct handle { opaque bytes<64>; };
program STORE { version STORE_V3 { void NONE(void) = 0; handle ROOT(void) = 1; } = 3; } = 100999;",
    ),
    (
        "store4",
        "struct handle { opaque bytes<128>; };
program STORE { version STORE_V4 { void NONE(void) = 0; handle BATCH(handle) = 1; } = 4; } = \
         100999;",
    ),
    (
        "store41",
        "struct handle { opaque bytes<128>; hyper session; };
program STORE { version STORE_V4 { void NONE(void) = 0; handle BATCH(handle) = 1; } = 4; } = \
         100999;",
    ),
];

/// Returns the findings, one per line.
fn lines(compilation: &Compilation) -> Vec<String> {
    let all = compilation.diagnostics().iter();
    all.map(|found| xdrgen_build::report::short(compilation.sources(), found))
        .collect()
}

#[test]
fn unusual_constructs_compile() {
    let mut library = common::ThrowAway::new("peculiar");
    for (name, xdr, found) in [
        ("union_lists", UNION_LISTS, &[][..]),
        (
            "rejected",
            REJECTED,
            &["8:22: warning[discriminant-name]: "][..],
        ),
        (
            "repeated",
            REPEATED,
            &[
                "5:16: warning[repeated-typedef]: ",
                "7:16: warning[repeated-typedef]: ",
            ],
        ),
    ] {
        let module = Module::new(name).text(format!("{name}.x"), xdr);
        let compilation = Config::new().module(module).check();
        let lines = lines(&compilation);
        assert_eq!(lines.len(), found.len(), "{lines:?}");
        for (line, found) in lines.iter().zip(found) {
            assert!(line.starts_with(&format!("{name}.x:{found}")), "{line}");
        }
        library.add(name, compilation.generate().unwrap());
    }
    let versions = VERSIONS.iter().fold(Config::new(), |config, (name, xdr)| {
        config.module(Module::new(*name).text(format!("{name}.x"), *xdr))
    });
    let versions = versions.check();
    assert_eq!(lines(&versions), [""; 0]);
    library.add("versions", versions.generate().unwrap());
    library.check();
}
