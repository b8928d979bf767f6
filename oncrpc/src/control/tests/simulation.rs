//! A simulation of connections at their limits. They are polled in random orders, and only when
//! they are woken or have changed.

use std::collections::VecDeque;
use std::pin::Pin;

use super::*;
use crate::permit::CallPermit;

const MAX: usize = 1 << 20;
const PEERS: u8 = 4;
const CONNECTIONS: u8 = 24;
const RECORDS: usize = 20;

/// A random sequence.
struct Random(u64);

impl Random {
    /// Returns the next number below a bound.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

/// A connection whose client sends long records one after the other.
struct Simulated {
    permit: Arc<ConnectionPermit>,
    host: u8,
    /// The records that are not read yet, and the size of the next.
    left: usize,
    size: usize,
    /// Waits to begin a received call if there is one, otherwise to read a record.
    wait: Option<Pin<Box<dyn Future<Output = ()>>>>,
    received: VecDeque<CallPermit>,
    calls: Vec<CallPermit>,
    outgoing: usize,
    wakes: Arc<Wakes>,
    seen_wakes: usize,
    polls: usize,
}

impl Simulated {
    fn new(control: &ServerControl, number: u8) -> Self {
        let host = number % PEERS;
        Self {
            permit: Arc::new(control.admit(&request(host, 700)).unwrap()),
            host,
            left: RECORDS,
            size: MAX / 2,
            wait: None,
            received: VecDeque::new(),
            calls: Vec::new(),
            outgoing: 0,
            wakes: Arc::default(),
            seen_wakes: 0,
            polls: 0,
        }
    }

    fn may_poll(&self) -> bool {
        let is_woken = self.seen_wakes < self.wakes.0.load(Relaxed);
        let has_work = self.left > 0 || !self.received.is_empty();
        has_work && (self.wait.is_none() || is_woken)
    }

    fn may_change(&self) -> bool {
        self.may_poll() || !self.calls.is_empty() || self.outgoing > 0
    }

    fn poll(&mut self) {
        let (permit, size) = (self.permit.clone(), self.size);
        let begins = !self.received.is_empty();
        let wait = self.wait.get_or_insert_with(|| {
            Box::pin(async move {
                if begins {
                    return permit.ready().await;
                }
                permit.wait(Step::Read).await;
                permit.wait(Step::Reserve(size)).await;
            })
        });
        self.polls += 1;
        self.seen_wakes = self.wakes.0.load(Relaxed);
        let waker = Waker::from(self.wakes.clone());
        if wait.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending {
            return;
        }
        self.wait = None;
        let call = self.received.pop_front().unwrap_or_else(|| {
            self.left -= 1;
            self.permit.arrived(size)
        });
        self.calls.push(call.begin());
    }

    /// Does something at random that needs nobody else.
    fn change(&mut self, random: &mut Random, max_size: usize) {
        match random.below(3) {
            0 if self.may_poll() => {
                if self.wait.is_none() {
                    self.size = (9 << 10) + random.below(max_size);
                }
                return self.poll();
            }
            1 if !self.calls.is_empty() => {
                self.calls.swap_remove(random.below(self.calls.len()));
                self.outgoing += random.below(64 << 10);
            }
            2 if self.outgoing > 0 => self.outgoing = 0,
            _ => return,
        }
        self.permit.set_outgoing(self.outgoing);
        if self.wait.is_some() {
            self.poll();
        }
    }

    /// Reads the next record beyond the limits if it has to wait for them.
    fn exceed(&mut self) {
        if self.wait.is_some() && self.received.len() < 3 && self.left > 0 {
            self.wait = None;
            self.left -= 1;
            self.permit.exceed(self.size);
            self.received.push_back(self.permit.arrived(self.size));
        }
    }

    /// Returns the bytes of received calls.
    fn bytes(&self) -> usize {
        let (_, _, bytes) = self.permit.shared().usage();
        bytes - self.outgoing
    }
}

/// Lets all clients send their records. Calls `check` after each change.
fn simulate(seed: u64, max_size: usize, exceeds: bool, check: impl Fn(&[Simulated])) {
    let limits = ServerLimits::new().max_bytes(2 * MAX);
    let limits = limits.max_bytes_per_peer(MAX).max_bytes_per_connection(MAX);
    let control = ServerControl::new(limits.max_calls(9).max_calls_per_peer(4));
    let connect = |number| Simulated::new(&control, number);
    let mut clients: Vec<_> = (0..CONNECTIONS).map(connect).collect();
    let mut random = Random(seed);
    while clients.iter().any(Simulated::may_change) {
        let client = random.below(clients.len());
        if exceeds && random.below(8) == 0 {
            clients[client].exceed();
        } else {
            clients[client].change(&mut random, max_size);
        }
        check(&clients);
    }
    let unfinished = clients.iter().filter(|client| client.left > 0);
    assert_eq!(unfinished.count(), 0, "connections wait for ever");
    let polls: usize = clients.iter().map(|client| client.polls).sum();
    let records = RECORDS * usize::from(CONNECTIONS);
    assert!(polls <= 6 * records, "{polls} polls of {records} records");
    assert_eq!(control.stats().bytes, 0);
}

/// All records are read with a few polls each, and the bytes of received calls and their number
/// stay within the limits.
#[test]
fn connections_progress_within_the_limits_and_do_not_spin() {
    for seed in 0..40 {
        simulate(seed, MAX - (9 << 10), false, |clients| {
            let over = |host: Option<u8>| {
                let of_host = |client: &&Simulated| host.is_none_or(|host| client.host == host);
                let bytes = clients.iter().filter(of_host).map(Simulated::bytes);
                bytes.map(|bytes| bytes.saturating_sub(OWN)).sum::<usize>()
            };
            assert!(over(None) <= 2 * MAX);
            assert!((0..PEERS).all(|host| over(Some(host)) <= MAX));
            let beyond = |client: &Simulated| client.calls.len().saturating_sub(1);
            assert!(clients.iter().map(beyond).sum::<usize>() <= 9);
        });
    }
}

/// The same progress with records that are larger than the limits, and records that are read beyond
/// them.
#[test]
fn connections_progress_with_records_beyond_the_limits() {
    for seed in 0..40 {
        simulate(seed, 3 * MAX, true, |_| ());
    }
}
