//! The simulator: sessions of the engine on virtual links, with a virtual clock and faults, and the
//! rules held after each step.
//!
//! A [`script::Plan`] is all that decides a run: settings, a list of what consumers do and which
//! faults there are, and a seed for the rest. A [`world::World`] lets it happen. Headers are real
//! bytes, and of payloads the first two words; what else they hold is a place in a call or a
//! reply, so that how messages are put together is checked byte by byte at no cost.
//!
//! After the last act all faults are healed: every call is to end, both ends are to know each
//! other's properties, and the world is to come to rest. Then both sessions are drained, and
//! nothing may be left.
//!
//! # What a forgery excuses
//!
//! A message that is corrupt or hostile taints its connection, until that is lost, which it is when
//! faults are healed. On it the following is no defect: a missing receive, bytes beyond what the
//! peer takes, access to memory that is not there (it breaks the connection, as it does in an RDMA
//! device), a reply or a call that is not what was sent, a close for `CreditOverrun`, `Invalidated`
//! or `NoVersion`, a call that hangs until the connection is lost. Credits beyond a grant are none
//! either, unless all that was forged was dropped, or answered by an error that is nobody's. All
//! else holds: nothing panics or leaks, each call ends once, its memory is fenced and its Sends are
//! done before, there is a receive for each call that waits for its reply, no call goes back before
//! its peer is ready, no reply of another version ends a call, and each close has its reason.
//!
//! Transmissions that are dropped, exchanged or interleaved, and nothing else, excuse less: no call
//! is served twice, what is put together is what was sent, and once a later call is answered none
//! before it hangs.

pub(crate) mod chart;
mod check;
mod consumer;
mod end;
pub(crate) mod fault;
mod groups;
mod hostile;
mod link;
mod memory;
mod message;
pub(crate) mod random;
pub(crate) mod runner;
pub(crate) mod script;
mod settings;
pub(crate) mod spec;
mod tamper;
mod transport;
mod wire;
mod world;
