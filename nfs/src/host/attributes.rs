//! Converts attributes of the kernel to those of NFS (RFC 1813, section 2.5, fattr3).
//!
//! `id` is the key of an object in the caches, tables and locks of `host`. `ctime` must convert as
//! `attributes` does, because SETATTR compares it with the guard that a client has from there.
//! `Tree::attributes` chooses the fsid.

use rustix::fs::{FileType, Stat, major, minor};

use super::table::Id;
use crate::nfs3::{Fattr3, Ftype3, Nfstime3, Specdata3};

/// Converts a number whose type depends on the machine.
fn number<T: TryInto<u64>>(value: T) -> u64 {
    value.try_into().unwrap_or(0)
}

fn short<T: TryInto<u32>>(value: T) -> u32 {
    value.try_into().unwrap_or(u32::MAX)
}

/// Converts a time. NFS has no time before 1970 or after 2106.
fn time(seconds: i64, nanoseconds: impl TryInto<u32>) -> Nfstime3 {
    let seconds = seconds.clamp(0, u32::MAX.into());
    Nfstime3 {
        seconds: short(seconds),
        nseconds: nanoseconds.try_into().unwrap_or(0),
    }
}

/// Returns the type of an object.
pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Returns the device and the inode.
pub(super) fn id(stat: &Stat) -> Id {
    (number(stat.st_dev), number(stat.st_ino))
}

/// Returns the size in bytes.
pub(super) fn size(stat: &Stat) -> u64 {
    number(stat.st_size)
}

/// Returns the time of the last change of the attributes.
pub(super) fn ctime(stat: &Stat) -> Nfstime3 {
    time(stat.st_ctime, stat.st_ctime_nsec)
}

/// Returns the permissions.
pub(super) fn mode(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

/// Returns the attributes of an object in a file system of this number.
pub(super) fn attributes(stat: &Stat, fsid: u64) -> Fattr3 {
    let kind = match kind(stat) {
        FileType::Directory => Ftype3::Dir,
        FileType::Symlink => Ftype3::Lnk,
        FileType::Fifo => Ftype3::Fifo,
        FileType::Socket => Ftype3::Sock,
        FileType::CharacterDevice => Ftype3::Chr,
        FileType::BlockDevice => Ftype3::Blk,
        _ => Ftype3::Reg,
    };
    let is_device = matches!(kind, Ftype3::Chr | Ftype3::Blk);
    let device = if is_device { stat.st_rdev } else { 0 };
    Fattr3 {
        r#type: kind,
        mode: mode(stat),
        nlink: short(stat.st_nlink),
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: size(stat),
        used: number(stat.st_blocks).saturating_mul(512),
        rdev: Specdata3 {
            specdata1: major(device),
            specdata2: minor(device),
        },
        fsid,
        fileid: number(stat.st_ino),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: ctime(stat),
    }
}
