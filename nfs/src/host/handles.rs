//! The content of a file handle.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | the version of this format, and whether a kernel handle or a number follows |
//! | 8 | the export, or, with a number, the start of the server |
//! | 4 and n, or 8 | type and bytes of the kernel handle, or the number in the table |
//! | 8 | SipHash-2-4 of the bytes before |
//!
//! The key also hashes file names behind a byte 0, for cookies that clients see (`listing`). So no
//! content may begin with 0, or a client could learn its code.

use super::key::HandleKey;
use super::sys::KernelHandle;
use crate::file_system::FsResult;
use crate::handle::FileHandle;
use crate::nfs3::Nfsstat3;

const BY_KERNEL: u8 = 0x10;
const BY_TABLE: u8 = 0x11;
/// The bytes of the code.
const CODE: usize = 8;

/// The identity of an object within an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HandleContent {
    /// The kernel's handle of the object.
    Kernel(KernelHandle),
    /// The number of the object in the table.
    Number(u64),
}

/// Encodes and decodes handles.
#[derive(Debug)]
pub(super) struct Handles {
    pub(super) key: HandleKey,
    /// The export, for handles of the kernel.
    pub(super) export: u64,
    /// The current start of the server, for numbers of its table.
    pub(super) start: u64,
}

impl Handles {
    /// Returns the handle of an object, or `None` if it would be too long.
    pub(super) fn encode(&self, inner: &HandleContent) -> Option<FileHandle> {
        match inner {
            HandleContent::Kernel(handle) => {
                let (export, kind) = (self.export.to_be_bytes(), handle.kind().to_be_bytes());
                self.sign(&[&[BY_KERNEL], &export, &kind, handle.as_bytes()])
            }
            HandleContent::Number(number) => {
                let (start, number) = (self.start.to_be_bytes(), number.to_be_bytes());
                self.sign(&[&[BY_TABLE], &start, &number])
            }
        }
    }

    /// Returns the handle of parts, with their code.
    fn sign(&self, parts: &[&[u8]]) -> Option<FileHandle> {
        let unsigned = FileHandle::of_parts(parts)?;
        let code = self.key.code(unsigned.as_bytes()).to_be_bytes();
        FileHandle::of_parts(&[unsigned.as_bytes(), &code])
    }

    /// Returns true if a valid handle contains a kernel handle.
    pub(super) fn is_of_kernel(handle: &FileHandle) -> bool {
        handle.as_bytes().first() == Some(&BY_KERNEL)
    }

    /// Decodes a handle. Returns NFS3ERR_BADHANDLE if it was not made with this key, and
    /// NFS3ERR_STALE if it was made for another export.
    pub(super) fn decode(&self, handle: &FileHandle) -> FsResult<HandleContent> {
        let bad = Nfsstat3::Badhandle;
        let (bytes, code) = handle.as_bytes().split_last_chunk::<CODE>().ok_or(bad)?;
        if self.key.code(bytes) != u64::from_be_bytes(*code) {
            return Err(bad);
        }
        let (form, rest) = bytes.split_first().ok_or(bad)?;
        let (export, rest) = rest.split_first_chunk::<8>().ok_or(bad)?;
        let (inner, known) = match *form {
            BY_KERNEL => {
                let (kind, bytes) = rest.split_first_chunk::<4>().ok_or(bad)?;
                let kernel = KernelHandle::new(i32::from_be_bytes(*kind), bytes).ok_or(bad)?;
                (HandleContent::Kernel(kernel), self.export)
            }
            BY_TABLE => {
                let number = <[u8; 8]>::try_from(rest).map_err(|_| bad)?;
                (
                    HandleContent::Number(u64::from_be_bytes(number)),
                    self.start,
                )
            }
            _ => return Err(bad),
        };
        if u64::from_be_bytes(*export) != known {
            return Err(Nfsstat3::Stale);
        }
        Ok(inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs3::FHSIZE;

    /// The maximum bytes of a kernel handle.
    const MAX: usize = FHSIZE as usize - 1 - 8 - 4 - CODE;

    fn handles() -> Handles {
        Handles {
            key: HandleKey::random().unwrap(),
            export: 1,
            start: 2,
        }
    }

    fn kernel(len: usize) -> HandleContent {
        HandleContent::Kernel(KernelHandle::new(-7, &vec![9; len]).unwrap())
    }

    #[test]
    fn every_inner_handle_that_fits_round_trips() {
        let handles = handles();
        for inner in (0..=MAX)
            .map(kernel)
            .chain([HandleContent::Number(u64::MAX)])
        {
            let handle = handles.encode(&inner).unwrap();
            assert_eq!(handles.decode(&handle), Ok(inner));
        }
        assert_eq!(handles.encode(&kernel(MAX + 1)), None);
    }

    #[test]
    fn a_handle_with_a_changed_bit_is_bad() {
        let handles = handles();
        let handle = handles.encode(&kernel(8)).unwrap();
        for bit in 0..handle.as_bytes().len() * 8 {
            let mut bytes = handle.as_bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let other = FileHandle::new(&bytes).unwrap();
            assert_eq!(handles.decode(&other), Err(Nfsstat3::Badhandle));
        }
        for len in 0..handle.as_bytes().len() {
            let cut = FileHandle::new(&handle.as_bytes()[..len]).unwrap();
            assert_eq!(handles.decode(&cut), Err(Nfsstat3::Badhandle));
        }
    }

    #[test]
    fn a_handle_of_another_export_or_start_is_stale() {
        let first = handles();
        let second = Handles {
            key: first.key.clone(),
            export: 3,
            start: 4,
        };
        for inner in [kernel(8), HandleContent::Number(0)] {
            let handle = first.encode(&inner).unwrap();
            assert_eq!(second.decode(&handle), Err(Nfsstat3::Stale));
        }
    }
}
