//! Incoming FPDUs: events follow once the CRC is verified. Payload is placed before, unless the
//! whole FPDU is in one input: then its CRC is verified first, in one pass.
//!
//! The caller does what `advance` returns before it calls `advance` again. The receiver itself
//! checks an RDMA Read Response against the oldest sink (`read_posted`): `rpcrdma-verbs` does not
//! check it again. `head` and `inner` keep the headers of an FPDU until its end, since a Terminate
//! carries them. The stream has no markers, as `mpa` requires none of the peer. `stream` owns what
//! concerns both directions.

use std::collections::VecDeque;

use crate::crc::CrcCheck;
use crate::segment::{Address, Header, READ_REQUEST_LEN, RdmapOpcode, UNTAGGED_LEN, header_len};
use crate::{ReadRequestHeader, StagAccess, StagError, Terminate, TerminateCode, padding};

/// The maximum bytes of a message that the receiver itself consumes: a Terminate with all headers.
const INNER_LEN: usize = 6 + UNTAGGED_LEN + READ_REQUEST_LEN;

/// The caller's answers to questions about memory.
pub trait Placement {
    /// Checks an access of the peer to `len` bytes at the tagged offset `offset`.
    ///
    /// # Errors
    ///
    /// Returns the rule that the access violates. The connection ends with a Terminate.
    fn check(
        &mut self,
        stag: u32,
        offset: u64,
        len: u64,
        access: StagAccess,
    ) -> Result<(), StagError>;

    /// Returns the receive buffer space for the Send `msn`. The first Send has MSN 1.
    fn receive_room(&mut self, msn: u32) -> ReceiveRoom;

    /// Returns true if the peer may invalidate the STag.
    fn may_invalidate(&mut self, stag: u32) -> bool;
}

/// The receive buffer space for a Send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveRoom {
    /// There is a receive of this many bytes.
    Bytes(u64),
    /// There is no receive: the connection ends with a Terminate.
    Missing,
    /// There is no receive yet: the stream waits for one to be posted.
    Later,
}

/// The destination of payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FpduDestination {
    /// The peer's RDMA Write to memory with an STag.
    Tagged {
        /// The STag.
        stag: u32,
        /// The tagged offset in bytes.
        offset: u64,
    },
    /// The sink of the oldest outstanding RDMA Read of this end.
    Sink {
        /// The tagged offset in bytes.
        offset: u64,
    },
    /// The receive for a Send.
    Receive {
        /// The MSN of the Send.
        msn: u32,
        /// The offset in the message, in bytes.
        offset: u32,
    },
}

/// An event. The CRC of its FPDU has been verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IwarpEvent {
    /// A Send has arrived.
    Received {
        /// The MSN of the Send.
        msn: u32,
        /// The length in bytes.
        len: u32,
        /// Whether the sender requests a solicited event.
        solicited: bool,
        /// The STag that the caller must invalidate now.
        invalidate: Option<u32>,
    },
    /// The last segment of an RDMA Write has arrived.
    Written {
        /// The STag.
        stag: u32,
    },
    /// The peer requests an RDMA Read. Its access has been checked.
    ReadRequested(ReadRequestHeader),
    /// The oldest RDMA Read of this end has completed.
    ReadDone,
    /// The peer has terminated the stream.
    Terminated(Terminate),
}

/// The next step of the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FpduProgress {
    /// Read more bytes of the stream.
    NeedInput,
    /// Write up to `len` of the next bytes of the stream to the destination, and call `placed`.
    Place {
        /// The destination of the next byte.
        destination: FpduDestination,
        /// The number of bytes that follow, at least 1.
        len: usize,
    },
    /// Handle the event.
    Event(IwarpEvent),
    /// Call `advance` again when a receive has been posted ([`ReceiveRoom::Later`]).
    Stalled,
}

/// The memory that an RDMA Read of this end fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadSink {
    /// The STag.
    pub stag: u32,
    /// The tagged offset in bytes.
    pub offset: u64,
    /// The length in bytes.
    pub len: u32,
}

/// The reason why a segment has no destination.
enum NoTarget {
    Broken(TerminateCode),
    /// It waits for a receive.
    Later,
}

impl From<TerminateCode> for NoTarget {
    fn from(code: TerminateCode) -> Self {
        Self::Broken(code)
    }
}

