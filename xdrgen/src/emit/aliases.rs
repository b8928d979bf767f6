//! Emits `typedef T name;` as a type alias, and the alias of a type that the configuration supplies
//! (`check::external`), which implements the codec itself.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Emitter, Shape, docs, ident};
use crate::ir::{Type, TypeDef};

impl Emitter<'_> {
    /// Emits the name of a type that is not generated.
    pub(super) fn external(&self, definition: &TypeDef, path: &str) -> TokenStream {
        let doc = docs::lines(&[format!(
            "`{}`: a type that the configuration supplies.",
            definition.name
        )]);
        // The path was parsed before.
        let path: TokenStream = path.parse().unwrap_or_default();
        let name = ident(&definition.rust);
        quote!(#doc pub type #name = #path;)
    }

    pub(super) fn alias(&self, definition: &TypeDef, ty: &Type) -> TokenStream {
        let doc = self.doc(definition);
        let name = ident(&definition.rust);
        let lifetime =
            (self.shape == Shape::Borrowed && definition.layout.lifetime).then(|| quote!(<'a>));
        let ty = self.ty(ty);
        quote!(#doc pub type #name #lifetime = #ty;)
    }
}
