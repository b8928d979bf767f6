//! What a server offers.

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
    /// The bytes. A share in a buffer goes over RDMA and TCP without a copy.
    pub data: Item<'static>,
    /// Whether the last byte is the last one of the file, or the offset is beyond it.
    pub eof: bool,
    /// The attributes of the file.
    pub attributes: Fattr3,
}

/// The results of WRITE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// The number of bytes that were written: not 0, unless no bytes were to be written.
    pub count: u32,
    /// How stable they are: at least as stable as the caller asked.
    pub committed: StableHow,
    /// The write verifier: another one whenever uncommitted bytes may have been lost.
    pub verifier: [u8; 8],
}

/// The end of a part of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirEnd {
    /// Whether there are no more entries.
    pub eof: bool,
    /// The verifier of the cookies.
    pub verifier: [u8; 8],
    /// The attributes of the directory.
    pub attributes: Fattr3,
}

/// How full a file system is (RFC 1813, section 3.3.18).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FsStat {
    /// Bytes.
    pub tbytes: u64,
    /// Free bytes.
    pub fbytes: u64,
    /// Free bytes for the caller.
    pub abytes: u64,
    /// Files.
    pub tfiles: u64,
    /// Free files.
    pub ffiles: u64,
    /// Free files for the caller.
    pub afiles: u64,
    /// For how many seconds these numbers are expected not to change.
    pub invarsec: u32,
}

/// What a file system can do (RFC 1813, section 3.3.19).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FsInfo {
    /// The most bytes of a READ.
    pub rtmax: u32,
    /// The most bytes of a WRITE.
    pub wtmax: u32,
    /// The preferred bytes of a READDIR.
    pub dtpref: u32,
    /// The most bytes of a file.
    pub maxfilesize: u64,
    /// The granularity of times.
    pub time_delta: Nfstime3,
    /// Bits `FSF3_..`.
    pub properties: u32,
}

/// The limits of POSIX (RFC 1813, section 3.3.20).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathConf {
    /// The most hard links of an object.
    pub linkmax: u32,
    /// The most bytes of a name. The server refuses names of more than 255 bytes before.
    pub name_max: u32,
    /// Whether only user 0 may give files away.
    pub chown_restricted: bool,
    /// Whether names that differ only in case are the same.
    pub case_insensitive: bool,
    /// Whether names keep their case.
    pub case_preserving: bool,
}

/// A file system that a server offers by NFSv3.
///
/// The methods are the procedures of RFC 1813, section 3.3, without NULL. They are async and may
/// wait; an implementation writes them as `async fn`. The server has checked the form of names and
/// handles, has cut counts to `rtmax` and `wtmax`, and refuses changes to a read-only export. The
/// file system checks the caller's permissions. It serves any number of calls at once.
///
/// Methods that change objects have [`Wcc`] arguments, which they fill in whether they succeed or
/// fail.
pub trait FileSystem: Send + Sync + 'static {
    /// Returns the handle of the root.
    fn root(&self) -> FileHandle;

    /// Returns true if a handle has the form of one that this file system has given out, whether
    /// its object is still there or not. A server of several exports finds the export of a call by
    /// it. By default every handle has: that is right for the only file system of a server.
    fn owns(&self, object: &FileHandle) -> bool {
        let _ = object;
        true
    }

    /// Returns attributes (GETATTR).
    fn attributes(&self, object: &FileHandle) -> impl Future<Output = FsResult<Fattr3>> + Send;

    /// Sets attributes (SETATTR): with a `guard`, only if it is the object's ctime, else the error
    /// is NFS3ERR_NOT_SYNC.
    fn set_attributes(
        &self,
        caller: &Caller,
        object: &FileHandle,
        new: &Sattr3,
        guard: Option<Nfstime3>,
        wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<()>> + Send;

    /// Finds a name, which may be `.` and `..` (LOOKUP). The parent of the root is the root.
    fn lookup(
        &self,
        caller: &Caller,
        what: DirOp<'_>,
    ) -> impl Future<Output = FsResult<Object>> + Send;

    /// Returns those of the bits `ACCESS3_..` that the caller has (ACCESS), and attributes.
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

    /// Reads from a regular file (READ); NFS3ERR_INVAL for another object. A file system that has
    /// no shares in its bytes to give reads into a buffer of `buffers`, which travels without a
    /// copy.
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

    /// Creates a regular file (CREATE). The verifier of an exclusive create is kept, so that the
    /// same call succeeds again.
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

    /// Creates a special file (MKNOD); NFS3ERR_BADTYPE for a type that the file system lacks.
    fn make_node(
        &self,
        caller: &Caller,
        place: DirOp<'_>,
        what: &Mknoddata3,
        dir_wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<Object>> + Send;

    /// Removes a name of an object that is no directory (REMOVE).
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

    /// Renames an object (RENAME), atomically. A compatible target is replaced.
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

    /// Adds the entries of a directory after the one that `cookie` belongs to, until the list is
    /// full (READDIR, READDIRPLUS). Cookie 0 stands for the beginning. NFS3ERR_BAD_COOKIE if a
    /// cookie other than 0 is no longer valid, or not with this verifier.
    fn read_dir(
        &self,
        caller: &Caller,
        dir: &FileHandle,
        cookie: u64,
        verifier: [u8; 8],
        list: &mut DirList,
    ) -> impl Future<Output = FsResult<DirEnd>> + Send;

    /// Returns how full the file system is (FSSTAT).
    fn fs_stat(&self, object: &FileHandle) -> impl Future<Output = FsResult<FsStat>> + Send;

    /// Returns what the file system can do (FSINFO): the same for every handle.
    fn fs_info(&self) -> FsInfo;

    /// Returns limits (PATHCONF).
    fn path_conf(&self, object: &FileHandle) -> impl Future<Output = FsResult<PathConf>> + Send;

    /// Makes what was written stable (COMMIT): from `offset` to the end if `count` is 0. Returns
    /// the write verifier.
    fn commit(
        &self,
        caller: &Caller,
        file: &FileHandle,
        offset: u64,
        count: u32,
        wcc: &mut Wcc,
    ) -> impl Future<Output = FsResult<[u8; 8]>> + Send;
}
