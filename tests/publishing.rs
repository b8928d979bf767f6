//! Tests the metadata that a registry needs of the published packages.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use toml::{Table, Value};

/// Returns the manifests of the published packages, by their folders.
fn published() -> BTreeMap<String, Table> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let parse = |path: &Path| -> Table { fs::read_to_string(path).unwrap().parse().unwrap() };
    let workspace = parse(&root.join("Cargo.toml"));
    let members = workspace["workspace"]["members"].as_array().unwrap();
    let members = members
        .iter()
        .map(|member| member.as_str().unwrap().to_owned());
    let all = members.map(|member| (member.clone(), parse(&root.join(member).join("Cargo.toml"))));
    all.filter(|(_, manifest)| manifest["package"].get("publish").is_none())
        .collect()
}

fn list<'a>(package: &'a Value, key: &str) -> &'a [Value] {
    package[key].as_array().unwrap()
}

#[test]
fn packages_have_registry_metadata() {
    let packages = published();
    assert_eq!(packages.len(), 9);
    for (folder, manifest) in packages {
        let package = &manifest["package"];
        let name = package["name"].as_str().unwrap();
        for file in ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(&folder)
                .join(file);
            assert!(path.is_file(), "{}", path.display());
        }
        assert!(
            !package["description"].as_str().unwrap().is_empty(),
            "{name}"
        );
        let documentation = package["documentation"].as_str().unwrap();
        assert_eq!(documentation, format!("https://docs.rs/{name}"));
        // The registry's limits.
        for key in ["keywords", "categories"] {
            assert!((1..=5).contains(&list(package, key).len()), "{name}: {key}");
        }
        for keyword in list(package, "keywords") {
            assert!(keyword.as_str().unwrap().len() <= 20, "{name}: {keyword}");
        }
    }
}

#[test]
fn libraries_are_documented_with_their_features() {
    for (folder, manifest) in published() {
        let settings = manifest["package"].get("metadata");
        let settings = settings.map(|metadata| &metadata["docs"]["rs"]);
        if manifest.contains_key("bin") {
            assert!(settings.is_none(), "{folder}");
            continue;
        }
        let settings = settings.unwrap();
        if settings.get("all-features").and_then(Value::as_bool) == Some(true) {
            continue;
        }
        // The features are listed explicitly, without those that docs.rs cannot build.
        let features = manifest["features"].as_table().unwrap();
        let default = list(&manifest["features"], "default");
        let named = list(settings, "features");
        for feature in features.keys() {
            let is_in = |list: &[Value]| list.iter().any(|one| one.as_str() == Some(feature));
            let is_left_out = ["default", "ibverbs", "testing"].contains(&feature.as_str());
            assert!(
                is_left_out || is_in(default) || is_in(named),
                "{folder}: {feature}"
            );
        }
    }
}

#[test]
fn packages_are_published_after_those_that_they_need() {
    let page = include_str!("../docs/releasing.md");
    let (_, order) = page.split_once("for package in ").unwrap();
    let (order, _) = order.split_once("; do").unwrap();
    let order: Vec<_> = order
        .split_whitespace()
        .filter(|word| *word != "\\")
        .collect();
    let packages = published();
    assert_eq!(order.len(), packages.len());
    for manifest in packages.values() {
        let at = |name: &str| order.iter().position(|one| *one == name);
        let name = manifest["package"]["name"].as_str().unwrap();
        let place = at(name).unwrap_or_else(|| panic!("{name} is not in the order"));
        for kind in ["dependencies", "build-dependencies"] {
            let Some(needed) = manifest.get(kind).and_then(Value::as_table) else {
                continue;
            };
            for needed in needed.keys() {
                assert!(
                    at(needed).is_none_or(|needed| needed < place),
                    "{name}: {needed}"
                );
            }
        }
    }
}

/// The index of the documentation is also the table of contents of its book.
#[test]
fn every_page_is_in_the_index() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let index = fs::read_to_string(docs.join("README.md")).unwrap();
    let mut count = 0;
    for folder in ["", "releases/"] {
        for entry in fs::read_dir(docs.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") && name != "README.md" {
                assert!(
                    index.contains(&format!("]({folder}{name})")),
                    "{folder}{name}"
                );
                count += 1;
            }
        }
    }
    assert!(count > 15);
    // Rows name pages that exist.
    let rows = index.lines().filter(|line| line.starts_with("| ["));
    let paths = rows.filter_map(|row| row.split_once("](")?.1.split_once(')'));
    for (path, _) in paths {
        assert!(docs.join(path).is_file(), "{path}");
    }
}

/// The first commands of the README do not suppress cargo's progress output.
#[test]
fn the_first_commands_show_progress() {
    let readme = include_str!("../README.md");
    let block = readme.split("```").nth(1).unwrap();
    let commands: Vec<_> = block.lines().skip(1).collect();
    assert_eq!(commands.len(), 2);
    for command in commands {
        assert!(command.starts_with("cargo "), "{command}");
        let is_quiet = |word: &str| ["-q", "--quiet", "2>"].contains(&word);
        assert!(!command.split(' ').any(is_quiet), "{command}");
    }
}
