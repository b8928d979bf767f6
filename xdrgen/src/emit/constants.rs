//! `const A = 1;`

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::{Emitter, docs, ident};
use crate::ir::Constant;

impl Emitter<'_> {
    pub(super) fn constant(&self, constant: &Constant) -> TokenStream {
        let doc = docs::item(&constant.name, &constant.origin);
        let name = ident(&constant.rust);
        let fits = constant.ty.range();
        let fits = fits.is_none_or(|range| range.contains(&constant.value));
        let ty = match fits {
            true => self.primitive(constant.ty),
            false if constant.value < 0 => quote!(i128),
            false => quote!(u128),
        };
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
