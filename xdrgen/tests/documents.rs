//! Tests other forms of documents than drafts with markers: RFCXML, markdown, text without markers,
//! and extensions of other documents.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Folder, note_skipped};
use xdrgen_build::{Code, Compilation, Config, Diagnostic, Module, Style};

fn check(name: &str, text: &str) -> Compilation {
    Config::new()
        .module(Module::new("a").text(name, text))
        .check()
}

fn report(name: &str, text: &str) -> String {
    check(name, text).report(Style::Plain)
}

const XML: &str = "<?xml version=\"1.0\"?>\n<rfc>\n<middle>\n<section title=\"Types\">\n\
                   <section><name>Points</name>\n\
    <sourcecode type=\"xdr\">\nstruct point { int x&lt;&gt;; piont *next; };\n</sourcecode>\n\
    <sourcecode type=\"xdr\"><![CDATA[\ntypedef opaque name<4>;\n]]></sourcecode>\n\
    </section></section></middle></rfc>\n";

#[test]
fn rfcxml_is_reported_at_its_position() {
    let found = report("a.xml", XML);
    assert!(found.contains("--> a.xml:7:31"), "{found}");
    assert!(found.contains("section 1.1 (Points)"), "{found}");
    let right = XML.replace("piont", "point");
    let files = check("a.xml", &right).generate().expect("no defects");
    assert!(
        files[0]
            .content
            .contains("pub type Name<'a> = xdr::Opaque<'a, 4>;")
    );
    assert!(report("a.xml", "<rfc/>").contains("no `<sourcecode>` has the type `xdr`"));
}

#[test]
fn markdown_is_reported_at_its_position() {
    let text = "--- middle\n# Types\n\n~~~ xdr\nconst A = 1;\nstruct b { in c; };\n~~~\n\n``` c\n\
                int d;\n```\n";
    let found = report("a.md", text);
    assert!(found.contains("--> a.md:6:12"), "{found}");
    assert!(found.contains("section 1 (Types)"), "{found}");
    assert!(report("a.md", "text").contains("no fence has the word `xdr`"));
}

const PROSE: &str = "1. Types\n\n   A union of types.\n\n      const SIZE = 8;\n\
                     \n      typedef opaque handle<SIZE>;\n\n\
    2. Others\n\n      struct other { handle a; };\n";

#[test]
fn definitions_in_running_text_are_compiled_if_selected() {
    let folder = Folder::new().with("a.txt", PROSE).with(
        "xdrgen.toml",
        "[[module]]\npath = \"a\"\n[[module.prose]]\ndocument = \"a.txt\"\nsections = [\"1\"]\n",
    );
    let path = folder.path("a.txt");
    let marked = Config::new()
        .module(Module::new("a").document(&path))
        .check();
    assert!(
        marked
            .report(Style::Plain)
            .contains("xdrgen extract --prose")
    );
    let types = |config: Config| config.check().schema().types.len();
    let prose = |sections: &[&str]| Config::new().module(Module::new("a").prose(&path, sections));
    assert_eq!(types(prose(&[])), 2);
    assert_eq!(types(prose(&["1"])), 1);
    let manifest = Config::from_manifest(folder.path("xdrgen.toml")).expect("a manifest");
    assert_eq!(types(manifest), 1);
    let blocks = xdrgen_build::prose_blocks(&path, &[])
        .expect("a document")
        .taken;
    let names: Vec<String> = blocks
        .iter()
        .flat_map(|block| block.names.clone())
        .collect();
    assert_eq!(names, ["SIZE", "handle", "other"]);
    assert_eq!(blocks[2].section.as_deref(), Some("2"));
}

const BASE: &str = "enum stat { OK = 0, BAD = 1 };\nenum op { GET = 1 };\n\
    union args switch (op which) { case GET: int get; };\n\
    program P { version V { void NULL(void) = 0; } = 1; } = 2;\n\
    union none switch (int k) { case 1: int a; default: void; };\n\
    const SIZE = 8;\nenum list { L1, L2, L3 = 2, L9 = 9 };\n";

fn extended(extension: &str) -> Compilation {
    let folder = Folder::new().with("base.x", BASE).with("more.x", extension);
    let module = Module::new("a").document(folder.path("base.x"));
    let module = module.extension(folder.path("more.x"));
    Config::new().module(module).check()
}

