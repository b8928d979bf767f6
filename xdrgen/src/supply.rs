//! Supplies definitions that the documents of a module use and do not contain, from constants of
//! `%#define`, files of `%#include`, the preludes, and types of the configuration.
//!
//! [`Needs`] is created after `extend::merge`, and its methods run in this order, which is the
//! precedence of the sources. Two kinds of names are never missing: the primitive types of a
//! prelude, and the names of `[extern]`, which `take_external` alone adds. Only a definition that
//! is used enters a module, with those that it uses. `check` reports a name that is still missing;
//! `visit_references` of `ast` decides which names a definition uses.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::ast::{
    Definition, DefinitionKind, Scope, Specification, ValueExprKind, visit_references,
};
use crate::check::{ModuleInput, external};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::parse;
use crate::source::{SourceMap, Span, TextId, TextKind};

/// Definitions of one text, from which a module takes those that it needs.
struct Source {
    text: TextId,
    license: Option<String>,
    definitions: Vec<Definition>,
}

/// The names that a module defines, and those that it still needs.
pub(crate) struct Needs {
    /// The names that the module, or a module that it uses, defines or has taken.
    visible: HashSet<String>,
    /// The other names, with their first use.
    missing: BTreeMap<String, Span>,
    /// The types that the module, or a module that it uses, defines.
    types: HashSet<String>,
    /// The first uses of the names that the configuration supplies.
    uses: HashMap<String, Span>,
}

impl Needs {
    /// Returns the needs of a module, after it has taken the constants of its own `%#define` lines.
    pub(crate) fn after_macros(input: &mut ModuleInput, before: &[ModuleInput]) -> Self {
        let mut needs = Self::of(input, before);
        let own = input.specifications.iter_mut();
        let own = own.map(|(text, specification)| Source {
            text: *text,
            license: None,
            definitions: std::mem::take(&mut specification.macros),
        });
        let own = own.collect();
        needs.take(input, own);
        needs
    }

    /// Returns true if the module lacks no name but those of the configuration.
    pub(crate) fn is_empty(&self) -> bool {
        self.missing.is_empty()
    }

    /// Adds the types that the configuration supplies, for names that no document declares. It is
    /// the last step: what was taken from elsewhere may use such names, too.
    pub(crate) fn take_external(&mut self, input: &mut ModuleInput) {
        for (name, path) in input.externs.clone() {
            let Some(span) = self.uses.get(&name.text).copied() else {
                continue;
            };
            if self.visible.insert(name.text.clone()) {
                let definition = external::definition(&name.text, &path.text, span);
                add(input, span.text, None, vec![definition]);
            }
        }
    }

    /// Adds the definitions that the module needs from the files that its documents include.
    pub(crate) fn take_included(
        &mut self,
        input: &mut ModuleInput,
        included: Vec<(TextId, Specification)>,
    ) {
        let sources = included.into_iter().map(|(text, specification)| Source {
            text,
            license: specification.license,
            definitions: [specification.definitions, specification.macros].concat(),
        });
        self.take(input, sources.collect());
    }

    /// Adds the definitions that the module needs from the preludes.
    pub(crate) fn take_preludes(
        &mut self,
        sources: &mut SourceMap,
        input: &mut ModuleInput,
        diagnostics: &mut Diagnostics,
    ) {
        for prelude in input.prelude.clone() {
            let Some(xdr) = prelude.xdr() else { continue };
            if !self.missing.keys().any(|name| prelude.contains(name)) {
                continue;
            }
            let document = sources.add_document(format!("prelude-{}.x", prelude.name()), xdr);
            let text = sources.add_document_text(document, TextKind::Xdr);
            let source = Source {
                text,
                license: None,
                definitions: parse::parse(sources, text, diagnostics).definitions,
            };
            for (name, used) in self.take(input, vec![source]) {
                let message = format!("no document declares `{name}`; the prelude supplies it");
                diagnostics.report(Diagnostic::new(Code::PreludeType, used, message));
            }
        }
    }

    fn of(input: &ModuleInput, before: &[ModuleInput]) -> Self {
        let used = input.uses.iter().flat_map(|at| &before[*at].specifications);
        let visible = used.chain(&input.specifications);
        let names = visible.clone();
        let names = names.flat_map(|(_, specification)| specification.names(Scope::Global));
        let types = visible.flat_map(|(_, specification)| &specification.definitions);
        let types = types.filter(|definition| is_type(definition));
        let mut needs = Self {
            visible: names.collect(),
            types: types
                .map(|definition| definition.name.name.clone())
                .collect(),
            missing: BTreeMap::new(),
            uses: HashMap::new(),
        };
        let specifications = input.specifications.iter();
        for definition in specifications.flat_map(|(_, specification)| &specification.definitions) {
            needs.refer(input, definition, &mut Vec::new());
        }
        needs
    }

