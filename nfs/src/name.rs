//! Names in directories (RFC 1813, section 3.2).
//!
//! A [`Name`] is one component of a path: `host` passes its bytes to system calls that a `/` would
//! lead to another directory. A `Name` may be `.` or `..`, which LOOKUP accepts; `service` and
//! `mount` reject both elsewhere. `client::listing` checks the names in replies by `Name::new`,
//! too.

use std::fmt;

use crate::nfs3::Nfsstat3;

/// A name in a directory: 1 to 255 bytes without `/` and NUL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// The maximum bytes of a name.
    pub const MAX: usize = 255;

    /// Checks a name.
    ///
    /// # Errors
    /// Returns NFS3ERR_ACCES if the name is empty or contains `/` or NUL, and NFS3ERR_NAMETOOLONG
    /// if it is too long.
    pub fn new(name: &'a [u8]) -> Result<Self, Nfsstat3> {
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
            return Err(Nfsstat3::Acces);
        }
        if name.len() > Self::MAX {
            return Err(Nfsstat3::Nametoolong);
        }
        Ok(Self(name))
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Returns true for `.`, the directory itself.
    #[must_use]
    pub fn is_dot(&self) -> bool {
        self.0 == b"."
    }

    /// Returns true for `..`, the directory's parent.
    #[must_use]
    pub fn is_dot_dot(&self) -> bool {
        self.0 == b".."
    }

    /// Checks that the name is neither `.` nor `..`.
    pub(crate) fn or_if_dots(self, status: Nfsstat3) -> Result<Self, Nfsstat3> {
        if self.is_dot() || self.is_dot_dot() {
            return Err(status);
        }
        Ok(self)
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
