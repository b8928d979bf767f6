//! Opens the enums that the configuration lists under `open`.

use crate::check::entries::{invalid, unknown};
use crate::check::symbols::SymbolKind;
use crate::check::{Context, Entry};
use crate::ir::{Schema, TypeDefKind};

/// Opens the enums of all modules. It runs before unions are lowered, because an open enum changes
/// their default arms.
pub(crate) fn lower(context: &mut Context<'_, '_>, schema: &mut Schema) {
    for module in 0..context.inputs.len() {
        for entry in &context.inputs[module].open {
            open(context, schema, module, entry);
        }
    }
}

/// Opens one enum. Reports an entry that names no enum of the module, and returns `None`.
fn open(
    context: &mut Context<'_, '_>,
    schema: &mut Schema,
    module: usize,
    entry: &Entry,
) -> Option<()> {
    let name = entry.text.as_str();
    let symbol = context.symbols.lookup(context.inputs, module, name);
    let Some(SymbolKind::Type(id)) = symbol.map(|symbol| symbol.kind) else {
        let types = schema.modules[module].types.iter().map(|id| schema.ty(*id));
        let enums = types.filter(|ty| matches!(ty.kind, TypeDefKind::Enum(_)));
        let what = format!("no enum is named `{name}`");
        let names = enums.map(|ty| ty.name.as_str());
        return unknown(context, entry, &what, ("", name, ""), names);
    };
    let of_module = schema.ty(id).module.0 as usize;
    if of_module != module {
        let path = schema.modules[of_module].path.join("::");
        let what = format!("`{name}` is of the module `{path}`, where the entry belongs");
        return invalid(context, entry, &what);
    }
    match &mut schema.types[id.0 as usize].kind {
        TypeDefKind::Enum(body) if body.open => {
            invalid(context, entry, &format!("`{name}` is listed twice"))
        }
        TypeDefKind::Enum(body) => {
            body.open = true;
            Some(())
        }
        _ => invalid(context, entry, &format!("`{name}` is not an enum")),
    }
}
