//! Two sessions, joined: each with what its transport would have. Every message is delivered at
//! once, nothing is lost, and memory is numbers. Nothing here allocates for an RPC, so that what a
//! test counts is the engine's.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "a byte is what is wanted")]

use std::collections::{HashMap, HashSet};

use rpcrdma_proto::chunk::{Piece, Segment};
use rpcrdma_proto::connection::{
    Action, BufferDisposition, BufferId, CallFailure, CallLocation, CloseReason, Config, ConnState,
    Event, PayloadPiece, ReplyLocation, Role, SendOwner, ServedCallId, Session, Transmit,
};
use rpcrdma_proto::transfer::{CallSpec, ResultSpec};
use rpcrdma_proto::version::Version;

/// Bytes of each buffer here.
const BUFFER: usize = 1 << 17;
/// Where every exposed segment begins.
pub(crate) const OFFSET: u64 = 4096;

/// A null call of NFS with AUTH_NONE, and the bytes of its reply.
pub(crate) const NULL: CallSpec<'_> = CallSpec {
    length: 40,
    items: &[],
    max_reply: 24,
    results: &[],
    reducible: true,
};
pub(crate) const REPLY: u32 = 24;

/// A call with a Write chunk of one segment, and one with a Reply chunk of one.
pub(crate) const RESULT: CallSpec<'_> = CallSpec {
    length: 160,
    items: &[],
    max_reply: 65_700,
    results: &[ResultSpec::whole_call(65_536)],
    reducible: true,
};
pub(crate) const LONG_REPLY: CallSpec<'_> = CallSpec {
    length: 160,
    items: &[],
    max_reply: 9_000,
    results: &[],
    reducible: true,
};

/// One end: a session, and what its transport would have.
pub(crate) struct End {
    pub(crate) session: Session,
    pub(crate) events: Vec<Event>,
    pub(crate) actions: Vec<Action>,
    pub(crate) now: u64,
    /// The duties of the transport that the test performs itself.
    pub(crate) holds: Holds,
    buffers: u64,
    out: Vec<u8>,
    /// Keys that were invalidated at this end.
    pub(crate) invalidated: Option<u32>,
    /// The contents of each retained buffer.
    pub(crate) kept: HashMap<u64, Vec<u8>>,
    pub(crate) keeps: bool,
    /// The buffers that the session has named since, where they are kept: they are free again.
    pub(crate) named: HashSet<u64>,
}

/// The actions that a transport leaves undone.
#[derive(Clone, Copy, Default)]
pub(crate) struct Holds {
    pub(crate) exposing: bool,
    pub(crate) fencing: bool,
    pub(crate) releasing: bool,
    pub(crate) reading: bool,
}

/// A message in flight.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    pub(crate) what: SendOwner,
    pub(crate) header: usize,
    pub(crate) invalidate: Option<u32>,
}

impl Packet {
    /// A word of the header, by its number.
    pub(crate) fn word(&self, at: usize) -> u32 {
        word(&self.bytes, at)
    }
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[4 * at..][..4].try_into().unwrap())
}

pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A byte of a call or a reply, by its position: the XID and the direction, and then something of
/// its own.
pub(crate) fn byte(xid: u32, reply: bool, at: u32) -> u8 {
    match at {
        0..4 => xid.to_be_bytes()[at as usize],
        4..8 => u32::from(reply).to_be_bytes()[at as usize - 4],
        _ => (at ^ at >> 8 ^ xid) as u8,
    }
}

/// The key of a call's exposed segment, by its number from one.
pub(crate) fn key(xid: u32, number: u32) -> u32 {
    xid ^ number << 24
}

impl End {
    pub(crate) fn new(config: Config) -> Self {
        let room = 8 * usize::from(config.max_calls.max(config.max_served)) + 64;
        Self {
            session: Session::new(config).unwrap(),
            events: Vec::with_capacity(room),
            actions: Vec::with_capacity(room),
            now: 0,
            holds: Holds::default(),
            buffers: 0,
            out: vec![0; BUFFER],
            invalidated: None,
            kept: HashMap::new(),
            keeps: false,
            named: HashSet::new(),
        }
    }

    /// Does what the session wants done, at once.
    pub(crate) fn act(&mut self) {
        while let Some(action) = self.session.poll_action() {
            match &action {
                Action::Expose { xid } if !self.holds.exposing => self.expose(*xid),
                Action::Fence { xid, .. } if !self.holds.fencing => self.session.fenced(*xid),
                Action::Read { call, .. } if !self.holds.reading => self.read(*call),
                Action::Gather { call, .. } if !self.holds.reading => self.session.read_done(*call),
                _ => {}
            }
            if self.keeps {
                self.free_of(&action);
            }
            self.actions.push(action);
        }
        while let Some(event) = self.session.poll_event() {
            if self.keeps {
                self.free_with(&event);
            }
            self.events.push(event);
        }
    }

    fn free_of(&mut self, action: &Action) {
        match action {
            Action::Read { buffer, .. } => self.named.extend([buffer.0]),
            Action::Gather { message, .. } | Action::Free { message } => self
                .named
                .extend(message.buffers.iter().map(|one| one.buffer.0)),
            _ => {}
        }
    }

