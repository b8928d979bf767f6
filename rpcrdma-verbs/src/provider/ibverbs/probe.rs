//! Probes a device when it is opened: the inline limit, and whether memory windows work and confine
//! the peer. Two of its queue pairs are connected to each other, without librdmacm, so that iWARP
//! is not probed for windows.
//!
//! A probe that fails or exceeds `PATIENCE` means that the capability is missing, and is no error.
//! The results are `Capabilities` and `Quirks::invalidated`. The probe's memory outlives its queue
//! pairs and regions, and is leaked if the device does not end them.

#![allow(
    unsafe_code,
    reason = "memory is registered and posted, and stays until the queue pairs are gone"
)]

use std::net::Ipv6Addr;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ibverbs_sys as ibv;
use ibverbs_sys::{ibv_ah_attr, ibv_qp_attr, ibv_qp_attr_mask as mask, ibv_qp_state, ibv_wc_flags};

use super::status::status;
use super::sys::{
    CompletionQueue, Context, Flags, ProtectionDomain, QueuePair, QueuePairSizes, Receives, Region,
    RequestKind, Requests, Window,
};
use crate::provider::{Access, Receive, RemoteMemory, Sge, Status};

/// The timeout of the probe.
const PATIENCE: Duration = Duration::from_secs(1);
/// The sizes of the registered and of the exposed memory.
const REGISTERED: usize = 4096;
const EXPOSED: u32 = 1024;

const SIZES: QueuePairSizes = QueuePairSizes {
    sends: 8,
    receives: 8,
    slices: 1,
    inline: 0,
};

/// The completion flags that may indicate an invalidated key: that of libibverbs, and that of the
/// kernel, which soft-RoCE returns.
const INVALIDATED: [u32; 2] = [
    ibv_wc_flags::IBV_WC_WITH_INV.0,
    ibv_wc_flags::IBV_WC_IP_CSUM_OK.0,
];

/// The number of objects whose asynchronous events are ignored.
const UNNUMBERED: u32 = 0;

const SIGNALED: Flags = Flags {
    signaled: true,
    inline: false,
    fenced: false,
};

/// A path from a port to itself.
#[derive(Clone, Copy)]
struct Path {
    port: u8,
    lid: u16,
    mtu: u32,
    /// The index in the table of the port, and the GID; InfiniBand needs none.
    gid: Option<(u8, ibv::ibv_gid)>,
}

/// Returns the inline limit of a queue pair with these sizes: the requested one, or less.
pub(super) fn inline(
    context: &Arc<Context>,
    domain: &Arc<ProtectionDomain>,
    sizes: &QueuePairSizes,
) -> u32 {
    let Ok(queue) = CompletionQueue::new(context, 4, UNNUMBERED).map(Arc::new) else {
        return 0;
    };
    let halves = std::iter::successors(Some(sizes.inline), |bytes| {
        (*bytes > 16).then_some(bytes / 2)
    });
    let can = |bytes: &u32| {
        let sizes = QueuePairSizes {
            inline: *bytes,
            ..*sizes
        };
        QueuePair::new(domain, &queue, None, &sizes, UNNUMBERED).is_ok()
    };
    halves.into_iter().find(can).unwrap_or(0)
}

/// The results of probing memory windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Windows {
    /// The completion flags that indicate an invalidation by the peer.
    pub(super) invalidated: u32,
    /// True if the peer can access only the memory to which the windows are bound.
    pub(super) are_confined: bool,
}

/// Probes whether windows can be bound to memory without remote rights, accessed, and invalidated
/// by the peer, and which completion flags they use.
pub(super) fn windows(context: &Arc<Context>, port: u8) -> Option<Windows> {
    let began = Instant::now();
    let probe = || Probe::new(context, began);
    let found = paths(context, port).into_iter().find_map(|path| {
        let invalidated = probe()?.invalidates(&path)?;
        Some(Windows {
            invalidated,
            are_confined: probe()?.confines(&path)?,
        })
    });
    tracing::debug!(
        ?found,
        milliseconds = began.elapsed().as_millis(),
        "memory windows were tried"
    );
    found
}

