//! Tests the comparison of revisions on pairs of documents in the manner of drafts. The changes and
//! their classes, in the file `expected` of each folder, were determined by hand from the
//! documents.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{SPEC, V2, XCHAREXT_02, XCHAREXT_03, note_skipped};
use xdrgen_build::diff::{Class, diff, json, text};
use xdrgen_build::{Compilation, Config, Module, Overlay, Style};

/// Compiles the manifest or document with a name, such as `old.toml` or `old.txt`.
fn side(folder: &Path, name: &str) -> Compilation {
    let of = |extension: &str| folder.join(name).with_extension(extension);
    let is_there = |extension: &&str| of(extension).is_file();
    let extension = ["toml", "txt", "x", "md"].into_iter().find(is_there);
    let path = of(extension.unwrap());
    let config = match extension {
        Some("toml") => Config::from_manifest(&path).unwrap(),
        _ => Config::new().module(Module::new("m").document(&path)),
    };
    checked(config, &path.to_string_lossy())
}

#[track_caller]
fn checked(config: Config, name: &str) -> Compilation {
    let compilation = config.check();
    let report = compilation.report(Style::Plain);
    assert!(!compilation.has_errors(), "{name}: {report}");
    compilation
}

/// Returns the changes that were determined by hand.
fn expected(name: &str) -> String {
    std::fs::read_to_string(format!("tests/revisions/{name}/expected")).unwrap()
}

/// Compares the changes of a pair with those of its file `expected`.
#[track_caller]
fn pair(name: &str) {
    let folder = Path::new("tests/revisions").join(name);
    let (old, new) = (side(&folder, "old"), side(&folder, "new"));
    compare(&old, &new, &expected(name), Class::Compatible);
}

/// Compares the changes of at least a class with those that are expected: one per line, in any
/// order. Lines with `#` are comments.
#[track_caller]
fn compare(old: &Compilation, new: &Compilation, expected: &str, least: Class) {
    for side in [old, new] {
        assert_eq!(diff(side.schema(), side.schema()), [], "the same documents");
    }
    let changes = diff(old.schema(), new.schema());
    let found = changes
        .iter()
        .filter(|change| change.class >= least)
        .map(|change| format!("{}: {}", change.class.name(), change.message));
    let found: Vec<String> = found.collect();
    let lines = expected.lines().filter(|line| !line.starts_with('#'));
    let lines: BTreeSet<&str> = lines.collect();
    let found_set: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let missing: Vec<_> = lines.difference(&found_set).collect();
    let unexpected: Vec<_> = found_set.difference(&lines).collect();
    assert!(
        missing.is_empty() && unexpected.is_empty(),
        "missing: {missing:#?}, unexpected: {unexpected:#?}"
    );
    assert_eq!(
        found.len(),
        found_set.len(),
        "a change is reported once: {found:#?}"
    );
    // The output is stable, and JSON has the same changes.
    let again = diff(old.schema(), new.schema());
    assert_eq!(changes, again);
    let all = json(&changes, old.sources(), new.sources());
    assert_eq!(all.lines().count(), changes.len());
    let lines = text(&changes, old.sources(), new.sources());
    assert!(found.iter().all(|change| lines.contains(change.as_str())));
}

macro_rules! pairs {
    ($($test:ident = $folder:literal;)*) => {
        const FOLDERS: &[&str] = &[$($folder),*];

        $(
            #[test]
            fn $test() {
                pair($folder);
            }
        )*
    };
}

pairs! {
    prose_and_comments = "prose";
    text_to_markdown = "formats";
    adoption_by_a_working_group = "adoption";
    codes_of_an_open_overlay = "codes";
    reused_codes = "reused-codes";
    an_overlay_for_old_bytes = "first-codes";
    an_overlay_is_removed = "no-codes";
    status_codes_with_results = "status";
    members_of_an_open_enum = "open-status";
    fields_of_structs = "fields";
    numbers_assigned_by_iana = "assigned-numbers";
    limits_and_widths = "limits";
    versions_of_a_program = "versions";
    an_extension_document = "extension";
    errata_are_incorporated = "errata";
    a_default_arm = "default-arm";
    cases_instead_of_a_default = "explicit-arms";
    version_one_of_rpc_over_rdma = "rpcrdma-v1";
}

