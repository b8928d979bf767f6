//! Emits `program NAME { version .. } = 1;`: a module of numbers, and a type for each procedure.
//! `client` and `services` emit the stubs in the module of the version.
//!
//! The items are two modules below those of types, which `Emitter::module_depth` counts for paths.
//! If the shapes of arguments or results differ, the file of owned shapes has the program, too,
//! without stubs: the stubs are in the module's own file and use both shapes.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Emitter, docs, ident, number};
use crate::ir::{Procedure, Program, Schema, Stubs, Type, Version};

/// Returns true if the shapes of an argument or a reply of a program differ, so that its procedures
/// exist in both.
pub(super) fn shapes_differ(schema: &Schema, program: &Program) -> bool {
    let procedures = program.versions.iter();
    let mut procedures = procedures.flat_map(|version| &version.procedures);
    procedures.any(|procedure| {
        let mut types = procedure.arguments.iter().chain(&procedure.reply);
        types.any(|ty| schema.layout_of(ty).shapes_differ)
    })
}

impl Emitter<'_> {
    pub(super) fn program(&self, program: &Program) -> TokenStream {
        let doc = docs::item(&program.name, &program.origin);
        let (name, value) = (ident(&program.rust), number(u64::from(program.number)));
        let versions = program
            .versions
            .iter()
            .map(|version| self.version(program, version));
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
        let doc = docs::lines(&[format!(
            "`{}`, version {} of the program.",
            version.name, version.number
        )]);
        let (name, value) = (ident(&version.rust), number(u64::from(version.number)));
        let inside = Self {
            module_depth: self.module_depth + 2,
            ..*self
        };
        let procedures = version
            .procedures
            .iter()
            .map(|procedure| inside.procedure(program, version, procedure));
        let runtime = self.runtime();
        // The stubs use both shapes, and are in the file of the borrowed shapes.
        let stubs = match self.owned_file {
            true => Stubs::default(),
            false => self.schema.module(self.module).stubs,
        };
        let rpc = stubs.any().then(|| {
            quote!(
                use ::oncrpc as rpc;
            )
        });
        let client = stubs.client.then(|| inside.client(program, version));
        let services = stubs.server.then(|| inside.services(program, version));
        quote! {
            #doc
            pub mod #name {
                #runtime
                #rpc
                /// The version number.
                pub const VERSION: u32 = #value;
                #(#procedures)*
                #client
                #services
            }
        }
    }

    fn procedure(
        &self,
        program: &Program,
        version: &Version,
        procedure: &Procedure,
    ) -> TokenStream {
        let doc = docs::item(&procedure.name, &procedure.origin);
        let (name, xdr_name) = (ident(&procedure.rust), &procedure.name);
        let [program, version, number] = [program.number, version.number, procedure.number]
            .map(|value| number(u64::from(value)));
        let arguments = self.arguments(&procedure.arguments);
        let reply = procedure
            .reply
            .as_ref()
            .map_or_else(|| quote!(()), |ty| self.ty(ty));
        let stubs = self.schema.module(self.module).stubs;
        let method = (stubs.any() && !self.owned_file).then(|| self.method(procedure));
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
            #method
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
