//! Error recovery: inserts missing tokens, skips extra ones, and finds the start of the next item.
//!
//! All modules of the grammar use these parsers. [`token`], [`word`], [`any`] and [`ident`] fail
//! and report nothing; the others report and never fail. The item of [`items`] must not fail, and
//! must consume a token. [`ends_body`] decides for all bodies where one ends without its `}`. A
//! change here moves errors in other modules: `parse/tests/mutation.rs` and `tests/mutations.rs`
//! require that each deleted, doubled or swapped token is reported at its place.

use nom::Parser;
use nom::combinator::verify;
use nom::multi::many_till;

use crate::ast::Ident;
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::input::{Mismatch, ParseResult, Tokens, mismatch};
use crate::parse::lexer::{Token, TokenKind};
use crate::source::Span;

/// The words of C before a type that have no meaning in XDR. `const` is a keyword of both.
const QUALIFIERS: [&str; 6] = [
    "volatile", "register", "static", "extern", "inline", "signed",
];

/// Parses a token of a kind.
pub(super) fn token<'t>(
    kind: TokenKind,
) -> impl Parser<Tokens<'t>, Output = &'t Token<'t>, Error = Mismatch> {
    verify(any, move |token: &&'t Token<'t>| token.kind == kind)
}

/// Parses the name `word`, which is a keyword only in some places.
pub(super) fn word<'t>(
    word: &'static str,
) -> impl Parser<Tokens<'t>, Output = &'t Token<'t>, Error = Mismatch> {
    verify(any, move |token: &&'t Token<'t>| {
        token.kind == TokenKind::Name && token.text == word
    })
}

/// Parses any token.
pub(super) fn any<'t>(input: Tokens<'t>) -> ParseResult<'t, &'t Token<'t>> {
    input
        .peek(0)
        .map(|token| (input.skip(1), token))
        .ok_or(mismatch())
}

/// Parses a name, or a malformed word in place of one.
pub(super) fn ident<'t>(input: Tokens<'t>) -> ParseResult<'t, Ident> {
    verify(any, |token: &&Token<'_>| is_name(token.kind))
        .map(|token| Ident {
            name: token.text.to_owned(),
            span: token.span,
        })
        .parse(input)
}

/// Returns true for a name, or a malformed word that may stand for one.
pub(super) fn is_name(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Name | TokenKind::Malformed)
}

/// Parses a required name. `what` describes it: `a name for the struct`. Reports a missing name and
/// returns `None`.
pub(super) fn expect_name<'t>(
    what: &'static str,
) -> impl Parser<Tokens<'t>, Output = Option<Ident>, Error = Mismatch> {
    move |input: Tokens<'t>| {
        if let Ok((rest, name)) = ident(input) {
            return Ok((rest, Some(name)));
        }
        input.report_expected(what);
        if is_name(input.kind(1)) && droppable(&input) && input.kind(0) != TokenKind::Semicolon {
            return ident.map(Some).parse(input.skip(1));
        }
        Ok((input, None))
    }
}

/// Parses a required sign or keyword. If it is the second token, the first is reported and skipped;
/// otherwise a missing token is reported and treated as present.
pub(super) fn expect<'t>(
    kind: TokenKind,
) -> impl Parser<Tokens<'t>, Output = Span, Error = Mismatch> {
    move |input: Tokens<'t>| {
        if let Ok((rest, token)) = token(kind).parse(input) {
            return Ok((rest, token.span));
        }
        if input.kind(1) == kind && droppable(&input) {
            report_extra(&input, kind);
            input.skip(1).start_cascade();
            return Ok((input.skip(2), input.skip(1).span()));
        }
        input.report_missing(kind);
        Ok((input, input.end_of_previous()))
    }
}

