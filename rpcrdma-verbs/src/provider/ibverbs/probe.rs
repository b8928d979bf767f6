//! What a device can do, tried out: two queue pairs of its own are connected with each other.

#![allow(unsafe_code, reason = "memory is registered and posted, and stays until the queue pairs are gone")]

use std::net::Ipv6Addr;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ibverbs_sys as ibv;
use ibverbs_sys::{ibv_ah_attr, ibv_qp_attr, ibv_qp_attr_mask as mask, ibv_qp_state, ibv_wc_flags};

use super::status::status;
use super::sys::{
    CompletionQueue, Context, Domain, Flags, QueuePair, QueuePairSizes, Receives, Region, Requests, What, Window,
};
use crate::provider::{Access, Receive, Remote, Slice, Status};

/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Octets of the memory that is registered, and of that which is exposed.
const REGISTERED: usize = 4096;
const EXPOSED: u32 = 1024;

const SIZES: QueuePairSizes = QueuePairSizes { sends: 8, receives: 8, slices: 1, inline: 0 };

/// The flags of a completion that may say that a key was invalidated: libibverbs', and the kernel's, which soft-RoCE tells.
const INVALIDATED: [u32; 2] = [ibv_wc_flags::IBV_WC_WITH_INV.0, ibv_wc_flags::IBV_WC_IP_CSUM_OK.0];

const SIGNALED: Flags = Flags { signaled: true, inline: false, fenced: false };

/// How far a port can be reached from itself.
#[derive(Clone, Copy)]
struct Path {
    port: u8,
    lid: u16,
    mtu: u32,
    /// The place of a GID in the port's table, and the GID; InfiniBand needs none.
    gid: Option<(u8, ibv::ibv_gid)>,
}

/// Octets that a request of such sizes can hold itself: as many as are wanted, or fewer.
pub(super) fn inline(context: &Rc<Context>, domain: &Rc<Domain>, sizes: &QueuePairSizes) -> u32 {
    let Ok(queue) = CompletionQueue::new(context, 4).map(Rc::new) else { return 0 };
    let halves = std::iter::successors(Some(sizes.inline), |octets| (*octets > 16).then_some(octets / 2));
    let can = |octets: &u32| {
        let sizes = QueuePairSizes { inline: *octets, ..*sizes };
        QueuePair::new(domain, &queue, None, &sizes).is_ok()
    };
    halves.into_iter().find(can).unwrap_or(0)
}

/// What was found out about memory windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Windows {
    /// The flags by which a completion says that the peer has invalidated one.
    pub(super) invalidated: u32,
    /// Whether the peer reaches what they are bound to, and not all of the region.
    pub(super) are_confined: bool,
}

/// Whether windows can be bound to memory without remote rights, reached, and invalidated by the peer: and how.
pub(super) fn windows(context: &Rc<Context>, port: u8) -> Option<Windows> {
    let began = Instant::now();
    let probe = || Probe::new(context, began);
    let found = paths(context, port).into_iter().find_map(|path| {
        let invalidated = probe()?.invalidates(&path)?;
        Some(Windows { invalidated, are_confined: probe()?.confines(&path)? })
    });
    tracing::debug!(?found, milliseconds = began.elapsed().as_millis(), "memory windows were tried");
    found
}

/// The paths from a port to itself, the likeliest first.
fn paths(context: &Context, port: u8) -> Vec<Path> {
    let Ok(attributes) = context.port(port) else { return Vec::new() };
    let path = Path { port, lid: attributes.lid, mtu: attributes.active_mtu, gid: None };
    if u32::from(attributes.link_layer) != ibv::IBV_LINK_LAYER_ETHERNET {
        return vec![path];
    }
    let mut gids = context.gids(usize::try_from(attributes.gid_tbl_len).unwrap_or(0).min(256));
    gids.retain(|gid| gid.port_num == u32::from(port) && gid.gid_index <= u8::MAX.into());
    // Routable RoCE first, over IPv4, and last what is of one link.
    gids.sort_by_key(|gid| {
        let address = Ipv6Addr::from(Context::octets(&gid.gid));
        (gid.gid_type != ibv::IBV_GID_TYPE_ROCE_V2, address.is_unicast_link_local(), address.to_ipv4_mapped().is_none())
    });
    let gids = gids.iter().take(4);
    gids.map(|gid| Path { gid: Some((u8::try_from(gid.gid_index).unwrap_or(0), gid.gid)), ..path }).collect()
}

