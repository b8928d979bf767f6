//! REMOVE, RMDIR, RENAME and LINK (RFC 1813, sections 3.3.12 to 3.3.15).
//!
//! Each procedure must pass its names through `changed_name`: only this rejects a call on a
//! read-only export (NFS3ERR_ROFS), a malformed name, and the names `.` and `..`, whose two errors
//! depend on the procedure. The file system checks the permissions of the caller and the handles.
//! For RENAME and LINK, `find_both` of `service` has rejected two handles of different exports
//! (NFS3ERR_XDEV); nothing here checks that again. Results contain the wcc data of each directory
//! on success and on failure; they are empty if a name was rejected.

use super::{OnExport, UncheckedDirOp};
use crate::caller::Caller;
use crate::file_system::{FileSystem, FsResult};
use crate::handle::FileHandle;
use crate::nfs3::{
    Link3args, Link3res, Link3resfail, Link3resok, Nfsstat3, Remove3args, Remove3res,
    Remove3resfail, Remove3resok, Rename3args, Rename3res, Rename3resfail, Rename3resok,
    Rmdir3args, Rmdir3res, Rmdir3resfail, Rmdir3resok,
};
use crate::wcc::Wcc;

impl<F: FileSystem> OnExport<F> {
    pub(super) async fn remove_results(
        &self,
        caller: &Caller,
        args: Remove3args<'_>,
    ) -> Remove3res {
        let (object, mut wcc) = (UncheckedDirOp::new(args.object), Wcc::default());
        let result = match self.changed_name(&object, Nfsstat3::Acces, Nfsstat3::Acces) {
            Ok(object) => self.file_system().remove(caller, object, &mut wcc).await,
            Err(status) => Err(status),
        };
        let dir_wcc = wcc.to_wire();
        match result {
            Ok(()) => Remove3res::Ok(Remove3resok { dir_wcc }),
            Err(status) => Remove3res::Default(status, Remove3resfail { dir_wcc }),
        }
    }

    pub(super) async fn rmdir_results(&self, caller: &Caller, args: Rmdir3args<'_>) -> Rmdir3res {
        let (object, mut wcc) = (UncheckedDirOp::new(args.object), Wcc::default());
        let result = match self.changed_name(&object, Nfsstat3::Inval, Nfsstat3::Exist) {
            Ok(object) => {
                let fs = self.file_system();
                fs.remove_dir(caller, object, &mut wcc).await
            }
            Err(status) => Err(status),
        };
        let dir_wcc = wcc.to_wire();
        match result {
            Ok(()) => Rmdir3res::Ok(Rmdir3resok { dir_wcc }),
            Err(status) => Rmdir3res::Default(status, Rmdir3resfail { dir_wcc }),
        }
    }

    pub(super) async fn rename_results(
        &self,
        caller: &Caller,
        args: Rename3args<'_>,
    ) -> Rename3res {
        let (from, to) = (UncheckedDirOp::new(args.from), UncheckedDirOp::new(args.to));
        let (mut from_wcc, mut to_wcc) = (Wcc::default(), Wcc::default());
        let result = self
            .try_rename(caller, (&from, &mut from_wcc), (&to, &mut to_wcc))
            .await;
        let (fromdir_wcc, todir_wcc) = (from_wcc.to_wire(), to_wcc.to_wire());
        match result {
            Ok(()) => Rename3res::Ok(Rename3resok {
                fromdir_wcc,
                todir_wcc,
            }),
            Err(status) => Rename3res::Default(
                status,
                Rename3resfail {
                    fromdir_wcc,
                    todir_wcc,
                },
            ),
        }
    }

    async fn try_rename(
        &self,
        caller: &Caller,
        (from, from_wcc): (&UncheckedDirOp<'_>, &mut Wcc),
        (to, to_wcc): (&UncheckedDirOp<'_>, &mut Wcc),
    ) -> FsResult<()> {
        let from = self.changed_name(from, Nfsstat3::Inval, Nfsstat3::Inval)?;
        let to = self.changed_name(to, Nfsstat3::Inval, Nfsstat3::Inval)?;
        self.file_system()
            .rename(caller, from, to, from_wcc, to_wcc)
            .await
    }

    pub(super) async fn link_results(&self, caller: &Caller, args: Link3args<'_>) -> Link3res {
        let (file, link) = (FileHandle::from(args.file), UncheckedDirOp::new(args.link));
        let mut wcc = Wcc::default();
        let result = match self.changed_name(&link, Nfsstat3::Exist, Nfsstat3::Exist) {
            Ok(link) => self.file_system().link(caller, &file, link, &mut wcc).await,
            Err(status) => Err(status),
        };
        // After the operation, so that they show the new number of links.
        let (file_attributes, linkdir_wcc) = (self.post_op(&file).await, wcc.to_wire());
        match result {
            Ok(()) => Link3res::Ok(Link3resok {
                file_attributes,
                linkdir_wcc,
            }),
            Err(status) => Link3res::Default(
                status,
                Link3resfail {
                    file_attributes,
                    linkdir_wcc,
                },
            ),
        }
    }
}