const PROPERTIES: &str = "properties";

/// Consecutive drafts with their errata, and the overlays for their codes.
#[test]
fn properties_of_version_two() {
    let overlay = |name: &str, fields: [&str; 3], cases: &[(&str, &str)]| {
        let [carrier, code, data] = fields.map(str::to_owned);
        let cases = cases.iter();
        Overlay {
            name: name.into(),
            carrier,
            code,
            data,
            cases: cases
                .map(|(code, ty)| ((*code).into(), (*ty).into()))
                .collect(),
            ..Overlay::default()
        }
    };
    let operations = ["rpcrdma2_optional", "rdma_opttype", "rdma_optinfo"];
    let compile = |draft: &str, overlays: [Overlay; 2]| {
        let extension = Module::new("v2::ext").document(format!("{SPEC}/{draft}"));
        let extension = extension.uses("v2");
        let config = Config::new()
            .errata(format!("{SPEC}/errata.toml"))
            .module(Module::new("v2").document(format!("{SPEC}/{V2}")))
            .module(overlays.into_iter().fold(extension, Module::overlay));
        checked(config, draft)
    };
    let old = [
        ("ROPT_INITXCH", "optinfo_initxch"),
        ("ROPT_REQXCH", "optinfo_reqxch"),
        ("ROPT_RESPXCH", "optinfo_respxch"),
        ("ROPT_UPDXCH", "optinfo_updxch"),
    ];
    let new = [
        ("ROPT_CONNPROP", "optinfo_connprop"),
        ("ROPT_REQPROP", "optinfo_reqprop"),
        ("ROPT_RESPROP", "optinfo_resprop"),
        ("ROPT_UPDPROP", "optinfo_updprop"),
    ];
    let old_values = [
        ("XCHAR_RBSIZ", "xchrbsiz"),
        ("XCHAR_REQREMINV", "xchrreqrem"),
        ("XCHAR_BRS", "xchrbrs"),
    ];
    let new_values = [
        ("PROP_RBSIZ", "prop_rbsiz"),
        ("PROP_REQREMINV", "prop_reqreminv"),
        ("PROP_BRS", "prop_brs"),
    ];
    let (of_old, of_new) = (
        ["xcharval", "xchv_which", "xchv_data"],
        ["propval", "pv_which", "pv_data"],
    );
    let old = [
        overlay("OptInfo", operations, &old),
        overlay("Characteristic", of_old, &old_values),
    ];
    let new = [
        overlay("OptInfo", operations, &new),
        overlay("Property", of_new, &new_values),
    ];
    let (old, new) = (compile(XCHAREXT_02, old), compile(XCHAREXT_03, new));
    compare(&old, &new, &expected(PROPERTIES), Class::Compatible);
}

/// The modules of `spec/`, in which two overlays describe one field.
#[test]
fn a_manifest_equals_itself() {
    let config = Config::from_manifest(format!("{SPEC}/xdrgen.toml")).unwrap();
    let spec = checked(config, "spec");
    compare(&spec, &spec, "", Class::Compatible);
}

/// The RFCs of NFSv4.1 and NFSv4.2, without the changes that are compatible.
#[test]
fn minor_versions_of_nfs() {
    let rfcs = Path::new("../../shared/rfc");
    if !rfcs.is_dir() {
        return note_skipped("minor_versions_of_nfs needs shared/rfc beside the checkout");
    }
    let [old, new] = ["rfc5662", "rfc7863"].map(|name| side(rfcs, name));
    compare(&old, &new, &expected(MINOR_VERSION), Class::Extending);
}

const MINOR_VERSION: &str = "nfs-minor-version";

#[test]
fn every_folder_is_tested() {
    let folders = std::fs::read_dir("tests/revisions").unwrap();
    let names = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<String> = names.collect();
    let tested = FOLDERS.iter().chain([&PROPERTIES, &MINOR_VERSION]);
    let tested = tested.map(|name| (*name).to_owned());
    assert_eq!(names, tested.collect());
}
