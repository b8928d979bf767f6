//! Lists of requests for posting. The allocations are reused.
//!
//! The elements of a list point to each other and to the table of entries: `Receives` must be
//! posted with the table that it was filled with, and with no change in between. `Sge` has the
//! layout of `ibv_sge`, which assertions check. `PostError::whole` tells whether certainly nothing
//! was taken: callers then forget the requests, and must otherwise treat each as possibly posted.

use std::ffi::c_int;
use std::mem::offset_of;
use std::ptr::null_mut;

use ibverbs_sys as ibv;
use ibverbs_sys::{ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode};

use super::explained;
use super::objects::{QueuePair, Region, SharedReceives, Window, flags};
use crate::provider::{Access, Cause, Receive, RemoteMemory, Sge, VerbError};

// Entries are passed on without conversion.
const _: () = {
    assert!(size_of::<Sge>() == size_of::<ibv_sge>() && align_of::<Sge>() == align_of::<ibv_sge>());
    assert!(offset_of!(Sge, address) == offset_of!(ibv_sge, addr));
    assert!(offset_of!(Sge, length) == offset_of!(ibv_sge, length));
    assert!(offset_of!(Sge, key) == offset_of!(ibv_sge, lkey));
};

/// The operation of a request.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum RequestKind<'a> {
    Send {
        invalidate: Option<u32>,
    },
    Write {
        to: RemoteMemory,
    },
    Read {
        from: RemoteMemory,
    },
    Bind {
        window: &'a Window,
        region: &'a Region,
        range: Sge,
        key: u32,
        access: Access,
    },
    Invalidate {
        key: u32,
    },
}

/// The flags of a request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in super::super) struct Flags {
    /// Whether a success creates a completion.
    pub(in super::super) signaled: bool,
    /// Whether the bytes are inline.
    pub(in super::super) inline: bool,
    /// Whether the request waits for earlier RDMA Reads.
    pub(in super::super) fenced: bool,
}

impl Flags {
    fn raw(self) -> u32 {
        let pairs = [
            (self.signaled, ibv_send_flags::IBV_SEND_SIGNALED),
            (self.inline, ibv_send_flags::IBV_SEND_INLINE),
            (self.fenced, ibv_send_flags::IBV_SEND_FENCE),
        ];
        pairs
            .iter()
            .filter(|(is, _)| *is)
            .fold(0, |all, (_, flag)| all | flag.0)
    }
}

/// The failure to post a list.
#[derive(Debug)]
pub(in super::super) struct PostError {
    pub(in super::super) error: VerbError,
    /// True if certainly none of the list was taken.
    pub(in super::super) whole: bool,
}

/// A list of work requests.
#[derive(Default)]
pub(in super::super) struct Requests {
    list: Vec<ibv_send_wr>,
    /// The index of the first entry of each request in the table.
    from: Vec<u32>,
}

/// A list of receives.
#[derive(Default)]
pub(in super::super) struct Receives {
    list: Vec<ibv_recv_wr>,
}

/// Returns the entries of a request in the table, or null if they exceed it.
fn within(slices: &[Sge], from: u32, count: c_int) -> *mut ibv_sge {
    let (from, count) = (from as usize, usize::try_from(count).unwrap_or(0));
    let found = from
        .checked_add(count)
        .and_then(|end| slices.get(from..end));
    assert!(found.is_some(), "slices are looked for before");
    // They are only read.
    found.map_or(null_mut(), |found| found.as_ptr().cast_mut().cast())
}

fn refused(verb: &'static str, code: c_int, whole: bool) -> PostError {
    let full = code.abs() == rustix::io::Errno::NOMEM.raw_os_error();
    let error = if full {
        VerbError {
            verb,
            cause: Cause::Full,
        }
    } else {
        explained(verb, std::io::Error::from_raw_os_error(code.abs()))
    };
    PostError { error, whole }
}

/// Writes the operation of a request, and returns its opcode.
fn fill(request: &mut ibv_send_wr, what: RequestKind<'_>) -> ibv_wr_opcode::Type {
    match what {
        RequestKind::Send { invalidate: None } => ibv_wr_opcode::IBV_WR_SEND,
        RequestKind::Send {
            invalidate: Some(key),
        } => {
            request.__bindgen_anon_1.invalidate_rkey = key;
            ibv_wr_opcode::IBV_WR_SEND_WITH_INV
        }
        RequestKind::Write { to } => {
            request.wr.rdma.remote_addr = to.address;
            request.wr.rdma.rkey = to.key;
            ibv_wr_opcode::IBV_WR_RDMA_WRITE
        }
        RequestKind::Read { from } => {
            request.wr.rdma.remote_addr = from.address;
            request.wr.rdma.rkey = from.key;
            ibv_wr_opcode::IBV_WR_RDMA_READ
        }
        RequestKind::Bind {
            window,
            region,
            range,
            key,
            access,
        } => {
            // The range is not a list of entries.
            request.num_sge = 0;
            request.__bindgen_anon_2.bind_mw = ibv::ibv_send_wr__bindgen_ty_4__bindgen_ty_1 {
                mw: window.raw(),
                rkey: key,
                bind_info: ibv::ibv_mw_bind_info {
                    mr: region.raw(),
                    addr: range.address,
                    length: range.length.into(),
                    mw_access_flags: flags(access),
                },
            };
            ibv_wr_opcode::IBV_WR_BIND_MW
        }
        RequestKind::Invalidate { key } => {
            request.__bindgen_anon_1.invalidate_rkey = key;
            ibv_wr_opcode::IBV_WR_LOCAL_INV
        }
    }
}

