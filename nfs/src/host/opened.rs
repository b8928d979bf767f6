//! Opens files for the READs and WRITEs of their callers.
//!
//! `data` uses it. Permissions are checked when a file is opened as its caller. So an open file may
//! be used only for the caller of its key, and only while [`OpenedFile::is_good`]; a READ may check
//! this after it has read, before it replies. A file that is
//! open for writing cannot be executed on the host: the first WRITE of a caller stores a mark
//! alone, and only the next one keeps the file open.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::OFlags;

use super::open_files::OpenedFile;
use super::tree::{ObjectFd, Tree};
use crate::caller::Caller;
use crate::file_system::FsResult;
use crate::handle::FileHandle;

impl Tree {
    /// Opens a file again for a caller.
    fn open_anew(&self, caller: &Caller, file: &ObjectFd, flags: OFlags) -> FsResult<OpenedFile> {
        let opened = self.open_file(caller, file, flags)?;
        Ok(OpenedFile::new(opened, &file.stat))
    }

    /// Returns a file that is open for the READs of a caller already. Before its bytes are used,
    /// the attributes after they were read must show that the caller need not be checked again.
    pub(super) fn kept_reader(&self, caller: &Caller, file: &FileHandle) -> Option<OpenedFile> {
        let id = self.known_id(file)?;
        self.open_files.readers.get(&(id, caller.clone()))
    }

    /// Returns a file that is open for the READs of a caller, after a permission check.
    pub(super) fn reader(&self, caller: &Caller, file: &ObjectFd) -> FsResult<Arc<OwnedFd>> {
        let key = (file.id(), caller.clone());
        let known = self.open_files.readers.get(&key);
        if let Some(opened) = known.filter(|opened| opened.is_good(&file.stat)) {
            opened.see_size(&file.stat);
            return Ok(opened.file);
        }
        let opened = self.open_anew(caller, file, OFlags::RDONLY)?;
        let shared = opened.file.clone();
        self.open_files.readers.insert(key, file.id(), opened);
        Ok(shared)
    }

    /// Returns a file that is open for the WRITEs of a caller, after a permission check.
    pub(super) fn writer(&self, caller: &Caller, file: &ObjectFd) -> FsResult<Arc<OwnedFd>> {
        let key = (file.id(), caller.clone());
        let known = self.open_files.writers.get(&key);
        let is_again = known.is_some();
        let good = known.flatten().filter(|opened| opened.is_good(&file.stat));
        if let Some(opened) = good {
            return Ok(opened.file);
        }
        let opened = self.open_anew(caller, file, OFlags::WRONLY)?;
        let shared = opened.file.clone();
        let kept = is_again.then_some(opened);
        self.open_files.writers.insert(key, file.id(), kept);
        Ok(shared)
    }
}
