//! Frames outgoing messages as FPDUs, in pieces for `writev`.
//!
//! `docs/iwarp.md` promises, and the provider relies on it: consecutive copied messages are one
//! piece, so that a batch of them takes one system call. An `emss` of 0 is legal: `mpa.rs` frames a
//! Terminate before the EMSS is known.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::crc::crc;
use crate::segment::{Address, Header, RdmapOpcode, ReadRequestHeader, TAGGED_LEN, UNTAGGED_LEN};
use crate::{Terminate, padding};

/// The distance between the starts of two markers, in bytes (RFC 5044, section 4.3).
const MARKER_DISTANCE: u64 = 512;

/// The bytes of an FPDU besides its ULPDU, padding and markers: the length field and the CRC.
const FPDU_OVERHEAD: usize = 6;

/// Returns the maximum ULPDU in bytes for an EMSS of `emss` bytes (RFC 5044, section 4.5), at least
/// 128 and at most 64768. The FPDU of a ULPDU of 128 bytes exceeds a small `emss`.
pub fn mulpdu(emss: usize, markers: bool) -> usize {
    // rfc: 5041-3-b, 5044-3-b, 5044-3-d, 5044-4.5-a, 5044-4.5-b, 5044-4.5-f, 5044-4.5-g
    let marker_bytes = if markers { 4 * emss.div_ceil(512) } else { 0 };
    emss.saturating_sub(FPDU_OVERHEAD + marker_bytes + emss % 4)
        .clamp(128, 64768)
}

/// The kind of a message with payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutgoingKind {
    /// A Send.
    Send {
        /// Whether to request a solicited event at the peer.
        solicited: bool,
        /// The peer's STag to invalidate.
        invalidate: Option<u32>,
    },
    /// An RDMA Write to the peer's memory.
    Write {
        /// The peer's STag.
        stag: u32,
        /// The tagged offset, in bytes.
        offset: u64,
    },
    /// The response to the peer's RDMA Read Request.
    ReadResponse {
        /// The peer's STag.
        stag: u32,
        /// The tagged offset, in bytes.
        offset: u64,
    },
}

/// A message with payload, and the progress of its framing.
#[derive(Clone, Debug)]
pub struct OutgoingMessage {
    message_id: u64,
    kind: OutgoingKind,
    len: u32,
    framed: u32,
}

impl OutgoingMessage {
    /// Creates a message of `len` bytes. `message_id` identifies its pieces.
    pub const fn new(message_id: u64, kind: OutgoingKind, len: u32) -> Self {
        Self {
            message_id,
            kind,
            len,
            framed: 0,
        }
    }

    /// Returns how many bytes are framed.
    pub const fn framed(&self) -> u32 {
        self.framed
    }

    fn opcode(&self) -> RdmapOpcode {
        // rfc: 5040-4.2-a
        match self.kind {
            OutgoingKind::Write { .. } => RdmapOpcode::Write,
            OutgoingKind::ReadResponse { .. } => RdmapOpcode::ReadResponse,
            OutgoingKind::Send {
                solicited,
                invalidate,
            } => match (solicited, invalidate) {
                (false, None) => RdmapOpcode::Send,
                (false, Some(_)) => RdmapOpcode::SendInvalidate,
                (true, None) => RdmapOpcode::SendSolicited,
                (true, Some(_)) => RdmapOpcode::SendSolicitedInvalidate,
            },
        }
    }

    fn address(&self, msn: u32) -> Address {
        // rfc: 5040-4.1-c, 5040-4.1-d, 5040-4.1-e, 5040-4.1-f, 5040-4.1-g, 5040-5.1-a, 5040-5.1-b
        // rfc: 5040-5.1-h, 5040-5.3-a, 5040-5.3-b, 5040-5.3-g, 5040-5.3-k, 5040-5.3-l, 5041-4.2-b
        // rfc: 5041-4.2-d, 5041-4.2-e, 5041-4.2-g, 5041-4.2-i, 5041-4.2-j, 5041-4.2-k, 5041-4.3-b
        // rfc: 5041-4.3-d, 5041-4.3-f, 5041-4.3-g, 5041-4.3-k, 5041-4.3-l, 5041-4.3-m, 5041-5.2-f
        match self.kind {
            OutgoingKind::Write { stag, offset } | OutgoingKind::ReadResponse { stag, offset } => {
                let offset = offset.wrapping_add(u64::from(self.framed));
                Address::Tagged { stag, offset }
            }
            OutgoingKind::Send { invalidate, .. } => {
                let stag = invalidate.unwrap_or(0);
                Address::Untagged {
                    stag,
                    queue: 0,
                    msn,
                    mo: self.framed,
                }
            }
        }
    }
}

/// The error of a payload that is shorter than its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PayloadTooShort;

