//! Each feature on a small document. The expected positions were counted by hand.

use std::path::Path;

use serde_json::json;

use super::{Session, range};
use crate::lsp::uri;

const A: &str = "untitled:a.x";

const POINTS: &str = "\
const LIMIT = 16;
struct point { int x; int y; };
enum color { RED = 1, BLUE = 2 };
struct line { point ends[2]; color paint; opaque name<LIMIT>; };
program PING { version ONE { void NULL(void) = 0; } = 1; } = 200000;
";

fn of(uri: &str, text: &str) -> Session {
    let mut session = Session::new();
    session.open(uri, text);
    session.refresh();
    session
}

#[test]
fn a_defect_is_published_and_its_fix_offered() {
    let mut session = of(A, "struct s {\n    /* \u{1f600} */ int x\n    int y;\n};\n");
    let found = session.found(A);
    let found = &found[0];
    assert_eq!(found["code"], "syntax");
    assert_eq!(found["source"], "xdrgen");
    assert_eq!(found["severity"], 1);
    // After `x`: the character in the comment counts as two.
    assert_eq!(found["range"], range((1, 18), (1, 18)));
    let actions = session.actions(A, &range((1, 0), (1, 30)));
    assert_eq!(actions[0]["title"], "add `;`");
    assert_eq!(actions[0]["kind"], "quickfix");
    assert_eq!(actions[0]["isPreferred"], true);
    let edit = json!({ "range": range((1, 18), (1, 18)), "newText": ";" });
    assert_eq!(actions[0]["edit"]["changes"][A], json!([edit]));
    assert_eq!(session.actions(A, &range((3, 0), (3, 1))), json!([]));
    session.change(A, 2, json!([edit_of((1, 18), (1, 18), ";")]));
    session.refresh();
    assert_eq!(session.found(A), json!([]));
}

fn edit_of(start: (u32, u32), end: (u32, u32), text: &str) -> serde_json::Value {
    json!({ "range": range(start, end), "text": text })
}

#[test]
fn a_note_is_related_information() {
    let session = of(A, "const A = 1;\nconst A = 2;\n");
    let found = session.found(A);
    assert_eq!(found[0]["code"], "duplicate-definition");
    assert_eq!(found[0]["range"], range((1, 6), (1, 7)));
    let related = &found[0]["relatedInformation"][0];
    let location = json!({ "uri": A, "range": range((0, 6), (0, 7)) });
    assert_eq!(related["location"], location);
}

