//! What stands at the top of a text: definitions, and around them namespaces, pragmas and what is none of these.

use nom::Parser;
use nom::branch::alt;
use nom::bytes::complete::take_while;
use nom::multi::separated_list1;
use nom::sequence::pair;

use crate::ast::Definition;
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::definition::{Named, complete, constant, enumeration, is_keyword, structure, typedef, union};
use crate::parse::input::{Parsed, Tokens, mismatch};
use crate::parse::lexer::{Token, TokenKind};
use crate::parse::program::{program, program_after_keyword};
use crate::parse::recovery::{
    after_item, expect, ident, is_name, repeated, starts_declaration, starts_definition, starts_type, token, word,
};
use crate::parse::structure::stray_semicolon;
use crate::source::Span;

/// What stands at the top.
enum Item {
    Definition(Option<Box<Definition>>),
    /// `namespace a {`, with its brace.
    Open(Span),
    /// `}`
    Close(Span),
    Nothing,
}

/// All definitions.
pub(super) fn definitions(mut input: Tokens<'_>) -> Vec<Definition> {
    let mut found = Vec::new();
    let mut open = Vec::new();
    while input.kind(0) != TokenKind::End {
        if begins_afresh(&input) {
            input.recovered();
        }
        let Ok((rest, item)) = item(input) else {
            break;
        };
        match item {
            Item::Definition(definition) => found.extend(definition.map(|definition| *definition)),
            Item::Open(brace) => open.push(brace),
            Item::Close(brace) if open.pop().is_none() => {
                let message = "a `}` without its `{`";
                let diagnostic = Diagnostic::new(Code::Syntax, brace, message).label("expected a definition");
                input.error(diagnostic.fix(brace, "", "remove it"));
            }
            Item::Close(_) | Item::Nothing => {}
        }
        input = if rest.is_at(&input) { input.skip(1) } else { rest };
    }
    for brace in open {
        let diagnostic = input.unexpected("`}`").note_at(brace, "this `{` is not closed");
        input.error(diagnostic);
    }
    found
}