impl std::fmt::Display for PayloadTooShort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the payload is shorter than its message")
    }
}

impl std::error::Error for PayloadTooShort {}

/// The next bytes of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FramerPiece<'a> {
    /// Bytes that the framer owns: headers, padding, CRCs, markers, and copied payload.
    Owned(&'a [u8]),
    /// Bytes of a message, which the caller owns.
    Payload {
        /// The identifier of the message.
        message_id: u64,
        /// The offset in the message, in bytes.
        offset: u32,
        /// The length in bytes.
        len: usize,
    },
}

#[derive(Clone, Copy, Debug)]
enum Queued {
    Owned(usize),
    Payload {
        message_id: u64,
        offset: u32,
        len: usize,
    },
}

/// Frames messages as FPDUs.
///
/// Source: RFC 5044, section 4; RFC 5041, section 5.2. A message must be framed completely before
/// the next one begins: DDP does not interleave messages of one queue.
#[derive(Debug)]
pub struct Framer {
    with_crc: bool,
    markers: bool,
    waits_for_peer: bool,
    mulpdu: usize,
    /// The number of bytes framed so far.
    position: u64,
    /// The position of the length field of the current FPDU, from which markers count.
    start: u64,
    /// The CRC of the current FPDU so far.
    crc: u32,
    /// The next MSN by DDP queue: Send, Read Request, Terminate.
    msn: [u32; 3],
    /// The bytes of all queued `Owned` pieces. The first `owned_sent` of them are sent.
    owned: Vec<u8>,
    owned_sent: usize,
    queue: VecDeque<Queued>,
    /// The number of framed bytes that are sent.
    sent: u64,
}

impl Framer {
    /// Creates a framer for FPDUs of at most `emss` bytes. Without `with_crc` the CRC fields are 0;
    /// `markers` is true if the peer requires them. A responder `waits_for_peer`: it has no
    /// pieces before `release` (RFC 5044, section 7.1.2).
    pub fn new(emss: usize, with_crc: bool, markers: bool, waits_for_peer: bool) -> Self {
        Self {
            with_crc,
            markers,
            waits_for_peer,
            mulpdu: mulpdu(emss, markers),
            position: 0,
            start: 0,
            crc: 0,
            msn: [1; 3],
            owned: Vec::new(),
            owned_sent: 0,
            queue: VecDeque::new(),
            sent: 0,
        }
    }

    /// Sets the maximum size of the following FPDUs, in bytes.
    pub fn set_emss(&mut self, emss: usize) {
        self.mulpdu = mulpdu(emss, self.markers);
    }

    /// Allows a responder to send: the peer's first FPDU has arrived.
    pub fn release(&mut self) {
        self.waits_for_peer = false;
    }

    /// Returns the position of the next FPDU in the stream, in bytes. Everything queued so far is
    /// sent once [`Self::bytes_sent`] reaches this position.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of sent bytes of the stream.
    pub const fn bytes_sent(&self) -> u64 {
        self.sent
    }

    /// Queues a message that fits into one FPDU, with a copy of its payload. Returns false if it
    /// does not fit, and queues nothing in this case.
    pub fn push_copied(&mut self, kind: OutgoingKind, payload: &[&[u8]]) -> bool {
        // rfc: 5040-5.1-i, 5040-5.3-i, 5041-4.3-h, 5041-4.3-i, 5041-4.3-j
        let len: usize = payload.iter().map(|part| part.len()).sum();
        let message = OutgoingMessage::new(0, kind, u32::try_from(len).unwrap_or(u32::MAX));
        let address = message.address(self.msn[0]);
        let (header, header_len) = Header::encode(message.opcode(), true, address);
        if header_len + len > self.mulpdu {
            return false;
        }
        if self.markers {
            self.begin(message.opcode(), true, address, len);
            payload.iter().for_each(|part| self.put(part, None));
            self.end(header_len + len);
        } else {
            self.put_whole(&header[..header_len], payload, len);
        }
        if matches!(kind, OutgoingKind::Send { .. }) {
            self.msn[0] = self.msn[0].wrapping_add(1);
        }
        true
    }

    /// Adds a complete FPDU without markers, and computes its CRC in one pass.
    fn put_whole(&mut self, header: &[u8], payload: &[&[u8]], payload_len: usize) {
        let from = self.owned.len();
        let ulpdu = header.len() + payload_len;
        let ulpdu_len = u16::try_from(ulpdu).unwrap_or(u16::MAX);
        self.owned.extend_from_slice(&ulpdu_len.to_be_bytes());
        self.owned.extend_from_slice(header);
        for part in payload {
            self.owned.extend_from_slice(part);
        }
        self.owned.extend_from_slice(&[0; 3][..padding(ulpdu)]);
        let crc = if self.with_crc {
            crc(0, &self.owned[from..])
        } else {
            0
        };
        self.owned.extend_from_slice(&crc.to_le_bytes());
        let len = self.owned.len() - from;
        self.position += len as u64;
        self.queue_owned(len);
    }

