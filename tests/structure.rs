//! Tests the structure of every crate: imports between modules are acyclic, and the names of public
//! types are unique.
//!
//! The test parses the sources with syn. A module depends on the modules that define the items that
//! it names, also through re-exports. Dependencies are compared between siblings, each including
//! its submodules; a module and its submodules may name each other. Code under `#[cfg(test)]` does
//! not count.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "structure/circles.rs"]
mod circles;
#[path = "structure/modules.rs"]
mod modules;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use modules::Crate;

/// The root file of each crate.
const CRATES: [&str; 13] = [
    "xdrgen/src/lib.rs",
    "xdrgen/runtime/src/lib.rs",
    "xdrgen/cli/src/main.rs",
    "oncrpc/src/lib.rs",
    "nfs/src/lib.rs",
    "iwarp/src/lib.rs",
    "rpcrdma-proto/src/lib.rs",
    "rpcrdma-verbs/src/lib.rs",
    "rpcrdma-verbs/cli/src/main.rs",
    "benches/src/main.rs",
    "examples/kv/src/main.rs",
    "examples/kv-metrics/src/main.rs",
    "examples/kv-store/src/lib.rs",
];

/// The accepted cycles: the productions of a grammar refer to each other.
const ALLOWED: [&[&str]; 1] = [&[
    "parse::declaration",
    "parse::structure",
    "parse::types",
    "parse::union",
]];

/// Type names that several crates use by convention, always qualified by a crate or module.
const COMMON: [&str; 5] = ["ClientConfig", "Config", "Error", "Result", "ServerConfig"];

fn read(root: &str) -> Crate {
    Crate::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(root))
}

#[test]
fn the_list_of_crates_is_complete() {
    let manifest = include_str!("../Cargo.toml");
    let members = manifest
        .lines()
        .find_map(|line| line.strip_prefix("members = "))
        .unwrap();
    // These two crates contain only tests.
    let members = members
        .split('"')
        .filter(|member| member.contains(char::is_alphabetic));
    for member in members.filter(|member| !member.starts_with("tests/")) {
        assert!(
            CRATES
                .iter()
                .any(|root| root.starts_with(&format!("{member}/src/"))),
            "{member}"
        );
    }
}

/// In a package without `autotests`, a file that is neither a program nor a module of `main.rs`
/// would never run.
#[test]
fn each_file_of_tests_belongs_to_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut checked = 0;
    for package in ["nfs", "tests/rpc", "tests/transport"] {
        let read = |path: &str| fs::read_to_string(root.join(package).join(path)).unwrap();
        let (manifest, main) = (read("Cargo.toml"), read("tests/main.rs"));
        assert!(manifest.contains("autotests = false"), "{package}");
        for entry in fs::read_dir(root.join(package).join("tests")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            if path.extension().is_some_and(|extension| extension == "rs") && name != "main" {
                let is_program = manifest.contains(&format!("path = \"tests/{name}.rs\""));
                let is_module = main.lines().any(|line| line == format!("mod {name};"));
                assert!(is_program != is_module, "{}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 30, "{checked}");
}

#[test]
fn module_imports_are_acyclic() {
    let mut found = Vec::new();
    for root in CRATES {
        let circles: Vec<_> = read(root)
            .levels()
            .iter()
            .flat_map(circles::circles)
            .collect();
        for circle in circles
            .iter()
            .filter(|circle| !ALLOWED.contains(&circle.names().as_slice()))
        {
            found.push(format!("{root}:\n{circle}"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The compiler runs in build scripts, which use no other crate of this workspace. Therefore its
/// names are only compared with each other.
#[test]
fn public_type_names_are_unique() {
    let mut places: BTreeMap<(bool, String), Vec<String>> = BTreeMap::new();
    for root in CRATES.iter().filter(|root| root.ends_with("/lib.rs")) {
        let root = root.trim_end_matches("/src/lib.rs");
        for (name, module) in read(&format!("{root}/src/lib.rs")).types() {
            let place = format!("{root}: {module}");
            let key = (root == "xdrgen", name.to_owned());
            places.entry(key).or_default().push(place);
        }
    }
    let in_several_crates = |places: &[String]| {
        let mut crates: Vec<_> = places.iter().map(|place| place.split(':').next()).collect();
        crates.sort_unstable();
        crates.windows(2).all(|pair| pair[0] != pair[1])
    };
    let found: Vec<_> = places
        .iter()
        .filter(|(_, places)| places.len() > 1)
        .filter(|((_, name), places)| {
            !(COMMON.contains(&name.as_str()) && in_several_crates(places))
        })
        .map(|((_, name), places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
