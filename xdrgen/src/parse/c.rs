//! Constructs of C declarations that XDR does not have: each is one error that names the XDR for
//! it. Expressions are in `expression`, and the C types that are accepted are in `types`.
//!
//! The grammar calls each function where its construct may stand. A function reports a construct
//! that it recognizes; otherwise it reports nothing and returns its input, `None` or false, so that
//! the grammar continues as for XDR.

use nom::Parser;

use crate::ast::{Declaration, Declarator, Ident, TypeKind, TypeSpecifier};
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::input::Tokens;
use crate::parse::lexer::TokenKind;
use crate::parse::recovery::{ident, is_name, is_qualifier, starts_type};
use crate::source::Span;

/// The most words before the `(` of a function.
const MAX_WORDS: usize = 8;

/// Reports the qualifiers before a type, and returns the tokens after them.
pub(super) fn after_qualifiers(mut input: Tokens<'_>) -> Tokens<'_> {
    while is_qualifier(&input) {
        let word = input.found();
        let label = match word.as_str() {
            "`signed`" => "an integer of XDR without `unsigned` is signed",
            _ => "XDR has no qualifiers of types",
        };
        let next = input.skip(1);
        let found = Diagnostic::new(Code::Syntax, input.span(), format!("{word} before a type"));
        let place = input.span().to(next.start_of_first());
        input.error(found.label(label).fix(place, "", format!("remove {word}")));
        input = next;
    }
    input
}

/// Returns true if `void *name` is here.
pub(super) fn is_untyped(input: &Tokens<'_>) -> bool {
    (input.kind(0), input.kind(1)) == (TokenKind::Void, TokenKind::Star) && is_name(input.kind(2))
}

/// Reports `void *name`, and returns it as an opaque of variable length.
pub(super) fn untyped(input: Tokens<'_>) -> Option<(Tokens<'_>, Declaration)> {
    if !is_untyped(&input) {
        return None;
    }
    let (rest, name) = ident(input.skip(2)).ok()?;
    let span = rest.since(input.span());
    let found = Diagnostic::new(Code::Syntax, span, "a `void *` in a declaration");
    let opaque = format!("opaque {}<>", name.name);
    input.error(found.label("XDR has no data without a type").fix(
        span,
        opaque,
        "declare bytes of variable length",
    ));
    rest.end_cascade();
    let ty = TypeSpecifier {
        span: input.span(),
        kind: TypeKind::Opaque,
    };
    let declarator = Declarator::Variable(None);
    Some((
        rest,
        Declaration {
            span,
            ty,
            name,
            declarator,
        },
    ))
}

/// Reports `struct name;` or a variable. `keyword` is that of the definition, and `input` begins
/// after the name.
pub(super) fn report_without_body(keyword: Span, input: Tokens<'_>) {
    let start = Span::new(keyword.text, keyword.range().start..keyword.range().start);
    let found = if input.kind(0) == TokenKind::Semicolon {
        let span = keyword.to(input.span());
        Diagnostic::new(Code::Syntax, span, "a definition without a body")
            .label("XDR has no forward declarations: a definition may follow its use")
            .fix(span, "", "remove it")
    } else {
        input
            .expected_diagnostic("`{`")
            .label("XDR has no variables")
            .fix(start, "typedef ", "define a type by it")
    };
    input.error(found);
}

/// Reports `class` after `enum`, and returns the tokens after it.
pub(super) fn after_class(input: Tokens<'_>) -> Tokens<'_> {
    use TokenKind::{BraceOpen, Colon};
    let is_class = input.peek(0).is_some_and(|token| token.text == "class");
    if !is_class || !is_name(input.kind(1)) || !matches!(input.kind(2), BraceOpen | Colon) {
        return input;
    }
    let next = input.skip(1);
    let place = input.span().to(next.start_of_first());
    let found = Diagnostic::new(Code::Syntax, input.span(), "`class` after `enum`");
    input.error(
        found
            .label("XDR has one kind of enum")
            .fix(place, "", "remove `class`"),
    );
    next
}

/// Reports `: base` between the name of a definition and its body, and returns the tokens after it.
pub(super) fn after_base(input: Tokens<'_>) -> Tokens<'_> {
    let is_part = |kind| kind == TokenKind::Comma || is_name(kind) || starts_type(kind);
    let parts = (1..MAX_WORDS).take_while(|at| is_part(input.kind(*at)));
    let rest = input.skip(1 + parts.count());
    if input.kind(0) != TokenKind::Colon || rest.kind(0) != TokenKind::BraceOpen {
        return input;
    }
    let span = rest.since(input.span());
    let found = Diagnostic::new(Code::Syntax, span, "a type after the name of a definition");
    let label = "XDR has no inheritance, and an enum takes four bytes";
    let place = input.end_of_previous().to(span);
    input.error(found.label(label).fix(place, "", "remove it"));
    rest
}

/// Reports what C allows after the name of a declaration, and returns the tokens after it.
pub(super) fn after_declarator<'t>(input: Tokens<'t>, ty: &TypeSpecifier) -> Tokens<'t> {
    use TokenKind::{Colon, Comma, Equal, Number, ParenOpen, Semicolon};
    match (input.kind(0), input.kind(1), input.kind(2)) {
        (Comma, ..) => after_names(input, ty),
        (Colon, Number, Semicolon) => {
            let span = input.skip(2).since(input.span());
            let found = Diagnostic::new(Code::Syntax, span, "a bit-field");
            let label = "XDR has no bit-fields: an integer takes four bytes";
            let place = input.end_of_previous().to(span);
            input.error(found.label(label).fix(place, "", "remove the width"));
            input.skip(2)
        }
        (Equal, value, Semicolon) if is_name(value) || value == Number => {
            let span = input.skip(2).since(input.span());
            let found = Diagnostic::new(Code::Syntax, span, "a declaration with a value");
            let label = "XDR has no initial values";
            let place = input.end_of_previous().to(span);
            input.error(found.label(label).fix(place, "", "remove it"));
            input.skip(2)
        }
        (word, ParenOpen, _) if is_name(word) => after_attribute(input),
        (ParenOpen, ..) => match after_parentheses(input) {
            Some(rest) => {
                report_function(input, rest);
                rest
            }
            None => input,
        },
        _ => input,
    }
}

/// Reports an attribute, such as `__attribute__((packed))`, and returns the tokens after it.
pub(super) fn after_attribute(input: Tokens<'_>) -> Tokens<'_> {
    if !is_name(input.kind(0)) || input.on_new_line() {
        return input;
    }
    let Some(rest) = after_parentheses(input.skip(1)) else {
        return input;
    };
    let span = rest.since(input.span());
    let found = Diagnostic::new(Code::Syntax, span, "an attribute of a declaration");
    let place = input.end_of_previous().to(span);
    let label = "XDR has no attributes: each type has one form";
    input.error(found.label(label).fix(place, "", "remove it"));
    rest
}

/// Reports the names after the first of a declaration: `b` in `int a, b;`.
fn after_names<'t>(input: Tokens<'t>, ty: &TypeSpecifier) -> Tokens<'t> {
    use TokenKind::{AngleClose, AngleOpen, BracketClose, BracketOpen, Comma, Number, Star};
    let first = input.skip(1 + usize::from(input.kind(1) == Star));
    let mut rest = first.skip(1);
    while is_name(rest.kind(0))
        || matches!(
            rest.kind(0),
            AngleClose | AngleOpen | BracketClose | BracketOpen | Comma | Number | Star
        )
    {
        rest = rest.skip(1);
    }
    if !is_name(first.kind(0)) || rest.kind(0) != TokenKind::Semicolon {
        return input;
    }
    let message = "a declaration of several names";
    let mut found = Diagnostic::new(Code::Syntax, first.span(), message)
        .label("a declaration of XDR has one name");
    let text = input.slice(ty.span);
    if !text.contains(['{', '\n']) {
        let separate = format!("; {text}");
        found = found.fix(input.span(), separate, "write a declaration for each");
    }
    input.error(found);
    rest
}