    /// Records the names that a definition uses, and appends those that are newly missing to
    /// `names`. A name of the configuration is never missing, so that it is taken from nowhere
    /// else.
    fn refer(&mut self, input: &ModuleInput, definition: &Definition, names: &mut Vec<String>) {
        visit_references(definition, &mut |name, span| {
            if input.externs.iter().any(|(entry, _)| entry.text == name) {
                self.uses.entry(name.to_owned()).or_insert(span);
                return;
            }
            let supplied = self.visible.contains(name)
                || self.missing.contains_key(name)
                || input.prelude(name).is_some()
                || matches!(name, "TRUE" | "FALSE");
            if !supplied {
                self.missing.insert(name.to_owned(), span);
                names.push(name.to_owned());
            }
        });
    }

    /// Returns true if a macro's value is the name of a type, so that it is not a constant.
    fn names_a_type(&self, input: &ModuleInput, definition: &Definition) -> bool {
        let DefinitionKind::Const { value, .. } = &definition.kind else {
            return false;
        };
        match &value.kind {
            ValueExprKind::Number(_) => false,
            ValueExprKind::Name(name) | ValueExprKind::Sum(name, _) => {
                self.types.contains(name) || input.prelude(name).is_some()
            }
        }
    }

    /// Moves the definitions that are needed to the module, with those that they need. Returns
    /// their names, with a use of each.
    fn take(&mut self, input: &mut ModuleInput, sources: Vec<Source>) -> Vec<(String, Span)> {
        let by_name = by_name(&sources);
        let mut taken: HashSet<(usize, usize)> = HashSet::new();
        let mut found = Vec::new();
        let mut names: Vec<String> = self.missing.keys().cloned().collect();
        while let Some(name) = names.pop() {
            for (source, at) in by_name.get(&name).into_iter().flatten() {
                let definition = &sources[*source].definitions[*at];
                if self.names_a_type(input, definition) || !taken.insert((*source, *at)) {
                    continue;
                }
                found.push((definition.name.name.clone(), self.missing[&name]));
                self.visible.extend(definition.names(Scope::Global));
                self.refer(input, definition, &mut names);
            }
        }
        self.missing.retain(|name, _| !self.visible.contains(name));
        for (number, source) in sources.into_iter().enumerate() {
            let needed = source.definitions.into_iter().enumerate();
            let needed = needed.filter(|(at, _)| taken.contains(&(number, *at)));
            let needed: Vec<Definition> = needed.map(|(_, definition)| definition).collect();
            add(input, source.text, source.license, needed);
        }
        found
    }
}

fn is_type(definition: &Definition) -> bool {
    use DefinitionKind::{Enum, Struct, Typedef, Union};
    matches!(definition.kind, Enum(_) | Struct(_) | Typedef(_) | Union(_))
}

/// Returns the definitions of each name. Equal constants count once, because two files may define
/// the same macro for C.
fn by_name(sources: &[Source]) -> HashMap<String, Vec<(usize, usize)>> {
    let mut by_name: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
    for (number, source) in sources.iter().enumerate() {
        for (at, definition) in source.definitions.iter().enumerate() {
            for name in definition.names(Scope::Global) {
                let before = by_name.entry(name).or_default();
                let repeated = before.last().is_some_and(|(source, at)| {
                    is_same_constant(&sources[*source].definitions[*at], definition)
                });
                if !repeated {
                    before.push((number, at));
                }
            }
        }
    }
    by_name
}

fn is_same_constant(one: &Definition, other: &Definition) -> bool {
    match (&one.kind, &other.kind) {
        (DefinitionKind::Const { value: one, .. }, DefinitionKind::Const { value: other, .. }) => {
            one.kind == other.kind
        }
        (DefinitionKind::Text { value: one, .. }, DefinitionKind::Text { value: other, .. }) => {
            one == other
        }
        _ => false,
    }
}

/// Adds definitions of a text to a module.
fn add(
    input: &mut ModuleInput,
    text: TextId,
    license: Option<String>,
    definitions: Vec<Definition>,
) {
    if definitions.is_empty() {
        return;
    }
    let mut specifications = input.specifications.iter_mut();
    match specifications.find(|(other, _)| *other == text) {
        Some((_, specification)) => specification.definitions.extend(definitions),
        None => input.specifications.push((
            text,
            Specification {
                definitions,
                license,
                ..Specification::default()
            },
        )),
    }
}
