//! Tests the positions of defects in a manifest, and settings that are no names.

mod common;

use common::Folder;
use xdrgen_build::{Config, Style};

const XDR: &str = "enum op { OP_GET = 1 };\n\
                   struct c { unsigned int k; opaque d<>; };\n\
                   const ONE = 1;\n\
                   program P { version V { c GET(c) = 1; } = 1; } = 2;\n";

/// The start of a manifest with one module.
const MODULE: &str = "[[module]]\npath = \"a\"\ndocuments = [\"a.x\"]\n";

/// Returns the report of a manifest beside [`XDR`], and its lines that have positions. Asserts that
/// the manifest is an error.
#[track_caller]
fn rejected(manifest: &str) -> (String, Vec<String>) {
    let folder = Folder::new().with("a.x", XDR).with("xdrgen.toml", manifest);
    let report = match Config::from_manifest(folder.path("xdrgen.toml")) {
        Err(error) => error.to_string(),
        Ok(config) => {
            let compilation = config.check();
            assert!(compilation.generate().is_err(), "{manifest}");
            compilation.report(Style::Plain)
        }
    };
    let report = folder.relative(&report);
    let places = report
        .lines()
        .filter_map(|line| line.trim().strip_prefix("--> "));
    let places = places.map(str::to_owned).collect();
    (report, places)
}

/// Asserts that the only error of a manifest is at a position, whichever line ends it has.
#[track_caller]
fn rejected_at(manifest: &str, place: &str, message: &str) {
    for manifest in [manifest.to_owned(), manifest.replace('\n', "\r\n")] {
        let (report, places) = rejected(&manifest);
        assert_eq!(
            places,
            [format!("xdrgen.toml:{place}")],
            "{manifest}\n{report}"
        );
        assert!(report.contains(message), "{report}");
    }
}

/// A line end is one byte of the text that positions refer to, whichever the file has.
#[test]
fn positions_do_not_depend_on_line_ends() {
    rejected_at(
        &format!("{MODULE}shape = 1\n"),
        "4:1",
        "unknown field `shape`",
    );
    rejected_at(&format!("\n{MODULE}uses = [\n"), "5:9", "");
    rejected_at(
        "\n\n[lints]\nsyntax = \"warn\"\n",
        "4:1",
        "`syntax` is an error, not a lint",
    );
    rejected_at(
        &format!("# a\n# b\n{MODULE}ddp = [\"c.d\", \"c.e\"]\n"),
        "6:16",
        "`c` has no field or arm `e`",
    );
}

/// The name of a lint may be part of another name.
#[test]
fn a_lint_is_reported_at_its_key() {
    let comment = "# Not `name-lint`, and not syntax.\n";
    rejected_at(
        &format!("{comment}prelude = []\n[lints]\n\"name-lint\" = \"deny\"\n"),
        "4:2",
        "no diagnostic is named `name-lint`",
    );
    rejected_at(
        &format!("{comment}[lints]\ntext-syntax = \"deny\"\nsyntax = \"deny\"\n"),
        "4:1",
        "`syntax` is an error, not a lint",
    );
    // The first defect is reported.
    rejected_at(
        "[lints]\nb = \"deny\"\na = \"deny\"\n",
        "2:1",
        "no diagnostic is named `b`",
    );
}

