//! Merges the definitions of extension documents into those of the documents before them.
//!
//! A document that extends a published specification repeats an enum with its new members, a union
//! with its new arms, or a program with its new procedures. Or it contains only members and arms,
//! below a comment such as `/* to be added to enum nfsstat4 */`.
//!
//! An equal repetition is dropped. A definition, a member, an arm, a version or a procedure that
//! differs stays, and `check` reports it as a second one; a `default` arm that differs is reported
//! here, since a union has room for one. Structs and inline bodies are never equal, so that a
//! repeated one is a second one. Definitions are only appended, since the map of names has their
//! indexes. [`merge`] runs before `supply::Needs`, which reads the merged definitions, and leaves
//! no fragment behind.

use std::collections::HashMap;

use crate::ast::{
    ArmBody, Definition, DefinitionKind, EnumBody, EnumMember, Fragment, FragmentKind, Linear,
    ProgramBody, ProgramProcedure, Specification, TypeSpecifier, UnionArm, UnionBody, ValueExpr,
    ValueExprKind,
};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{SourceMap, Span, TextId};

/// The specifications of a module, each with its text.
type Specifications = [(TextId, Specification)];

/// Merges the extension documents of a module into the others.
pub(crate) fn merge(
    sources: &SourceMap,
    specifications: &mut Specifications,
    diagnostics: &mut Diagnostics,
) {
    let is_extension = |text: TextId| {
        let document = sources.text(text).document();
        sources.document(document).is_extension()
    };
    if !specifications.iter().any(|(text, _)| is_extension(*text)) {
        return;
    }
    let mut first_of: HashMap<String, (usize, usize)> = HashMap::new();
    for at in 0..specifications.len() {
        let (text, specification) = &mut specifications[at];
        if is_extension(*text) {
            let definitions = std::mem::take(&mut specification.definitions);
            let fragments = std::mem::take(&mut specification.fragments);
            for definition in definitions {
                let first = first_of.get(&definition.name.name);
                let target =
                    first.map(|(of, index)| &mut specifications[*of].1.definitions[*index]);
                match target {
                    Some(target) => {
                        if let Some(kept) = extend(target, definition, diagnostics) {
                            specifications[at].1.definitions.push(kept);
                        }
                    }
                    None => specifications[at].1.definitions.push(definition),
                }
            }
            for fragment in fragments {
                add_fragment(sources, specifications, &first_of, fragment, diagnostics);
            }
        }
        for (index, definition) in specifications[at].1.definitions.iter().enumerate() {
            let name = definition.name.name.clone();
            first_of.entry(name).or_insert((at, index));
        }
    }
}

/// Adds the items of a fragment to the definitions that the comments before them name.
fn add_fragment(
    sources: &SourceMap,
    specifications: &mut Specifications,
    first_of: &HashMap<String, (usize, usize)>,
    fragment: Fragment,
    diagnostics: &mut Diagnostics,
) {
    let mut before = fragment.before;
    let mut target = None;
    let mut reported = false;
    let mut runs: Vec<((usize, usize), FragmentKind)> = Vec::new();
    for item in items(fragment) {
        let text = Span {
            end: item.span.start.max(before.start),
            ..before
        };
        let named = named(sources.slice(text), specifications, first_of, &item.kind);
        target = named.or(target);
        before = Span {
            start: item.span.end,
            ..before
        };
        match (target, runs.last_mut()) {
            (Some(place), Some((last, run))) if *last == place => join(run, item.kind),
            (Some(place), _) => runs.push((place, item.kind)),
            (None, _) if std::mem::replace(&mut reported, true) => {}
            (None, _) => diagnostics.report(no_target(&item)),
        }
    }
    for ((of, index), run) in runs {
        add(&mut specifications[of].1.definitions[index].kind, run);
    }
}

/// Appends items of the same kind.
fn join(run: &mut FragmentKind, item: FragmentKind) {
    match (run, item) {
        (FragmentKind::Members(run), FragmentKind::Members(item)) => run.extend(item),
        (FragmentKind::Arms(run), FragmentKind::Arms(item)) => run.extend(item),
        // A fragment has one kind.
        _ => {}
    }
}

