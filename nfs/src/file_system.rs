//! The trait of a file system that a server offers: `service` and `mount` call it, and `memory` and
//! `host` implement it.
//!
//! A WRITE stores at least one byte if it succeeds and has data, since clients send the rest again.
//! The cookie of a directory entry is never 0, which stands for the beginning. A server may drop
//! the future of a method at any `await`: an implementation must then leave its objects consistent.

use std::future::Future;

use oncrpc::ItemAllocator;
use oncrpc::xdr::Item;

use crate::caller::Caller;
use crate::directory::DirList;
use crate::handle::{FileHandle, Object};
use crate::name::Name;
use crate::nfs3::{Createhow3, Fattr3, Mknoddata3, Nfsstat3, Nfstime3, Sattr3, StableHow};
use crate::wcc::Wcc;

/// The result of an operation of a file system. `Err` never has `Nfsstat3::Ok`.
pub type FsResult<T> = Result<T, Nfsstat3>;

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirOp<'a> {
    /// The directory.
    pub dir: &'a FileHandle,
    /// The name.
    pub name: Name<'a>,
}

/// The results of READ.
#[derive(Clone, Debug)]
pub struct ReadData {
    /// The bytes. Shared bytes are sent over RDMA and TCP without a copy.
    pub data: Item<'static>,
    /// Whether the data reach the end of the file, or the offset is beyond it.
    pub eof: bool,
    /// The attributes of the file.
    pub attributes: Fattr3,
}

/// The results of WRITE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// The number of bytes written: 0 only if the request has no bytes.
    pub count: u32,
    /// The stability level: at least the requested one.
    pub committed: StableHow,
    /// The write verifier, which changes whenever uncommitted bytes may have been lost.
    pub verifier: [u8; 8],
}

/// The end of a READDIR or READDIRPLUS reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirEnd {
    /// Whether there are no more entries.
    pub eof: bool,
    /// The verifier of the cookies.
    pub verifier: [u8; 8],
    /// The attributes of the directory.
    pub attributes: Fattr3,
}

/// The used and free space of a file system (RFC 1813, section 3.3.18).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FsStat {
    /// The total bytes.
    pub tbytes: u64,
    /// The free bytes.
    pub fbytes: u64,
    /// The free bytes for the caller.
    pub abytes: u64,
    /// The total file slots.
    pub tfiles: u64,
    /// The free file slots.
    pub ffiles: u64,
    /// The free file slots for the caller.
    pub afiles: u64,
    /// The seconds for which these numbers are expected not to change.
    pub invarsec: u32,
}

/// The capabilities of a file system (RFC 1813, section 3.3.19).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FsInfo {
    /// The maximum bytes of a READ.
    pub rtmax: u32,
    /// The maximum bytes of a WRITE.
    pub wtmax: u32,
    /// The preferred bytes of a READDIR.
    pub dtpref: u32,
    /// The maximum bytes of a file.
    pub maxfilesize: u64,
    /// The granularity of times.
    pub time_delta: Nfstime3,
    /// Bits `FSF3_..`.
    pub properties: u32,
}

/// The limits of POSIX (RFC 1813, section 3.3.20).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathConf {
    /// The maximum hard links of an object.
    pub linkmax: u32,
    /// The maximum bytes of a name. The server itself rejects names of more than 255 bytes.
    pub name_max: u32,
    /// Whether only user 0 may change the owner of a file.
    pub chown_restricted: bool,
    /// Whether names that differ only in case are the same.
    pub case_insensitive: bool,
    /// Whether names keep their case.
    pub case_preserving: bool,
}

