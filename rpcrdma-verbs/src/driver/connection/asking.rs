//! Whether the peer is still there.

use rpcrdma_proto::connection::Stage;
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
    /// Completions when it was looked at last.
    completed: u64,
    /// Times that it was looked at since there was one. The first time, the peer is asked.
    times: u32,
}

/// Times that a device that does not acknowledge is given for an answer.
const PATIENCE: u32 = 3;
/// Nowhere: nothing needs no address and no key (InfiniBand's C9-88).
const NOWHERE: Remote = Remote { address: 0, key: 0 };

impl<D: Device> Connection<D> {
    /// Asks the peer whether it is there, if nothing has completed since the last time.
    pub(crate) fn ask(&mut self, pool: &Pool<D>, batch: &mut Batch) -> Asked {
        let completed = self.counters.completed;
        // Over iWARP it is the client that has to send first.
        let is_used = completed > 0 || self.counters.posted > 0;
        let is_there = matches!(self.session.stage(), Stage::Up | Stage::Closing);
        if !is_there || !is_used || completed != self.silence.completed {
            self.silence = Silence { completed, times: 0 };
            return Asked::There;
        }
        self.silence.times = self.silence.times.saturating_add(1);
        let acknowledges = pool.device().capabilities().acknowledges;
        // With the queue full, there is enough under way that fails if the peer is gone.
        let has_room = self.has_room();
        match self.silence.times {
            1 if has_room => self.post_question(pool, batch),
            times if times > 1 + PATIENCE && !acknowledges => {
                debug!("the peer does not answer");
                Asked::Gone
            }
            _ => Asked::There,
        }
    }

    fn post_question(&mut self, pool: &Pool<D>, batch: &mut Batch) -> Asked {
        let Some(endpoint) = &mut self.endpoint else { return Asked::There };
        endpoint.exchange(batch);
        if !self.push_question(Work::Part, pool) {
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
            endpoint.push(Operation::Write { to: NOWHERE }, &[], true, work)
        } else {
            // A Read has a sink, if it is of nothing.
            let sink = pool.take(1).ok().map(|buf| Part { buf: Lent::from(buf), from: 0, length: 0 });
            sink.is_some_and(|sink| endpoint.push(Operation::Read { from: NOWHERE }, &[sink], true, work))
        };
        self.counters.asked += u64::from(pushed);
        pushed
    }
}
