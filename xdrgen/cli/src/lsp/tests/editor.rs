//! Random edits: after each edit, the server's answers equal those of a new check of the text.
//!
//! `XDRGEN_LSP_EDITS` is the number of edits, `XDRGEN_SEED` the seed.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::Path;

use serde_json::{Value, json};
use xdrgen_build::{Compilation, report};

use super::{Session, range};
use crate::args::{Input, Lints, Settings};
use crate::input;

const EDITS: usize = 400;

/// The number of edits after which all answers are compared with those of a fresh server.
const COMPARED: usize = 25;

struct Random(u64);

impl Random {
    fn new() -> Self {
        let chosen = std::env::var("XDRGEN_SEED").ok();
        let seed = match chosen {
            Some(text) => text.trim().parse().expect("XDRGEN_SEED is a number"),
            None => RandomState::new().build_hasher().finish(),
        };
        println!("XDRGEN_SEED={seed}");
        Self(seed.max(1))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % bound.max(1)
    }
}

const DRAFT: &str = "\
1.  Introduction

   A peer sends a_point or ROPT_POINT.

   <CODE BEGINS>
   struct a_point {
           a_coord x;
   };
   <CODE ENDS>

Author                 Expires May 1, 2017                      [Page 1]
\u{c}
Internet-Draft                  Points                     November 2016

2.  XDR

   /// /* Copyright \u{e9}\u{1f600} */
   /// typedef unsigned int a_coord;
   /// const ROPT_POINT = 1;
   /// struct a_point {
   ///         a_coord x;
   ///         a_coord y;
   /// };
   /// union a_body switch (unsigned int kind) {
   /// case ROPT_POINT:
   ///         a_point point;
   /// default:
   ///         opaque data<>;
   /// };
";

const PLAIN: &str = "\
%#include \"b.h\"
enum color { RED = 1, BLUE = 2 }; // two
#define LIMIT 8
struct point { int x; int y; };
typedef opaque name<LIMIT>;
union paint switch (color which) { case RED: point at; default: void; };
program PING { version ONE { point GET(name) = 1; } = 1; } = 0x20000001;
";

/// The texts that an edit inserts.
const PIECES: [&str; 24] = [
    "\n",
    "\r\n",
    "{",
    "}",
    ";",
    "/*",
    "*/",
    "///",
    "   /// ",
    "<CODE BEGINS>",
    "<CODE ENDS>",
    "struct s { int a; };\n",
    "case ",
    "= 1",
    "\u{1f600}",
    "\u{e9}",
    "#if 0\n",
    "#endif\n",
    "%",
    "\t",
    "typedef a_point b<",
    "a_point",
    "\u{c}",
    "1.2.  Title\n",
];

/// The text as a list of UTF-16 code units, independent of the server's conversions.
struct Model(Vec<u16>);

impl Model {
    fn text(&self) -> String {
        String::from_utf16(&self.0).expect("whole characters")
    }

    /// Returns the line and the code unit within it, of an index.
    fn position(&self, index: usize) -> (u32, u32) {
        let mut start = 0;
        let mut line = 0;
        for at in 0..index {
            let next = self.0.get(at + 1).copied();
            let ends = self.0[at] == 10 || self.0[at] == 13 && next != Some(10);
            if ends {
                (line, start) = (line + 1, at + 1);
            }
        }
        let unit = u32::try_from(index - start).expect("a short line");
        (line, unit)
    }

    /// Returns an index that is neither within a character nor within a line end.
    fn index(&self, random: &mut Random) -> usize {
        let mut index = random.below(self.0.len() + 1);
        while let Some(unit) = self.0.get(index) {
            let before = index.checked_sub(1).map(|at| self.0[at]);
            if (0xdc00..0xe000).contains(unit) || *unit == 10 && before == Some(13) {
                index += 1;
            } else {
                break;
            }
        }
        index
    }

    /// Replaces a random range, and returns the change for the server.
    fn edit(&mut self, random: &mut Random) -> Value {
        let start = self.index(random);
        let mut end = start;
        if random.below(2) == 0 {
            end = self
                .index(random)
                .clamp(start, (start + 40).min(self.0.len()).max(start));
            while end < self.0.len() && (0xdc00..0xe000).contains(&self.0[end]) {
                end += 1;
            }
            // Do not cut between the two characters of a line end.
            if end > 0 && self.0.get(end) == Some(&10) && self.0[end - 1] == 13 {
                end += 1;
            }
        }
        let text = if random.below(3) == 0 {
            ""
        } else {
            PIECES[random.below(PIECES.len())]
        };
        let range = range(self.position(start), self.position(end));
        self.0.splice(start..end, text.encode_utf16());
        json!({ "range": range, "text": text })
    }
}