/// Returns a fragment for each member or arm.
fn items(fragment: Fragment) -> Vec<Fragment> {
    let whole = fragment.span;
    let one = |span: Span, kind| Fragment {
        span,
        before: fragment.before,
        kind,
    };
    match fragment.kind {
        FragmentKind::Members(members) => members
            .into_iter()
            .map(|member| {
                let value = member.value.as_ref().map(|value| value.span);
                let span = member.name.span;
                let span = value.map_or(span, |value| span.to(value));
                one(span, FragmentKind::Members(vec![member]))
            })
            .collect(),
        FragmentKind::Arms(arms) => arms
            .into_iter()
            .map(|arm| {
                let first = arm.cases.first().map_or(whole, |case| case.span);
                let last = arm.cases.last().map_or(first, |case| case.span);
                let end = match &arm.body {
                    ArmBody::Void => last,
                    ArmBody::Field(field) => field.span,
                };
                one(first.to(end), FragmentKind::Arms(vec![arm]))
            })
            .collect(),
    }
}

/// Returns the definition that an item extends: the last one that the text before the item names.
fn named(
    text: &str,
    specifications: &Specifications,
    first_of: &HashMap<String, (usize, usize)>,
    added: &FragmentKind,
) -> Option<(usize, usize)> {
    let words = text.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut named = words.filter_map(|word| first_of.get(word).copied());
    named.find(|(of, index)| {
        let kind = &specifications[*of].1.definitions[*index].kind;
        match added {
            FragmentKind::Members(_) => matches!(kind, DefinitionKind::Enum(_)),
            FragmentKind::Arms(_) => matches!(kind, DefinitionKind::Union(_)),
        }
    })
}

fn no_target(fragment: &Fragment) -> Diagnostic {
    let (what, of) = match fragment.kind {
        FragmentKind::Members(_) => ("this member is", "enum"),
        FragmentKind::Arms(_) => ("this arm is", "union"),
    };
    let message = format!("{what} of no {of}");
    Diagnostic::new(Code::Syntax, fragment.span, message)
        .label(format!("the comment before it names no {of} of the module"))
        .note(format!(
            "write `/* to be added to {of} NAME */` before it, or the {of} around it"
        ))
}

fn add(target: &mut DefinitionKind, added: FragmentKind) {
    match (target, added) {
        (DefinitionKind::Enum(body), FragmentKind::Members(members)) => {
            extend_enum(body, members);
        }
        (DefinitionKind::Union(body), FragmentKind::Arms(arms)) => extend_arms(body, arms),
        _ => {}
    }
}

/// Adds the additional parts of another definition with the same name to a definition. Returns the
/// other definition if it is not an extension.
fn extend(
    target: &mut Definition,
    mut other: Definition,
    diagnostics: &mut Diagnostics,
) -> Option<Definition> {
    match (&mut target.kind, &mut other.kind) {
        (DefinitionKind::Enum(body), DefinitionKind::Enum(added)) => {
            extend_enum(body, std::mem::take(&mut added.members));
        }
        (DefinitionKind::Union(body), DefinitionKind::Union(added))
            if body.discriminant.name.name == added.discriminant.name.name
                && body.discriminant.is_same_as(&added.discriminant) =>
        {
            extend_union(body, added, diagnostics);
        }
        (DefinitionKind::Program(body), DefinitionKind::Program(added))
            if body.number.kind == added.number.kind =>
        {
            extend_program(body, added);
        }
        (
            DefinitionKind::Const { ty, value },
            DefinitionKind::Const {
                ty: ty_again,
                value: again,
            },
        ) if value.kind == again.kind
            && TypeSpecifier::are_same(ty.as_ref(), ty_again.as_ref()) => {}
        (DefinitionKind::Text { value, .. }, DefinitionKind::Text { value: again, .. })
            if value == again => {}
        (DefinitionKind::Typedef(first), DefinitionKind::Typedef(again))
            if first.is_same_as(again) => {}
        _ => return Some(other),
    }
    None
}

/// Adds members. Extensions repeat members, with their values.
fn extend_enum(body: &mut EnumBody, added: Vec<EnumMember>) {
    let known = Members::of(body);
    let mut new: Vec<EnumMember> = Vec::new();
    // The member before, and whether it is known.
    let mut before: Option<(String, bool)> = None;
    for mut member in added {
        let name = member.name.name.clone();
        let previous = before.as_ref().map(|(name, _)| name.as_str());
        let is_known = known.contains(&member, previous);
        if !is_known {
            // The member before it in the extension may be any of the enum.
            if let Some((previous, true)) = before {
                let span = member.name.span;
                let kind = known.after(previous);
                member.value = member.value.or(Some(ValueExpr { span, kind }));
            }
            new.push(member);
        }
        before = Some((name, is_known));
    }
    body.members.extend(new);
}