/// A setting that becomes a name in Rust, or names an item, has no white space or other sign.
#[test]
fn settings_that_are_no_names_are_reported_at_their_place() {
    for (settings, place, message) in [
        (
            "rename = { \"c\" = \"d e\" }",
            "4:19",
            "`rename`: `d e` is not a name in Rust",
        ),
        (
            "rename = { \"c\" = \" C\" }",
            "4:19",
            "`rename`: ` C` is not a name in Rust",
        ),
        (
            "rename = { \"c.k\" = \"key \" }",
            "4:21",
            "`rename`: `key ` is not a name in Rust",
        ),
        (
            "rename = { \"c.k\" = \"a/**/\" }",
            "4:21",
            "`rename`: `a/**/` is not a name in Rust",
        ),
        (
            "rename = { \"op.OP_GET\" = \"\" }",
            "4:27",
            "`rename`: `` is not a name in Rust",
        ),
        (
            "rename = { GET = \"r#self\" }",
            "4:19",
            "`rename`: `r#self` is not a name in Rust",
        ),
        (
            "rename = { ONE = \"gen\" }",
            "4:19",
            "`rename`: `gen` is not a name in Rust",
        ),
        (
            "rename = { \" c\" = \"C\" }",
            "4:13",
            "`rename`: nothing of the module is named ` c`",
        ),
        (
            "strip = [\"OP_\", \"op get\"]",
            "4:18",
            "`strip`: no type, constant, field or member begins with `op get`",
        ),
        (
            "strip = [\"\"]",
            "4:11",
            "`strip`: no type, constant, field or member begins with ``",
        ),
        (
            "strip = [\"9\"]",
            "4:11",
            "`strip`: no type, constant, field or member begins with `9`",
        ),
        (
            "ddp = [\"c. d\"]",
            "4:9",
            "`ddp`: `c` has no field or arm ` d`",
        ),
        ("ddp = [\"c .d\"]", "4:9", "`ddp`: no type is named `c `"),
        ("open = [\"op \"]", "4:10", "`open`: no enum is named `op `"),
        (
            "item_results = [\"a b\"]",
            "4:18",
            "`item_results`: no type is named `a b`",
        ),
        (
            "stubs = [\"client\"]\nidempotent = [\"GET \"]",
            "5:16",
            "`idempotent`: no procedure is named `GET `",
        ),
        (
            "stubs = [\"client\"]\nddp = [\"c.d\"]\nreply_items = { \"c.d\" = \"c. k\" }",
            "6:26",
            "`reply_items`: `c` has no field or arm ` k`",
        ),
        (
            "stubs = [\"client\"]\nddp = [\"c.d\"]\nreply_items = { \"c.d \" = \"c.k\" }",
            "6:18",
            "`reply_items`: `c` has no field or arm `d `",
        ),
        (
            "uses = [\"b c\"]",
            "4:10",
            "`a` uses `b c`, but no module of that path precedes it",
        ),
    ] {
        rejected_at(&format!("{MODULE}{settings}\n"), place, message);
    }
    for (settings, place, message) in [
        (
            "owned_feature = \"a b\"",
            "1:18",
            "`a b` is not the name of a cargo feature",
        ),
        (
            "serde_feature = \"\"",
            "1:18",
            "`` is not the name of a cargo feature",
        ),
        (
            "[extern]\nc = \"crate::a b\"",
            "2:6",
            "`crate::a b` is not the path of a type",
        ),
        (
            "[extern]\nc = 'crate::Self'",
            "2:6",
            "`crate::Self` is not the path of a type",
        ),
        (
            "[extern]\nc = 'crate::Fn(u8)'",
            "2:6",
            "`crate::Fn(u8)` is not the path of a type",
        ),
        (
            "[extern]\nc = \"crate::C<'a>\"",
            "2:6",
            "`crate::C<'a>` has the lifetime `'a`, but its only lifetime can be `'static`",
        ),
        (
            "[extern]\nc = \"::b::C<'_, u8>\"",
            "2:6",
            "has the lifetime `'_`",
        ),
        (
            "[extern]\nc = \"crate::C<(u8, crate::D<'b>)>\"",
            "2:6",
            "has the lifetime `'b`",
        ),
        (
            "[extern]\nc = 'crate::C<&u8>'",
            "2:6",
            "has a reference without a lifetime",
        ),
    ] {
        rejected_at(&format!("{settings}\n{MODULE}"), place, message);
    }
}

