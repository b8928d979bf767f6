//! `program NAME { version .. } = 1;`: a module of numbers, and a type for each procedure.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Emitter, docs, ident, number};
use crate::ir::{Procedure, Program, Type, Version};

impl Emitter<'_> {
    pub(super) fn program(&self, program: &Program) -> TokenStream {
        let doc = docs::item(&program.name, &program.origin);
        let (name, value) = (ident(&program.rust), number(u64::from(program.number)));
        let versions = program.versions.iter().map(|version| self.version(program, version));
        quote! {
            #doc
            pub mod #name {
                /// The program number.
                pub const PROGRAM: u32 = #value;
                #(#versions)*
            }
        }
    }

    fn version(&self, program: &Program, version: &Version) -> TokenStream {
        let doc = docs::lines(&[format!("`{}`, version {} of the program.", version.name, version.number)]);
        let (name, value) = (ident(&version.rust), number(u64::from(version.number)));
        let inside = Self { below: self.below + 2, ..*self };
        let procedures = version.procedures.iter().map(|procedure| inside.procedure(program, version, procedure));
        quote! {
            #doc
            pub mod #name {
                use ::xdrgen_runtime as xdr;
                /// The version number.
                pub const VERSION: u32 = #value;
                #(#procedures)*
            }
        }
    }

    fn procedure(&self, program: &Program, version: &Version, procedure: &Procedure) -> TokenStream {
        let doc = docs::item(&procedure.name, &procedure.origin);
        let (name, xdr_name) = (ident(&procedure.rust), &procedure.name);
        let [program, version, number] =
            [program.number, version.number, procedure.number].map(|value| number(u64::from(value)));
        let arguments = self.arguments(&procedure.arguments);
        let reply = procedure.reply.as_ref().map_or_else(|| quote!(()), |ty| self.ty(ty));
        quote! {
            #doc
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct #name;
            impl xdr::Procedure for #name {
                const PROGRAM: u32 = #program;
                const VERSION: u32 = #version;
                const NUMBER: u32 = #number;
                const NAME: &'static str = #xdr_name;
                type Args<'a> = #arguments;
                type Reply<'a> = #reply;
            }
        }
    }

    fn arguments(&self, arguments: &[Type]) -> TokenStream {
        match arguments {
            [] => quote!(()),
            [only] => self.ty(only),
            several => {
                let several = several.iter().map(|ty| self.ty(ty));
                quote!((#(#several),*))
            }
        }
    }
}
