//! The parser: turns XDR into an AST and recovers from errors, so that one run finds all syntax
//! errors.
//!
//! The language is that of RFC 4506, section 6, and RFC 5531, section 12. What real files write
//! differently is accepted and reported as lints. Both layers are nom parsers: the lexer reads
//! `&str`, the grammar reads a slice of tokens.
//!
//! `preprocessor` decides which lines the lexer reads. `specification` is the top of the grammar.
//! [`parse`] never fails: it reports a construct that is too defective and leaves it out. `check`
//! resolves names, computes values, and applies the rules of RFC 4506 beyond the grammar.

mod c;
mod condition;
mod declaration;
mod definition;
mod enumeration;
mod expression;
mod input;
pub(crate) mod lexer;
mod macros;
mod number;
mod preprocessor;
mod program;
mod recovery;
mod specification;
mod structure;
#[cfg(test)]
mod tests;
mod types;
mod union;
mod value;

use std::collections::HashSet;

use crate::ast::{Definition, DefinitionKind, Specification, ValueExprKind};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{SourceMap, Span, TextId, TextKind};
pub(crate) use preprocessor::Preprocessor;

/// Parses a text. Reports defects, and returns the definitions that it recovers.
///
/// A [`TextKind::Copy`] is compared and not compiled: every syntax error in it is reported as
/// [`Code::TextSyntax`], and lints are not reported.
pub fn parse(sources: &SourceMap, text: TextId, diagnostics: &mut Diagnostics) -> Specification {
    let source = sources.text(text);
    let output = lexer::lex(source.content(), text);
    let document = sources.document(source.document());
    let prose = document.prose_sections().is_some();
    let context = input::Context::new(source.content(), text, &output, prose);
    let extends = document.is_extension();
    let items = specification::items(input::Tokens::new(&context), extends);
    let (expressions, found) = context.into_parts();
    let (constants, unresolved) = constants(output.constants, &items.definitions);
    let widths = constants.iter().filter_map(constant_width);
    let copy = source.kind() == TextKind::Copy;
    let lexical = output.diagnostics.into_iter();
    let lexical = lexical.filter(|found| !is_within(&expressions, found));
    for diagnostic in lexical.chain(found).chain(widths) {
        if !copy {
            diagnostics.report(diagnostic);
        } else if diagnostic.code.default_level().is_none() {
            diagnostics.report(Diagnostic {
                code: Code::TextSyntax,
                ..diagnostic
            });
        }
    }
    let mut definitions = [items.definitions, constants].concat();
    definitions.sort_by_key(|definition| definition.span.start);
    Specification {
        definitions,
        fragments: items.fragments,
        license: output.license,
        hidden: output.hidden,
        includes: output.includes,
        macros: [output.macros, unresolved].concat(),
        defines: output.defines,
        passed: output.passed,
        inactive: output.inactive,
    }
}

/// Splits the constants of `#define` into those with a value, and those that depend on a name that
/// is neither a constant, a member of an enum nor an earlier `#define` of the text. The latter are
/// macros for now: `supply` defines them if they are used and the name has a value elsewhere.
fn constants(
    defined: Vec<Definition>,
    definitions: &[Definition],
) -> (Vec<Definition>, Vec<Definition>) {
    let mut values: HashSet<String> = definitions.iter().flat_map(values).collect();
    defined.into_iter().partition(|constant| {
        let DefinitionKind::Const { value, .. } = &constant.kind else {
            return false;
        };
        let known = match &value.kind {
            ValueExprKind::Number(_) => true,
            ValueExprKind::Name(name) | ValueExprKind::Sum(name, _) => values.contains(name),
        };
        if known {
            values.insert(constant.name.name.clone());
        }
        known
    })
}

/// Returns the names of the constant, or of the enum's members.
fn values(definition: &Definition) -> Vec<String> {
    match &definition.kind {
        DefinitionKind::Const { .. } => vec![definition.name.name.clone()],
        DefinitionKind::Enum(body) => {
            let members = body.members.iter();
            members.map(|member| member.name.name.clone()).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns true if a defect of a word is within an expression, which is reported as a whole.
/// The expressions are sorted.
fn is_within(expressions: &[Span], found: &Diagnostic) -> bool {
    let Some(span) = found.span.filter(|_| found.code == Code::InvalidToken) else {
        return false;
    };
    let after = expressions.partition_point(|expression| expression.start <= span.start);
    let before = after.checked_sub(1).and_then(|at| expressions.get(at));
    before.is_some_and(|expression| span.end <= expression.end)
}

fn constant_width(constant: &Definition) -> Option<Diagnostic> {
    match &constant.kind {
        DefinitionKind::Const { value, .. } => definition::width(value),
        _ => None,
    }
}
