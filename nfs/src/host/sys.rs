//! System calls that rustix lacks: file handles, and the file system user, the umask and the I/O
//! state of a thread.
#![allow(
    unsafe_code,
    reason = "no safe crate has these calls for one thread alone"
)]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// MAX_HANDLE_SZ.
const MAX: u32 = 128;

/// The kernel's handle of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KernelHandle {
    /// Its type, which the file system chooses.
    pub(super) kind: i32,
    /// The bytes, at most 128.
    pub(super) bytes: Vec<u8>,
}

/// `struct file_handle` with the maximum size.
#[repr(C)]
struct FileHandle {
    len: u32,
    kind: c_int,
    bytes: [u8; MAX as usize],
}

/// Returns the handle of an object by any of its descriptors.
pub(super) fn name_to_handle(object: BorrowedFd<'_>) -> io::Result<KernelHandle> {
    let mut handle = FileHandle {
        len: MAX,
        kind: 0,
        bytes: [0; MAX as usize],
    };
    let mut mount_id: c_int = 0;
    // SAFETY: the descriptor is open, because it is borrowed. The path is a C string. `handle` and
    // `mount_id` are writable and live until the call returns; the kernel writes at most `len`
    // bytes behind the first two fields, and `bytes` has as many.
    let done = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            object.as_raw_fd(),
            c"".as_ptr(),
            &raw mut handle,
            &raw mut mount_id,
            libc::AT_EMPTY_PATH,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let len = handle.len.min(MAX) as usize;
    Ok(KernelHandle {
        kind: handle.kind,
        bytes: handle.bytes.get(..len).unwrap_or_default().to_vec(),
    })
}

/// Opens an object by its kernel handle, with O_PATH. `mount` is a descriptor of any object of the
/// file system, without O_PATH.
pub(super) fn open_by_handle(mount: BorrowedFd<'_>, of: &KernelHandle) -> io::Result<OwnedFd> {
    let mut handle = FileHandle {
        len: 0,
        kind: of.kind,
        bytes: [0; MAX as usize],
    };
    let place = handle.bytes.get_mut(..of.bytes.len());
    let place = place.ok_or(io::ErrorKind::InvalidInput)?;
    place.copy_from_slice(&of.bytes);
    handle.len = u32::try_from(of.bytes.len()).map_err(io::Error::other)?;
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the descriptor is open, because it is borrowed. `handle` lives until the call
    // returns; the kernel reads `len` bytes behind the first two fields, which `bytes` has.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut handle,
            flags,
        )
    };
    let fd = c_int::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created the descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets the file system user of this thread. Returns true if it now has that user.
pub(super) fn set_fs_user(uid: u32) -> bool {
    // SAFETY: the calls take and return only numbers. glibc and musl pass them to the kernel for
    // the calling thread only, unlike setuid. The user -1 does not exist: the second call changes
    // nothing, and returns the current user.
    let now = unsafe {
        libc::setfsuid(uid);
        libc::setfsuid(u32::MAX)
    };
    now.cast_unsigned() == uid
}

/// Sets the file system group of this thread. Returns true if it now has that group.
pub(super) fn set_fs_group(gid: u32) -> bool {
    // SAFETY: as for `set_fs_user`.
    let now = unsafe {
        libc::setfsgid(gid);
        libc::setfsgid(u32::MAX)
    };
    now.cast_unsigned() == gid
}

/// Gives this thread its own umask, and clears it.
pub(super) fn clear_umask_of_thread() -> io::Result<()> {
    // SAFETY: the call takes only a number. After it, this thread shares its umask and its current
    // directory with no other thread, and Rust does not rely on either being shared.
    if unsafe { libc::unshare(libc::CLONE_FS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    rustix::process::umask(rustix::fs::Mode::empty());
    Ok(())
}

/// Tells the kernel that other processes, the clients of this host, wait for what this thread
/// writes. Otherwise Linux delays its writes while these clients have many pages to write, and
/// those pages wait for this thread.
pub(super) fn set_io_flusher() -> io::Result<()> {
    /// Since Linux 5.6, in `linux/prctl.h`.
    const PR_SET_IO_FLUSHER: c_int = 57;
    let [on, unused]: [libc::c_ulong; 2] = [1, 0];
    // SAFETY: the call takes only numbers, each with the type that the kernel reads, and changes
    // how the kernel treats the memory and the writes of this thread.
    if unsafe { libc::prctl(PR_SET_IO_FLUSHER, on, unused, unused, unused) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
