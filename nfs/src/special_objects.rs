//! The arguments of SYMLINK and MKNOD (RFC 1813, sections 3.3.10 and 3.3.11), for all back ends.

use crate::file_system::FsResult;
use crate::nfs3::{Ftype3, Mknoddata3, Nfsstat3, Sattr3, Specdata3};

/// The maximum bytes of a symbolic link.
const MAX_PATH: usize = 4096;

/// Returns the type and the device of the special file that a MKNOD creates.
pub(crate) fn special_file(what: &Mknoddata3) -> FsResult<(Ftype3, Specdata3, &Sattr3)> {
    let none = Specdata3 {
        specdata1: 0,
        specdata2: 0,
    };
    Ok(match what {
        Mknoddata3::Chr(device) => (Ftype3::Chr, device.spec, &device.dev_attributes),
        Mknoddata3::Blk(device) => (Ftype3::Blk, device.spec, &device.dev_attributes),
        Mknoddata3::Sock(attributes) => (Ftype3::Sock, none, attributes),
        Mknoddata3::Fifo(attributes) => (Ftype3::Fifo, none, attributes),
        Mknoddata3::Default(_) => return Err(Nfsstat3::Badtype),
    })
}

/// Checks the path in a symbolic link. The error is NFS3ERR_ACCES or NFS3ERR_NAMETOOLONG, which the
/// back ends rely on.
pub(crate) fn check_link_target(path: &[u8]) -> FsResult<()> {
    if path.is_empty() || path.contains(&0) {
        return Err(Nfsstat3::Acces);
    }
    if path.len() > MAX_PATH {
        return Err(Nfsstat3::Nametoolong);
    }
    Ok(())
}