#[test]
fn hover_shows_the_xdr_and_its_source() {
    let mut session = of(A, POINTS);
    let hover = session.at("hover", A, 3, 16);
    assert_eq!(hover["range"], range((3, 14), (3, 19)));
    let text = hover["contents"]["value"].as_str().expect("a text");
    assert_eq!(
        text,
        "```xdr\nstruct point { int x; int y; };\n```\n\n8 bytes. Rust: `Point`\n\n\
         untitled:a, line 2\n"
    );
    let mut value = |line, character| {
        let hover = session.at("hover", A, line, character);
        hover["contents"]["value"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(value(3, 55).contains("`LIMIT` = 16 (0x10)"));
    assert!(value(2, 13).contains("`RED` = 1, of `color`"));
    assert!(value(1, 19).contains("`x` is a field of `point`"));
    assert!(value(4, 9).contains("Program 200000 (0x30d40)"));
    assert!(value(4, 24).contains("Version 1"));
    assert!(value(4, 35).contains("Procedure 0"));
    assert_eq!(value(0, 2), "", "a keyword");
    assert_eq!(value(99, 0), "", "beyond the end");
    let mut session = of(A, "const KEY = \"a b\";\n");
    let hover = session.at("hover", A, 0, 7);
    assert_eq!(
        hover["contents"]["value"],
        "```xdr\nconst KEY = \"a b\";\n```\n\n`KEY` = \"a b\"\n\nuntitled:a, line 1\n"
    );
}

#[test]
fn names_lead_to_their_definitions() {
    let mut session = of(A, POINTS);
    for (at, start, end) in [
        ((3, 15), (1, 7), (1, 12)),
        ((3, 30), (2, 5), (2, 10)),
        ((3, 54), (0, 6), (0, 11)),
        ((2, 22), (2, 22), (2, 26)),
        ((4, 8), (4, 8), (4, 12)),
        ((4, 23), (4, 23), (4, 26)),
        ((4, 36), (4, 34), (4, 38)),
    ] {
        let found = session.at("definition", A, at.0, at.1);
        assert_eq!(
            found,
            json!({ "uri": A, "range": range(start, end) }),
            "{at:?}"
        );
    }
    assert!(session.at("definition", A, 0, 1).is_null());
}

#[test]
fn symbols_of_a_document() {
    let mut session = of(A, POINTS);
    let params = json!({ "textDocument": { "uri": A } });
    let symbols = session.request("textDocument/documentSymbol", params);
    let names: Vec<&str> = symbols
        .as_array()
        .expect("a list")
        .iter()
        .map(|symbol| symbol["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(
        names,
        [
            "LIMIT", "point", "color", "RED", "BLUE", "line", "PING", "ONE", "NULL"
        ]
    );
}

#[test]
fn plain_xdr_is_formatted() {
    let uri = "untitled:b.x";
    let mut session = of(uri, "struct s{int x;};");
    let params = json!({ "textDocument": { "uri": uri } });
    let edits = session.request("textDocument/formatting", params.clone());
    let text = "struct s {\n    int x;\n};\n";
    assert_eq!(
        edits,
        json!([{ "range": range((0, 0), (0, 17)), "newText": text }])
    );
    session.change(uri, 2, json!([{ "text": text }]));
    assert_eq!(
        session.request("textDocument/formatting", params.clone()),
        json!([])
    );
    session.change(uri, 3, json!([{ "text": "struct" }]));
    assert!(session.request("textDocument/formatting", params).is_null());
}

/// Names in running text are found like names in XDR, in each format of drafts.
#[test]
fn drafts_of_each_format() {
    for name in ["draft-a-00.txt", "draft-a-00.md", "draft-a-00.xml"] {
        let text = "# A\n\nA peer sends a_point.\n\n   /// typedef a_coord uint32;\n   /// struct \
                    a_point {\n   ///     a_coord x;\n   /// };\n";
        let uri = format!("untitled:{name}");
        let mut session = of(&uri, text);
        assert_eq!(session.found(&uri)[0]["code"], "swapped-typedef", "{name}");
        let actions = session.actions(&uri, &range((4, 0), (5, 0)));
        let edit = &actions[0]["edit"]["changes"][&uri][0];
        assert_eq!(edit["newText"], "uint32 a_coord", "{name}: {actions}");
        assert_eq!(edit["range"], range((4, 15), (4, 29)), "{name}");
        let definition = session.at("definition", &uri, 2, 16);
        assert_eq!(definition["range"], range((5, 14), (5, 21)), "{name}");
    }
}

#[test]
fn a_document_without_xdr_is_reported_at_its_start() {
    let uri = "untitled:draft-a-00.txt";
    let session = of(uri, "1.  A\n\n   Nothing.\n");
    assert_eq!(session.found(uri)[0]["code"], "no-xdr");
    assert_eq!(session.found(uri)[0]["range"], range((0, 0), (0, 0)));
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(&path, text).expect("a file");
    uri::of(&xdrgen_build::canonical(&path))
}

/// Documents of a manifest see each other's current text in the editor, saved or not.
#[test]
fn documents_of_a_manifest_are_one_project() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let manifest = "prelude = []\n[[module]]\npath = \"base\"\ndocuments = [\"base.x\"]\n\
                    [[module]]\npath = \"ext\"\ndocuments = [\"ext.x\"]\nuses = [\"base\"]\n";
    write(folder, "spec/xdrgen.toml", manifest);
    let base = write(folder, "spec/base.x", "struct point { int x; };\n");
    let ext = write(folder, "spec/ext.x", "struct line { point ends[2]; };\n");
    let mut session = Session::new();
    session.open(&ext, "struct line { point ends[2]; };\n");
    session.refresh();
    assert_eq!(session.found(&ext), json!([]));
    let definition = session.at("definition", &ext, 0, 15);
    assert_eq!(definition["uri"], base);
    session.open(&base, "struct pojnt { int x; };\n");
    session.refresh();
    assert_eq!(session.found(&ext)[0]["code"], "undefined-type");
    // Closing without saving leaves the file's text.
    session.close(&base);
    session.refresh();
    assert_eq!(session.found(&ext), json!([]));
    // The manifest no longer names the document, so that the document is checked alone.
    write(
        folder,
        "spec/xdrgen.toml",
        "prelude = []\n[[module]]\npath = \"base\"\ndocuments = [\"base.x\"]\n",
    );
    session.notify(
        "textDocument/didSave",
        json!({ "textDocument": { "uri": ext } }),
    );
    session.refresh();
    assert_eq!(session.found(&ext)[0]["code"], "undefined-type");
    session.close(&ext);
    session.refresh();
    assert_eq!(session.found(&ext), json!([]), "a closed document");
}

#[test]
fn an_included_file_is_read_as_it_is_edited() {
    let folder = tempfile::tempdir().expect("a folder");
    let types = write(folder.path(), "types.x", "struct point { int x; };\n");
    let line = write(folder.path(), "line.x", "");
    let mut session = Session::new();
    session.open(
        &line,
        "#include \"types.x\"\nstruct line { point ends[2]; };\n",
    );
    session.open(&types, "struct point { int x; int y; };\n");
    session.refresh();
    let hover = session.at("hover", &line, 1, 15);
    assert!(
        hover["contents"]["value"]
            .as_str()
            .expect("a text")
            .contains("int y;"),
        "{hover}"
    );
}

/// Returns the number of errors of a document.
fn errors(session: &Session, uri: &str) -> usize {
    let found = session.found(uri);
    let found = found.as_array().expect("a list").iter();
    found.filter(|found| found["severity"] == 1).count()
}

/// A document that includes others is checked again whenever one of them changes.
#[test]
fn an_including_document_follows_the_included_one() {
    for include in ["#include \"types.x\"\n", "%#include \"types.h\"\n"] {
        let folder = tempfile::tempdir().expect("a folder");
        let point = "struct point { int x; };\n";
        let types = write(folder.path(), "types.x", point);
        let line = write(folder.path(), "line.x", "");
        let mut session = Session::new();
        session.open(
            &line,
            &format!("{include}struct line {{ point ends[2]; }};\n"),
        );
        session.open(&types, point);
        session.refresh();
        assert_eq!(errors(&session, &line), 0);
        session.change(&types, 2, json!([{ "text": "struct pojnt { int x; };\n" }]));
        session.refresh();
        assert_eq!(errors(&session, &line), 1);
        // Nothing is saved, so that the file is as before.
        session.close(&types);
        session.refresh();
        assert_eq!(errors(&session, &line), 0);
        session.open(&types, "struct pojnt { int x; };\n");
        session.refresh();
        assert_eq!(errors(&session, &line), 1);
    }
}

/// A new file is found when it is opened, also before it is saved.
#[test]
fn an_including_document_finds_a_new_file() {
    for saved in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let line = write(folder.path(), "line.x", "");
        let mut session = Session::new();
        session.open(
            &line,
            "%#include \"types.h\"\nstruct line { point ends[2]; };\n",
        );
        session.refresh();
        assert_eq!(session.found(&line)[0]["code"], "undefined-type");
        let types = uri::of(&xdrgen_build::canonical(&folder.path().join("types.x")));
        if saved {
            write(folder.path(), "types.x", "");
        }
        session.open(&types, "struct pojnt { int x; };\n");
        session.refresh();
        assert_eq!(session.found(&line)[0]["code"], "undefined-type");
        session.change(&types, 2, json!([{ "text": "struct point { int x; };\n" }]));
        session.refresh();
        assert_eq!(session.found(&line), json!([]), "saved: {saved}");
        let definition = session.at("definition", &line, 1, 15);
        assert_eq!(definition["uri"], types);
        session.close(&types);
        session.refresh();
        assert_eq!(session.found(&line)[0]["code"], "undefined-type");
    }
}

/// A document may be of several projects: it has the diagnostics of each, once.
#[test]
fn a_document_has_the_diagnostics_of_all_projects() {
    let folder = tempfile::tempdir().expect("a folder");
    let types = write(folder.path(), "types.x", "");
    let line = write(folder.path(), "line.x", "");
    let mut session = Session::new();
    let codes = |session: &mut Session| -> Vec<String> {
        session.refresh();
        let found = session.found(&types);
        let found = found.as_array().expect("a list").iter();
        let mut codes: Vec<_> = found.map(|found| found["code"].to_string()).collect();
        codes.sort();
        codes
    };
    session.open(&types, "struct line { lost y; };\n");
    assert_eq!(codes(&mut session), ["\"undefined-type\""]);
    let text = "#include \"types.x\"\nstruct line { int a; };\n";
    session.open(&line, text);
    let both = ["\"duplicate-definition\"", "\"undefined-type\""];
    assert_eq!(codes(&mut session), both);
    session.change(&types, 2, json!([{ "text": "struct line { int y; };\n" }]));
    assert_eq!(codes(&mut session), both[..1]);
    session.close(&line);
    assert_eq!(codes(&mut session), [""; 0]);
    session.open(&line, text);
    assert_eq!(codes(&mut session), both[..1]);
    session.close(&types);
    assert_eq!(codes(&mut session), [""; 0], "the file is empty");
}

#[test]
fn malformed_messages_are_rejected() {
    let mut session = of(A, POINTS);
    for params in [
        json!(null),
        json!({}),
        json!([1]),
        json!({ "textDocument": A }),
    ] {
        for method in ["didOpen", "didChange", "didClose"] {
            session.notify(&format!("textDocument/{method}"), params.clone());
        }
        for method in [
            "hover",
            "definition",
            "codeAction",
            "formatting",
            "documentSymbol",
        ] {
            let result = session
                .server
                .request(&format!("textDocument/{method}"), params.clone());
            assert!(result.is_err(), "{method}");
        }
    }
    assert!(
        session
            .server
            .request("textDocument/rename", json!({}))
            .is_err()
    );
    assert!(session.at("hover", "untitled:other.x", 0, 0).is_null());
    session.change("untitled:other.x", 2, json!([{ "text": "" }]));
    // The end is before the start, and both are beyond the end of the text.
    session.change(A, 2, json!([edit_of((9, 9), (3, 1), "")]));
    session.refresh();
    assert_eq!(session.found(A), json!([]));
}
