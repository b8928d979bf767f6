//! The comparison: the order of the reports, the pairs of types, constants, programs and
//! procedures. `definitions` compares the parts of definitions, `overlays` overlays, and `matching`
//! has the pairs.
//!
//! An explicit list holds the pairs that are still to be compared ([`Comparison::push`]), so that
//! nested types do not cause nested calls. A trial ([`Comparison::class_of`]) must change neither
//! the matching nor the reports. Equal schemas must have no changes.

use std::collections::{HashMap, HashSet};
use std::mem::discriminant;

use super::matching::{Matching, ids, keyword, name, named, parts};
use super::wire::{TypeRef, Wire, definition, describe, wire};
use super::{Change, Class};
use crate::ir::{Constant, Procedure, Program, Schema, TypeDefKind, TypeId, Version};
use crate::source::Span;

/// The location of a pair of types: the enclosing definition, and the positions in both schemas.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) subject: String,
    pub(super) old: Option<Span>,
    pub(super) new: Option<Span>,
}

/// A comparison of two schemas.
pub(super) struct Comparison<'s> {
    pub(super) old: &'s Schema,
    pub(super) new: &'s Schema,
    pub(super) matching: Matching,
    /// The pairs that are still to be compared, as a stack.
    todo: Vec<(Site, TypeRef<'s>, TypeRef<'s>)>,
    /// The pairs of typedefs that are compared at the end, when other places may have given each
    /// its partner.
    postponed: Vec<(Site, TypeRef<'s>, TypeRef<'s>)>,
    is_end: bool,
    /// The pairs of definitions that were compared.
    seen: HashSet<(TypeId, TypeId)>,
    /// The worst class of the changes between definitions that are not matched with each other.
    classes: HashMap<(TypeId, TypeId), Class>,
    /// The changes that were reported.
    reported: HashSet<(String, Option<Span>, Option<Span>)>,
    /// Whether only the worst class is recorded and nothing is reported: see [`Self::class_of`].
    is_trial: bool,
    changes: Vec<Change>,
}

