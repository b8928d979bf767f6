//! What a requester keeps of the errors that its calls in transmissions of rtrext-02 met.

/// What a call has met on its way in transmissions.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct GroupTrial {
    /// Whether it goes without rtrext-02, since it was reported broken or its operation is unknown
    /// to the peer.
    pub(in crate::connection) given_up: bool,
    /// The number of errors that its first transmissions may still cause.
    pub(in crate::connection) stale_errors: u32,
}

impl GroupTrial {
    /// Nothing yet.
    pub(in crate::connection) const NONE: Self = Self {
        given_up: false,
        stale_errors: 0,
    };
}
