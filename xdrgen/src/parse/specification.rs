//! The top level of a text: definitions, namespaces, pragmas, and recovery from other input.
//!
//! [`item`] tries its alternatives in order. The last one, `unexpected`, reads everything else, and
//! guesses a keyword that is missing, misspelled or misplaced. [`items`] skips a token if an item
//! consumes none, so that each text ends. Fragments exist only in a document that extends others.

use nom::Parser;
use nom::branch::alt;
use nom::bytes::complete::take_while;
use nom::multi::separated_list1;
use nom::sequence::pair;

use crate::ast::{Definition, Fragment, FragmentKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::c;
use crate::parse::definition::{
    NameAndKind, constant, enumeration, finish, is_keyword, structure, typedef, union,
};
use crate::parse::enumeration::bare_members;
use crate::parse::input::{ParseResult, Tokens, mismatch};
use crate::parse::lexer::{Token, TokenKind};
use crate::parse::program::{program, program_after_keyword};
use crate::parse::recovery::{
    after_item, expect, ident, is_name, repeated, starts_declaration, starts_definition,
    starts_type, token, word,
};
use crate::parse::structure::stray_semicolon;
use crate::parse::union::arms;
use crate::source::Span;

/// An item at the top level.
enum Item {
    Definition(Option<Box<Definition>>),
    /// `A = 1,` or `case A: T name;` in a document that extends others.
    Fragment(Fragment),
    /// `namespace a {`, with the span of its brace.
    Open(Span),
    /// `}`
    Close(Span),
    Nothing,
}

/// The content of a text.
#[derive(Default)]
pub(super) struct Items {
    pub(super) definitions: Vec<Definition>,
    pub(super) fragments: Vec<Fragment>,
}

/// Parses all definitions, and the fragments if the document `extends` others.
pub(super) fn items(mut input: Tokens<'_>, extends: bool) -> Items {
    let mut found = Items::default();
    let mut open = Vec::new();
    while input.kind(0) != TokenKind::End {
        if starts_new_definition(&input) {
            input.end_cascade();
        }
        let fragment = extends.then(|| fragment(input).ok()).flatten();
        let Some((rest, item)) = fragment.or_else(|| item(input).ok()) else {
            break;
        };
        match item {
            Item::Definition(definition) => {
                let definition = definition.map(|definition| *definition);
                found.definitions.extend(definition);
            }
            Item::Fragment(fragment) => found.fragments.push(fragment),
            Item::Open(brace) => open.push(brace),
            Item::Close(brace) if open.pop().is_none() => {
                let message = "unmatched `}`";
                let diagnostic =
                    Diagnostic::new(Code::Syntax, brace, message).label("expected a definition");
                input.error(diagnostic.fix(brace, "", "remove it"));
            }
            Item::Close(_) | Item::Nothing => {}
        }
        input = if rest.is_at(&input) {
            input.skip(1)
        } else {
            rest
        };
    }
    for brace in open {
        let diagnostic = input
            .expected_diagnostic("`}`")
            .note_at(brace, "this `{` is not closed");
        input.error(diagnostic);
    }
    found
}

/// Parses members or arms that stand outside of a definition.
fn fragment(input: Tokens<'_>) -> ParseResult<'_, Item> {
    let (rest, kind) = match input.kind(0) {
        TokenKind::Case => arms.map(FragmentKind::Arms).parse(input)?,
        kind if is_name(kind) && input.kind(1) == TokenKind::Equal => {
            bare_members.map(FragmentKind::Members).parse(input)?
        }
        _ => return Err(mismatch()),
    };
    let start = input.span();
    let before = input.end_of_previous();
    Ok((
        rest,
        Item::Fragment(Fragment {
            span: rest.since(start),
            before: Span {
                start: before.start.min(start.start),
                end: start.start,
                ..start
            },
            kind,
        }),
    ))
}

/// Parses a definition with its `;`. Returns `Err::Error` if none begins here, and `None` if it is
/// too defective to keep.
fn definition(input: Tokens<'_>) -> ParseResult<'_, Option<Definition>> {
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
    Ok((rest, finish(input, rest, named)))
}

/// Returns true if a line looks like the start of a definition, even without its keyword. Its
/// errors are not consequences of the previous definition.
fn starts_new_definition(input: &Tokens<'_>) -> bool {
    let ended = || {
        input
            .previous()
            .is_some_and(|previous| previous.kind == TokenKind::Semicolon)
    };
    let headless = || {
        is_name(input.kind(0)) && matches!(input.kind(1), TokenKind::BraceOpen | TokenKind::Switch)
    };
    input.on_new_line() && (ended() || is_keyword(input.kind(0)) || headless())
}

fn item(input: Tokens<'_>) -> ParseResult<'_, Item> {
    alt((
        namespace.map(Item::Open),
        closing,
        pragma.map(|()| Item::Nothing),
        package.map(|()| Item::Nothing),
        definition.map(|found| Item::Definition(found.map(Box::new))),
        stray_semicolon.map(|()| Item::Nothing),
        unexpected.map(|found| Item::Definition(found.map(Box::new))),
    ))
    .parse(input)
}

/// Parses `}` with an optional `;`.
fn closing(input: Tokens<'_>) -> ParseResult<'_, Item> {
    let (rest, brace) = token(TokenKind::BraceClose).parse(input)?;
    let rest = if rest.kind(0) == TokenKind::Semicolon {
        rest.skip(1)
    } else {
        rest
    };
    Ok((rest, Item::Close(rest.since(brace.span))))
}

/// Parses `namespace a::b {`.
fn namespace(input: Tokens<'_>) -> ParseResult<'_, Span> {
    let colons = pair(token(TokenKind::Colon), token(TokenKind::Colon));
    let (rest, (keyword, _)) =
        pair(word("namespace"), separated_list1(colons, ident)).parse(input)?;
    let (rest, brace) = expect(TokenKind::BraceOpen).parse(rest)?;
    input.lint(
        Diagnostic::new(Code::Namespace, keyword.span, "a namespace")
            .label("not part of XDR: its definitions are read as if they were outside"),
    );
    Ok((rest, brace))
}

/// Parses `pragma header nfs4;`.
fn pragma(input: Tokens<'_>) -> ParseResult<'_, ()> {
    let words = take_while(|token: Token<'_>| is_name(token.kind) && !token.first_on_line);
    let (rest, _) = (word("pragma"), words, expect(TokenKind::Semicolon)).parse(input)?;
    let span = rest.since(input.span());
    input.lint(Diagnostic::new(Code::Pragma, span, "a pragma of Linux's xdrgen").label("ignored"));
    Ok((rest, ()))
}

/// Parses `package foo;` at the start of a line.
fn package(input: Tokens<'_>) -> ParseResult<'_, ()> {
    let (rest, (keyword, name)) = pair(word("package"), ident).parse(input)?;
    let (rest, _) = token(TokenKind::Semicolon).parse(rest)?;
    input.lint(
        Diagnostic::new(
            Code::Package,
            keyword.span,
            format!("the package `{}`", name.name),
        )
        .label("not part of XDR: ignored, as the module has its name from the configuration"),
    );
    Ok((rest, ()))
}

/// Reports input that begins no definition, and parses it as the definition that it most resembles.
fn unexpected(input: Tokens<'_>) -> ParseResult<'_, Option<Definition>> {
    if input.kind(0) == TokenKind::End {
        return Err(mismatch());
    }
    let diagnostic = input.expected_diagnostic("a definition");
    if let Some(guess) = misspelled_keyword(input) {
        input.error(diagnostic.fix(input.span(), guess.0, format!("write `{}`", guess.0)));
        return read_as(guess, input.skip(1));
    }
    if let Some(guess) = swapped_keyword(input) {
        input.error(diagnostic);
        input.skip(1).start_cascade();
        return read_as(guess, input);
    }
    if let Some(rest) = c::top_level(input) {
        return Ok((rest, None));
    }
    let next = input.skip(1);
    if is_keyword(next.kind(0)) || starts_definition(&next) {
        input.error(diagnostic);
        next.start_cascade();
        return Ok((next, None));
    }
    if let Some(guess) = missing_keyword(input) {
        input.error(diagnostic.fix(
            input.start_of_first(),
            format!("{} ", guess.0),
            format!("add `{}`", guess.0),
        ));
        return read_as(guess, input);
    }
    input.error(diagnostic);
    Ok((after_item(next), None))
}

/// A definition's keyword, and the parser of the rest of the definition.
type KeywordParser = (
    &'static str,
    for<'t> fn(Tokens<'t>) -> ParseResult<'t, NameAndKind>,
);

const CONST: KeywordParser = ("const", constant);
const TYPEDEF: KeywordParser = ("typedef", typedef);
const STRUCT: KeywordParser = ("struct", structure);
const ENUM: KeywordParser = ("enum", enumeration);
const UNION: KeywordParser = ("union", union);
const PROGRAM: KeywordParser = ("program", program_after_keyword);

fn read_as<'t>((_, rest): KeywordParser, input: Tokens<'t>) -> ParseResult<'t, Option<Definition>> {
    let (end, named) = rest(input)?;
    Ok((end, finish(input, end, named)))
}

/// Guesses the keyword that a misspelled name before another name or a body stands for.
fn misspelled_keyword(input: Tokens<'_>) -> Option<KeywordParser> {
    let word = input
        .peek(0)
        .filter(|token| token.kind == TokenKind::Name)?;
    let next = input.skip(1);
    if !is_name(next.kind(0)) && !starts_type(next.kind(0)) {
        return None;
    }
    let near = [CONST, TYPEDEF, STRUCT, ENUM, UNION, PROGRAM]
        .into_iter()
        .find(|(keyword, _)| resembles(word.text, keyword));
    let bodied = matches!(next.kind(1), TokenKind::BraceOpen | TokenKind::Switch);
    near.or_else(|| missing_keyword(next).filter(|_| bodied && !is_keyword(next.kind(0))))
}

/// Returns the keyword that follows the name instead of preceding it.
fn swapped_keyword(input: Tokens<'_>) -> Option<KeywordParser> {
    match (input.kind(0), input.kind(1), input.kind(2)) {
        (TokenKind::Name, TokenKind::Struct, TokenKind::BraceOpen) => Some(STRUCT),
        (TokenKind::Name, TokenKind::Enum, TokenKind::BraceOpen) => Some(ENUM),
        (TokenKind::Name, TokenKind::Union, TokenKind::Switch) => Some(UNION),
        _ => None,
    }
}

/// Guesses the keyword of a definition that lacks one.
fn missing_keyword(input: Tokens<'_>) -> Option<KeywordParser> {
    use TokenKind::{BraceClose, BraceOpen, Comma, Equal, Name, Switch};
    match (input.kind(0), input.kind(1), input.kind(2), input.kind(3)) {
        (Name, BraceOpen, Name, Equal | Comma | BraceClose) => Some(ENUM),
        (Name, BraceOpen, Name, _)
            if input.peek(2).is_some_and(|token| token.text == "version") =>
        {
            Some(PROGRAM)
        }
        (Name, BraceOpen, ..) => Some(STRUCT),
        (Name, Switch, ..) => Some(UNION),
        (Name, Equal, ..) | (_, Name, Equal, _) => Some(CONST),
        _ => starts_declaration(&input).then_some(TYPEDEF),
    }
}

/// Returns true if a word equals a keyword up to case and one edit: a letter added, removed or
/// changed, or two letters swapped.
fn resembles(word: &str, keyword: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let (short, long) = if word.len() < keyword.len() {
        (word.as_str(), keyword)
    } else {
        (keyword, word.as_str())
    };
    let same = short
        .bytes()
        .zip(long.bytes())
        .take_while(|(a, b)| a == b)
        .count();
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
