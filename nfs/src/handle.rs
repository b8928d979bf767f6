//! File handles (RFC 1813, section 2.5, nfs_fh3).
//!
//! This module limits the length of a handle. `memory::tree` and `host::handles` define the content
//! of their handles. Equality includes the unused bytes, so every constructor must fill them with
//! zeros: the caches and queues of `host` have handles as keys.

use std::fmt;
use std::hash::{Hash, Hasher};

use oncrpc::xdr::{Opaque, OpaqueBuf};

use crate::nfs3::{FHSIZE, Fattr3, NfsFh3, Nfsstat3, owned};

const MAX: usize = FHSIZE as usize;

/// The handle of an object of a file system: at most 64 bytes, which are opaque except to the file
/// system.
///
/// A client may send any bytes as a handle. A file system replies NFS3ERR_BADHANDLE or
/// NFS3ERR_STALE to bytes that it has not issued as a handle.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FileHandle {
    len: u8,
    bytes: [u8; MAX],
}

/// The handle of an object, with its attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// The handle.
    pub handle: FileHandle,
    /// The attributes.
    pub attributes: Fattr3,
}

impl FileHandle {
    /// Creates a handle.
    ///
    /// # Errors
    /// Returns NFS3ERR_BADHANDLE if there are more than 64 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, Nfsstat3> {
        Self::of_parts(&[bytes]).ok_or(Nfsstat3::Badhandle)
    }

    /// Creates a handle of the bytes of all parts. Returns `None` if there are more than 64 bytes.
    pub(crate) fn of_parts(parts: &[&[u8]]) -> Option<Self> {
        let (mut bytes, mut len) = ([0; MAX], 0);
        for part in parts {
            let end = len + part.len();
            bytes.get_mut(len..end)?.copy_from_slice(part);
            len = end;
        }
        let len = u8::try_from(len).ok()?;
        Some(Self { len, bytes })
    }

    /// Creates a handle of 16 bytes.
    pub(crate) fn from_array(array: [u8; 16]) -> Self {
        let mut bytes = [0; MAX];
        bytes[..16].copy_from_slice(&array);
        Self { len: 16, bytes }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }

    /// Returns the handle in the form of call arguments.
    pub(crate) fn as_args(&self) -> NfsFh3<'_> {
        NfsFh3 {
            data: Opaque::new(self.as_bytes()).unwrap_or_default(),
        }
    }

    /// Returns the handle in its wire form.
    pub(crate) fn to_wire(self) -> owned::NfsFh3 {
        owned::NfsFh3 {
            data: OpaqueBuf::new(self.as_bytes().to_vec()).unwrap_or_default(),
        }
    }
}

/// Hashes the used bytes alone, which are less than half of all in most handles.
impl Hash for FileHandle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl From<NfsFh3<'_>> for FileHandle {
    fn from(handle: NfsFh3<'_>) -> Self {
        // The decoder has checked the length.
        Self::new(&handle.data).unwrap_or(Self {
            len: 0,
            bytes: [0; MAX],
        })
    }
}

impl From<&OpaqueBuf<FHSIZE>> for FileHandle {
    fn from(handle: &OpaqueBuf<FHSIZE>) -> Self {
        let data = handle.as_borrowed();
        Self::from(NfsFh3 { data })
    }
}

impl fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileHandle({})", self.as_bytes().escape_ascii())
    }
}
