//! Both directions of one stream, and the rules that concern both.
//!
//! Each queue pair of the iWARP provider of `rpcrdma-verbs` owns an [`IwarpStream`]. It does no
//! I/O. Its owner must queue nothing once the stream has ended, and must call `answered` exactly
//! once for each RDMA Read of the peer, in order: it frees one of the IRD places.

use std::collections::VecDeque;

use crate::segment::UNTAGGED_LEN;
use crate::{
    FpduProgress, FpduReceiver, Framer, FramerPiece, IwarpEvent, MpaEstablished, OutgoingKind,
    Placement, ReadDepths, ReadRequestHeader, ReadSink, StagError, Terminate,
};

/// The layer of errors of MPA (RFC 5040, section 4.8).
const MPA: u8 = 2;

/// One end of an iWARP stream after its setup: a [`Framer`], an [`FpduReceiver`], and the rules
/// that concern both.
///
/// - A responder sends nothing before the initiator's first FPDU (RFC 5044, section 7.1.2). An
///   initiator begins with the ready-to-receive message that both ends agreed on (RFC 6581, section
///   9.2).
/// - At most ORD RDMA Reads of this end are outstanding, and at most IRD of the peer (RFC 5040,
///   section 7.2; RFC 6581, section 9.1).
/// - Nothing follows a Terminate (RFC 5040, section 4.8).
#[derive(Debug)]
pub struct IwarpStream {
    framer: Framer,
    receiver: FpduReceiver,
    ord: u32,
    reads: u32,
    /// The ready-to-receive message is an RDMA Read whose response has not arrived.
    rtr_read: bool,
    responses: VecDeque<InboundRead>,
    ended: bool,
}

/// An RDMA Read of the peer without a response.
#[derive(Debug)]
struct InboundRead {
    request: ReadRequestHeader,
    /// The DDP header of the request, for a Terminate.
    header: [u8; UNTAGGED_LEN],
}

impl IwarpStream {
    /// Creates the end that initiated the connection. It sends FPDUs of at most `emss` bytes.
    /// `ours` are the depths if the peer negotiates none.
    pub fn initiator(established: &MpaEstablished, ours: ReadDepths, emss: usize) -> Self {
        // rfc: 6581-5-a, 6581-9.2-i
        let mut stream = Self::new(established, ours, emss, false);
        if let Some(rtr) = established.rtr {
            let nothing = OutgoingKind::Write { stag: 0, offset: 0 };
            if rtr.write {
                stream.framer.push_copied(nothing, &[]);
            } else if rtr.read {
                // The responder made room for this Read even if the consumer's ORD is 0.
                let ord = std::mem::replace(&mut stream.ord, 1);
                stream.rtr_read = stream.push_read(0, 0, (0, 0));
                stream.ord = ord;
            } else {
                stream.framer.push_empty();
            }
        }
        stream
    }

    /// Creates the end that accepted the connection. For the parameters see [`Self::initiator`].
    pub fn responder(established: &MpaEstablished, ours: ReadDepths, emss: usize) -> Self {
        // rfc: 5044-7.1.2-k
        Self::new(established, ours, emss, true)
    }

    fn new(
        established: &MpaEstablished,
        ours: ReadDepths,
        emss: usize,
        waits_for_peer: bool,
    ) -> Self {
        // rfc: 5040-6.1-b, 5040-6.1-c
        let depths = established.depths.unwrap_or(ours);
        Self {
            framer: Framer::new(emss, established.crc, established.markers, waits_for_peer),
            receiver: FpduReceiver::new(established.crc, depths.ird.into()),
            ord: depths.ord.into(),
            reads: 0,
            rtr_read: false,
            responses: VecDeque::new(),
            ended: false,
        }
    }

    /// Returns the framer, to queue messages and to take pieces. Nothing may be queued once the
    /// stream [has ended](Self::has_ended).
    pub const fn framer(&mut self) -> &mut Framer {
        &mut self.framer
    }

