//! Tests that no line of XDR is lost without a report: removes or damages the marker `///` of each
//! line of the drafts in turn.

mod common;

use std::path::Path;

use common::{RTREXT, SPEC, V2, XCHAREXT_02, XCHAREXT_03, note_skipped, spec};
use xdrgen_build::{Code, Config, Module, report};

/// The drafts whose lines are tried.
const DRAFTS: [&str; 4] = [V2, RTREXT, XCHAREXT_02, XCHAREXT_03];

/// The form of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    /// Markdown, with the XDR between fences of these info strings in turns.
    Markdown(&'static [&'static str]),
    /// RFCXML, with these starts of a block of XDR in turns.
    Xml(&'static [&'static str]),
}

/// Each form with blocks of XDR, those whose blocks have no type, and those with both.
const FORMS: [Form; 8] = [
    Form::Markdown(&["xdr"]),
    Form::Markdown(&[""]),
    Form::Markdown(&["xdr", ""]),
    Form::Xml(&["<sourcecode type=\"xdr\"><![CDATA["]),
    Form::Xml(&["<sourcecode type=\"xdr\"><![CDATA[\n"]),
    Form::Xml(&["<artwork><![CDATA[\n"]),
    Form::Xml(&["<artwork><![CDATA["]),
    Form::Xml(&[
        "<sourcecode type=\"xdr\"><![CDATA[",
        "<artwork type=\"\"><![CDATA[",
    ]),
];

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "draft-a-00.txt",
            Self::Markdown(_) => "draft-a-00.md",
            Self::Xml(_) => "draft-a-00.xml",
        }
    }

    /// Returns a draft in this form: each run of marked lines is a block.
    fn of(self, text: &str) -> String {
        if self == Self::Text {
            return text.to_owned();
        }
        let mut end = None;
        let mut count = 0;
        let mut found = String::new();
        for line in text.split_inclusive('\n') {
            let marked = line.trim_start().starts_with("///");
            if marked && end.is_none() {
                let (start, close) = self.block(count);
                found.push_str(&start);
                end = Some(close);
                count += 1;
            } else if !marked && let Some(end) = end.take() {
                found.push_str(end);
            }
            match self {
                Self::Xml(_) if !marked => {
                    found.push_str(&line.replace('&', "&amp;").replace('<', "&lt;"));
                }
                _ => found.push_str(line),
            }
        }
        found.push_str(end.unwrap_or_default());
        found
    }

    /// Returns the start and the end of a block.
    fn block(self, number: usize) -> (String, &'static str) {
        match self {
            Self::Text => (String::new(), ""),
            Self::Markdown(infos) => (format!("~~~ {}\n", infos[number % infos.len()]), "~~~\n"),
            Self::Xml(starts) => {
                let start = starts[number % starts.len()];
                let end = match start.starts_with("<artwork") {
                    true => "]]>\n</artwork>\n",
                    false => "]]>\n</sourcecode>\n",
                };
                (start.to_owned(), end)
            }
        }
    }
}

/// Returns the content of a line with a marker.
fn marked(line: &str) -> Option<&str> {
    let line = line.rsplit_once("<![CDATA[").map_or(line, |(_, line)| line);
    line.trim_start().strip_prefix("///")
}

/// Returns what is reported for a draft alone: code and line.
fn reported(text: &str) -> Vec<(Code, usize)> {
    reported_in(Form::Text, text)
}

