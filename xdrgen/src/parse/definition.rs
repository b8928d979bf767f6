//! Definitions of RFC 4506, section 6.3: constants, typedefs, enums, structs and unions.

use nom::Parser;

use crate::ast::{Definition, DefinitionKind, Ident, TypeSpecifier};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::declaration::declaration;
use crate::parse::enumeration::enum_body;
use crate::parse::input::{Mismatch, Parsed, Tokens};
use crate::parse::lexer::TokenKind;
use crate::parse::recovery::{
    after_item, expect, expect_name, is_name, repeated, semicolon, starts_definition, starts_type,
};
use crate::parse::structure::struct_body;
use crate::parse::types::type_specifier;
use crate::parse::union::union_body;
use crate::parse::value::value_or_zero;
use crate::source::Span;

/// What a definition's own parser finds: its name and kind, unless either is lost.
pub(super) type Named = Option<(Ident, DefinitionKind)>;

/// The definition from the start of `input` to the start of `rest`.
pub(super) fn complete(input: Tokens<'_>, rest: Tokens<'_>, named: Named) -> Option<Definition> {
    named.map(|(name, kind)| Definition { name, span: rest.since(input.span()), kind })
}

/// The `;` that ends a definition.
pub(super) fn end(input: Tokens<'_>) -> Parsed<'_, ()> {
    semicolon(|input| {
        let new_line = input.on_new_line();
        let closed = input.previous().is_some_and(|previous| previous.kind == TokenKind::BraceClose);
        starts_definition(input) || new_line && (closed || is_keyword(input.kind(0)))
    })
    .parse(input)
}

/// Whether a keyword begins a definition.
pub(super) fn is_keyword(kind: TokenKind) -> bool {
    use TokenKind::{Const, Enum, Struct, Typedef, Union};
    matches!(kind, Const | Enum | Struct | Typedef | Union)
}

/// `A = 1;`, or as an extension `uint32 A = 1;`
pub(super) fn constant(input: Tokens<'_>) -> Parsed<'_, Named> {
    let (rest, ty) = constant_type(input)?;
    let (rest, name) = expect_name("a name for the constant").parse(rest)?;
    let (rest, _) = (expect(TokenKind::Equal), repeated).parse(rest)?;
    let (rest, value) = value_or_zero("a number").parse(rest)?;
    let (rest, ()) = end(rest)?;
    Ok((rest, name.map(|name| (name, DefinitionKind::Const { ty, value }))))
}

fn constant_type(input: Tokens<'_>) -> Parsed<'_, Option<TypeSpecifier>> {
    let typed = match (input.kind(0), input.kind(1)) {
        (first, second) if is_name(first) => is_name(second),
        (first, _) => starts_type(first) && first != TokenKind::Void,
    };
    if !typed {
        return Ok((input, None));
    }
    let (rest, ty) = type_specifier(input)?;
    input.lint(
        Diagnostic::new(Code::TypedConstant, ty.span, "a constant with a type").label("RFC 4506 has none here").fix(
            Span { end: rest.span().start, ..ty.span },
            "",
            "remove the type",
        ),
    );
    Ok((rest, Some(ty)))
}

/// `T name;` The type and all after it.
pub(super) fn typedef(input: Tokens<'_>) -> Parsed<'_, Named> {
    let Ok((rest, declaration)) = declaration(input) else {
        input.expected("a type");
        return Ok((after_item(input), None));
    };
    let (rest, ()) = end(rest)?;
    Ok((rest, declaration.map(|declaration| (declaration.name.clone(), DefinitionKind::Typedef(declaration)))))
}

/// `name { .. };` of a struct.
pub(super) fn structure(input: Tokens<'_>) -> Parsed<'_, Named> {
    bodied(input, "a name for the struct", struct_body.map(DefinitionKind::Struct))
}

/// `name { .. };` of an enum.
pub(super) fn enumeration(input: Tokens<'_>) -> Parsed<'_, Named> {
    bodied(input, "a name for the enum", enum_body.map(DefinitionKind::Enum))
}

/// `name switch (..) { .. };`
pub(super) fn union(input: Tokens<'_>) -> Parsed<'_, Named> {
    bodied(input, "a name for the union", union_body.map(|body| DefinitionKind::Union(Box::new(body))))
}

fn bodied<'t>(
    input: Tokens<'t>,
    what: &'static str,
    mut body: impl Parser<Tokens<'t>, Output = DefinitionKind, Error = Mismatch>,
) -> Parsed<'t, Named> {
    let (mut rest, name) = expect_name(what).parse(input)?;
    if name.is_none() {
        rest.skip(1).cast_shadow();
    }
    if is_keyword(rest.kind(0)) && matches!(rest.kind(1), TokenKind::BraceOpen | TokenKind::Switch) {
        rest.expected("`{`");
        rest = rest.skip(1);
    }
    if has_no_body(&rest) {
        rest.expected("`{`");
        return Ok((after_item(rest), None));
    }
    let (rest, kind) = body.parse(rest)?;
    let (rest, ()) = end(rest)?;
    Ok((rest, name.map(|name| (name, kind))))
}

/// Whether a declaration's end follows the name rather than a body: `struct foo;`, `struct foo *bar;`
fn has_no_body(input: &Tokens<'_>) -> bool {
    use TokenKind::{AngleOpen, BracketOpen, End, Name, Semicolon, Star};
    match input.kind(0) {
        Semicolon | Star | AngleOpen | BracketOpen | End => input.kind(1) != TokenKind::BraceOpen,
        Name => matches!(input.kind(1), Semicolon | AngleOpen | BracketOpen),
        _ => false,
    }
}
