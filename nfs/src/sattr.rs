//! The attributes that a call sets (RFC 1813, section 2.5.3), for `memory::setting` and
//! `host::setting`.
//!
//! Both file systems add permission checks and an application of [`Changes`]. Both must call
//! `check_times` first: the kernel gives some numbers of nanoseconds above 999999999 another
//! meaning, such as UTIME_NOW. `needs_owner` is false for a time of the server, which a user with
//! write permission may set.

use crate::file_system::FsResult;
use crate::nfs3::{
    Nfsstat3, Nfstime3, Sattr3, SetAtime, SetGid3, SetMode3, SetMtime, SetSize3, SetUid3,
};

impl Sattr3 {
    /// Sets no attribute (RFC 1813, section 2.5.3).
    ///
    /// ```
    /// use rpcrdma_nfs::nfs3::{Sattr3, SetMode3};
    ///
    /// let readable = Sattr3 {
    ///     mode: SetMode3::True(0o444),
    ///     ..Sattr3::UNSET
    /// };
    /// assert_eq!(readable.size, Sattr3::UNSET.size);
    /// ```
    pub const UNSET: Self = Self {
        mode: SetMode3::False,
        uid: SetUid3::False,
        gid: SetGid3::False,
        size: SetSize3::False,
        atime: SetAtime::DontChange,
        mtime: SetMtime::DontChange,
    };
}

/// The mode bits that are stored.
const MODE: u32 = 0o7777;

/// The changes of a SETATTR.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changes {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Option<NewTime>,
    pub(crate) mtime: Option<NewTime>,
}

/// A time to set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewTime {
    Server,
    Client(Nfstime3),
}

impl From<&Sattr3> for Changes {
    fn from(new: &Sattr3) -> Self {
        Self {
            mode: match new.mode {
                SetMode3::True(mode) => Some(mode & MODE),
                SetMode3::False => None,
            },
            uid: match new.uid {
                SetUid3::True(uid) => Some(uid),
                SetUid3::False => None,
            },
            gid: match new.gid {
                SetGid3::True(gid) => Some(gid),
                SetGid3::False => None,
            },
            size: match new.size {
                SetSize3::True(size) => Some(size),
                SetSize3::False => None,
            },
            atime: match new.atime {
                SetAtime::SetToClientTime(time) => Some(NewTime::Client(time)),
                SetAtime::SetToServerTime => Some(NewTime::Server),
                SetAtime::DontChange => None,
            },
            mtime: match new.mtime {
                SetMtime::SetToClientTime(time) => Some(NewTime::Client(time)),
                SetMtime::SetToServerTime => Some(NewTime::Server),
                SetMtime::DontChange => None,
            },
        }
    }
}

impl Changes {
    /// Checks that the times are valid.
    pub(crate) fn check_times(&self) -> FsResult<()> {
        for time in [self.atime, self.mtime].into_iter().flatten() {
            if matches!(time, NewTime::Client(time) if time.nseconds >= 1_000_000_000) {
                return Err(Nfsstat3::Inval);
            }
        }
        Ok(())
    }

    /// Returns true if the changes are reserved to the owner.
    pub(crate) fn needs_owner(&self) -> bool {
        let times = [self.atime, self.mtime];
        let mut times = times.iter().flatten();
        let sets_times = times.any(|time| matches!(time, NewTime::Client(_)));
        sets_times || self.mode.is_some() || self.uid.is_some() || self.gid.is_some()
    }
}
