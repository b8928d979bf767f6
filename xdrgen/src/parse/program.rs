//! Programs, versions and procedures: RFC 5531, section 12.2.
//!
//! Extensions are lints: named arguments, declarators, and more than [`MAX_ARGUMENTS`] arguments,
//! which become one argument whose struct has the same encoding; its fields `arg1`, `arg2` are
//! public names of the generated code. `void` is no argument and no reply in the tree. `check`
//! decides whether numbers are valid and different.

use nom::branch::alt;
use nom::combinator::opt;
use nom::multi::separated_list0;
use nom::sequence::{delimited, terminated};
use nom::{Input, Parser};

use crate::ast::{
    Declaration, Declarator, DefinitionKind, Ident, Parameter, ProgramBody, ProgramProcedure,
    ProgramVersion, StructBody, TypeKind, TypeSpecifier, ValueExpr, ValueExprKind,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::declaration::array;
use crate::parse::definition::{NameAndKind, end, is_keyword};
use crate::parse::input::{Mismatch, ParseResult, Tokens};
use crate::parse::lexer::{Token, TokenKind};
use crate::parse::recovery::{
    close, expect, expect_name, ident, items, repeated, semicolon, skip_invalid,
    starts_declaration, token, word,
};
use crate::parse::structure::stray_semicolon;
use crate::parse::types::type_specifier;
use crate::parse::value::value_or_zero;
use crate::source::Span;

/// The maximum number of tokens between a procedure's arguments and their `)` that are skipped as
/// one defect.
const MAX_SKIPPED: usize = 64;

/// The maximum number of arguments that are not put into a struct: the number of elements of the
/// largest tuple that the runtime encodes.
const MAX_ARGUMENTS: usize = 8;

/// Parses `program NAME { version .. } = 1;`.
pub(super) fn program(input: Tokens<'_>) -> ParseResult<'_, NameAndKind> {
    let (rest, _) = (word("program"), repeated_word("program")).parse(input)?;
    program_after_keyword(rest)
}

/// Parses `NAME { version .. } = 1;`.
pub(super) fn program_after_keyword(input: Tokens<'_>) -> ParseResult<'_, NameAndKind> {
    let (rest, name) = expect_name("a name for the program").parse(input)?;
    let item = alt((
        stray_semicolon.map(|()| None),
        version,
        skip_invalid("`version`"),
    ));
    let (rest, versions) = braced(item).parse(rest)?;
    let (rest, number) = number("a program number").parse(rest)?;
    let (rest, ()) = end(rest)?;
    Ok((
        rest,
        name.map(|name| {
            (
                name,
                DefinitionKind::Program(ProgramBody { versions, number }),
            )
        }),
    ))
}

/// Parses `{ .. }`.
fn braced<'t, T>(
    item: impl Parser<Tokens<'t>, Output = Option<T>, Error = Mismatch>,
) -> impl Parser<Tokens<'t>, Output = Vec<T>, Error = Mismatch> {
    let mut items = items(item);
    move |input: Tokens<'t>| {
        let (rest, open) = terminated(expect(TokenKind::BraceOpen), repeated).parse(input)?;
        let (rest, found) = items.parse(rest)?;
        let (rest, ()) = close(open).parse(rest)?;
        Ok((rest, found))
    }
}

/// Parses `= 1`. If the next definition follows instead, reports that at the end of what is there.
fn number<'t>(what: &'static str) -> impl Parser<Tokens<'t>, Output = ValueExpr, Error = Mismatch> {
    move |input: Tokens<'t>| {
        if begins_definition(&input) {
            let (span, found) = (input.end_of_previous(), input.found());
            let message = format!("expected `=` and {what}, found {found}");
            let label = format!("expected `=` and {what}");
            input.error(Diagnostic::new(Code::Syntax, span, message).label(label));
            let kind = ValueExprKind::Number(0);
            return Ok((input, ValueExpr { span, kind }));
        }
        let mut number = (expect(TokenKind::Equal), repeated, value_or_zero(what));
        number
            .parse(input)
            .map(|(rest, (_, _, value))| (rest, value))
    }
}

/// Returns true if the first tokens are no number: a keyword, or two names.
fn begins_definition(input: &Tokens<'_>) -> bool {
    is_keyword(input.kind(0))
        || (input.kind(0) == TokenKind::Name && input.kind(1) == TokenKind::Name)
}

