//! Tests tokens, comments, and lines for other tools.

use super::{fixed, parsed, reported};
use crate::parse::lexer::{TokenKind, lex};
use crate::source::TextKind;

fn tokens(xdr: &str) -> Vec<(TokenKind, String)> {
    let (sources, text, _, _) = parsed(xdr, TextKind::Other, false);
    let lexed = lex(sources.text(text).content(), text);
    lexed
        .tokens
        .iter()
        .map(|token| (token.kind, sources.slice(token.span).to_owned()))
        .collect()
}

fn license(xdr: &str) -> Option<String> {
    parsed(xdr, TextKind::Xdr, false).2.license
}

#[test]
fn words_and_signs() {
    use TokenKind::{AngleClose, AngleOpen, Equal, Malformed, Name, Number, Semicolon, Struct};
    let kinds = |xdr: &str| {
        tokens(xdr)
            .into_iter()
            .map(|(kind, _)| kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        kinds("struct structs<_a1>;"),
        [Struct, Name, AngleOpen, Name, AngleClose, Semicolon]
    );
    assert_eq!(
        kinds("0 7 017 0x1F 0XFF -5 18446744073709551615"),
        [Number; 7]
    );
    assert_eq!(kinds("a=-1"), [Name, Equal, Number]);
    assert_eq!(kinds("09 0x a-b 5x"), [Malformed; 4]);
    assert_eq!(tokens("a/* b */c").len(), 2);
}

#[test]
fn malformed_numbers() {
    let number = |number: &str| reported(&format!("const A = {number};"));
    assert_eq!(number("08"), "1:11 invalid-token `08` is not a number\n");
    assert_eq!(number("0xg"), "1:11 invalid-token `0xg` is not a number\n");
    assert_eq!(number("0x"), "1:11 invalid-token `0x` is not a number\n");
    assert_eq!(
        number("12ab"),
        "1:11 invalid-token `12ab` is not a number\n"
    );
    assert_eq!(
        number("-0x1"),
        "1:11 invalid-token `-0x1` is not a number\n"
    );
    assert_eq!(
        number("18446744073709551616"),
        "1:11 wide-constant a constant of more than 64 bits\n"
    );
    assert_eq!(
        number("-9223372036854775809"),
        "1:11 wide-constant a constant of more than 64 bits\n"
    );
    assert_eq!(number("-9223372036854775808"), "");
    assert_eq!(
        reported("typedef int a[\"text\"];"),
        "1:15 invalid-token quoted text is not a number\n"
    );
    assert_eq!(fixed("const A = 0x10'00;"), "const A = 0x1000;");
}

#[test]
fn malformed_names_and_characters() {
    assert_eq!(
        reported("struct nfs-fh { int a; };"),
        "1:8 invalid-token `nfs-fh` is not a name\n"
    );
    assert_eq!(fixed("typedef int größe;"), "typedef int gr__e;");
    assert_eq!(
        reported("typedef int $ a;"),
        "1:13 invalid-token `$` is not part of XDR\n"
    );
    for operator in ["+", "/", "|", "&", "^"] {
        for second in ["1", "B"] {
            let expected = "1:18 syntax an expression in the place of a number\n";
            for between in ["", " "] {
                let sum = format!("A{between}{operator}{between}{second}");
                assert_eq!(reported(&format!("typedef opaque a<{sum}>;")), expected);
            }
        }
    }
    let message = "syntax an expression in the place of a number";
    assert_eq!(
        reported("typedef int a[4 * B]; const C = 2 * 3; enum e { D = A * 2, E = 1 };"),
        format!("1:15 {message}\n1:33 {message}\n1:53 {message}\n")
    );
    assert_eq!(
        reported("typedef int a@@;\n@;"),
        "1:14 invalid-token `@@` is not part of XDR\n2:1 invalid-token `@` is not part of \
        XDR\n2:2 empty-declaration a `;` with nothing before it\n"
    );
}

#[test]
fn comments() {
    assert_eq!(reported("/* a */ const /* b\n c **/ A = 1; /**/"), "");
    assert_eq!(
        reported("const A = 1; // one\nconst B = 2;"),
        "1:14 line-comment a `//` comment\n"
    );
    let unterminated =
        "const A = 1; /* one\nstruct is a word\nconst B 2;\nstruct s {\n int;\n};\n/* more";
    assert_eq!(
        reported(unterminated),
        "1:14 unterminated-comment unterminated comment\n3:9 syntax expected `=`, found `2`\n\
         5:5 syntax expected a name, found `;`\n7:1 unterminated-comment unterminated comment\n"
    );
}

#[test]
fn license_of_a_draft() {
    let text =
        "/* first */\n/*\n * Copyright (c) 2016 X\n *\n *   indented\n */\n/* Copyright 2 */";
    assert_eq!(
        license(text).as_deref(),
        Some("Copyright (c) 2016 X\n\n  indented")
    );
    assert_eq!(license("/* nothing */ const A = 1;"), None);
    assert_eq!(
        license("/***\n *** Copyright\n ***/").as_deref(),
        Some("Copyright")
    );
    assert_eq!(license("/*Copyright*/").as_deref(), Some("Copyright"));
}

#[test]
fn lines_for_other_tools() {
    let line = "passthrough a line for the output of rpcgen";
    assert_eq!(
        reported("%#include <x>\n  %/*\n%*/\nconst A = 1;"),
        format!("1:1 {line}\n2:3 {line}\n3:1 {line}\n")
    );
    assert_eq!(
        reported("%#define A (1 + \\\n\t2)\nconst A = 1;"),
        format!("1:1 {line}\n")
    );
    assert_eq!(
        reported("%#define A \\\n% 2\nconst A = 1;"),
        format!("1:1 {line}\n2:1 {line}\n")
    );
    let line = "preprocessor a line for the C preprocessor";
    assert_eq!(
        reported("#ifdef A \\\n  B\nconst A = 1;\n #endif"),
        format!("1:1 {line}\n4:2 {line}\n")
    );
    assert_eq!(
        reported("#if A || 2 >= 1\nconst A = 09;\n#endif")
            .matches("2:11")
            .count(),
        1,
        "the definition is read"
    );
    let condition = "condition the condition can't be evaluated: `A(1)` is not understood";
    assert_eq!(
        reported("#if A(1)\nconst A = 1;\n#endif"),
        format!("1:1 {condition}\n3:1 {line}\n")
    );
    let open = "condition no `#endif` closes this condition";
    assert_eq!(
        reported("#if 1\n#endif\n#if 0\n#if 0\n#endif\nconst A = 1;"),
        format!("1:1 {line}\n2:1 {line}\n3:1 {open}\n3:1 {line}\n4:1 {line}\n5:1 {line}\n")
    );
    assert_eq!(
        reported("const A = 1; % x"),
        "1:14 invalid-token `%` is not part of XDR\n1:16 syntax expected a definition, found `x`\n"
    );
    assert_eq!(
        reported("struct s {\n%int b;\n int a;\n};").lines().count(),
        1
    );
}