#[derive(Clone, Copy, Debug)]
enum Body {
    Place(FpduDestination),
    Inner,
    /// The segment violates a rule. The error is reported if the CRC is right.
    Discard(TerminateCode),
    /// An FPDU without a ULPDU (RFC 6581, section 9: the Send RTR).
    Empty,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Header,
    Payload { body: Body, left: usize },
    Trailer { body: Body },
    Ended,
}

/// Receives the FPDUs of one stream.
///
/// Source: RFC 5044, section 6; RFC 5041, section 7; RFC 5040, section 7. Payload may be placed
/// before its CRC is verified, and completes only after that. After an error the rest of the stream
/// is dropped.
#[derive(Debug)]
pub struct FpduReceiver {
    with_crc: bool,
    ird: u32,
    inbound_reads: u32,
    sinks: VecDeque<ReadSink>,
    state: State,
    /// The length field and the header of the FPDU.
    head: [u8; 2 + UNTAGGED_LEN],
    have: usize,
    inner: [u8; INNER_LEN],
    inner_len: usize,
    tail: [u8; 7],
    check: CrcCheck,
    msn: [u32; 3],
    /// The incomplete Send: its bytes so far, and its opcode.
    partial: Option<(u32, RdmapOpcode)>,
    /// The number of complete FPDUs.
    complete: u64,
    /// The length of the last ULPDU whose header has arrived.
    last_ulpdu: usize,
}

impl FpduReceiver {
    /// Creates a receiver. It checks CRCs if `with_crc` is true, and accepts `ird` outstanding RDMA
    /// Reads.
    pub fn new(with_crc: bool, ird: u32) -> Self {
        Self {
            with_crc,
            ird,
            inbound_reads: 0,
            sinks: VecDeque::new(),
            state: State::Header,
            head: [0; 2 + UNTAGGED_LEN],
            have: 0,
            inner: [0; INNER_LEN],
            inner_len: 0,
            tail: [0; 7],
            check: CrcCheck::Done,
            msn: [1; 3],
            partial: None,
            complete: 0,
            last_ulpdu: 0,
        }
    }

    /// Sets the MSN of the next Send.
    #[cfg(test)]
    pub(crate) const fn set_next_send(&mut self, msn: u32) {
        self.msn[0] = msn;
    }

    /// Returns true if an FPDU has arrived, so that a responder may send (RFC 5044, section 7.1.2).
    pub const fn has_started(&self) -> bool {
        self.complete > 0
    }

    /// Returns the number of the FPDU that has arrived in part, or `None` between two FPDUs and
    /// after the end of the stream. FPDUs are counted from 0.
    pub const fn arriving(&self) -> Option<u64> {
        match self.state {
            State::Header if self.have == 0 => None,
            State::Ended => None,
            _ => Some(self.complete),
        }
    }

    /// Returns how many bytes of an untagged message have arrived in complete FPDUs, or `None` if
    /// no message is incomplete.
    pub fn partial_message(&self) -> Option<u32> {
        let ended = matches!(self.state, State::Ended);
        self.partial.filter(|_| !ended).map(|(done, _)| done)
    }

    /// Returns the length of the last ULPDU whose header has arrived, in bytes.
    pub const fn last_ulpdu(&self) -> usize {
        self.last_ulpdu
    }

    /// Returns the header of the last segment, which was untagged. It is valid until the next call
    /// of `advance`.
    pub(crate) fn untagged_header(&self) -> [u8; UNTAGGED_LEN] {
        let mut header = [0; UNTAGGED_LEN];
        header.copy_from_slice(&self.head[2..]);
        header
    }

    /// Drops the rest of the segment that is being placed in tagged memory, because the peer may
    /// not access it any more. [`Self::advance`] returns the Terminate when the CRC is verified.
    pub fn refuse_placement(&mut self, error: StagError) {
        // rfc: 5041-7.1-g
        if let State::Payload { body, .. } = &mut self.state {
            *body = Body::Discard(placement_code(error));
        }
    }

    /// Adds an RDMA Read of this end. The caller must respect the negotiated ORD.
    pub fn read_posted(&mut self, sink: ReadSink) {
        self.sinks.push_back(sink);
    }

    /// Removes the oldest RDMA Read of the peer, after its response was sent.
    pub fn read_answered(&mut self) {
        self.inbound_reads = self.inbound_reads.saturating_sub(1);
    }