impl Requests {
    pub(in super::super) fn clear(&mut self) {
        self.list.clear();
        self.from.clear();
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a request. `slices` are a range of the table that is posted with it.
    pub(in super::super) fn push(
        &mut self,
        id: u64,
        flags: Flags,
        slices: (u32, u32),
        what: RequestKind<'_>,
    ) {
        let mut request = ibv_send_wr {
            wr_id: id,
            send_flags: flags.raw(),
            ..Default::default()
        };
        request.num_sge = c_int::try_from(slices.1).unwrap_or(c_int::MAX);
        request.opcode = fill(&mut request, what);
        self.list.push(request);
        self.from.push(slices.0);
    }

    /// Links the requests, with entries of this table.
    fn link(&mut self, slices: &[Sge]) {
        let begin = self.list.as_mut_ptr();
        let count = self.list.len();
        for (at, (request, from)) in self.list.iter_mut().zip(&self.from).enumerate() {
            request.sg_list = within(slices, *from, request.num_sge);
            request.next = if at + 1 < count {
                begin.wrapping_add(at + 1)
            } else {
                null_mut()
            };
        }
    }
}

impl Receives {
    /// Links receives, with entries of this table; `id` returns the id of each.
    pub(in super::super) fn fill(
        &mut self,
        receives: &[Receive],
        slices: &[Sge],
        mut id: impl FnMut(&Receive) -> u64,
    ) {
        self.list.clear();
        self.list.reserve(receives.len());
        let begin = self.list.as_mut_ptr();
        for (at, receive) in receives.iter().enumerate() {
            let num_sge = c_int::try_from(receive.slices.1).unwrap_or(c_int::MAX);
            let next = if at + 1 < receives.len() {
                begin.wrapping_add(at + 1)
            } else {
                null_mut()
            };
            let sg_list = within(slices, receive.slices.0, num_sge);
            self.list.push(ibv_recv_wr {
                wr_id: id(receive),
                next,
                sg_list,
                num_sge,
            });
        }
    }
}

impl QueuePair {
    /// Posts requests.
    ///
    /// # Safety
    /// The memory of the entries stays valid as [`crate::provider::QueuePair::post`] requires. The
    /// windows and regions that were pushed have not ended, and no other thread binds or ends them
    /// or sets a key at the same time.
    pub(in super::super) unsafe fn post(
        &self,
        requests: &mut Requests,
        slices: &[Sge],
    ) -> std::result::Result<(), PostError> {
        let verb = "ibv_post_send";
        requests.link(slices);
        let first = requests.list.as_mut_ptr();
        let mut bad = null_mut();
        // SAFETY: the queue pair and its context exist; the chain consists of elements of a vector
        // that does not change during the call, and of entries of a borrowed table. The rest is the
        // caller's promise.
        let code = unsafe {
            match (*self.domain().context().raw()).ops.post_send {
                Some(post) => post(self.raw(), first, &raw mut bad),
                None => rustix::io::Errno::NOSYS.raw_os_error(),
            }
        };
        // If the doorbell fails, all requests are taken, in spite of the result.
        if code == 0 {
            Ok(())
        } else {
            Err(refused(verb, code, bad == first))
        }
    }

    /// Posts receives.
    ///
    /// # Safety
    /// The memory of the entries stays valid as [`crate::provider::QueuePair::post`] requires.
    /// `slices` is the table that `receives` were filled with.
    pub(in super::super) unsafe fn post_receives(
        &self,
        receives: &mut Receives,
        _slices: &[Sge],
    ) -> std::result::Result<(), PostError> {
        let first = receives.list.as_mut_ptr();
        let mut bad = null_mut();
        // SAFETY: as for `post`.
        let code = unsafe {
            match (*self.domain().context().raw()).ops.post_recv {
                Some(post) => post(self.raw(), first, &raw mut bad),
                None => rustix::io::Errno::NOSYS.raw_os_error(),
            }
        };
        if code == 0 {
            Ok(())
        } else {
            Err(refused("ibv_post_recv", code, bad == first))
        }
    }
}

impl SharedReceives {
    /// Posts receives.
    ///
    /// # Safety
    /// As for [`QueuePair::post_receives`].
    pub(in super::super) unsafe fn post(
        &self,
        receives: &mut Receives,
        _slices: &[Sge],
    ) -> std::result::Result<(), PostError> {
        let Some(usable) = self.usable() else {
            let error = VerbError {
                verb: "post_receives",
                cause: Cause::State,
            };
            return Err(PostError { error, whole: true });
        };
        let first = receives.list.as_mut_ptr();
        let mut bad = null_mut();
        // SAFETY: as for `QueuePair::post`. The queue does not end during the call.
        let code = unsafe {
            match (*self.domain().context().raw()).ops.post_srq_recv {
                Some(post) => post(usable.raw(), first, &raw mut bad),
                None => rustix::io::Errno::NOSYS.raw_os_error(),
            }
        };
        if code == 0 {
            Ok(())
        } else {
            Err(refused("ibv_post_srq_recv", code, bad == first))
        }
    }
}
