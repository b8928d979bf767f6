//! Access rights of memory: those of a region at its registration, and those of a window at its
//! bind.
//!
//! As verbs do, providers reject a region or a window with `remote_write` if the region lacks
//! `local_write`. The constants comply. The sink of an RDMA Read needs `remote_write`, too, if
//! `Capabilities::read_sink_needs_remote_write` says so.

/// Access rights of memory. The source of a Send or Write needs none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Access {
    /// Receives and Reads may write it.
    pub local_write: bool,
    /// The peer may read it.
    pub remote_read: bool,
    /// The peer may write it.
    pub remote_write: bool,
    /// Windows may be bound to it.
    pub bind: bool,
}

impl Access {
    /// The rights of memory that is only sent.
    pub const LOCAL_READ: Self = Self {
        local_write: false,
        remote_read: false,
        remote_write: false,
        bind: false,
    };
    /// The rights of memory that is received into.
    pub const LOCAL_WRITE: Self = Self {
        local_write: true,
        ..Self::LOCAL_READ
    };
    /// The rights of memory to which windows are bound. They give the peer no access.
    pub const BOUND: Self = Self {
        local_write: true,
        bind: true,
        ..Self::LOCAL_READ
    };
    /// The peer may read, and nothing else.
    pub const REMOTE_READ: Self = Self {
        remote_read: true,
        ..Self::LOCAL_READ
    };
    /// The peer may write, and nothing else.
    pub const REMOTE_WRITE: Self = Self {
        local_write: true,
        remote_write: true,
        ..Self::LOCAL_READ
    };
}
