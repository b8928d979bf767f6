//! Lists of requests, as they are posted. Their memory is used again.

use std::ffi::c_int;
use std::mem::offset_of;
use std::ptr::null_mut;

use ibverbs_sys as ibv;
use ibverbs_sys::{ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode};

use super::explained;
use super::objects::{QueuePair, Region, SharedReceives, Window, flags};
use crate::provider::{Access, Cause, Receive, Remote, Slice, VerbError};

// Slices are handed on as they are.
const _: () = {
    assert!(size_of::<Slice>() == size_of::<ibv_sge>() && align_of::<Slice>() == align_of::<ibv_sge>());
    assert!(offset_of!(Slice, address) == offset_of!(ibv_sge, addr));
    assert!(offset_of!(Slice, length) == offset_of!(ibv_sge, length));
    assert!(offset_of!(Slice, key) == offset_of!(ibv_sge, lkey));
};

/// What a request does.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum What<'a> {
    Send { invalidate: Option<u32> },
    Write { to: Remote },
    Read { from: Remote },
    Bind { window: &'a Window, region: &'a Region, range: Slice, key: u32, access: Access },
    Invalidate { key: u32 },
}

/// How a request is done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in super::super) struct Flags {
    /// Its success has a completion.
    pub(in super::super) signaled: bool,
    /// It takes its octets along.
    pub(in super::super) inline: bool,
    /// It waits for the RDMA Reads before it.
    pub(in super::super) fenced: bool,
}

impl Flags {
    fn raw(self) -> u32 {
        let pairs = [
            (self.signaled, ibv_send_flags::IBV_SEND_SIGNALED),
            (self.inline, ibv_send_flags::IBV_SEND_INLINE),
            (self.fenced, ibv_send_flags::IBV_SEND_FENCE),
        ];
        pairs.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag.0)
    }
}

/// Why a list was refused.
#[derive(Debug)]
pub(in super::super) struct Refused {
    pub(in super::super) error: VerbError,
    /// Whether none of it was taken, for certain.
    pub(in super::super) whole: bool,
}

/// Work requests to be posted at once.
#[derive(Default)]
pub(in super::super) struct Requests {
    list: Vec<ibv_send_wr>,
    /// Where the slices of each begin in their table.
    from: Vec<u32>,
}

/// Receives to be posted at once.
#[derive(Default)]
pub(in super::super) struct Receives {
    list: Vec<ibv_recv_wr>,
}

/// The slices of a request in their table; none if they are not all there.
fn within(slices: &[Slice], from: u32, count: c_int) -> *mut ibv_sge {
    let (from, count) = (from as usize, usize::try_from(count).unwrap_or(0));
    let found = from.checked_add(count).and_then(|end| slices.get(from..end));
    assert!(found.is_some(), "slices are looked for before");
    // They are only read.
    found.map_or(null_mut(), |found| found.as_ptr().cast_mut().cast())
}

fn refused(verb: &'static str, code: c_int, whole: bool) -> Refused {
    let full = code.abs() == rustix::io::Errno::NOMEM.raw_os_error();
    let error = if full {
        VerbError { verb, cause: Cause::Full }
    } else {
        explained(verb, std::io::Error::from_raw_os_error(code.abs()))
    };
    Refused { error, whole }
}

