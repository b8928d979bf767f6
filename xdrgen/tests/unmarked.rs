//! Tests that no line of XDR is lost without a report: removes or damages the marker `///` of each
//! line of the drafts in turn.

mod common;

use std::path::Path;

use common::{RTREXT, SPEC, V2, XCHAREXT_02, XCHAREXT_03, note_skipped, spec};
use xdrgen_build::{Code, Config, Module};

/// Returns what is reported for a draft alone: code and line.
fn reported(text: &str) -> Vec<(Code, usize)> {
    let config = Config::new().module(Module::new("a").text("draft-a-00.txt", text));
    let checked = config.check();
    let place = |span| checked.sources().locate(span).line;
    let found = checked.diagnostics().iter();
    found
        .map(|found| (found.code, found.span.map_or(0, place)))
        .collect()
}

/// Returns the tokens of a draft's XDR, without comments, blanks and the `%` lines, which are
/// not compiled.
fn tokens(text: &str) -> String {
    let lines = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("///"))
        .filter(|line| !line.trim_start().starts_with('%'));
    let xdr = lines.collect::<Vec<_>>().join("\n");
    let mut rest = xdr.as_str();
    let mut found = String::new();
    while let Some((before, after)) = rest.split_once("/*") {
        found.push_str(before);
        found.push(' ');
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    found.push_str(rest);
    found.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces each marker in turn. Returns the number of lines that were tried, and those that are
/// lost without a report.
fn lost(text: &str, replacement: &str) -> (usize, Vec<usize>) {
    let before = reported(text);
    let whole = tokens(text);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let marked = |line: &&str| line.trim_start().starts_with("///");
    let mut tried = 0;
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| marked(line)) {
        let changed = line.replacen("///", replacement, 1);
        let mut text: Vec<&str> = lines.clone();
        text[at] = &changed;
        let text = text.concat();
        tried += 1;
        let harmless = tokens(&text) == whole;
        if !harmless && reported(&text).iter().all(|one| before.contains(one)) {
            found.push(at + 1);
        }
    }
    (tried, found)
}

/// The minimum number of lines of a piece.
const PIECE: usize = 40;

/// Cuts a draft after lines that end a definition, so that a check of each piece is fast.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let (mut depth, mut count) = (0_usize, 0);
    let mut in_comment = false;
    for line in text.split_inclusive('\n') {
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(line);
        }
        count += 1;
        let Some(content) = line.trim_start().strip_prefix("///") else {
            continue;
        };
        in_comment = match (content.rfind("/*"), content.rfind("*/")) {
            (Some(begin), Some(end)) => begin > end,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => in_comment,
        };
        depth += content.matches('{').count();
        depth = depth.saturating_sub(content.matches('}').count());
        let ends = content.trim_end().ends_with(';') && !in_comment && depth == 0;
        if ends && count >= PIECE {
            pieces.push(String::new());
            count = 0;
        }
    }
    pieces
}

/// Tests each line of a draft. Returns how many were tried.
fn no_line_is_lost(name: &str, text: &str) -> usize {
    let mut sum = 0;
    for (at, piece) in pieces(text).iter().enumerate() {
        for replacement in ["", "/", "//"] {
            let (tried, lost) = lost(piece, replacement);
            let lines: Vec<&str> = piece.lines().collect();
            let lost: Vec<&str> = lost.iter().map(|at| lines[at - 1]).collect();
            assert_eq!(lost, [""; 0], "{name}, piece {at}: {replacement:?}");
            sum += tried;
        }
    }
    sum
}

#[test]
fn no_line_of_a_draft_is_lost() {
    let tried =
        [V2, RTREXT, XCHAREXT_02, XCHAREXT_03].map(|name| no_line_is_lost(name, &spec(name)));
    assert!(tried.iter().all(|tried| *tried > 200), "{tried:?}");
}

/// The RFCs are not part of this repository: the test needs a folder `shared` beside the checkout.
#[test]
fn no_line_of_an_rfc_is_lost() {
    if !Path::new("../../shared/rfc").is_dir() {
        return note_skipped("no_line_of_an_rfc_is_lost needs shared/rfc beside the checkout");
    }
    let mut count = 0;
    for entry in Path::new("../../shared/rfc")
        .read_dir()
        .expect("shared/rfc")
    {
        let path = entry.expect("an entry").path();
        let text = std::fs::read(&path).expect("a file");
        let text = String::from_utf8_lossy(&text);
        if !text
            .lines()
            .any(|line| line.trim_start().starts_with("///"))
        {
            continue;
        }
        let tried = no_line_is_lost(&path.display().to_string(), &text);
        assert!(tried > 200, "{}: {tried}", path.display());
        count += 1;
    }
    // RFC 5662, 7531, 7863 and 8166.
    assert!(count >= 4, "{count}");
}