/// The path of a module consists of names that Rust accepts.
#[test]
fn paths_of_modules_are_names_in_rust() {
    for path in [
        "", " ", " a", "a ", "a b", "a::", "a:: b", "a-b", "a/**/", "a\\nb", "9", "_", "gen",
        "self", "r#self", "r#a", "a.b",
    ] {
        let manifest = format!("[[module]]\npath = \"{path}\"\ndocuments = [\"a.x\"]\n");
        let (report, places) = rejected(&manifest);
        assert_eq!(places, ["xdrgen.toml:2:8"], "{path}\n{report}");
        assert!(
            report.contains("is not a Rust module path"),
            "{path}\n{report}"
        );
    }
}

/// An overlay of [`XDR`], whose first key is on line 5.
const OVERLAY: &str = "[[module.overlay]]\nname = \"A\"\nstruct = \"c\"\ncode = \"k\"\n\
                       data = \"d\"\nstrip = [\"ON\"]\ncases = [[\"ONE\", \"c\"]]\n";

#[test]
fn names_of_overlays_are_names_in_rust() {
    for name in [" A", "A ", "A b", "a/**/", "gen", "r#Self"] {
        let named = OVERLAY.replace("\"A\"", &format!("\"{name}\""));
        let what = "its name is not a valid Rust type name";
        rejected_at(&format!("{MODULE}{named}"), "5:9", what);
    }
}

/// Each defect of an overlay is at its own text.
#[test]
fn a_defect_of_an_overlay_is_reported_at_its_place() {
    for (text, replacement, place, message) in [
        ("\"c\"\ncode", "\"e\"\ncode", "6:11", "no type is named `e`"),
        (
            "\"c\"\ncode",
            "\"op\"\ncode",
            "6:11",
            "`op` is not a struct",
        ),
        (
            "\"c\"\ncode",
            "\"ONE\"\ncode",
            "6:11",
            "`ONE` is not a type",
        ),
        ("\"k\"", "\"e\"", "7:9", "`c` has no field `e`"),
        (
            "\"k\"",
            "\"d\"",
            "7:9",
            "the field `d` is not an `unsigned int`",
        ),
        ("\"d\"", "'e'", "8:9", "`c` has no field `e`"),
        (
            "\"d\"",
            "\"k\"",
            "8:9",
            "the field `k` is not an `opaque<>`",
        ),
        (
            "\"ON\"",
            "\"ON\", \"\"",
            "9:17",
            "`strip`: no case begins with ``",
        ),
        (
            "\"ON\"",
            "\"A b\"",
            "9:11",
            "`strip`: no case begins with `A b`",
        ),
        (
            "\"ON\"",
            "\"9\"",
            "9:11",
            "`strip`: no case begins with `9`",
        ),
        (
            "\"ON\"",
            "\"TW\"",
            "9:11",
            "`strip`: no case begins with `TW`",
        ),
        (
            "[\"ONE\", ",
            "[\"ONE\", \"c\"], [\"TWO\", ",
            "10:26",
            "no constant is named `TWO`",
        ),
        ("\"c\"]", "\"C\"]", "10:19", "no type is named `C`"),
        ("\"c\"]", "\"ONE\"]", "10:19", "`ONE` is not a type"),
        ("[\"ONE\", \"c\"]", "", "5:9", "it has no cases"),
    ] {
        assert!(OVERLAY.contains(text), "{text}");
        let overlay = OVERLAY.replacen(text, replacement, 1);
        rejected_at(&format!("{MODULE}{overlay}"), place, message);
    }
}

