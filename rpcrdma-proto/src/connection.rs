//! A session with one peer: the engine, which is told everything that happens and says what to do.
//!
//! A [`Session`] has no I/O, no clock and no threads. It outlives its connections: calls that a lost one leaves unanswered
//! go again on the next. Its memory grows with what is under way at once, and then nothing is allocated for an RPC.
//!
//! **In**: [`connected`](Session::connected), [`received`](Session::received), [`released`](Session::released),
//! [`exposed`](Session::exposed), [`moved`](Session::moved), [`fenced`](Session::fenced), [`lost`](Session::lost) and
//! [`timeout`](Session::timeout) from the transport; [`call`](Session::call), [`reply`](Session::reply),
//! [`cancel`](Session::cancel), [`set`](Session::set), [`ask`](Session::ask) and [`drain`](Session::drain) from the consumer.
//! **Out**: [`poll_action`](Session::poll_action), [`poll_transmit`](Session::poll_transmit),
//! [`poll_event`](Session::poll_event) and [`poll_timeout`](Session::poll_timeout).
//!
//! Times are microseconds from any beginning, the same for all.
//!
//! ```
//! use rpcrdma_proto::connection::{Action, Buffer, Config, Event, Message, Session};
//! use rpcrdma_proto::private_data::PrivateData;
//! use rpcrdma_proto::travel::Call;
//! use rpcrdma_proto::version::Version;
//!
//! // Version One needs no negotiation.
//! let mut client = Session::new(Config { highest: Version::One, ..Config::client() })?;
//! let mut server = Session::new(Config { highest: Version::One, ..Config::server() })?;
//! assert_eq!(client.poll_action(), Some(Action::Connect));
//! client.connected(0, PrivateData::DEFAULT)?;
//! server.connected(0, PrivateData::DEFAULT)?;
//! while server.poll_action().is_some() || client.poll_action().is_some() {}
//!
//! let call = Call { length: 40, items: &[], largest_reply: 24, results: &[], reducible: true };
//! let xid = client.call(&call, None)?;
//! let (mut message, mut payload) = ([0; 1024], [0; 40]);
//! payload[..4].copy_from_slice(&xid.to_be_bytes()); // a call: its XID, and zero
//! let Some(transmit) = client.poll_transmit(0, &mut message) else { panic!("nothing to send") };
//! message[transmit.header..transmit.header + 40].copy_from_slice(&payload);
//! client.released(transmit.what);
//!
//! let _ = server.received(Buffer(1), &message[..transmit.header + 40], None);
//! let (mut arrived, mut place) = (None, None);
//! while let Some(event) = server.poll_event() {
//!     if let Event::CallArrived { call, message: Message::Inline { octets, .. }, .. } = event {
//!         (arrived, place) = (Some(call), Some(octets));
//!     }
//! }
//! assert_eq!(place, Some(28..68));
//! assert!(arrived.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arriving;
mod config;
mod exchange;
mod extension;
mod headers;
mod life;
mod link;
mod named;
mod output;
mod parts;
mod queues;
mod receives;
mod requester;
mod responder;
mod sending;
mod session;
mod slots;

pub use config::{Config, ConfigError, Properties, Role, SEGMENTS};
pub use exchange::RegisterError;
pub use life::{Change, Life, Service, Stage, Step, Turn};
pub use output::{
    Action, Buffer, Event, Exposure, Failure, Laid, Message, Operation, Reason, Region, Reply, Sent, Served, Share,
    Transmit, Write,
};
pub use requester::CallError;
pub use session::{ConnectError, Counters, Held, ReplyError, Session, SetError};