/// Returns the paths from a port to itself, the most likely one first.
fn paths(context: &Context, port: u8) -> Vec<Path> {
    let Ok(attributes) = context.port(port) else {
        return Vec::new();
    };
    let path = Path {
        port,
        lid: attributes.lid,
        mtu: attributes.active_mtu,
        gid: None,
    };
    if u32::from(attributes.link_layer) != ibv::IBV_LINK_LAYER_ETHERNET {
        return vec![path];
    }
    let mut gids = context.gids(
        usize::try_from(attributes.gid_tbl_len)
            .unwrap_or(0)
            .min(256),
    );
    gids.retain(|gid| gid.port_num == u32::from(port) && gid.gid_index <= u8::MAX.into());
    // Routable RoCE over IPv4 comes first, and link-local GIDs come last.
    gids.sort_by_key(|gid| {
        let address = Ipv6Addr::from(Context::bytes(&gid.gid));
        (
            gid.gid_type != ibv::IBV_GID_TYPE_ROCE_V2,
            address.is_unicast_link_local(),
            address.to_ipv4_mapped().is_none(),
        )
    });
    let gids = gids.iter().take(4);
    gids.map(|gid| Path {
        gid: Some((u8::try_from(gid.gid_index).unwrap_or(0), gid.gid)),
        ..path
    })
    .collect()
}

/// The queue pairs of a probe, with their memory.
///
/// The fields are dropped in this order: windows and queue pairs, then regions, then memory.
struct Probe {
    window: Window,
    owner: QueuePair,
    peer: QueuePair,
    queue: Arc<CompletionQueue>,
    exposed: Region,
    source: Region,
    memory: NonNull<[u8; REGISTERED]>,
    bytes: NonNull<[u8; 8]>,
    began: Instant,
    /// Owns both buffers, which are accessed by their addresses only.
    _memory: Memory,
}

/// Leaked memory, which is freed unless the device may still access it.
struct Memory(NonNull<[u8; REGISTERED]>, NonNull<[u8; 8]>, Arc<Context>);

impl Memory {
    fn new(context: &Arc<Context>) -> Self {
        let (large, small) = (
            Box::leak(Box::new([0; REGISTERED])),
            Box::leak(Box::new([7; 8])),
        );
        Self(NonNull::from(large), NonNull::from(small), context.clone())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.2.has_leaked() {
            return;
        }
        // SAFETY: both came from boxes, and are freed once; queue pairs and regions are gone.
        unsafe {
            drop(Box::from_raw(self.0.as_ptr()));
            drop(Box::from_raw(self.1.as_ptr()));
        }
    }
}

impl Probe {
    fn new(context: &Arc<Context>, began: Instant) -> Option<Self> {
        let domain = ProtectionDomain::new(context).ok()?;
        let queue = Arc::new(CompletionQueue::new(context, 32, UNNUMBERED).ok()?);
        let memory = Memory::new(context);
        // SAFETY: the memory is dropped after the regions, both here and in `Self`: locals are
        // dropped in reverse order.
        let register = |at: NonNull<u8>, length, access| unsafe {
            Region::register(&domain, at, length, access).ok()
        };
        let exposed = register(memory.0.cast(), REGISTERED, Access::BOUND)?;
        let source = register(memory.1.cast(), 8, Access::LOCAL_READ)?;
        let owner = QueuePair::new(&domain, &queue, None, &SIZES, UNNUMBERED).ok()?;
        let peer = QueuePair::new(&domain, &queue, None, &SIZES, UNNUMBERED).ok()?;
        let window = Window::new(&domain).ok()?;
        let (place, bytes) = (memory.0, memory.1);
        Some(Self {
            window,
            owner,
            peer,
            queue,
            exposed,
            source,
            memory: place,
            bytes,
            began,
            _memory: memory,
        })
    }

    /// Binds the window to the beginning of the memory, and lets the peer write there. Returns the
    /// address.
    fn bind(&self, path: &Path) -> Option<RemoteMemory> {
        for (pair, other) in [(&self.owner, &self.peer), (&self.peer, &self.owner)] {
            connect(pair, other.number(), path)?;
        }
        let range = Sge {
            address: self.memory.addr().get() as u64,
            length: EXPOSED,
            key: self.exposed.local_key(),
        };
        let key = self.window.key() & !0xff | self.window.key().wrapping_add(1) & 0xff;
        let access = Access::REMOTE_WRITE;
        let bind = RequestKind::Bind {
            window: &self.window,
            region: &self.exposed,
            range,
            key,
            access,
        };
        let to = RemoteMemory {
            address: range.address,
            key,
        };
        (self.post(&self.owner, bind)? == Status::Success).then_some(())?;
        // SAFETY: the window ends with the probe, which no other thread has.
        unsafe { self.window.set_key(key) };
        (self.post(&self.peer, RequestKind::Write { to })? == Status::Success && self.has_arrived())
            .then_some(to)
    }

    /// Lets the peer invalidate the window, and checks that it then has no access. Returns the
    /// completion flags of the invalidation.
    fn invalidates(&self, path: &Path) -> Option<u32> {
        let to = self.bind(path)?;
        let flags = self.invalidated(to.key)?;
        (self.post(&self.peer, RequestKind::Write { to })? != Status::Success).then_some(flags)
    }