    /// Consumes bytes of the stream until the caller must act. Returns the number of consumed
    /// bytes: all of them with `NeedInput`.
    ///
    /// # Errors
    ///
    /// Returns the Terminate to send. All later bytes are dropped.
    pub fn advance(
        &mut self,
        input: &[u8],
        placement: &mut impl Placement,
    ) -> Result<(usize, FpduProgress), Terminate> {
        let mut rest = input;
        loop {
            let taken = |rest: &[u8]| input.len() - rest.len();
            match self.state {
                State::Ended => return Ok((input.len(), FpduProgress::NeedInput)),
                State::Header => {
                    if let Some(progress) = self.take_header(&mut rest, placement) {
                        return Ok((taken(rest), progress));
                    }
                }
                State::Payload {
                    body: Body::Place(destination),
                    left,
                } if left > 0 => {
                    let progress = FpduProgress::Place {
                        destination,
                        len: left,
                    };
                    return Ok((taken(rest), progress));
                }
                State::Payload { body, left } => {
                    if !self.take_payload(&mut rest, body, left) {
                        return Ok((taken(rest), FpduProgress::NeedInput));
                    }
                }
                State::Trailer { body } => {
                    if !self.take_trailer(&mut rest) {
                        return Ok((taken(rest), FpduProgress::NeedInput));
                    }
                    if let Some(event) = self.finish(body, placement)? {
                        return Ok((taken(rest), FpduProgress::Event(event)));
                    }
                }
            }
        }
    }

    /// Reports that `bytes` of the stream were written to the destination of the last `Place`.
    /// Bytes beyond its length are not counted.
    pub fn placed(&mut self, bytes: &[u8]) {
        // rfc: 5040-5.5-b, 5040-5.5-c, 5040-5.5-d, 5041-5.2-d
        let State::Payload {
            body: Body::Place(destination),
            left,
        } = &mut self.state
        else {
            return;
        };
        let bytes = &bytes[..bytes.len().min(*left)];
        *left -= bytes.len();
        match destination {
            FpduDestination::Tagged { offset, .. } | FpduDestination::Sink { offset } => {
                *offset = offset.wrapping_add(bytes.len() as u64);
            }
            FpduDestination::Receive { offset, .. } => {
                *offset = offset.wrapping_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            }
        }
        self.check.add(bytes);
    }

    fn ulpdu_len(&self) -> usize {
        // rfc: 5041-3-e, 5041-3-h, 5044-4.3-j, 5044-4.3-k
        usize::from(u16::from_be_bytes([self.head[0], self.head[1]]))
    }

    /// Consumes the header, and finds the destination of its payload. Returns the next step if it
    /// cannot.
    fn take_header(
        &mut self,
        rest: &mut &[u8],
        placement: &mut impl Placement,
    ) -> Option<FpduProgress> {
        // rfc: 5044-5.1-e, 5044-5.2-a, 5044-6-b, 5044-6-c, 5044-6-d, 5044-A.4-a
        if self.have == 0 && self.with_crc {
            self.check = CrcCheck::begin(rest);
        }
        loop {
            let needed = match self.have {
                0 => head_len(rest),
                have => head_len(&self.head[..have]),
            };
            if self.have >= needed {
                break;
            }
            let n = take(rest, &mut self.head[self.have..needed]);
            if n == 0 {
                return Some(FpduProgress::NeedInput);
            }
            self.have += n;
        }
        self.last_ulpdu = self.ulpdu_len();
        let left = self.last_ulpdu + 2 - self.have;
        let target = match self.check {
            CrcCheck::Failed => Err(TerminateCode::MPA_CRC.into()),
            _ => self.target(left, placement),
        };
        let body = match target {
            Ok(body) => body,
            Err(NoTarget::Broken(code)) => Body::Discard(code),
            Err(NoTarget::Later) => return Some(FpduProgress::Stalled),
        };
        self.check.add(&self.head[..self.have]);
        self.inner_len = 0;
        self.state = State::Payload { body, left };
        self.have = 0;
        None
    }

