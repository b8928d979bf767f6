//! Two sessions, joined: what a caller sees of the engine. Every message is delivered at once, nothing is lost, and memory is
//! numbers: the simulator (`simulation.rs`) has the rest.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rpcrdma_proto::chunk::{Piece, Segment};
use rpcrdma_proto::connection::{Action, Buffer, Config, Event, Held, Message, Reason, Role, Sent, Served, Session};
use rpcrdma_proto::travel::{Call, Item};
use rpcrdma_proto::version::Version;

/// One end: a session, and what its transport would have.
struct End {
    session: Session,
    events: Vec<Event>,
    actions: Vec<Action>,
    buffers: u64,
}

impl End {
    fn new(config: Config) -> Self {
        Self { session: Session::new(config).unwrap(), events: Vec::new(), actions: Vec::new(), buffers: 0 }
    }

    /// Does what the session wants done, at once.
    fn act(&mut self) {
        while let Some(action) = self.session.poll_action() {
            match &action {
                Action::Expose { xid } => {
                    let exposures: Vec<_> = self.session.exposures(*xid).collect();
                    let segments: Vec<_> = (1..)
                        .zip(&exposures)
                        .map(|(number, one)| [Segment { handle: *xid ^ number, length: one.length, offset: 4096 }])
                        .collect();
                    self.session.exposed(*xid, segments.iter().map(<[Segment; 1]>::as_slice));
                }
                Action::Fence { xid, .. } => self.session.fenced(*xid),
                Action::Read { call, .. } => {
                    let pieces: u32 = self
                        .session
                        .pieces(*call)
                        .unwrap()
                        .map(|piece| match piece {
                            Piece::Inline { length, .. } | Piece::Padding { length, .. } => length,
                            Piece::Read { from, .. } => from.length,
                        })
                        .sum();
                    assert_eq!(Some(pieces), self.session.length(*call));
                    self.session.moved(*call);
                }
                _ => {}
            }
            self.actions.push(action);
        }
        while let Some(event) = self.session.poll_event() {
            self.events.push(event);
        }
    }

    /// The next message, with an RPC message of zeros behind the XID and the direction.
    fn send(&mut self) -> Option<Vec<u8>> {
        self.act();
        let mut message = vec![0; 8192];
        let transmit = self.session.poll_transmit(0, &mut message)?;
        let inline: u32 = self.session.parts(transmit.what).map(|part| part.end - part.start).sum();
        let end = transmit.header + inline as usize;
        if inline > 0 {
            let xid: [u8; 4] = message[..4].try_into().unwrap();
            let reply = matches!(transmit.what, Sent::Reply { .. });
            message[transmit.header..][..4].copy_from_slice(&xid);
            message[transmit.header + 4..][..4].copy_from_slice(&u32::from(reply).to_be_bytes());
        }
        message.truncate(end);
        self.session.released(transmit.what);
        Some(message)
    }

    fn receive(&mut self, message: &[u8]) {
        self.buffers += 1;
        let _: Held = self.session.received(Buffer(self.buffers), message, None);
        self.act();
    }

    /// The calls that have arrived.
    fn arrived(&mut self) -> Vec<Served> {
        let calls = self.events.iter().filter_map(|event| match event {
            Event::CallArrived { call, .. } => Some(*call),
            _ => None,
        });
        let calls = calls.collect();
        self.events.retain(|event| !matches!(event, Event::CallArrived { .. }));
        calls
    }
}

/// A client and a server, connected.
fn pair(client: Config, server: Config) -> (End, End) {
    let (mut client, mut server) = (End::new(client), End::new(server));
    client.act();
    assert_eq!(client.actions, [Action::Connect]);
    client.session.connected(0, server.session.config().private_data()).unwrap();
    server.session.connected(0, client.session.config().private_data()).unwrap();
    (client, server)
}

/// Delivers all there is, until both are silent; how many messages it was.
fn exchange(client: &mut End, server: &mut End) -> usize {
    let mut count = 0;
    loop {
        let (there, back) = (client.send(), server.send());
        if there.is_none() && back.is_none() {
            return count;
        }
        count += usize::from(there.is_some()) + usize::from(back.is_some());
        there.iter().for_each(|message| server.receive(message));
        back.iter().for_each(|message| client.receive(message));
    }
}

const NULL: Call<'_> = Call { length: 40, items: &[], largest_reply: 24, results: &[], reducible: true };

#[test]
fn version_two_is_found_out_and_a_call_answered() {
    let (mut client, mut server) = pair(Config::client(), Config::server());
    let xid = client.session.call(&NULL, None).unwrap();
    // ROPT_REQPROP, ROPT_RESPROP, both ROPT_CONNPROP, and the call.
    assert_eq!(exchange(&mut client, &mut server), 5);
    assert_eq!(client.session.version(), Some(Version::Two));
    let calls = server.arrived();
    server.session.reply(calls[0], 24, &[]).unwrap();
    assert_eq!(exchange(&mut client, &mut server), 1);
    assert!(
        client
            .events
            .iter()
            .any(|event| matches!(event, Event::ReplyArrived { xid: answered, .. } if *answered == xid))
    );
    assert_eq!(client.session.open(), (0, 0));
    assert_eq!(server.session.open(), (0, 0));
}

