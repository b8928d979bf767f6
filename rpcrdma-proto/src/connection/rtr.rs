//! The state of rtrext-02. A session, its requester and its responder have one optional part each,
//! `None` if the extension is disabled.

pub(super) mod calls;
pub(super) mod extension;
pub(super) mod group_sender;
pub(super) mod headers;
pub(super) mod reassembly;
pub(super) mod replies;
