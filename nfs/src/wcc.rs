//! Weak cache consistency data (RFC 1813, section 2.5, wcc_data).

use crate::nfs3::{Fattr3, PostOpAttr, PreOpAttr, WccAttr, WccData};

/// The attributes of an object before and after an operation that may change it.
///
/// A client that sees the attributes that it has cached in `before` takes `after` for the result of
/// its own operation alone. So a file system sets both only if nothing else can change the object
/// between them; otherwise it leaves `before` out.
#[derive(Clone, Copy, Default, Debug)]
pub struct Wcc {
    before: Option<WccAttr>,
    after: Option<Fattr3>,
}

impl Wcc {
    /// Sets the attributes before the operation.
    pub fn set_before(&mut self, attributes: &Fattr3) {
        self.before = Some(WccAttr {
            size: attributes.size,
            mtime: attributes.mtime,
            ctime: attributes.ctime,
        });
    }

    /// Sets the attributes after the operation, whether it succeeded or failed.
    pub fn set_after(&mut self, attributes: &Fattr3) {
        self.after = Some(*attributes);
    }

    /// Returns the attributes after the operation.
    #[must_use]
    pub fn after(&self) -> Option<&Fattr3> {
        self.after.as_ref()
    }

    /// Returns the data as it is in messages.
    pub(crate) fn to_wire(self) -> WccData {
        WccData {
            before: self.before.map_or(PreOpAttr::False, PreOpAttr::True),
            after: post_op(self.after),
        }
    }
}

/// Returns attributes as they are in messages.
pub(crate) fn post_op(attributes: Option<Fattr3>) -> PostOpAttr {
    attributes.map_or(PostOpAttr::False, PostOpAttr::True)
}
