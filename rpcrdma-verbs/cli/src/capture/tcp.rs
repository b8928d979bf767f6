//! Reassembles TCP streams from segments.
//!
//! Each byte of a stream is in exactly one [`StreamPart`], delivered or missing, because `iwarp`
//! finds markers by their position. A missing segment is given up when the peer acknowledges it, or
//! when too much waits: memory stays bounded. Parts of bytes begin at segment boundaries, where
//! `iwarp` looks for an FPDU after a gap.

use std::collections::BTreeMap;

use super::packet::TcpHeader;

/// The maximum bytes that wait for a missing segment before it is given up.
const MAX_WAITING: usize = 1 << 22;

/// The maximum segments that wait.
const MAX_SEGMENTS: usize = 1 << 14;

/// A part of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum StreamPart {
    /// The next bytes. They begin at a segment boundary.
    Bytes(Vec<u8>),
    /// This many bytes are missing in the capture.
    Gap(u64),
}

/// One direction of a connection.
#[derive(Default)]
pub(super) struct Direction {
    /// The sequence number of the first byte, of which the connection's SYN has the one before.
    first: Option<u32>,
    /// The sequence number of the next byte.
    next: Option<u32>,
    /// The segments after a missing one, by their offset from the first captured byte, with the
    /// length of each on the wire.
    waiting: BTreeMap<u64, (Vec<u8>, usize)>,
    waiting_bytes: usize,
    /// The offset of the next byte.
    position: u64,
    /// The sequence number after the last byte that was sent, as far as it is known.
    end: Option<StreamEnd>,
    /// Whether the peer has acknowledged the FIN.
    fin_acknowledged: bool,
}

/// Where a stream ends.
#[derive(Clone, Copy)]
enum StreamEnd {
    /// The peer has acknowledged the bytes before this number. One of them may be a FIN.
    Acknowledged(u32),
    /// The FIN has this number.
    Fin(u32),
}

impl Direction {
    /// Takes a segment with `length` bytes on the wire, of which `payload` was captured.
    pub(super) fn segment(
        &mut self,
        header: TcpHeader,
        payload: &[u8],
        length: usize,
    ) -> Vec<StreamPart> {
        let mut parts = Vec::new();
        let first = first_byte(header);
        self.first.get_or_insert(first);
        if header.fin {
            // Lengths of packets have 16 bits.
            let length = u32::try_from(length).unwrap_or_default();
            self.end = Some(StreamEnd::Fin(first.wrapping_add(length)));
        }
        let next = *self.next.get_or_insert(first);
        let ahead = i64::from(first.wrapping_sub(next).cast_signed());
        // Bytes that were seen before are skipped.
        let seen = usize::try_from(-ahead).unwrap_or(0);
        if length <= seen {
            return parts;
        }
        let bytes = payload.get(seen..).unwrap_or_default().to_vec();
        let missing = (length - seen).saturating_sub(bytes.len());
        let at = self.position.saturating_add_signed(ahead.max(0));
        // Of two segments at the same offset, the longer one is kept.
        let shorter = |(old, _): &(Vec<u8>, usize)| old.len() < bytes.len();
        if self.waiting.get(&at).is_none_or(shorter) {
            self.waiting_bytes += bytes.len();
            if let Some((old, _)) = self.waiting.insert(at, (bytes, missing)) {
                self.waiting_bytes = self.waiting_bytes.saturating_sub(old.len());
            }
        }
        self.deliver(&mut parts);
        while self.waiting_bytes > MAX_WAITING || self.waiting.len() > MAX_SEGMENTS {
            self.skip(u64::MAX, &mut parts);
        }
        parts
    }

    /// Returns true if this segment begins another connection of the same ports: its SYN is not the
    /// one of this connection.
    pub(super) fn is_restarted_by(&self, header: TcpHeader) -> bool {
        header.syn && self.first.is_some_and(|first| first != first_byte(header))
    }

