//! Tests the files that the build script generates for `rpcrdma-proto`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use xdrgen_build::{Config, GeneratedFile};

/// The folder of the snapshots, beside this file.
const SNAPSHOTS: &str = "snapshots/generated";

fn generated() -> Vec<GeneratedFile> {
    let config = Config::from_manifest("spec/xdrgen.toml").unwrap();
    config
        .check()
        .generate()
        .unwrap_or_else(|report| panic!("{report}"))
}

/// Removes the version from the header, because each release changes it.
fn without_version(content: &str) -> String {
    let mut words: Vec<&str> = content.splitn(6, ' ').collect();
    if words.get(3) == Some(&"xdrgen-build") && words.len() == 6 {
        words[4] = "[version]";
    }
    words.join(" ")
}

#[test]
fn generated_modules_match_their_snapshots() {
    for file in generated() {
        let content = without_version(&file.content);
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(SNAPSHOTS);
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(file.name.clone(), content));
    }
}

#[test]
fn every_snapshot_has_a_module() {
    let expected: BTreeSet<String> = generated()
        .into_iter()
        .map(|file| format!("{}.snap", file.name))
        .collect();
    let kept: BTreeSet<String> = std::fs::read_dir(format!("tests/{SNAPSHOTS}"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".snap"))
        .collect();
    assert_eq!(kept, expected);
}

/// Two runs generate the same bytes, although several threads format the files.
#[test]
fn generation_is_deterministic() {
    assert_eq!(generated(), generated());
}

/// The documentation of every item names its draft and line.
#[test]
fn every_item_cites_its_source() {
    for file in generated()
        .iter()
        .filter(|file| file.name != xdrgen_build::ROOT_FILE)
    {
        let lines: Vec<&str> = file.content.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let item = ["pub struct ", "pub enum ", "pub type ", "pub const "]
                .iter()
                .any(|start| line.starts_with(start));
            // Overlays come from the manifest, not from a draft: they name their carrier struct.
            let documented = lines[..at]
                .iter()
                .rev()
                .take_while(|above| !above.is_empty() && !above.starts_with('}'));
            let place = documented
                .into_iter()
                .any(|above| above.contains(", line ") || above.contains(", selected by "));
            assert!(!item || place, "{}: no place above `{line}`", file.name);
        }
    }
}
