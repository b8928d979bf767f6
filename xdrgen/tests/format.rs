//! Tests that formatting keeps the meaning: each file is parsed before and after, and the syntax is
//! compared.

mod common;

use std::path::{Path, PathBuf};

use common::{Xorshift, note_skipped};
use xdrgen_build::diagnostic::Diagnostics;
use xdrgen_build::format;
use xdrgen_build::source::{SourceMap, TextKind};

/// Returns the syntax of a text without spans, or `None` if it has a syntax error.
fn syntax(text: &str) -> Option<String> {
    let mut sources = SourceMap::new();
    let document = sources.add_document("a.x", text);
    let whole = sources.add_document_text(document, TextKind::Xdr);
    let mut diagnostics = Diagnostics::default();
    let specification = xdrgen_build::parse::parse(&sources, whole, &mut diagnostics);
    let found = diagnostics.into_sorted(&sources);
    let is_error = |code: xdrgen_build::Code| code.default_level().is_none();
    if found.iter().any(|found| is_error(found.code)) {
        return None;
    }
    // Spans differ, and comments are moved as a whole.
    let shown = format!("{:?}", (specification.definitions, specification.macros));
    let mut plain = String::new();
    let mut rest = shown.as_str();
    while let Some((before, after)) = rest.split_once("Span {") {
        plain.push_str(before);
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    let license = specification.license.unwrap_or_default();
    let license: Vec<&str> = license.split_whitespace().collect();
    Some(format!("{plain}\n{}", license.join(" ")))
}

/// Returns the comments of a text without their blanks, which formatting must keep.
fn comments(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("/*") {
        let (comment, after) = after.split_once("*/").unwrap_or((after, ""));
        found.push(comment.split_whitespace().collect());
        rest = after;
    }
    found
}

/// Checks all properties of formatting, and returns false if the text has a syntax error.
fn check(name: &str, text: &str) -> bool {
    let Some(before) = syntax(text) else {
        assert!(format(name, text).is_err(), "{name} has a syntax error");
        return false;
    };
    let formatted = format(name, text).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(syntax(&formatted) == Some(before), "{name}:\n{formatted}");
    assert_eq!(comments(&formatted), comments(text), "{name}");
    let again = format(name, &formatted).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(again, formatted, "{name}: formatting twice");
    let trailing = formatted.lines().find(|line| {
        !line.starts_with(['%', '#']) && line.trim_end().len() != line.len() && !text.contains('#')
    });
    assert_eq!(trailing, None, "{name}: blanks at the end of a line");
    true
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = folder.read_dir() else {
        return;
    };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "x") {
            found.push(path);
        }
    }
    found.sort();
}

fn texts(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    files(Path::new(folder), &mut found);
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).expect("a file");
        let name = path.to_string_lossy().into_owned();
        (name, String::from_utf8_lossy(&bytes).into_owned())
    };
    found.into_iter().map(read).collect()
}

/// Replaces blanks between tokens at random. Texts with comments to the end of a line, or lines for
/// other tools, are left as they are.
fn scrambled(text: &str, random: &mut Xorshift) -> String {
    if text.contains("//") || text.contains(['%', '#']) {
        return text.to_owned();
    }
    let mut scrambled = String::new();
    for (at, part) in text.split("/*").enumerate() {
        let (comment, code) = match (at, part.split_once("*/")) {
            (0, _) => ("", part),
            (_, Some((comment, code))) => (comment, code),
            (_, None) => (part, ""),
        };
        if at > 0 {
            scrambled.push_str("/*");
            scrambled.push_str(comment);
            scrambled.push_str("*/");
        }
        for c in code.chars() {
            let sign = "{}()[]<>,;=*".contains(c);
            if c.is_whitespace() {
                scrambled.push_str([" ", "\n", "\t ", "\n\n\n"][random.below(4)]);
            } else if sign && random.below(4) == 0 {
                scrambled.push(' ');
                scrambled.push(c);
                scrambled.push_str(["\n", " ", "\t"][random.below(3)]);
            } else {
                scrambled.push(c);
            }
        }
    }
    scrambled
}

#[test]
fn files_of_this_project() {
    let mut random = Xorshift::from_environment();
    let texts = [texts("tests"), texts("../tests"), texts("../nfs/spec")].concat();
    assert!(texts.len() > 4, "{}", texts.len());
    for (name, text) in texts {
        assert!(check(&name, &text), "{name}");
        assert!(check(&name, &scrambled(&text, &mut random)), "{name}");
    }
}

#[test]
fn files_of_other_projects() {
    let texts = texts("../../shared/corpus");
    if texts.is_empty() {
        return note_skipped("format: files_of_other_projects needs shared/corpus");
    }
    let mut random = Xorshift::from_environment();
    let mut formatted = 0;
    for (name, text) in &texts {
        if check(name, text) {
            formatted += 1;
            check(name, &scrambled(text, &mut random));
        }
    }
    println!("{formatted} of {} files", texts.len());
    assert!(formatted * 10 > texts.len() * 9, "{formatted}");
}

/// The XDR of RFCs, as `xdrgen extract` prints it.
#[test]
fn extracted_documents() {
    let mut names = vec![
        "../spec/draft-cel-nfsv4-rpcrdma-version-two-01.txt".to_owned(),
        "../spec/draft-dnoveck-nfsv4-rpcrdma-rtrext-02.txt".to_owned(),
    ];
    for rfc in ["rfc5662", "rfc7863", "rfc7531"] {
        let name = format!("../../shared/rfc/{rfc}.txt");
        if Path::new(&name).is_file() {
            names.push(name);
        }
    }
    for name in names {
        let xdr = xdrgen_build::extract_file(&name).expect("XDR");
        check(&name, &xdr);
    }
}
