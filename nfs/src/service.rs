//! The service of NFSv3: the procedures of RFC 1813, section 3.3.
//!
//! This module rejects calls without AUTH_SYS (`authorize`), finds the export of a call, and passes
//! the squashed caller to the procedure in a child module. The procedure checks names and limits,
//! calls the file system, and encodes the results. A file system does not know that its export is
//! read-only: each procedure that changes something must call `check_writable`, directly or by
//! `changed_name`. The file system checks permissions, and `oncrpc::ReplyCache` answers
//! retransmitted calls.

mod attributes;
mod creating;
mod directories;
mod information;
mod reading;
mod refused;
mod removing;
mod writing;

use std::sync::Arc;

use oncrpc::{Context, RpcError};

use crate::caller::{self, Caller};
use crate::export::Export;
use crate::export_table::ExportTable;
use crate::file_system::{DirOp, FileSystem, FsResult};
use crate::handle::FileHandle;
use crate::name::Name;
use crate::nfs3::nfs_program::nfs_v3::{
    self, CreateResults, LookupResults, MkdirResults, MknodResults, ReadResults, ReaddirResults,
    ReaddirplusResults, ReadlinkResults, SymlinkResults,
};
use crate::nfs3::{
    Access3args, Access3res, Commit3args, Commit3res, Create3args, Diropargs3, Fsinfo3args,
    Fsinfo3res, Fsstat3args, Fsstat3res, Getattr3args, Getattr3res, Link3args, Link3res,
    Lookup3args, Mkdir3args, Mknod3args, NfsFh3, Nfsstat3, Pathconf3args, Pathconf3res, PostOpAttr,
    Read3args, Readdir3args, Readdirplus3args, Readlink3args, Remove3args, Remove3res, Rename3args,
    Rename3res, Rmdir3args, Rmdir3res, Setattr3args, Setattr3res, Symlink3args, Write3args,
    Write3res,
};
use crate::wcc::post_op;
use refused::Refused;

/// The NFSv3 service of the exports of a server.
///
/// Malformed names get NFS3ERR_ACCES or NFS3ERR_NAMETOOLONG (RFC 1813, section 3.2), malformed
/// arguments get GARBAGE_ARGS, calls without AUTH_SYS credentials get AUTH_TOOWEAK, and calls of
/// clients that no export admits get NFS3ERR_STALE.
#[derive(Debug)]
pub struct NfsService<F> {
    exports: ExportTable<F>,
}

impl<F> Clone for NfsService<F> {
    fn clone(&self) -> Self {
        Self {
            exports: self.exports.clone(),
        }
    }
}

/// The procedures on the export of a call.
struct OnExport<F> {
    export: Arc<Export<F>>,
}

/// A name in a directory, as it is in a call. `any_name` and `changed_name` check it within the
/// procedure, whose results have a place for the error.
struct UncheckedDirOp<'a> {
    dir: FileHandle,
    name: &'a [u8],
}

impl<'a> UncheckedDirOp<'a> {
    fn new(args: Diropargs3<'a>) -> Self {
        Self {
            dir: args.dir.into(),
            name: args.name.as_bytes(),
        }
    }

    /// Returns the name if it is well-formed.
    fn any_name(&self) -> FsResult<DirOp<'_>> {
        Ok(DirOp {
            dir: &self.dir,
            name: Name::new(self.name)?,
        })
    }
}

impl<F: FileSystem> NfsService<F> {
    /// Serves exports.
    #[must_use]
    pub fn new(exports: impl Into<ExportTable<F>>) -> Self {
        Self {
            exports: exports.into(),
        }
    }

    /// Finds the export of a handle.
    fn find(&self, cx: &Context, handle: NfsFh3<'_>) -> FsResult<OnExport<F>> {
        let export = self.exports.find(cx, &handle.into())?;
        Ok(OnExport { export })
    }

    /// Finds the export of two handles; NFS3ERR_XDEV if they belong to different exports.
    fn find_both(
        &self,
        cx: &Context,
        handle: NfsFh3<'_>,
        other: NfsFh3<'_>,
    ) -> FsResult<OnExport<F>> {
        let found = self.find(cx, handle)?;
        let other = FileHandle::from(other);
        if found.file_system().owns(&other) || !found.file_system().owns(&handle.into()) {
            return Ok(found);
        }
        if self.exports.find(cx, &other)?.file_system.owns(&other) {
            return Err(Nfsstat3::Xdev);
        }
        Ok(found)
    }
}

/// Serves a call on its export.
macro_rules! on {
    ($found:expr, |$at:ident| $results:expr) => {
        match $found {
            Ok($at) => Ok($results.await),
            Err(status) => Ok(Refused::refused(status)),
        }
    };
}

impl<F: FileSystem> OnExport<F> {
    fn file_system(&self) -> &F {
        &self.export.file_system
    }

    fn caller(&self, cx: &Context) -> Result<Caller, RpcError> {
        self.export.caller(cx)
    }

    /// Returns the attributes of an object, if available, for the results of an operation on it.
    async fn post_op(&self, object: &FileHandle) -> PostOpAttr {
        post_op(self.file_system().attributes(object).await.ok())
    }

    /// Checks a name to add or to remove, and returns it with its directory. The name `.` gets the
    /// error `dot`, and `..` the error `dot_dot`, which depend on the procedure.
    fn changed_name<'p>(
        &self,
        place: &'p UncheckedDirOp<'_>,
        dot: Nfsstat3,
        dot_dot: Nfsstat3,
    ) -> FsResult<DirOp<'p>> {
        self.export.check_writable()?;
        let op = place.any_name()?;
        if op.name.is_dot() {
            return Err(dot);
        }
        if op.name.is_dot_dot() {
            return Err(dot_dot);
        }
        Ok(op)
    }
}

