//! Sets the names in Rust that the configuration lists under `rename`. `clashes` checks them
//! afterwards.
//!
//! [`members`] reports nothing: [`others`] visits all entries again, and reports those that are not
//! valid. [`others`] changes a name only at its definition, so that a name that an earlier step has
//! copied (`Argument::fields`) keeps its old form.

use crate::check::entries::{invalid, unknown};
use crate::check::{Context, Entry};
use crate::ir::{Schema, TypeDef, TypeDefKind};
use crate::names;

/// Renames the members of enums. It runs before unions are lowered, because arms have the names of
/// members.
pub(crate) fn members(context: &mut Context<'_, '_>, schema: &mut Schema) {
    let inputs = context.inputs;
    for (module, input) in inputs.iter().enumerate() {
        for (entry, rust) in &input.rename {
            let (Some((owner, part)), Some(rust)) =
                (entry.text.split_once('.'), names::identifier(&rust.text))
            else {
                continue;
            };
            let ids = schema.modules[module].types.clone();
            for id in ids {
                let ty = &mut schema.types[id.0 as usize];
                if ty.name == owner
                    && let TypeDefKind::Enum(body) = &mut ty.kind
                {
                    let members = body.members.iter_mut();
                    members
                        .filter(|member| member.name == part)
                        .for_each(|member| member.rust.clone_from(&rust));
                }
            }
        }
    }
}

/// Renames all other items, and reports entries that name nothing.
pub(crate) fn others(context: &mut Context<'_, '_>, schema: &mut Schema) {
    let inputs = context.inputs;
    for (module, input) in inputs.iter().enumerate() {
        for (entry, rust) in &input.rename {
            rename(context, schema, module, (entry, rust));
        }
    }
}

fn rename(
    context: &mut Context<'_, '_>,
    schema: &mut Schema,
    module: usize,
    (entry, rust): (&Entry, &Entry),
) -> Option<()> {
    let text = entry.text.as_str();
    let Some(name) = names::identifier(&rust.text) else {
        let what = format!("`{}` is not a name in Rust", rust.text);
        return invalid(context, rust, &what);
    };
    let renamed = match text.split_once('.') {
        Some((owner, part)) => rename_part(schema, module, (owner, part), &name),
        None => rename_item(schema, module, text, &name),
    };
    if renamed {
        return Some(());
    }
    let what = format!("nothing of the module is named `{text}`");
    let candidates = candidates(schema, module);
    let candidates = candidates.iter().map(String::as_str);
    unknown(context, entry, &what, ("", text, ""), candidates)
}

/// Renames a type, a constant or a procedure.
fn rename_item(schema: &mut Schema, module: usize, xdr: &str, rust: &str) -> bool {
    let mut renamed = false;
    for id in schema.modules[module].types.clone() {
        let ty = &mut schema.types[id.0 as usize];
        if ty.name == xdr {
            rust.clone_into(&mut ty.rust);
            renamed = true;
        }
    }
    let module = &mut schema.modules[module];
    let constants = module.constants.iter_mut();
    for constant in constants.filter(|constant| constant.name == xdr) {
        rust.clone_into(&mut constant.rust);
        renamed = true;
    }
    let versions = module
        .programs
        .iter_mut()
        .flat_map(|program| &mut program.versions);
    let procedures = versions.flat_map(|version| &mut version.procedures);
    for procedure in procedures.filter(|procedure| procedure.name == xdr) {
        rust.clone_into(&mut procedure.rust);
        procedure.method = names::field_name(rust.trim_start_matches("r#"), &[]);
        renamed = true;
    }
    renamed
}

/// Renames a field of a struct, a case of a union or a member of an enum.
fn rename_part(
    schema: &mut Schema,
    module: usize,
    (owner, part): (&str, &str),
    rust: &str,
) -> bool {
    let mut renamed = false;
    for id in schema.modules[module].types.clone() {
        let ty = &mut schema.types[id.0 as usize];
        if ty.name == owner {
            parts(ty)
                .into_iter()
                .filter(|(xdr, _)| xdr == part)
                .for_each(|(_, name)| {
                    rust.clone_into(name);
                    renamed = true;
                });
        }
    }
    renamed
}

/// Returns the parts of a type: the name in XDR, and the name in Rust.
fn parts(ty: &mut TypeDef) -> Vec<(String, &mut String)> {
    match &mut ty.kind {
        TypeDefKind::Alias(_) => Vec::new(),
        TypeDefKind::Struct(fields) => {
            let fields = fields.iter_mut();
            fields
                .map(|field| (field.name.clone(), &mut field.rust))
                .collect()
        }
        TypeDefKind::Enum(body) => {
            let members = body.members.iter_mut();
            members
                .map(|member| (member.name.clone(), &mut member.rust))
                .collect()
        }
        TypeDefKind::Union(union) => {
            let arms = union.arms.iter_mut();
            arms.map(|arm| (arm.case.clone(), &mut arm.rust)).collect()
        }
    }
}

/// Returns the names that can be renamed, to suggest one of them.
fn candidates(schema: &mut Schema, module: usize) -> Vec<String> {
    let mut found = Vec::new();
    for id in schema.modules[module].types.clone() {
        let ty = &mut schema.types[id.0 as usize];
        let owner = ty.name.clone();
        found.push(owner.clone());
        let parts = parts(ty).into_iter();
        found.extend(parts.map(|(xdr, _)| format!("{owner}.{xdr}")));
    }
    let module = &schema.modules[module];
    found.extend(
        module
            .constants
            .iter()
            .map(|constant| constant.name.clone()),
    );
    let versions = module.programs.iter().flat_map(|program| &program.versions);
    let procedures = versions.flat_map(|version| &version.procedures);
    found.extend(procedures.map(|procedure| procedure.name.clone()));
    found
}