    /// Queues the next FPDU of `message`. `payload` is the whole payload of the message. Returns
    /// true if this FPDU is the last one.
    ///
    /// The CRC is computed here: the bytes must not change until they are sent.
    ///
    /// # Errors
    ///
    /// Returns an error if `payload` is shorter than the message. Nothing is queued in this case.
    pub fn push_segment(
        &mut self,
        message: &mut OutgoingMessage,
        payload: &[&[u8]],
    ) -> Result<bool, PayloadTooShort> {
        // rfc: 5041-3-c, 5041-4.1-c, 5041-4.1-d, 5041-4.1-e, 5041-4.1-f, 5041-5.2-a, 5041-5.2-c
        // rfc: 5041-5.2-e, 5041-5.2-g, 5041-5.2-h, 5041-5.3-c, 5044-3-c, 5044-3-e, 5044-3-f
        // rfc: 5044-4.5-e
        let available: usize = payload.iter().map(|part| part.len()).sum();
        if available < message.len as usize {
            return Err(PayloadTooShort);
        }
        let address = message.address(self.msn[0]);
        let header = match address {
            Address::Tagged { .. } => TAGGED_LEN,
            Address::Untagged { .. } => UNTAGGED_LEN,
        };
        let left = message.len - message.framed;
        let most = u32::try_from(self.mulpdu - header).unwrap_or(u32::MAX);
        let len = left.min(most);
        let last = len == left;
        self.begin(message.opcode(), last, address, len as usize);
        self.put_payload(message, payload, len as usize);
        self.end(header + len as usize);
        message.framed += len;
        if last && matches!(message.kind, OutgoingKind::Send { .. }) {
            self.msn[0] = self.msn[0].wrapping_add(1);
        }
        Ok(last)
    }

    /// Queues an FPDU with a ULPDU length of 0. RFC 6581, section 9.2, counts it as the Send by
    /// which an initiator announces that it is ready to receive.
    pub fn push_empty(&mut self) {
        if self.markers {
            self.begin_fpdu();
            self.put(&[0; 2], None);
            self.end(0);
        } else {
            self.put_whole(&[], &[], 0);
        }
    }

    /// Queues an RDMA Read Request.
    pub fn push_read_request(&mut self, request: &ReadRequestHeader) {
        // rfc: 5040-5.2.1-a, 5040-5.2.1-b, 5040-5.2.1-f, 5040-5.2.1-g, 5040-5.2.1-j, 5040-5.2.1-k
        // rfc: 5040-5.2.1-n
        self.push_control(RdmapOpcode::ReadRequest, 1, &request.encode());
    }

    /// Queues a Terminate. No FPDU may follow it.
    pub fn push_terminate(&mut self, terminate: &Terminate) {
        // rfc: 5040-5.4-a, 5040-5.4-b, 5040-5.4-c, 5040-7.1-b
        self.push_control(RdmapOpcode::Terminate, 2, &terminate.encode());
    }

