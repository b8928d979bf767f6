//! READDIR and READDIRPLUS (RFC 1813, sections 3.3.16 and 3.3.17).
//!
//! The file system fills a [`DirList`], which limits the bytes of the results; a result without an
//! entry is NFS3ERR_TOOSMALL unless the directory ends. The file system alone gives cookies and
//! verifiers their meaning.

use oncrpc::xdr::TextBuf;

use super::OnExport;
use crate::caller::Caller;
use crate::directory::{DirEntry, DirList};
use crate::file_system::{DirEnd, FileSystem, FsResult};
use crate::handle::FileHandle;
use crate::nfs3::nfs_program::nfs_v3::{ReaddirResults, ReaddirplusResults};
use crate::nfs3::{
    Nfsstat3, PostOpAttr, Readdir3args, Readdir3res, Readdir3resfail, Readdirplus3args,
    Readdirplus3res, Readdirplus3resfail, owned,
};
use crate::wcc::post_op;

/// The maximum bytes of the results, even if the caller has room for more.
const MAX: u32 = 1 << 20;

fn entry(entry: DirEntry) -> owned::Entry3Item {
    owned::Entry3Item {
        fileid: entry.fileid,
        name: TextBuf::from_bytes(entry.name).unwrap_or_default(),
        cookie: entry.cookie,
    }
}

fn entry_plus(entry: DirEntry) -> owned::Entryplus3Item {
    let attributes = entry.object.map(|object| object.attributes);
    let handle = entry.object.map(|object| object.handle.to_wire());
    owned::Entryplus3Item {
        fileid: entry.fileid,
        name: TextBuf::from_bytes(entry.name).unwrap_or_default(),
        cookie: entry.cookie,
        name_attributes: post_op(attributes).into(),
        name_handle: handle.map_or(owned::PostOpFh3::False, owned::PostOpFh3::True),
    }
}

impl<F: FileSystem> OnExport<F> {
    pub(super) async fn readdir_results(
        &self,
        caller: &Caller,
        args: Readdir3args<'_>,
    ) -> ReaddirResults<'static> {
        let (dir, mut list) = (
            FileHandle::from(args.dir),
            DirList::new(args.count.min(MAX)),
        );
        let position = (args.cookie, args.cookieverf);
        match self.read_part(caller, &dir, position, &mut list).await {
            Ok(end) => {
                let ok = owned::Readdir3resok {
                    dir_attributes: PostOpAttr::True(end.attributes).into(),
                    cookieverf: end.verifier,
                    reply: owned::Dirlist3 {
                        entries: list.into_entries().map(entry).collect(),
                        eof: end.eof,
                    },
                };
                owned::Readdir3res::Ok(ok.into()).into()
            }
            Err(status) => {
                let dir_attributes = self.post_op(&dir).await;
                let failed = Readdir3resfail { dir_attributes };
                Readdir3res::Default(status, failed).into()
            }
        }
    }

    pub(super) async fn readdirplus_results(
        &self,
        caller: &Caller,
        args: Readdirplus3args<'_>,
    ) -> ReaddirplusResults<'static> {
        let (dir, mut list) = (
            FileHandle::from(args.dir),
            DirList::plus(args.dircount, args.maxcount.min(MAX)),
        );
        let position = (args.cookie, args.cookieverf);
        match self.read_part(caller, &dir, position, &mut list).await {
            Ok(end) => {
                let ok = owned::Readdirplus3resok {
                    dir_attributes: PostOpAttr::True(end.attributes).into(),
                    cookieverf: end.verifier,
                    reply: owned::Dirlistplus3 {
                        entries: list.into_entries().map(entry_plus).collect(),
                        eof: end.eof,
                    },
                };
                owned::Readdirplus3res::Ok(ok.into()).into()
            }
            Err(status) => {
                let dir_attributes = self.post_op(&dir).await;
                let failed = Readdirplus3resfail { dir_attributes };
                Readdirplus3res::Default(status, failed).into()
            }
        }
    }

    /// Reads at least one entry, unless the directory ends: if the results have no room for one,
    /// the caller could not make progress.
    async fn read_part(
        &self,
        caller: &Caller,
        dir: &FileHandle,
        (cookie, verifier): (u64, [u8; 8]),
        list: &mut DirList,
    ) -> FsResult<DirEnd> {
        let end = self
            .file_system()
            .read_dir(caller, dir, cookie, verifier, list)
            .await?;
        if list.entries().is_empty() && !end.eof {
            return Err(Nfsstat3::Toosmall);
        }
        Ok(end)
    }
}
