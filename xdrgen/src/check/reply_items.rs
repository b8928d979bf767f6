//! Finds the items of each procedure's results, and the limits of their lengths.
//!
//! `emit::methods` turns them into `Method::reply_limits`, by which a client provides Write chunks
//! for a reply. Their order is that of XDR, because the chunks are matched to items in order (RFC
//! 8166, section 4.3.2.1). `MAX_REPLY_ITEMS` must equal `oncrpc::MAX_REPLY_ITEMS`.
//!
//! It runs after `lists`, without which the search would not end on a list node; after `sizes`,
//! whose layouts it reads; and after `rename`, because [`Argument`] has the names of fields in
//! Rust. `items` turns only fields and arms into items.

use std::collections::BTreeSet;

use crate::check::entries::{self, Part};
use crate::check::{Context, Entry};
use crate::ir::{
    Argument, Content, ItemLimit, Primitive, Procedure, ReplyItem, Schema, Type, TypeDefKind,
    TypeId,
};

/// The maximum number of items of one reply that `oncrpc` counts.
const MAX_REPLY_ITEMS: usize = 8;

/// An entry of `reply_items`: an argument limits the length of an item of the results.
struct Rule<'e> {
    entry: &'e Entry,
    item: Part,
    argument: Part,
    /// Whether the argument has 64 bits.
    wide: bool,
}

/// Lowers the items of the results of a module's procedures.
pub(crate) fn lower(
    context: &mut Context<'_, '_>,
    schema: &mut Schema,
    module: usize,
    entries: &[(Entry, Entry)],
) {
    let rules: Vec<Rule<'_>> = entries
        .iter()
        .filter_map(|(item, argument)| rule(context, schema, module, item, argument))
        .collect();
    let mut used = BTreeSet::new();
    let mut programs = std::mem::take(&mut schema.modules[module].programs);
    let versions = programs
        .iter_mut()
        .flat_map(|program| &mut program.versions);
    for procedure in versions.flat_map(|version| &mut version.procedures) {
        let mut search = Search {
            schema,
            rules: &rules,
            procedure,
            used: &mut used,
        };
        let found = procedure
            .reply
            .as_ref()
            .map(|reply| search.ty(reply))
            .unwrap_or_default();
        if found.len() > MAX_REPLY_ITEMS {
            let what = format!(
                "the results of `{}` have more than {MAX_REPLY_ITEMS} items",
                procedure.name
            );
            entries::too_many(context, procedure.span, &what);
        }
        procedure.reply_items = found;
    }
    schema.modules[module].programs = programs;
    for rule in (0..).zip(&rules).filter(|(at, _)| !used.contains(at)) {
        let entry = rule.1.entry;
        let what = format!(
            "no procedure has both `{}` in its results and the argument once",
            entry.text
        );
        entries::invalid::<()>(context, entry, &what);
    }
}

/// Resolves an entry.
fn rule<'e>(
    context: &mut Context<'_, '_>,
    schema: &Schema,
    module: usize,
    item: &'e Entry,
    argument: &Entry,
) -> Option<Rule<'e>> {
    let (result, limit) = (
        entries::part(context, schema, module, item),
        entries::part(context, schema, module, argument),
    );
    let (result, limit) = (result?, limit?);
    if result.ty.item_max().is_none() {
        let what = format!("`{}` is not listed under `ddp`", item.text);
        return entries::invalid(context, item, &what);
    }
    let is_field = matches!(schema.ty(limit.owner).kind, TypeDefKind::Struct(_));
    let wide = match schema.resolve(&limit.ty) {
        Type::Primitive(Primitive::U32) if is_field => false,
        Type::Primitive(Primitive::U64) if is_field => true,
        _ => {
            let what = format!(
                "`{}` is not a field that is an `unsigned int` or an `unsigned hyper`",
                argument.text
            );
            return entries::invalid(context, argument, &what);
        }
    };
    Some(Rule {
        entry: item,
        item: result,
        argument: limit,
        wide,
    })
}

