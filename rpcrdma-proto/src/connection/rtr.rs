//! The state of rtrext-02 on a connection, which a session has only if the extension is enabled.

pub(super) mod calls;
pub(super) mod extension;
pub(super) mod group_sender;
pub(super) mod headers;
pub(super) mod reassembly;
pub(super) mod replies;