    /// Finds the destination of the segment's payload.
    fn target(&self, len: usize, placement: &mut impl Placement) -> Result<Body, NoTarget> {
        // rfc: 5040-3.1-a, 5041-4.1-a, 5041-4.1-b
        if self.ulpdu_len() == 0 {
            return Ok(Body::Empty);
        }
        if self.ulpdu_len() < header_len(self.head[2]) {
            return Err(TerminateCode::DDP_LOCAL_CATASTROPHIC.into());
        }
        let header = Header::parse(&self.head[2..]);
        let queue = self.check_control(&header)?;
        match header.address {
            Address::Tagged { stag, offset } => {
                self.check_tagged(&header, stag, offset, len, placement)?;
                let response = header.opcode == Some(RdmapOpcode::ReadResponse);
                Ok(Body::Place(if response {
                    FpduDestination::Sink { offset }
                } else {
                    FpduDestination::Tagged { stag, offset }
                }))
            }
            Address::Untagged { msn, mo, .. } => {
                self.check_untagged(&header, queue, msn, mo, len, placement)
            }
        }
    }

    /// Checks versions, queue and opcode. Returns the queue.
    fn check_control(&self, header: &Header) -> Result<usize, TerminateCode> {
        // rfc: 5040-7.2-b, 5040-7.2-c, 5040-7.2-g, 5040-7.2-h
        let queue = match header.address {
            Address::Tagged { .. } => None,
            Address::Untagged { queue, .. } => Some(queue),
        };
        if header.ddp_version != 1 {
            return Err(match queue {
                None => TerminateCode::DDP_TAGGED_VERSION,
                Some(_) => TerminateCode::DDP_UNTAGGED_VERSION,
            });
        }
        if queue.is_some_and(|queue| queue > 2) {
            return Err(TerminateCode::DDP_QUEUE);
        }
        if header.rdmap_version != 1 {
            return Err(TerminateCode::RDMAP_VERSION);
        }
        if header.opcode.is_none_or(|opcode| opcode.queue() != queue) {
            return Err(TerminateCode::RDMAP_OPCODE);
        }
        Ok(queue.unwrap_or(0) as usize)
    }

    fn check_tagged(
        &self,
        header: &Header,
        stag: u32,
        offset: u64,
        len: usize,
        placement: &mut impl Placement,
    ) -> Result<(), TerminateCode> {
        // rfc: 5040-5.1-d, 5040-5.1-e, 5040-5.2.2-e, 5040-5.2.2-g, 5040-7.2-a, 5041-4.2-f
        // rfc: 5041-5.2-i, 5041-5.2-j, 5041-7.1-f
        let mut access = StagAccess::Write;
        if header.opcode == Some(RdmapOpcode::ReadResponse) {
            let sink = self.sinks.front().ok_or(TerminateCode::RDMAP_OPCODE)?;
            if len > 0 && sink.stag != stag {
                return Err(TerminateCode::DDP_INVALID_STAG);
            }
            let ends = header.last == (len == sink.len as usize);
            if len > 0 && sink.offset != offset || len > sink.len as usize || !ends {
                return Err(TerminateCode::DDP_BOUNDS);
            }
            access = StagAccess::ReadResponse;
        }
        // RFC 5041, section 5.2: STag and offset of a segment without payload are not checked.
        if len == 0 {
            return Ok(());
        }
        let checked = placement.check(stag, offset, len as u64, access);
        checked.map_err(placement_code)
    }

    fn check_untagged(
        &self,
        header: &Header,
        queue: usize,
        msn: u32,
        mo: u32,
        len: usize,
        placement: &mut impl Placement,
    ) -> Result<Body, NoTarget> {
        // rfc: 5040-5.2.1-c, 5040-5.3-d, 5040-5.4-d, 5040-5.4-e, 5040-5.4-f, 5040-6.1-e
        // rfc: 5040-7.2-f, 5041-5.2-b, 5041-7.1-a
        if msn != self.msn[queue] {
            return Err(TerminateCode::DDP_MSN.into());
        }
        let (done, opcode) = match (queue, self.partial) {
            (0, Some((done, opcode))) => (done, Some(opcode)),
            _ => (0, header.opcode),
        };
        if mo != done {
            return Err(TerminateCode::DDP_MO.into());
        }
        if opcode != header.opcode {
            return Err(TerminateCode::RDMAP_OPCODE.into());
        }
        let room = match queue {
            0 => placement.receive_room(msn),
            1 if self.inbound_reads >= self.ird => ReceiveRoom::Missing,
            1 => ReceiveRoom::Bytes(READ_REQUEST_LEN as u64),
            _ => ReceiveRoom::Bytes(INNER_LEN as u64),
        };
        let room = match room {
            ReceiveRoom::Bytes(room) => room.min(u64::from(u32::MAX)),
            ReceiveRoom::Missing => return Err(TerminateCode::DDP_NO_BUFFER.into()),
            ReceiveRoom::Later => return Err(NoTarget::Later),
        };
        if u64::from(mo) + len as u64 > room {
            return Err(TerminateCode::DDP_TOO_LONG.into());
        }
        if queue == 1 && (len != READ_REQUEST_LEN || !header.last) {
            return Err(TerminateCode::RDMAP_UNSPECIFIED.into());
        }
        Ok(match queue {
            0 => Body::Place(FpduDestination::Receive { msn, offset: mo }),
            _ => Body::Inner,
        })
    }

