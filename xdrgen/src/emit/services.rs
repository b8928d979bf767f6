//! Emits the services of a version: a trait whose futures are `Send`, a trait whose futures need
//! not be, the dispatch of calls to each, and the results that have two shapes.
//!
//! The generated dispatch calls `authorize` before it decodes arguments. No method exists for
//! procedure 0, which `oncrpc` answers; `check::stubs` rejects one with arguments or results.
//! `check::clashes` must know the names that are defined here (`StubNames`).

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::methods::names;
use super::{Emitter, docs, ident, number};
use crate::ir::{Procedure, Program, Version};

/// A kind of service.
struct Kind {
    service: Ident,
    server: Ident,
    dispatch: Ident,
    serve: Ident,
    /// The bounds of the trait.
    bounds: TokenStream,
    /// The additional bound of futures.
    send: TokenStream,
    /// The sentence about threads in the documentation.
    threads: &'static str,
}

impl Kind {
    fn both() -> [Self; 2] {
        let send = quote!(::core::marker::Send);
        [
            Self {
                service: format_ident!("Service"),
                server: format_ident!("Server"),
                dispatch: format_ident!("Dispatch"),
                serve: format_ident!("serve"),
                bounds: quote!(#send + ::core::marker::Sync + 'static),
                send: quote!(+ #send),
                threads: "on any thread",
            },
            Self {
                service: format_ident!("LocalService"),
                server: format_ident!("LocalServer"),
                dispatch: format_ident!("LocalDispatch"),
                serve: format_ident!("serve_local"),
                bounds: quote!('static),
                send: TokenStream::new(),
                threads: "on one thread",
            },
        ]
    }
}

impl Emitter<'_> {
    pub(super) fn services(&self, program: &Program, version: &Version) -> TokenStream {
        let kinds = Kind::both();
        let traits = kinds
            .iter()
            .map(|kind| self.service_trait(program, version, kind));
        let delegations = served(version).map(|procedure| {
            let signature = self.service_method(procedure, &TokenStream::new());
            let (method, names) = (ident(&procedure.method), names(procedure));
            quote!(#signature { <T as Service>::#method(self, cx, #(#names),*) })
        });
        let send = quote!(+ ::core::marker::Send);
        let shares = served(version).map(|procedure| {
            let signature = self.service_method(procedure, &send);
            let (method, names) = (ident(&procedure.method), names(procedure));
            quote!(#signature { <T as Service>::#method(self, cx, #(#names),*) })
        });
        let servers = kinds.iter().map(|kind| server(program, version, kind));
        let results = served(version).filter_map(|procedure| self.results(procedure));
        let authorize = quote! {
            fn authorize(&self, cx: &rpc::Context) -> ::core::result::Result<(), rpc::RpcError> {
                <T as Service>::authorize(self, cx)
            }
        };
        quote! {
            #(#results)*
            #(#traits)*
            impl<T: Service> LocalService for T { #authorize #(#delegations)* }
            impl<T: Service> Service for ::std::sync::Arc<T> { #authorize #(#shares)* }
            #(#servers)*
        }
    }

    /// Emits the type of the results that a method returns in either shape; `None` if every value
    /// can outlive the handler.
    fn results(&self, procedure: &Procedure) -> Option<TokenStream> {
        let ty = procedure.reply.as_ref()?;
        let name = self.results_type(procedure)?;
        let doc = docs::lines(&[format!(
            "The results of `{}`, as a service returns them: in either shape, by `From`.",
            procedure.name
        )]);
        let (borrowed, owned) = (self.ty(ty), self.owned_ty(ty));
        Some(quote! {
            #doc
            #[derive(Clone, Debug)]
            pub enum #name<'a> {
                /// They may borrow from the service and from the arguments.
                Borrowed(#borrowed),
                /// They own their content.
                Owned(#owned),
            }
            impl<'a> ::core::convert::From<#borrowed> for #name<'a> {
                fn from(results: #borrowed) -> Self { Self::Borrowed(results) }
            }
            impl ::core::convert::From<#owned> for #name<'_> {
                fn from(results: #owned) -> Self { Self::Owned(results) }
            }
            impl xdr::Encode for #name<'_> {
                #[inline]
                fn encode<'s, S: xdr::Sink<'s>>(&'s self, sink: &mut S) -> xdr::Result<()> {
                    match self {
                        Self::Borrowed(results) => xdr::Encode::encode(results, sink),
                        Self::Owned(results) => xdr::Encode::encode(results, sink),
                    }
                }
            }
        })
    }

    fn results_type(&self, procedure: &Procedure) -> Option<Ident> {
        let module = self.schema.module(self.module);
        let name = self.schema.results_type(module, procedure)?;
        Some(ident(&name))
    }

    fn service_trait(&self, program: &Program, version: &Version, kind: &Kind) -> TokenStream {
        let doc = docs::lines(&[format!(
            "A service of `{}`, version {}, {}. Procedure 0 is answered without it.",
            program.name, version.number, kind.threads
        )]);
        let Kind {
            service,
            bounds,
            send,
            ..
        } = kind;
        let methods = served(version).map(|procedure| {
            let doc = docs::item(&procedure.name, &procedure.origin);
            let signature = self.service_method(procedure, send);
            quote!(#doc #signature;)
        });
        quote! {
            #doc
            pub trait #service: #bounds {
                /// Decides whether a call is served, before its arguments are decoded. By default
                /// every call is.
                ///
                /// # Errors
                /// Returns why the call is not served, such as `Auth`.
                fn authorize(
                    &self,
                    cx: &rpc::Context,
                ) -> ::core::result::Result<(), rpc::RpcError> {
                    let _ = cx;
                    ::core::result::Result::Ok(())
                }
                #(#methods)*
            }
        }
    }

    /// Emits the signature of a method.
    fn service_method(&self, procedure: &Procedure, send: &TokenStream) -> TokenStream {
        let name = ident(&procedure.method);
        let (names, types) = self.parameters(procedure);
        let results = match (self.results_type(procedure), &procedure.reply) {
            (Some(name), _) => quote!(#name<'a>),
            (None, Some(ty)) => self.ty(ty),
            (None, None) => quote!(()),
        };
        quote! {
            fn #name<'a>(
                &'a self,
                cx: &'a rpc::Context,
                #(#names: #types),*
            ) -> impl ::core::future::Future<
                Output = ::core::result::Result<#results, rpc::RpcError>
            > #send
        }
    }
}

/// Returns the procedures that a service has methods for.
fn served(version: &Version) -> impl Iterator<Item = &Procedure> {
    version
        .procedures
        .iter()
        .filter(|procedure| procedure.number != 0)
}

/// Emits the type that serves a service, and its dispatch.
fn server(program: &Program, version: &Version, kind: &Kind) -> TokenStream {
    let Kind {
        service,
        server,
        dispatch,
        serve,
        send,
        threads,
        ..
    } = kind;
    let docs = [
        docs::lines(&[format!("Offers a service {threads}.")]),
        docs::lines(&[format!("A [`{service}`] as a router offers it.")]),
    ];
    let [serve_doc, server_doc] = docs;
    let [program_number, version_number] =
        [program.number, version.number].map(|value| number(u64::from(value)));
    let lookups = lookups(version);
    let calls = served(version).map(|procedure| call(procedure, service));
    let unused = served(version)
        .next()
        .is_none()
        .then(|| quote!(let _ = reply;));
    quote! {
        #serve_doc
        pub const fn #serve<S: #service>(service: S) -> #server<S> { #server(service) }
        #server_doc
        #[derive(Clone, Debug)]
        pub struct #server<S>(S);
        impl<S: #service> rpc::#dispatch for #server<S> {
            const PROGRAM: u32 = #program_number;
            const VERSION: u32 = #version_number;
            #lookups
            fn dispatch<'a>(
                &'a self,
                cx: &'a rpc::Context,
                call: rpc::IncomingCall<'a>,
                reply: &'a mut rpc::ReplyWriter,
            ) -> impl ::core::future::Future<
                Output = ::core::result::Result<(), rpc::RpcError>
            > #send {
                async move {
                    <S as #service>::authorize(&self.0, cx)?;
                    #unused
                    match call.procedure() {
                        #(#calls)*
                        _ => ::core::result::Result::Err(rpc::RpcError::ProcedureUnavailable),
                    }
                }
            }
        }
    }
}

/// Emits the lookups of a procedure's properties by its number.
fn lookups(version: &Version) -> TokenStream {
    let names = version.procedures.iter().map(|procedure| {
        let (at, name) = (number(u64::from(procedure.number)), &procedure.name);
        quote!(#at => ::core::option::Option::Some(#name),)
    });
    let idempotent: Vec<_> = version
        .procedures
        .iter()
        .filter(|procedure| procedure.idempotent)
        .map(|procedure| number(u64::from(procedure.number)))
        .collect();
    let is_idempotent = if idempotent.is_empty() {
        quote!(
            fn is_idempotent(_: u32) -> bool {
                false
            }
        )
    } else {
        quote! {
            fn is_idempotent(number: u32) -> bool {
                match number { #(#idempotent)|* => true, _ => false }
            }
        }
    };
    quote! {
        fn procedure_name(number: u32) -> ::core::option::Option<&'static str> {
            match number { #(#names)* _ => ::core::option::Option::None }
        }
        #is_idempotent
    }
}

/// Emits the arm of a procedure in the dispatch.
fn call(procedure: &Procedure, service: &Ident) -> TokenStream {
    let at = number(u64::from(procedure.number));
    let (method, marker) = (ident(&procedure.method), ident(&procedure.rust));
    // A name of the document could hide `reply`.
    let names: Vec<Ident> = match procedure.arguments.len() {
        1 => vec![format_ident!("args")],
        count => (1..=count).map(|at| format_ident!("arg{at}")).collect(),
    };
    let pattern = match &names[..] {
        [] => quote!(()),
        [only] => quote!(#only),
        several => quote!((#(#several),*)),
    };
    let results = match procedure.reply {
        None => quote!(()),
        Some(_) => quote!(results),
    };
    quote! {
        #at => {
            let #pattern = call.args::<#marker>()?;
            let #results = <S as #service>::#method(&self.0, cx, #(#names),*).await?;
            reply.results(&#results)
        }
    }
}
