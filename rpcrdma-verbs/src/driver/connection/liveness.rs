//! Keep-alive of one connection: which activity shows that the peer is alive, and how it is probed.
//!
//! `driver::keepalive` calls `check_alive` once per interval, and closes the connection on
//! `Unresponsive`. The completion of a probe must count as activity, or an idle peer counts as
//! dead. `Connection::close` also uses `push_probe`, to wait until the peer has processed all
//! requests.

use rpcrdma_proto::connection::{ConnState, Role};
use tracing::debug;

use super::{Connection, WrContext};
use crate::memory::PostedBuf;
use crate::provider::{Device, Operation, QueuePair as _, RemoteMemory};
use crate::queue::{Batch, BufRange, Endpoint};

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProbeResult {
    /// The peer has shown activity, or may still do so.
    Alive,
    /// The peer does not answer.
    Unresponsive,
}

/// The idle time of a connection.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct IdleTracker {
    /// The activity at the last check.
    last_activity: u64,
    /// The number of checks since the last activity. The first of them probes the peer.
    idle_checks: u32,
    /// RDMA Reads that have completed.
    pub(super) reads: u64,
}

/// The number of checks within which a device that does not acknowledge must answer.
const MAX_UNANSWERED: u32 = 3;
/// A Write or Read of no bytes needs neither address nor key (InfiniBand's C9-88).
const NULL_REMOTE: RemoteMemory = RemoteMemory { address: 0, key: 0 };

impl<D: Device> Connection<D> {
    /// Checks whether the peer is alive, and probes it if there was no activity since the last
    /// check.
    pub(crate) fn check_alive(&mut self, batch: &mut Box<Batch>) -> ProbeResult {
        let acknowledges = self.pool.device().capabilities().acknowledges;
        let activity = self.activity(acknowledges);
        let is_there = matches!(self.session.state(), ConnState::Up | ConnState::Closing);
        if !is_there
            || !self.may_probe(acknowledges, activity)
            || activity != self.idle.last_activity
        {
            self.idle = IdleTracker {
                last_activity: activity,
                idle_checks: 0,
                ..self.idle
            };
            return ProbeResult::Alive;
        }
        self.idle.idle_checks = self.idle.idle_checks.saturating_add(1);
        // If the queue is full, a request in flight fails if the peer is gone.
        let has_room = self.has_room();
        match self.idle.idle_checks {
            1 if has_room => self.post_probe(batch),
            times if times > MAX_UNANSWERED && !acknowledges => {
                debug!("the peer does not answer");
                ProbeResult::Unresponsive
            }
            _ => ProbeResult::Alive,
        }
    }

    /// Returns true if this end may send. On iWARP the accepting end may not send before the first
    /// FPDU of its peer (RFC 5044, section 7.1.2).
    fn may_probe(&self, acknowledges: bool, activity: u64) -> bool {
        let has_sent = |endpoint: &Endpoint<D, WrContext>| endpoint.pair().peer_has_sent();
        acknowledges
            || self.session.config().role == Role::Client
            || activity > 0
            || self.endpoint.as_ref().is_some_and(has_sent)
    }

    /// Returns a count of the activity of the peer. On a device that acknowledges, this is the
    /// number of completions; on others, the messages that the peer has sent and the Reads that it
    /// has answered.
    fn activity(&self, acknowledges: bool) -> u64 {
        if acknowledges {
            self.counters.completed
        } else {
            self.session.counters().received + self.idle.reads
        }
    }

    /// Resets the idle time, for a new connection.
    pub(super) fn reset_idle(&mut self) {
        let activity = self.activity(self.pool.device().capabilities().acknowledges);
        self.idle = IdleTracker {
            last_activity: activity,
            idle_checks: 0,
            ..self.idle
        };
    }

    fn post_probe(&mut self, batch: &mut Box<Batch>) -> ProbeResult {
        let Some(endpoint) = &mut self.endpoint else {
            return ProbeResult::Alive;
        };
        endpoint.swap_batch(batch);
        if !self.push_probe(WrContext::Probe) {
            self.idle.idle_checks = 0;
        }
        let Some(endpoint) = &mut self.endpoint else {
            return ProbeResult::Alive;
        };
        self.counters.posted += endpoint.pending_requests() as u64;
        let posted = if endpoint.has_batch() {
            endpoint.post()
        } else {
            Ok(())
        };
        endpoint.swap_batch(batch);
        match posted {
            Ok(()) => ProbeResult::Alive,
            Err(error) => {
                debug!(%error, "the peer can't be asked");
                ProbeResult::Unresponsive
            }
        }
    }

    /// Adds a request that completes when the peer's device has processed it and all earlier
    /// requests. Returns false if there is no memory, or if the peer's device cannot be asked.
    pub(super) fn push_probe(&mut self, work: WrContext) -> bool {
        let Some(endpoint) = &mut self.endpoint else {
            return false;
        };
        let pushed = if self.pool.device().capabilities().acknowledges {
            endpoint.push(Operation::Write { to: NULL_REMOTE }, [], true, work)
        } else if !endpoint.pair().can_read() {
            false
        } else {
            // A Read of no bytes still has a sink.
            let sink = self.pool.take(1).ok().map(|buf| BufRange {
                buf: PostedBuf::from(buf),
                offset: 0,
                length: 0,
            });
            sink.is_some_and(|sink| {
                endpoint.push(Operation::Read { from: NULL_REMOTE }, [sink], true, work)
            })
        };
        self.counters.probes += u64::from(pushed);
        pushed
    }
}
