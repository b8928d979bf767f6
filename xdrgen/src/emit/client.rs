//! Emits the client of a version: a method for each procedure. `methods` emits the parameters and
//! `rpc::Method`. `check::clashes` must know the names that are defined here (`StubNames`).

use proc_macro2::TokenStream;
use quote::quote;

use super::methods::anonymous;
use super::{Emitter, docs, ident};
use crate::ir::{Procedure, Program, Version};

impl Emitter<'_> {
    pub(super) fn client(&self, program: &Program, version: &Version) -> TokenStream {
        let doc = docs::lines(&[format!(
            "A client of `{}`, version {}.",
            program.name, version.number
        )]);
        let methods = version
            .procedures
            .iter()
            .map(|procedure| self.client_method(procedure));
        quote! {
            #doc
            #[derive(Clone, Debug)]
            pub struct Client<T> { transport: T, options: rpc::CallOptions }
            impl<T: rpc::Transport> Client<T> {
                /// Creates a client that makes its calls on a transport.
                pub const fn new(transport: T) -> Self {
                    Self { transport, options: rpc::CallOptions::DEFAULT }
                }
                /// Sets the options of all calls.
                #[must_use]
                pub fn with_options(self, options: rpc::CallOptions) -> Self {
                    Self { options, ..self }
                }
                /// Returns the transport.
                pub fn transport(&self) -> &T { &self.transport }
                #(#methods)*
            }
        }
    }

    /// Emits the method of a procedure. It encodes the arguments at once.
    fn client_method(&self, procedure: &Procedure) -> TokenStream {
        let doc = docs::item(&procedure.name, &procedure.origin);
        let (name, marker) = (ident(&procedure.method), ident(&procedure.rust));
        let (names, types) = self.parameters(procedure);
        let types = types.into_iter().map(anonymous);
        let args = match &names[..] {
            [] => quote!(&()),
            [only] => quote!(#only),
            several => {
                let values = several
                    .iter()
                    .map(|name| quote!(::core::clone::Clone::clone(#name)));
                quote!(&(#(#values),*))
            }
        };
        quote! {
            #doc
            pub fn #name(&self, #(#names: &#types),*) -> rpc::Call<'_, T, #marker> {
                rpc::Call::new(&self.transport, &self.options, #args)
            }
        }
    }
}
