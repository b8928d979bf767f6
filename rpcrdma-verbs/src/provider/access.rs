//! What may be done with memory.

/// Rights on memory. To be in a work request of ours, memory needs none of the remote ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Access {
    /// We receive and read into it.
    pub local_write: bool,
    /// The peer reads it.
    pub remote_read: bool,
    /// The peer writes it.
    pub remote_write: bool,
    /// Windows may be bound to it.
    pub bind: bool,
}

impl Access {
    /// For what is only sent from.
    pub const LOCAL_READ: Self = Self { local_write: false, remote_read: false, remote_write: false, bind: false };
    /// For what is received into.
    pub const LOCAL_WRITE: Self = Self { local_write: true, ..Self::LOCAL_READ };
    /// For what windows are bound to: the peer itself has no right to it.
    pub const BOUND: Self = Self { local_write: true, bind: true, ..Self::LOCAL_READ };
    /// The peer reads it, and nothing else.
    pub const REMOTE_READ: Self = Self { remote_read: true, ..Self::LOCAL_READ };
    /// The peer writes it, and nothing else.
    pub const REMOTE_WRITE: Self = Self { local_write: true, remote_write: true, ..Self::LOCAL_READ };
}
