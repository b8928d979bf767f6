//! Nudges: messages of an initiator to a silent peer.
//!
//! Linux's siw (6.1) does not process data that arrive between its MPA Reply and the end of its
//! setup until more data arrive. If the first FPDUs of an initiator get no answer, it sends RDMA
//! Writes of 0 bytes after them (RFC 5040, section 5.1). The STag of such a Write is not checked
//! (RFC 5041, section 5.2).

use std::time::{Duration, Instant};

use rpcrdma_iwarp::{IwarpStream, OutgoingKind};

/// The time without an answer before each nudge.
const DELAYS: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
];

/// The nudges of a queue pair.
#[derive(Debug)]
pub(super) struct Nudges {
    /// The number of remaining nudges.
    left: usize,
    /// The time of the next nudge, if something was sent.
    due: Option<Instant>,
}

impl Nudges {
    /// Creates the nudges of an initiator without peer-to-peer mode, or none.
    pub(super) const fn new(are_sent: bool) -> Self {
        Self {
            left: if are_sent { DELAYS.len() } else { 0 },
            due: None,
        }
    }

    /// Returns the time until [`Self::nudge`] has something to do, if it will.
    ///
    /// The caller sets its timer to it each time: the timers of other queue pairs may have replaced
    /// an earlier one.
    pub(super) fn wait(&mut self, stream: &IwarpStream) -> Option<Duration> {
        if self.left == 0 || stream.positions().0 == 0 {
            return None;
        }
        let now = Instant::now();
        let delay = DELAYS[DELAYS.len() - self.left];
        let due = self.due.get_or_insert_with(|| now + delay);
        Some(due.saturating_duration_since(now))
    }

    /// Queues a message if one is due. There are no more once the peer has sent something.
    pub(super) fn nudge(&mut self, stream: &mut IwarpStream) {
        if self.left == 0 {
            return;
        }
        if stream.has_heard() || stream.has_ended() {
            self.left = 0;
        } else if self.due.is_some_and(|due| due <= Instant::now()) {
            self.due = None;
            self.left -= 1;
            let nothing = OutgoingKind::Write { stag: 0, offset: 0 };
            stream.framer().push_copied(nothing, &[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use rpcrdma_iwarp::{MpaEstablished, ReadDepths};

    use super::*;

    #[test]
    fn a_nudge_is_due_until_it_is_sent() {
        let established = MpaEstablished {
            crc: true,
            markers: false,
            depths: None,
            peer_depths: None,
            rtr: None,
            private_data: Vec::new(),
        };
        let depths = ReadDepths { ird: 1, ord: 1 };
        let mut stream = IwarpStream::initiator(&established, depths, 1448);
        let mut nudges = Nudges::new(true);
        assert_eq!(nudges.wait(&stream), None);
        let nothing = OutgoingKind::Write { stag: 0, offset: 0 };
        assert!(stream.framer().push_copied(nothing, &[]));
        let (_, end) = stream.positions();
        stream.framer().sent(usize::try_from(end).unwrap());
        let first = nudges.wait(&stream).unwrap();
        assert!(first <= DELAYS[0]);
        // The timer of another queue pair has expired in between.
        assert!(nudges.wait(&stream).unwrap() <= first);
        std::thread::sleep(DELAYS[0]);
        nudges.nudge(&mut stream);
        assert!(stream.positions().1 > end);
        assert!(nudges.wait(&stream).unwrap() > DELAYS[0]);
    }
}
