//! The calls GETATTR, SETATTR, ACCESS, READLINK, FSSTAT, FSINFO and PATHCONF of the client.
//!
//! [`await_success`] sends a call and returns the results of success, or the status as a
//! [`ClientError`]. RDMA needs a limit for each reply. The generated stubs derive it from the
//! maximum size of the results in XDR; READLINK's have none, so [`Client::read_link`] sets the
//! limit. A call added here whose results have no maximum size must set one, too.

use oncrpc::{AsyncTransport, ReplyLimits};

use super::base::{Client, attributes};
use super::error::ClientError;
use super::outcome::await_success;
use crate::file_system::{FsInfo, FsStat, PathConf};
use crate::handle::FileHandle;
use crate::nfs3::{
    Access3args, Fattr3, Fsinfo3args, Fsstat3args, Getattr3args, Nfstime3, Pathconf3args,
    Readlink3args, Sattr3, Sattrguard3, Setattr3args,
};

/// The maximum length in bytes of the path of a symbolic link: PATH_MAX of Linux. RFC 1813 has no
/// maximum.
const MAX_LINK: u32 = 4096;

/// The bytes of READLINK's results without the path: the status (4), optional attributes (88), and
/// the length of the path (4).
const READLINK_INLINE: u64 = 96;

impl<T: AsyncTransport> Client<T> {
    /// Returns attributes (GETATTR).
    ///
    /// # Errors
    /// Fails as GETATTR does.
    pub async fn attributes(&self, object: &FileHandle) -> Result<Fattr3, ClientError> {
        let object = object.as_args();
        let ok = await_success(self.stubs.getattr(&Getattr3args { object })).await?;
        Ok(ok.obj_attributes)
    }

    /// Sets attributes (SETATTR). With a `guard` that differs from the object's ctime, the call
    /// fails with NFS3ERR_NOT_SYNC. Returns the new attributes if the server sent them.
    ///
    /// # Errors
    /// Fails as SETATTR does.
    pub async fn set_attributes(
        &self,
        object: &FileHandle,
        new: &Sattr3,
        guard: Option<Nfstime3>,
    ) -> Result<Option<Fattr3>, ClientError> {
        let args = Setattr3args {
            object: object.as_args(),
            new_attributes: *new,
            guard: guard.map_or(Sattrguard3::False, Sattrguard3::True),
        };
        let ok = await_success(self.stubs.setattr(&args)).await?;
        Ok(attributes(ok.obj_wcc.after))
    }

    /// Returns which of these rights (bits `ACCESS3_..`) the caller has (ACCESS).
    ///
    /// # Errors
    /// Fails as ACCESS does.
    pub async fn access(&self, object: &FileHandle, rights: u32) -> Result<u32, ClientError> {
        let args = Access3args {
            object: object.as_args(),
            access: rights,
        };
        let ok = await_success(self.stubs.access(&args)).await?;
        Ok(ok.access & rights)
    }

    /// Returns the path of a symbolic link (READLINK). Over RDMA, a path of more than 4096 bytes is
    /// an error.
    ///
    /// # Errors
    /// Fails as READLINK does.
    pub async fn read_link(&self, link: &FileHandle) -> Result<Vec<u8>, ClientError> {
        let symlink = link.as_args();
        let call = self.stubs.readlink(&Readlink3args { symlink });
        let limits = ReplyLimits::new(Some(READLINK_INLINE)).item(MAX_LINK);
        let ok = await_success(call.reply_limits(limits)).await?;
        Ok(ok.data.as_bytes().to_vec())
    }

    /// Returns the used and free space of the file system (FSSTAT).
    ///
    /// # Errors
    /// Fails as FSSTAT does.
    pub async fn fs_stat(&self) -> Result<FsStat, ClientError> {
        let fsroot = self.root().as_args();
        let ok = await_success(self.stubs.fsstat(&Fsstat3args { fsroot })).await?;
        Ok(FsStat {
            tbytes: ok.tbytes,
            fbytes: ok.fbytes,
            abytes: ok.abytes,
            tfiles: ok.tfiles,
            ffiles: ok.ffiles,
            afiles: ok.afiles,
            invarsec: ok.invarsec,
        })
    }

    /// Returns the capabilities of the file system (FSINFO).
    ///
    /// # Errors
    /// Fails as FSINFO does.
    pub async fn fs_info(&self) -> Result<FsInfo, ClientError> {
        let fsroot = self.root().as_args();
        let ok = await_success(self.stubs.fsinfo(&Fsinfo3args { fsroot })).await?;
        Ok(FsInfo {
            rtmax: ok.rtmax,
            wtmax: ok.wtmax,
            dtpref: ok.dtpref,
            maxfilesize: ok.maxfilesize,
            time_delta: ok.time_delta,
            properties: ok.properties,
        })
    }

    /// Returns the POSIX limits (PATHCONF).
    ///
    /// # Errors
    /// Fails as PATHCONF does.
    pub async fn path_conf(&self, object: &FileHandle) -> Result<PathConf, ClientError> {
        let object = object.as_args();
        let ok = await_success(self.stubs.pathconf(&Pathconf3args { object })).await?;
        Ok(PathConf {
            linkmax: ok.linkmax,
            name_max: ok.name_max,
            chown_restricted: ok.chown_restricted,
            case_insensitive: ok.case_insensitive,
            case_preserving: ok.case_preserving,
        })
    }
}
