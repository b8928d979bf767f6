//! The results of a call for which no export is found.

use crate::nfs3::nfs_program::nfs_v3::{
    CreateResults, LookupResults, MkdirResults, MknodResults, ReadResults, ReaddirResults,
    ReaddirplusResults, ReadlinkResults, SymlinkResults,
};
use crate::nfs3::{
    Access3res, Access3resfail, Commit3res, Commit3resfail, Create3res, Create3resfail, Fsinfo3res,
    Fsinfo3resfail, Fsstat3res, Fsstat3resfail, Getattr3res, Link3res, Link3resfail, Lookup3res,
    Lookup3resfail, Mkdir3res, Mkdir3resfail, Mknod3res, Mknod3resfail, Nfsstat3, Pathconf3res,
    Pathconf3resfail, PostOpAttr, PreOpAttr, Read3res, Read3resfail, Readdir3res, Readdir3resfail,
    Readdirplus3res, Readdirplus3resfail, Readlink3res, Readlink3resfail, Remove3res,
    Remove3resfail, Rename3res, Rename3resfail, Rmdir3res, Rmdir3resfail, Setattr3res,
    Setattr3resfail, Symlink3res, Symlink3resfail, WccData, Write3res, Write3resfail,
};

const NO_WCC: WccData = WccData {
    before: PreOpAttr::False,
    after: PostOpAttr::False,
};

/// Results that consist of a status. They have no attributes, since a client without an export must
/// not learn about objects.
pub(super) trait Refused {
    fn refused(status: Nfsstat3) -> Self;
}

impl Refused for Getattr3res {
    fn refused(status: Nfsstat3) -> Self {
        Self::Default(status)
    }
}

macro_rules! refused {
    ($($results:ty: $res:ident, $fail:ident { $($field:ident: $none:expr),* };)*) => {$(
        impl Refused for $results {
            fn refused(status: Nfsstat3) -> Self {
                $res::Default(status, $fail { $($field: $none),* }).into()
            }
        }
    )*};
}

refused! {
    Setattr3res: Setattr3res, Setattr3resfail { obj_wcc: NO_WCC };
    LookupResults<'_>: Lookup3res, Lookup3resfail { dir_attributes: PostOpAttr::False };
    Access3res: Access3res, Access3resfail { obj_attributes: PostOpAttr::False };
    ReadlinkResults<'_>: Readlink3res, Readlink3resfail { symlink_attributes: PostOpAttr::False };
    ReadResults<'_>: Read3res, Read3resfail { file_attributes: PostOpAttr::False };
    Write3res: Write3res, Write3resfail { file_wcc: NO_WCC };
    CreateResults<'_>: Create3res, Create3resfail { dir_wcc: NO_WCC };
    MkdirResults<'_>: Mkdir3res, Mkdir3resfail { dir_wcc: NO_WCC };
    SymlinkResults<'_>: Symlink3res, Symlink3resfail { dir_wcc: NO_WCC };
    MknodResults<'_>: Mknod3res, Mknod3resfail { dir_wcc: NO_WCC };
    Remove3res: Remove3res, Remove3resfail { dir_wcc: NO_WCC };
    Rmdir3res: Rmdir3res, Rmdir3resfail { dir_wcc: NO_WCC };
    Rename3res: Rename3res, Rename3resfail { fromdir_wcc: NO_WCC, todir_wcc: NO_WCC };
    Link3res: Link3res, Link3resfail { file_attributes: PostOpAttr::False, linkdir_wcc: NO_WCC };
    ReaddirResults<'_>: Readdir3res, Readdir3resfail { dir_attributes: PostOpAttr::False };
    ReaddirplusResults<'_>: Readdirplus3res,
        Readdirplus3resfail { dir_attributes: PostOpAttr::False };
    Fsstat3res: Fsstat3res, Fsstat3resfail { obj_attributes: PostOpAttr::False };
    Fsinfo3res: Fsinfo3res, Fsinfo3resfail { obj_attributes: PostOpAttr::False };
    Pathconf3res: Pathconf3res, Pathconf3resfail { obj_attributes: PostOpAttr::False };
    Commit3res: Commit3res, Commit3resfail { file_wcc: NO_WCC };
}