/// A prefix that no name of the module has is a mistake, such as one with another case.
#[test]
fn a_prefix_without_a_name_is_reported() {
    let place = |prefix: &str| format!("{MODULE}strip = [\"OP_\", \"{prefix}\"]\n");
    for prefix in ["op_", "OP_GET_", "cc", "GET", "V", "P", "d_"] {
        let message = format!("`strip`: no type, constant, field or member begins with `{prefix}`");
        rejected_at(&place(prefix), "4:18", &message);
    }
    let folder = Folder::new().with("a.x", XDR);
    for prefix in ["o", "op", "c", "k", "d", "ON", "ONE", "OP_GET"] {
        let folder_manifest = folder.path("xdrgen.toml");
        std::fs::write(&folder_manifest, place(prefix)).expect("a manifest");
        let config = Config::from_manifest(&folder_manifest).expect("a manifest");
        let compilation = config.check();
        assert_eq!(compilation.diagnostics(), [], "{prefix}");
    }
}

/// A name that is nearly that of a key, a value or a lint.
#[test]
fn unknown_keys_and_values_suggest_the_nearest() {
    for (manifest, place, near, fix) in [
        (format!("{MODULE}strips = []\n"), "4:1", "strip", true),
        (format!("{MODULE}\"strips\" = []\n"), "4:1", "strip", true),
        (
            format!("{MODULE}idempotnet = []\n"),
            "4:1",
            "idempotent",
            true,
        ),
        (
            format!("{MODULE}shapes = \"ownd\"\n"),
            "4:10",
            "owned",
            true,
        ),
        (
            format!("{MODULE}stubs = [\"sever\"]\n"),
            "4:10",
            "server",
            true,
        ),
        (format!("preludes = []\n{MODULE}"), "1:1", "prelude", true),
        (
            format!("prelude = [\"itf\"]\n{MODULE}"),
            "1:12",
            "ietf",
            true,
        ),
        (
            format!("[lints]\nprose-nam = \"deny\"\n{MODULE}"),
            "2:1",
            "prose-name",
            true,
        ),
        (
            format!("[lints]\nprose-name = \"dent\"\n{MODULE}"),
            "2:14",
            "deny",
            true,
        ),
        (
            format!("{MODULE}{}", OVERLAY.replace("cases", "case")),
            "10:1",
            "cases",
            true,
        ),
        (format!("{MODULE}zzzzzz = []\n"), "4:1", "", false),
    ] {
        rejected_at(&manifest, place, "");
        let (report, _) = rejected(&manifest);
        let help = format!("`{near}` exists");
        assert_eq!(report.contains("exists"), fix, "{manifest}\n{report}");
        assert!(!fix || report.contains(&help), "{manifest}\n{report}");
    }
}

/// A path may have parameters that are declared everywhere.
#[test]
fn rust_types_of_the_configuration_may_have_parameters() {
    for path in [
        "crate::C<'static>",
        "crate::C<&'static str, 3>",
        "::b::C::<[u8; 4]>",
    ] {
        let manifest = format!("[extern]\nc = \"{path}\"\n{MODULE}");
        let folder = Folder::new().with("a.x", XDR).with("xdrgen.toml", manifest);
        let config = Config::from_manifest(folder.path("xdrgen.toml")).expect("a manifest");
        config.check().generate().expect(path);
    }
}

/// A raw identifier is a name: a keyword stays raw, and another name does not.
#[test]
fn names_may_be_raw() {
    let rename = "[module.rename]\nc = \"r#C\"\n\"c.k\" = \"r#type\"\n\"c.d\" = \"r#d\"\n\
                  GET = \"r#Super\"\n\"op.OP_GET\" = \"r#One\"\n";
    let manifest = format!("{MODULE}stubs = [\"client\", \"server\"]\n{rename}")
        .replace("path = \"a\"", "path = \"r#mod::a\"");
    let folder = Folder::new().with("a.x", XDR).with("xdrgen.toml", manifest);
    let config = Config::from_manifest(folder.path("xdrgen.toml")).expect("a manifest");
    let files = config.check().generate().expect("no defects");
    let text: String = files.iter().map(|file| file.content.as_str()).collect();
    for part in [
        "pub struct C<",
        "pub r#type: u32",
        "pub d: &'a [u8]",
        "fn super_(",
        "pub mod r#mod",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