/// Skips a token that repeats the previous one, and reports it.
pub(super) fn repeated(input: Tokens<'_>) -> ParseResult<'_, ()> {
    let found = input.kind(0);
    if found == TokenKind::End
        || input
            .previous()
            .is_none_or(|previous| previous.kind != found)
    {
        return Ok((input, ()));
    }
    let diagnostic = Diagnostic::new(
        Code::Syntax,
        input.span(),
        format!("{} is repeated", input.found()),
    );
    input.error(diagnostic.label("extra token").fix(
        input.span(),
        "",
        format!("remove {}", input.found()),
    ));
    Ok((input.skip(1), ()))
}

/// Reports an extra token before the expected `kind`.
fn report_extra(input: &Tokens<'_>, kind: TokenKind) {
    let expected = format!("`{}`", kind.spelling().unwrap_or_default());
    input.error(input.expected_diagnostic(&expected).fix(
        input.span(),
        "",
        format!("remove {}", input.found()),
    ));
}

/// Returns true if the first token may be an extra one: it has no structural role, or it repeats
/// the previous token.
fn droppable(input: &Tokens<'_>) -> bool {
    use TokenKind::{BraceClose, BraceOpen, Case, Default, End, Typedef};
    let doubled = input
        .previous()
        .is_some_and(|previous| Some(previous.text) == input.peek(0).map(|token| token.text));
    doubled
        || !matches!(
            input.kind(0),
            BraceOpen | BraceClose | Case | Default | Typedef | End
        )
}

/// Parses the `;` after an item. If it is missing and `next` recognizes the start of another item,
/// the `;` is treated as present; otherwise the rest of the item is skipped.
pub(super) fn semicolon<'t>(
    next: impl Fn(&Tokens<'t>) -> bool,
) -> impl Parser<Tokens<'t>, Output = (), Error = Mismatch> {
    move |input: Tokens<'t>| {
        if let Ok((rest, _)) = token(TokenKind::Semicolon).parse(input) {
            if rest.on_new_line() {
                input.end_cascade();
            }
            return Ok((rest, ()));
        }
        if input.kind(1) == TokenKind::Semicolon && droppable(&input) {
            report_extra(&input, TokenKind::Semicolon);
            if starts_type(input.kind(0)) || input.skip(1).on_new_line() {
                input.skip(1).start_cascade();
            } else if input.skip(2).on_new_line() {
                input.end_cascade();
            }
            return Ok((input.skip(2), ()));
        }
        let after = input.skip(1);
        if input.kind(0) == TokenKind::Comma && (next(&after) || ends_body(&after)) {
            let found = input.expected_diagnostic("`;`");
            input.error(found.fix(input.span(), ";", "write `;`"));
            return Ok((after, ()));
        }
        if next(&input) || ends_body(&input) {
            let cascading = input.is_cascading();
            input.report_missing(TokenKind::Semicolon);
            if !cascading && input.kind(1) != TokenKind::Semicolon {
                input.end_cascade();
            }
            return Ok((input, ()));
        }
        input.report_expected("`;`");
        Ok((after_item(input), ()))
    }
}

/// Parses items up to the end of the body. `item` must consume at least one token.
pub(super) fn items<'t, T>(
    item: impl Parser<Tokens<'t>, Output = Option<T>, Error = Mismatch>,
) -> impl Parser<Tokens<'t>, Output = Vec<T>, Error = Mismatch> {
    let end = verify(peek_tokens, ends_body);
    many_till(item, end).map(|(items, _)| items.into_iter().flatten().collect())
}

/// Reports that `what` is missing here, and skips the invalid item.
pub(super) fn skip_invalid<'t, T>(
    what: &'static str,
) -> impl Parser<Tokens<'t>, Output = Option<T>, Error = Mismatch> {
    move |input: Tokens<'t>| {
        input.report_expected(what);
        Ok((after_item(input.skip(1)), None))
    }
}

/// Returns the remaining tokens and consumes none.
fn peek_tokens<'t>(input: Tokens<'t>) -> ParseResult<'t, Tokens<'t>> {
    Ok((input, input))
}

/// Parses the `}` of a body whose `{` is at `open`. Reports a missing `}`.
pub(super) fn close<'t>(open: Span) -> impl Parser<Tokens<'t>, Output = (), Error = Mismatch> {
    move |input: Tokens<'t>| {
        if let Ok((rest, _)) = token(TokenKind::BraceClose).parse(input) {
            return Ok((rest, ()));
        }
        let inside = input.kind(0) == TokenKind::Name && input.kind(1) == TokenKind::Semicolon;
        let place = if inside || matches!(input.kind(0), TokenKind::Semicolon | TokenKind::Equal) {
            input.span()
        } else {
            input.end_of_previous()
        };
        let diagnostic = Diagnostic::new(
            Code::Syntax,
            place,
            format!("expected `}}`, found {}", input.found()),
        )
        .label("expected `}`")
        .note_at(open, "this `{` is not closed");
        if input.kind(0) == TokenKind::Equal && input.kind(1) == TokenKind::BraceClose {
            let both = input.span().to(input.skip(1).span());
            input.error(diagnostic.fix(both, "} =", "put the `}` first"));
            return Ok((input.skip(2), ()));
        }
        let here = Span::new(place.text, place.range().start..place.range().start);
        input.error(diagnostic.fix(here, "}", "add `}`"));
        Ok((input, ()))
    }
}