    /// Consumes payload that the receiver itself needs or discards.
    fn take_payload(&mut self, rest: &mut &[u8], body: Body, left: usize) -> bool {
        let n = left.min(rest.len());
        let (bytes, after) = rest.split_at(n);
        self.check.add(bytes);
        if let Body::Inner = body {
            self.inner[self.inner_len..self.inner_len + n].copy_from_slice(bytes);
            self.inner_len += n;
        }
        *rest = after;
        if n < left {
            self.state = State::Payload {
                body,
                left: left - n,
            };
            return false;
        }
        self.state = State::Trailer { body };
        true
    }

    fn take_trailer(&mut self, rest: &mut &[u8]) -> bool {
        // rfc: 5044-4.1-b
        let needed = padding(self.ulpdu_len()) + 4;
        self.have += take(rest, &mut self.tail[self.have..needed]);
        self.have == needed
    }

    /// Verifies the CRC, and completes the message or segment of the FPDU.
    fn finish(
        &mut self,
        body: Body,
        placement: &mut impl Placement,
    ) -> Result<Option<IwarpEvent>, Terminate> {
        // rfc: 5040-7-a, 5040-7.1-c, 5041-3-i, 5041-7.1-g, 5041-7.1-i, 5044-3-g, 5044-4.1-c
        // rfc: 5044-4.4-l, 5044-4.4-m, 5044-6-a, 5044-7.1.1-j, 5044-7.1.1-l, 5044-8-a, 5044-8-g
        // rfc: 5044-8-h
        let (pad, sum) = self.tail[..self.have].split_at(self.have - 4);
        let good = self.check.is_right(pad, sum);
        self.have = 0;
        self.state = State::Ended;
        if !good {
            return Err(Terminate::new(TerminateCode::MPA_CRC));
        }
        let event = match body {
            Body::Discard(code) => Err(code),
            Body::Empty => Ok(None),
            Body::Place(_) | Body::Inner => self.complete(placement),
        };
        let event = event.map_err(|code| self.terminate(code))?;
        self.complete += 1;
        if !matches!(event, Some(IwarpEvent::Terminated(_))) {
            self.state = State::Header;
        }
        Ok(event)
    }

    fn terminate(&self, code: TerminateCode) -> Terminate {
        // rfc: 5040-7.1-b
        let ulpdu = self.ulpdu_len();
        let header = &self.head[2..2 + header_len(self.head[2]).min(ulpdu)];
        let whole = header.len() == header_len(self.head[2]);
        let mut terminate = Terminate::of_segment(code, ulpdu, if whole { header } else { &[] });
        let of_read = self.inner_len == READ_REQUEST_LEN && self.head[3] & 15 == 1;
        if (code.layer, code.error_type) == (0, 1) && of_read {
            terminate.read_request = self.inner.first_chunk().copied();
        }
        terminate
    }

    fn complete(
        &mut self,
        placement: &mut impl Placement,
    ) -> Result<Option<IwarpEvent>, TerminateCode> {
        let header = Header::parse(&self.head[2..]);
        match header.address {
            Address::Tagged { stag, .. } => Ok(self.complete_tagged(&header, stag)),
            Address::Untagged { queue: 1, .. } => self.complete_read_request(placement).map(Some),
            Address::Untagged { queue: 2, .. } => {
                let terminate = Terminate::decode(&self.inner[..self.inner_len]);
                let unknown = Terminate::new(TerminateCode::RDMAP_UNSPECIFIED);
                Ok(Some(IwarpEvent::Terminated(terminate.unwrap_or(unknown))))
            }
            Address::Untagged { stag, msn, .. } => {
                self.complete_send(&header, stag, msn, placement)
            }
        }
    }

    fn payload_len(&self) -> u32 {
        let len = self.ulpdu_len() - header_len(self.head[2]);
        u32::try_from(len).unwrap_or(u32::MAX)
    }

