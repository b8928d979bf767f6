//! The engine: a session with one peer, without I/O, clock or threads.
//!
//! A [`Session`] outlives its connections: calls that a lost connection leaves unanswered are
//! retransmitted on the next one. The memory of a session grows with the number of calls in flight;
//! after that, it allocates nothing for an RPC.
//!
//! - **Input** from the transport: [`connected`](Session::connected),
//!   [`received`](Session::received), [`released`](Session::released),
//!   [`exposed`](Session::exposed), [`read_done`](Session::read_done), [`fenced`](Session::fenced),
//!   [`lost`](Session::lost) and [`timeout`](Session::timeout).
//! - **Input** from the consumer: [`call`](Session::call), [`reply`](Session::reply),
//!   [`cancel`](Session::cancel), [`set_property`](Session::set_property),
//!   [`request_property`](Session::request_property) and [`drain`](Session::drain).
//! - **Output**: [`poll_action`](Session::poll_action), [`poll_transmit`](Session::poll_transmit),
//!   [`poll_event`](Session::poll_event) and [`poll_timeout`](Session::poll_timeout).
//!
//! Times are microseconds since any epoch, the same for all calls, and do not decrease.
//!
//! `session` is the only entry, and decides what is sent next. `requester` owns the outgoing calls,
//! `responder` the incoming calls, `exchange` the exchange of properties, and `rtr` the messages in
//! several transmissions. `states` has the transitions of calls and of the connection.
//!
//! ```
//! use rpcrdma_proto::connection::{Action, BufferId, CallLocation, Config, Event, Session};
//! use rpcrdma_proto::private_data::PrivateData;
//! use rpcrdma_proto::transfer::CallSpec;
//! use rpcrdma_proto::version::Version;
//!
//! // Version One needs no negotiation.
//! let mut client = Session::new(Config { max_version: Version::One, ..Config::client() })?;
//! let mut server = Session::new(Config { max_version: Version::One, ..Config::server() })?;
//! assert_eq!(client.poll_action(), Some(Action::Connect));
//! client.connected(0, PrivateData::DEFAULT)?;
//! server.connected(0, PrivateData::DEFAULT)?;
//! while server.poll_action().is_some() || client.poll_action().is_some() {}
//!
//! let call = CallSpec { length: 40, items: &[], max_reply: 24, results: &[], reducible: true };
//! let xid = client.call(&call, None)?;
//! let (mut message, mut payload) = ([0; 1024], [0; 40]);
//! payload[..4].copy_from_slice(&xid.to_be_bytes()); // a call: its XID, and zero
//! let Some(transmit) = client.poll_transmit(0, &mut message) else { panic!("nothing to send") };
//! message[transmit.header..transmit.header + 40].copy_from_slice(&payload);
//! client.released(transmit.owner);
//!
//! let _ = server.received(BufferId(1), &message[..transmit.header + 40], None);
//! let (mut arrived, mut place) = (None, None);
//! while let Some(event) = server.poll_event() {
//!     if let Event::CallArrived { call, message: CallLocation::Inline { range, .. }, .. } = event {
//!         (arrived, place) = (Some(call), Some(range));
//!     }
//! }
//! assert_eq!(place, Some(28..68));
//! assert!(arrived.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod exchange;
mod inline_parts;
mod optional_header;
mod optional_lists;
mod output;
mod params;
mod queues;
mod receives;
mod requester;
mod responder;
mod rtr;
mod session;
mod slab;
mod states;
mod xid_table;

pub use config::{Config, ConfigError, MAX_ACCEPTED_SEGMENTS, MAX_CALL_SEGMENTS, Properties, Role};
pub use exchange::RegisterError;
pub use output::{
    Action, BufferId, CallFailure, CallLocation, CallRegion, CloseReason, Event, Exposure,
    ExtensionOperation, PayloadPiece, RdmaWrite, ReplyLocation, SendOwner, ServedCallId,
    TransmissionIndex, Transmit,
};
pub use requester::SessionCallError;
pub use session::{
    BufferDisposition, PropertyError, ReplyError, Session, SessionConnectError, SessionCounters,
};
pub use states::{ConnState, RequestEvent, RequestState, ServedEvent, ServedState, StateChange};