/// Returns true if the body ends here: at its `}`, or before a token that cannot be in a body, in
/// which case the `}` is missing.
pub(super) fn ends_body(input: &Tokens<'_>) -> bool {
    match input.kind(0) {
        TokenKind::BraceClose | TokenKind::End => true,
        TokenKind::Semicolon => {
            let after = input.skip(1);
            after.kind(0) == TokenKind::End || starts_definition(&after)
        }
        TokenKind::Name if input.is_unclosed() => input.kind(1) == TokenKind::Semicolon,
        TokenKind::Equal => input
            .previous()
            .is_some_and(|previous| previous.kind == TokenKind::Semicolon),
        _ => starts_definition(input),
    }
}

/// Returns true if a qualifier of C is here, and a type follows.
pub(super) fn is_qualifier(input: &Tokens<'_>) -> bool {
    let word = |at| input.kind(at) == TokenKind::Name || starts_type(input.kind(at));
    match input.peek(0) {
        Some(token) if token.kind == TokenKind::Const => {
            let words = (1..5).take_while(|at| word(*at)).count();
            match input.kind(1 + words) {
                TokenKind::Star => words > 0 && is_name(input.kind(2 + words)),
                TokenKind::Semicolon | TokenKind::BracketOpen | TokenKind::AngleOpen => words > 1,
                _ => false,
            }
        }
        Some(token) if token.kind == TokenKind::Name && QUALIFIERS.contains(&token.text) => {
            let named = matches!(input.kind(2), TokenKind::Name | TokenKind::Star);
            starts_type(input.kind(1)) || input.kind(1) == TokenKind::Name && named
        }
        _ => false,
    }
}

/// Returns true if a definition begins here that no body can contain.
pub(super) fn starts_definition(input: &Tokens<'_>) -> bool {
    use TokenKind::{BraceOpen, Const, Enum, Name, ParenOpen, Struct, Switch, Typedef, Union};
    match (input.kind(0), input.kind(1), input.kind(2)) {
        (Const, ..) => !is_qualifier(input),
        (Typedef, ..) => true,
        (Struct | Enum, Name, BraceOpen) => !is_inline(input, 2),
        (Union, Name, Switch) => input.kind(3) == ParenOpen && !is_inline(input, 7),
        (Name, Name, BraceOpen) => input
            .peek(0)
            .is_some_and(|word| matches!(word.text, "program" | "namespace")),
        _ => false,
    }
}

/// Returns true if a name follows the body whose brace is at the offset `brace`, so that the body
/// is an inline type in a declaration.
pub(super) fn is_inline(input: &Tokens<'_>, brace: usize) -> bool {
    input.kind(brace) == TokenKind::BraceOpen
        && input
            .closing(brace)
            .is_some_and(|close| matches!(input.kind(close + 1), TokenKind::Name | TokenKind::Star))
}

/// Returns true if the first two tokens may begin a declaration.
pub(super) fn starts_declaration(input: &Tokens<'_>) -> bool {
    match input.kind(0) {
        TokenKind::Name => matches!(input.kind(1), TokenKind::Name | TokenKind::Star),
        kind => starts_type(kind),
    }
}

/// Returns true if a keyword begins a declaration.
pub(super) fn starts_type(kind: TokenKind) -> bool {
    use TokenKind::{
        Bool, Double, Enum, Float, Hyper, Int, Opaque, Quadruple, String, Struct, Union, Unsigned,
        Void,
    };
    matches!(
        kind,
        Bool | Double
            | Enum
            | Float
            | Hyper
            | Int
            | Opaque
            | Quadruple
            | String
            | Struct
            | Union
            | Unsigned
            | Void
    )
}

/// Returns the tokens after an invalid item: past its `;`, or before a token that cannot belong to
/// it.
pub(super) fn after_item(mut input: Tokens<'_>) -> Tokens<'_> {
    loop {
        match input.kind(0) {
            TokenKind::Semicolon => return input.skip(1),
            TokenKind::Case | TokenKind::Default => return input,
            TokenKind::BraceOpen => input = input.skip(input.closing(0).unwrap_or(0) + 1),
            _ if ends_body(&input) => return input,
            _ => input = input.skip(1),
        }
    }
}
