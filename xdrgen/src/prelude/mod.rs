//! The preludes: names that documents use and do not declare.
//!
//! A name stands for a primitive type ([`Prelude::get`]) or has a definition in XDR (`rpc.x`,
//! `rpcb.x`), which `supply` moves to the module that uses it. `check` looks up the name of a
//! field's type here only after the names of the documents. A new prelude needs its name both in
//! [`Prelude::name`] and in the derived `Deserialize`, in kebab case, and a row in `docs/guide.md`.

use std::collections::HashSet;
use std::sync::OnceLock;

use crate::ir::Primitive;

/// A set of types that need no declaration. A declaration in a document takes precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prelude {
    /// `uint32`, `uint64`, `int32`, `int64`, which IETF drafts use.
    Ietf,
    /// `int32_t`, `uint64_t`, `u_int`, `bool_t` and similar types, which rpcgen takes from C. A
    /// type of less than 32 bits is encoded in four bytes.
    C,
    /// `AUTH_SYS`, `RPCSEC_GSS`, `authsys_parms`, `des_block`, `netobj`, which rpcgen takes from
    /// the headers of ONC RPC. A definition that a document uses becomes part of its module.
    Rpc,
    /// `netbuf`, which rpcgen takes from the headers of TI-RPC (RFC 1833).
    Rpcb,
}

impl Prelude {
    /// All preludes, which are the default.
    pub const ALL: &'static [Self] = &[Self::Ietf, Self::C, Self::Rpc, Self::Rpcb];

    /// Returns the name that a manifest uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ietf => "ietf",
            Self::C => "c",
            Self::Rpc => "rpc",
            Self::Rpcb => "rpcb",
        }
    }

    /// Returns the primitive type that a name stands for.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Primitive> {
        use Primitive::{I32, I64, U32, U64};
        Some(match (self, name) {
            (Self::Ietf, "int32") => I32,
            (Self::Ietf, "uint32") => U32,
            (Self::Ietf, "int64") => I64,
            (Self::Ietf, "uint64") => U64,
            (Self::C, "bool_t") => Primitive::Bool,
            (Self::C, "int8_t" | "int16_t" | "int32_t" | "enum_t") => I32,
            (
                Self::C,
                "uint8_t" | "uint16_t" | "uint32_t" | "u_char" | "u_short" | "u_int" | "uint"
                | "u_long",
            ) => U32,
            (
                Self::C,
                "u_int8_t" | "u_int16_t" | "u_int32_t" | "rpcprog_t" | "rpcvers_t" | "rpcproc_t",
            ) => U32,
            (Self::C, "int64_t" | "quad_t" | "longlong_t") => I64,
            (Self::C, "uint64_t" | "u_int64_t" | "u_quad_t" | "u_longlong_t") => U64,
            _ => return None,
        })
    }

    /// Returns the prelude's definitions as XDR.
    pub(crate) fn xdr(self) -> Option<&'static str> {
        match self {
            Self::Rpc => Some(include_str!("rpc.x")),
            Self::Rpcb => Some(include_str!("rpcb.x")),
            Self::Ietf | Self::C => None,
        }
    }

    /// Returns true if the definitions contain a name. Most documents need none of them, and to
    /// parse them all the same would take a fourth of the time of a short document.
    pub(crate) fn contains(self, name: &str) -> bool {
        static RPC: OnceLock<HashSet<&str>> = OnceLock::new();
        static RPCB: OnceLock<HashSet<&str>> = OnceLock::new();
        let words = match self {
            Self::Rpc => &RPC,
            Self::Rpcb => &RPCB,
            Self::Ietf | Self::C => return false,
        };
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let text = self.xdr().unwrap_or_default();
        let words = words.get_or_init(|| text.split(|c| !is_part(c)).collect());
        words.contains(name)
    }

    /// Returns the names that spelling hints may suggest.
    #[must_use]
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Ietf => &["int32", "uint32", "int64", "uint64"],
            Self::C => &[
                "int32_t", "uint32_t", "int64_t", "uint64_t", "u_int", "u_long",
            ],
            Self::Rpc | Self::Rpcb => &[],
        }
    }
}
