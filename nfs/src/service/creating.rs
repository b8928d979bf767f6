//! CREATE, MKDIR, SYMLINK and MKNOD (RFC 1813, sections 3.3.8 to 3.3.11).
//!
//! Each procedure must pass its name through `new_name`, which also rejects changes to a read-only
//! export. The file system receives the other arguments unchecked, and decides on modes, verifiers
//! and types. Results contain the wcc data of the directory on success and on failure.

use super::{OnExport, UncheckedDirOp};
use crate::caller::Caller;
use crate::file_system::{DirOp, FileSystem, FsResult};
use crate::nfs3::nfs_program::nfs_v3::{CreateResults, MkdirResults, MknodResults, SymlinkResults};
use crate::nfs3::{
    Create3args, Create3res, Create3resfail, Mkdir3args, Mkdir3res, Mkdir3resfail, Mknod3args,
    Mknod3res, Mknod3resfail, Nfsstat3, PostOpAttr, Symlink3args, Symlink3res, Symlink3resfail,
    owned,
};
use crate::wcc::Wcc;

/// Returns the results of a procedure that creates an object.
macro_rules! created {
    ($result:expr, $wcc:expr, $res:ident, $resok:ident, $resfail:ident) => {{
        let dir_wcc = $wcc.to_wire();
        match $result {
            Ok(object) => {
                let ok = owned::$resok {
                    obj: owned::PostOpFh3::True(object.handle.to_wire()),
                    obj_attributes: PostOpAttr::True(object.attributes).into(),
                    dir_wcc: dir_wcc.into(),
                };
                owned::$res::Ok(ok.into()).into()
            }
            Err(status) => $res::Default(status, $resfail { dir_wcc }).into(),
        }
    }};
}

impl<F: FileSystem> OnExport<F> {
    /// Checks the name of an object to create: `.` and `..` always exist.
    fn new_name<'p>(&self, place: &'p UncheckedDirOp<'_>) -> FsResult<DirOp<'p>> {
        self.changed_name(place, Nfsstat3::Exist, Nfsstat3::Exist)
    }

    pub(super) async fn create_results(
        &self,
        caller: &Caller,
        args: Create3args<'_>,
    ) -> CreateResults<'static> {
        let (place, mut wcc, fs) = (
            UncheckedDirOp::new(args.r#where),
            Wcc::default(),
            self.file_system(),
        );
        let result = match self.new_name(&place) {
            Ok(name) => fs.create(caller, name, &args.how, &mut wcc).await,
            Err(status) => Err(status),
        };
        created!(result, wcc, Create3res, Create3resok, Create3resfail)
    }

    pub(super) async fn mkdir_results(
        &self,
        caller: &Caller,
        args: Mkdir3args<'_>,
    ) -> MkdirResults<'static> {
        let (place, mut wcc, fs) = (
            UncheckedDirOp::new(args.r#where),
            Wcc::default(),
            self.file_system(),
        );
        let result = match self.new_name(&place) {
            Ok(name) => fs.make_dir(caller, name, &args.attributes, &mut wcc).await,
            Err(status) => Err(status),
        };
        created!(result, wcc, Mkdir3res, Mkdir3resok, Mkdir3resfail)
    }

    pub(super) async fn symlink_results(
        &self,
        caller: &Caller,
        args: Symlink3args<'_>,
    ) -> SymlinkResults<'static> {
        let (place, mut wcc, fs) = (
            UncheckedDirOp::new(args.r#where),
            Wcc::default(),
            self.file_system(),
        );
        let (attributes, path) = (args.symlink.symlink_attributes, args.symlink.symlink_data);
        let result = match self.new_name(&place) {
            Ok(name) => fs.symlink(caller, name, &attributes, path, &mut wcc).await,
            Err(status) => Err(status),
        };
        created!(result, wcc, Symlink3res, Symlink3resok, Symlink3resfail)
    }

    pub(super) async fn mknod_results(
        &self,
        caller: &Caller,
        args: Mknod3args<'_>,
    ) -> MknodResults<'static> {
        let (place, mut wcc, fs) = (
            UncheckedDirOp::new(args.r#where),
            Wcc::default(),
            self.file_system(),
        );
        let result = match self.new_name(&place) {
            Ok(name) => fs.make_node(caller, name, &args.what, &mut wcc).await,
            Err(status) => Err(status),
        };
        created!(result, wcc, Mknod3res, Mknod3resok, Mknod3resfail)
    }
}
