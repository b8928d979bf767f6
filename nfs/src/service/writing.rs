//! WRITE and COMMIT (RFC 1813, sections 3.3.7 and 3.3.21).
//!
//! WRITE rejects data whose length differs from the count, and writes no more than `wtmax` bytes: a
//! client sends the rest again. Shared bytes stay shared, so that data of an RDMA Read reach the
//! file system without a copy. The file system owns the write verifier. COMMIT is permitted on a
//! read-only export.

use super::OnExport;
use crate::caller::Caller;
use crate::file_system::{FileSystem, FsResult, Written};
use crate::handle::FileHandle;
use crate::nfs3::{
    Commit3args, Commit3res, Commit3resfail, Commit3resok, Nfsstat3, Write3args, Write3res,
    Write3resfail, Write3resok,
};
use crate::wcc::Wcc;
use oncrpc::xdr::Item;

/// Returns the first bytes of an item. Shared bytes remain shared.
fn first(data: Item<'_>, max: usize) -> Item<'_> {
    if data.len() <= max {
        return data;
    }
    match data.shared().and_then(|shared| shared.slice(0..max)) {
        Some(shared) => shared.into(),
        None => data.get(..max).unwrap_or_default().to_vec().into(),
    }
}

impl<F: FileSystem> OnExport<F> {
    pub(super) async fn write_results(&self, caller: &Caller, args: Write3args<'_>) -> Write3res {
        let mut wcc = Wcc::default();
        let written = self.try_write(caller, args, &mut wcc).await;
        let file_wcc = wcc.to_wire();
        match written {
            Ok(written) => Write3res::Ok(Write3resok {
                file_wcc,
                count: written.count,
                committed: written.committed,
                verf: written.verifier,
            }),
            Err(status) => Write3res::Default(status, Write3resfail { file_wcc }),
        }
    }

    async fn try_write(
        &self,
        caller: &Caller,
        args: Write3args<'_>,
        wcc: &mut Wcc,
    ) -> FsResult<Written> {
        self.export.check_writable()?;
        if args.data.len() != args.count as usize {
            return Err(Nfsstat3::Inval);
        }
        let file = FileHandle::from(args.file);
        let data = first(args.data, self.file_system().fs_info().wtmax as usize);
        self.file_system()
            .write(caller, &file, args.offset, data, args.stable, wcc)
            .await
    }

    pub(super) async fn commit_results(
        &self,
        caller: &Caller,
        args: Commit3args<'_>,
    ) -> Commit3res {
        let mut wcc = Wcc::default();
        let file = FileHandle::from(args.file);
        let (offset, count) = (args.offset, args.count);
        let committed = self
            .file_system()
            .commit(caller, &file, offset, count, &mut wcc)
            .await;
        let file_wcc = wcc.to_wire();
        match committed {
            Ok(verf) => Commit3res::Ok(Commit3resok { file_wcc, verf }),
            Err(status) => Commit3res::Default(status, Commit3resfail { file_wcc }),
        }
    }
}
