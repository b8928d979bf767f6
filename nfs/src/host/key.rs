//! The key that authenticates a server's file handles, and its file.
//!
//! `handles` ends each handle with a `code`. Clients see codes of two other kinds: cookies
//! (`code_of_name`) and fsids (`Tree::attributes`). No input of those may have the form of a
//! handle, or a client could forge one. A file of another format or key makes all handles of
//! clients invalid.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::hash::Hasher as _;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
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
        // A name that no attempt has used before: what a killed server left behind is not in the
        // way.
        let name = Self::random()?;
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(format!(".{:032x}", u128::from_be_bytes(name.0)));
        let unfinished = Path::new(&unfinished);
        let published = key
            .write(unfinished)
            .and_then(|()| publish(unfinished, path));
        if published.is_err() {
            // The first error is the one to report.
            let _ = std::fs::remove_file(unfinished);
        }
        published.map(|()| key)
    }

    /// Writes the key to a new file.
    fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(&self.0)?;
        file.sync_all()
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

    /// Returns the code of a name. Clients see a part of it, so it is the code of no handle: the
    /// content of a handle never begins with 0.
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

/// Gives a new file its name, unless a file has this name already. Then brings the name to stable
/// storage.
fn publish(unfinished: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, unfinished, CWD, path, RenameFlags::NOREPLACE) {
        // The file system cannot rename in this way.
        Err(Errno::INVAL | Errno::NOSYS) => {
            std::fs::hard_link(unfinished, path)?;
            std::fs::remove_file(unfinished)?;
        }
        renamed => renamed?,
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
}

/// Does not show the key.
impl fmt::Debug for HandleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandleKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_an_interrupted_start_do_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        // In a container, the next start has the same process ID.
        let left = dir.path().join(format!("key.{}", std::process::id()));
        std::fs::write(&left, b"half").unwrap();
        let key = HandleKey::from_file(&path).unwrap();
        assert!(HandleKey::from_file(&path).unwrap() == key);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_existing_key_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("key"), dir.path().join("other"));
        let key = HandleKey::from_file(&path).unwrap();
        HandleKey::random().unwrap().write(&other).unwrap();
        let replaced = publish(&other, &path).unwrap_err();
        assert_eq!(replaced.kind(), io::ErrorKind::AlreadyExists);
        assert!(HandleKey::from_file(&path).unwrap() == key);
    }
}
