//! XDR that others wrote: every file is read to its end, and what is found in each is kept as
//! reviewed.
//!
//! The files are not part of this repository: the tests run where a folder `shared` stands beside
//! the checkout.

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

/// How often each code is found, as `3 undefined-type, 1 syntax`.
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
fn what_is_found_is_as_reviewed() {
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

/// What refers to nothing else becomes Rust which compiles without a warning, and in the other
/// shapes is generated.
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