#[test]
fn an_extension_adds_members_arms_and_procedures() {
    let whole = "enum stat { BAD = 1, WORSE = 2 };\nenum op { PUT = 2 };\n\
        union args switch (op which) { case PUT: opaque put<>; };\n\
        program P { version V { int PUT_ALL(int) = 1; } = 1; version W { void NULL2(void) = 0; } \
        = 2; } = 2;\n";
    let fragments = "/* to be added to enum stat: */\n WORSE = 2,\n/* enum op */ PUT = 2\n\
        /* New arms of the union args (and not of op) */\n case PUT: opaque put<>;\n";
    for (text, procedures) in [(whole, 2), (fragments, 1)] {
        let checked = extended(text);
        assert!(!checked.has_errors(), "{}", checked.report(Style::Plain));
        let schema = checked.schema();
        let count = |name: &str| match &schema.ty(schema.find(name).expect(name)).kind {
            xdrgen_build::ir::TypeDefKind::Enum(body) => body.members.len(),
            xdrgen_build::ir::TypeDefKind::Union(union) => union.arms.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!([count("stat"), count("op"), count("args")], [3, 2, 2]);
        let version = &schema.modules[0].programs[0].versions[0];
        assert_eq!(version.procedures.len(), procedures);
    }
}

/// An extension may repeat what it extends.
#[test]
fn an_equal_repetition_is_dropped() {
    let base = extended("");
    for text in [
        BASE,
        "union none switch (int k) { default: void; };",
        "program P { version V { void NULL(void) = 0; } = 1; } = 2;",
        "enum list { L2, L3 = 2 };",
    ] {
        let checked = extended(text);
        assert!(!checked.has_errors(), "{}", checked.report(Style::Plain));
        let count = |checked: &Compilation| {
            let module = &checked.schema().modules[0];
            (module.types.len(), module.programs[0].versions.len())
        };
        assert_eq!(count(&checked), count(&base), "{text}");
    }
}

/// A member without a value is one more than the member before it in the extension, also if that
/// one is not the last of the enum.
#[test]
fn an_added_member_follows_the_one_before_it() {
    for text in [
        "enum list { L3 = 2, L4, L5 };",
        "enum list { L9 = 9, L10, L3 = 2, L4, L5 };",
    ] {
        let checked = extended(text);
        assert!(!checked.has_errors(), "{}", checked.report(Style::Plain));
        let schema = checked.schema();
        let list = &schema.ty(schema.find("list").expect("a type")).kind;
        let xdrgen_build::ir::TypeDefKind::Enum(body) = list else {
            panic!("{list:?}");
        };
        let value = |name: &str| {
            let mut members = body.members.iter();
            members
                .find(|member| member.name == name)
                .map(|member| member.value)
        };
        assert_eq!([value("L4"), value("L5")], [Some(3), Some(4)], "{text}");
        assert!(value("L10").is_none_or(|value| value == 10), "{text}");
    }
}

/// The member before an added one may have the name of another enum's member.
#[test]
fn an_added_member_of_a_scoped_enum_follows_that_of_its_enum() {
    let base = "enum one { X = 0 };\nenum two { W = 6, X };\n";
    let folder = Folder::new().with("base.x", base);
    let folder = folder.with("more.x", "enum two { W = 6, X, Y };\n");
    let module = Module::new("a").document(folder.path("base.x"));
    let module = module.extension(folder.path("more.x")).scoped_enums(true);
    let checked = Config::new().module(module).check();
    assert!(!checked.has_errors(), "{}", checked.report(Style::Plain));
}

/// An extension document may be markdown or text, and its XDR fragments or whole definitions.
#[test]
fn extensions_of_each_format_are_merged() {
    let whole = [
        "enum op { PUT = 2 };",
        "union args switch (op which) {\ncase PUT:\n  opaque put<>;\n};",
    ];
    let fragments = [
        "/* to be added to enum op */\n  PUT = 2,",
        "/* New arms of union args: */\n  case PUT: opaque put<>;",
    ];
    let last_member = ["/* enum op */\n  PUT = 2", fragments[1]];
    let marked =
        |text: &str| -> String { text.lines().map(|line| format!("/// {line}\n")).collect() };
    for blocks in [whole, fragments, last_member] {
        let fence = |block: &str| format!("~~~ xdr\n{block}\n~~~\n\nProse about `PUT`.\n\n");
        let [md, marked_md] = [
            blocks.map(fence).concat(),
            blocks.map(|block| fence(marked(block).trim_end())).concat(),
        ];
        let txt = blocks.map(|block| {
            let lines = marked(block);
            let lines: String = lines.lines().map(|line| format!("   {line}\n")).collect();
            format!("1.  XDR\n\n   Prose.\n\n{lines}\n")
        });
        for (name, text) in [
            ("more.md", md),
            ("more.md", marked_md),
            ("more.txt", txt.concat()),
        ] {
            let manifest = format!(
                "[[module]]\npath = \"a\"\ndocuments = [\"base.x\"]\nextends = [\"{name}\"]\n"
            );
            let folder = Folder::new()
                .with("base.x", BASE)
                .with(name, &text)
                .with("xdrgen.toml", manifest);
            let config = Config::from_manifest(folder.path("xdrgen.toml")).expect("a manifest");
            let checked = config.check();
            assert!(
                !checked.has_errors(),
                "{text}: {}",
                checked.report(Style::Plain)
            );
            let content = &checked.generate().expect("no errors")[0].content;
            for part in ["Put = 2", "Put("] {
                assert!(content.contains(part), "{part}, {text}: {content}");
            }
        }
    }
}

/// In an extension document too, no line of an arm or a definition is lost.
#[test]
fn a_lost_marker_in_an_extension_is_reported() {
    for (lines, lost) in [
        (["/// /* enum op */", "/// PUT = 2,", "DROP = 3,"], 3),
        (
            ["/// /* union args */", "/// case PUT:", "  opaque put<>;"],
            3,
        ),
        (["/// enum op {", "  PUT = 2", "/// };"], 2),
    ] {
        let text = format!("{}\n/// const LAST = 1;\n", lines.join("\n"));
        let folder = Folder::new().with("base.x", BASE).with("more.txt", text);
        let module = Module::new("a").document(folder.path("base.x"));
        let module = module.extension(folder.path("more.txt"));
        let checked = Config::new().module(module).check();
        let report = checked.report(Style::Plain);
        assert!(report.contains("error[unmarked-line]"), "{report}");
        assert!(report.contains(&format!("more.txt:{lost}:")), "{report}");
    }
}

#[test]
fn contradictions_of_an_extension_are_reported() {
    for (text, code) in [
        ("enum stat { BAD = 3 };", Code::DuplicateDefinition),
        ("enum stat { WORSE = 1 };", Code::DuplicateEnumValue),
        ("struct stat { int a; };", Code::DuplicateDefinition),
        (
            "union args switch (op which) { case GET: hyper get; };",
            Code::DuplicateCase,
        ),
        ("/* nothing */ PUT = 2,", Code::Syntax),
        ("/* of op */ case PUT: int a;", Code::Syntax),
    ] {
        let checked = extended(text);
        let found = checked.diagnostics().iter().any(|found| found.code == code);
        assert!(found, "{text}: {}", checked.report(Style::Plain));
    }
    // Without the setting, a second definition is an error.
    let folder = Folder::new()
        .with("base.x", BASE)
        .with("more.x", "enum op { PUT = 2 };");
    let module = Module::new("a").document(folder.path("base.x"));
    let module = module.document(folder.path("more.x"));
    assert!(Config::new().module(module).check().has_errors());
}

/// No part of an extension that differs from what it extends is lost.
#[test]
fn a_part_of_an_extension_that_differs_is_an_error() {
    let errors = [
        (
            "union args switch (op other) { case GET: int get; };",
            Code::DuplicateDefinition,
        ),
        (
            "union none switch (int k) { default: int a; };",
            Code::Syntax,
        ),
        (
            "union none switch (int k) { default: opaque b<>; };",
            Code::Syntax,
        ),
        (
            "program P { version V { void NULL(void) = 3; } = 1; } = 2;",
            Code::DuplicateDefinition,
        ),
        (
            "program P { version V { int NULL(void) = 0; } = 1; } = 2;",
            Code::DuplicateDefinition,
        ),
        (
            "program P { version V { void NULL(int) = 0; } = 1; } = 2;",
            Code::DuplicateDefinition,
        ),
        (
            "program P { version V { void NULL(int, int) = 0; } = 1; } = 2;",
            Code::DuplicateDefinition,
        ),
        (
            "program P { version V { void OTHER(void) = 3; } = 3; } = 2;",
            Code::DuplicateDefinition,
        ),
        ("const SIZE = 9;", Code::DuplicateDefinition),
        ("const unsigned hyper SIZE = 8;", Code::DuplicateDefinition),
        ("enum list { L3 = 2, L2 };", Code::DuplicateDefinition),
    ];
    let is_lost = |(text, code): &(&str, Code)| {
        let checked = extended(text);
        let mut errors = checked
            .diagnostics()
            .iter()
            .filter(|found| found.is_error());
        let is_here = |found: &Diagnostic| {
            let span = found.span.expect("a place");
            let document = checked.sources().document_of(span);
            found.code == *code && document.file_name() == "more.x"
        };
        !errors.any(is_here)
    };
    let lost: Vec<_> = errors.into_iter().filter(is_lost).collect();
    assert!(lost.is_empty(), "{lost:#?}");
}

#[test]
fn another_language_is_reported_once() {
    let lines = "( 1.3.6.1.4.1.31103.1.2 NAME 'fedfsNsdbName'\n DESC 'NSDB node name'\n EQUALITY \
                 caseIgnoreMatch\n\
        SYNTAX 1.3.6.1.4.1.1466.115.121.1.15\n SINGLE-VALUE\n )\n $#!/bin/sh\n grep '^ *///' | \
        sed 's?^ *///??'\n";
    let draft: String = lines
        .lines()
        .map(|line| format!("   /// {line}\n"))
        .collect();
    let checked = check("draft-a-00.txt", &format!("1. A\n\n{draft}"));
    let found: Vec<_> = checked
        .diagnostics()
        .iter()
        .map(|found| found.code)
        .collect();
    assert_eq!(found, [Code::NoXdr], "{}", checked.report(Style::Plain));
    // One definition shows that the text is XDR.
    let mixed = format!("1. A\n\n{draft}   /// const A = 1;\n");
    assert!(check("draft-a-00.txt", &mixed).diagnostics().len() > 5);
}

#[test]
fn uses_of_an_undefined_name_are_folded() {
    let fields: String = (0..30).map(|at| format!("nothing f{at}; ")).collect();
    let checked = check("a.x", &format!("struct a {{ {fields} }};"));
    assert_eq!(checked.diagnostics().len(), 30);
    let report = checked.report(Style::Plain);
    assert_eq!(
        report.matches("error[undefined-type]").count(),
        1,
        "{report}"
    );
    assert!(report.contains("29 more uses are not shown"), "{report}");
}

#[test]
fn a_failed_compilation_shows_twenty_errors() {
    let fields: String = (0..30).map(|at| format!("nothing{at}x f{at}; ")).collect();
    let error = check("a.x", &format!("struct a {{ {fields} }};")).generate();
    let report = error.expect_err("an error").to_string();
    assert_eq!(
        report.matches("error[undefined-type]").count(),
        20,
        "{report}"
    );
    assert!(report.ends_with("30 errors (10 not shown)"), "{report}");
}

/// The report counts each use of an undefined name that it does not show, and has all warnings,
/// also those after the last error that it shows.
#[test]
fn a_failed_compilation_counts_what_it_does_not_show() {
    let uses = "nothing a; nothing b; nothing c; ";
    let fields: String = (0..25).map(|at| format!("nothing{at}x f{at}; ")).collect();
    let text = format!("struct a {{ {uses}{fields} }};\nstruct b {{ int c;; }};\n");
    let error = check("a.x", &text).generate();
    let report = error.expect_err("an error").to_string();
    assert_eq!(
        report.matches("error[undefined-type]").count(),
        20,
        "{report}"
    );
    assert_eq!(report.matches("warning[").count(), 1, "{report}");
    assert!(report.ends_with("28 errors (8 not shown)"), "{report}");
}

/// Text of RFCs that begins like a definition is taken, or listed with the reason.
#[test]
fn definitions_of_rfcs_are_taken_or_listed() {
    let folder = Path::new("../../shared/rfc");
    if !folder.is_dir() {
        return note_skipped(
            "definitions_of_rfcs_are_taken_or_listed needs shared/rfc beside the checkout",
        );
    }
    let mut report = String::new();
    for name in ["rfc1833.txt", "rfc4506.txt", "rfc5531.txt", "rfc7530.txt"] {
        let found = xdrgen_build::prose_blocks(folder.join(name), &[]).expect(name);
        report += &format!("{name}: {} taken\n", found.taken.len());
        for block in found.rejected {
            let ((first, last), begin) = (block.lines, block.begin);
            report += &format!("  {first} to {last}: `{begin}`: {}\n", block.reason);
        }
    }
    insta::assert_snapshot!(report);
    let path = folder.join("rfc5531.txt");
    let taken = xdrgen_build::prose_blocks(&path, &[])
        .expect("RFC 5531")
        .taken;
    let names: Vec<String> = taken.into_iter().flat_map(|block| block.names).collect();
    assert!(names.iter().any(|name| name == "reply_body"), "{names:?}");
    let checked = Config::new()
        .module(Module::new("a").prose(&path, &[]))
        .check();
    let lints = checked.diagnostics().iter();
    let lint = lints.filter(|found| found.code == Code::VariableName);
    let lines = lint.filter_map(|found| Some(checked.sources().locate(found.span?).line));
    assert_eq!(lines.collect::<Vec<_>>(), [722]);
}

/// The XDR in the text of RFC 8881 equals that of RFC 5662, except where RFC 8881 changes it.
#[test]
fn rfc_8881_text_matches_rfc_5662() {
    let folder = Path::new("../../shared/rfc");
    if !folder.is_dir() {
        return note_skipped("rfc_8881_text_matches_rfc_5662 needs shared/rfc beside the checkout");
    }
    let text = xdrgen_build::extract_prose(folder.join("rfc8881.txt"), &[]).expect("RFC 8881");
    let xdr = xdrgen_build::extract_file(folder.join("rfc5662.txt")).expect("RFC 5662");
    let (text, xdr) = (definitions(&text), definitions(&xdr));
    let known = text.iter().filter(|(name, _)| xdr.contains_key(*name));
    let other: Vec<&String> = known
        .clone()
        .filter(|(name, body)| xdr[*name] != **body)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(other, [""; 0]);
    let new: Vec<&String> = text
        .keys()
        .filter(|name| !xdr.contains_key(*name))
        .collect();
    assert_eq!(new, [""; 0]);
    // The other definitions are in tables, or only in RFC 5662.
    assert!(known.count() > 430, "{} of {}", text.len(), xdr.len());
}

/// Returns the definitions of a text by name, without comments and with single blanks.
fn definitions(xdr: &str) -> BTreeMap<String, String> {
    let mut plain = String::new();
    let mut rest = xdr;
    while let Some((before, after)) = rest.split_once("/*") {
        plain.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    let code = plain.lines().filter(|line| !line.starts_with('%'));
    let code = code.collect::<Vec<_>>().join("\n");
    let (mut depth, mut found, mut start) = (0, BTreeMap::new(), 0);
    for (at, sign) in code.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            ';' if depth == 0 => {
                let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                let body = words(&code[start..at]);
                let name = match body.strip_prefix("typedef ") {
                    Some(rest) => rest
                        .split(['<', '['])
                        .next()
                        .and_then(|rest| rest.split_whitespace().next_back()),
                    None => body.split_whitespace().nth(1),
                };
                let key = name.unwrap_or_default().to_owned();
                found.insert(key, body.replace(' ', ""));
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// An editor has the text of documents of every kind that is not saved yet.
#[test]
fn the_text_of_an_editor_replaces_that_of_each_kind_of_document() {
    let folder = Folder::new()
        .with("base.x", "enum op { GET = 1 };")
        .with("more.x", "/* To be added to enum op: */ PUT = 2,")
        .with(
            "prose.txt",
            "1.  Text\n\n   const SIZE = 8;\n\n   More text.\n",
        );
    let path = |name: &str| folder.path(name);
    let module = Module::new("a")
        .document(path("base.x"))
        .extension(path("more.x"))
        .prose(path("prose.txt"), &[]);
    let config = Config::new().module(module);
    let content = |config: &Config| {
        let files = config.check().generate().expect("no defects");
        files[0].content.clone()
    };
    let saved = content(&config);
    assert!(saved.contains("Put = 2") && saved.contains("SIZE: u32 = 8"));
    let edited = config
        .edited(path("base.x"), "enum op { GET = 1, DROP = 7 };")
        .edited(path("more.x"), "/* To be added to enum op: */ PUT = 3,")
        .edited(
            path("prose.txt"),
            "1.  Text\n\n   const SIZE = 9;\n\n   More text.\n",
        );
    let edited = content(&edited);
    for part in ["Drop = 7", "Put = 3", "SIZE: u32 = 9"] {
        assert!(edited.contains(part), "{part}: {edited}");
    }
}