    /// Returns the pieces in the order of their transmission.
    pub fn pieces(&self) -> impl Iterator<Item = FramerPiece<'_>> {
        let mut owned = &self.owned[self.owned_sent..];
        let shown = if self.waits_for_peer {
            0
        } else {
            self.queue.len()
        };
        self.queue
            .iter()
            .take(shown)
            .map(move |queued| match *queued {
                Queued::Payload {
                    message_id,
                    offset,
                    len,
                } => FramerPiece::Payload {
                    message_id,
                    offset,
                    len,
                },
                Queued::Owned(len) => {
                    let (bytes, rest) = owned.split_at(len.min(owned.len()));
                    owned = rest;
                    FramerPiece::Owned(bytes)
                }
            })
    }

    /// Removes the first `len` bytes of the pieces, after they were sent.
    pub fn sent(&mut self, mut len: usize) {
        while let Some(first) = self.queue.front_mut().filter(|_| len > 0) {
            let (Queued::Owned(left) | Queued::Payload { len: left, .. }) = first;
            let n = len.min(*left);
            *left -= n;
            len -= n;
            self.sent += n as u64;
            let empty = *left == 0;
            match first {
                Queued::Owned(_) => self.owned_sent += n,
                Queued::Payload { offset, .. } => {
                    *offset += u32::try_from(n).unwrap_or(u32::MAX);
                }
            }
            if empty {
                self.queue.pop_front();
            }
        }
        // Moving the remaining bytes costs at most as much as those that were sent.
        if self.owned_sent * 2 >= self.owned.len() {
            self.owned.drain(..self.owned_sent);
            self.owned_sent = 0;
        }
    }

    /// Returns true if a queued piece refers to the caller's payload.
    pub fn has_payload(&self) -> bool {
        let is_payload = |queued: &Queued| matches!(queued, Queued::Payload { .. });
        self.queue.iter().any(is_payload)
    }

    fn push_control(&mut self, opcode: RdmapOpcode, queue: u32, body: &[u8]) {
        // rfc: 5041-4.3-h, 5041-4.3-i
        let msn = self.msn[queue as usize];
        self.msn[queue as usize] = msn.wrapping_add(1);
        let address = Address::Untagged {
            stag: 0,
            queue,
            msn,
            mo: 0,
        };
        self.begin(opcode, true, address, body.len());
        self.put(body, None);
        self.end(UNTAGGED_LEN + body.len());
    }

    fn begin(&mut self, opcode: RdmapOpcode, last: bool, address: Address, payload: usize) {
        // rfc: 5041-4.4-a, 5044-3-a
        let (header, len) = Header::encode(opcode, last, address);
        self.begin_fpdu();
        let ulpdu = u16::try_from(len + payload).unwrap_or(u16::MAX);
        self.put(&ulpdu.to_be_bytes(), None);
        self.put(&header[..len], None);
    }

    fn begin_fpdu(&mut self) {
        // rfc: 5044-4.3-e, 5044-4.3-g
        // A marker right before the FPDU belongs to it, with a pointer of 0.
        self.crc = 0;
        self.start = self.position;
        self.put_marker();
        self.start = self.position;
    }

    fn end(&mut self, ulpdu: usize) {
        // rfc: 5044-4.1-a, 5044-4.4-i
        self.put(&[0; 3][..padding(ulpdu)], None);
        self.put_marker();
        let crc = if self.with_crc { self.crc } else { 0 };
        // The CRC32c is sent with its lowest byte first, as in iSCSI.
        self.push_owned(&crc.to_le_bytes());
        self.position += 4;
    }

    fn put_payload(&mut self, message: &OutgoingMessage, payload: &[&[u8]], len: usize) {
        let (mut skip, mut left) = (message.framed as usize, len);
        let mut offset = message.framed;
        for slice in payload {
            let skipped = skip.min(slice.len());
            skip -= skipped;
            let part = &slice[skipped..];
            let part = &part[..left.min(part.len())];
            self.put(part, Some((message.message_id, offset)));
            offset += u32::try_from(part.len()).unwrap_or(u32::MAX);
            left -= part.len();
        }
    }

    /// Adds bytes to the FPDU, with markers between them.
    fn put(&mut self, mut bytes: &[u8], mut origin: Option<(u64, u32)>) {
        // rfc: 5044-4.3-a, 5044-4.3-b, 5044-4.4-k
        while !bytes.is_empty() {
            self.put_marker();
            let room = MARKER_DISTANCE - self.position % MARKER_DISTANCE;
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            let n = if self.markers {
                room.min(bytes.len())
            } else {
                bytes.len()
            };
            let (part, rest) = bytes.split_at(n);
            if self.with_crc {
                self.crc = crc(self.crc, part);
            }
            match &mut origin {
                None => self.push_owned(part),
                Some((message_id, offset)) => {
                    self.push_payload(*message_id, *offset, n);
                    *offset += u32::try_from(n).unwrap_or(u32::MAX);
                }
            }
            self.position += n as u64;
            bytes = rest;
        }
    }

    fn put_marker(&mut self) {
        // rfc: 5044-4.2-a, 5044-4.2-b, 5044-4.2-c, 5044-4.3-c, 5044-4.3-d, 5044-4.3-h, 5044-4.3-i
        if !self.markers || !self.position.is_multiple_of(MARKER_DISTANCE) {
            return;
        }
        let pointer = u16::try_from(self.position - self.start).unwrap_or(u16::MAX);
        let [high, low] = pointer.to_be_bytes();
        let marker = [0, 0, high, low];
        self.crc = crc(self.crc, &marker);
        self.push_owned(&marker);
        self.position += 4;
    }

    fn push_owned(&mut self, bytes: &[u8]) {
        self.owned.extend_from_slice(bytes);
        self.queue_owned(bytes.len());
    }

    fn queue_owned(&mut self, bytes: usize) {
        match self.queue.back_mut() {
            Some(Queued::Owned(len)) => *len += bytes,
            _ => self.queue.push_back(Queued::Owned(bytes)),
        }
    }

    fn push_payload(&mut self, message_id: u64, offset: u32, len: usize) {
        match self.queue.back_mut() {
            Some(Queued::Payload {
                message_id: id,
                offset: o,
                len: l,
            }) if *id == message_id && *o as usize + *l == offset as usize => {
                *l += len;
            }
            _ => self.queue.push_back(Queued::Payload {
                message_id,
                offset,
                len,
            }),
        }
    }
}