/// Every procedure needs AUTH_SYS credentials.
impl<F: FileSystem> nfs_v3::Service for NfsService<F> {
    fn authorize(&self, cx: &Context) -> Result<(), RpcError> {
        caller::user(cx.credentials())?;
        Ok(())
    }

    async fn getattr(&self, cx: &Context, args: Getattr3args<'_>) -> Result<Getattr3res, RpcError> {
        on!(self.find(cx, args.object), |at| at.getattr_results(args))
    }

    async fn setattr(&self, cx: &Context, args: Setattr3args<'_>) -> Result<Setattr3res, RpcError> {
        on!(self.find(cx, args.object), |at| at
            .setattr_results(&at.caller(cx)?, args))
    }

    async fn lookup(
        &self,
        cx: &Context,
        args: Lookup3args<'_>,
    ) -> Result<LookupResults<'_>, RpcError> {
        on!(self.find(cx, args.what.dir), |at| at
            .lookup_results(&at.caller(cx)?, args))
    }

    async fn access(&self, cx: &Context, args: Access3args<'_>) -> Result<Access3res, RpcError> {
        on!(self.find(cx, args.object), |at| at
            .access_results(&at.caller(cx)?, args))
    }

    async fn readlink(
        &self,
        cx: &Context,
        args: Readlink3args<'_>,
    ) -> Result<ReadlinkResults<'_>, RpcError> {
        on!(self.find(cx, args.symlink), |at| at
            .readlink_results(&at.caller(cx)?, args))
    }

    async fn read(&self, cx: &Context, args: Read3args<'_>) -> Result<ReadResults<'_>, RpcError> {
        let buffers = cx.item_allocator();
        on!(self.find(cx, args.file), |at| at.read_results(
            &at.caller(cx)?,
            args,
            &buffers
        ))
    }

    async fn write(&self, cx: &Context, args: Write3args<'_>) -> Result<Write3res, RpcError> {
        on!(self.find(cx, args.file), |at| at
            .write_results(&at.caller(cx)?, args))
    }

    async fn create(
        &self,
        cx: &Context,
        args: Create3args<'_>,
    ) -> Result<CreateResults<'_>, RpcError> {
        on!(self.find(cx, args.r#where.dir), |at| at
            .create_results(&at.caller(cx)?, args))
    }

    async fn mkdir(
        &self,
        cx: &Context,
        args: Mkdir3args<'_>,
    ) -> Result<MkdirResults<'_>, RpcError> {
        on!(self.find(cx, args.r#where.dir), |at| at
            .mkdir_results(&at.caller(cx)?, args))
    }

    async fn symlink(
        &self,
        cx: &Context,
        args: Symlink3args<'_>,
    ) -> Result<SymlinkResults<'_>, RpcError> {
        on!(self.find(cx, args.r#where.dir), |at| at
            .symlink_results(&at.caller(cx)?, args))
    }

    async fn mknod(
        &self,
        cx: &Context,
        args: Mknod3args<'_>,
    ) -> Result<MknodResults<'_>, RpcError> {
        on!(self.find(cx, args.r#where.dir), |at| at
            .mknod_results(&at.caller(cx)?, args))
    }

    async fn remove(&self, cx: &Context, args: Remove3args<'_>) -> Result<Remove3res, RpcError> {
        on!(self.find(cx, args.object.dir), |at| at
            .remove_results(&at.caller(cx)?, args))
    }

    async fn rmdir(&self, cx: &Context, args: Rmdir3args<'_>) -> Result<Rmdir3res, RpcError> {
        on!(self.find(cx, args.object.dir), |at| at
            .rmdir_results(&at.caller(cx)?, args))
    }

    async fn rename(&self, cx: &Context, args: Rename3args<'_>) -> Result<Rename3res, RpcError> {
        on!(self.find_both(cx, args.from.dir, args.to.dir), |at| at
            .rename_results(&at.caller(cx)?, args))
    }

    async fn link(&self, cx: &Context, args: Link3args<'_>) -> Result<Link3res, RpcError> {
        on!(self.find_both(cx, args.file, args.link.dir), |at| at
            .link_results(&at.caller(cx)?, args))
    }

    async fn readdir(
        &self,
        cx: &Context,
        args: Readdir3args<'_>,
    ) -> Result<ReaddirResults<'_>, RpcError> {
        on!(self.find(cx, args.dir), |at| at
            .readdir_results(&at.caller(cx)?, args))
    }

    async fn readdirplus(
        &self,
        cx: &Context,
        args: Readdirplus3args<'_>,
    ) -> Result<ReaddirplusResults<'_>, RpcError> {
        on!(self.find(cx, args.dir), |at| at
            .readdirplus_results(&at.caller(cx)?, args))
    }

    async fn fsstat(&self, cx: &Context, args: Fsstat3args<'_>) -> Result<Fsstat3res, RpcError> {
        on!(self.find(cx, args.fsroot), |at| at.fsstat_results(args))
    }

    async fn fsinfo(&self, cx: &Context, args: Fsinfo3args<'_>) -> Result<Fsinfo3res, RpcError> {
        on!(self.find(cx, args.fsroot), |at| at.fsinfo_results(args))
    }

    async fn pathconf(
        &self,
        cx: &Context,
        args: Pathconf3args<'_>,
    ) -> Result<Pathconf3res, RpcError> {
        on!(self.find(cx, args.object), |at| at.pathconf_results(args))
    }

    async fn commit(&self, cx: &Context, args: Commit3args<'_>) -> Result<Commit3res, RpcError> {
        on!(self.find(cx, args.file), |at| at
            .commit_results(&at.caller(cx)?, args))
    }
}
