//! Declarations: a type, a name, and how many.

use nom::Parser;
use nom::branch::alt;
use nom::combinator::opt;
use nom::sequence::delimited;

use crate::ast::{Declaration, Ident, Shape, TypeKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::input::{Parsed, Tokens};
use crate::parse::lexer::TokenKind;
use crate::parse::recovery::{expect, expect_name, ident, is_name, repeated, starts_declaration, token};
use crate::parse::types::type_specifier;
use crate::parse::value::{expect_value, value};

/// A declaration, without its `;`; `Err::Error` where no type begins, and `None` where it has no name.
pub(super) fn declaration(input: Tokens<'_>) -> Parsed<'_, Option<Declaration>> {
    let (rest, ty) = type_specifier(input)?;
    let (rest, star) = opt(token(TokenKind::Star)).parse(rest)?;
    let (rest, name) = declared_name(rest)?;
    let (after, array) = opt(array).parse(rest)?;
    let (end, name) = if name.is_some() { (after, name) } else { late_name(after, array.is_some())? };
    let shape = match (star, array) {
        (None, None) => Shape::Plain,
        (None, Some(shape)) => shape,
        (Some(_), None) => Shape::Optional,
        (Some(star), Some(_)) => {
            let message = "an optional value can't be an array too";
            let diagnostic = Diagnostic::new(Code::Syntax, rest.span(), message).label("expected `;`");
            rest.error(diagnostic.note_at(star.span, "this makes it optional"));
            Shape::Optional
        }
    };
    let shape = fit(&ty.kind, shape, rest, end);
    Ok((end, name.map(|name| Declaration { span: end.since(input.span()), ty, name, shape })))
}

/// The name after the type, found also behind a misplaced `;`.
fn declared_name(input: Tokens<'_>) -> Parsed<'_, Option<Ident>> {
    let (name, after) = (input.skip(1), input.skip(2));
    if input.kind(0) == TokenKind::Semicolon && is_name(name.kind(0)) && !name.on_new_line() {
        let swapped = if starts_declaration(&name) { starts_declaration(&after) } else { begins_item(&after) };
        if swapped || after.kind(0) == TokenKind::Semicolon {
            return misplaced_semicolon(input, swapped);
        }
    }
    expect_name("a name").parse(input)
}

/// Whether a field or an arm begins here, or the body ends.
fn begins_item(input: &Tokens<'_>) -> bool {
    let ends = matches!(input.kind(0), TokenKind::BraceClose | TokenKind::Case | TokenKind::Default);
    ends || starts_declaration(input)
}

/// Reports the `;` between a type and its name.
fn misplaced_semicolon(input: Tokens<'_>, swapped: bool) -> Parsed<'_, Option<Ident>> {
    let diagnostic = input.unexpected("a name");
    let name = input.skip(1).found().trim_matches('`').to_owned();
    input.error(if swapped {
        let both = input.span().to(input.skip(1).span());
        diagnostic.fix(both, format!(" {name};"), "put the `;` after the name")
    } else {
        diagnostic.fix(input.span(), "", "remove the `;`")
    });
    ident.map(Some).parse(input.skip(1))
}

/// The name behind the array's bounds, as in `uint32[4] name`, where none stood before them.
fn late_name(input: Tokens<'_>, array: bool) -> Parsed<'_, Option<Ident>> {
    if array { opt(ident).parse(input) } else { Ok((input, None)) }
}

/// `[N]`, `<N>`, `<>`
fn array(input: Tokens<'_>) -> Parsed<'_, Shape> {
    alt((fixed, variable)).parse(input)
}

fn fixed(input: Tokens<'_>) -> Parsed<'_, Shape> {
    let size =
        delimited((token(TokenKind::BracketOpen), repeated), expect_value("a size"), expect(TokenKind::BracketClose));
    size.map(|size| size.map_or(Shape::Variable(None), Shape::Fixed)).parse(input)
}

fn variable(input: Tokens<'_>) -> Parsed<'_, Shape> {
    let bound = delimited((token(TokenKind::AngleOpen), repeated), opt(value), expect(TokenKind::AngleClose));
    bound.map(Shape::Variable).parse(input)
}

/// The shape, as `opaque` and `string` allow it: the first only with a length, the second only with a bound.
fn fit<'t>(ty: &TypeKind, shape: Shape, place: Tokens<'t>, end: Tokens<'t>) -> Shape {
    let (expected, keyword) = match (ty, &shape) {
        (TypeKind::Opaque, Shape::Plain | Shape::Optional) => ("`[` or `<`", "opaque"),
        (TypeKind::String, Shape::Plain | Shape::Optional | Shape::Fixed(_)) => ("`<`", "string"),
        _ => return shape,
    };
    let message = format!("expected {expected} after the name of `{keyword}`, found {}", place.found());
    let diagnostic = Diagnostic::new(Code::Syntax, place.span(), message).label(format!("expected {expected}"));
    place.error(match (shape, end.is_at(&place)) {
        (Shape::Plain, true) if end.kind(0) == TokenKind::Semicolon => {
            diagnostic.fix(place.gap(), "<>", "make its length variable")
        }
        _ => diagnostic,
    });
    Shape::Variable(None)
}
