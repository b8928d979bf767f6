//! The structure of every crate: modules import each other without circles, and no two public types
//! have one name.
//!
//! The test reads the sources with syn. A module depends on the module that defines what it names,
//! also where the name comes by a re-export. It is compared with its siblings, each with all that
//! is inside it; a module and those inside it may name each other. Code under `#[cfg(test)]` does
//! not count.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "structure/circles.rs"]
mod circles;
#[path = "structure/modules.rs"]
mod modules;

use std::collections::BTreeMap;
use std::path::Path;

use modules::Crate;

/// The crates, by the file that each begins with.
const CRATES: [&str; 11] = [
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
    "examples/kv-store/src/lib.rs",
];

/// The circles that stay: a grammar's productions name each other.
const ALLOWED: [&[&str]; 1] = [&[
    "parse::declaration",
    "parse::structure",
    "parse::types",
    "parse::union",
]];

/// Names that types of several crates have: each is the language's or the field's habit, and is used
/// with the name of its crate or module.
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
    // Those two have tests alone.
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

#[test]
fn modules_form_no_circle() {
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

/// The compiler runs in build scripts, where no other of the crates is used: its names are compared
/// with each other alone.
#[test]
fn no_two_public_types_have_one_name() {
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
