//! Emits `const A = 1;` and `const A = "text";`. A number has the type that `check::lower` chose,
//! or `i128` or `u128` if the value is out of the range of every XDR type.

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::{Emitter, docs, ident};
use crate::ir::{Constant, ConstantValue};

impl Emitter<'_> {
    pub(super) fn constant(&self, constant: &Constant) -> TokenStream {
        let doc = docs::item(&constant.name, &constant.origin);
        let name = ident(&constant.rust);
        let (ty, value) = match &constant.value {
            ConstantValue::Text(text) => (quote!(&str), quote!(#text)),
            ConstantValue::Number { ty, value } => {
                let fits = ty.range().is_none_or(|range| range.contains(value));
                let ty = match fits {
                    true => self.primitive(*ty),
                    false if *value < 0 => quote!(i128),
                    false => quote!(u128),
                };
                (ty, literal(*value))
            }
        };
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
