//! Definitions of RFC 4506, section 6.3: constants, typedefs, enums, structs and unions.
//!
//! Each parser begins after its keyword, because `specification` also calls it where the keyword is
//! missing or misspelled, and consumes the `;`. Programs are in `program`.

use nom::Parser;

use crate::ast::{Definition, DefinitionKind, Ident, TypeSpecifier, ValueExpr, ValueExprKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::c::{after_attribute, after_base, after_class, report_without_body};
use crate::parse::declaration::declaration;
use crate::parse::enumeration::enum_body;
use crate::parse::input::{Mismatch, ParseResult, Tokens};
use crate::parse::lexer::TokenKind;
use crate::parse::number;
use crate::parse::recovery::{
    after_item, expect, expect_name, is_name, repeated, semicolon, starts_definition, starts_type,
    token,
};
use crate::parse::structure::struct_body;
use crate::parse::types::type_specifier;
use crate::parse::union::union_body;
use crate::parse::value::value_or_zero;
use crate::source::Span;

/// The result of a definition's parser: its name and kind, or `None` if one of them is missing.
pub(super) type NameAndKind = Option<(Ident, DefinitionKind)>;

/// Builds the definition from the start of `input` to the start of `rest`.
pub(super) fn finish(
    input: Tokens<'_>,
    rest: Tokens<'_>,
    named: NameAndKind,
) -> Option<Definition> {
    named.map(|(name, kind)| Definition {
        name,
        span: rest.since(input.span()),
        kind,
    })
}

/// Parses the `;` that ends a definition.
pub(super) fn end(input: Tokens<'_>) -> ParseResult<'_, ()> {
    semicolon(|input| {
        let new_line = input.on_new_line();
        let closed = input
            .previous()
            .is_some_and(|previous| previous.kind == TokenKind::BraceClose);
        starts_definition(input) || new_line && (closed || is_keyword(input.kind(0)))
    })
    .parse(input)
}

/// Returns true if a keyword begins a definition.
pub(super) fn is_keyword(kind: TokenKind) -> bool {
    use TokenKind::{Const, Enum, Struct, Typedef, Union};
    matches!(kind, Const | Enum | Struct | Typedef | Union)
}

/// Parses `A = 1;`, or the extension `uint32 A = 1;`.
pub(super) fn constant(input: Tokens<'_>) -> ParseResult<'_, NameAndKind> {
    let (rest, ty) = constant_type(input)?;
    let (rest, name) = expect_name("a name for the constant").parse(rest)?;
    let (rest, _) = (expect(TokenKind::Equal), repeated).parse(rest)?;
    if ty.is_none() && rest.kind(0) == TokenKind::Text {
        return string_constant(rest, name);
    }
    let (rest, value) = value_or_zero("a number").parse(rest)?;
    if let Some(name) = &name {
        input.define(name, Some(&value), None);
    }
    lint_width(input, &value);
    let (rest, ()) = end(rest)?;
    Ok((
        rest,
        name.map(|name| (name, DefinitionKind::Const { ty, value })),
    ))
}

/// Parses the value of `A = "text";`, an extension of rpcgen.
fn string_constant(input: Tokens<'_>, name: Option<Ident>) -> ParseResult<'_, NameAndKind> {
    let (rest, text) = token(TokenKind::Text).parse(input)?;
    let found = Diagnostic::new(
        Code::StringConstant,
        text.span,
        "a constant that is a string",
    );
    input.lint(found.label("RFC 4506 has only numbers"));
    if let Some(at) = text.text.find('\\') {
        let start = text.span.range().start + at;
        let span = Span::new(text.span.text, start..start + 1);
        let found = Diagnostic::new(Code::InvalidToken, span, "a `\\` in a string");
        input.lint(found.label("C reads an escape sequence here, rpcgen does not"));
    }
    let value = text.text.trim_matches('"').to_owned();
    let (rest, ()) = end(rest)?;
    let kind = DefinitionKind::Text {
        value,
        span: text.span,
    };
    Ok((rest, name.map(|name| (name, kind))))
}

fn lint_width(input: Tokens<'_>, value: &ValueExpr) {
    if let Some(found) = width(value) {
        input.lint(found);
    }
}

/// Returns the lint of a number of more than 64 bits, which no type of XDR holds.
pub(super) fn width(value: &ValueExpr) -> Option<Diagnostic> {
    let ValueExprKind::Number(number) = value.kind else {
        return None;
    };
    (!number::fits(number)).then(|| {
        let message = "a constant of more than 64 bits";
        Diagnostic::new(Code::WideConstant, value.span, message)
            .label("it can be compared, and is no value of a type of XDR")
    })
}

fn constant_type(input: Tokens<'_>) -> ParseResult<'_, Option<TypeSpecifier>> {
    let typed = match (input.kind(0), input.kind(1)) {
        (first, second) if is_name(first) => is_name(second),
        (first, _) => starts_type(first) && first != TokenKind::Void,
    };
    if !typed {
        return Ok((input, None));
    }
    let (rest, ty) = type_specifier(input)?;
    input.lint(
        Diagnostic::new(Code::TypedConstant, ty.span, "a constant with a type")
            .label("RFC 4506 has none here")
            .fix(
                Span {
                    end: rest.span().start,
                    ..ty.span
                },
                "",
                "remove the type",
            ),
    );
    Ok((rest, Some(ty)))
}

/// Parses the rest of `typedef T name;`.
pub(super) fn typedef(input: Tokens<'_>) -> ParseResult<'_, NameAndKind> {
    let Ok((rest, declaration)) = declaration(input) else {
        input.report_expected("a type");
        return Ok((after_item(input), None));
    };
    let (rest, ()) = end(rest)?;
    Ok((
        rest,
        declaration.map(|declaration| {
            (
                declaration.name.clone(),
                DefinitionKind::Typedef(declaration),
            )
        }),
    ))
}

/// Parses `name { .. };` of a struct.
pub(super) fn structure(input: Tokens<'_>) -> ParseResult<'_, NameAndKind> {
    name_and_body(
        input,
        "a name for the struct",
        struct_body.map(DefinitionKind::Struct),
    )
}

/// Parses `name { .. };` of an enum.
pub(super) fn enumeration(input: Tokens<'_>) -> ParseResult<'_, NameAndKind> {
    name_and_body(
        after_class(input),
        "a name for the enum",
        enum_body.map(DefinitionKind::Enum),
    )
}

/// Parses `name switch (..) { .. };`.
pub(super) fn union(input: Tokens<'_>) -> ParseResult<'_, NameAndKind> {
    name_and_body(
        input,
        "a name for the union",
        union_body.map(|body| DefinitionKind::Union(Box::new(body))),
    )
}

fn name_and_body<'t>(
    input: Tokens<'t>,
    what: &'static str,
    mut body: impl Parser<Tokens<'t>, Output = DefinitionKind, Error = Mismatch>,
) -> ParseResult<'t, NameAndKind> {
    let (mut rest, name) = expect_name(what).parse(input)?;
    rest = after_base(rest);
    if name.is_none() {
        rest.skip(1).start_cascade();
    }
    if is_keyword(rest.kind(0)) && matches!(rest.kind(1), TokenKind::BraceOpen | TokenKind::Switch)
    {
        rest.report_expected("`{`");
        rest = rest.skip(1);
    }
    if has_no_body(&rest) {
        let keyword = input.previous().map_or(input.span(), |token| token.span);
        report_without_body(keyword, rest);
        return Ok((after_item(rest), None));
    }
    let (rest, kind) = body.parse(rest)?;
    let (rest, ()) = end(after_variable(after_attribute(rest)))?;
    let name = name.or_else(|| unnamed(input, &kind));
    Ok((rest, name.map(|name| (name, kind))))
}

/// Returns a name for an enum without one, so that the uses of its members are no errors.
fn unnamed(input: Tokens<'_>, kind: &DefinitionKind) -> Option<Ident> {
    let span = input.span();
    let name = format!("unnamed_{}", span.start);
    matches!(kind, DefinitionKind::Enum(_)).then_some(Ident { name, span })
}

/// Skips the name in `struct a { .. } b;`, which declares a variable in C. Only the prose of a
/// document may have it.
fn after_variable(input: Tokens<'_>) -> Tokens<'_> {
    let previous = input.previous().map(|previous| previous.kind);
    let found = previous == Some(TokenKind::BraceClose)
        && is_name(input.kind(0))
        && input.kind(1) == TokenKind::Semicolon;
    if !input.is_prose() || !found {
        return input;
    }
    let lint = Diagnostic::new(
        Code::VariableName,
        input.span(),
        "a name follows the body of a definition",
    );
    input.lint(lint.label("it is ignored: XDR has no variables"));
    input.skip(1)
}

/// Returns true if the name is followed by the end of a declaration and not by a body: `struct
/// foo;`, `struct foo *bar;`
fn has_no_body(input: &Tokens<'_>) -> bool {
    use TokenKind::{AngleOpen, BracketOpen, End, Name, Semicolon, Star};
    match input.kind(0) {
        Semicolon | Star | AngleOpen | BracketOpen | End => input.kind(1) != TokenKind::BraceOpen,
        Name => matches!(input.kind(1), Semicolon | AngleOpen | BracketOpen),
        _ => false,
    }
}
