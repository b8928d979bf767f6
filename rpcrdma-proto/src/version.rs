//! Which version of the protocol.

/// A version of RPC-over-RDMA.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// Version One (RFC 8166).
    One,
    /// Version Two (version-two-01).
    Two,
}

impl Version {
    /// The number in `rdma_vers`.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    /// The version of a number.
    #[must_use]
    pub const fn of(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            _ => None,
        }
    }
}
