//! How reading goes on after a defect: what is put in, what is left out, and where the next item begins.

use nom::Parser;
use nom::combinator::verify;
use nom::multi::many_till;

use crate::ast::Ident;
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::input::{Mismatch, Parsed, Tokens, mismatch};
use crate::parse::lexer::{Token, TokenKind};
use crate::source::Span;

/// A token of this kind.
pub(super) fn token<'t>(kind: TokenKind) -> impl Parser<Tokens<'t>, Output = &'t Token<'t>, Error = Mismatch> {
    verify(any, move |token: &&'t Token<'t>| token.kind == kind)
}

/// A name that is the word `word`, which is a keyword at some places only.
pub(super) fn word<'t>(word: &'static str) -> impl Parser<Tokens<'t>, Output = &'t Token<'t>, Error = Mismatch> {
    verify(any, move |token: &&'t Token<'t>| token.kind == TokenKind::Name && token.text == word)
}

/// Any token.
pub(super) fn any<'t>(input: Tokens<'t>) -> Parsed<'t, &'t Token<'t>> {
    input.peek(0).map(|token| (input.skip(1), token)).ok_or(mismatch())
}

/// A name, or a malformed word where one should stand.
pub(super) fn ident<'t>(input: Tokens<'t>) -> Parsed<'t, Ident> {
    verify(any, |token: &&Token<'_>| is_name(token.kind))
        .map(|token| Ident { name: token.text.to_owned(), span: token.span })
        .parse(input)
}

/// Whether a token is a name, or a malformed word that may stand for one.
pub(super) fn is_name(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Name | TokenKind::Malformed)
}

/// A name, which `what` says: `a name for the struct`. `None` where it is missing, which is reported.
pub(super) fn expect_name<'t>(what: &'static str) -> impl Parser<Tokens<'t>, Output = Option<Ident>, Error = Mismatch> {
    move |input: Tokens<'t>| {
        if let Ok((rest, name)) = ident(input) {
            return Ok((rest, Some(name)));
        }
        input.expected(what);
        if is_name(input.kind(1)) && droppable(&input) && input.kind(0) != TokenKind::Semicolon {
            return ident.map(Some).parse(input.skip(1));
        }
        Ok((input, None))
    }
}

/// A sign or keyword that must stand here: put in where it is missing, unless it is the next but one.
pub(super) fn expect<'t>(kind: TokenKind) -> impl Parser<Tokens<'t>, Output = Span, Error = Mismatch> {
    move |input: Tokens<'t>| {
        if let Ok((rest, token)) = token(kind).parse(input) {
            return Ok((rest, token.span));
        }
        if input.kind(1) == kind && droppable(&input) {
            superfluous(&input, kind);
            input.skip(1).cast_shadow();
            return Ok((input.skip(2), input.skip(1).span()));
        }
        input.missing(kind);
        Ok((input, input.gap()))
    }
}

/// Skips a token that repeats the one before, and reports it.
pub(super) fn repeated(input: Tokens<'_>) -> Parsed<'_, ()> {
    let found = input.kind(0);
    if found == TokenKind::End || input.previous().is_none_or(|previous| previous.kind != found) {
        return Ok((input, ()));
    }
    let diagnostic = Diagnostic::new(Code::Syntax, input.span(), format!("{} stands here twice", input.found()));
    input.error(diagnostic.label("one too many").fix(input.span(), "", format!("remove {}", input.found())));
    Ok((input.skip(1), ()))
}

/// Reports the first token, which stands before the `kind` that is expected.
fn superfluous(input: &Tokens<'_>, kind: TokenKind) {
    let expected = format!("`{}`", kind.spelling().unwrap_or_default());
    input.error(input.unexpected(&expected).fix(input.span(), "", format!("remove {}", input.found())));
}

/// Whether the first token may be one too many: it bears no structure, or repeats the one before.
fn droppable(input: &Tokens<'_>) -> bool {
    use TokenKind::{BraceClose, BraceOpen, Case, Default, End, Typedef};
    let doubled = input.previous().is_some_and(|previous| Some(previous.text) == input.peek(0).map(|token| token.text));
    doubled || !matches!(input.kind(0), BraceOpen | BraceClose | Case | Default | Typedef | End)
}

/// The `;` after an item. Where it is missing and `next` says that another item begins, it is put in; otherwise the
/// rest of the item is skipped.
pub(super) fn semicolon<'t>(
    next: impl Fn(&Tokens<'t>) -> bool,
) -> impl Parser<Tokens<'t>, Output = (), Error = Mismatch> {
    move |input: Tokens<'t>| {
        if let Ok((rest, _)) = token(TokenKind::Semicolon).parse(input) {
            if rest.on_new_line() {
                input.recovered();
            }
            return Ok((rest, ()));
        }
        if input.kind(1) == TokenKind::Semicolon && droppable(&input) {
            superfluous(&input, TokenKind::Semicolon);
            if starts_type(input.kind(0)) || input.skip(1).on_new_line() {
                input.skip(1).cast_shadow();
            } else if input.skip(2).on_new_line() {
                input.recovered();
            }
            return Ok((input.skip(2), ()));
        }
        if next(&input) || ends_body(&input) {
            let consequence = input.in_shadow();
            input.missing(TokenKind::Semicolon);
            if !consequence && input.kind(1) != TokenKind::Semicolon {
                input.recovered();
            }
            return Ok((input, ()));
        }
        input.expected("`;`");
        Ok((after_item(input), ()))
    }
}

