//! Converts errors of the kernel to those of NFS (RFC 1813, section 2.6).
//!
//! SETATTR and work without a caller use `status`. Procedures whose errors lack NFS3ERR_PERM use
//! `status_without_perm`, and lookups `lookup_status`. `creating` and `naming` adapt further
//! errors. An error that passes by itself belongs in the table as NFS3ERR_JUKEBOX, since clients
//! report NFS3ERR_IO to their users.

use rustix::io::Errno;

use crate::nfs3::Nfsstat3;

/// The errors with a status of their own. Every other error is NFS3ERR_IO.
const TABLE: [(Errno, Nfsstat3); 34] = [
    (Errno::PERM, Nfsstat3::Perm),
    (Errno::NOENT, Nfsstat3::Noent),
    (Errno::IO, Nfsstat3::Io),
    (Errno::NXIO, Nfsstat3::Nxio),
    (Errno::ACCESS, Nfsstat3::Acces),
    (Errno::EXIST, Nfsstat3::Exist),
    (Errno::XDEV, Nfsstat3::Xdev),
    (Errno::NODEV, Nfsstat3::Nodev),
    (Errno::NOTDIR, Nfsstat3::Notdir),
    (Errno::ISDIR, Nfsstat3::Isdir),
    (Errno::INVAL, Nfsstat3::Inval),
    (Errno::FBIG, Nfsstat3::Fbig),
    (Errno::OVERFLOW, Nfsstat3::Fbig),
    (Errno::NOSPC, Nfsstat3::Nospc),
    (Errno::ROFS, Nfsstat3::Rofs),
    (Errno::MLINK, Nfsstat3::Mlink),
    (Errno::NAMETOOLONG, Nfsstat3::Nametoolong),
    (Errno::NOTEMPTY, Nfsstat3::Notempty),
    (Errno::DQUOT, Nfsstat3::Dquot),
    (Errno::STALE, Nfsstat3::Stale),
    (Errno::OPNOTSUPP, Nfsstat3::Notsupp),
    (Errno::NOSYS, Nfsstat3::Notsupp),
    // A symbolic link or a mount has replaced the object.
    (Errno::LOOP, Nfsstat3::Acces),
    // In use by the host: a mount point, or a running program.
    (Errno::BUSY, Nfsstat3::Acces),
    (Errno::TXTBSY, Nfsstat3::Acces),
    // The client tries again later.
    (Errno::AGAIN, Nfsstat3::Jukebox),
    (Errno::NOMEM, Nfsstat3::Jukebox),
    (Errno::TIMEDOUT, Nfsstat3::Jukebox),
    (Errno::INTR, Nfsstat3::Jukebox),
    // Descriptors become free soon.
    (Errno::MFILE, Nfsstat3::Jukebox),
    (Errno::NFILE, Nfsstat3::Jukebox),
    // The server has a bug.
    (Errno::BADF, Nfsstat3::Serverfault),
    (Errno::FAULT, Nfsstat3::Serverfault),
    (Errno::NOTTY, Nfsstat3::Serverfault),
];

/// Returns the error of NFS.
pub(super) fn status(errno: Errno) -> Nfsstat3 {
    let found = TABLE.iter().find(|(from, _)| *from == errno);
    found.map_or(Nfsstat3::Io, |(_, to)| *to)
}

/// Returns the NFS error for procedures without NFS3ERR_PERM: all but SETATTR.
pub(super) fn status_without_perm(errno: Errno) -> Nfsstat3 {
    match errno {
        Errno::PERM => Nfsstat3::Acces,
        other => status(other),
    }
}

/// Returns the NFS error for a lookup: a mount below the export is not served.
pub(super) fn lookup_status(errno: Errno) -> Nfsstat3 {
    match errno {
        Errno::XDEV => Nfsstat3::Acces,
        other => status_without_perm(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_is_in_the_table_once() {
        for (at, (errno, _)) in TABLE.iter().enumerate() {
            let again = TABLE.iter().skip(at + 1).find(|(other, _)| other == errno);
            assert!(again.is_none(), "{errno:?}");
        }
    }

    #[test]
    fn an_error_without_a_name_is_an_io_error() {
        assert_eq!(status(Errno::REMOTEIO), Nfsstat3::Io);
        assert_eq!(status(Errno::STALE), Nfsstat3::Stale);
        assert_eq!(status_without_perm(Errno::PERM), Nfsstat3::Acces);
    }
}
