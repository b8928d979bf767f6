//! Emits the common parts of clients and services: `impl rpc::Method` for each procedure, and the
//! signatures of methods.
//!
//! The generated code uses `oncrpc` as `rpc::`. `reply_limits` lists the items of the results in
//! the order of XDR (`check::reply_items`), because a transport matches Write chunks to them in
//! order.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::quote;

use super::{Emitter, Shape, ident, number};
use crate::ir::{Argument, ItemLimit, Procedure, Shapes, Type};

impl Emitter<'_> {
    /// Emits `impl rpc::Method` of a procedure.
    pub(super) fn method(&self, procedure: &Procedure) -> TokenStream {
        let name = ident(&procedure.rust);
        let idempotent = procedure.idempotent;
        let limits = self.reply_limits(procedure);
        let (results, to_results) = match &procedure.reply {
            None => (
                quote!(()),
                quote!(
                    fn to_results(_: ()) {}
                ),
            ),
            Some(ty) => {
                let value = self.results_value(ty);
                let to_results = quote! {
                    fn to_results(reply: Self::Reply<'_>) -> Self::Results { #value }
                };
                (self.owned_ty(ty), to_results)
            }
        };
        quote! {
            impl rpc::Method for #name {
                type Results = #results;
                const IDEMPOTENT: bool = #idempotent;
                #limits
                #to_results
            }
        }
    }

    /// Returns a type in its owned shape.
    pub(super) fn owned_ty(&self, ty: &Type) -> TokenStream {
        let owned = Self {
            shape: Shape::Owned,
            ..*self
        };
        owned.ty(ty)
    }

    /// Returns the expression that converts a reply to owned results.
    fn results_value(&self, ty: &Type) -> TokenStream {
        let reply = quote!(reply);
        if self.schema.module(self.module).shapes == Shapes::Both {
            self.owned_value(ty, &reply)
        } else {
            reply
        }
    }

    /// Emits `reply_limits`, if it differs from the trait's default because the reply has items.
    fn reply_limits(&self, procedure: &Procedure) -> Option<TokenStream> {
        let layout = self.schema.layout_of(procedure.reply.as_ref()?);
        if layout.copy {
            return None;
        }
        let inline = match layout.inline_max.map(number) {
            Some(max) => quote!(::core::option::Option::Some(#max)),
            None => quote!(::core::option::Option::None),
        };
        let several = procedure.arguments.len() > 1;
        let limits = procedure.reply_items.iter().map(|item| &item.limits);
        let items = limits.clone().map(|limits| item_limit(limits, several));
        let uses = limits.flatten().any(|limit| limit.argument.is_some());
        let args = if uses { quote!(args) } else { quote!(_) };
        Some(quote! {
            fn reply_limits(#args: &Self::Args<'_>) -> rpc::ReplyLimits {
                rpc::ReplyLimits::new(#inline) #(#items)*
            }
        })
    }

    /// Returns the parameters of a procedure's method: the names and the types.
    pub(super) fn parameters(&self, procedure: &Procedure) -> (Vec<Ident>, Vec<TokenStream>) {
        let types = procedure.arguments.iter().map(|ty| self.ty(ty));
        (names(procedure), types.collect())
    }
}

/// Returns the names of the parameters of a procedure's method.
pub(super) fn names(procedure: &Procedure) -> Vec<Ident> {
    let names = procedure.argument_names.iter();
    names.map(|name| ident(name)).collect()
}

/// Returns the method call that adds an item to the limits of a reply.
fn item_limit(limits: &[ItemLimit], several: bool) -> TokenStream {
    let limits: Option<Vec<TokenStream>> = limits
        .iter()
        .map(|limit| one_limit(limit, several))
        .collect();
    let Some(limits) = limits else {
        return quote!(.unbounded_item());
    };
    let greatest = limits
        .into_iter()
        .reduce(|a, b| quote!(::core::cmp::Ord::max(#a, #b)));
    quote!(.item(#greatest))
}

/// Returns the limit of an item; `None` if there is none.
fn one_limit(limit: &ItemLimit, several: bool) -> Option<TokenStream> {
    let max = limit.max.map(|max| number(u64::from(max)));
    let argument = limit
        .argument
        .as_ref()
        .map(|argument| value(argument, several));
    Some(match (max, argument) {
        (None, None) => return None,
        (Some(max), None) => quote!(#max),
        (None, Some(argument)) => argument,
        (Some(max), Some(argument)) => quote!(::core::cmp::Ord::min(#argument, #max)),
    })
}

/// Returns an argument as a `u32`.
fn value(argument: &Argument, several: bool) -> TokenStream {
    let index = several.then(|| {
        let index = proc_macro2::Literal::usize_unsuffixed(argument.index);
        quote!(.#index)
    });
    let fields = argument.fields.iter().map(|field| ident(field));
    let value = quote!(args #index #(.#fields)*);
    if argument.wide {
        quote!(u32::try_from(#value).unwrap_or(u32::MAX))
    } else {
        value
    }
}

/// Replaces the lifetime `'a` by `'_`.
pub(super) fn anonymous(tokens: TokenStream) -> TokenStream {
    let mut after_quote = false;
    let replace = |token: TokenTree| {
        let is_lifetime = std::mem::take(&mut after_quote);
        match token {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), anonymous(group.stream()));
                inner.set_span(group.span());
                inner.into()
            }
            TokenTree::Ident(name) if is_lifetime && name == "a" => {
                Ident::new("_", name.span()).into()
            }
            TokenTree::Punct(punct) => {
                after_quote = punct.as_char() == '\'';
                punct.into()
            }
            token => token,
        }
    };
    tokens.into_iter().map(replace).collect()
}
