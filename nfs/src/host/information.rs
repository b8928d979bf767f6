//! GETATTR, ACCESS, READLINK, FSSTAT and PATHCONF (RFC 1813, sections 3.3.1, 3.3.4, 3.3.5, 3.3.18
//! and 3.3.20).
//!
//! ACCESS grants what the kernel grants the caller; `data` also admits owners to READ and WRITE.
//! The other procedures need no permission, and their thread may still be another caller's user:
//! they must use the open descriptor of the object alone.

use rustix::fs::{Access, FileType, fstatfs, fstatvfs, readlinkat};

use super::errno::{status, status_without_perm};
use super::tree::Tree;
use crate::caller::Caller;
use crate::file_system::{FsResult, FsStat, PathConf};
use crate::handle::FileHandle;
use crate::name::Name;
use crate::nfs3::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ,
    Fattr3, Nfsstat3,
};

/// The maximum names of an object by file system type; others have glibc's default.
const LINK_MAX: [(u64, u32); 3] = [
    // ext2 to ext4, with the limit of ext4.
    (0xef53, 65_000),
    // XFS.
    (0x5846_5342, i32::MAX.cast_unsigned()),
    // Btrfs.
    (0x9123_683e, 65_535),
];
const LINK_MAX_OF_OTHERS: u32 = 127;

impl Tree {
    pub(super) fn get_attributes(&self, object: &FileHandle) -> FsResult<Fattr3> {
        Ok(self.attributes(&self.resolve(object)?.stat))
    }

    pub(super) fn access(
        &self,
        caller: &Caller,
        object: &FileHandle,
        asked: u32,
    ) -> FsResult<(u32, Fattr3)> {
        let found = self.resolve(object)?;
        let (on_execute, on_write) = if found.kind() == FileType::Directory {
            let change = ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE;
            (ACCESS3_LOOKUP, change)
        } else {
            (ACCESS3_EXECUTE, ACCESS3_MODIFY | ACCESS3_EXTEND)
        };
        let rights = [
            (Access::READ_OK, ACCESS3_READ),
            (Access::WRITE_OK, on_write),
            (Access::EXEC_OK, on_execute),
        ];
        let granted = self.identity.run_as(caller, || {
            let rights = rights.into_iter().filter(|(_, bits)| bits & asked != 0);
            let granted = rights.filter(|(access, _)| self.may(&found, *access));
            granted.fold(0, |all, (_, bits)| all | bits)
        })?;
        Ok((granted & asked, self.attributes(&found.stat)))
    }

    pub(super) fn read_link(&self, symlink: &FileHandle) -> FsResult<Vec<u8>> {
        let found = self.resolve(symlink)?;
        if found.kind() != FileType::Symlink {
            return Err(Nfsstat3::Inval);
        }
        let path = readlinkat(&found.fd, "", Vec::new());
        Ok(path.map_err(status_without_perm)?.into_bytes())
    }

    pub(super) fn fs_stat(&self, object: &FileHandle) -> FsResult<FsStat> {
        let found = self.resolve(object)?;
        let stat = fstatvfs(&found.fd).map_err(status)?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(FsStat {
            tbytes: bytes(stat.f_blocks),
            fbytes: bytes(stat.f_bfree),
            abytes: bytes(stat.f_bavail),
            tfiles: stat.f_files,
            ffiles: stat.f_ffree,
            afiles: stat.f_favail,
            invarsec: 0,
        })
    }

    pub(super) fn path_conf(&self, object: &FileHandle) -> FsResult<PathConf> {
        let found = self.resolve(object)?;
        let magic = u64::try_from(fstatfs(&found.fd).map_err(status)?.f_type).unwrap_or(0);
        let linkmax = LINK_MAX.iter().find(|(of, _)| *of == magic);
        let name_max = fstatvfs(&found.fd).map_err(status)?.f_namemax;
        Ok(PathConf {
            linkmax: linkmax.map_or(LINK_MAX_OF_OTHERS, |(_, max)| *max),
            name_max: u32::try_from(name_max.min(Name::MAX as u64)).unwrap_or(0),
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        })
    }
}
