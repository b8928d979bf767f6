//! `typedef T name;`

use proc_macro2::TokenStream;
use quote::quote;

use super::{Emitter, Shape, ident};
use crate::ir::{Type, TypeDef};

impl Emitter<'_> {
    pub(super) fn alias(&self, definition: &TypeDef, ty: &Type) -> TokenStream {
        let doc = self.doc(definition);
        let name = ident(&definition.rust);
        let lifetime =
            (self.shape == Shape::Borrowed && definition.layout.lifetime).then(|| quote!(<'a>));
        let ty = self.ty(ty);
        quote!(#doc pub type #name #lifetime = #ty;)
    }
}
