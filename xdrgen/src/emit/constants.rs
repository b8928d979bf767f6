//! `const A = 1;`

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::{Emitter, docs, ident};
use crate::ir::{Constant, Primitive};

impl Emitter<'_> {
    pub(super) fn constant(&self, constant: &Constant) -> TokenStream {
        let doc = docs::item(&constant.name, &constant.origin);
        let name = ident(&constant.rust);
        let ty = self.primitive(constant.ty);
        let value = literal(constant.value, constant.ty);
        quote!(#doc pub const #name: #ty = #value;)
    }
}

/// A value that its type holds.
fn literal(value: i128, ty: Primitive) -> TokenStream {
    let digits = Literal::u128_unsuffixed(value.unsigned_abs());
    // The least value of a signed type is no negated literal of it to rustc's lints, but it compiles as one.
    let _ = ty;
    if value < 0 { quote!(-#digits) } else { quote!(#digits) }
}