impl<'s> Comparison<'s> {
    pub(super) fn new(old: &'s Schema, new: &'s Schema) -> Self {
        Self {
            old,
            new,
            matching: Matching::by_names(old, new),
            todo: Vec::new(),
            postponed: Vec::new(),
            is_end: false,
            seen: HashSet::new(),
            classes: HashMap::new(),
            reported: HashSet::new(),
            is_trial: false,
            changes: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Vec<Change> {
        self.constants();
        self.programs();
        self.drain();
        for old in ids(self.old) {
            self.definition(old);
            self.drain();
        }
        let (old_parts, new_parts) = (parts(self.old), parts(self.new));
        self.renamed_roots(&old_parts, &new_parts);
        // After the types, which may have renamed the structs that contain codes.
        self.overlays();
        self.postponed();
        self.unmatched(&old_parts, &new_parts);
        self.changes
    }

    pub(super) fn report(&mut self, class: Class, site: &Site, what: &str) {
        let change = Change {
            class,
            message: format!("{}: {what}", site.subject),
            old: site.old,
            new: site.new,
        };
        // A list node and its list have the same position, so that a change may be found twice.
        let key = (change.message.clone(), change.old, change.new);
        if self.is_trial || self.reported.insert(key) {
            self.changes.push(change);
        }
    }

    /// Adds a pair of types to compare.
    pub(super) fn push(&mut self, site: Site, old: TypeRef<'s>, new: TypeRef<'s>) {
        self.todo.push((site, old, new));
    }

    /// Returns the worst class of the changes between two types that are not matched with each
    /// other.
    pub(super) fn class_of(&mut self, site: &Site, old: TypeRef<'s>, new: TypeRef<'s>) -> Class {
        let pair = match (wire(self.old, old), wire(self.new, new)) {
            (Wire::Definition(a), Wire::Definition(b)) => Some((a, b)),
            _ => None,
        };
        if let Some(class) = pair.and_then(|pair| self.classes.get(&pair)) {
            return *class;
        }
        let changes = std::mem::take(&mut self.changes);
        let todo = std::mem::take(&mut self.todo);
        let seen = std::mem::take(&mut self.seen);
        let was_trial = std::mem::replace(&mut self.is_trial, true);
        self.push(site.clone(), old, new);
        self.drain();
        self.is_trial = was_trial;
        (self.todo, self.seen) = (todo, seen);
        let found = std::mem::replace(&mut self.changes, changes);
        let worst = found.iter().map(|change| change.class).max();
        let class = worst.unwrap_or(Class::Compatible);
        if let Some(pair) = pair {
            self.classes.insert(pair, class);
        }
        class
    }

    pub(super) fn drain(&mut self) {
        while let Some((site, old, new)) = self.todo.pop() {
            self.forms(&site, old, new);
        }
    }

    /// Compares a type with its partner.
    fn definition(&mut self, old: TypeId) {
        let Some(new) = self.matching.new_of(old) else {
            return;
        };
        let (before, changes) = (&self.old.ty(old).origin.xdr, self.changes.len());
        let site = self.site_of(old, new);
        match (content(self.old, old), content(self.new, new)) {
            (TypeRef::Definition(_), TypeRef::Definition(_)) => self.definitions(old, new),
            (before, after) => self.forms(&site, before, after),
        }
        self.drain();
        let after = &self.new.ty(new).origin.xdr;
        let is_same_text = before.split_whitespace().eq(after.split_whitespace());
        if !is_same_text && changes == self.changes.len() {
            let text = "the text has changed, the messages have not";
            self.report(Class::Compatible, &site, text);
        }
    }

    fn site_of(&self, old: TypeId, new: TypeId) -> Site {
        Site {
            subject: named(self.old, old),
            old: Some(self.old.ty(old).span),
            new: Some(self.new.ty(new).span),
        }
    }

    /// Compares two types at a site.
    fn forms(&mut self, site: &Site, old: TypeRef<'s>, new: TypeRef<'s>) {
        if let (Some(a), Some(b)) = (definition(old), definition(new)) {
            if self.matching.new_of(a) == Some(b) {
                // Matched definitions are compared at their definition.
                return;
            }
            if self.is_postponed(a, b) {
                self.postponed.push((site.clone(), old, new));
                return;
            }
            if self.renamed(a, b) {
                return;
            }
            let is_replaced = self.is_end && !self.is_trial;
            if is_replaced && [keyword(self.old, a), keyword(self.new, b)] == ["typedef"; 2] {
                // Each has another partner.
                let class = self.class_of(site, old, new);
                return self.replaced(class, site, old, new);
            }
        }
        let (a, b) = (wire(self.old, old), wire(self.new, new));
        match (a, b) {
            (Wire::Definition(a), Wire::Definition(b)) => {
                if self.matching.new_of(a) == Some(b) || self.renamed(a, b) {
                    return;
                }
                if self.is_trial {
                    return self.definitions(a, b);
                }
                let class = self.class_of(site, old, new);
                self.replaced(class, site, old, new);
            }
            (Wire::Word(a), Wire::Word(b)) => {
                let class = match (a.are_in(b), b.are_in(a)) {
                    (true, true) => Class::Compatible,
                    (true, false) => Class::Extending,
                    (false, _) => Class::Breaking,
                };
                if class > Class::Compatible {
                    self.replaced(class, site, old, new);
                }
            }
            (Wire::Primitive(a), Wire::Primitive(b)) if a == b => {}
            (Wire::FixedOpaque(a), Wire::FixedOpaque(b)) if a == b => {}
            (Wire::Opaque(a), Wire::Opaque(b)) => self.bounds(site, (a, b), (old, new)),
            (Wire::Fixed(element, a), Wire::Fixed(other, b)) if a == b => {
                self.push(site.clone(), element, other);
            }
            (Wire::Array(element, a), Wire::Array(other, b)) => {
                self.bounds(site, (a, b), (old, new));
                self.push(site.clone(), element, other);
            }
            (Wire::List(element), Wire::List(other)) => self.push(site.clone(), element, other),
            _ => self.replaced(Class::Breaking, site, old, new),
        }
    }

    /// Returns true if two typedefs without partners have messages of another form, so that each
    /// may be found with a better partner at another place.
    fn is_postponed(&self, old: TypeId, new: TypeId) -> bool {
        let are_typedefs = [keyword(self.old, old), keyword(self.new, new)] == ["typedef"; 2];
        let are_free = self.matching.new_of(old).is_none() && self.matching.old_of(new).is_none();
        if self.is_trial || self.is_end || !are_typedefs || !are_free {
            return false;
        }
        let before = wire(self.old, TypeRef::Definition(old));
        let after = wire(self.new, TypeRef::Definition(new));
        let elements = before.element().zip(after.element());
        let elements = elements.map(|(a, b)| (wire(self.old, a), wire(self.new, b)));
        let is_other = |(a, b): (Wire<'_>, Wire<'_>)| discriminant(&a) != discriminant(&b);
        is_other((before, after)) || elements.is_some_and(is_other)
    }

    /// Compares the pairs that were postponed.
    fn postponed(&mut self) {
        self.is_end = true;
        self.todo.append(&mut self.postponed);
        self.drain();
    }

    fn replaced(&mut self, class: Class, site: &Site, old: TypeRef<'_>, new: TypeRef<'_>) {
        let (old, new) = (describe(self.old, old), describe(self.new, new));
        let what = if old == new {
            format!("the type `{old}` has changed")
        } else {
            format!("the type is `{new}`, it was `{old}`")
        };
        self.report(class, site, &what);
    }

    fn bounds(
        &mut self,
        site: &Site,
        (old, new): (Option<u32>, Option<u32>),
        (before, after): (TypeRef<'_>, TypeRef<'_>),
    ) {
        let [old, new] = [old, new].map(|bound| bound.unwrap_or(u32::MAX));
        match old.cmp(&new) {
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Less => self.replaced(Class::Extending, site, before, after),
            std::cmp::Ordering::Greater => self.replaced(Class::Breaking, site, before, after),
        }
    }

    /// Matches two definitions as one that was renamed, if neither name is in the other schema and
    /// their kinds are equal.
    fn renamed(&mut self, old: TypeId, new: TypeId) -> bool {
        let is_one_kind = keyword(self.old, old) == keyword(self.new, new);
        if self.is_trial || !is_one_kind || !self.matching.add(old, new) {
            return false;
        }
        let site = self.site_of(old, new);
        let what = format!("it was renamed to `{}`", name(self.new, new));
        self.report(Class::Compatible, &site, &what);
        match (content(self.old, old), content(self.new, new)) {
            (TypeRef::Type(before), TypeRef::Type(after)) => {
                self.push(site, TypeRef::Type(before), TypeRef::Type(after));
            }
            _ => self.definitions(old, new),
        }
        true
    }

    /// Compares two definitions that are not aliases, once.
    fn definitions(&mut self, old: TypeId, new: TypeId) {
        if !self.seen.insert((old, new)) {
            return;
        }
        let site = self.site_of(old, new);
        match (&self.old.ty(old).kind, &self.new.ty(new).kind) {
            (TypeDefKind::Struct(a), TypeDefKind::Struct(b)) => self.structs(&site, a, b),
            (TypeDefKind::Enum(a), TypeDefKind::Enum(b)) => self.enums(&site, a, b),
            (TypeDefKind::Union(a), TypeDefKind::Union(b)) => self.unions(&site, a, b),
            _ => {
                let keyword = keyword(self.new, new);
                let what = format!("it is a {keyword} now");
                self.report(Class::Breaking, &site, &what);
            }
        }
    }

    fn constants(&mut self) {
        fn all(schema: &Schema) -> impl Iterator<Item = &Constant> {
            schema.modules.iter().flat_map(|module| &module.constants)
        }
        let before: HashSet<&str> = all(self.old).map(|old| old.name.as_str()).collect();
        // Modules may have constants of one name.
        let mut after: HashMap<&str, Vec<&Constant>> = HashMap::new();
        for new in all(self.new) {
            after.entry(&new.name).or_default().push(new);
        }
        for old in all(self.old) {
            let named = after.get(old.name.as_str()).map_or(&[][..], Vec::as_slice);
            let same = named.iter().find(|new| new.value == old.value);
            let new = same.or_else(|| named.first());
            let site = Site {
                subject: format!("const `{}`", old.name),
                old: Some(old.span),
                new: new.map(|new| new.span),
            };
            match new {
                Some(new) if new.value != old.value => {
                    let what = format!("the value is {}, it was {}", new.value, old.value);
                    self.report(Class::Breaking, &site, &what);
                }
                Some(_) => {}
                // If it is used as a bound, the type that uses it reports the change.
                None => self.report(Class::Compatible, &site, "it was removed"),
            }
        }
        for new in all(self.new).filter(|new| !before.contains(new.name.as_str())) {
            let site = Site {
                subject: format!("const `{}`", new.name),
                old: None,
                new: Some(new.span),
            };
            let what = format!("it was added, with the value {}", new.value);
            self.report(Class::Compatible, &site, &what);
        }
    }

    fn programs(&mut self) {
        let by_numbers = |schema: &'s Schema| -> HashMap<(u32, u32), &'s Version> {
            let all = versions(schema);
            all.map(|(program, version)| ((program.number, version.number), version))
                .collect()
        };
        let (before, after) = (by_numbers(self.old), by_numbers(self.new));
        for (program, version) in versions(self.old) {
            let subject = format!("program `{}`, version `{}`", program.name, version.name);
            match after.get(&(program.number, version.number)) {
                Some(new) => self.procedures(&subject, version, new),
                None => {
                    let site = Site {
                        subject,
                        old: version.procedures.first().map(|procedure| procedure.span),
                        new: None,
                    };
                    self.report(Class::Breaking, &site, "it was removed");
                }
            }
        }
        for (program, version) in versions(self.new) {
            if !before.contains_key(&(program.number, version.number)) {
                let site = Site {
                    subject: format!("program `{}`, version `{}`", program.name, version.name),
                    old: None,
                    new: version.procedures.first().map(|procedure| procedure.span),
                };
                self.report(Class::Extending, &site, "it was added");
            }
        }
    }

    /// Compares procedures by name, or by number if neither name is in the other version.
    fn procedures(&mut self, subject: &str, old: &'s Version, new: &'s Version) {
        let of = |name: &str, old: Option<Span>, new: Option<Span>| Site {
            subject: format!("{subject}: procedure `{name}`"),
            old,
            new,
        };
        let (before, after) = (Procedures::of(old), Procedures::of(new));
        for procedure in &old.procedures {
            let now = after.partner(procedure, &before);
            let site = of(
                &procedure.name,
                Some(procedure.span),
                now.map(|now| now.span),
            );
            match now {
                Some(now) => self.procedure(&site, procedure, now),
                None => self.report(Class::Breaking, &site, "it was removed"),
            }
        }
        let is_added = |now: &&Procedure| before.partner(now, &after).is_none();
        for now in new.procedures.iter().filter(is_added) {
            let site = of(&now.name, None, Some(now.span));
            self.report(Class::Extending, &site, "it was added");
        }
    }

    fn procedure(&mut self, site: &Site, old: &'s Procedure, new: &'s Procedure) {
        if old.name != new.name {
            let what = format!("it was renamed to `{}`", new.name);
            self.report(Class::Compatible, site, &what);
        }
        if old.number != new.number {
            let what = format!("the number is {}, it was {}", new.number, old.number);
            self.report(Class::Breaking, site, &what);
        }
        let of = |what: &str| Site {
            subject: format!("{}, {what}", site.subject),
            ..site.clone()
        };
        if old.arguments.len() == new.arguments.len() {
            for (a, b) in old.arguments.iter().zip(&new.arguments) {
                self.push(of("argument"), TypeRef::Type(a), TypeRef::Type(b));
            }
        } else {
            let (before, after) = (old.arguments.len(), new.arguments.len());
            let what = format!("it has {after} arguments, it had {before}");
            self.report(Class::Breaking, site, &what);
        }
        match (&old.reply, &new.reply) {
            (Some(a), Some(b)) => self.push(of("results"), TypeRef::Type(a), TypeRef::Type(b)),
            (None, None) => {}
            _ => self.report(Class::Breaking, site, "the results are void in one of both"),
        }
    }

    /// Reports types that have no partner. A part of another type is reported with that type.
    fn unmatched(&mut self, old_parts: &HashSet<TypeId>, new_parts: &HashSet<TypeId>) {
        let of = |class, message, old, new| Change {
            class,
            message,
            old,
            new,
        };
        for old in ids(self.old).filter(|id| self.matching.new_of(*id).is_none()) {
            let class = match old_parts.contains(&old) {
                true => Class::Compatible,
                false => Class::Breaking,
            };
            let message = format!("{}: it was removed", named(self.old, old));
            let change = of(class, message, Some(self.old.ty(old).span), None);
            self.changes.push(change);
        }
        for new in ids(self.new).filter(|id| self.matching.old_of(*id).is_none()) {
            let class = match new_parts.contains(&new) {
                true => Class::Compatible,
                false => Class::Extending,
            };
            let message = format!("{}: it was added", named(self.new, new));
            let change = of(class, message, None, Some(self.new.ty(new).span));
            self.changes.push(change);
        }
    }

    /// Matches types that are part of no other type and have no partner, if their messages are the
    /// same.
    fn renamed_roots(&mut self, old_parts: &HashSet<TypeId>, new_parts: &HashSet<TypeId>) {
        let shape = |schema: &Schema, id| {
            let layout = &schema.ty(id).layout;
            (keyword(schema, id), layout.min, layout.max)
        };
        let mut candidates = HashMap::<_, Vec<TypeId>>::new();
        let is_left = |id: &TypeId| self.matching.old_of(*id).is_none() && !new_parts.contains(id);
        for id in ids(self.new).filter(is_left) {
            candidates.entry(shape(self.new, id)).or_default().push(id);
        }
        for old in ids(self.old).filter(|id| !old_parts.contains(id)) {
            if self.matching.new_of(old).is_some() {
                continue;
            }
            let alike = candidates.get(&shape(self.old, old));
            let site = Site {
                subject: String::new(),
                old: None,
                new: None,
            };
            let same = alike.into_iter().flatten().take(CANDIDATES).find(|new| {
                let forms = (TypeRef::Definition(old), TypeRef::Definition(**new));
                self.matching.old_of(**new).is_none()
                    && self.class_of(&site, forms.0, forms.1) == Class::Compatible
            });
            if let Some(new) = same {
                self.renamed(old, *new);
                self.drain();
            }
        }
    }
}

/// The procedures of a version, by name and by number.
struct Procedures<'s> {
    by_name: HashMap<&'s str, &'s Procedure>,
    by_number: HashMap<u32, &'s Procedure>,
}

impl<'s> Procedures<'s> {
    fn of(version: &'s Version) -> Self {
        let all = || version.procedures.iter();
        Self {
            by_name: all().map(|each| (each.name.as_str(), each)).collect(),
            by_number: all().map(|each| (each.number, each)).collect(),
        }
    }

    /// Returns the one that is a procedure of `others`, the version that has it.
    fn partner(&self, of: &Procedure, others: &Self) -> Option<&'s Procedure> {
        let renamed = || {
            let found = self.by_number.get(&of.number)?;
            (!others.by_name.contains_key(found.name.as_str())).then_some(found)
        };
        self.by_name.get(of.name.as_str()).or_else(renamed).copied()
    }
}

/// Returns the versions of all programs.
fn versions(schema: &Schema) -> impl Iterator<Item = (&Program, &Version)> {
    let programs = schema.modules.iter().flat_map(|module| &module.programs);
    programs.flat_map(|program| {
        program
            .versions
            .iter()
            .map(move |version| (program, version))
    })
}

/// The maximum number of types of the same size that are compared with a type without a partner.
const CANDIDATES: usize = 16;

/// Returns the target of a typedef, or the definition itself.
fn content(schema: &Schema, id: TypeId) -> TypeRef<'_> {
    match &schema.ty(id).kind {
        TypeDefKind::Alias(target) => TypeRef::Type(target),
        _ => TypeRef::Definition(id),
    }
}