    /// Returns true if the stream has ended: all bytes before its FIN were captured, or the peer
    /// has acknowledged the FIN, so that no other byte will appear in the capture.
    pub(super) fn has_ended(&self) -> bool {
        let Some(StreamEnd::Fin(end)) = self.end else {
            return false;
        };
        self.fin_acknowledged || self.next == Some(end)
    }

    /// Takes an acknowledgement of the peer: missing bytes before it will not appear in the
    /// capture.
    pub(super) fn acknowledged(&mut self, number: u32) -> Vec<StreamPart> {
        let mut parts = Vec::new();
        let after = |at: u32| u32::try_from(number.wrapping_sub(at).cast_signed()).unwrap_or(0);
        while let Some(bytes @ 1..) = self.next.map(after)
            && !self.waiting.is_empty()
        {
            self.skip(bytes.into(), &mut parts);
        }
        let is_later = |end: u32| after(end) > 0;
        if let Some(StreamEnd::Fin(end)) = self.end {
            self.fin_acknowledged |= is_later(end);
        }
        self.end = match self.end {
            Some(StreamEnd::Acknowledged(end)) if !is_later(end) => self.end,
            Some(StreamEnd::Fin(_)) => self.end,
            _ => Some(StreamEnd::Acknowledged(number)),
        };
        parts
    }

    /// Returns the waiting data at the end of the capture or of the stream, and what is missing
    /// after them.
    pub(super) fn finish(&mut self) -> Vec<StreamPart> {
        let mut parts = Vec::new();
        while !self.waiting.is_empty() {
            self.skip(u64::MAX, &mut parts);
        }
        let after = |end: u32| {
            let rest = self.next.map(|next| end.wrapping_sub(next).cast_signed());
            u64::try_from(rest.unwrap_or(0)).unwrap_or(0)
        };
        let missing = match self.end {
            Some(StreamEnd::Fin(end)) => after(end),
            // A single byte may be a FIN that was not captured.
            Some(StreamEnd::Acknowledged(end)) => Some(after(end)).filter(|n| *n > 1).unwrap_or(0),
            None => 0,
        };
        if missing > 0 {
            self.advance(missing);
            parts.push(StreamPart::Gap(missing));
        }
        parts
    }

    /// Gives up the missing bytes before the first waiting segment, at most this number.
    fn skip(&mut self, most: u64, parts: &mut Vec<StreamPart>) {
        let Some((&at, _)) = self.waiting.first_key_value() else {
            return;
        };
        let gap = at.saturating_sub(self.position).min(most);
        if gap > 0 {
            self.advance(gap);
            parts.push(StreamPart::Gap(gap));
        }
        self.deliver(parts);
    }

    fn advance(&mut self, by: u64) {
        self.position = self.position.saturating_add(by);
        // Sequence numbers wrap.
        #[allow(clippy::cast_possible_truncation, reason = "modulo 2^32")]
        let by = by as u32;
        self.next = self.next.map(|next| next.wrapping_add(by));
    }

    /// Delivers the data that follow without a gap.
    fn deliver(&mut self, parts: &mut Vec<StreamPart>) {
        while let Some(entry) = self
            .waiting
            .first_entry()
            .filter(|e| *e.key() <= self.position)
        {
            let (at, (mut bytes, missing)) = entry.remove_entry();
            self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes.len());
            let seen = usize::try_from(self.position - at).unwrap_or(usize::MAX);
            let rest = (bytes.len() + missing).saturating_sub(seen);
            bytes.drain(..seen.min(bytes.len()));
            let missing = rest.saturating_sub(bytes.len());
            self.advance(rest as u64);
            if !bytes.is_empty() {
                parts.push(StreamPart::Bytes(bytes));
            }
            if missing > 0 {
                parts.push(StreamPart::Gap(missing as u64));
            }
        }
    }
}

/// Returns the sequence number of the first byte of a segment.
fn first_byte(header: TcpHeader) -> u32 {
    header.sequence.wrapping_add(u32::from(header.syn))
}