/// Checks a text as `xdrgen check` does.
fn fresh(path: &str, text: &str) -> Compilation {
    let input = Input {
        paths: vec![path.into()],
        settings: Settings::default(),
        lints: Lints::default(),
    };
    let Ok(config) = input::config(&input, None) else {
        panic!("the settings are right");
    };
    config.edited(Path::new(path), text).check()
}

/// Returns each diagnostic's code, line and column (both from 0, in characters) of a new check.
fn expected(compilation: &Compilation) -> Vec<(String, usize, usize)> {
    let lines = report::json(compilation.sources(), compilation.diagnostics());
    let lines = lines.lines().map(|line| {
        let found: Value = serde_json::from_str(line).expect("JSON");
        let number = |key: &str| {
            let number = found[key].as_u64().unwrap_or(1);
            usize::try_from(number).expect("small") - 1
        };
        (
            found["code"].as_str().expect("a code").to_owned(),
            number("line"),
            number("column"),
        )
    });
    lines.collect()
}

/// Returns the same for the published diagnostics.
fn published(found: &Value, text: &str) -> Vec<(String, usize, usize)> {
    let list = found.as_array().expect("a list").iter();
    let list = list.map(|found| {
        let start = &found["range"]["start"];
        let number =
            |key: &str| usize::try_from(start[key].as_u64().expect("a number")).expect("small");
        let (line, unit) = (number("line"), number("character"));
        let line_text = text.split('\n').nth(line).unwrap_or_default();
        let units: Vec<u16> = line_text.encode_utf16().take(unit).collect();
        let column = String::from_utf16_lossy(&units).chars().count();
        (
            found["code"].as_str().expect("a code").to_owned(),
            line,
            column,
        )
    });
    list.collect()
}

/// Returns all answers for some positions.
fn answers(session: &mut Session, uri: &str, positions: &[(u32, u32)]) -> Vec<Value> {
    let mut answers = vec![session.found(uri)];
    for (line, character) in positions {
        for method in ["hover", "definition"] {
            answers.push(session.at(method, uri, *line, *character));
        }
    }
    answers.push(session.actions(uri, &range((0, 0), (9999, 0))));
    let params = json!({ "textDocument": { "uri": uri } });
    for method in ["documentSymbol", "formatting"] {
        answers.push(session.request(&format!("textDocument/{method}"), params.clone()));
    }
    answers
}

#[test]
fn answers_equal_a_new_check() {
    let edits = std::env::var("XDRGEN_LSP_EDITS").ok();
    let edits = edits.map_or(EDITS, |text| text.parse().expect("a number of edits"));
    let mut random = Random::new();
    let documents = [
        ("untitled:a.txt", DRAFT),
        ("untitled:b.x", PLAIN),
        ("untitled:c.md", DRAFT),
    ];
    let mut session = Session::new();
    let mut models: Vec<Model> = Vec::new();
    for (uri, text) in documents {
        models.push(Model(text.encode_utf16().collect()));
        session.open(uri, text);
    }
    for edit in 1..=edits {
        let at = random.below(documents.len());
        let (uri, text) = documents[at];
        // A document that has become very short or long starts again.
        if models[at].0.len() < 80 || models[at].0.len() > 4000 || random.below(300) == 0 {
            session.close(uri);
            session.open(uri, text);
            models[at] = Model(text.encode_utf16().collect());
        }
        let count = 1 + random.below(3);
        let changes: Vec<Value> = (0..count).map(|_| models[at].edit(&mut random)).collect();
        session.change(
            uri,
            i64::try_from(edit).expect("small"),
            Value::Array(changes),
        );
        // Sometimes a request comes before the server has had time to check.
        if random.below(2) == 0 {
            let (line, character) = models[at].position(models[at].index(&mut random));
            session.at("hover", uri, line, character);
        }
        session.refresh();
        let text = models[at].text();
        // Lines of a document end only with a line feed; lines of LSP also end with a carriage
        // return.
        if !text.replace("\r\n", "").contains('\r') {
            let expected = expected(&fresh(uri, &text));
            let found = published(&session.found(uri), &text);
            assert_eq!(found, expected, "edit {edit} of {uri}:\n{text}");
        }
        if edit % COMPARED == 0 {
            let mut position = || models[at].position(models[at].index(&mut random));
            let positions: Vec<(u32, u32)> = (0..8).map(|_| position()).collect();
            let mut other = Session::new();
            other.open(uri, &text);
            other.refresh();
            let found = answers(&mut session, uri, &positions);
            assert_eq!(
                found,
                answers(&mut other, uri, &positions),
                "edit {edit} of {uri}:\n{text}"
            );
        }
    }
    println!("{edits} edits");
}
