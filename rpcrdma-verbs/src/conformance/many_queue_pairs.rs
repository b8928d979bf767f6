//! Many queue pairs with one completion queue.

use super::TestBed;
use super::fixture::{CONFIG, Host, connect_hosts, until};
use crate::memory::PostedBuf;
use crate::provider::{
    Completion, CompletionQueue as _, ConnectionEvent, ConnectionManager as _, Device, Operation,
    QueuePair as _, Status,
};
use crate::queue::{BufRange, CompletionKind, Endpoint, tag};

const PAIRS: u32 = 48;
const ROUNDS: u8 = 10;

/// The queue pairs of one host. The tag of each is its index.
struct QueuePairs<D: Device> {
    endpoints: Vec<Option<Endpoint<D, ()>>>,
    host: Host<D>,
}

impl<D: Device> QueuePairs<D> {
    fn send(&mut self, pair: u32, bytes: &[u8]) {
        let buf = PostedBuf::from(self.host.buf(bytes));
        let part = BufRange {
            offset: 0,
            length: buf.len(),
            buf,
        };
        if let Some(endpoint) = self
            .endpoints
            .get_mut(pair as usize)
            .and_then(Option::as_mut)
        {
            endpoint.push_receive(self.host.pool.take(1024).expect("memory"));
            assert!(endpoint.push(Operation::Send { invalidate: None }, [part], true, ()));
            endpoint.post().expect("it can be posted");
        }
    }

    /// Takes completions: the index of the queue pair, and the message or its status.
    fn take(&mut self) -> Vec<(u32, Result<Vec<u8>, Status>)> {
        let mut taken = Vec::new();
        self.host
            .completions
            .poll(&mut taken, 64)
            .expect("no overrun");
        taken
            .iter()
            .filter_map(|completion| self.complete(completion))
            .collect()
    }

    fn complete(&mut self, completion: &Completion) -> Option<(u32, Result<Vec<u8>, Status>)> {
        let pair = tag(completion.id);
        // Completions of a dropped queue pair are ignored.
        let endpoint = self.endpoints.get_mut(pair as usize)?.as_mut()?;
        assert_eq!(completion.queue_pair, endpoint.pair().number());
        match endpoint.complete(completion) {
            CompletionKind::Receive(buf, Status::Success) => Some((pair, Ok(buf.first.to_vec()))),
            CompletionKind::Receive(_, status) => Some((pair, Err(status))),
            CompletionKind::Requests(status) => {
                while endpoint.retire().is_some() {}
                (status != Status::Success).then_some((pair, Err(status)))
            }
            CompletionKind::Unknown => panic!("{completion:?} is of nothing that is posted"),
        }
    }
}

fn all<D: Device>(bed: &TestBed<D>) -> (QueuePairs<D>, QueuePairs<D>) {
    let entries = PAIRS * (CONFIG.sends + CONFIG.receives);
    let (mut near, mut far) = (Host::new(&bed.near, entries), Host::new(&bed.far, entries));
    let to = far.manager.listen(bed.address).expect("it listens");
    let pairs: Vec<_> = (0..PAIRS)
        .map(|_| connect_hosts(&mut near, &mut far, to))
        .collect();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (tag, (one, other)) in (0..).zip(pairs) {
        for (pair, host, ends) in [(one, &near, &mut first), (other, &far, &mut second)] {
            let mut endpoint = Endpoint::new(&host.device, pair, tag);
            for _ in 0..2 {
                endpoint.push_receive(host.pool.take(1024).expect("memory"));
            }
            endpoint.post().expect("receives can be posted");
            ends.push(Some(endpoint));
        }
    }
    (
        QueuePairs {
            endpoints: first,
            host: near,
        },
        QueuePairs {
            endpoints: second,
            host: far,
        },
    )
}

/// Echoes messages on all queue pairs until each has had the given number of rounds.
fn echo<D: Device>(
    near: &mut QueuePairs<D>,
    far: &mut QueuePairs<D>,
    pairs: impl Iterator<Item = u32> + Clone,
) {
    let mut rounds = vec![0u8; PAIRS as usize];
    for pair in pairs.clone() {
        near.send(pair, &[pair as u8, 0]);
    }
    until("the echoes", || {
        for (pair, message) in far.take() {
            far.send(pair, &message.expect("nothing fails"));
        }
        for (pair, message) in near.take() {
            let round = &mut rounds[pair as usize];
            assert_eq!(
                message.expect("nothing fails"),
                [pair as u8, *round],
                "each by its own connection, in order"
            );
            *round += 1;
            if *round < ROUNDS {
                near.send(pair, &[pair as u8, *round]);
            }
        }
        pairs
            .clone()
            .all(|pair| rounds[pair as usize] == ROUNDS)
            .then_some(())
    });
}

pub(super) fn many_queue_pairs_share_a_completion_queue<D: Device>(bed: &TestBed<D>) {
    let (mut near, mut far) = all(bed);
    echo(&mut near, &mut far, 0..PAIRS);
}

pub(super) fn one_of_many_ends_alone<D: Device>(bed: &TestBed<D>) {
    let (mut near, mut far) = all(bed);
    let ended = far.endpoints[7]
        .take()
        .map(|endpoint| endpoint.pair().number());
    assert!(ended.is_some());
    let number = near.endpoints[7]
        .as_ref()
        .map(|endpoint| endpoint.pair().number());
    let event = near.host.event();
    assert!(
        matches!(event, ConnectionEvent::Disconnected { queue_pair } if Some(queue_pair) == number)
    );
    let mut flushed = 0;
    until("the end of what was posted", || {
        flushed += near
            .take()
            .iter()
            .filter(|events| **events == (7, Err(Status::Flushed)))
            .count();
        (flushed == 2).then_some(())
    });
    echo(&mut near, &mut far, (0..PAIRS).filter(|pair| *pair != 7));
    assert!(near.host.poll().is_none(), "no other has ended");
}