#[cfg(test)]
mod tests {
    use super::{Direction, StreamPart, TcpHeader};

    fn header(sequence: u32, syn: bool) -> TcpHeader {
        TcpHeader {
            sequence,
            acknowledged: None,
            syn,
            fin: false,
            reset: false,
        }
    }

    fn bytes(bytes: &[u8]) -> StreamPart {
        StreamPart::Bytes(bytes.to_vec())
    }

    #[test]
    fn segments_are_reordered() {
        let mut stream = Direction::default();
        assert_eq!(stream.segment(header(u32::MAX - 1, true), &[], 0), []);
        // The sequence numbers wrap between these segments.
        assert_eq!(stream.segment(header(1, false), b"cd", 2), []);
        assert_eq!(stream.segment(header(3, false), b"ef", 2), []);
        let parts = stream.segment(header(u32::MAX, false), b"ab", 2);
        assert_eq!(parts, [bytes(b"ab"), bytes(b"cd"), bytes(b"ef")]);
        // A retransmission with more data.
        assert_eq!(stream.segment(header(3, false), b"ef", 2), []);
        assert_eq!(stream.segment(header(3, false), b"efg", 3), [bytes(b"g")]);
    }

    #[test]
    fn acknowledged_but_uncaptured_bytes_are_missing() {
        let mut stream = Direction::default();
        assert_eq!(stream.segment(header(0, false), b"ab", 2), [bytes(b"ab")]);
        assert_eq!(stream.segment(header(5, false), b"fg", 2), []);
        assert_eq!(stream.acknowledged(2), []);
        assert_eq!(stream.acknowledged(5), [StreamPart::Gap(3), bytes(b"fg")]);
        assert_eq!(stream.segment(header(9, false), b"j", 1), []);
        assert_eq!(stream.finish(), [StreamPart::Gap(2), bytes(b"j")]);
    }

    /// The bytes behind the acknowledged ones may be retransmitted.
    #[test]
    fn bytes_that_are_not_acknowledged_are_not_missing() {
        let mut stream = Direction::default();
        assert_eq!(stream.segment(header(0, false), b"ab", 2), [bytes(b"ab")]);
        assert_eq!(stream.segment(header(5, false), b"fg", 2), []);
        assert_eq!(stream.acknowledged(3), [StreamPart::Gap(1)]);
        let parts = stream.segment(header(3, false), b"de", 2);
        assert_eq!(parts, [bytes(b"de"), bytes(b"fg")]);
    }

    #[test]
    fn bytes_missing_at_the_end_are_reported() {
        let mut stream = Direction::default();
        assert_eq!(stream.segment(header(7, false), b"ab", 2), [bytes(b"ab")]);
        assert_eq!(stream.acknowledged(9), []);
        assert_eq!(stream.finish(), []);
        // The FIN may be missing.
        assert_eq!(stream.acknowledged(10), []);
        assert_eq!(stream.finish(), []);
        assert_eq!(stream.acknowledged(14), []);
        assert_eq!(stream.acknowledged(12), []);
        assert_eq!(stream.finish(), [StreamPart::Gap(5)]);
        assert_eq!(stream.finish(), []);
        // The FIN follows one byte that is missing.
        let mut fin = header(15, false);
        fin.fin = true;
        assert_eq!(stream.segment(fin, &[], 0), []);
        assert_eq!(stream.acknowledged(16), []);
        assert_eq!(stream.finish(), [StreamPart::Gap(1)]);
    }

    #[test]
    fn truncated_bytes_are_missing() {
        let mut stream = Direction::default();
        let parts = stream.segment(header(0, false), b"ab", 5);
        assert_eq!(parts, [bytes(b"ab"), StreamPart::Gap(3)]);
        assert_eq!(stream.segment(header(5, false), b"f", 1), [bytes(b"f")]);
    }
}
