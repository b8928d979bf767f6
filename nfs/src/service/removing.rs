//! REMOVE, RMDIR, RENAME and LINK (RFC 1813, sections 3.3.12 to 3.3.15).
//!
//! Each procedure must pass its names through `changed_name`, which rejects changes to a read-only
//! export and the names `.` and `..`, with an error specific to the procedure. `find_both` of
//! `service` has already rejected handles of two exports (NFS3ERR_XDEV).

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
        let (place, mut wcc) = (UncheckedDirOp::new(args.object), Wcc::default());
        let result = match self.changed_name(&place, Nfsstat3::Acces, Nfsstat3::Acces) {
            Ok(name) => self.file_system().remove(caller, name, &mut wcc).await,
            Err(status) => Err(status),
        };
        let dir_wcc = wcc.to_wire();
        match result {
            Ok(()) => Remove3res::Ok(Remove3resok { dir_wcc }),
            Err(status) => Remove3res::Default(status, Remove3resfail { dir_wcc }),
        }
    }

    pub(super) async fn rmdir_results(&self, caller: &Caller, args: Rmdir3args<'_>) -> Rmdir3res {
        let (place, mut wcc) = (UncheckedDirOp::new(args.object), Wcc::default());
        let result = match self.changed_name(&place, Nfsstat3::Inval, Nfsstat3::Exist) {
            Ok(name) => self.file_system().remove_dir(caller, name, &mut wcc).await,
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
        let (file, place) = (FileHandle::from(args.file), UncheckedDirOp::new(args.link));
        let mut wcc = Wcc::default();
        let result = match self.changed_name(&place, Nfsstat3::Exist, Nfsstat3::Exist) {
            Ok(name) => self.file_system().link(caller, &file, name, &mut wcc).await,
            Err(status) => Err(status),
        };
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
