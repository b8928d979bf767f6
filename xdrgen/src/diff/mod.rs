//! Compares two schemas, such as revisions of a draft, by the messages that they allow.
//!
//! Each change belongs to a [`Class`], which says what becomes of messages in the old form. Types are
//! matched by their names; where a name is gone, by where they are used. So a type may get another
//! name, a typedef may be replaced by its content, and an optional by an array of at most one
//! element: the messages stay the same.
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
mod report;
mod wire;

use crate::ir::Schema;
use crate::source::Span;

pub use report::{json, text};

/// What a change means for messages in the old form, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The messages are the same: names, comments, or codes for the content of opaque fields.
    Compatible,
    /// Each message in the old form is one in the new form, with the same meaning, and there are
    /// others.
    Extending,
    /// A message in the old form is none in the new form, or means something else.
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
    /// What it means for messages.
    pub class: Class,
    /// What has changed.
    pub message: String,
    /// Where it is in the old documents; `None` if it is not there.
    pub old: Option<Span>,
    /// Where it is in the new documents; `None` if it is not there.
    pub new: Option<Span>,
}

/// Returns what has changed from one schema to another, in the order of the old documents: constants,
/// programs, overlays, types, and then what was added. It is empty for equal documents.
#[must_use]
pub fn diff(old: &Schema, new: &Schema) -> Vec<Change> {
    compare::Comparison::new(old, new).run()
}
