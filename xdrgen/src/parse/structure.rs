//! Structs: RFC 4506, section 6.3, struct-body; and [`void`] and [`stray_semicolon`], which unions,
//! programs and the top level share.

use nom::Parser;
use nom::branch::alt;
use nom::sequence::terminated;

use crate::ast::{Declaration, StructBody};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::c::is_untyped;
use crate::parse::declaration::declaration;
use crate::parse::input::{ParseResult, Tokens, mismatch};
use crate::parse::lexer::TokenKind;
use crate::parse::recovery::{
    close, expect, items, repeated, semicolon, skip_invalid, starts_declaration, token,
};

/// Parses `{ T a; U b; }`.
pub(super) fn struct_body(input: Tokens<'_>) -> ParseResult<'_, StructBody> {
    let (body, open) = terminated(expect(TokenKind::BraceOpen), repeated).parse(input)?;
    let (rest, fields) = items(alt((field, skip_invalid("a field")))).parse(body)?;
    let (rest, ()) = close(open).parse(rest)?;
    if matches!(body.kind(0), TokenKind::BraceClose | TokenKind::Void) && fields.is_empty() {
        let span = rest.since(open);
        input.lint(
            Diagnostic::new(Code::EmptyBody, span, "a struct without fields")
                .label("RFC 4506 requires at least one field"),
        );
    }
    Ok((rest, StructBody { fields }))
}

fn field(input: Tokens<'_>) -> ParseResult<'_, Option<Declaration>> {
    alt((
        stray_semicolon.map(|()| None),
        void.map(|()| None),
        terminated(declaration, semicolon(starts_declaration)),
    ))
    .parse(input)
}

/// Parses `void;`, which declares nothing.
pub(super) fn void(input: Tokens<'_>) -> ParseResult<'_, ()> {
    if is_untyped(&input) {
        return Err(mismatch());
    }
    let (rest, _) = token(TokenKind::Void).parse(input)?;
    semicolon(starts_declaration).parse(rest)
}

/// Returns true if the `;` before a `}` is the one that is missing after it.
fn swapped_with_brace(after: &Tokens<'_>) -> bool {
    use TokenKind::{BraceClose, Equal, Malformed, Name, Semicolon, Star};
    let named = matches!(after.kind(1), Name | Malformed) && !after.skip(1).on_new_line();
    after.kind(0) == BraceClose && !named && !matches!(after.kind(1), Semicolon | Star | Equal)
}

/// Parses a `;` that follows nothing.
pub(super) fn stray_semicolon(input: Tokens<'_>) -> ParseResult<'_, ()> {
    let (rest, stray) = token(TokenKind::Semicolon).parse(input)?;
    if swapped_with_brace(&rest) {
        let both = stray.span.to(rest.span());
        input.error(
            input
                .expected_diagnostic("`}`")
                .fix(both, "};", "put the `}` first"),
        );
        rest.start_cascade();
        return Ok((rest, ()));
    }
    if input.is_cascading() {
        return Ok((rest, ()));
    }
    input.lint(
        Diagnostic::new(
            Code::EmptyDeclaration,
            stray.span,
            "a `;` with nothing before it",
        )
        .label("extra `;`")
        .fix(stray.span, "", "remove it"),
    );
    Ok((rest, ()))
}