/// Writes what a request does: its opcode.
fn fill(request: &mut ibv_send_wr, what: What<'_>) -> ibv_wr_opcode::Type {
    match what {
        What::Send { invalidate: None } => ibv_wr_opcode::IBV_WR_SEND,
        What::Send { invalidate: Some(key) } => {
            request.__bindgen_anon_1.invalidate_rkey = key;
            ibv_wr_opcode::IBV_WR_SEND_WITH_INV
        }
        What::Write { to } => {
            request.wr.rdma.remote_addr = to.address;
            request.wr.rdma.rkey = to.key;
            ibv_wr_opcode::IBV_WR_RDMA_WRITE
        }
        What::Read { from } => {
            request.wr.rdma.remote_addr = from.address;
            request.wr.rdma.rkey = from.key;
            ibv_wr_opcode::IBV_WR_RDMA_READ
        }
        What::Bind { window, region, range, key, access } => {
            // The range is no list of slices.
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
        What::Invalidate { key } => {
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
    pub(in super::super) fn push(&mut self, id: u64, flags: Flags, slices: (u32, u32), what: What<'_>) {
        let mut request = ibv_send_wr { wr_id: id, send_flags: flags.raw(), ..Default::default() };
        request.num_sge = c_int::try_from(slices.1).unwrap_or(c_int::MAX);
        request.opcode = fill(&mut request, what);
        self.list.push(request);
        self.from.push(slices.0);
    }

    /// Makes a chain of them, with these slices.
    fn link(&mut self, slices: &[Slice]) {
        let begin = self.list.as_mut_ptr();
        let count = self.list.len();
        for (at, (request, from)) in self.list.iter_mut().zip(&self.from).enumerate() {
            request.sg_list = within(slices, *from, request.num_sge);
            request.next = if at + 1 < count { begin.wrapping_add(at + 1) } else { null_mut() };
        }
    }
}

impl Receives {
    /// Makes a chain of receives, with these slices; `id` gives each what its completion is known by.
    pub(in super::super) fn fill(
        &mut self,
        receives: &[Receive],
        slices: &[Slice],
        mut id: impl FnMut(&Receive) -> u64,
    ) {
        self.list.clear();
        self.list.reserve(receives.len());
        let begin = self.list.as_mut_ptr();
        for (at, receive) in receives.iter().enumerate() {
            let num_sge = c_int::try_from(receive.slices.1).unwrap_or(c_int::MAX);
            let next = if at + 1 < receives.len() { begin.wrapping_add(at + 1) } else { null_mut() };
            let sg_list = within(slices, receive.slices.0, num_sge);
            self.list.push(ibv_recv_wr { wr_id: id(receive), next, sg_list, num_sge });
        }
    }
}

impl QueuePair {
    /// Posts requests.
    ///
    /// # Safety
    /// What the slices name stays as [`crate::provider::QueuePair::post`] asks for, and the windows and regions that were pushed
    /// are still there.
    pub(in super::super) unsafe fn post(
        &self,
        requests: &mut Requests,
        slices: &[Slice],
    ) -> std::result::Result<(), Refused> {
        let verb = "ibv_post_send";
        requests.link(slices);
        let first = requests.list.as_mut_ptr();
        let mut bad = null_mut();
        // SAFETY: the queue pair is there, and its context; the chain is of elements of a vector that is not touched
        // meanwhile, and of slices of a table that is borrowed. The rest is the caller's promise.
        let code = unsafe {
            match (*self.domain().context().raw()).ops.post_send {
                Some(post) => post(self.raw(), first, &raw mut bad),
                None => rustix::io::Errno::NOSYS.raw_os_error(),
            }
        };
        // Where the doorbell fails all are taken, whatever it says.
        if code == 0 { Ok(()) } else { Err(refused(verb, code, bad == first)) }
    }

    /// Posts receives.
    ///
    /// # Safety
    /// What the slices name stays as [`crate::provider::QueuePair::post`] asks for. `slices` are those that `receives` were
    /// filled with.
    pub(in super::super) unsafe fn post_receives(
        &self,
        receives: &mut Receives,
        _slices: &[Slice],
    ) -> std::result::Result<(), Refused> {
        let first = receives.list.as_mut_ptr();
        let mut bad = null_mut();
        // SAFETY: as for `post`.
        let code = unsafe {
            match (*self.domain().context().raw()).ops.post_recv {
                Some(post) => post(self.raw(), first, &raw mut bad),
                None => rustix::io::Errno::NOSYS.raw_os_error(),
            }
        };
        if code == 0 { Ok(()) } else { Err(refused("ibv_post_recv", code, bad == first)) }
    }
}

impl SharedReceives {
    /// Posts receives.
    ///
    /// # Safety
    /// As [`QueuePair::post_receives`].
    pub(in super::super) unsafe fn post(
        &self,
        receives: &mut Receives,
        _slices: &[Slice],
    ) -> std::result::Result<(), Refused> {
        let first = receives.list.as_mut_ptr();
        let mut bad = null_mut();
        // SAFETY: as for `QueuePair::post`.
        let code = unsafe {
            match (*self.domain().context().raw()).ops.post_srq_recv {
                Some(post) => post(self.raw(), first, &raw mut bad),
                None => rustix::io::Errno::NOSYS.raw_os_error(),
            }
        };
        if code == 0 { Ok(()) } else { Err(refused("ibv_post_srq_recv", code, bad == first)) }
    }
}