/// Returns what is reported for a document alone.
fn reported_in(form: Form, text: &str) -> Vec<(Code, usize)> {
    let config = Config::new().module(Module::new("a").text(form.name(), text));
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
        .filter_map(marked)
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
fn lost(form: Form, text: &str, replacement: &str) -> (usize, Vec<usize>) {
    let before = reported_in(form, text);
    let whole = tokens(text);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut tried = 0;
    let mut found = Vec::new();
    for (at, line) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| marked(line).is_some())
    {
        let changed = line.replacen("///", replacement, 1);
        let mut text: Vec<&str> = lines.clone();
        text[at] = &changed;
        let text = text.concat();
        tried += 1;
        let harmless = tokens(&text) == whole;
        if !harmless
            && reported_in(form, &text)
                .iter()
                .all(|one| before.contains(one))
        {
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
fn no_line_is_lost(form: Form, name: &str, text: &str) -> usize {
    let mut sum = 0;
    for (at, piece) in pieces(text).iter().enumerate() {
        let piece = &form.of(piece);
        for replacement in ["", "/", "//"] {
            let (tried, lost) = lost(form, piece, replacement);
            let lines: Vec<&str> = piece.lines().collect();
            let lost: Vec<&str> = lost.iter().map(|at| lines[at - 1]).collect();
            assert_eq!(
                lost, [""; 0],
                "{name}, {form:?}, piece {at}: {replacement:?}"
            );
            sum += tried;
        }
    }
    sum
}

#[test]
fn no_line_of_a_draft_is_lost() {
    let tried = DRAFTS.map(|name| no_line_is_lost(Form::Text, name, &spec(name)));
    assert!(tried.iter().all(|tried| *tried > 200), "{tried:?}");
}

#[test]
fn no_line_of_markdown_or_rfcxml_is_lost() {
    for form in FORMS {
        let tried = DRAFTS.map(|name| no_line_is_lost(form, name, &spec(name)));
        assert!(tried.iter().all(|tried| *tried > 200), "{tried:?}");
    }
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
        let tried = no_line_is_lost(Form::Text, &path.display().to_string(), &text);
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

/// Prose stands outside of a block of XDR: any line in it without a marker is reported.
#[test]
fn a_line_without_a_marker_in_a_block_is_reported_at_its_position() {
    let xml = Form::Xml(&[]);
    for line in [
        "int y;",
        "// int y;",
        "/ int y;",
        "int y",
        "const A = 1;",
        "Prose.",
    ] {
        for (before, after) in [
            ("/// struct a { int x;", "/// };"),
            ("/// const B = 1;", ""),
        ] {
            let lines = format!("{before}\n  {line}\n{after}\n");
            let text = format!("# A\n\n~~~ xdr\n{lines}~~~\n");
            let expected = [(Code::UnmarkedLine, 5)];
            assert_eq!(reported_in(Form::Markdown(&[]), &text), expected, "{text}");
            let text = format!("<t>A</t>\n\n<sourcecode type=\"xdr\">\n{lines}</sourcecode>\n");
            assert_eq!(reported_in(xml, &text), expected, "{text}");
            let text = format!("# A\n\n~~~\n{lines}~~~\n");
            assert_eq!(reported_in(Form::Markdown(&[]), &text), expected, "{text}");
            let text = format!("<t>A</t>\n\n<artwork>\n{lines}</artwork>\n");
            assert_eq!(reported_in(xml, &text), expected, "{text}");
        }
    }
}

/// A block with markers is XDR if the document names no other language for it.
#[test]
fn a_marked_block_without_a_language_is_xdr_beside_blocks_of_xdr() {
    let md = Form::Markdown(&[]);
    let xml = Form::Xml(&[]);
    let artwork = ["<artwork><![CDATA[", "]]></artwork>"];
    let sourcecode = ["<sourcecode type=\"xdr\">\n", "</sourcecode>"];
    for (form, [begin, end], [other_begin, other_end]) in [
        (md, ["~~~ xdr\n", "~~~"], ["```\n", "```"]),
        (md, ["``` {#a}\n", "```"], ["~~~ xdr\n", "~~~"]),
        (md, ["~~~ xdr\n", "~~~"], ["~~~ text\n", "~~~"]),
        (md, ["~~~ xdr\n", "~~~"], ["    ", ""]),
        (md, ["~~~\n", "~~~"], ["", ""]),
        (xml, sourcecode, ["<sourcecode>", "</sourcecode>"]),
        (xml, artwork, sourcecode),
        (xml, artwork, ["<artwork type='ascii-art'>", "</artwork>"]),
        (xml, sourcecode, ["<t>\n", "</t>"]),
    ] {
        let first = format!("{begin}/// typedef lost a;\n/// const A = 1;\n{end}\n\n");
        let text = format!("{first}{other_begin}/// typedef lost b;\n{other_end}\n");
        let place = |name| {
            let before = text.split_once(name).map_or("", |(before, _)| before);
            (Code::UndefinedType, before.lines().count())
        };
        let expected = [place("lost a"), place("lost b")];
        assert_eq!(reported_in(form, &text), expected, "{text}");
    }
}

/// The only marked block without a language looks like a figure once its only marker is lost.
#[test]
fn the_only_marker_of_a_block_without_a_language_is_not_lost() {
    let md = Form::Markdown(&[]);
    let xml = Form::Xml(&[]);
    for (form, begin, end, other) in [
        (md, "~~~ xdr\n", "~~~\n\n", "~~~\n"),
        (md, "~~~ xdr\n", "~~~\n\n", "~~~ text\n"),
        (
            xml,
            "<sourcecode type=\"xdr\">\n",
            "</sourcecode>\n\n",
            "<sourcecode>\n",
        ),
    ] {
        let document = |[first, lost, last]: [&str; 3]| {
            format!("{begin}{first}\n{end}{other}{lost}\n{end}{begin}{last}\n{end}")
        };
        let place = |text: &str, line: &str| {
            let before = text.split_once(line).map_or("", |(before, _)| before);
            (Code::UnmarkedLine, before.lines().count() + 1)
        };
        for marker in ["", "/ ", "// "] {
            let lost = format!("{marker}const B = 2;");
            let text = document(["/// const A = 1;", &lost, "/// const C = 3;"]);
            assert_eq!(reported_in(form, &text), [place(&text, &lost)], "{text}");
            let lost = format!("{marker}  int y;");
            let text = document(["/// struct a { int x;", &lost, "/// int z; };"]);
            assert_eq!(reported_in(form, &text), [place(&text, &lost)], "{text}");
            // The other blocks were copies of the only marked one.
            let lost = format!("{marker}const A = 1; const B = 2;");
            let text = document(["const A = 1;", &lost, ""]);
            assert_eq!(reported_in(form, &text), [place(&text, &lost)], "{text}");
        }
        // The block of another language has that type.
        if form == md {
            let text = "~~~ xdr\n/// const A = 1;\n~~~\n~~~ c\nstruct b { int x; };\n~~~\n";
            assert_eq!(reported_in(form, text), []);
        }
        for figure in ["+---+\n| a |\n+---+", "a b c;", "const A = 1;"] {
            for typed in ["/// const A = 1;", "const A = 1;"] {
                let text = document([typed, figure, ""]);
                assert_eq!(reported_in(form, &text), [], "{text}");
            }
        }
    }
}

/// The XDR is what has markers: a block of XDR without them is a copy.
#[test]
fn a_block_of_xdr_without_markers_is_compared_with_a_marked_block() {
    let text = "~~~ xdr\nstruct a { int x; };\n~~~\n~~~\n/// const OTHER = 2;\n~~~\n";
    let found = reported_in(Form::Markdown(&[]), text);
    assert_eq!(found, [(Code::Consistency, 2)]);
}

/// Text, code of another language and figures may stand between two blocks of one definition.
#[test]
fn what_stands_between_blocks_is_not_reported() {
    let md = |between: &str| {
        let text =
            format!("~~~\n/// struct a {{\n~~~\n\n{between}\n\n~~~\n///   int x; }};\n~~~\n");
        assert_eq!(reported_in(Form::Markdown(&[]), &text), [], "{text}");
    };
    md("The fields; as follows:");
    md("~~~ c\nstruct local { int x; };\n~~~");
    md("~~~ rust\n/// A comment.\nstruct Local;\n~~~");
    md("~~~\n+---+\n| a |\n+---+\n~~~");
    let xml = |between: &str| {
        let text = format!(
            "<artwork>/// struct a {{</artwork>\n{between}\n<artwork>\n/// int x; }};\n</artwork>\n"
        );
        assert_eq!(reported_in(Form::Xml(&[]), &text), [], "{text}");
    };
    xml("<t>The fields;\nas follows:\n</t>");
    xml("<sourcecode type=\"c\">\nstruct local { int x; };\n</sourcecode>");
    xml("<artwork type=\"svg\"><g a=\"b;\">;</g></artwork>");
    xml("<!-- /// const A = 1; -->");
}

/// The lines of a condition that does not hold are not XDR, and a namespace ends without a `;`.
#[test]
fn conditions_and_namespaces_do_not_interrupt() {
    let condition = "/// #if defined A \\\n///   && B\n/// struct a {\n/// #else\n\
                     /// struct a { int z;\n/// #endif\n/// int x; };";
    let namespace = "/// namespace n {\n/// struct a { int x; };\n/// }";
    for xdr in [condition, namespace] {
        let text = format!("~~~ xdr\n{xdr}\n~~~\n\n~~~ xdr\nint x;\n~~~\n");
        let found = reported_in(Form::Markdown(&[]), &text);
        let lost = found.iter().find(|(code, _)| *code == Code::UnmarkedLine);
        assert_eq!(lost, None, "{text}");
    }
    let open = "~~~ xdr\n/// namespace n {\n/// struct a {\n~~~\n~~~ xdr\nint x;\n~~~\n\
                ~~~ xdr\n/// };\n/// }\n~~~\n";
    let found = reported_in(Form::Markdown(&[]), open);
    assert!(found.contains(&(Code::UnmarkedLine, 6)), "{found:?}");
}

/// The marks of code do not hide that a block is a copy, whose blank lines are part of it.
#[test]
fn a_new_definition_between_marks_is_reported() {
    let text = "~~~ xdr\n/// const A = 1;\n~~~\n~~~ xdr\n<CODE BEGINS> file \"a.x\"\nstruct b {\n\n  \
                int x;\n};\n<CODE ENDS>\n~~~\n";
    let found = reported_in(Form::Markdown(&[]), text);
    assert_eq!(found, [(Code::Consistency, 6)]);
}

/// Blocks without markers are copies, or parts of definitions that the text explains.
#[test]
fn a_block_without_markers_is_reported_if_it_interrupts_or_defines() {
    let block = |content: &str| format!("\n~~~ xdr\n{content}\n~~~\n");
    let document = |blocks: [&str; 3]| blocks.map(block).concat();
    let reported = |blocks| reported_in(Form::Markdown(&[]), &document(blocks));
    let open = ["/// struct a {", "  int x;", "///   int y; };"];
    assert_eq!(reported(open), [(Code::UnmarkedLine, 7)]);
    let damaged = ["/// const A = 1;", "// const B = 2;", "/// const C = 3;"];
    assert_eq!(reported(damaged), [(Code::UnmarkedLine, 7)]);
    let part = ["/// struct a { int x; };", "  int x;", "/// const C = 3;"];
    assert_eq!(reported(part), []);
    let lost = ["/// struct a { int x;", "struct b z;", "/// int y; };"];
    assert!(reported(lost).contains(&(Code::UnmarkedLine, 7)));
    let code = "<CODE BEGINS>\nconst A = 1;\n<CODE ENDS>";
    let explained = ["/// const A = 1; struct a {", code, "/// int y; };"];
    assert_eq!(reported(explained), []);
    let copy = ["/// const A = 1;", "const A = 1;", "/// const C = 3;"];
    assert_eq!(reported(copy), []);
    let marks = [
        "<CODE BEGINS>\n/// const A = 1;\n<CODE ENDS>",
        "",
        "/// const C = 3;",
    ];
    assert_eq!(reported(marks), []);
}

/// The suggested fixes restore the document.
#[test]
fn markers_of_blocks_are_restored() {
    let md = "~~~ xdr\n  /// struct a {\n  ///   int x;\n  /// };\n~~~\n";
    let xml = "<rfc><sourcecode type=\"xdr\"><![CDATA[/// struct a {\n/// opaque x<>;\n/// };]]>\
               </sourcecode></rfc>";
    let entities = "<rfc>\n<sourcecode type=\"xdr\">/// struct a {\n/// opaque x&lt;&gt;;\n/// \
                    };\n</sourcecode></rfc>";
    for (name, text) in [("a.md", md), ("a.xml", xml), ("a.xml", entities)] {
        for (at, _) in text.match_indices("///") {
            let mut damaged = text.to_owned();
            damaged.replace_range(at..at + 3, "//");
            let config = Config::new().module(Module::new("a").text(name, &damaged));
            let checked = config.check();
            let lost = checked.diagnostics().iter();
            let lost: Vec<_> = lost
                .filter(|found| found.code == Code::UnmarkedLine)
                .cloned()
                .collect();
            let fixed = report::fixed_documents(checked.sources(), &lost);
            let fixed: Vec<&str> = fixed.iter().map(|fixed| fixed.new.as_str()).collect();
            assert_eq!(fixed, [text], "{damaged}");
        }
    }
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