/// The queue pairs of a trial, and their memory.
///
/// The fields are dropped in this order: windows and queue pairs, then regions, then memory.
struct Probe {
    window: Window,
    owner: QueuePair,
    peer: QueuePair,
    queue: Rc<CompletionQueue>,
    exposed: Region,
    source: Region,
    memory: NonNull<[u8; REGISTERED]>,
    octets: NonNull<[u8; 8]>,
    began: Instant,
    /// Keeps both memories, which are reached by their addresses alone.
    _memory: Memory,
}

/// Memory that was leaked, to be taken back.
struct Memory(NonNull<[u8; REGISTERED]>, NonNull<[u8; 8]>);

impl Memory {
    fn new() -> Self {
        Self(NonNull::from(Box::leak(Box::new([0; REGISTERED]))), NonNull::from(Box::leak(Box::new([7; 8]))))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: both came from boxes, and are taken back once; queue pairs and regions are gone.
        unsafe {
            drop(Box::from_raw(self.0.as_ptr()));
            drop(Box::from_raw(self.1.as_ptr()));
        }
    }
}

impl Probe {
    fn new(context: &Rc<Context>, began: Instant) -> Option<Self> {
        let domain = Domain::new(context).ok()?;
        let queue = Rc::new(CompletionQueue::new(context, 32).ok()?);
        let memory = Memory::new();
        // SAFETY: the memory is dropped after the regions, here as in `Self`: locals go in the reverse order.
        let register = |at: NonNull<u8>, length, access| unsafe { Region::register(&domain, at, length, access).ok() };
        let exposed = register(memory.0.cast(), REGISTERED, Access::BOUND)?;
        let source = register(memory.1.cast(), 8, Access::LOCAL_READ)?;
        let owner = QueuePair::new(&domain, &queue, None, &SIZES).ok()?;
        let peer = QueuePair::new(&domain, &queue, None, &SIZES).ok()?;
        let window = Window::new(&domain).ok()?;
        let (place, octets) = (memory.0, memory.1);
        Some(Self { window, owner, peer, queue, exposed, source, memory: place, octets, began, _memory: memory })
    }

    /// Binds the window to the beginning of the memory, and lets the peer write there: where that is.
    fn bind(&self, path: &Path) -> Option<Remote> {
        for (pair, other) in [(&self.owner, &self.peer), (&self.peer, &self.owner)] {
            connect(pair, other.number(), path)?;
        }
        let range = Slice { address: self.memory.addr().get() as u64, length: EXPOSED, key: self.exposed.local_key() };
        let key = self.window.key() & !0xff | self.window.key().wrapping_add(1) & 0xff;
        let access = Access::REMOTE_WRITE;
        let bind = What::Bind { window: &self.window, region: &self.exposed, range, key, access };
        let to = Remote { address: range.address, key };
        (self.post(&self.owner, bind)? == Status::Success).then_some(())?;
        self.window.set_key(key);
        (self.post(&self.peer, What::Write { to })? == Status::Success && self.has_arrived()).then_some(to)
    }

    /// Whether the peer invalidates the window, and then reaches it no more: the flags that say so.
    fn invalidates(&self, path: &Path) -> Option<u32> {
        let to = self.bind(path)?;
        let flags = self.invalidated(to.key)?;
        (self.post(&self.peer, What::Write { to })? != Status::Success).then_some(flags)
    }

    /// Whether the peer reaches nothing beyond the window.
    fn confines(&self, path: &Path) -> Option<bool> {
        let to = self.bind(path)?;
        let beyond = Remote { address: to.address + u64::from(EXPOSED), ..to };
        Some(self.post(&self.peer, What::Write { to: beyond })? != Status::Success)
    }

    /// Whether the octets were written.
    fn has_arrived(&self) -> bool {
        // SAFETY: the memory is there, and the write to it is done.
        unsafe { self.memory.cast::<[u8; 8]>().read_volatile() == [7; 8] }
    }