/// Items until the body ends. `item` takes something off whatever stands there.
pub(super) fn items<'t, T>(
    item: impl Parser<Tokens<'t>, Output = Option<T>, Error = Mismatch>,
) -> impl Parser<Tokens<'t>, Output = Vec<T>, Error = Mismatch> {
    let end = verify(peek_tokens, ends_body);
    many_till(item, end).map(|(items, _)| items.into_iter().flatten().collect())
}

/// Reports what stands here as no `what`, and skips it.
pub(super) fn broken<'t, T>(what: &'static str) -> impl Parser<Tokens<'t>, Output = Option<T>, Error = Mismatch> {
    move |input: Tokens<'t>| {
        input.expected(what);
        Ok((after_item(input.skip(1)), None))
    }
}

/// The tokens themselves, none of them taken.
fn peek_tokens<'t>(input: Tokens<'t>) -> Parsed<'t, Tokens<'t>> {
    Ok((input, input))
}

/// The `}` of a body whose `{` stands at `open`; put in where it is missing.
pub(super) fn close<'t>(open: Span) -> impl Parser<Tokens<'t>, Output = (), Error = Mismatch> {
    move |input: Tokens<'t>| {
        if let Ok((rest, _)) = token(TokenKind::BraceClose).parse(input) {
            return Ok((rest, ()));
        }
        let inside = input.kind(0) == TokenKind::Name && input.kind(1) == TokenKind::Semicolon;
        let place = if inside || matches!(input.kind(0), TokenKind::Semicolon | TokenKind::Equal) {
            input.span()
        } else {
            input.gap()
        };
        let diagnostic = Diagnostic::new(Code::Syntax, place, format!("expected `}}`, found {}", input.found()))
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

/// Whether the body ends here: at its `}`, or where something stands that can't be in a body, so that the `}` is missing.
pub(super) fn ends_body(input: &Tokens<'_>) -> bool {
    match input.kind(0) {
        TokenKind::BraceClose | TokenKind::End => true,
        TokenKind::Semicolon => {
            let after = input.skip(1);
            after.kind(0) == TokenKind::End || starts_definition(&after)
        }
        TokenKind::Name if input.is_unclosed() => input.kind(1) == TokenKind::Semicolon,
        TokenKind::Equal => input.previous().is_some_and(|previous| previous.kind == TokenKind::Semicolon),
        _ => starts_definition(input),
    }
}

/// Whether a definition begins here that no body can hold.
pub(super) fn starts_definition(input: &Tokens<'_>) -> bool {
    use TokenKind::{BraceOpen, Const, Enum, Name, ParenOpen, Struct, Switch, Typedef, Union};
    match (input.kind(0), input.kind(1), input.kind(2)) {
        (Typedef | Const, ..) => true,
        (Struct | Enum, Name, BraceOpen) => !is_inline(input, 2),
        (Union, Name, Switch) => input.kind(3) == ParenOpen && !is_inline(input, 7),
        (Name, Name, BraceOpen) => input.peek(0).is_some_and(|word| matches!(word.text, "program" | "namespace")),
        _ => false,
    }
}

/// Whether the body at the brace `brace` ahead is followed by a name, so that it is a type within a declaration.
pub(super) fn is_inline(input: &Tokens<'_>, brace: usize) -> bool {
    input.kind(brace) == TokenKind::BraceOpen
        && input.closing(brace).is_some_and(|close| matches!(input.kind(close + 1), TokenKind::Name | TokenKind::Star))
}

/// Whether a declaration begins here, as far as two tokens tell.
pub(super) fn starts_declaration(input: &Tokens<'_>) -> bool {
    match input.kind(0) {
        TokenKind::Name => matches!(input.kind(1), TokenKind::Name | TokenKind::Star),
        kind => starts_type(kind),
    }
}

/// Whether a keyword begins a declaration.
pub(super) fn starts_type(kind: TokenKind) -> bool {
    use TokenKind::{Bool, Double, Enum, Float, Hyper, Int, Opaque, Quadruple, String, Struct, Union, Unsigned, Void};
    matches!(
        kind,
        Bool | Double | Enum | Float | Hyper | Int | Opaque | Quadruple | String | Struct | Union | Unsigned | Void
    )
}

/// The tokens after the item that is broken: past its `;`, or before what can't be part of it.
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
