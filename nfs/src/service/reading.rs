//! LOOKUP, READLINK and READ (RFC 1813, sections 3.3.3, 3.3.5 and 3.3.6).
//!
//! READ limits its count to `rtmax`, and fails with NFS3ERR_SERVERFAULT if the file system returns
//! more bytes than that. Data are encoded as the file system returns them, so that shared bytes are
//! not copied. LOOKUP alone accepts the names `.` and `..`.

use oncrpc::ItemAllocator;

use super::{OnExport, UncheckedDirOp};
use crate::caller::Caller;
use crate::file_system::{FileSystem, FsResult};
use crate::handle::{FileHandle, Object};
use crate::nfs3::nfs_program::nfs_v3::{LookupResults, ReadResults, ReadlinkResults};
use crate::nfs3::{
    Fattr3, Lookup3args, Lookup3res, Lookup3resfail, Nfsstat3, PostOpAttr, Read3args, Read3res,
    Read3resfail, Read3resok, Readlink3args, Readlink3res, Readlink3resfail, Readlink3resok, owned,
};

impl<F: FileSystem> OnExport<F> {
    pub(super) async fn lookup_results(
        &self,
        caller: &Caller,
        args: Lookup3args<'_>,
    ) -> LookupResults<'static> {
        let place = UncheckedDirOp::new(args.what);
        let mut dir_attributes = None;
        let found = self.try_lookup(caller, &place, &mut dir_attributes).await;
        let dir_attributes = match dir_attributes {
            Some(attributes) => PostOpAttr::True(attributes),
            // The file system did not get to see the name, or did not find the directory.
            None => self.post_op(&place.dir).await,
        };
        match found {
            Ok(Object { handle, attributes }) => {
                let ok = owned::Lookup3resok {
                    object: handle.to_wire(),
                    obj_attributes: PostOpAttr::True(attributes).into(),
                    dir_attributes: dir_attributes.into(),
                };
                owned::Lookup3res::Ok(ok.into()).into()
            }
            Err(status) => {
                let failed = Lookup3resfail { dir_attributes };
                Lookup3res::Default(status, failed).into()
            }
        }
    }

    async fn try_lookup(
        &self,
        caller: &Caller,
        place: &UncheckedDirOp<'_>,
        dir_attributes: &mut Option<Fattr3>,
    ) -> FsResult<Object> {
        let name = place.any_name()?;
        self.file_system()
            .lookup(caller, name, dir_attributes)
            .await
    }

    pub(super) async fn readlink_results(
        &self,
        caller: &Caller,
        args: Readlink3args<'_>,
    ) -> ReadlinkResults<'static> {
        let symlink = FileHandle::from(args.symlink);
        let path = self.file_system().read_link(caller, &symlink).await;
        let symlink_attributes = self.post_op(&symlink).await;
        let results = match path {
            Ok(data) => Readlink3res::Ok(Readlink3resok {
                symlink_attributes,
                data,
            }),
            Err(status) => Readlink3res::Default(status, Readlink3resfail { symlink_attributes }),
        };
        results.into()
    }

    pub(super) async fn read_results(
        &self,
        caller: &Caller,
        args: Read3args<'_>,
        buffers: &ItemAllocator,
    ) -> ReadResults<'static> {
        let file = FileHandle::from(args.file);
        let count = args.count.min(self.file_system().fs_info().rtmax);
        let read = self
            .file_system()
            .read(caller, &file, args.offset, count, buffers);
        let results = match read.await {
            Ok(read) => match u32::try_from(read.data.len()) {
                // A longer reply would not fit the caller's memory.
                Ok(len) if len <= count => Read3res::Ok(Read3resok {
                    file_attributes: PostOpAttr::True(read.attributes),
                    count: len,
                    eof: read.eof,
                    data: read.data,
                }),
                _ => self.read_failed(&file, Nfsstat3::Serverfault).await,
            },
            Err(status) => self.read_failed(&file, status).await,
        };
        results.into()
    }

    async fn read_failed(&self, file: &FileHandle, status: Nfsstat3) -> Read3res<'static> {
        let file_attributes = self.post_op(file).await;
        Read3res::Default(status, Read3resfail { file_attributes })
    }
}
