//! The structure of every crate: modules import each other without circles.
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

use std::path::Path;

use modules::Crate;

/// The crates, by the file that each begins with.
const CRATES: [&str; 9] = [
    "xdrgen/src/lib.rs",
    "xdrgen/runtime/src/lib.rs",
    "xdrgen/cli/src/main.rs",
    "oncrpc/src/lib.rs",
    "nfs/src/lib.rs",
    "rpcrdma-proto/src/lib.rs",
    "rpcrdma-verbs/src/lib.rs",
    "rpcrdma-verbs/cli/src/main.rs",
    "benches/src/main.rs",
];

/// The circles that stay: a grammar's productions name each other.
const ALLOWED: [&[&str]; 1] = [&[
    "parse::declaration",
    "parse::structure",
    "parse::types",
    "parse::union",
]];

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
