//! `typedef T name;`

use proc_macro2::TokenStream;
use quote::quote;

use super::{Emitter, Form, ident};
use crate::ir::{Type, TypeDef};

impl Emitter<'_> {
    pub(super) fn alias(&self, definition: &TypeDef, ty: &Type) -> TokenStream {
        let doc = self.doc(definition);
        let name = ident(&definition.rust);
        let lifetime = (self.form == Form::Borrowed && definition.layout.lifetime).then(|| quote!(<'a>));
        let ty = self.ty(ty);
        quote!(#doc pub type #name #lifetime = #ty;)
    }
}
