//! Compares structs, enums and unions: fields by place, or by name if their number differs; members
//! by name; arms by value.
//!
//! Classes are for messages in the old form: an additional or removed field is breaking, an
//! additional member or arm is extending. `Comparison::push` defers the types of fields and arms.

use std::collections::{HashMap, HashSet};

use super::Class;
use super::compare::{Comparison, Site};
use super::wire::{TypeRef, Wire, WordValues, wire};
use crate::ir::{Arm, Content, Discriminant, Enum, Field, Member, Schema, Union};
use crate::source::Span;

impl<'s> Comparison<'s> {
    pub(super) fn structs(&mut self, site: &Site, old: &'s [Field], new: &'s [Field]) {
        let before: HashSet<&str> = old.iter().map(|field| field.name.as_str()).collect();
        let after: HashSet<&str> = new.iter().map(|field| field.name.as_str()).collect();
        if old.len() != new.len() {
            return self.fields_by_name(site, (old, &before), (new, &after));
        }
        for (a, b) in old.iter().zip(new) {
            let at = field_site(site, &a.name, Some(a.span), Some(b.span));
            if a.name != b.name {
                if after.contains(a.name.as_str()) || before.contains(b.name.as_str()) {
                    let what = format!("the field `{}` is in its place", b.name);
                    self.report(Class::Breaking, &at, &what);
                    continue;
                }
                let what = format!("it was renamed to `{}`", b.name);
                self.report(Class::Compatible, &at, &what);
            }
            self.push(at, TypeRef::Type(&a.ty), TypeRef::Type(&b.ty));
        }
    }

