//! Types that the configuration supplies, in place of a declaration or for a name that no document
//! declares. `supply` adds the [`definition`] of such a name before the checks run.
//!
//! A supplied Rust type is a struct without fields with `TypeDef::external` set. Every reader of
//! the IR must check `external` before the fields: `sizes` assumes `Layout::external`, `emit` emits
//! an alias, and `value` reports `ExternalType`.

use proc_macro2::{TokenStream, TokenTree};

use crate::ast::{Declaration, Declarator, Definition, DefinitionKind, Ident, StructBody};
use crate::ast::{TypeKind, TypeSpecifier};
use crate::check::entries::{invalid, unknown};
use crate::check::{Context, Entry, symbols};
use crate::ir::{Schema, Type, TypeDefKind};
use crate::source::Span;

/// Returns the definition of a name that no document declares and whose Rust type is at `path`: a
/// typedef of a number, or a struct without fields in place of an unknown type.
pub(crate) fn definition(name: &str, path: &str, span: Span) -> Definition {
    let name = Ident {
        name: name.to_owned(),
        span,
    };
    let kind = match primitive(path) {
        Some(kind) => DefinitionKind::Typedef(Declaration {
            span,
            ty: TypeSpecifier { span, kind },
            name: name.clone(),
            declarator: Declarator::Plain,
        }),
        None => DefinitionKind::Struct(StructBody { fields: Vec::new() }),
    };
    Definition { name, span, kind }
}

/// Returns the XDR type that corresponds to a Rust number type.
fn primitive(path: &str) -> Option<TypeKind> {
    Some(match path {
        "i32" => TypeKind::Int,
        "u32" => TypeKind::UnsignedInt,
        "i64" => TypeKind::Hyper,
        "u64" => TypeKind::UnsignedHyper,
        "bool" => TypeKind::Bool,
        _ => return None,
    })
}

/// Sets the Rust types of all modules. It runs before unions are lowered, because these inspect
/// types.
pub(crate) fn lower(context: &mut Context<'_, '_>, schema: &mut Schema) {
    let inputs = context.inputs;
    // All modules have the entries of the configuration.
    for (name, path) in inputs.first().iter().flat_map(|input| &input.externs) {
        set(context, schema, name, path);
    }
}

fn set(
    context: &mut Context<'_, '_>,
    schema: &mut Schema,
    name: &Entry,
    path: &Entry,
) -> Option<()> {
    let (text, rust) = (name.text.as_str(), path.text.as_str());
    let is_path = is_path_of_type(rust);
    if !is_path && primitive(rust).is_none() {
        let what = format!("`{rust}` is not the path of a type that begins with `crate` or `::`");
        return invalid(context, path, &what);
    }
    if let Some(part) = rust.parse().ok().and_then(undeclared) {
        let what = format!("`{rust}` has {part}, but its only lifetime can be `'static`");
        return invalid(context, path, &what);
    }
    let is_named = |at: &usize| schema.types[*at].name == text;
    let named: Vec<usize> = (0..schema.types.len()).filter(is_named).collect();
    if named.is_empty() {
        let what = format!("no document uses a type `{text}`");
        let names = schema.types.iter().map(|ty| ty.name.as_str());
        return unknown(context, name, &what, ("", text, ""), names);
    }
    if is_path {
        for at in named {
            schema.types[at].external = Some(rust.to_owned());
            schema.types[at].kind = TypeDefKind::Struct(Vec::new());
        }
        return Some(());
    }
    let number = primitive(rust).as_ref().and_then(symbols::primitive);
    let is_number = |at: &usize| match &schema.types[*at].kind {
        TypeDefKind::Alias(Type::Primitive(primitive)) => Some(*primitive) == number,
        _ => false,
    };
    if !named.iter().all(is_number) {
        let what = format!("a document declares `{text}`, which cannot become a number");
        return invalid(context, name, &what);
    }
    Some(())
}

/// Returns true for a path from the root of a crate, as far as the syntax shows it.
fn is_path_of_type(rust: &str) -> bool {
    let is_rooted = rust.starts_with("crate::") || rust.starts_with("::");
    let Ok(path) = syn::parse_str::<syn::Path>(rust) else {
        return false;
    };
    let first = usize::from(path.leading_colon.is_none());
    let is_named = |segment: &syn::PathSegment| {
        let is_keyword = ["crate", "self", "super", "Self"]
            .iter()
            .any(|word| segment.ident == word);
        !is_keyword && !matches!(segment.arguments, syn::PathArguments::Parenthesized(_))
    };
    is_rooted && path.segments.iter().skip(first).all(is_named)
}

/// Returns the first lifetime that an alias without parameters cannot have, or the first reference
/// without a lifetime.
fn undeclared(path: TokenStream) -> Option<String> {
    let mut tokens = path.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let found = match token {
            TokenTree::Group(group) => undeclared(group.stream()),
            TokenTree::Punct(sign) if sign.as_char() == '\'' => {
                let name = tokens.next().map(|name| name.to_string());
                let name = name.filter(|name| name != "static");
                name.map(|name| format!("the lifetime `'{name}`"))
            }
            TokenTree::Punct(sign) if sign.as_char() == '&' => {
                let next = tokens.peek().map(ToString::to_string);
                let is_plain = next.is_none_or(|next| !next.starts_with('\''));
                is_plain.then(|| "a reference without a lifetime".to_owned())
            }
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}
