//! Looks up types by name.

use std::fmt;

use crate::ir::{Schema, TypeDef, TypeId};
use crate::spelling;

impl Schema {
    /// Finds a type by its XDR name (`rpcrdma2_xprt_hdr`), its XDR name with the module
    /// (`v2::rpcrdma2_xprt_hdr`), or its Rust path (`v2::XprtHdr`).
    ///
    /// # Errors
    /// Returns an error if no type, or more than one, has the name.
    pub fn find(&self, name: &str) -> Result<TypeId, FindError> {
        let ids = |matches: &dyn Fn(&TypeDef) -> bool| -> Vec<TypeId> {
            (0..)
                .map(TypeId)
                .zip(&self.types)
                .filter(|(_, ty)| matches(ty))
                .map(|(id, _)| id)
                .collect()
        };
        let mut found = ids(&|ty| ty.name == name);
        if found.is_empty() {
            found = ids(&|ty| {
                self.qualified(ty, &ty.name) == name || self.qualified(ty, &ty.rust) == name
            });
        }
        let candidates = match found.as_slice() {
            [one] => return Ok(*one),
            [] => self.near(name),
            several => several
                .iter()
                .map(|id| self.qualified(self.ty(*id), &self.ty(*id).name))
                .collect(),
        };
        Err(FindError {
            name: name.to_owned(),
            ambiguous: !found.is_empty(),
            candidates,
        })
    }

    /// Returns a type's XDR name with its module: `v2::rpcrdma2_xprt_hdr`.
    #[must_use]
    pub fn qualified_name(&self, id: TypeId) -> String {
        let ty = self.ty(id);
        self.qualified(ty, &ty.name)
    }

    fn qualified(&self, ty: &TypeDef, name: &str) -> String {
        format!("{}::{name}", self.module(ty.module).path.join("::"))
    }

    /// Returns the most similar name, if one is similar.
    fn near(&self, name: &str) -> Vec<String> {
        let qualified: Vec<String> = self
            .types
            .iter()
            .flat_map(|ty| [self.qualified(ty, &ty.name), self.qualified(ty, &ty.rust)])
            .collect();
        let bare = self.types.iter().map(|ty| ty.name.as_str());
        let all = bare.chain(qualified.iter().map(String::as_str));
        spelling::nearest(name, all)
            .map(str::to_owned)
            .into_iter()
            .collect()
    }
}

/// The error for a name that does not identify one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindError {
    /// The name.
    pub name: String,
    /// Whether several types have the name.
    pub ambiguous: bool,
    /// The qualified names of these types; or, if no type has the name, the most similar name.
    pub candidates: Vec<String>,
}

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted: Vec<String> = self
            .candidates
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        if self.ambiguous {
            return write!(f, "`{}` is ambiguous: {}", self.name, quoted.join(", "));
        }
        write!(f, "no type is named `{}`", self.name)?;
        match quoted.first() {
            Some(near) => write!(f, "; did you mean {near}?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FindError {}
