//! XDR to syntax: a lexer, a grammar over its tokens, and recovery, so that one run finds all defects.
//!
//! The language is that of RFC 4506, section 6, and RFC 5531, section 12; what real files have beyond it is accepted
//! and reported as a lint. Both floors are nom parsers: the lexer reads `&str`, the grammar a slice of tokens.

mod declaration;
mod definition;
mod enumeration;
mod input;
pub(crate) mod lexer;
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

use crate::ast::Specification;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Sources, TextId, TextKind};

/// The syntax of a text. What is wrong with it is reported; what can be read nevertheless is returned.
///
/// In a [`TextKind::Copy`], which is compared and not compiled, every defect is a [`Code::TextSyntax`], and the lints
/// of the language are not reported.
pub fn parse(sources: &Sources, text: TextId, diagnostics: &mut Diagnostics) -> Specification {
    let source = sources.text(text);
    let lexed = lexer::lex(source.content(), text);
    let context = input::Context::new(text, &lexed.tokens);
    let definitions = specification::definitions(input::Tokens::new(&context));
    let copy = source.kind() == TextKind::Copy;
    for diagnostic in lexed.diagnostics.into_iter().chain(context.into_diagnostics()) {
        if !copy {
            diagnostics.report(diagnostic);
        } else if diagnostic.code.default_level().is_none() {
            diagnostics.report(Diagnostic { code: Code::TextSyntax, ..diagnostic });
        }
    }
    Specification { definitions, license: lexed.license }
}
