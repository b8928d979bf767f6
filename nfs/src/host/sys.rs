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

/// The kernel's handle of an object: `struct file_handle` with the maximum size. Unused bytes are
/// zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct KernelHandle {
    len: u32,
    kind: c_int,
    bytes: [u8; MAX as usize],
}

impl KernelHandle {
    /// Creates a handle. Returns `None` if there are more than 128 bytes.
    pub(super) fn new(kind: i32, of: &[u8]) -> Option<Self> {
        let mut bytes = [0; MAX as usize];
        bytes.get_mut(..of.len())?.copy_from_slice(of);
        let len = u32::try_from(of.len()).ok()?;
        Some(Self { len, kind, bytes })
    }

    /// Returns the type, which the file system chooses.
    pub(super) fn kind(&self) -> i32 {
        self.kind
    }

    /// Returns the bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len as usize).unwrap_or(&self.bytes)
    }
}

/// Returns the handle of an object by any of its descriptors.
pub(super) fn name_to_handle(object: BorrowedFd<'_>) -> io::Result<KernelHandle> {
    let mut handle = KernelHandle {
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
    handle.len = handle.len.min(MAX);
    Ok(handle)
}

/// Opens an object by its kernel handle, with O_PATH. `mount` is a descriptor of any object of the
/// file system, without O_PATH.
pub(super) fn open_by_handle(mount: BorrowedFd<'_>, of: &KernelHandle) -> io::Result<OwnedFd> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the descriptor is open, because it is borrowed. `of` lives until the call returns;
    // the kernel reads `len` bytes behind the first two fields, at most 128, which `bytes` has.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            std::ptr::from_ref(of),
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
