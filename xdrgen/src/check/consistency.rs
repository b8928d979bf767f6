//! A draft against itself: the copies of definitions in running text, and the definitions that are compiled.

mod parts;

use std::collections::{HashMap, HashSet};

use super::spelling::nearest;
use crate::ast::{Definition, DefinitionKind, Specification};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Sources, TextId};
use parts::{Part, parts};

/// Compares each definition in the copies of one document with the definition of its name in that document's XDR, and
/// reports the first difference: in kind, names, values, types, lengths or order. What only the XDR has is fine.
///
/// How something is written does not count: blanks, comments, `0x01` for `1`, `struct T` for `T`, a constant's type.
pub(crate) fn check(
    sources: &Sources,
    xdr: &[(TextId, &Specification)],
    copies: &[(TextId, &Specification)],
    diagnostics: &mut Diagnostics,
) {
    if !diagnostics.wants(Code::Consistency) {
        return;
    }
    let comparison = Comparison::new(sources, xdr, copies);
    for copy in definitions(copies) {
        let difference = match comparison.compiled.get(copy.name.name.as_str()) {
            Some(compiled) => comparison.difference(compiled, copy),
            None => Some(comparison.missing(copy)),
        };
        if let Some(difference) = difference {
            diagnostics.report(difference);
        }
    }
}

fn definitions<'a>(texts: &'a [(TextId, &'a Specification)]) -> impl Iterator<Item = &'a Definition> {
    texts.iter().flat_map(|(_, specification)| &specification.definitions)
}

/// What all comparisons of a document need.
struct Comparison<'a> {
    sources: &'a Sources,
    /// The definitions that are compiled, the first of each name.
    compiled: HashMap<&'a str, &'a Definition>,
    /// Those of them that no copy has, in their order.
    uncopied: Vec<&'a Definition>,
}

impl<'a> Comparison<'a> {
    fn new(
        sources: &'a Sources,
        xdr: &'a [(TextId, &'a Specification)],
        copies: &'a [(TextId, &'a Specification)],
    ) -> Self {
        let copied: HashSet<&str> = definitions(copies).map(|copy| copy.name.name.as_str()).collect();
        let mut compiled = HashMap::new();
        for definition in definitions(xdr) {
            compiled.entry(definition.name.name.as_str()).or_insert(definition);
        }
        let uncopied = definitions(xdr).filter(|definition| !copied.contains(definition.name.name.as_str())).collect();
        Self { sources, compiled, uncopied }
    }

    /// The first difference of two definitions of one name.
    fn difference(&self, compiled: &Definition, copy: &Definition) -> Option<Diagnostic> {
        let (own, other) = (parts(compiled), parts(copy));
        let at = own.iter().zip(&other).take_while(|(own, other)| own.key == other.key).count();
        let (mut of_own, mut of_other) = (own.get(at), other.get(at));
        if let (Some(first), Some(second)) = (of_own, of_other) {
            // One side may have a part more, and go on as the other does.
            if at > 0 && own[at..].iter().any(|part| part.key == second.key) {
                of_other = None;
            } else if at > 0 && other[at..].iter().any(|part| part.key == first.key) {
                of_own = None;
            }
        }
        let diagnostic = |span, message| Diagnostic::new(Code::Consistency, span, message);
        Some(match (of_own, of_other) {
            (None, None) => return None,
            (Some(part), Some(copied)) => {
                let message = format!("the copy in the text has `{}`", self.shown(copied));
                diagnostic(part.span, message).label("differs").note_at(copied.span, "the copy")
            }
            (Some(part), None) => {
                let message = format!("the copy in the text lacks `{}`", self.shown(part));
                diagnostic(part.span, message).note_at(copy.name.span, "the copy")
            }
            (None, Some(copied)) => {
                let message = format!("the copy in the text has `{}` in addition", self.shown(copied));
                diagnostic(compiled.name.span, message).note_at(copied.span, "the copy")
            }
        })
    }

    /// A copy whose name nothing has that is compiled: perhaps something else is meant to have it.
    fn missing(&self, copy: &Definition) -> Diagnostic {
        let name = copy.name.name.as_str();
        let Some(meant) = self.meant(copy) else {
            return Diagnostic::new(Code::Consistency, copy.name.span, format!("`{name}` is not in the XDR block"));
        };
        let message = format!("`{}` is called `{name}` in the text", meant.name.name);
        Diagnostic::new(Code::Consistency, meant.name.span, message).note_at(copy.name.span, "the copy").fix(
            meant.name.span,
            name,
            "give it the name that the text has",
        )
    }

    /// The definition of the copy's kind that no copy has, and that is similarly spelled or has the same body.
    fn meant(&self, copy: &Definition) -> Option<&'a Definition> {
        let kind = std::mem::discriminant(&copy.kind);
        let alike = || self.uncopied.iter().copied().filter(|other| std::mem::discriminant(&other.kind) == kind);
        let spelled = nearest(&copy.name.name, alike().map(|definition| definition.name.name.as_str()));
        let named = |name| alike().find(|definition| definition.name.name == name);
        // Many a constant has the same value, and many a name stands for the same type.
        let has_body = !matches!(copy.kind, DefinitionKind::Const { .. } | DefinitionKind::Typedef(_));
        let same_body = || alike().find(|other| has_body && bodies_equal(&parts(other), &parts(copy)));
        spelled.and_then(named).or_else(same_body)
    }

    /// A part as it is written, in one line.
    fn shown(&self, part: &Part) -> String {
        self.sources.slice(part.span).split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Whether two definitions are equal but for their names.
fn bodies_equal(own: &[Part], other: &[Part]) -> bool {
    let keys = |parts: &[Part]| parts.iter().skip(1).map(|part| part.key.clone()).collect::<Vec<_>>();
    own.len() > 1 && keys(own) == keys(other)
}

#[cfg(test)]
mod tests;
