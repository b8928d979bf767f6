//! Null RPCs as messages of two drivers, with both ends on one thread over the software fabric. The
//! additional cost of a typed call is that of the RPC layer.

use std::cell::RefCell;
use std::error::Error;
use std::net::SocketAddr;

use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::driver::{
    CallParams, ConnectionId, Driver, DriverEvent, ListenerHandle, WriteError, Writer,
};
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};

/// The jobs, each with its number of outstanding calls.
pub(crate) const JOBS: [(&str, u16); 2] = [("transport/v2-1", 1), ("transport/v2-16", 16)];

/// The number of RPCs after which the settings are negotiated and all buffers have grown.
const WARM_UP: u64 = 2000;
/// A call: XID, CALL, RPC version 2, a program, version 1, procedure 0, no credentials, no
/// verifier.
const CALL: [u32; 10] = [0, 0, 2, 0x2000_0001, 1, 0, 0, 0, 0, 0];
/// A reply after its XID: REPLY, accepted, no verifier, success.
const REPLY: [u32; 5] = [1, 0, 0, 0, 0];
/// The maximum length of a reply, in bytes.
const MAX_REPLY: u32 = 24;
/// Room for the completions of both ends.
const COMPLETIONS: u32 = 4096;

/// RPCs over one connection, with a number of outstanding calls.
pub(crate) struct Transport {
    outstanding: u16,
    ends: RefCell<Ends>,
}

struct Ends {
    client: ConnectionId,
    near: Driver<SoftwareDevice>,
    far: Driver<SoftwareDevice>,
    server: ListenerHandle,
}

impl Transport {
    pub(crate) fn new(outstanding: u16) -> Self {
        let ends = match Ends::new(outstanding) {
            Ok(ends) => ends,
            Err(error) => unreachable!("the software fabric connects: {error}"),
        };
        let transport = Self {
            outstanding,
            ends: RefCell::new(ends),
        };
        transport.run(WARM_UP);
        transport
    }

    /// Completes `times` RPCs.
    pub(crate) fn run(&self, times: u64) {
        let mut ends = self.ends.borrow_mut();
        let (mut begun, mut answered) = (0, 0);
        while answered < times {
            while begun < times && begun - answered < u64::from(self.outstanding) {
                ends.call();
                begun += 1;
            }
            answered += ends.turn();
        }
    }
}

impl Ends {
    fn new(outstanding: u16) -> Result<Self, Box<dyn Error>> {
        let fabric = Fabric::new();
        let mut near = Driver::new(&fabric.device(), &Budget::new(1 << 26), COMPLETIONS)?;
        let mut far = Driver::new(&fabric.device(), &Budget::new(1 << 26), COMPLETIONS)?;
        let serves = Config {
            max_served: outstanding,
            ..Config::server()
        };
        let server = far.listen(SocketAddr::from(([127, 0, 0, 1], 0)), serves)?;
        let calls = Config {
            max_calls: outstanding + 1,
            credits: outstanding.into(),
            ..Config::client()
        };
        let client = near.connect(server.address(), calls)?;
        Ok(Self {
            client,
            near,
            far,
            server,
        })
    }

    fn call(&mut self) {
        let mut params = CallParams::new(MAX_REPLY);
        let write = |writer: &mut Writer<'_>| words(writer, &CALL);
        let begun = self.near.call(self.client, &mut params, write);
        assert!(
            begun.is_ok(),
            "no more calls are outstanding than the settings allow"
        );
    }

    /// Turns both ends once and returns how many calls were answered.
    fn turn(&mut self) -> u64 {
        self.near.flush();
        let turned = self.far.turn();
        self.serve();
        assert!(
            turned.is_ok() && self.near.turn().is_ok(),
            "the software fabric does not fail"
        );
        let mut answered = 0;
        while let Some(event) = self.near.poll_event(self.client) {
            match event {
                DriverEvent::ReplyArrived { xid, message } => {
                    let expected = xid.to_be_bytes();
                    assert_eq!(message.bytes().first_chunk(), Some(&expected));
                    self.near.recycle(self.client, message);
                    answered += 1;
                }
                DriverEvent::CallFailed { error, .. } => {
                    unreachable!("a null call failed: {error}")
                }
                _ => {}
            }
        }
        answered
    }

    /// Answers every call with no results.
    fn serve(&mut self) {
        if let Some(request) = self.far.next_request(self.server) {
            self.far.accept(self.server, request);
        }
        while let Some(id) = self.far.ready_accepted(self.server) {
            while let Some(event) = self.far.poll_event(id) {
                if let DriverEvent::CallArrived { call, xid, message } = event {
                    self.far.recycle(id, message);
                    let write = |writer: &mut Writer<'_>| {
                        words(writer, &[xid])?;
                        words(writer, &REPLY)
                    };
                    let replied = self.far.reply(id, call, write);
                    assert!(replied.is_ok(), "the reply is short");
                }
            }
        }
        self.far.flush();
    }
}

/// Writes words of a message.
fn words(writer: &mut Writer<'_>, words: &[u32]) -> Result<(), WriteError> {
    for word in words {
        writer.bytes(&word.to_be_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_answered() {
        for (_, outstanding) in JOBS {
            let transport = Transport::new(outstanding);
            let sends = || {
                let ends = transport.ends.borrow();
                ends.near
                    .counters(ends.client)
                    .map_or(0, |counters| counters.sends)
            };
            let before = sends();
            transport.run(1000);
            assert_eq!(sends() - before, 1000, "one message a call");
        }
    }
}
