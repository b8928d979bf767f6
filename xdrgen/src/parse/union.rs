//! Unions: RFC 4506, section 6.3, union-body.
//!
//! An arm without a declaration becomes `void`; one whose declaration has no name is left out. A
//! union of C becomes a placeholder with one arm, so that `check` does not report it again. Several
//! declarations of one arm become a struct with the same encoding. `check` decides whether the
//! discriminant and the cases have valid types and values.

use nom::Parser;
use nom::branch::alt;
use nom::combinator::opt;
use nom::multi::many1;
use nom::sequence::{delimited, terminated};

use crate::ast::Ident;
use crate::ast::{
    ArmBody, Declaration, Declarator, StructBody, TypeKind, TypeSpecifier, UnionArm, UnionBody,
    ValueExpr, ValueExprKind,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::c;
use crate::parse::declaration::{array, declaration};
use crate::parse::input::{ParseResult, Tokens};
use crate::parse::lexer::TokenKind;
use crate::parse::recovery::{
    after_item, close, ends_body, expect, expect_name, is_name, items, repeated, semicolon,
    skip_invalid, starts_declaration, token,
};
use crate::parse::structure::{stray_semicolon, void};
use crate::parse::types::type_specifier;
use crate::parse::value::{expect_value, value};
use crate::source::Span;

/// A `case` or `default` with its content.
enum Item {
    Arm(UnionArm),
    Default(Span, ArmBody),
}

/// Parses `switch (T name) { case A: U b; default: void; }`.
pub(super) fn union_body(input: Tokens<'_>) -> ParseResult<'_, UnionBody> {
    if let Some(rest) = c::union_of_c(input) {
        let body = UnionBody {
            discriminant: placeholder(input),
            arms: vec![unknown_arm(input)],
            default: None,
        };
        return Ok((rest, body));
    }
    let head = (
        terminated(expect(TokenKind::Switch), repeated),
        terminated(expect(TokenKind::ParenOpen), repeated),
    );
    let (rest, discriminant) =
        delimited(head, discriminant, expect(TokenKind::ParenClose)).parse(input)?;
    let (body, open) = terminated(expect(TokenKind::BraceOpen), repeated).parse(rest)?;
    let (rest, items) = items(alt((
        stray_semicolon.map(|()| None),
        item,
        skip_invalid("`case`"),
    )))
    .parse(body)?;
    let (rest, ()) = close(open).parse(rest)?;
    let mut union = UnionBody {
        discriminant,
        arms: Vec::new(),
        default: None,
    };
    for item in items {
        union.add(item, &body);
    }
    Ok((rest, union))
}

/// Parses arms without the union around them: `case A: T name;`.
pub(super) fn arms(input: Tokens<'_>) -> ParseResult<'_, Vec<UnionArm>> {
    let mut arms = Vec::new();
    let mut rest = input;
    while rest.kind(0) == TokenKind::Case {
        let (after, item) = arm(rest)?;
        if let Some(Item::Arm(arm)) = item {
            arms.push(arm);
        }
        if after.is_at(&rest) {
            break;
        }
        rest = after;
    }
    Ok((rest, arms))
}

impl UnionBody {
    fn add(&mut self, item: Item, body: &Tokens<'_>) {
        match (item, &self.default) {
            (Item::Arm(arm), None) => self.arms.push(arm),
            (Item::Arm(arm), Some((default, _))) => {
                let place = arm.cases.first().map_or(*default, |case| case.span);
                let diagnostic = Diagnostic::new(Code::Syntax, place, "a case after `default`");
                body.lint(
                    diagnostic
                        .label("expected before `default`")
                        .note_at(*default, "`default` is here"),
                );
                self.arms.push(arm);
            }
            (Item::Default(keyword, arm), None) => self.default = Some((keyword, arm)),
            (Item::Default(keyword, _), Some((first, _))) => {
                let diagnostic =
                    Diagnostic::new(Code::Syntax, keyword, "a union has one `default`");
                body.lint(
                    diagnostic
                        .label("the second")
                        .note_at(*first, "the first is here"),
                );
            }
        }
    }
}

/// Returns an arm for a union that was reported, so that it is not empty.
fn unknown_arm(input: Tokens<'_>) -> UnionArm {
    let case = ValueExpr {
        span: input.span(),
        kind: ValueExprKind::Number(0),
    };
    UnionArm {
        cases: vec![case],
        body: ArmBody::Void,
    }
}

/// Returns the declaration of a discriminant that is missing.
fn placeholder(input: Tokens<'_>) -> Declaration {
    let span = input.end_of_previous();
    Declaration {
        span,
        ty: TypeSpecifier {
            span,
            kind: TypeKind::Int,
        },
        name: Ident {
            name: "discriminant".to_owned(),
            span,
        },
        declarator: Declarator::Plain,
    }
}

/// Parses `T name`. Reports missing parts and replaces the declaration by an integer.
fn discriminant(input: Tokens<'_>) -> ParseResult<'_, Declaration> {
    if matches!(input.kind(0), TokenKind::String | TokenKind::Opaque) {
        return discriminant_of_bytes(input);
    }
    let (rest, found) = opt(declaration).parse(input)?;
    if found.is_none() {
        input.report_expected("a type");
        let end = (0..4)
            .find(|at| input.kind(*at) == TokenKind::ParenClose)
            .unwrap_or(0);
        return Ok((input.skip(end), placeholder(input)));
    }
    let declaration = found.flatten().unwrap_or_else(|| placeholder(input));
    if !matches!(declaration.declarator, Declarator::Plain) {
        input.error(
            Diagnostic::new(
                Code::Syntax,
                declaration.span,
                "a discriminant is one value",
            )
            .label("expected `T name`"),
        );
    }
    Ok((
        rest,
        Declaration {
            declarator: Declarator::Plain,
            ..declaration
        },
    ))
}

/// Parses `string name` or `opaque name`, with or without a length. `check` reports the type.
fn discriminant_of_bytes(input: Tokens<'_>) -> ParseResult<'_, Declaration> {
    let (rest, ty) = type_specifier(input)?;
    let (rest, _) = opt(token(TokenKind::Star)).parse(rest)?;
    let (rest, name) = expect_name("a name").parse(rest)?;
    let (rest, _) = opt(array).parse(rest)?;
    let span = rest.since(input.span());
    let declaration = name.map(|name| Declaration {
        span,
        ty,
        name,
        declarator: Declarator::Variable(None),
    });
    Ok((rest, declaration.unwrap_or_else(|| placeholder(input))))
}

fn item(input: Tokens<'_>) -> ParseResult<'_, Option<Item>> {
    let default = |input| {
        let (rest, keyword) = token(TokenKind::Default).parse(input)?;
        let (rest, _) = (repeated, expect(TokenKind::Colon)).parse(rest)?;
        let (rest, body) = arm_body(rest)?;
        Ok((rest, body.map(|body| Item::Default(keyword.span, body))))
    };
    alt((arm, default)).parse(input)
}

fn arm(input: Tokens<'_>) -> ParseResult<'_, Option<Item>> {
    let (rest, cases) = many1(case).parse(input)?;
    let cases: Vec<ValueExpr> = cases.into_iter().flatten().collect();
    let (rest, body) = arm_body(rest)?;
    Ok((
        rest,
        body.filter(|_| !cases.is_empty())
            .map(|body| Item::Arm(UnionArm { cases, body })),
    ))
}

/// Parses `case A:`, also if `case` is missing.
fn case(input: Tokens<'_>) -> ParseResult<'_, Option<ValueExpr>> {
    if starts_case(&input) {
        input.report_missing(TokenKind::Case);
        return terminated(value.map(Some), token(TokenKind::Colon)).parse(input);
    }
    let (rest, _) = (token(TokenKind::Case), repeated).parse(input)?;
    let (rest, value) = expect_value("a value").parse(rest)?;
    if rest.kind(0) == TokenKind::Comma && starts_case(&rest.skip(1)) {
        let found = rest.expected_diagnostic("`:`");
        rest.error(found.fix(rest.span(), ": case", "write `case` before each value"));
        return Ok((rest.skip(1), value));
    }
    let (rest, _) = expect(TokenKind::Colon).parse(rest)?;
    Ok((rest, value))
}

/// Returns true if a value and a colon are here without `case`.
fn starts_case(input: &Tokens<'_>) -> bool {
    (is_name(input.kind(0)) || input.kind(0) == TokenKind::Number)
        && input.kind(1) == TokenKind::Colon
}

/// Parses the declaration after the colon. Returns `None` if it is missing or invalid, which is
/// reported.
fn arm_body(input: Tokens<'_>) -> ParseResult<'_, Option<ArmBody>> {
    if let Some(rest) = c::instead_of_void(input) {
        return Ok((rest, Some(ArmBody::Void)));
    }
    let (rest, first) = match arm_declaration(input) {
        Ok(found) => found,
        Err(_) => return no_declaration(input),
    };
    let (end, more) = more_declarations(rest)?;
    if more.is_empty() {
        return Ok((end, first));
    }
    rest.error(
        Diagnostic::new(
            Code::SeveralDeclarations,
            end.since(input.span()),
            "an arm with several declarations",
        )
        .label("an arm has one declaration")
        .note("wrap them in a struct, which has the same encoding: `struct { .. } name;`"),
    );
    let body = std::iter::once(first).chain(more).flatten();
    Ok((end, wrap_in_struct(body.collect(), end.since(input.span()))))
}

/// Wraps the declarations of an arm in a struct, so that all of them are checked. The struct has
/// the name of the first.
fn wrap_in_struct(bodies: Vec<ArmBody>, span: Span) -> Option<ArmBody> {
    let declaration = |body| {
        if let ArmBody::Field(declaration) = body {
            Some(*declaration)
        } else {
            None
        }
    };
    let fields: Vec<Declaration> = bodies.into_iter().filter_map(declaration).collect();
    let Some(first) = fields.first() else {
        return Some(ArmBody::Void);
    };
    let name = first.name.clone();
    let ty = TypeSpecifier {
        span,
        kind: TypeKind::Struct(StructBody { fields }),
    };
    Some(ArmBody::Field(Box::new(Declaration {
        span,
        ty,
        name,
        declarator: Declarator::Plain,
    })))
}

fn arm_declaration(input: Tokens<'_>) -> ParseResult<'_, Option<ArmBody>> {
    let field = terminated(declaration, semicolon(starts_item))
        .map(|field| field.map(|field| ArmBody::Field(Box::new(field))));
    alt((void.map(|()| Some(ArmBody::Void)), field)).parse(input)
}

/// Returns true if the next case or declaration begins here.
fn starts_item(input: &Tokens<'_>) -> bool {
    matches!(input.kind(0), TokenKind::Case | TokenKind::Default)
        || starts_case(input)
        || starts_declaration(input)
}

/// Parses the declarations after the first of an arm.
fn more_declarations(mut input: Tokens<'_>) -> ParseResult<'_, Vec<Option<ArmBody>>> {
    let mut more = Vec::new();
    if let Some(rest) = c::after_break(input) {
        return Ok((rest, more));
    }
    while !ends_body(&input)
        && !starts_case(&input)
        && !matches!(input.kind(1), TokenKind::Case | TokenKind::BraceClose)
        && let Ok((rest, body)) = arm_declaration(input)
    {
        input = rest;
        more.push(body);
    }
    Ok((input, more))
}

/// Reports an arm without a declaration. An extra token before the declaration is skipped.
fn no_declaration(input: Tokens<'_>) -> ParseResult<'_, Option<ArmBody>> {
    let empty = ends_body(&input) || matches!(input.kind(0), TokenKind::Case | TokenKind::Default);
    let diagnostic = input.expected_diagnostic("a declaration");
    if input.kind(0) == TokenKind::Semicolon {
        input.error(diagnostic.fix(input.start_of_first(), "void", "add `void`"));
        return Ok((input.skip(1), Some(ArmBody::Void)));
    }
    input.error(if empty {
        diagnostic.fix(input.end_of_previous(), " void;", "add `void;`")
    } else {
        diagnostic
    });
    if empty {
        return Ok((input, Some(ArmBody::Void)));
    }
    if starts_declaration(&input.skip(1)) {
        return arm_body(input.skip(1));
    }
    Ok((after_item(input), Some(ArmBody::Void)))
}
