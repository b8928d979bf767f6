//! FSSTAT, FSINFO and PATHCONF (RFC 1813, sections 3.3.18 to 3.3.20).
//!
//! FSINFO reports the `rtmax` and `wtmax` to which `reading` and `writing` limit each call, and
//! prefers the maximum. PATHCONF replies no_trunc, because `Name::new` rejects long names.

use super::OnExport;
use crate::file_system::{FileSystem, FsInfo};
use crate::handle::FileHandle;
use crate::nfs3::{
    Fsinfo3args, Fsinfo3res, Fsinfo3resfail, Fsinfo3resok, Fsstat3args, Fsstat3res, Fsstat3resfail,
    Fsstat3resok, Pathconf3args, Pathconf3res, Pathconf3resfail, Pathconf3resok, PostOpAttr,
};

/// The preferred multiple of a transfer size.
const BLOCK: u32 = 4096;

impl<F: FileSystem> OnExport<F> {
    pub(super) async fn fsstat_results(&self, args: Fsstat3args<'_>) -> Fsstat3res {
        let object = FileHandle::from(args.fsroot);
        let stat = self.file_system().fs_stat(&object).await;
        let obj_attributes = self.post_op(&object).await;
        match stat {
            Ok(stat) => Fsstat3res::Ok(Fsstat3resok {
                obj_attributes,
                tbytes: stat.tbytes,
                fbytes: stat.fbytes,
                abytes: stat.abytes,
                tfiles: stat.tfiles,
                ffiles: stat.ffiles,
                afiles: stat.afiles,
                invarsec: stat.invarsec,
            }),
            Err(status) => Fsstat3res::Default(status, Fsstat3resfail { obj_attributes }),
        }
    }

    pub(super) async fn fsinfo_results(&self, args: Fsinfo3args<'_>) -> Fsinfo3res {
        let attributes = self.file_system().attributes(&args.fsroot.into()).await;
        match attributes {
            Ok(attributes) => {
                let obj_attributes = PostOpAttr::True(attributes);
                Fsinfo3res::Ok(fsinfo_ok(obj_attributes, &self.file_system().fs_info()))
            }
            Err(status) => {
                let obj_attributes = PostOpAttr::False;
                Fsinfo3res::Default(status, Fsinfo3resfail { obj_attributes })
            }
        }
    }

    pub(super) async fn pathconf_results(&self, args: Pathconf3args<'_>) -> Pathconf3res {
        let object = FileHandle::from(args.object);
        let limits = self.file_system().path_conf(&object).await;
        let obj_attributes = self.post_op(&object).await;
        match limits {
            Ok(limits) => Pathconf3res::Ok(Pathconf3resok {
                obj_attributes,
                linkmax: limits.linkmax,
                name_max: limits.name_max,
                no_trunc: true,
                chown_restricted: limits.chown_restricted,
                case_insensitive: limits.case_insensitive,
                case_preserving: limits.case_preserving,
            }),
            Err(status) => Pathconf3res::Default(status, Pathconf3resfail { obj_attributes }),
        }
    }
}

fn fsinfo_ok(obj_attributes: PostOpAttr, info: &FsInfo) -> Fsinfo3resok {
    Fsinfo3resok {
        obj_attributes,
        rtmax: info.rtmax,
        rtpref: info.rtmax,
        rtmult: BLOCK,
        wtmax: info.wtmax,
        wtpref: info.wtmax,
        wtmult: BLOCK,
        dtpref: info.dtpref,
        maxfilesize: info.maxfilesize,
        time_delta: info.time_delta,
        properties: info.properties,
    }
}
