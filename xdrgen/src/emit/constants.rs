//! `const A = 1;`

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::{Emitter, docs, ident};
use crate::ir::Constant;

impl Emitter<'_> {
    pub(super) fn constant(&self, constant: &Constant) -> TokenStream {
        let doc = docs::item(&constant.name, &constant.origin);
        let name = ident(&constant.rust);
        let ty = self.primitive(constant.ty);
        let value = literal(constant.value);
        quote!(#doc pub const #name: #ty = #value;)
    }
}

fn literal(value: i128) -> TokenStream {
    let digits = Literal::u128_unsuffixed(value.unsigned_abs());
    if value < 0 {
        quote!(-#digits)
    } else {
        quote!(#digits)
    }
}
