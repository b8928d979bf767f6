//! Derives of serde, behind a feature.

use proc_macro2::TokenStream;
use quote::quote;

use super::Emitter;
use crate::ir::{Layout, Type};

impl Emitter<'_> {
    /// Emits the derives of a type, if the module has a feature for them. A type that borrows
    /// cannot be deserialized.
    pub(super) fn serde(&self, layout: &Layout) -> Option<TokenStream> {
        let feature = self.schema.module(self.module).serde_feature.as_ref()?;
        let deserialize = self
            .lifetime(layout)
            .is_none()
            .then(|| quote!(, ::serde::Deserialize));
        Some(quote! {
            #[cfg_attr(feature = #feature, derive(::serde::Serialize #deserialize))]
        })
    }

    /// Emits the serde attribute of a field or an arm's content, if its type needs one.
    pub(super) fn serde_part(&self, ty: &Type, boxed: bool) -> Option<TokenStream> {
        let feature = self.schema.module(self.module).serde_feature.as_ref()?;
        let module = match boxed {
            true => "xdr::long_array::boxed",
            false => "xdr::long_array",
        };
        let long = self.is_long_array(ty);
        long.then(|| quote!(#[cfg_attr(feature = #feature, serde(with = #module))]))
    }
}
