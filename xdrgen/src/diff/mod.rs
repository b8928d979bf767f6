//! Compares two schemas, such as two revisions of a draft, by the messages that they allow.
//!
//! Each change belongs to a [`Class`], which describes the effect on messages in the old form.
//! Types are matched by name, or by their uses if the name is gone. Therefore a renamed type, a
//! typedef that is replaced by its content, or an optional that is replaced by an array of at most
//! one element is compatible: the messages stay the same.
//!
//! ```
//! use xdrgen_build::diff::{Class, diff};
//! use xdrgen_build::{Config, Module};
//!
//! # let folder = std::env::temp_dir().join(format!("xdrgen-diff-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! let check = |name: &str, xdr: &str| {
//!     let path = folder.join(name);
//!     std::fs::write(&path, xdr)?;
//!     Ok::<_, std::io::Error>(Config::new().module(Module::new("m").document(path)).check())
//! };
//! let old = check("old.x", "enum kind { FILE = 1 };")?;
//! let new = check("new.x", "enum kind { FILE = 1, LINK = 2 };")?;
//! let changes = diff(old.schema(), new.schema());
//! assert_eq!(changes[0].class, Class::Extending);
//! assert_eq!(changes[0].message, "enum `kind`: the member `LINK` = 2 was added");
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod compare;
mod definitions;
mod matching;
mod overlays;
mod report;
mod wire;

use crate::ir::Schema;
use crate::source::Span;

pub use report::{json, text};

/// The effect of a change on messages in the old form, in ascending order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The messages are the same. Only names, comments, or codes for the content of opaque fields
    /// change.
    Compatible,
    /// Each message in the old form is valid in the new form, with the same meaning. The new form
    /// has additional messages.
    Extending,
    /// Some message in the old form is invalid in the new form, or has another meaning.
    Breaking,
}

impl Class {
    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compatible => "compatible",
            Self::Extending => "extending",
            Self::Breaking => "breaking",
        }
    }
}

/// A difference between two schemas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The effect on messages.
    pub class: Class,
    /// The description of the change.
    pub message: String,
    /// The position in the old documents; `None` if the old documents do not contain it.
    pub old: Option<Span>,
    /// The position in the new documents; `None` if the new documents do not contain it.
    pub new: Option<Span>,
}

/// Returns the changes from one schema to another, in the order of the old documents: constants,
/// programs, types, overlays, and then additions. It returns none for equal documents.
#[must_use]
pub fn diff(old: &Schema, new: &Schema) -> Vec<Change> {
    compare::Comparison::new(old, new).run()
}
