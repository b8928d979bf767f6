//! What is broken on its way is reported, and goes again by other means: between two engines without a transport, since none
//! would break it.

use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{Action, Buffer, Config, Event, Exposure, Laid, Sent, Session};
use rpcrdma_proto::continuation::Rtr;
use rpcrdma_proto::travel::Call;
use rpcrdma_verbs::dump::Dump;
use rpcrdma_verbs::provider::Device;

use super::check;
use crate::world::{Chart, World};

/// Two ends, and what they send each other.
struct Wire {
    ends: [Session; 2],
    chart: Chart,
    buffers: u64,
    /// How many transmissions of a message go before one is lost.
    loses: Option<u32>,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

impl Wire {
    fn new(chart: &Chart) -> Result<Self, String> {
        let session = |config: Config| Session::new(config.with_rtr(Rtr::ALL)).map_err(|error| error.to_string());
        let ends = [session(Config::client())?, session(Config::server())?];
        let mut wire = Self { ends, chart: chart.clone(), buffers: 0, loses: None };
        let private = [wire.ends[SERVER].config().private_data(), wire.ends[CLIENT].config().private_data()];
        for (end, private) in wire.ends.iter_mut().zip(private) {
            while end.poll_action().is_some() {}
            end.connected(0, private).map_err(|error| error.to_string())?;
        }
        Ok(wire)
    }

    /// Delivers all that both ends have to say; what the ends are told.
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

    /// Does what one end wants done, and delivers its next message.
    fn pass(&mut self, from: usize) -> bool {
        let (mut out, end) = (vec![0; 8192], &mut self.ends[from]);
        while let Some(action) = end.poll_action() {
            match action {
                Action::Expose { xid } => {
                    let memory = |exposure: Exposure| [Segment { handle: 1, length: exposure.length, offset: 0 }];
                    let segments: Vec<_> = end.exposures(xid).map(memory).collect();
                    end.exposed(xid, segments.iter().map(<[Segment; 1]>::as_slice));
                }
                Action::Fence { xid, .. } => end.fenced(xid),
                Action::Read { call, .. } => end.moved(call),
                _ => {}
            }
        }
        let Some(transmit) = end.poll_transmit(0, &mut out) else { return end.has_actions() };
        let mut octets = out[..transmit.header].to_vec();
        let reply = matches!(transmit.what, Sent::Reply { .. });
        for laid in end.laid(&transmit) {
            // An RPC message of zeros behind its XID and direction.
            let (length, first) = match laid {
                Laid::Octets(range) | Laid::Data(range) => (range.end - range.start, range.start == 0),
                Laid::Zeros(count) => (count, false),
            };
            let begin = octets.len();
            octets.resize(begin + length as usize, 0);
            if first {
                octets.copy_within(..4, begin);
                octets[begin + 7] = u8::from(reply);
            }
        }
        if transmit.is_last() {
            end.released(transmit.what);
        }
        let lost = transmit.share.is_some_and(|share| Some(share.number) == self.loses);
        let arrow = if from == CLIENT { "client ---->" } else { "<---- server" };
        let end = if lost { "   (lost)" } else { "" };
        self.chart.borrow_mut().push(format!("{arrow}  {}{end}", Dump::new(&octets)));
        if lost {
            self.loses = None;
        } else {
            self.buffers += 1;
            let _ = self.ends[1 - from].received(Buffer(self.buffers), &octets, None);
        }
        true
    }

    /// Settles the version, and lets the ends tell what they can.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..2 {
            self.round(100, 100)?;
        }
        Ok(())
    }

    /// A call and its reply: what the client is told.
    fn round(&mut self, length: u32, reply: u32) -> Result<Vec<Event>, String> {
        let call = Call { length, items: &[], largest_reply: reply, results: &[], reducible: true };
        self.ends[CLIENT].call(&call, None).map_err(|error| error.to_string())?;
        let mut events = self.exchange();
        let arrived = events.iter().find_map(|event| match event {
            Event::CallArrived { call, .. } => Some(*call),
            _ => None,
        });
        let call = arrived.ok_or("the call did not arrive")?;
        self.ends[SERVER].reply(call, reply, &[]).map_err(|error| error.to_string())?;
        events.extend(self.exchange());
        Ok(events)
    }
}

fn is_answered(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::ReplyArrived { .. }))
}

fn is_reported(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::Broken { ours: true, .. }))
}

/// The third of three transmissions is the second to come: the call goes again as a chunk to be read.
pub(super) fn call<D: Device>(world: &mut World<D>) -> Result<(), String> {
    let mut wire = Wire::new(&world.chart)?;
    wire.settle()?;
    world.chart.borrow_mut().clear();
    wire.loses = Some(1);
    let events = wire.round(9_000, 100)?;
    check(is_reported(&events), "it was not reported")?;
    check(is_answered(&events), "it was not answered when it went again")
}

/// The reply can't go again, as it does not fit one Send: an error ends the call.
pub(super) fn reply<D: Device>(world: &mut World<D>) -> Result<(), String> {
    let mut wire = Wire::new(&world.chart)?;
    wire.settle()?;
    world.chart.borrow_mut().clear();
    wire.loses = Some(1);
    let events = wire.round(100, 9_000)?;
    check(is_reported(&events), "it was not reported")?;
    check(!is_answered(&events), "it was answered all the same")?;
    check(events.iter().any(|event| matches!(event, Event::CallFailed { .. })), "the call has not ended")
}