/// A definition with its `;`. `Err::Error` where none begins, and `None` where it is too broken to keep.
fn definition(input: Tokens<'_>) -> Parsed<'_, Option<Definition>> {
    let keyword = |kind| (token(kind), repeated);
    let (rest, named) = alt((
        (keyword(TokenKind::Const), constant).map(|(_, named)| named),
        (keyword(TokenKind::Typedef), typedef).map(|(_, named)| named),
        (keyword(TokenKind::Struct), structure).map(|(_, named)| named),
        (keyword(TokenKind::Enum), enumeration).map(|(_, named)| named),
        (keyword(TokenKind::Union), union).map(|(_, named)| named),
        program,
    ))
    .parse(input)?;
    Ok((rest, complete(input, rest, named)))
}

/// Whether a line begins here as a definition does, even if its keyword is missing: what is wrong with it is no
/// consequence of the definition before.
fn begins_afresh(input: &Tokens<'_>) -> bool {
    let ended = || input.previous().is_some_and(|previous| previous.kind == TokenKind::Semicolon);
    let headless = || is_name(input.kind(0)) && matches!(input.kind(1), TokenKind::BraceOpen | TokenKind::Switch);
    input.on_new_line() && (ended() || is_keyword(input.kind(0)) || headless())
}

fn item(input: Tokens<'_>) -> Parsed<'_, Item> {
    alt((
        namespace.map(Item::Open),
        closing,
        pragma.map(|()| Item::Nothing),
        definition.map(|found| Item::Definition(found.map(Box::new))),
        stray_semicolon.map(|()| Item::Nothing),
        unexpected.map(|found| Item::Definition(found.map(Box::new))),
    ))
    .parse(input)
}

/// `}`, with the `;` that may follow.
fn closing(input: Tokens<'_>) -> Parsed<'_, Item> {
    let (rest, brace) = token(TokenKind::BraceClose).parse(input)?;
    let rest = if rest.kind(0) == TokenKind::Semicolon { rest.skip(1) } else { rest };
    Ok((rest, Item::Close(brace.span)))
}

/// `namespace a::b {`
fn namespace(input: Tokens<'_>) -> Parsed<'_, Span> {
    let colons = pair(token(TokenKind::Colon), token(TokenKind::Colon));
    let (rest, (keyword, _)) = pair(word("namespace"), separated_list1(colons, ident)).parse(input)?;
    let (rest, brace) = expect(TokenKind::BraceOpen).parse(rest)?;
    input.lint(
        Diagnostic::new(Code::Namespace, keyword.span, "a namespace")
            .label("XDR has none: what it holds is taken as if it stood outside"),
    );
    Ok((rest, brace))
}

/// `pragma header nfs4;`
fn pragma(input: Tokens<'_>) -> Parsed<'_, ()> {
    let words = take_while(|token: Token<'_>| is_name(token.kind) && !token.first_on_line);
    let (rest, _) = (word("pragma"), words, expect(TokenKind::Semicolon)).parse(input)?;
    let span = rest.since(input.span());
    input.lint(Diagnostic::new(Code::Pragma, span, "a pragma of Linux's xdrgen").label("left out"));
    Ok((rest, ()))
}

/// What no definition begins with: reported, and read as the definition that it most resembles.
fn unexpected(input: Tokens<'_>) -> Parsed<'_, Option<Definition>> {
    if input.kind(0) == TokenKind::End {
        return Err(mismatch());
    }
    let diagnostic = input.unexpected("a definition");
    if let Some(meant) = misspelt(input) {
        input.error(diagnostic.fix(input.span(), meant.0, format!("write `{}`", meant.0)));
        return read_as(meant, input.skip(1));
    }
    if let Some(meant) = swapped(input) {
        input.error(diagnostic);
        input.skip(1).cast_shadow();
        return read_as(meant, input);
    }
    let next = input.skip(1);
    if is_keyword(next.kind(0)) || starts_definition(&next) {
        input.error(diagnostic);
        next.cast_shadow();
        return Ok((next, None));
    }
    if let Some(meant) = likeness(input) {
        input.error(diagnostic.fix(input.here(), format!("{} ", meant.0), format!("add `{}`", meant.0)));
        return read_as(meant, input);
    }
    input.error(diagnostic);
    Ok((after_item(next), None))
}

/// A definition's keyword, and what reads the rest of the definition.
type Meant = (&'static str, for<'t> fn(Tokens<'t>) -> Parsed<'t, Named>);

const CONST: Meant = ("const", constant);
const TYPEDEF: Meant = ("typedef", typedef);
const STRUCT: Meant = ("struct", structure);
const ENUM: Meant = ("enum", enumeration);
const UNION: Meant = ("union", union);
const PROGRAM: Meant = ("program", program_after_keyword);

fn read_as<'t>((_, rest): Meant, input: Tokens<'t>) -> Parsed<'t, Option<Definition>> {
    let (end, named) = rest(input)?;
    Ok((end, complete(input, end, named)))
}

/// The keyword that a name before another name, or before a body, is likely to mean.
fn misspelt(input: Tokens<'_>) -> Option<Meant> {
    let word = input.peek(0).filter(|token| token.kind == TokenKind::Name)?;
    let next = input.skip(1);
    if !is_name(next.kind(0)) && !starts_type(next.kind(0)) {
        return None;
    }
    let near =
        [CONST, TYPEDEF, STRUCT, ENUM, UNION, PROGRAM].into_iter().find(|(keyword, _)| resembles(word.text, keyword));
    let bodied = matches!(next.kind(1), TokenKind::BraceOpen | TokenKind::Switch);
    near.or_else(|| likeness(next).filter(|_| bodied && !is_keyword(next.kind(0))))
}

/// The keyword behind the name that it should stand before.
fn swapped(input: Tokens<'_>) -> Option<Meant> {
    match (input.kind(0), input.kind(1), input.kind(2)) {
        (TokenKind::Name, TokenKind::Struct, TokenKind::BraceOpen) => Some(STRUCT),
        (TokenKind::Name, TokenKind::Enum, TokenKind::BraceOpen) => Some(ENUM),
        (TokenKind::Name, TokenKind::Union, TokenKind::Switch) => Some(UNION),
        _ => None,
    }
}

/// What a definition without its keyword looks like.
fn likeness(input: Tokens<'_>) -> Option<Meant> {
    use TokenKind::{BraceClose, BraceOpen, Comma, Equal, Name, Switch};
    match (input.kind(0), input.kind(1), input.kind(2), input.kind(3)) {
        (Name, BraceOpen, Name, Equal | Comma | BraceClose) => Some(ENUM),
        (Name, BraceOpen, Name, _) if input.peek(2).is_some_and(|token| token.text == "version") => Some(PROGRAM),
        (Name, BraceOpen, ..) => Some(STRUCT),
        (Name, Switch, ..) => Some(UNION),
        (Name, Equal, ..) | (_, Name, Equal, _) => Some(CONST),
        _ => starts_declaration(&input).then_some(TYPEDEF),
    }
}

/// Whether a word is a keyword but for case, or one letter added, left out, changed, or two swapped.
fn resembles(word: &str, keyword: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let (short, long) = if word.len() < keyword.len() { (word.as_str(), keyword) } else { (keyword, word.as_str()) };
    let same = short.bytes().zip(long.bytes()).take_while(|(a, b)| a == b).count();
    let tail = |word: &str, from: usize| word.as_bytes().get(from..).unwrap_or_default().to_vec();
    match long.len() - short.len() {
        0 if tail(short, same + 1) == tail(long, same + 1) => true,
        0 => {
            let (a, b) = (tail(short, same), tail(long, same));
            a.len() > 1 && a[0] == b[1] && a[1] == b[0] && a[2..] == b[2..]
        }
        1 => tail(short, same) == tail(long, same + 1),
        _ => false,
    }
}
