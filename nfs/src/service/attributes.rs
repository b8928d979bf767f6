//! GETATTR, SETATTR and ACCESS (RFC 1813, sections 3.3.1, 3.3.2 and 3.3.4).
//!
//! On a read-only export, `check_writable` rejects SETATTR before it reaches the file system, and
//! ACCESS grants none of the rights in `CHANGES`. `CHANGES` must contain each right that permits a
//! procedure with `check_writable`, since clients decide by ACCESS whether to send changes. The
//! file system checks permissions, the guard and the new values. ACCESS never returns a right that
//! the client did not ask for, even if the file system grants it.

use super::OnExport;
use crate::caller::Caller;
use crate::file_system::{FileSystem, FsResult};
use crate::handle::FileHandle;
use crate::nfs3::{
    ACCESS3_DELETE, ACCESS3_EXTEND, ACCESS3_MODIFY, Access3args, Access3res, Access3resfail,
    Access3resok, Getattr3args, Getattr3res, Getattr3resok, PostOpAttr, Sattrguard3, Setattr3args,
    Setattr3res, Setattr3resfail, Setattr3resok,
};
use crate::wcc::Wcc;

/// The rights of ACCESS that a read-only export grants to nobody.
const CHANGES: u32 = ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE;

impl<F: FileSystem> OnExport<F> {
    pub(super) async fn getattr_results(&self, args: Getattr3args<'_>) -> Getattr3res {
        let attributes = self.file_system().attributes(&args.object.into()).await;
        match attributes {
            Ok(obj_attributes) => Getattr3res::Ok(Getattr3resok { obj_attributes }),
            Err(status) => Getattr3res::Default(status),
        }
    }

    pub(super) async fn setattr_results(
        &self,
        caller: &Caller,
        args: Setattr3args<'_>,
    ) -> Setattr3res {
        let mut wcc = Wcc::default();
        let result = self.try_setattr(caller, &args, &mut wcc).await;
        let obj_wcc = wcc.to_wire();
        match result {
            Ok(()) => Setattr3res::Ok(Setattr3resok { obj_wcc }),
            Err(status) => Setattr3res::Default(status, Setattr3resfail { obj_wcc }),
        }
    }

    async fn try_setattr(
        &self,
        caller: &Caller,
        args: &Setattr3args<'_>,
        wcc: &mut Wcc,
    ) -> FsResult<()> {
        self.export.check_writable()?;
        let guard = match args.guard {
            Sattrguard3::True(ctime) => Some(ctime),
            Sattrguard3::False => None,
        };
        let (object, new) = (FileHandle::from(args.object), &args.new_attributes);
        self.file_system()
            .set_attributes(caller, &object, new, guard, wcc)
            .await
    }

    pub(super) async fn access_results(
        &self,
        caller: &Caller,
        args: Access3args<'_>,
    ) -> Access3res {
        let object = FileHandle::from(args.object);
        let withheld = if self.export.is_read_only() {
            CHANGES
        } else {
            0
        };
        let grant = self.file_system().access(caller, &object, args.access);
        match grant.await {
            Ok((granted, attributes)) => Access3res::Ok(Access3resok {
                obj_attributes: PostOpAttr::True(attributes),
                access: granted & args.access & !withheld,
            }),
            Err(status) => {
                let obj_attributes = self.post_op(&object).await;
                Access3res::Default(status, Access3resfail { obj_attributes })
            }
        }
    }
}
