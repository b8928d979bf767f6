//! Whether the peer is still there.

use rpcrdma_proto::connection::{Role, Stage};
use tracing::debug;

use super::{Connection, Work};
use crate::memory::{Lent, Pool};
use crate::provider::{Device, Operation, Remote};
use crate::queue::{Batch, Part};

/// What is known of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// It was heard of, or may still be.
    There,
    /// It does not answer.
    Gone,
}

/// How long a connection is silent.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Silence {
    /// Signs of life when it was looked at last.
    seen: u64,
    /// Times that it was looked at since there was one. The first time, the peer is asked.
    times: u32,
    /// RDMA Reads that were answered.
    pub(super) reads: u64,
}

/// Times that a device that does not acknowledge is given for an answer.
const PATIENCE: u32 = 3;
/// Nowhere: a Write or Read of no octets needs neither address nor key (InfiniBand's C9-88).
const NOWHERE: Remote = Remote { address: 0, key: 0 };

impl<D: Device> Connection<D> {
    /// Asks the peer whether it is there, if it has given no sign of life since the last time.
    pub(crate) fn ask(&mut self, pool: &Pool<D>, batch: &mut Box<Batch>) -> Asked {
        let acknowledges = pool.device().capabilities().acknowledges;
        let seen = self.signs_of_life(acknowledges);
        let is_there = matches!(self.session.stage(), Stage::Up | Stage::Closing);
        // Over iWARP it is the client that has to send first.
        let may_send = acknowledges || self.session.config().role == Role::Client || seen > 0;
        if !is_there || !may_send || seen != self.silence.seen {
            self.silence = Silence { seen, times: 0, ..self.silence };
            return Asked::There;
        }
        self.silence.times = self.silence.times.saturating_add(1);
        // With the queue full, there is enough under way that fails if the peer is gone.
        let has_room = self.has_room();
        match self.silence.times {
            1 if has_room => self.post_question(pool, batch),
            times if times > PATIENCE && !acknowledges => {
                debug!("the peer does not answer");
                Asked::Gone
            }
            _ => Asked::There,
        }
    }

    /// What has come from the peer so far: whatever has completed where that means that the peer has acknowledged it, else what
    /// it has sent or let us read.
    fn signs_of_life(&self, acknowledges: bool) -> u64 {
        if acknowledges { self.counters.completed } else { self.session.counters().received + self.silence.reads }
    }

    /// A connection that begins has not been silent.
    pub(super) fn begin_to_listen(&mut self) {
        let seen = self.signs_of_life(self.pool.device().capabilities().acknowledges);
        self.silence = Silence { seen, times: 0, ..self.silence };
    }

    fn post_question(&mut self, pool: &Pool<D>, batch: &mut Box<Batch>) -> Asked {
        let Some(endpoint) = &mut self.endpoint else { return Asked::There };
        endpoint.exchange(batch);
        if !self.push_question(Work::Question, pool) {
            self.silence.times = 0;
        }
        let Some(endpoint) = &mut self.endpoint else { return Asked::There };
        self.counters.posted += endpoint.waiting() as u64;
        let posted = if endpoint.has_batch() { endpoint.post() } else { Ok(()) };
        endpoint.exchange(batch);
        match posted {
            Ok(()) => Asked::There,
            Err(error) => {
                debug!(%error, "the peer can't be asked");
                Asked::Gone
            }
        }
    }

    /// Adds something to the batch that is done when the peer's device has taken it, and all before it. Without memory it is not
    /// added.
    pub(super) fn push_question(&mut self, work: Work, pool: &Pool<D>) -> bool {
        let Some(endpoint) = &mut self.endpoint else { return false };
        let pushed = if pool.device().capabilities().acknowledges {
            endpoint.push(Operation::Write { to: NOWHERE }, [], true, work)
        } else {
            // A Read has a sink, if it is of nothing.
            let sink = pool.take(1).ok().map(|buf| Part { buf: Lent::from(buf), from: 0, length: 0 });
            sink.is_some_and(|sink| endpoint.push(Operation::Read { from: NOWHERE }, [sink], true, work))
        };
        self.counters.asked += u64::from(pushed);
        pushed
    }
}