/// Parses `version NAME { T PROC(U) = 1; } = 1;`.
fn version(input: Tokens<'_>) -> ParseResult<'_, Option<ProgramVersion>> {
    let (rest, _) = alt((word("version").map(|_| ()), missing_version)).parse(input)?;
    let (rest, ()) = repeated_word("version").parse(rest)?;
    let (rest, name) = expect_name("a name for the version").parse(rest)?;
    let item = alt((
        stray_semicolon.map(|()| None),
        procedure,
        skip_invalid("a procedure"),
    ));
    let (rest, procedures) = braced(item).parse(rest)?;
    let (rest, number) = number("a version number").parse(rest)?;
    let (rest, ()) = semicolon(|input| input.peek(0).is_some_and(|token| token.text == "version"))
        .parse(rest)?;
    Ok((
        rest,
        name.map(|name| ProgramVersion {
            name,
            procedures,
            number,
        }),
    ))
}

/// Reports a missing `version` before a name and a body.
fn missing_version(input: Tokens<'_>) -> ParseResult<'_, ()> {
    let (_, _) = (token(TokenKind::Name), token(TokenKind::BraceOpen)).parse(input)?;
    input.error(input.expected_diagnostic("`version`").fix(
        input.start_of_first(),
        "version ",
        "add `version`",
    ));
    Ok((input, ()))
}

/// Skips a second `keyword` before the name, and reports it.
fn repeated_word<'t>(
    keyword: &'static str,
) -> impl Parser<Tokens<'t>, Output = (), Error = Mismatch> {
    move |input: Tokens<'t>| {
        if input.kind(1) != TokenKind::Name {
            return Ok((input, ()));
        }
        let (rest, second) = opt(word(keyword)).parse(input)?;
        if let Some(second) = second {
            let diagnostic = input.expected_diagnostic("a name");
            input.error(diagnostic.fix(second.span, "", format!("remove `{keyword}`")));
        }
        Ok((rest, ()))
    }
}