    /// Returns the pieces to send, in order.
    pub fn pieces(&self) -> impl Iterator<Item = FramerPiece<'_>> {
        self.framer.pieces()
    }

    /// Returns two positions in the outgoing stream, in bytes: the end of the sent data, and that
    /// of the queued data.
    pub const fn positions(&self) -> (u64, u64) {
        (self.framer.bytes_sent(), self.framer.position())
    }

    /// Returns true if a Terminate was queued or received. Nothing may be queued after it.
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns true if an FPDU of the peer has arrived.
    pub const fn has_heard(&self) -> bool {
        self.receiver.has_started()
    }

    /// Works as [`FpduReceiver::arriving`].
    pub const fn arriving(&self) -> Option<u64> {
        self.receiver.arriving()
    }

    /// Works as [`FpduReceiver::partial_message`].
    pub fn partial_message(&self) -> Option<u32> {
        self.receiver.partial_message()
    }

    /// Returns how many RDMA Reads can be outstanding (ORD): 0 if the peer answers none.
    #[must_use]
    pub const fn max_reads(&self) -> u32 {
        self.ord
    }

    /// Queues an RDMA Read of `len` bytes from the peer's memory, given by its STag and tagged
    /// offset. The response goes to [`FpduDestination::Sink`](crate::FpduDestination::Sink) with
    /// offsets from 0. `sink` is the STag in the request; the peer can use it for nothing else.
    /// Returns false if ORD Reads are outstanding, and queues nothing in this case.
    pub fn push_read(&mut self, sink: u32, len: u32, source: (u32, u64)) -> bool {
        // rfc: 5040-5.2-a, 5040-6.1-d
        if self.reads >= self.ord {
            return false;
        }
        self.reads += 1;
        self.framer.push_read_request(&ReadRequestHeader {
            sink_stag: sink,
            sink_offset: 0,
            len,
            source_stag: source.0,
            source_offset: source.1,
        });
        self.receiver.read_posted(ReadSink {
            stag: sink,
            offset: 0,
            len,
        });
        true
    }

    /// Returns the oldest RDMA Read of the peer without a response.
    pub fn response(&self) -> Option<&ReadRequestHeader> {
        self.response_at(0)
    }

    /// Returns the RDMA Read of the peer with this index among those without a response.
    pub fn response_at(&self, index: usize) -> Option<&ReadRequestHeader> {
        self.responses.get(index).map(|read| &read.request)
    }

    /// Queues a Terminate because the peer may not access the memory of an RDMA Read any more, of
    /// whose response `framed` bytes are queued. The index is that of [`Self::response_at`].
    pub fn refuse_response(&mut self, index: usize, framed: u32, error: StagError) {
        if let Some(InboundRead { request, header }) = self.responses.get(index) {
            let terminate = Terminate::of_ended_read(error, header, request, framed);
            self.terminate(&terminate);
        }
    }

    /// Works as [`FpduReceiver::refuse_placement`].
    pub fn refuse_placement(&mut self, error: StagError) {
        self.receiver.refuse_placement(error);
    }

    /// Works as [`FpduReceiver::last_ulpdu`].
    pub const fn last_ulpdu(&self) -> usize {
        self.receiver.last_ulpdu()
    }

    /// Removes the oldest RDMA Read of the peer, after its response was sent.
    pub fn answered(&mut self) {
        // rfc: 5040-5.2.2-f, 5040-5.5-p
        self.responses.pop_front();
        self.receiver.read_answered();
    }

    /// Queues a Terminate. No FPDU may follow it.
    pub fn terminate(&mut self, terminate: &Terminate) {
        // rfc: 5040-5.4-h, 5040-6.2.1-a, 5041-6.2.2-c, 5041-7.1-j
        if !std::mem::replace(&mut self.ended, true) {
            self.framer.push_terminate(terminate);
        }
    }

    /// Works as [`FpduReceiver::advance`].
    ///
    /// # Errors
    ///
    /// Returns the Terminate that was queued. All later bytes are dropped.
    pub fn advance(
        &mut self,
        input: &[u8],
        placement: &mut impl Placement,
    ) -> Result<(usize, FpduProgress), Terminate> {
        // rfc: 5040-5.2.1-d, 5040-5.2.1-e, 5040-5.2.1-i, 5040-5.2.1-m, 5040-5.4-i, 5044-7.1.2-k
        let mut taken = 0;
        loop {
            let advanced = self.receiver.advance(&input[taken..], placement);
            // An FPDU that violates a rule of DDP or RDMAP counts as the first FPDU. One with a
            // wrong CRC does not: a responder that has received no other FPDU ends without a
            // Terminate.
            let is_fpdu = |terminate: &Terminate| terminate.code.layer != MPA;
            if self.receiver.has_started() || advanced.as_ref().is_err_and(is_fpdu) {
                self.framer.release();
            }
            let (n, progress) = match advanced {
                Ok(advanced) => advanced,
                Err(terminate) => {
                    self.terminate(&terminate);
                    return Err(terminate);
                }
            };
            taken += n;
            match &progress {
                FpduProgress::Event(IwarpEvent::ReadRequested(request)) => {
                    self.responses.push_back(InboundRead {
                        request: *request,
                        header: self.receiver.untagged_header(),
                    });
                }
                FpduProgress::Event(IwarpEvent::ReadDone) => {
                    self.reads -= 1;
                    if std::mem::take(&mut self.rtr_read) {
                        continue;
                    }
                }
                FpduProgress::Event(IwarpEvent::Terminated(_)) => self.ended = true,
                _ => {}
            }
            return Ok((taken, progress));
        }
    }

    /// Works as [`FpduReceiver::placed`].
    pub fn placed(&mut self, bytes: &[u8]) {
        self.receiver.placed(bytes);
    }
}
