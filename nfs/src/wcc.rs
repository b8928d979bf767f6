//! Weak cache consistency data (RFC 1813, section 2.5, wcc_data).

use crate::nfs3::{Fattr3, PostOpAttr, PreOpAttr, WccAttr, WccData};

/// The attributes of an object before and after an operation that may change it.
///
/// If `before` equals the attributes in a client's cache, the client concludes that `after` is the
/// result of its own operation alone. So a file system sets both only if nothing else can change
/// the object in between; otherwise it omits `before`.
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

    /// Returns the data in their wire form.
    pub(crate) fn to_wire(self) -> WccData {
        WccData {
            before: self.before.map_or(PreOpAttr::False, PreOpAttr::True),
            after: post_op(self.after),
        }
    }
}

/// Returns attributes in their wire form.
pub(crate) fn post_op(attributes: Option<Fattr3>) -> PostOpAttr {
    attributes.map_or(PostOpAttr::False, PostOpAttr::True)
}
