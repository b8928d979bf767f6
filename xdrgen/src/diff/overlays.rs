//! Compares overlays: the codes of opaque fields, and the types of their content. Overlays of one
//! field are partners, with equal names first. An additional code is compatible, because a decoder
//! shows an unknown code as bytes. `compare` calls [`Comparison::overlays`] after it has matched
//! the types, because a renamed struct may contain the codes.

use std::collections::HashMap;

use super::Class;
use super::compare::{Comparison, Site};
use super::wire::TypeRef;
use crate::ir::{OverlayCase, OverlayDef, Schema};

impl<'s> Comparison<'s> {
    pub(super) fn overlays(&mut self) {
        let (old, new) = (all(self.old), all(self.new));
        let mut partners: Vec<Option<usize>> = vec![None; old.len()];
        // The content of one overlay may rename the struct that contains the codes of another.
        loop {
            let found = self.partners(&old, &new, &mut partners);
            if found.is_empty() {
                break;
            }
            for at in found {
                if let Some(other) = partners[at] {
                    self.codes(old[at].1, new[other].1);
                }
            }
            self.drain();
        }
        for ((_, before), partner) in old.iter().zip(&partners) {
            if partner.is_none() {
                self.overlay(Class::Breaking, (Some(before), None), "it was removed");
            }
        }
        for (at, (_, after)) in new.iter().enumerate() {
            if !partners.contains(&Some(at)) {
                self.overlay(Class::Compatible, (None, Some(after)), "it was added");
            }
        }
    }

    /// Finds partners for overlays without one, and returns the numbers of these overlays. An
    /// overlay of the same name comes first: several may describe one field.
    fn partners(
        &self,
        old: &[Named<'_>],
        new: &[Named<'_>],
        partners: &mut [Option<usize>],
    ) -> Vec<usize> {
        let mut found = Vec::new();
        for same_name in [true, false] {
            for at in 0..old.len() {
                if partners[at].is_some() {
                    continue;
                }
                partners[at] = (0..new.len()).find(|other| {
                    !partners.contains(&Some(*other))
                        && self.are_of_one_field(old[at].1, new[*other].1)
                        && (!same_name || is_same_name(old[at], new[*other]))
                });
                found.extend(partners[at].map(|_| at));
            }
        }
        found
    }

    fn are_of_one_field(&self, old: &OverlayDef, new: &OverlayDef) -> bool {
        let fields = |overlay: &OverlayDef| (overlay.code, overlay.data);
        self.matching.new_of(old.carrier) == Some(new.carrier) && fields(old) == fields(new)
    }

    /// Reports an overlay that is only in one of the schemas.
    fn overlay(
        &mut self,
        class: Class,
        (old, new): (Option<&OverlayDef>, Option<&OverlayDef>),
        what: &str,
    ) {
        let Some(overlay) = old.or(new) else {
            return;
        };
        let site = Site {
            subject: format!("overlay `{}`", overlay.rust),
            old: old.map(|old| self.old.ty(old.carrier).span),
            new: new.map(|new| self.new.ty(new.carrier).span),
        };
        self.report(class, &site, what);
    }

    fn codes(&mut self, old: &'s OverlayDef, new: &'s OverlayDef) {
        let of = |constant: &str| Site {
            subject: format!("overlay `{}`, code `{constant}`", old.rust),
            old: Some(self.old.ty(old.carrier).span),
            new: Some(self.new.ty(new.carrier).span),
        };
        let (before, after) = (by_code(old), by_code(new));
        for case in &old.cases {
            let site = of(&case.constant);
            match after.get(&case.code) {
                Some(other) => self.push(site, TypeRef::Type(&case.ty), TypeRef::Type(&other.ty)),
                None => self.report(Class::Breaking, &site, "it was removed"),
            }
        }
        let is_added = |case: &&OverlayCase| !before.contains_key(&case.code);
        for case in new.cases.iter().filter(is_added) {
            // A decoder that does not know the code treats the content as bytes, before and after.
            self.report(Class::Compatible, &of(&case.constant), "it was added");
        }
    }
}

/// An overlay, with the path of its module.
type Named<'s> = (&'s [String], &'s OverlayDef);

/// Returns all overlays.
fn all(schema: &Schema) -> Vec<Named<'_>> {
    let modules = schema.modules.iter();
    let of = modules.flat_map(|module| {
        let overlays = module.overlays.iter();
        overlays.map(|overlay| (module.path.as_slice(), overlay))
    });
    of.collect()
}

fn is_same_name(old: Named<'_>, new: Named<'_>) -> bool {
    (old.0, &old.1.rust) == (new.0, &new.1.rust)
}

fn by_code(overlay: &OverlayDef) -> HashMap<u32, &OverlayCase> {
    let cases = overlay.cases.iter();
    cases.map(|case| (case.code, case)).collect()
}