    /// Lets the peer invalidate a key: the flags of the completion that says so.
    fn invalidated(&self, key: u32) -> Option<u32> {
        let mut receives = Receives::default();
        receives.fill(&[Receive { id: 0, slices: (0, 0) }], &[], |_| 1);
        // SAFETY: it has no memory.
        unsafe { self.owner.post_receives(&mut receives, &[]).ok()? };
        let mut requests = Requests::default();
        requests.push(2, SIGNALED, (0, 0), What::Send { invalidate: Some(key) });
        // SAFETY: it has no memory.
        unsafe { self.peer.post(&mut requests, &[]).ok()? };
        let (mut sent, mut flags) = (false, None);
        while !sent || flags.is_none() {
            let (id, status, told) = self.next()?;
            (status == Status::Success).then_some(())?;
            if id == 1 {
                let says = INVALIDATED.iter().copied().find(|flag| told.0 & flag != 0 && told.1 == key);
                flags = Some(says?);
            }
            sent |= id == 2;
        }
        flags
    }

    /// Posts a request, and waits for its end. A write is of the eight octets.
    fn post(&self, pair: &QueuePair, what: What<'_>) -> Option<Status> {
        let octets = Slice { address: self.octets.addr().get() as u64, length: 8, key: self.source.local_key() };
        let count = u32::from(matches!(what, What::Write { .. }));
        let mut requests = Requests::default();
        requests.push(3, SIGNALED, (0, count), what);
        // SAFETY: the octets, the window and the region are there until the queue pairs are gone, and nobody changes the octets.
        unsafe { pair.post(&mut requests, &[octets]).ok()? };
        loop {
            let (id, status, _) = self.next()?;
            if id == 3 {
                return Some(status);
            }
        }
    }

    /// The next completion: its id, its status, its flags and its key.
    fn next(&self) -> Option<(u64, Status, (u32, u32))> {
        let mut places = CompletionQueue::places(1);
        while self.began.elapsed() < PATIENCE {
            if self.queue.poll(&mut places).ok()? == 1 {
                let taken = CompletionQueue::taken(&places[0]);
                return Some((taken.id, status(taken.status.0, taken.status.1), (taken.flags, taken.key)));
            }
            std::thread::yield_now();
        }
        None
    }
}

/// Connects a queue pair by hand.
fn connect(pair: &QueuePair, other: u32, path: &Path) -> Option<()> {
    let steps = [begins(path), receives(other, path), sends()];
    steps.into_iter().try_for_each(|(mut attributes, wanted)| pair.modify(&mut attributes, wanted).ok())
}

fn begins(path: &Path) -> (ibv_qp_attr, u32) {
    let attributes = ibv_qp_attr {
        qp_state: ibv_qp_state::IBV_QPS_INIT,
        port_num: path.port,
        qp_access_flags: ibv::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0,
        ..Default::default()
    };
    let wanted = mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | mask::IBV_QP_ACCESS_FLAGS;
    (attributes, wanted.0)
}

fn receives(other: u32, path: &Path) -> (ibv_qp_attr, u32) {
    let mut address = ibv_ah_attr { dlid: path.lid, port_num: path.port, ..Default::default() };
    if let Some((index, gid)) = path.gid {
        address.is_global = 1;
        address.grh.dgid = gid;
        address.grh.sgid_index = index;
        address.grh.hop_limit = 64;
    }
    let attributes = ibv_qp_attr {
        qp_state: ibv_qp_state::IBV_QPS_RTR,
        path_mtu: path.mtu,
        dest_qp_num: other,
        max_dest_rd_atomic: 1,
        min_rnr_timer: 12,
        ah_attr: address,
        ..Default::default()
    };
    let there = mask::IBV_QP_STATE | mask::IBV_QP_AV | mask::IBV_QP_PATH_MTU | mask::IBV_QP_DEST_QPN;
    let back = mask::IBV_QP_RQ_PSN | mask::IBV_QP_MAX_DEST_RD_ATOMIC | mask::IBV_QP_MIN_RNR_TIMER;
    (attributes, (there | back).0)
}

fn sends() -> (ibv_qp_attr, u32) {
    let attributes = ibv_qp_attr {
        qp_state: ibv_qp_state::IBV_QPS_RTS,
        timeout: 14,
        retry_cnt: 2,
        max_rd_atomic: 1,
        ..Default::default()
    };
    let tries = mask::IBV_QP_STATE | mask::IBV_QP_TIMEOUT | mask::IBV_QP_RETRY_CNT | mask::IBV_QP_RNR_RETRY;
    (attributes, (tries | mask::IBV_QP_SQ_PSN | mask::IBV_QP_MAX_QP_RD_ATOMIC).0)
}