/// The members of an enum by name.
struct Members(HashMap<String, Known>);

/// The value of a member, the name of the member before it, and the number that the member has,
/// unless it depends on another name.
struct Known {
    value: Option<ValueExprKind>,
    before: Option<String>,
    number: Option<i128>,
}

impl Members {
    fn of(body: &EnumBody) -> Self {
        let (mut before, mut next) = (None, Some(0));
        let members = body.members.iter().map(|member| {
            let name = member.name.name.clone();
            let value = member.value.as_ref().map(|value| value.kind.clone());
            let number = match &value {
                None => next,
                Some(ValueExprKind::Number(number)) => Some(*number),
                Some(_) => None,
            };
            next = number.and_then(|number| number.checked_add(1));
            let known = Known {
                value,
                before: before.replace(name.clone()),
                number,
            };
            (name, known)
        });
        Self(members.collect())
    }

    /// Returns true if a member with the name and the value exists. One without a value has the
    /// same value if the same member precedes it; a member that comes first may follow any other.
    fn contains(&self, member: &EnumMember, before: Option<&str>) -> bool {
        self.0.get(&member.name.name).is_some_and(|known| {
            let value = member.value.as_ref().map(|value| &value.kind);
            let follows = || before.is_none() || before == known.before.as_deref();
            known.value.as_ref() == value && (value.is_some() || follows())
        })
    }

    /// Returns the value of a member that follows another one: a number if it is known, because a
    /// member of another enum may have the name.
    fn after(&self, member: String) -> ValueExprKind {
        let number = self.0.get(&member).and_then(|known| known.number);
        let next = Linear {
            factor: 1,
            addend: 1,
        };
        match number.and_then(|number| number.checked_add(1)) {
            Some(number) => ValueExprKind::Number(number),
            None => ValueExprKind::Sum(member, next),
        }
    }
}

fn extend_union(body: &mut UnionBody, added: &mut UnionBody, diagnostics: &mut Diagnostics) {
    extend_arms(body, std::mem::take(&mut added.arms));
    match (&body.default, added.default.take()) {
        (_, None) => {}
        (None, again) => body.default = again,
        (Some((_, default)), Some((_, again))) if has_same_content(default, &again) => {}
        (Some((first, _)), Some((again, _))) => {
            let found = Diagnostic::new(Code::Syntax, again, "a union has one `default`")
                .label("another content")
                .note_at(*first, "the first is here");
            diagnostics.report(found);
        }
    }
}

/// Adds arms. Extensions repeat arms, with their contents.
fn extend_arms(body: &mut UnionBody, added: Vec<UnionArm>) {
    let key = |arm: &UnionArm| -> Vec<String> {
        let cases = arm.cases.iter();
        cases.map(|case| format!("{:?}", case.kind)).collect()
    };
    let known: HashMap<Vec<String>, usize> = (0..body.arms.len())
        .map(|at| (key(&body.arms[at]), at))
        .collect();
    for arm in added {
        let same = known
            .get(&key(&arm))
            .is_some_and(|at| has_same_content(&body.arms[*at].body, &arm.body));
        if !same {
            body.arms.push(arm);
        }
    }
}

fn has_same_content(one: &ArmBody, other: &ArmBody) -> bool {
    match (one, other) {
        (ArmBody::Void, ArmBody::Void) => true,
        (ArmBody::Field(one), ArmBody::Field(other)) => {
            one.name.name == other.name.name && one.is_same_as(other)
        }
        _ => false,
    }
}

/// Adds versions, and procedures to versions. Extensions repeat procedures, with their numbers,
/// arguments and results.
fn extend_program(body: &mut ProgramBody, added: &mut ProgramBody) {
    for version in std::mem::take(&mut added.versions) {
        let mut versions = body.versions.iter_mut();
        let known = versions.find(|known| {
            known.name.name == version.name.name && known.number.kind == version.number.kind
        });
        let Some(known) = known else {
            body.versions.push(version);
            continue;
        };
        let by_name: HashMap<&str, &ProgramProcedure> = known
            .procedures
            .iter()
            .map(|procedure| (procedure.name.name.as_str(), procedure))
            .collect();
        let is_new = |procedure: &ProgramProcedure| {
            let known = by_name.get(procedure.name.name.as_str());
            known.is_none_or(|known| !known.is_same_as(procedure))
        };
        let procedures = version.procedures.into_iter();
        let new: Vec<ProgramProcedure> = procedures.filter(is_new).collect();
        known.procedures.extend(new);
    }
}
