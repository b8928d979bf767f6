//! Broken messages are reported, and retransmitted by another method. The scenes use two engines
//! without a transport, because no transport would break a message.

use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{
    Action, BufferId, Config, Event, Exposure, PayloadPiece, SendOwner, Session,
};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::transfer::CallSpec;
use rpcrdma_verbs::dump::Dump;

use super::check;
use crate::test_pair::{LoggedMessage, MessageLog, TestPair};

/// Two engines, with the messages between them.
struct EnginePair {
    ends: [Session; 2],
    chart: MessageLog,
    buffers: u64,
    /// The number of transmissions of a message that are delivered before one is lost.
    loses: Option<u32>,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

impl EnginePair {
    fn new(chart: &MessageLog) -> Result<Self, String> {
        let session = |config: Config| {
            Session::new(config.with_rtr(RtrExtConfig::ALL)).map_err(|error| error.to_string())
        };
        let ends = [session(Config::client())?, session(Config::server())?];
        let mut wire = Self {
            ends,
            chart: chart.clone(),
            buffers: 0,
            loses: None,
        };
        let private = [
            wire.ends[SERVER].config().private_data(),
            wire.ends[CLIENT].config().private_data(),
        ];
        for (end, private) in wire.ends.iter_mut().zip(private) {
            while end.poll_action().is_some() {}
            end.connected(0, private)
                .map_err(|error| error.to_string())?;
        }
        Ok(wire)
    }

    /// Delivers all messages of both ends, and returns their events.
    fn exchange(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let mut silent = 0;
        while silent < 2 {
            for from in [CLIENT, SERVER] {
                silent = if self.pass(from) { 0 } else { silent + 1 };
                for end in &mut self.ends {
                    events.extend(std::iter::from_fn(|| end.poll_event()));
                }
            }
        }
        events
    }

    /// Performs the actions of one end, and delivers its next message.
    fn pass(&mut self, from: usize) -> bool {
        let (mut out, end) = (vec![0; 8192], &mut self.ends[from]);
        while let Some(action) = end.poll_action() {
            match action {
                Action::Expose { xid } => {
                    let memory = |exposure: Exposure| {
                        [Segment {
                            handle: 1,
                            length: exposure.length,
                            offset: 0,
                        }]
                    };
                    let segments: Vec<_> = end.exposures(xid).map(memory).collect();
                    end.exposed(xid, segments.iter().map(<[Segment; 1]>::as_slice));
                }
                Action::Fence { xid, .. } => end.fenced(xid),
                Action::Read { call, .. } => end.read_done(call),
                _ => {}
            }
        }
        let Some(transmit) = end.poll_transmit(0, &mut out) else {
            return end.has_actions();
        };
        let mut bytes = out[..transmit.header].to_vec();
        let reply = matches!(transmit.owner, SendOwner::Reply { .. });
        for laid in end.payload_pieces(&transmit) {
            // An RPC message of zeros after its XID and direction.
            let (length, first) = match laid {
                PayloadPiece::Bytes(range) | PayloadPiece::Data(range) => {
                    (range.end - range.start, range.start == 0)
                }
                PayloadPiece::Zeros(count) => (count, false),
            };
            let begin = bytes.len();
            bytes.resize(begin + length as usize, 0);
            if first {
                bytes.copy_within(..4, begin);
                bytes[begin + 7] = u8::from(reply);
            }
        }
        if transmit.is_last() {
            end.released(transmit.owner);
        }
        let lost = transmit
            .transmission
            .is_some_and(|share| Some(share.number) == self.loses);
        let arrow = if from == CLIENT {
            "client ---->"
        } else {
            "<---- server"
        };
        let end = if lost { "   (lost)" } else { "" };
        self.chart.lock().push(LoggedMessage {
            text: format!("{arrow}  {}{end}", Dump::new(&bytes)),
            from_client: from == CLIENT,
            bytes: bytes.clone(),
        });
        if lost {
            self.loses = None;
        } else {
            self.buffers += 1;
            let _ = self.ends[1 - from].received(BufferId(self.buffers), &bytes, None);
        }
        true
    }

    /// Negotiates the version, and lets both ends advertise their properties.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..2 {
            self.round(100, 100)?;
        }
        Ok(())
    }

    /// Makes a call, and returns the client's events.
    fn round(&mut self, length: u32, reply: u32) -> Result<Vec<Event>, String> {
        let call = CallSpec {
            length,
            items: &[],
            max_reply: reply,
            results: &[],
            reducible: true,
        };
        self.ends[CLIENT]
            .call(&call, None)
            .map_err(|error| error.to_string())?;
        let mut events = self.exchange();
        let arrived = events.iter().find_map(|event| match event {
            Event::CallArrived { call, .. } => Some(*call),
            _ => None,
        });
        let call = arrived.ok_or("the call did not arrive")?;
        self.ends[SERVER]
            .reply(call, reply, &[])
            .map_err(|error| error.to_string())?;
        events.extend(self.exchange());
        Ok(events)
    }
}

fn is_answered(events: &[Event]) -> bool {
    events
        .iter()
        .any(|event| matches!(event, Event::ReplyArrived { .. }))
}

fn is_reported(events: &[Event]) -> bool {
    events.iter().any(|event| {
        matches!(
            event,
            Event::GroupFailed {
                sent_here: true,
                ..
            }
        )
    })
}

/// The third of three transmissions arrives second: the call is retransmitted with a Read chunk.
pub(super) fn call(world: &mut TestPair) -> Result<(), String> {
    let mut wire = EnginePair::new(&world.chart)?;
    wire.settle()?;
    world.chart.lock().clear();
    wire.loses = Some(1);
    let events = wire.round(9_000, 100)?;
    check(is_reported(&events), "it was not reported")?;
    check(
        is_answered(&events),
        "it was not answered when it went again",
    )
}

/// The reply cannot be retransmitted, because it does not fit one Send: an error ends the call.
pub(super) fn reply(world: &mut TestPair) -> Result<(), String> {
    let mut wire = EnginePair::new(&world.chart)?;
    wire.settle()?;
    world.chart.lock().clear();
    wire.loses = Some(1);
    let events = wire.round(100, 9_000)?;
    check(is_reported(&events), "it was not reported")?;
    check(!is_answered(&events), "it was answered all the same")?;
    check(
        events
            .iter()
            .any(|event| matches!(event, Event::CallFailed { .. })),
        "the call has not ended",
    )
}