    fn free_with(&mut self, event: &Event) {
        match event {
            Event::CallArrived {
                message: CallLocation::Inline { buffer, .. },
                ..
            } => self.named.extend([buffer.0]),
            Event::CallArrived {
                message: CallLocation::Reassembled(message),
                ..
            } => {
                self.named
                    .extend(message.buffers.iter().map(|one| one.buffer.0));
            }
            Event::ReplyArrived { reply, .. } => {
                let more = reply
                    .reassembled
                    .iter()
                    .flat_map(|message| &message.buffers);
                self.named.extend(
                    [reply.buffer.0]
                        .into_iter()
                        .chain(more.map(|one| one.buffer.0)),
                );
            }
            Event::Operation { operation } => self.named.extend([operation.buffer.0]),
            _ => {}
        }
    }

    /// Buffers that the session has kept and never named.
    pub(crate) fn forgotten(&self) -> usize {
        self.kept
            .keys()
            .filter(|kept| !self.named.contains(kept))
            .count()
    }

    /// Exposes the requested regions, in one segment each.
    pub(crate) fn expose(&mut self, xid: u32) {
        let mut segments = [Segment::default(); 32];
        let mut count = 0;
        for (number, one) in (1..).zip(self.session.exposures(xid)) {
            segments[count] = Segment {
                handle: key(xid, number),
                length: one.length,
                offset: OFFSET,
            };
            count += 1;
        }
        self.session.exposed(xid, segments[..count].chunks(1));
    }

    /// Puts a call together.
    pub(crate) fn read(&mut self, call: ServedCallId) {
        let pieces = self.session.pieces(call).unwrap();
        let bytes: u32 = pieces
            .map(|piece| match piece {
                Piece::Inline { length, .. } | Piece::Padding { length, .. } => length,
                Piece::Read { from, .. } => from.length,
            })
            .sum();
        assert_eq!(Some(bytes), self.session.call_length(call));
        self.session.read_done(call);
    }

    /// The next message, in this end's own buffer: with an RPC message of zeros behind the XID and
    /// the direction.
    fn next(&mut self) -> Option<(Transmit, usize)> {
        let transmit = loop {
            self.act();
            let transmit = self.session.poll_transmit(self.now, &mut self.out);
            // A message may be missing because an action must be performed first.
            if transmit.is_some() || !self.session.has_actions() {
                break transmit?;
            }
        };
        let (xid, reply) = (
            word(&self.out, 0),
            matches!(transmit.owner, SendOwner::Reply { .. }),
        );
        let mut end = transmit.header;
        for laid in self.session.payload_pieces(&transmit) {
            let (length, from) = match laid {
                PayloadPiece::Bytes(range) | PayloadPiece::Data(range) => {
                    (range.end - range.start, Some(range.start))
                }
                PayloadPiece::Zeros(length) => (length, None),
            };
            for at in 0..length {
                self.out[end + at as usize] = from.map_or(0, |from| byte(xid, reply, from + at));
            }
            end += length as usize;
        }
        if let SendOwner::Reply { call } = transmit.owner {
            for write in self.session.writes(call) {
                assert!(
                    u64::from(write.target.length) + OFFSET >= write.target.offset,
                    "within what was offered"
                );
            }
        }
        if !self.holds.releasing && transmit.is_last() {
            self.released(transmit.owner);
        }
        Some((transmit, end))
    }

    /// A Send is done: as an event, too, if a call has ended with it.
    pub(crate) fn released(&mut self, what: SendOwner) {
        if let (SendOwner::Reply { call }, true) = (what, self.session.released(what)) {
            self.events.push(Event::CallEnded {
                call,
                answered: true,
            });
        }
    }

    /// The next message.
    pub(crate) fn send(&mut self) -> Option<Packet> {
        let (
            Transmit {
                owner: what,
                header,
                invalidate,
                ..
            },
            length,
        ) = self.next()?;
        Some(Packet {
            bytes: self.out[..length].to_vec(),
            what,
            header,
            invalidate,
        })
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.receive_with(bytes, None);
    }

    pub(crate) fn receive_with(&mut self, bytes: &[u8], invalidated: Option<u32>) {
        self.buffers += 1;
        self.invalidated = invalidated.or(self.invalidated);
        let held = self
            .session
            .received(BufferId(self.buffers), bytes, invalidated);
        if self.keeps && held == BufferDisposition::Kept {
            self.kept.insert(self.buffers, bytes.to_vec());
        }
        self.act();
    }

    pub(crate) fn lose(&mut self, now: u64) {
        self.now = now;
        self.session.lost(now, CloseReason::Lost);
        self.act();
    }

    /// The calls that have arrived.
    pub(crate) fn arrived(&mut self) -> Vec<ServedCallId> {
        let mut found = Vec::new();
        while let Some(call) = self.take_arrived() {
            found.push(call);
        }
        found
    }

    /// The first call that has arrived and was not taken yet.
    pub(crate) fn take_arrived(&mut self) -> Option<ServedCallId> {
        let at = self
            .events
            .iter()
            .position(|event| matches!(event, Event::CallArrived { .. }))?;
        match self.events.remove(at) {
            Event::CallArrived { call, .. } => Some(call),
            _ => None,
        }
    }