    /// Compares two structs with different numbers of fields.
    fn fields_by_name(
        &mut self,
        site: &Site,
        (old, before): (&'s [Field], &HashSet<&str>),
        (new, after): (&'s [Field], &HashSet<&str>),
    ) {
        for field in old
            .iter()
            .filter(|field| !after.contains(field.name.as_str()))
        {
            let at = field_site(site, &field.name, Some(field.span), None);
            self.report(Class::Breaking, &at, "the field was removed");
        }
        for field in new
            .iter()
            .filter(|field| !before.contains(field.name.as_str()))
        {
            let at = field_site(site, &field.name, None, Some(field.span));
            self.report(Class::Breaking, &at, "the field was added");
        }
        let by_name: HashMap<&str, &Field> = new
            .iter()
            .map(|field| (field.name.as_str(), field))
            .collect();
        for a in old {
            if let Some(b) = by_name.get(a.name.as_str()) {
                let at = field_site(site, &a.name, Some(a.span), Some(b.span));
                self.push(at, TypeRef::Type(&a.ty), TypeRef::Type(&b.ty));
            }
        }
    }

    pub(super) fn enums(&mut self, site: &Site, old: &Enum, new: &Enum) {
        let (before, after) = (by_value(old), by_value(new));
        let (old_values, new_values) = (by_name(old), by_name(new));
        for Member {
            name, value, span, ..
        } in old.all_members()
        {
            let at = |new: Option<Span>| Site {
                subject: format!("{}: the member `{name}`", site.subject),
                old: Some(*span),
                new: new.or(site.new),
            };
            match (new_values.get(name.as_str()), after.get(value)) {
                (Some(now), _) if now.value != *value => {
                    let what = format!("the value is {}, it was {value}", now.value);
                    self.report(Class::Breaking, &at(Some(now.span)), &what);
                }
                (Some(_), _) => {}
                (None, Some(now)) if !old_values.contains_key(now.name.as_str()) => {
                    let what = format!("it was renamed to `{}`", now.name);
                    self.report(Class::Compatible, &at(Some(now.span)), &what);
                }
                // An additional name for an existing value.
                (None, Some(_)) => {
                    self.report(Class::Compatible, &at(None), "it was removed");
                }
                (None, None) => {
                    let class = if new.open {
                        Class::Compatible
                    } else {
                        Class::Breaking
                    };
                    self.report(class, &at(None), "it was removed");
                }
            }
        }
        let is_new = |member: &&Member| !old_values.contains_key(member.name.as_str());
        for Member {
            name, value, span, ..
        } in new.all_members().filter(is_new)
        {
            let at = Site {
                subject: site.subject.clone(),
                old: site.old,
                new: Some(*span),
            };
            let class = match before.get(value) {
                Some(was) if !new_values.contains_key(was.name.as_str()) => continue,
                Some(_) => Class::Compatible,
                None if old.open => Class::Compatible,
                None => Class::Extending,
            };
            let what = format!("the member `{name}` = {value} was added");
            self.report(class, &at, &what);
        }
        match (old.open, new.open) {
            (true, false) => self.report(Class::Breaking, site, "it is not open any more"),
            (false, true) => self.report(Class::Extending, site, "it is open now"),
            _ => {}
        }
    }

    pub(super) fn unions(&mut self, site: &Site, old: &'s Union, new: &'s Union) {
        self.discriminants(site, old, new);
        let arms = |body: &'s Union| -> HashMap<u32, &'s Arm> {
            body.arms.iter().map(|arm| (arm.value, arm)).collect()
        };
        let (before, after) = (arms(old), arms(new));
        for arm in &old.arms {
            let other = after.get(&arm.value);
            let at = arm_site(site, arm, Some(arm.span), other.map(|other| other.span));
            match (other, &new.default) {
                (Some(other), _) => self.contents(at, &arm.content, &other.content),
                (None, Some(default)) => {
                    let class = self.between(&at, &arm.content, default);
                    let class = class.max(Class::Compatible);
                    self.report(class, &at, "it falls under `default` now");
                }
                (None, None) => self.report(Class::Breaking, &at, "it was removed"),
            }
        }
        for arm in new
            .arms
            .iter()
            .filter(|arm| !before.contains_key(&arm.value))
        {
            let at = arm_site(site, arm, None, Some(arm.span));
            let was_value = words(self.old, old.discriminant).contains(arm.value.cast_signed());
            let class = match &old.default {
                Some(default) if was_value => self.between(&at, default, &arm.content),
                _ => Class::Extending,
            };
            self.report(class, &at, "it was added");
        }
        let at = Site {
            subject: format!("{}: the arm `default`", site.subject),
            ..site.clone()
        };
        match (&old.default, &new.default) {
            (Some(a), Some(b)) => self.contents(at, a, b),
            (Some(_), None) => {
                let class = match covered(self.old, old).all_in(&after) {
                    true => Class::Compatible,
                    false => Class::Breaking,
                };
                self.report(class, &at, "it was removed");
            }
            (None, Some(_)) => {
                let class = match covered(self.new, new).all_in(&before) {
                    true => Class::Compatible,
                    false => Class::Extending,
                };
                self.report(class, &at, "it was added");
            }
            (None, None) => {}
        }
    }

    fn discriminants(&mut self, site: &Site, old: &Union, new: &Union) {
        let site = Site {
            subject: format!("{}: the discriminant `{}`", site.subject, old.name),
            ..site.clone()
        };
        if old.name != new.name {
            let what = format!("it was renamed to `{}`", new.name);
            self.report(Class::Compatible, &site, &what);
        }
        match (old.discriminant, new.discriminant) {
            (Discriminant::Enum(a), Discriminant::Enum(b)) => {
                self.push(site, TypeRef::Definition(a), TypeRef::Definition(b));
            }
            // The comparison of the arms reports changes of the values.
            _ if old.default.is_none() && new.default.is_none() => {}
            (a, b) => {
                let (a, b) = (words(self.old, a), words(self.new, b));
                match (a.are_in(b), b.are_in(a)) {
                    (true, true) => {}
                    (true, false) => {
                        self.report(Class::Extending, &site, "its type has more values");
                    }
                    (false, _) => {
                        self.report(Class::Breaking, &site, "its type has other values");
                    }
                }
            }
        }
    }

    /// Compares the contents of two arms.
    fn contents(&mut self, site: Site, old: &'s Content, new: &'s Content) {
        match (old, new) {
            (Some((name, a)), Some((other, b))) => {
                if name != other {
                    let what = format!("its field `{name}` was renamed to `{other}`");
                    self.report(Class::Compatible, &site, &what);
                }
                self.push(site, TypeRef::Type(a), TypeRef::Type(b));
            }
            (None, None) => {}
            (None, Some((name, _))) => {
                let what = format!("it has the field `{name}`, it was void");
                self.report(Class::Breaking, &site, &what);
            }
            (Some((name, _)), None) => {
                let what = format!("it is void, it had the field `{name}`");
                self.report(Class::Breaking, &site, &what);
            }
        }
    }

    /// Returns the class of a change from one arm's content to another's.
    fn between(&mut self, site: &Site, old: &'s Content, new: &'s Content) -> Class {
        match (old, new) {
            (None, None) => Class::Compatible,
            (Some((_, a)), Some((_, b))) => self.class_of(site, TypeRef::Type(a), TypeRef::Type(b)),
            _ => Class::Breaking,
        }
    }
}

fn field_site(site: &Site, name: &str, old: Option<Span>, new: Option<Span>) -> Site {
    Site {
        subject: format!("{}: the field `{name}`", site.subject),
        old: old.or(site.old),
        new: new.or(site.new),
    }
}

fn arm_site(site: &Site, arm: &Arm, old: Option<Span>, new: Option<Span>) -> Site {
    Site {
        subject: format!("{}: the arm `{}`", site.subject, arm.case),
        old: old.or(site.old),
        new: new.or(site.new),
    }
}

fn by_name(body: &Enum) -> HashMap<&str, &Member> {
    body.all_members()
        .map(|member| (member.name.as_str(), member))
        .collect()
}

fn by_value(body: &Enum) -> HashMap<i32, &Member> {
    body.members
        .iter()
        .map(|member| (member.value, member))
        .collect()
}

/// The values that the default arm of a union covers; `None` if they cannot be listed.
struct Covered(Option<Vec<i32>>);

impl Covered {
    /// Returns true if each value has an arm among these.
    fn all_in(&self, arms: &HashMap<u32, &Arm>) -> bool {
        let values = self.0.as_ref();
        values.is_some_and(|values| {
            let has_arm = |value: &i32| arms.contains_key(&value.cast_unsigned());
            values.iter().all(has_arm)
        })
    }
}

fn covered(schema: &Schema, body: &Union) -> Covered {
    let own: HashSet<u32> = body.arms.iter().map(|arm| arm.value).collect();
    let values = words(schema, body.discriminant).listed();
    Covered(values.map(|values| {
        let is_left = |value: &i32| !own.contains(&value.cast_unsigned());
        values.into_iter().filter(is_left).collect()
    }))
}

fn words(schema: &Schema, discriminant: Discriminant) -> WordValues<'_> {
    match discriminant {
        Discriminant::I32 => WordValues::Signed,
        Discriminant::U32 => WordValues::Unsigned,
        Discriminant::Bool => WordValues::Bool,
        Discriminant::Enum(id) => match wire(schema, TypeRef::Definition(id)) {
            Wire::Word(words) => words,
            _ => WordValues::Unsigned,
        },
    }
}
