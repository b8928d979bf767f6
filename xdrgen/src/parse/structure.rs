//! Structs: RFC 4506, section 6.3, struct-body.

use nom::Parser;
use nom::branch::alt;
use nom::sequence::terminated;

use crate::ast::{Declaration, StructBody};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::declaration::declaration;
use crate::parse::input::{Parsed, Tokens};
use crate::parse::lexer::TokenKind;
use crate::parse::recovery::{broken, close, expect, items, repeated, semicolon, starts_declaration, token};

/// `{ T a; U b; }`
pub(super) fn struct_body(input: Tokens<'_>) -> Parsed<'_, StructBody> {
    let (body, open) = terminated(expect(TokenKind::BraceOpen), repeated).parse(input)?;
    let (rest, fields) = items(alt((field, broken("a field")))).parse(body)?;
    let (rest, ()) = close(open).parse(rest)?;
    if matches!(body.kind(0), TokenKind::BraceClose | TokenKind::Void) && fields.is_empty() {
        let span = rest.since(open);
        input.lint(Diagnostic::new(Code::EmptyBody, span, "a struct without a field").label("RFC 4506 asks for one"));
    }
    Ok((rest, StructBody { fields }))
}

fn field(input: Tokens<'_>) -> Parsed<'_, Option<Declaration>> {
    alt((stray_semicolon.map(|()| None), void.map(|()| None), terminated(declaration, semicolon(starts_declaration))))
        .parse(input)
}

/// `void;`, which holds nothing.
pub(super) fn void(input: Tokens<'_>) -> Parsed<'_, ()> {
    let (rest, _) = token(TokenKind::Void).parse(input)?;
    semicolon(starts_declaration).parse(rest)
}

/// Whether the `;` before a `}` is the one that is missing after it.
fn swapped_with_brace(after: &Tokens<'_>) -> bool {
    use TokenKind::{BraceClose, Equal, Malformed, Name, Semicolon, Star};
    let named = matches!(after.kind(1), Name | Malformed) && !after.skip(1).on_new_line();
    after.kind(0) == BraceClose && !named && !matches!(after.kind(1), Semicolon | Star | Equal)
}

/// A `;` with nothing before it.
pub(super) fn stray_semicolon(input: Tokens<'_>) -> Parsed<'_, ()> {
    let (rest, stray) = token(TokenKind::Semicolon).parse(input)?;
    if swapped_with_brace(&rest) {
        let both = stray.span.to(rest.span());
        input.error(input.unexpected("`}`").fix(both, "};", "put the `}` first"));
        rest.cast_shadow();
        return Ok((rest, ()));
    }
    if input.in_shadow() {
        return Ok((rest, ()));
    }
    input.lint(
        Diagnostic::new(Code::EmptyDeclaration, stray.span, "a `;` with nothing before it").label("one too many").fix(
            stray.span,
            "",
            "remove it",
        ),
    );
    Ok((rest, ()))
}