    /// The replies to a call of this XID.
    pub(crate) fn replies(&self, wanted: u32) -> Vec<ReplyLocation> {
        let replies = self.events.iter().filter_map(|event| match event {
            Event::ReplyArrived { xid, reply } if *xid == wanted => Some(reply.clone()),
            _ => None,
        });
        replies.collect()
    }

    /// Why the calls of this XID have failed.
    pub(crate) fn failures(&self, wanted: u32) -> Vec<CallFailure> {
        let failures = self.events.iter().filter_map(|event| match event {
            Event::CallFailed {
                xid, error: why, ..
            } if *xid == wanted => Some(*why),
            _ => None,
        });
        failures.collect()
    }

    /// Whether the peer may have executed the call of this XID, which has failed.
    pub(crate) fn may_be_executed(&self, wanted: u32) -> Option<bool> {
        self.events.iter().find_map(|event| match event {
            Event::CallFailed { xid, sent, .. } if *xid == wanted => Some(*sent),
            _ => None,
        })
    }

    /// Why the connection is to be closed.
    pub(crate) fn closing(&self) -> Option<CloseReason> {
        self.actions.iter().rev().find_map(|action| match action {
            Action::Close { reason: why } => Some(*why),
            _ => None,
        })
    }
}

/// A client and a server, connected.
pub(crate) fn pair(client: Config, server: Config) -> (End, End) {
    let (mut client, mut server) = (End::new(client), End::new(server));
    client.act();
    assert_eq!(client.actions, [Action::Connect]);
    connect(&mut client, &mut server);
    (client, server)
}

/// Connects two ends that wait for it.
pub(crate) fn connect(client: &mut End, server: &mut End) {
    let now = client.now;
    client
        .session
        .connected(now, server.session.config().private_data())
        .unwrap();
    server
        .session
        .connected(now, client.session.config().private_data())
        .unwrap();
}

/// Loses the connection at both ends, and makes it again when the client wants it.
pub(crate) fn reconnect(client: &mut End, server: &mut End) {
    let now = client.now + 1;
    server.lose(now);
    client.lose(now);
    client.now = client.session.poll_timeout().unwrap_or(now).max(now);
    client.session.timeout(client.now);
    server.now = client.now;
    client.act();
    server.act();
    assert_eq!(
        client.session.state(),
        ConnState::Connecting,
        "a connection is wanted"
    );
    connect(client, server);
}

/// Delivers the next message of one end, if there is one.
pub(crate) fn pass(from: &mut End, to: &mut End) -> bool {
    let Some((transmit, length)) = from.next() else {
        return false;
    };
    to.receive_with(&from.out[..length], transmit.invalidate);
    true
}

/// Delivers all there is, until both are silent; how many messages it was.
pub(crate) fn exchange(client: &mut End, server: &mut End) -> usize {
    for count in 0..100_000 {
        if !pass(client, server) && !pass(server, client) {
            return count;
        }
    }
    panic!("they never fall silent");
}

/// Settled: the version is known, and the properties are exchanged.
pub(crate) fn settled(client: Config, server: Config) -> (End, End) {
    let (mut client, mut server) = pair(client, server);
    exchange(&mut client, &mut server);
    (client, server)
}

/// Two connected ends, after the client has announced that it accepts calls and the server has sent
/// one.
pub(crate) fn both_ways(client: Config, server: Config) -> (End, End) {
    let (mut client, mut server) = settled(client, server);
    client.session.call(&NULL, None).unwrap();
    exchange(&mut client, &mut server);
    let call = server.arrived()[0];
    assert!(server.session.peer_ready(call));
    server.session.reply(call, REPLY, &[]).unwrap();
    exchange(&mut client, &mut server);
    works(&mut server, &mut client);
    (client, server)
}

/// A call from one end to the other, and its reply: it is answered, once.
pub(crate) fn works(client: &mut End, server: &mut End) {
    let xid = client.session.call(&NULL, None).unwrap();
    exchange(client, server);
    let calls = server.arrived();
    server
        .session
        .reply(*calls.last().unwrap(), REPLY, &[])
        .unwrap();
    exchange(client, server);
    assert_eq!(
        (client.replies(xid).len(), client.failures(xid)),
        (1, vec![])
    );
}

/// As many calls at once as there are credits for.
pub(crate) fn works_all(client: &mut End, server: &mut End) {
    let calls: Vec<u32> = (0..client.session.available_credits())
        .map(|_| client.session.call(&NULL, None).unwrap())
        .collect();
    exchange(client, server);
    for call in server.arrived() {
        let _ = server.session.reply(call, REPLY, &[]);
    }
    exchange(client, server);
    assert!(calls.iter().all(|xid| client.replies(*xid).len() == 1));
}

/// Version One at one end: there is nothing to negotiate.
pub(crate) fn one(config: Config) -> Config {
    Config {
        max_version: Version::One,
        ..config
    }
}

pub(crate) fn role(end: &End) -> Role {
    end.session.config().role
}
