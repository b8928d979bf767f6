//! Type specifiers: RFC 4506, section 6.3, and the C types that real files use.
//!
//! The sizes of C types are those of rpcgen: `long` has 32 bits, `long long` 64. `check` resolves
//! named types, with the preludes. Bodies nest at most [`MAX_DEPTH`] deep, which bounds the
//! recursion of this parser and of all that visit the tree.

use nom::Parser;
use nom::branch::alt;
use nom::combinator::{map_opt, opt, success, value};
use nom::sequence::{pair, preceded};

use crate::ast::{Keyword, TypeKind, TypeSpecifier};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::c::after_qualifiers;
use crate::parse::enumeration::enum_body;
use crate::parse::input::{MAX_DEPTH, ParseResult, Tokens, mismatch};
use crate::parse::lexer::TokenKind;
use crate::parse::recovery::{any, is_inline, is_name, repeated, starts_type, token, word};
use crate::parse::structure::struct_body;
use crate::parse::union::union_body;
use crate::parse::value::path;

/// Parses a type specifier. Returns `Err::Error` if none begins here.
pub(super) fn type_specifier(input: Tokens<'_>) -> ParseResult<'_, TypeSpecifier> {
    let input = after_qualifiers(input);
    let (rest, kind) = alt((
        basic,
        unsigned,
        constructed,
        signed_c,
        zero_copy,
        named,
        body_alone,
    ))
    .parse(input)?;
    Ok((
        rest,
        TypeSpecifier {
            span: rest.since(input.span()),
            kind,
        },
    ))
}

/// Parses a type that is one keyword.
fn basic(input: Tokens<'_>) -> ParseResult<'_, TypeKind> {
    map_opt(any, |token| match token.kind {
        TokenKind::Int => Some(TypeKind::Int),
        TokenKind::Hyper => Some(TypeKind::Hyper),
        TokenKind::Float => Some(TypeKind::Float),
        TokenKind::Double => Some(TypeKind::Double),
        TokenKind::Quadruple => Some(TypeKind::Quadruple),
        TokenKind::Bool => Some(TypeKind::Bool),
        TokenKind::Opaque => Some(TypeKind::Opaque),
        TokenKind::String => Some(TypeKind::String),
        _ => None,
    })
    .parse(input)
}

/// Parses `unsigned int`, `unsigned hyper`, `unsigned` alone, or `unsigned` before a C integer.
fn unsigned(input: Tokens<'_>) -> ParseResult<'_, TypeKind> {
    let unsigned_c = c_integer.map(|kind| {
        if kind.is_wide() {
            TypeKind::UnsignedHyper
        } else {
            TypeKind::UnsignedInt
        }
    });
    let exact = alt((
        token(TokenKind::Int).map(|_| TypeKind::UnsignedInt),
        token(TokenKind::Hyper).map(|_| TypeKind::UnsignedHyper),
    ));
    let (size, _) = preceded(token(TokenKind::Unsigned), repeated).parse(input)?;
    if let (rest, Some(kind)) = opt(exact).parse(size)? {
        return Ok((rest, kind));
    }
    if let (rest, Some(kind)) = opt(unsigned_c).parse(size)? {
        c_lint(input, rest, &kind);
        return Ok((rest, kind));
    }
    Ok((unsigned_alone(input, size), TypeKind::UnsignedInt))
}

/// Reports `unsigned` without `int`, and returns the tokens after the type.
fn unsigned_alone<'t>(input: Tokens<'t>, rest: Tokens<'t>) -> Tokens<'t> {
    if rest.kind(0) == TokenKind::Name && rest.kind(1) == TokenKind::Name {
        let message = format!(
            "expected `int` or `hyper` after `unsigned`, found {}",
            rest.found()
        );
        rest.error(
            Diagnostic::new(Code::Syntax, rest.span(), message)
                .label("expected `int` or `hyper`")
                .fix(input.span(), "", "remove `unsigned`"),
        );
        return rest.skip(1);
    }
    input.lint(
        Diagnostic::new(Code::BareUnsigned, input.span(), "`unsigned` without `int`")
            .label("RFC 4506 has `unsigned int`")
            .fix(input.span(), "unsigned int", "write `unsigned int`"),
    );
    rest
}

/// Parses a C integer.
fn signed_c(input: Tokens<'_>) -> ParseResult<'_, TypeKind> {
    let (rest, kind) = c_integer(input)?;
    c_lint(input, rest, &kind);
    Ok((rest, kind))
}

fn c_lint(input: Tokens<'_>, rest: Tokens<'_>, kind: &TypeKind) {
    use TokenKind::{AngleOpen, BracketOpen, Star};
    let xdr = match kind {
        TypeKind::UnsignedInt => "unsigned int",
        TypeKind::Hyper => "hyper",
        TypeKind::UnsignedHyper => "unsigned hyper",
        _ => "int",
    };
    let span = rest.since(input.span());
    let found = Diagnostic::new(Code::CInteger, span, "a C integer that XDR does not have")
        .label(format!("encoded as `{xdr}`"));
    let is_char = rest.previous().is_some_and(|last| last.text == "char");
    input.lint(match (rest.kind(0), rest.kind(1)) {
        (Star, _) if is_char => found.note("text is a `string`"),
        (_, AngleOpen | BracketOpen) if is_char => {
            found.note("each takes four bytes: bytes are an `opaque`, and text is a `string`")
        }
        _ => found.fix(span, xdr, format!("write `{xdr}`")),
    });
}

/// Parses `char`, `short`, `long` (which have the size that rpcgen gives them) and `long long`.
fn c_integer(input: Tokens<'_>) -> ParseResult<'_, TypeKind> {
    let int = || opt(token(TokenKind::Int));
    alt((
        value(TypeKind::Hyper, (word("long"), word("long"), int())),
        value(
            TypeKind::Int,
            pair(alt((word("short"), word("long"))), int()),
        ),
        value(TypeKind::Int, word("char")),
        value(TypeKind::Hyper, word("longlong_t")),
        value(TypeKind::UnsignedHyper, word("u_longlong_t")),
    ))
    .parse(input)
}

/// Parses `zcopaque` before a name with a length, or before a length.
fn zero_copy(input: Tokens<'_>) -> ParseResult<'_, TypeKind> {
    let (rest, keyword) = word("zcopaque").parse(input)?;
    let length = usize::from(rest.kind(0) == TokenKind::Name);
    if !matches!(
        rest.kind(length),
        TokenKind::AngleOpen | TokenKind::BracketOpen
    ) {
        return Err(mismatch());
    }
    input.lint(
        Diagnostic::new(
            Code::ZeroCopyOpaque,
            keyword.span,
            "`zcopaque`, an opaque of libevpl",
        )
        .label("RFC 4506 has `opaque`; the manifest lists such a field under `ddp`")
        .fix(keyword.span, "opaque", "write `opaque`"),
    );
    Ok((rest, TypeKind::ZeroCopyOpaque))
}

fn named(input: Tokens<'_>) -> ParseResult<'_, TypeKind> {
    path.map(|name| TypeKind::Named {
        name,
        keyword: None,
    })
    .parse(input)
}

/// Parses a type that begins with `struct`, `enum` or `union`.
fn constructed(input: Tokens<'_>) -> ParseResult<'_, TypeKind> {
    let keyword = map_opt(any, |token| match token.kind {
        TokenKind::Struct => Some(Keyword::Struct),
        TokenKind::Enum => Some(Keyword::Enum),
        TokenKind::Union => Some(Keyword::Union),
        _ => None,
    });
    let (rest, (keyword, _)) = pair(keyword, repeated).parse(input)?;
    match rest.kind(0) {
        TokenKind::BraceOpen | TokenKind::Switch => inline(rest, keyword),
        kind if is_name(kind) && is_tagged(&rest) => inline(untagged(input, rest), keyword),
        kind if is_name(kind) && keyword == Keyword::Enum && rest.kind(1) == TokenKind::Equal => {
            inline(rest, keyword)
        }
        kind if is_name(kind) => reference(input, rest, keyword),
        kind if starts_type(kind) && rest.is_cascading() => {
            alt((basic, unsigned, success(TypeKind::Int))).parse(rest)
        }
        kind if starts_type(kind) && keyword == Keyword::Struct => inline(rest, keyword),
        _ => {
            rest.report_expected("a name or `{`");
            Ok((rest, TypeKind::Int))
        }
    }
}

/// Returns true if a body follows the name, as in C: `struct tag { int a; } field;`
fn is_tagged(input: &Tokens<'_>) -> bool {
    is_inline(input, 1) || (input.kind(1) == TokenKind::Switch && is_inline(input, 6))
}

/// Reports the name of an inline type, and skips it.
fn untagged<'t>(keyword: Tokens<'t>, name: Tokens<'t>) -> Tokens<'t> {
    let kind = keyword.found();
    name.error(
        Diagnostic::new(
            Code::Syntax,
            name.span(),
            format!("expected `{{`, found {}", name.found()),
        )
        .label(format!("a {kind} within a declaration has no name"))
        .fix(
            name.span().to(name.skip(1).start_of_first()),
            "",
            "remove the name",
        ),
    );
    name.skip(1)
}

fn reference<'t>(
    input: Tokens<'t>,
    name: Tokens<'t>,
    keyword: Keyword,
) -> ParseResult<'t, TypeKind> {
    let (rest, name) = path(name)?;
    let span = rest.since(input.span());
    input.lint(
        Diagnostic::new(
            Code::StructReference,
            span,
            format!("{} before the name of a type", input.found()),
        )
        .label(format!("RFC 4506 has only `{}`", name.name))
        .fix(span, name.name.clone(), "remove the keyword"),
    );
    Ok((
        rest,
        TypeKind::Named {
            name,
            keyword: Some(keyword),
        },
    ))
}

/// Parses an inline body in a declaration.
fn inline(input: Tokens<'_>, keyword: Keyword) -> ParseResult<'_, TypeKind> {
    let Some(deeper) = input.deeper(brace(&input).is_some_and(|brace| !is_inline(&input, brace)))
    else {
        return Ok((too_deep(input), TypeKind::Int));
    };
    let (rest, kind) = match keyword {
        Keyword::Struct => struct_body.map(TypeKind::Struct).parse(deeper)?,
        Keyword::Enum => enum_body.map(TypeKind::Enum).parse(deeper)?,
        Keyword::Union => union_body
            .map(|body| TypeKind::Union(Box::new(body)))
            .parse(deeper)?,
    };
    Ok((rest.at_depth_of(input), kind))
}

/// Returns the offset of the body's `{`.
fn brace(input: &Tokens<'_>) -> Option<usize> {
    (0..8).find(|at| input.kind(*at) == TokenKind::BraceOpen)
}

/// Parses an inline body whose keyword is missing.
fn body_alone(input: Tokens<'_>) -> ParseResult<'_, TypeKind> {
    let (keyword, word) = match (input.kind(0), input.kind(1), input.kind(2)) {
        (TokenKind::BraceOpen, TokenKind::Name, TokenKind::Equal | TokenKind::Comma) => {
            (Keyword::Enum, "enum")
        }
        (TokenKind::BraceOpen, TokenKind::Enum, TokenKind::Name)
            if input.kind(3) == TokenKind::Equal =>
        {
            (Keyword::Enum, "enum")
        }
        (TokenKind::BraceOpen, ..) => (Keyword::Struct, "struct"),
        (TokenKind::Switch, ..) => (Keyword::Union, "union"),
        _ => return Err(mismatch()),
    };
    if keyword != Keyword::Union && !is_inline(&input, 0) {
        return Err(mismatch());
    }
    input.error(input.expected_diagnostic("a type").fix(
        input.start_of_first(),
        format!("{word} "),
        format!("add `{word}`"),
    ));
    inline(input, keyword)
}

/// Reports a body that is nested too deep, and skips it.
fn too_deep(input: Tokens<'_>) -> Tokens<'_> {
    let message = format!("bodies are nested more than {MAX_DEPTH} deep");
    input.error(Diagnostic::new(Code::Syntax, input.span(), message).label("too deep"));
    let brace = brace(&input).unwrap_or(0);
    input.skip(input.closing(brace).unwrap_or(brace) + 1)
}

impl TypeKind {
    fn is_wide(&self) -> bool {
        matches!(self, Self::Hyper | Self::UnsignedHyper)
    }
}