#[test]
fn interrupting_line_is_reported_at_its_position() {
    for line in ["   int y;", "   // int y;", "   / int y;", "   int y"] {
        let draft = format!("1. A\n\n   /// struct a {{\n   ///   int x;\n{line}\n   /// }};\n");
        assert_eq!(reported(&draft), [(Code::UnmarkedLine, 5)], "{line}");
    }
    let comment = "   /// const A = 1; /* a\n   b\n   /// c */\n";
    assert_eq!(reported(comment), [(Code::UnmarkedLine, 2)]);
    let declaration = "   /// const A =\n   /* a */\n   /// 1;\n";
    assert_eq!(reported(declaration), [(Code::UnmarkedLine, 2)]);
}

/// An erratum may add a missing brace.
#[test]
fn a_line_between_marked_lines_is_reported_without_a_brace() {
    let draft =
        "   /// union a switch (int b)\n   ///   case 0: int x;\n   case 1: int y;\n   /// };\n";
    assert!(reported(draft).contains(&(Code::UnmarkedLine, 3)));
}

#[test]
fn page_breaks_and_prose_between_definitions_are_not_reported() {
    let draft = "   /// struct a {\n\nAuthor            A            [Page 1]\n\u{c}\n\
                 Internet-Draft     A      2016\n\n   ///   int x;\n   /// };\n\
                 \n   Prose; with { a\n\n\
                 \x20  struct a {\n      int x;\n   };\n\n   /// const A = 1;\n";
    assert_eq!(reported(draft), []);
}

/// A space need not follow a marker.
#[test]
fn a_marker_that_lost_slashes_is_reported_without_a_space() {
    for marker in ["/", "//"] {
        let draft = format!("   ///const A = 1;\n   {marker}const B = 2;\n   ///const C = 3;\n");
        assert_eq!(reported(&draft), [(Code::UnmarkedLine, 2)], "{marker}");
    }
    let comment = "   /// const A = 1;\n\n   /* const B = 2; */\n\n   /// const C = 3;\n";
    assert_eq!(reported(comment), []);
}

#[test]
fn a_definition_without_markers_is_reported() {
    let draft = "   /// const A = 1;\n\n   Prose.\n\n   struct b {\n     int x;\n   };\n\n   \
        More.\n\n   /// const C = 1;\n";
    assert_eq!(reported(draft), [(Code::UnmarkedLine, 5)]);
}

/// Prose next to a marked line is not XDR. A brace that is never closed is reported at the first
/// prose that interrupts it.
#[test]
fn prose_is_reported_once() {
    let caption = "   /// const A = 1;\n   The constant\n\n   /// const B = 1;\n";
    assert_eq!(reported(caption), []);
    let open = "   /// struct a {\n   ///   int x;\n\n   One.\n\n   /// const B = 1;\n\n   Two.\n\n\
                /// const C = 1;\n";
    let lines = reported(open)
        .into_iter()
        .filter_map(|(code, line)| (code == Code::UnmarkedLine).then_some(line));
    assert_eq!(lines.collect::<Vec<_>>(), [4]);
}

/// In plain XDR `///` begins a comment.
#[test]
fn triple_slash_in_plain_xdr_is_a_comment() {
    let text = "/// A.\nstruct a { int b; };\n/// B.\nstruct c { int d; };\n";
    let checked = Config::new()
        .module(Module::new("a").text("a.x", text))
        .check();
    let codes: Vec<_> = checked
        .diagnostics()
        .iter()
        .map(|found| found.code)
        .collect();
    assert!(!codes.contains(&Code::UnmarkedLine), "{codes:?}");
}

/// Each word is read once.
#[test]
fn a_long_word_takes_linear_time() {
    let draft = format!("   /// const {} = 1;\n\n   Prose.\n", "a".repeat(1 << 20));
    reported(&draft);
}

#[test]
fn published_drafts_have_no_unmarked_line() {
    for entry in Path::new(SPEC).read_dir().expect(SPEC) {
        let path = entry.expect(SPEC).path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if name.starts_with("draft-") {
            let found = reported(&spec(&name));
            assert!(
                found.iter().all(|(code, _)| *code != Code::UnmarkedLine),
                "{name}: {found:?}"
            );
        }
    }
}
