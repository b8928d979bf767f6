//! Tests that no text causes a panic, unbounded recursion, or more than linear time.

use super::mutation::Xorshift;
use super::{parsed, reported};
use crate::parse::input::{Context, Tokens};
use crate::parse::lexer::lex;
use crate::parse::specification::items;
use crate::source::TextKind;

/// Fragments from which the tests build texts.
const PIECES: &[&str] = &[
    "struct",
    "enum",
    "union",
    "switch",
    "case",
    "default",
    "typedef",
    "const",
    "program",
    "version",
    "namespace",
    "pragma",
    "unsigned",
    "int",
    "hyper",
    "void",
    "opaque",
    "string",
    "long",
    "bool",
    "a",
    "b",
    "T",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    ",",
    ";",
    ":",
    "::",
    "=",
    "*",
    "0",
    "-1",
    "0x",
    "09",
    "/*",
    "*/",
    "//",
    "\n",
    "\n%",
    "\n#",
    "\\\n",
    "\"",
    "'",
    "é",
    "\u{0}",
    "-",
    "@",
    "99999999999999999999999",
];

#[test]
fn any_tokens_in_any_order() {
    let seed = 0x000b_5e55_ed01;
    println!("seed {seed:#x}");
    let mut random = Xorshift(seed);
    for _ in 0..3000 {
        let length = random.below(60);
        let text: String = (0..length)
            .map(|_| format!("{} ", PIECES[random.below(PIECES.len())]))
            .collect();
        parsed(&text, TextKind::Xdr, true);
        parsed(&text, TextKind::Copy, true);
    }
}

#[test]
fn any_characters() {
    let mut random = Xorshift(0x00c0_ffee);
    for _ in 0..2000 {
        let length = random.below(200);
        let text: String = (0..length)
            .map(|_| char::from(u8::try_from(random.below(256)).expect("a byte")))
            .collect();
        parsed(&text, TextKind::Xdr, true);
    }
}

#[test]
fn repeated_tokens() {
    let mut random = Xorshift(0x0ddb_a115);
    for first in PIECES {
        let second = PIECES[random.below(PIECES.len())];
        counts(&format!("{first} ").repeat(5_000));
        counts(&format!("{first} {second} ").repeat(3_000));
        counts(&format!(
            "struct s {{ {}",
            format!("{second} {first} ").repeat(3_000)
        ));
    }
}

#[test]
fn deep_bodies() {
    let deep = |count: usize| {
        format!(
            "struct a {{ {}int x;{} }};",
            "struct { ".repeat(count),
            " } x;".repeat(count)
        )
    };
    assert_eq!(reported(&deep(32)), "");
    assert_eq!(
        reported(&deep(33)),
        "1:307 syntax bodies are nested more than 32 deep\n"
    );
    assert_eq!(reported(&deep(50_000)).lines().count(), 1);
    for opening in [
        "struct {",
        "struct a {",
        "union switch (int a) { case 1: ",
        "enum {",
        "namespace a {",
        "{",
        "(",
        "/*",
    ] {
        reported(&opening.repeat(3000));
    }
}

/// Returns the number of definitions and of defects. It does not collect the defects, which would
/// take time of its own.
fn counts(xdr: &str) -> (usize, usize) {
    let (sources, text, _, _) = parsed("", TextKind::Xdr, false);
    assert_eq!(sources.text(text).content(), "");
    let lexed = lex(xdr, text);
    let context = Context::new(xdr, text, &lexed, false);
    let definitions = items(Tokens::new(&context), true).definitions.len();
    (
        definitions,
        lexed.diagnostics.len() + context.into_parts().1.len(),
    )
}

#[test]
fn long_texts() {
    let definition = "struct s { unsigned hyper a; opaque b<5>; union switch (bool c) { case \
        TRUE: s *d; } e; };\n";
    assert_eq!(counts(&definition.repeat(20_000)), (20_000, 0));
}

/// Texts that would take hours if parsing took quadratic time.
#[test]
fn long_broken_texts() {
    let pieces = [
        "a b( ",
        "struct { ",
        "struct a { ",
        "x ",
        "= ",
        "{ ",
        "} {",
        "< ",
        "- 0 ",
        "case ",
        "unsigned ",
        "a::",
        "A , ",
        "\n/* x",
    ];
    for piece in pieces {
        for before in [
            "",
            "struct s { ",
            "enum e { ",
            "program p { version v { ",
            "union u switch (int a) { case 1: ",
        ] {
            counts(&format!("{before}{}", piece.repeat(10_000)));
        }
    }
}
