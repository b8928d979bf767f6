//! The key that authenticates a server's file handles.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::hash::Hasher as _;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::rand::{GetRandomFlags, getrandom};
use siphasher::sip::SipHasher24;

/// The bytes of a key.
const LEN: usize = 16;

/// The key of a server's file handles.
///
/// Each handle contains a code (SipHash-2-4) that only an owner of the key can compute, so that a
/// client cannot forge the handle of an object that the server has not returned to it. Handles stay
/// valid over a restart of the server if its key stays the same. Anyone who can read the key can
/// access every object of the file system, even outside the served directory.
#[derive(Clone, PartialEq, Eq)]
pub struct HandleKey([u8; LEN]);

impl HandleKey {
    /// Creates a key from the kernel's random numbers. Handles are valid until the server ends.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn random() -> io::Result<Self> {
        let mut key = [0; LEN];
        let got = getrandom(&mut key, GetRandomFlags::empty())?;
        if got != LEN {
            return Err(io::Error::other("the kernel gives too few random bytes"));
        }
        Ok(Self(key))
    }

    /// Reads the key from a file. If the file does not exist, creates it with a random key and mode
    /// 0600.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("handle-key");
    /// let first = rpcrdma_nfs::HandleKey::from_file(&path)?;
    /// assert!(rpcrdma_nfs::HandleKey::from_file(&path)? == first);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or created, does not have 16 bytes, or can be
    /// read or written by other users.
    pub fn from_file(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        match Self::create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::read(path),
            created => created,
        }
    }

    /// Creates the file under another name first, so that it never contains only a part of the key.
    fn create(path: &Path) -> io::Result<Self> {
        if path.try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let key = Self::random()?;
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(format!(".{}", std::process::id()));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)?;
        file.write_all(&key.0)?;
        file.sync_all()?;
        let linked = std::fs::hard_link(&unfinished, path);
        std::fs::remove_file(&unfinished)?;
        linked?;
        Ok(key)
    }

    fn read(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        if !metadata.is_file() || metadata.len() != LEN as u64 {
            return invalid("a key is a file of 16 bytes");
        }
        if metadata.mode() & 0o077 != 0 {
            return invalid("a key may have no permissions for other users: its mode is 0600");
        }
        let mut key = [0; LEN];
        (&file).read_exact(&mut key)?;
        Ok(Self(key))
    }

    /// Returns the code of a name. Clients see a part of it, so it is no code of a handle's content:
    /// none begins with 0.
    pub(super) fn code_of_name(&self, name: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&[0]);
        hasher.write(name);
        hasher.finish()
    }

    /// Returns the code of bytes.
    pub(super) fn code(&self, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(bytes);
        hasher.finish()
    }
}

/// Does not show the key.
impl fmt::Debug for HandleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandleKey")
    }
}