/// Parses `T PROC(U, V) = 1;`.
fn procedure(input: Tokens<'_>) -> ParseResult<'_, Option<ProgramProcedure>> {
    let (rest, reply) = alt((
        missing_reply.map(|()| None),
        (token(TokenKind::Void), repeated).map(|_| None),
        parameter.map(Some),
    ))
    .parse(input)?;
    let (rest, name) = expect_name("a name for the procedure").parse(rest)?;
    let open = (expect(TokenKind::ParenOpen), repeated);
    let (rest, arguments) = delimited(open, arguments, end_of_arguments).parse(rest)?;
    let (rest, number) = number("a procedure number").parse(rest)?;
    let (rest, ()) = semicolon(starts_declaration).parse(rest)?;
    let span = rest.since(input.span());
    Ok((
        rest,
        name.map(|name| ProgramProcedure {
            arguments: limited(input, &name, arguments),
            name,
            span,
            reply,
            number,
        }),
    ))
}

/// Reports a procedure without the type of its results.
fn missing_reply(input: Tokens<'_>) -> ParseResult<'_, ()> {
    let (_, _) = (token(TokenKind::Name), token(TokenKind::ParenOpen)).parse(input)?;
    let found = input.expected_diagnostic("`void` or a type");
    input.error(found.fix(input.start_of_first(), "void ", "add `void`"));
    Ok((input, ()))
}

/// Puts more arguments than a tuple has into a struct, which has the same encoding.
fn limited(input: Tokens<'_>, procedure: &Ident, arguments: Vec<Parameter>) -> Vec<Parameter> {
    let count = arguments.len();
    let (Some(first), Some(last)) = (arguments.first(), arguments.last()) else {
        return arguments;
    };
    if count <= MAX_ARGUMENTS {
        return arguments;
    }
    let span = first.span.to(last.span);
    let message = format!("`{}` has {count} arguments", procedure.name);
    input.lint(
        Diagnostic::new(Code::ManyArguments, span, message)
            .label(format!("more than {MAX_ARGUMENTS}: they become a struct")),
    );
    let field = |(at, argument): (usize, Parameter)| Declaration {
        span: argument.span,
        name: argument.name.unwrap_or_else(|| Ident {
            name: format!("arg{}", at + 1),
            span: argument.ty.span,
        }),
        ty: argument.ty,
        declarator: argument.declarator,
    };
    let fields = arguments.into_iter().enumerate().map(field).collect();
    let ty = TypeSpecifier {
        span,
        kind: TypeKind::Struct(StructBody { fields }),
    };
    vec![Parameter {
        span,
        ty,
        declarator: Declarator::Plain,
        name: None,
    }]
}

/// Parses `void`, or types separated by commas.
fn arguments(input: Tokens<'_>) -> ParseResult<'_, Vec<Parameter>> {
    if let Ok((rest, _)) = (token(TokenKind::Void), repeated).parse(input) {
        return Ok((rest, Vec::new()));
    }
    let (rest, types) = separated_list0(token(TokenKind::Comma), argument).parse(input)?;
    if types.is_empty() {
        let diagnostic = input.expected_diagnostic("`void` or a type");
        input.error(match input.kind(0) {
            TokenKind::ParenClose => {
                diagnostic.fix(input.end_of_previous(), "void", "write `void`")
            }
            _ => diagnostic,
        });
    }
    let (rest, comma) = opt(token(TokenKind::Comma)).parse(rest)?;
    match comma {
        Some(comma) if !types.is_empty() && rest.kind(0) == TokenKind::ParenClose => input.lint(
            Diagnostic::new(
                Code::TrailingComma,
                comma.span,
                "a comma after the last argument",
            )
            .label("extra comma")
            .fix(comma.span, "", "remove it"),
        ),
        Some(_) => rest.report_expected("a type"),
        None => {}
    }
    Ok((rest, types))
}

/// Parses the `)`, and skips tokens before it that are not arguments.
fn end_of_arguments(input: Tokens<'_>) -> ParseResult<'_, ()> {
    use TokenKind::{BraceClose, BraceOpen, ParenClose, Semicolon};
    let ends =
        |token: Token<'_>| matches!(token.kind, BraceClose | BraceOpen | ParenClose | Semicolon);
    match input.take(MAX_SKIPPED).position(ends) {
        Some(end) if end > 0 && input.kind(end) == ParenClose => {
            input.report_expected("`)`");
            input.skip(end).start_cascade();
            Ok((input.skip(end + 1), ()))
        }
        _ => expect(ParenClose).map(|_| ()).parse(input),
    }
}

/// Parses an argument, with its name if it has one.
fn argument(input: Tokens<'_>) -> ParseResult<'_, Parameter> {
    let (rest, mut parameter) = parameter(input)?;
    let (after, name) = opt(ident).parse(rest)?;
    let Some(name) = name else {
        return Ok((rest, parameter));
    };
    let message = format!("the argument `{}` has a name", name.name);
    rest.lint(
        Diagnostic::new(Code::NamedArgument, name.span, message)
            .label("RFC 5531 has only its type")
            .fix(with_blank(rest, name.span), "", "remove the name"),
    );
    let (end, length) = opt(array).parse(after)?;
    if let Some(length) = length {
        if matches!(parameter.declarator, Declarator::Plain) {
            lint_declarator(input, end);
            parameter.declarator = length;
        } else {
            after.report_expected("`,` or `)`");
        }
    }
    check_length(input, &parameter);
    parameter.span = end.since(input.span());
    parameter.name = Some(name);
    Ok((end, parameter))
}

/// Returns the span of the first token with the one blank before it.
fn with_blank(input: Tokens<'_>, token: Span) -> Span {
    let before = input.end_of_previous();
    // A longer gap may be a comment.
    match token.start.checked_sub(before.end) {
        Some(1) => before.to(token),
        _ => token,
    }
}

/// Parses a type with an optional declarator: `T`, `T *`, `T<3>`.
fn parameter(input: Tokens<'_>) -> ParseResult<'_, Parameter> {
    let (rest, ty) = type_specifier(input)?;
    let (after_star, star) = opt(token(TokenKind::Star)).parse(rest)?;
    let (end, declarator) = match star {
        Some(_) => (after_star, Declarator::Optional),
        None => opt(array)
            .map(|length| length.unwrap_or(Declarator::Plain))
            .parse(rest)?,
    };
    if !end.is_at(&rest) {
        lint_declarator(input, end);
    }
    let parameter = Parameter {
        span: end.since(input.span()),
        ty,
        declarator,
        name: None,
    };
    if end.kind(0) != TokenKind::Name || end.kind(1) == TokenKind::ParenOpen {
        check_length(input, &parameter);
    }
    Ok((end, parameter))
}

/// Reports a type of a procedure that is more than a type specifier.
fn lint_declarator(input: Tokens<'_>, end: Tokens<'_>) {
    let span = end.since(input.span());
    let message = "a type with a declarator in a procedure";
    input.lint(
        Diagnostic::new(Code::ProcedureDeclarator, span, message)
            .label("RFC 5531 has only the name of a type, such as a typedef"),
    );
}

/// Reports `opaque` without a length.
fn check_length(input: Tokens<'_>, parameter: &Parameter) {
    let sized = matches!(
        parameter.declarator,
        Declarator::Fixed(_) | Declarator::Variable(_)
    );
    let is_opaque = matches!(
        parameter.ty.kind,
        TypeKind::Opaque | TypeKind::ZeroCopyOpaque
    );
    if is_opaque && !sized {
        let diagnostic = Diagnostic::new(Code::Syntax, input.span(), "`opaque` without a length");
        input.error(
            diagnostic
                .label("expected a length: `opaque<>`, `opaque[N]`")
                .note("define a typedef with a length, and use its name"),
        );
    }
}
