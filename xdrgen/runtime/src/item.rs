//! Items: long opaque data that a transport may move outside of the message.
//!
//! RPC-over-RDMA moves an item that is eligible for direct data placement by RDMA, so that its
//! bytes are not in the XDR stream: the stream has the item's length and continues after the
//! item's padding (RFC 8166, section 3.4.3). [`Item`] is the type of such a field. It is the same
//! type whether the bytes are in the message, in a buffer of a transport, or in memory of the
//! caller.

use core::fmt;
use core::ops::Deref;

#[cfg(feature = "alloc")]
use crate::shared::SharedBytes;

/// The content of a field that a transport may move outside of the message: `opaque x<>` or
/// `string x<>` that a manifest lists under `ddp`.
///
/// It borrows bytes of the caller or of a received message, or it has a share in a buffer
/// ([`SharedBytes`]). A received item can be kept: [`to_static`](Self::to_static) copies borrowed
/// bytes and clones a share.
///
/// ```
/// use xdrgen_runtime::{Item, SharedBytes};
///
/// let borrowed = Item::from(&b"abc"[..]);
/// let shared = Item::from(SharedBytes::from(vec![b'a', b'b', b'c']));
/// assert_eq!(borrowed, shared);
/// assert!(borrowed.shared().is_none() && shared.shared().is_some());
/// assert_eq!(borrowed.to_static().shared().map(|shared| shared.len()), Some(3));
/// ```
#[derive(Clone)]
pub struct Item<'a>(Repr<'a>);

#[derive(Clone)]
enum Repr<'a> {
    Borrowed(&'a [u8]),
    #[cfg(feature = "alloc")]
    Shared(SharedBytes),
}

impl<'a> Item<'a> {
    /// Returns the bytes.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Borrowed(bytes) => bytes,
            #[cfg(feature = "alloc")]
            Repr::Shared(shared) => shared.as_bytes(),
        }
    }

    /// Returns an item with a shorter lifetime, which refers to the same bytes.
    #[inline]
    #[must_use]
    pub fn reborrow(&self) -> Item<'_> {
        self.clone()
    }

    /// Returns the item's share in a buffer, if it has one.
    #[cfg(feature = "alloc")]
    #[inline]
    #[must_use]
    pub fn shared(&self) -> Option<&SharedBytes> {
        match &self.0 {
            Repr::Borrowed(_) => None,
            Repr::Shared(shared) => Some(shared),
        }
    }

    /// Returns an item that can be kept: with the same share, or with a copy of borrowed bytes.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn to_static(&self) -> Item<'static> {
        match &self.0 {
            Repr::Borrowed([]) => Item::default(),
            Repr::Borrowed(bytes) => SharedBytes::copy_of(bytes).into(),
            Repr::Shared(shared) => shared.clone().into(),
        }
    }

    /// Returns the bytes as [`SharedBytes`], which can be kept. Borrowed bytes are copied.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn into_shared(self) -> SharedBytes {
        match self.0 {
            Repr::Borrowed(bytes) => SharedBytes::copy_of(bytes),
            Repr::Shared(shared) => shared,
        }
    }
}

impl Default for Item<'_> {
    #[inline]
    fn default() -> Self {
        Self(Repr::Borrowed(&[]))
    }
}

impl<'a> From<&'a [u8]> for Item<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self(Repr::Borrowed(bytes))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Item<'a> {
    #[inline]
    fn from(bytes: &'a [u8; N]) -> Self {
        Self(Repr::Borrowed(bytes))
    }
}

impl<'a> From<&'a str> for Item<'a> {
    #[inline]
    fn from(text: &'a str) -> Self {
        Self(Repr::Borrowed(text.as_bytes()))
    }
}

#[cfg(feature = "alloc")]
impl From<SharedBytes> for Item<'_> {
    #[inline]
    fn from(shared: SharedBytes) -> Self {
        Self(Repr::Shared(shared))
    }
}

/// Takes over the vector's memory. Nothing is copied.
#[cfg(feature = "alloc")]
impl From<alloc::vec::Vec<u8>> for Item<'_> {
    #[inline]
    fn from(bytes: alloc::vec::Vec<u8>) -> Self {
        SharedBytes::from(bytes).into()
    }
}

impl Deref for Item<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsRef<[u8]> for Item<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Items are equal if their bytes are.
impl PartialEq for Item<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Item<'_> {}

impl core::hash::Hash for Item<'_> {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for Item<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;

    #[test]
    fn copies_have_the_same_bytes() {
        let bytes: [u8; 20] = core::array::from_fn(|at| u8::try_from(at).unwrap_or(0));
        for len in 0..=bytes.len() {
            let item = Item::from(&bytes[..len]);
            let kept = item.to_static();
            assert_eq!(kept, item);
            assert_eq!(kept.shared().is_some(), len > 0);
            assert_eq!(*item.into_shared(), bytes[..len]);
        }
    }

    /// The compiler relies on this size (`layout.rs`). An empty item takes ten times its 4 bytes of
    /// XDR; a longer item takes less than ten times its XDR, including the reference counts.
    #[test]
    fn an_item_takes_forty_bytes() {
        assert_eq!(size_of::<Item<'_>>(), 40);
    }
}