    fn complete_tagged(&mut self, header: &Header, stag: u32) -> Option<IwarpEvent> {
        // rfc: 5040-5.1-c, 5040-5.2.2-d, 5041-4.2-c, 5041-4.2-h
        if header.opcode == Some(RdmapOpcode::ReadResponse) {
            let len = self.payload_len();
            if header.last {
                self.sinks.pop_front();
                return Some(IwarpEvent::ReadDone);
            }
            let sink = self.sinks.front_mut()?;
            sink.offset = sink.offset.wrapping_add(u64::from(len));
            sink.len -= len;
            return None;
        }
        header.last.then_some(IwarpEvent::Written { stag })
    }

    fn complete_read_request(
        &mut self,
        placement: &mut impl Placement,
    ) -> Result<IwarpEvent, TerminateCode> {
        // rfc: 5040-5.2.1-l, 5040-5.2.1-o, 5040-5.2.1-p, 5040-5.5-g, 5040-5.5-m, 5040-7.2-i
        // rfc: 5040-7.2-j, 5040-7.2-k, 5040-7.2-l, 5040-7.2-m
        let request = self.inner.first_chunk().map(ReadRequestHeader::decode);
        let request = request.ok_or(TerminateCode::RDMAP_UNSPECIFIED)?;
        if request.len > 0 {
            let (stag, offset) = (request.source_stag, request.source_offset);
            let checked = placement.check(stag, offset, request.len.into(), StagAccess::Read);
            checked.map_err(TerminateCode::of_read)?;
        }
        self.msn[1] = self.msn[1].wrapping_add(1);
        self.inbound_reads += 1;
        Ok(IwarpEvent::ReadRequested(request))
    }

    fn complete_send(
        &mut self,
        header: &Header,
        stag: u32,
        msn: u32,
        placement: &mut impl Placement,
    ) -> Result<Option<IwarpEvent>, TerminateCode> {
        // rfc: 5040-4.1-j, 5040-5.3-c, 5040-5.3-e, 5040-5.3-j, 5040-7.2-d, 5041-4.1-g, 5041-4.3-c
        // rfc: 5041-4.3-e, 5041-4.3-j, 5041-5.3-f, 5041-5.3-g, 5041-5.4-a, 5041-5.4-b, 5041-5.4-c
        let opcode = header.opcode.ok_or(TerminateCode::RDMAP_OPCODE)?;
        let len = self.partial.map_or(0, |(done, _)| done) + self.payload_len();
        if !header.last {
            self.partial = Some((len, opcode));
            return Ok(None);
        }
        let invalidate = opcode.invalidates().then_some(stag);
        if invalidate.is_some_and(|stag| !placement.may_invalidate(stag)) {
            return Err(TerminateCode::RDMAP_CANNOT_INVALIDATE);
        }
        self.partial = None;
        self.msn[0] = self.msn[0].wrapping_add(1);
        let solicited = matches!(
            opcode,
            RdmapOpcode::SendSolicited | RdmapOpcode::SendSolicitedInvalidate
        );
        Ok(Some(IwarpEvent::Received {
            msn,
            len,
            solicited,
            invalidate,
        }))
    }
}

/// Returns the length of the length field and the header of an FPDU, as far as its first bytes tell
/// it.
fn head_len(bytes: &[u8]) -> usize {
    let Some(length) = bytes.first_chunk() else {
        return 2;
    };
    let header = bytes.get(2).map_or(1, |control| header_len(*control));
    2 + header.min(u16::from_be_bytes(*length).into())
}

/// Returns the code for tagged memory that a segment of the peer may not be placed in.
const fn placement_code(error: StagError) -> TerminateCode {
    match error {
        StagError::Invalid => TerminateCode::DDP_INVALID_STAG,
        StagError::Bounds => TerminateCode::DDP_BOUNDS,
        StagError::OtherStream => TerminateCode::DDP_STAG_OF_OTHER_STREAM,
        StagError::Wrap => TerminateCode::DDP_TO_WRAP,
        StagError::Access => TerminateCode::RDMAP_ACCESS,
    }
}

/// Moves bytes to `to` until either slice ends. Returns the number of bytes.
fn take(rest: &mut &[u8], to: &mut [u8]) -> usize {
    let n = rest.len().min(to.len());
    let (bytes, after) = rest.split_at(n);
    to[..n].copy_from_slice(bytes);
    *rest = after;
    n
}
