//! The service of NFSv3: the procedures of RFC 1813, section 3.3.

mod attributes;
mod creating;
mod directories;
mod information;
mod reading;
mod removing;
mod writing;

use std::sync::Arc;

use oncrpc::{Context, RpcError};

use crate::caller::{self, Caller};
use crate::export::Export;
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
    Lookup3args, Mkdir3args, Mknod3args, Nfsstat3, Pathconf3args, Pathconf3res, PostOpAttr,
    Read3args, Readdir3args, Readdirplus3args, Readlink3args, Remove3args, Remove3res, Rename3args,
    Rename3res, Rmdir3args, Rmdir3res, Setattr3args, Setattr3res, Symlink3args, Write3args,
    Write3res,
};
use crate::wcc::post_op;

/// The NFSv3 service of an export.
///
/// Malformed names get NFS3ERR_ACCES and NFS3ERR_NAMETOOLONG (RFC 1813, section 3.2), malformed
/// arguments GARBAGE_ARGS, and calls without credentials of AUTH_SYS AUTH_TOOWEAK.
#[derive(Debug)]
pub struct NfsService<F> {
    export: Arc<Export<F>>,
}

impl<F> Clone for NfsService<F> {
    fn clone(&self) -> Self {
        Self {
            export: self.export.clone(),
        }
    }
}

/// A name in a directory, as a call has it. It is checked when its wcc data are at hand.
struct Place<'a> {
    dir: FileHandle,
    name: &'a [u8],
}

impl<'a> Place<'a> {
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
    /// Serves an export.
    #[must_use]
    pub fn new(export: Arc<Export<F>>) -> Self {
        Self { export }
    }

    fn file_system(&self) -> &F {
        &self.export.file_system
    }

    fn caller(&self, cx: &Context) -> Result<Caller, RpcError> {
        self.export.caller(cx)
    }

    /// Returns the attributes of an object, if it has any, for the results of an operation on it.
    async fn post_op(&self, object: &FileHandle) -> PostOpAttr {
        post_op(self.file_system().attributes(object).await.ok())
    }

    /// Checks a name that is to be added or removed. A name that is `.` or `..` gets an error of
    /// its procedure.
    fn changed_name<'p>(
        &self,
        place: &'p Place<'_>,
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

/// Every procedure needs credentials of AUTH_SYS.
impl<F: FileSystem> nfs_v3::Service for NfsService<F> {
    fn authorize(&self, cx: &Context) -> Result<(), RpcError> {
        caller::user(cx.credentials())?;
        Ok(())
    }

    async fn getattr(&self, _: &Context, args: Getattr3args<'_>) -> Result<Getattr3res, RpcError> {
        Ok(self.getattr_results(args).await)
    }

    async fn setattr(&self, cx: &Context, args: Setattr3args<'_>) -> Result<Setattr3res, RpcError> {
        Ok(self.setattr_results(&self.caller(cx)?, args).await)
    }

    async fn lookup(
        &self,
        cx: &Context,
        args: Lookup3args<'_>,
    ) -> Result<LookupResults<'_>, RpcError> {
        Ok(self.lookup_results(&self.caller(cx)?, args).await)
    }

    async fn access(&self, cx: &Context, args: Access3args<'_>) -> Result<Access3res, RpcError> {
        Ok(self.access_results(&self.caller(cx)?, args).await)
    }

    async fn readlink(
        &self,
        cx: &Context,
        args: Readlink3args<'_>,
    ) -> Result<ReadlinkResults<'_>, RpcError> {
        Ok(self.readlink_results(&self.caller(cx)?, args).await)
    }

    async fn read(&self, cx: &Context, args: Read3args<'_>) -> Result<ReadResults<'_>, RpcError> {
        let buffers = cx.item_allocator();
        Ok(self.read_results(&self.caller(cx)?, args, &buffers).await)
    }

    async fn write(&self, cx: &Context, args: Write3args<'_>) -> Result<Write3res, RpcError> {
        Ok(self.write_results(&self.caller(cx)?, args).await)
    }

    async fn create(
        &self,
        cx: &Context,
        args: Create3args<'_>,
    ) -> Result<CreateResults<'_>, RpcError> {
        Ok(self.create_results(&self.caller(cx)?, args).await)
    }

    async fn mkdir(
        &self,
        cx: &Context,
        args: Mkdir3args<'_>,
    ) -> Result<MkdirResults<'_>, RpcError> {
        Ok(self.mkdir_results(&self.caller(cx)?, args).await)
    }

    async fn symlink(
        &self,
        cx: &Context,
        args: Symlink3args<'_>,
    ) -> Result<SymlinkResults<'_>, RpcError> {
        Ok(self.symlink_results(&self.caller(cx)?, args).await)
    }

    async fn mknod(
        &self,
        cx: &Context,
        args: Mknod3args<'_>,
    ) -> Result<MknodResults<'_>, RpcError> {
        Ok(self.mknod_results(&self.caller(cx)?, args).await)
    }

    async fn remove(&self, cx: &Context, args: Remove3args<'_>) -> Result<Remove3res, RpcError> {
        Ok(self.remove_results(&self.caller(cx)?, args).await)
    }

    async fn rmdir(&self, cx: &Context, args: Rmdir3args<'_>) -> Result<Rmdir3res, RpcError> {
        Ok(self.rmdir_results(&self.caller(cx)?, args).await)
    }

    async fn rename(&self, cx: &Context, args: Rename3args<'_>) -> Result<Rename3res, RpcError> {
        Ok(self.rename_results(&self.caller(cx)?, args).await)
    }

    async fn link(&self, cx: &Context, args: Link3args<'_>) -> Result<Link3res, RpcError> {
        Ok(self.link_results(&self.caller(cx)?, args).await)
    }

    async fn readdir(
        &self,
        cx: &Context,
        args: Readdir3args<'_>,
    ) -> Result<ReaddirResults<'_>, RpcError> {
        Ok(self.readdir_results(&self.caller(cx)?, args).await)
    }

    async fn readdirplus(
        &self,
        cx: &Context,
        args: Readdirplus3args<'_>,
    ) -> Result<ReaddirplusResults<'_>, RpcError> {
        Ok(self.readdirplus_results(&self.caller(cx)?, args).await)
    }

    async fn fsstat(&self, _: &Context, args: Fsstat3args<'_>) -> Result<Fsstat3res, RpcError> {
        Ok(self.fsstat_results(args).await)
    }

    async fn fsinfo(&self, _: &Context, args: Fsinfo3args<'_>) -> Result<Fsinfo3res, RpcError> {
        Ok(self.fsinfo_results(args).await)
    }

    async fn pathconf(
        &self,
        _: &Context,
        args: Pathconf3args<'_>,
    ) -> Result<Pathconf3res, RpcError> {
        Ok(self.pathconf_results(args).await)
    }

    async fn commit(&self, cx: &Context, args: Commit3args<'_>) -> Result<Commit3res, RpcError> {
        Ok(self.commit_results(&self.caller(cx)?, args).await)
    }
}