    /// Checks that the peer has no access beyond the window.
    fn confines(&self, path: &Path) -> Option<bool> {
        let to = self.bind(path)?;
        let beyond = RemoteMemory {
            address: to.address + u64::from(EXPOSED),
            ..to
        };
        Some(self.post(&self.peer, RequestKind::Write { to: beyond })? != Status::Success)
    }

    /// Returns true if the bytes were written.
    fn has_arrived(&self) -> bool {
        // SAFETY: the memory is valid, and the write to it has completed.
        unsafe { self.memory.cast::<[u8; 8]>().read_volatile() == [7; 8] }
    }

    /// Lets the peer invalidate a key. Returns the flags of the completion.
    fn invalidated(&self, key: u32) -> Option<u32> {
        let mut receives = Receives::default();
        receives.fill(
            &[Receive {
                id: 0,
                slices: (0, 0),
            }],
            &[],
            |_| 1,
        );
        // SAFETY: it uses no memory.
        unsafe { self.owner.post_receives(&mut receives, &[]).ok()? };
        let mut requests = Requests::default();
        requests.push(
            2,
            SIGNALED,
            (0, 0),
            RequestKind::Send {
                invalidate: Some(key),
            },
        );
        // SAFETY: it uses no memory.
        unsafe { self.peer.post(&mut requests, &[]).ok()? };
        let (mut sent, mut flags) = (false, None);
        while !sent || flags.is_none() {
            let (id, status, flags_and_key) = self.next()?;
            (status == Status::Success).then_some(())?;
            if id == 1 {
                let says = INVALIDATED
                    .iter()
                    .copied()
                    .find(|flag| flags_and_key.0 & flag != 0 && flags_and_key.1 == key);
                flags = Some(says?);
            }
            sent |= id == 2;
        }
        flags
    }

    /// Posts a request, and waits for its completion. A write has eight bytes.
    fn post(&self, pair: &QueuePair, what: RequestKind<'_>) -> Option<Status> {
        let bytes = Sge {
            address: self.bytes.addr().get() as u64,
            length: 8,
            key: self.source.local_key(),
        };
        let count = u32::from(matches!(what, RequestKind::Write { .. }));
        let mut requests = Requests::default();
        requests.push(3, SIGNALED, (0, count), what);
        // SAFETY: the bytes, the window and the region exist until the queue pairs are gone, and
        // nothing changes the bytes.
        unsafe { pair.post(&mut requests, &[bytes]).ok()? };
        loop {
            let (id, status, _) = self.next()?;
            if id == 3 {
                return Some(status);
            }
        }
    }

    /// Returns the id, the status, the flags and the key of the next completion.
    fn next(&self) -> Option<(u64, Status, (u32, u32))> {
        let mut places = CompletionQueue::wc_buffer(1);
        while self.began.elapsed() < PATIENCE {
            if self.queue.poll(&mut places).ok()? == 1 {
                let taken = CompletionQueue::raw_completion(&places[0]);
                return Some((
                    taken.id,
                    status(taken.status.0, taken.status.1),
                    (taken.flags, taken.key),
                ));
            }
            std::thread::yield_now();
        }
        None
    }
}

/// Connects a queue pair manually.
fn connect(pair: &QueuePair, other: u32, path: &Path) -> Option<()> {
    let steps = [begins(path), receives(other, path), sends()];
    steps
        .into_iter()
        .try_for_each(|(mut attributes, wanted)| pair.modify(&mut attributes, wanted).ok())
}

fn begins(path: &Path) -> (ibv_qp_attr, u32) {
    let attributes = ibv_qp_attr {
        qp_state: ibv_qp_state::IBV_QPS_INIT,
        port_num: path.port,
        qp_access_flags: ibv::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0,
        ..Default::default()
    };
    let wanted = mask::IBV_QP_STATE
        | mask::IBV_QP_PKEY_INDEX
        | mask::IBV_QP_PORT
        | mask::IBV_QP_ACCESS_FLAGS;
    (attributes, wanted.0)
}

fn receives(other: u32, path: &Path) -> (ibv_qp_attr, u32) {
    let mut address = ibv_ah_attr {
        dlid: path.lid,
        port_num: path.port,
        ..Default::default()
    };
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
    let there =
        mask::IBV_QP_STATE | mask::IBV_QP_AV | mask::IBV_QP_PATH_MTU | mask::IBV_QP_DEST_QPN;
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
    let tries =
        mask::IBV_QP_STATE | mask::IBV_QP_TIMEOUT | mask::IBV_QP_RETRY_CNT | mask::IBV_QP_RNR_RETRY;
    (
        attributes,
        (tries | mask::IBV_QP_SQ_PSN | mask::IBV_QP_MAX_QP_RD_ATOMIC).0,
    )
}
