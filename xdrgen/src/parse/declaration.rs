//! Declarations: a type, a name and a declarator (RFC 4506, section 6.3, declaration).
//!
//! The `;` is left to the caller, because structs, arms and typedefs continue in different ways.
//! Each error yields a declarator that is valid for its type, so that `check` reports nothing more:
//! `opaque` and `string` always have a length. `program` reads declarators without a name, by
//! `array`.

use nom::Parser;
use nom::branch::alt;
use nom::combinator::opt;
use nom::sequence::delimited;

use crate::ast::{Declaration, Declarator, Ident, TypeKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::c;
use crate::parse::input::{ParseResult, Tokens};
use crate::parse::lexer::TokenKind;
use crate::parse::recovery::{
    expect, expect_name, ident, is_name, repeated, starts_declaration, token,
};
use crate::parse::types::type_specifier;
use crate::parse::value::{expect_value, value};

/// Parses a declaration without its `;`. Returns `Err::Error` if no type begins here, and `None` if
/// the name is missing.
pub(super) fn declaration(input: Tokens<'_>) -> ParseResult<'_, Option<Declaration>> {
    if let Some((rest, declaration)) = c::untyped(input) {
        return Ok((rest, Some(declaration)));
    }
    let (rest, ty) = type_specifier(input)?;
    let (rest, star) = opt(token(TokenKind::Star)).parse(rest)?;
    let (rest, name) = declared_name(rest)?;
    let (after, array) = opt(array).parse(rest)?;
    let after = match (&name, &array) {
        (Some(name), Some(_)) => after_dimensions(name, rest, after),
        _ => after,
    };
    let (end, name) = if name.is_some() {
        (after, name)
    } else {
        late_name(after, array.is_some())?
    };
    let declarator = match (star, array) {
        (None, None) => Declarator::Plain,
        (None, Some(declarator)) => declarator,
        (Some(_), None) => Declarator::Optional,
        (Some(star), Some(_)) => {
            let message = "an optional value can't be an array too";
            let diagnostic =
                Diagnostic::new(Code::Syntax, rest.span(), message).label("expected `;`");
            rest.error(diagnostic.note_at(star.span, "this makes it optional"));
            Declarator::Optional
        }
    };
    let declarator = check_declarator(&ty.kind, declarator, rest, end);
    let Some(name) = name else {
        return Ok((end, None));
    };
    let after = c::after_declarator(end, &ty);
    let span = end.since(input.span());
    Ok((
        after,
        Some(Declaration {
            span,
            ty,
            name,
            declarator,
        }),
    ))
}

/// Reports and skips the bounds after the first of an array: `[4]` in `matrix[3][4]`.
fn after_dimensions<'t>(name: &Ident, first: Tokens<'t>, input: Tokens<'t>) -> Tokens<'t> {
    let Ok((mut rest, _)) = array(input) else {
        return input;
    };
    while let Ok((after, _)) = array(rest) {
        rest = after;
    }
    let (outer, inner) = (first.text_before(input), input.text_before(rest));
    let message = "XDR has no arrays of more than one dimension";
    let found = Diagnostic::new(Code::Syntax, rest.since(input.span()), message);
    input.error(found.label("a second dimension").note(format!(
        "define a type for the elements, `typedef T row{inner};`, and use it: `row {}{outer};`",
        name.name
    )));
    rest
}

/// Parses the name after the type, also behind a misplaced `;`.
fn declared_name(input: Tokens<'_>) -> ParseResult<'_, Option<Ident>> {
    let (name, after) = (input.skip(1), input.skip(2));
    if input.kind(0) == TokenKind::Semicolon && is_name(name.kind(0)) && !name.on_new_line() {
        let swapped = if starts_declaration(&name) {
            starts_declaration(&after)
        } else {
            begins_item(&after)
        };
        if swapped || after.kind(0) == TokenKind::Semicolon {
            return misplaced_semicolon(input, swapped);
        }
    }
    if let Some((rest, name)) = c::function_pointer(input) {
        return Ok((rest, Some(name)));
    }
    if let Some(found) = length_first(&input) {
        input.error(found);
        return Ok((input, None));
    }
    expect_name("a name").parse(input)
}

/// Returns the error of a length before the name, as in `uint32[4] name`.
fn length_first(input: &Tokens<'_>) -> Option<Diagnostic> {
    let (after, _) = match input.kind(0) {
        TokenKind::BracketOpen | TokenKind::AngleOpen => array(*input).ok()?,
        _ => return None,
    };
    let name = after.peek(0).filter(|token| is_name(token.kind))?;
    let place = input.end_of_previous().to(name.span);
    let moved = format!(" {}{}", name.text, input.text_before(after));
    let found = input.expected_diagnostic("a name");
    let found = found.label("the length follows the name");
    Some(found.fix(place, moved, "put it after the name"))
}

/// Returns true if a field or an arm begins here, or the body ends.
fn begins_item(input: &Tokens<'_>) -> bool {
    let ends = matches!(
        input.kind(0),
        TokenKind::BraceClose | TokenKind::Case | TokenKind::Default
    );
    ends || starts_declaration(input)
}

/// Reports the `;` between a type and its name.
fn misplaced_semicolon(input: Tokens<'_>, swapped: bool) -> ParseResult<'_, Option<Ident>> {
    let diagnostic = input.expected_diagnostic("a name");
    let name = input.skip(1).found().trim_matches('`').to_owned();
    input.error(if swapped {
        let both = input.span().to(input.skip(1).span());
        diagnostic.fix(both, format!(" {name};"), "put the `;` after the name")
    } else {
        diagnostic.fix(input.span(), "", "remove the `;`")
    });
    ident.map(Some).parse(input.skip(1))
}

/// Parses the name after the array's bounds, as in `uint32[4] name`, if there was none before.
fn late_name(input: Tokens<'_>, array: bool) -> ParseResult<'_, Option<Ident>> {
    if array {
        opt(ident).parse(input)
    } else {
        Ok((input, None))
    }
}

/// Parses `[N]`, `<N>` or `<>`.
pub(super) fn array(input: Tokens<'_>) -> ParseResult<'_, Declarator> {
    alt((fixed, variable)).parse(input)
}

fn fixed(input: Tokens<'_>) -> ParseResult<'_, Declarator> {
    if (input.kind(0), input.kind(1)) == (TokenKind::BracketOpen, TokenKind::BracketClose) {
        let both = input.span().to(input.skip(1).span());
        let found = input.skip(1).expected_diagnostic("a size");
        input
            .skip(1)
            .error(found.fix(both, "<>", "make its length variable"));
        return Ok((input.skip(2), Declarator::Variable(None)));
    }
    let size = delimited(
        (token(TokenKind::BracketOpen), repeated),
        expect_value("a size"),
        expect(TokenKind::BracketClose),
    );
    size.map(|size| size.map_or(Declarator::Variable(None), Declarator::Fixed))
        .parse(input)
}

fn variable(input: Tokens<'_>) -> ParseResult<'_, Declarator> {
    let bound = delimited(
        (token(TokenKind::AngleOpen), repeated),
        opt(value),
        expect(TokenKind::AngleClose),
    );
    bound.map(Declarator::Variable).parse(input)
}

/// Checks a declarator against `opaque`, which requires a length, and `string`, which requires a
/// bound.
fn check_declarator<'t>(
    ty: &TypeKind,
    declarator: Declarator,
    place: Tokens<'t>,
    end: Tokens<'t>,
) -> Declarator {
    let (expected, keyword) = match (ty, &declarator) {
        (TypeKind::String, Declarator::Plain) if is_bare(place, end) => {
            return bare_string(place);
        }
        (TypeKind::Opaque | TypeKind::ZeroCopyOpaque, Declarator::Plain | Declarator::Optional) => {
            ("`[` or `<`", "opaque")
        }
        (TypeKind::String, Declarator::Plain | Declarator::Optional | Declarator::Fixed(_)) => {
            ("`<`", "string")
        }
        _ => return declarator,
    };
    let message = format!(
        "expected {expected} after the name of `{keyword}`, found {}",
        place.found()
    );
    let diagnostic =
        Diagnostic::new(Code::Syntax, place.span(), message).label(format!("expected {expected}"));
    let help = "make its length variable";
    place.error(match (declarator, end.is_at(&place)) {
        (Declarator::Plain, true) if end.kind(0) == TokenKind::Semicolon => {
            diagnostic.fix(place.end_of_previous(), "<>", help)
        }
        (Declarator::Fixed(_), false) => {
            let length = place.text_before(end);
            let bound = length.trim_matches(['[', ']']);
            let brackets = end.since(place.span());
            diagnostic.fix(brackets, format!("<{bound}>"), help)
        }
        (Declarator::Optional, true) => match (place.back(2), place.back(1)) {
            (Some(star), Some(name)) if star.kind == TokenKind::Star => {
                let both = star.span.to(name.span);
                diagnostic.fix(both, format!("{}<>", name.text), help)
            }
            _ => diagnostic,
        },
        _ => diagnostic,
    });
    Declarator::Variable(None)
}

/// Returns true if a declaration is complete without a length.
fn is_bare(place: Tokens<'_>, end: Tokens<'_>) -> bool {
    end.is_at(&place) && end.kind(0) == TokenKind::Semicolon
}

/// Reports `string x;`, which other compilers read as `string x<>;`.
fn bare_string(place: Tokens<'_>) -> Declarator {
    let name = place.previous().map_or(place.span(), |token| token.span);
    place.lint(
        Diagnostic::new(Code::BareString, name, "a string without `<>`")
            .label("RFC 4506 has `string x<>`")
            .fix(place.end_of_previous(), "<>", "make its length variable"),
    );
    Declarator::Variable(None)
}