/// A file system that a server offers by NFSv3.
///
/// The methods are the procedures of RFC 1813, section 3.3, without NULL. They are async; an
/// implementation writes them as `async fn`. The server checks the form of names and handles,
/// limits counts to `rtmax` and `wtmax`, and rejects changes to a read-only export. The file system
/// checks the caller's permissions. It serves any number of calls at once.
///
/// Methods that change objects have [`Wcc`] arguments, which they fill in on success and on
/// failure.
pub trait FileSystem: Send + Sync + 'static {
    /// Returns the handle of the root.
    fn root(&self) -> FileHandle;

    /// Returns true if a handle has the form of this file system's handles, even if its object no
    /// longer exists. A server with several exports uses this method to find the export of a call.
    /// The default returns true, which is right for the only file system of a server.
    fn owns(&self, object: &FileHandle) -> bool {
        let _ = object;
        true
    }

    /// Returns attributes (GETATTR).
    fn attributes(&self, object: &FileHandle) -> impl Future<Output = FsResult<Fattr3>> + Send;

    /// Sets attributes (SETATTR). With a `guard` that differs from the object's ctime, the error is
    /// NFS3ERR_NOT_SYNC.
    fn set_attributes(
        &self,
        caller: &Caller,
        object: &FileHandle,
        new: &Sattr3,
        guard: Option<Nfstime3>,
        wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<()>> + Send;

    /// Looks up a name, which may be `.` or `..` (LOOKUP). The parent of the root is the root. Sets
    /// `dir_attributes` to the attributes of the directory, on success and on failure. They must
    /// not be those after a change that the lookup has not seen: a client could keep a name that no
    /// longer exists.
    fn lookup(
        &self,
        caller: &Caller,
        what: DirOp<'_>,
        dir_attributes: &mut Option<Fattr3>,
    ) -> impl Future<Output = FsResult<Object>> + Send;

    /// Returns the attributes, and the bits `ACCESS3_..` that the caller has (ACCESS).
    fn access(
        &self,
        caller: &Caller,
        object: &FileHandle,
        access: u32,
    ) -> impl Future<Output = FsResult<(u32, Fattr3)>> + Send;

    /// Returns the path in a symbolic link (READLINK); NFS3ERR_INVAL for another object.
    fn read_link(
        &self,
        caller: &Caller,
        symlink: &FileHandle,
    ) -> impl Future<Output = FsResult<Item<'static>>> + Send;

    /// Reads from a regular file (READ); NFS3ERR_INVAL for another object. A file system that
    /// cannot share its bytes reads into a buffer of `buffers`, which is sent without a copy.
    fn read(
        &self,
        caller: &Caller,
        file: &FileHandle,
        offset: u64,
        count: u32,
        buffers: &ItemAllocator,
    ) -> impl Future<Output = FsResult<ReadData>> + Send;

    /// Writes to a regular file (WRITE); NFS3ERR_INVAL for another object.
    fn write(
        &self,
        caller: &Caller,
        file: &FileHandle,
        offset: u64,
        data: Item<'_>,
        stable: StableHow,
        wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<Written>> + Send;

    /// Creates a regular file (CREATE). The verifier of an exclusive create is stored, so that a
    /// retransmitted call succeeds.
    fn create(
        &self,
        caller: &Caller,
        place: DirOp<'_>,
        how: &Createhow3,
        dir_wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<Object>> + Send;

    /// Creates a directory (MKDIR).
    fn make_dir(
        &self,
        caller: &Caller,
        place: DirOp<'_>,
        attributes: &Sattr3,
        dir_wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<Object>> + Send;

    /// Creates a symbolic link (SYMLINK).
    fn symlink(
        &self,
        caller: &Caller,
        place: DirOp<'_>,
        attributes: &Sattr3,
        path: Item<'_>,
        dir_wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<Object>> + Send;

    /// Creates a special file (MKNOD); NFS3ERR_BADTYPE for a type that the file system does not
    /// support.
    fn make_node(
        &self,
        caller: &Caller,
        place: DirOp<'_>,
        what: &Mknoddata3,
        dir_wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<Object>> + Send;

    /// Removes a name of an object that is not a directory (REMOVE).
    fn remove(
        &self,
        caller: &Caller,
        object: DirOp<'_>,
        dir_wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<()>> + Send;

    /// Removes an empty directory (RMDIR).
    fn remove_dir(
        &self,
        caller: &Caller,
        object: DirOp<'_>,
        dir_wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<()>> + Send;

    /// Renames an object (RENAME) atomically. A compatible target is replaced.
    fn rename(
        &self,
        caller: &Caller,
        from: DirOp<'_>,
        to: DirOp<'_>,
        from_wcc: &mut Wcc,
        to_wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<()>> + Send;

    /// Adds a name to an object (LINK).
    fn link(
        &self,
        caller: &Caller,
        file: &FileHandle,
        link: DirOp<'_>,
        dir_wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<()>> + Send;

    /// Adds directory entries that follow the one with `cookie`, until the list is full (READDIR,
    /// READDIRPLUS). Cookie 0 stands for the beginning. Returns NFS3ERR_BAD_COOKIE if another
    /// cookie is no longer valid, or not valid with this verifier.
    fn read_dir(
        &self,
        caller: &Caller,
        dir: &FileHandle,
        cookie: u64,
        verifier: [u8; 8],
        list: &mut DirList,
    ) -> impl Future<Output = FsResult<DirEnd>> + Send;

    /// Returns the used and free space of the file system (FSSTAT).
    fn fs_stat(&self, object: &FileHandle) -> impl Future<Output = FsResult<FsStat>> + Send;

    /// Returns the capabilities of the file system (FSINFO), which are the same for every handle.
    fn fs_info(&self) -> FsInfo;

    /// Returns the POSIX limits (PATHCONF).
    fn path_conf(&self, object: &FileHandle) -> impl Future<Output = FsResult<PathConf>> + Send;

    /// Commits written data to stable storage (COMMIT); a `count` of 0 means from `offset` to the
    /// end. Returns the write verifier.
    fn commit(
        &self,
        caller: &Caller,
        file: &FileHandle,
        offset: u64,
        count: u32,
        wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<[u8; 8]>> + Send;
}