/// Reports `T (*name)(..)`, and returns its name.
pub(super) fn function_pointer(input: Tokens<'_>) -> Option<(Tokens<'_>, Ident)> {
    if (input.kind(0), input.kind(1)) != (TokenKind::ParenOpen, TokenKind::Star) {
        return None;
    }
    let (_, name) = ident.parse(input.skip(2)).ok()?;
    let rest = after_parentheses(after_parentheses(input)?)?;
    report_function(input, rest);
    Some((rest, name))
}

fn report_function(input: Tokens<'_>, rest: Tokens<'_>) {
    let found = Diagnostic::new(Code::Syntax, rest.since(input.span()), "a function");
    input.error(found.label("XDR has only data: procedures are in a `program`"));
}

/// Returns the tokens after the `)` that closes the `(` here; `None` if none does before a `;`.
fn after_parentheses(mut input: Tokens<'_>) -> Option<Tokens<'_>> {
    use TokenKind::{BraceClose, BraceOpen, End, ParenClose, ParenOpen, Semicolon};
    let mut depth = 0_usize;
    loop {
        match input.kind(0) {
            ParenOpen => depth += 1,
            ParenClose => depth = depth.checked_sub(1)?,
            End | Semicolon | BraceOpen | BraceClose => return None,
            _ if depth == 0 => return None,
            _ => {}
        }
        input = input.skip(1);
        if depth == 0 {
            return Some(input);
        }
    }
}

/// Reports an item of C at the top level, and returns the tokens after it.
pub(super) fn top_level(input: Tokens<'_>) -> Option<Tokens<'_>> {
    let expected = || input.expected_diagnostic("a definition");
    let word = input.peek(0)?.text;
    if matches!(word, "import" | "include") && input.kind(1) == TokenKind::Text {
        let after = input.skip(2);
        let end = after.skip(usize::from(after.kind(0) == TokenKind::Semicolon));
        let directive = format!("#include {}", input.skip(1).peek(0)?.text);
        let place = end.since(input.span());
        input.error(expected().fix(place, directive, "write `#include`"));
        return Some(end);
    }
    let is_before = |kind| is_name(kind) || starts_type(kind) || kind == TokenKind::Star;
    let words = (0..MAX_WORDS).take_while(|at| is_before(input.kind(*at)));
    let rest = input.skip(words.count());
    let name = rest.previous().filter(|_| !rest.is_at(&input))?;
    let after = after_parentheses(rest).filter(|_| name.kind == TokenKind::Name)?;
    if after.kind(0) != TokenKind::Semicolon {
        return None;
    }
    input.error(expected().label("XDR has no functions: procedures are in a `program`"));
    Some(after.skip(1))
}

/// Reports `break;` at the end of an arm, and returns the tokens after it.
pub(super) fn after_break(input: Tokens<'_>) -> Option<Tokens<'_>> {
    let start = match input.on_new_line() {
        true => input.span(),
        false => input.end_of_previous(),
    };
    let label = "an arm ends before the next `case`";
    report_break(input, label, start, ("", "remove it"))
}

/// Reports `break;` in place of a declaration, and returns the tokens after it.
pub(super) fn instead_of_void(input: Tokens<'_>) -> Option<Tokens<'_>> {
    let label = "an arm without data is `void`";
    report_break(input, label, input.span(), ("void;", "write `void`"))
}

/// Reports `break;`, with a fix that replaces it from `start`.
fn report_break<'t>(
    input: Tokens<'t>,
    label: &str,
    start: Span,
    (text, help): (&str, &str),
) -> Option<Tokens<'t>> {
    if !is_break(&input) {
        return None;
    }
    let rest = input.skip(2);
    let span = rest.since(input.span());
    let found = Diagnostic::new(Code::Syntax, span, "a `break` in a union");
    input.error(found.label(label).fix(start.to(span), text, help));
    Some(rest)
}

fn is_break(input: &Tokens<'_>) -> bool {
    input.peek(0).is_some_and(|token| token.text == "break")
        && input.kind(1) == TokenKind::Semicolon
}

/// Reports the body of a union of C, and returns the tokens after it.
pub(super) fn union_of_c(input: Tokens<'_>) -> Option<Tokens<'_>> {
    if input.kind(0) != TokenKind::BraceOpen
        || matches!(input.kind(1), TokenKind::Case | TokenKind::Default)
    {
        return None;
    }
    let closing = input.closing(0)?;
    let found = input.expected_diagnostic("`switch`").note(
        "a union of XDR has a discriminant, which selects one of its arms: \
         `union name switch (int kind) { case 0: int a; case 1: float b; };`",
    );
    input.error(found);
    Some(input.skip(closing + 1))
}