/// The search for the items of one procedure's results.
struct Search<'s> {
    schema: &'s Schema,
    rules: &'s [Rule<'s>],
    procedure: &'s Procedure,
    /// The rules that apply to some procedure.
    used: &'s mut BTreeSet<usize>,
}

impl Search<'_> {
    /// Returns the items in a type, in the order of XDR. Items in sequences are not counted.
    fn ty(&mut self, ty: &Type) -> Vec<ReplyItem> {
        let schema = self.schema;
        if schema.layout_of(ty).copy {
            return Vec::new();
        }
        match schema.resolve(ty) {
            Type::Optional(element) => self.ty(element),
            Type::Named(id) => match &schema.ty(*id).kind {
                TypeDefKind::Struct(fields) => {
                    let mut found = Vec::new();
                    for field in fields {
                        found.extend(self.part(*id, &field.name, &field.ty));
                        found.truncate(MAX_REPLY_ITEMS + 1);
                    }
                    found
                }
                TypeDefKind::Union(union) => {
                    let arms = union.arms.iter().map(|arm| &arm.content);
                    self.arms(*id, arms.chain(&union.default))
                }
                TypeDefKind::Alias(_) | TypeDefKind::Enum(_) => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Returns the items of a union. The first item of each arm is the first item of the union, and
    /// so on.
    fn arms<'c>(&mut self, id: TypeId, arms: impl Iterator<Item = &'c Content>) -> Vec<ReplyItem> {
        let mut found: Vec<ReplyItem> = Vec::new();
        for (name, ty) in arms.flatten() {
            for (at, item) in self.part(id, name, ty).into_iter().enumerate() {
                match found.get_mut(at) {
                    Some(other) => other.merge(item),
                    None => found.push(item),
                }
            }
        }
        found
    }

    /// Returns the items of a field or an arm.
    fn part(&mut self, owner: TypeId, name: &str, ty: &Type) -> Vec<ReplyItem> {
        let Type::Item(content) = ty else {
            return self.ty(ty);
        };
        let max = match **content {
            Type::Opaque(max) | Type::String(max) => max,
            _ => None,
        };
        let argument = self.argument(owner, name);
        let limit = ItemLimit { max, argument };
        vec![ReplyItem {
            limits: vec![limit],
        }]
    }

    /// Returns the argument that limits an item, by the rule of the item.
    fn argument(&mut self, owner: TypeId, name: &str) -> Option<Argument> {
        let mut rules = self.rules.iter().enumerate();
        let (at, rule) =
            rules.find(|(_, rule)| rule.item.owner == owner && rule.item.name == name)?;
        let mut paths = Vec::new();
        for (index, ty) in self.procedure.arguments.iter().enumerate() {
            let found = paths_to(self.schema, ty, &rule.argument);
            paths.extend(found.into_iter().map(|fields| (index, fields)));
        }
        // If the struct occurs twice, the rule is ambiguous.
        let (index, fields) = paths.pop().filter(|_| paths.is_empty())?;
        self.used.insert(at);
        Some(Argument {
            index,
            fields,
            wide: rule.wide,
        })
    }
}

/// Returns the paths from a type to a field, as names of Rust fields. It stops after two paths,
/// because the caller only needs to know whether there is more than one.
fn paths_to(schema: &Schema, ty: &Type, to: &Part) -> Vec<Vec<String>> {
    let Type::Named(id) = schema.resolve(ty) else {
        return Vec::new();
    };
    let TypeDefKind::Struct(fields) = &schema.ty(*id).kind else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for field in fields {
        if *id == to.owner && field.name == to.name {
            found.push(vec![field.rust.clone()]);
        } else {
            let below = paths_to(schema, &field.ty, to).into_iter();
            found.extend(below.map(|mut path| {
                path.insert(0, field.rust.clone());
                path
            }));
        }
        if found.len() > 1 {
            break;
        }
    }
    found
}