#[test]
fn a_server_of_version_one_is_spoken_to_in_it() {
    let server = Config { highest: Version::One, ..Config::server() };
    for properties in [true, false] {
        let (mut client, mut server) = pair(Config { properties, ..Config::client() }, server.clone());
        let xid = client.session.call(&NULL, None).unwrap();
        // The question, ERR_VERS, and the call in Version One.
        assert_eq!(exchange(&mut client, &mut server), 3);
        assert_eq!(client.session.version(), Some(Version::One));
        let calls = server.arrived();
        server.session.reply(calls[0], 24, &[]).unwrap();
        exchange(&mut client, &mut server);
        let answered = |event: &Event| matches!(event, Event::ReplyArrived { xid: answered, .. } if *answered == xid);
        assert_eq!(client.events.iter().filter(|event| answered(event)).count(), 1);
    }
}

#[test]
fn items_and_results_are_moved_apart() {
    let (mut client, mut server) = pair(Config::client(), Config::server());
    let data = Item { position: 120, length: 65_535 };
    let write = Call { length: 65_656, items: &[data], largest_reply: 200, results: &[], reducible: true };
    let read = Call { length: 160, items: &[], largest_reply: 65_700, results: &[65_536], reducible: true };
    let long = Call { length: 9_000, items: &[], largest_reply: 9_000, results: &[], reducible: true };
    for call in [write, read, long] {
        client.session.call(&call, None).unwrap();
    }
    exchange(&mut client, &mut server);
    let calls = server.arrived();
    let lengths: Vec<_> = calls.iter().map(|call| server.session.length(*call).unwrap()).collect();
    assert_eq!(lengths, [65_656, 160, 9_000]);
    server.session.reply(calls[0], 200, &[]).unwrap();
    server.session.reply(calls[1], 65_664, &[Item { position: 128, length: 65_530 }]).unwrap();
    server.session.reply(calls[2], 9_000, &[]).unwrap();
    exchange(&mut client, &mut server);
    let replies = client.events.iter().filter_map(|event| match event {
        Event::ReplyArrived { reply, .. } => Some((reply.inline.len(), reply.long, reply.results.to_vec())),
        _ => None,
    });
    let replies: Vec<_> = replies.collect();
    assert_eq!(replies, [(200, None, vec![]), (132, None, vec![65_530]), (0, Some(9_000), vec![])]);
}

#[test]
fn a_server_calls_back_once_its_peer_is_ready() {
    let (mut client, mut server) = pair(Config::client(), Config::server());
    client.session.call(&NULL, None).unwrap();
    server.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    assert!(client.arrived().is_empty(), "not before the peer's consumer has said so");
    let said_in = server.arrived()[0];
    assert!(server.session.peer_ready(said_in));
    server.session.reply(said_in, 24, &[]).unwrap();
    exchange(&mut client, &mut server);
    let back = client.arrived();
    client.session.reply(back[0], 24, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert!(server.events.iter().any(|event| matches!(event, Event::ReplyArrived { .. })));
}

#[test]
fn calls_outlive_a_connection() {
    let (mut client, mut server) = pair(Config::client(), Config::server());
    let xid = client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    server.session.lost(10, Reason::Lost);
    client.session.lost(10, Reason::Lost);
    client.act();
    server.act();
    let late = server.arrived()[0];
    assert!(server.session.reply(late, 24, &[]).is_err(), "the connection of the call is gone");
    client.session.timeout(client.session.poll_timeout().unwrap());
    client.act();
    assert_eq!(client.actions.last(), Some(&Action::Connect));
    client.session.connected(200_000, server.session.config().private_data()).unwrap();
    server.session.connected(200_000, client.session.config().private_data()).unwrap();
    exchange(&mut client, &mut server);
    let again = server.arrived();
    server.session.reply(again[0], 24, &[]).unwrap();
    exchange(&mut client, &mut server);
    let ends = |event: &&Event| matches!(event, Event::ReplyArrived { xid: answered, .. } if *answered == xid);
    assert_eq!(client.events.iter().filter(ends).count(), 1);
}

#[test]
fn a_session_that_drains_ends_with_a_reason() {
    let (mut client, mut server) = pair(Config::client(), Config::server());
    client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    client.session.drain();
    assert!(client.session.call(&NULL, None).is_err());
    let calls = server.arrived();
    server.session.reply(calls[0], 24, &[]).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(client.actions.last(), Some(&Action::Close { why: Reason::Drained }));
    client.session.lost(20, Reason::Lost);
    client.act();
    assert_eq!(client.events.last(), Some(&Event::Closed { why: Reason::Drained, last: true }));
    assert!(matches!(server.session.config().role, Role::Server));
    let _ = Message::Placed { length: 0 };
}
