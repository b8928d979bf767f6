//! Connection setup: MPA's request and reply (RFC 5044, section 7.1; RFC 6581).
//!
//! This end requires no markers, since `fpdu_receiver` cannot read them, and sends them if the peer
//! requires them. [`MpaEstablished`] is all that `stream` gets from the setup. No byte behind a
//! reply is consumed: `connecting` of the iWARP provider reads [`MpaInitiator::missing`] bytes at
//! most, and leaves the FPDUs to the stream. RFC 6581, section 9, rules the depths and the
//! ready-to-receive messages.

use std::fmt;

use crate::{Framer, FramerPiece, Terminate, TerminateCode};

/// The maximum bytes of private data in a frame. Revision 2 uses 4 of them.
pub const MAX_PRIVATE_DATA: usize = 512;

const REQUEST_KEY: &[u8; 16] = b"MPA ID Req Frame";
const REPLY_KEY: &[u8; 16] = b"MPA ID Rep Frame";
const FRAME_LEN: usize = 20;
const MARKERS: u8 = 0x80;
const CRC: u8 = 0x40;
const REJECTED: u8 = 0x20;
const ENHANCED: u8 = 0x10;
/// The depth that means "not negotiated" (RFC 6581, section 9.1).
const NOT_NEGOTIATED: u16 = 0x3fff;

/// The maximum outstanding RDMA Reads: up to 0x3ffe. 0x3fff leaves them to the consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadDepths {
    /// The RDMA Reads of the peer.
    pub ird: u16,
    /// The RDMA Reads of this end.
    pub ord: u16,
}

/// The messages that an initiator can send as ready-to-receive indication (RFC 6581, section 9.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RtrTypes {
    /// A Send without payload.
    pub send: bool,
    /// An RDMA Write without payload.
    pub write: bool,
    /// An RDMA Read without payload.
    pub read: bool,
}

/// The connection parameters that one end requests.
#[derive(Clone, Debug)]
pub struct MpaOptions {
    /// Whether to require CRCs. They are used if either end requires them.
    pub crc: bool,
    /// The depths for revision 2; `None` selects revision 1.
    pub depths: Option<ReadDepths>,
    /// The messages of peer-to-peer mode, if it is used. It needs revision 2.
    pub rtr: Option<RtrTypes>,
    /// The consumer's private data.
    pub private_data: Vec<u8>,
}

/// The reason why a setup fails. The TCP connection must be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// The frame does not begin with the key.
    Key,
    /// The peer's revision is not supported.
    Revision(u8),
    /// Private data exceeds 512 bytes, or is too short for revision 2.
    PrivateDataLen(usize),
    /// The peer has rejected the connection. The initiator has its private data and its depths. RFC
    /// 5044, section 7.1.2, leaves the TCP connection to the consumer, which may close it.
    Rejected,
    /// The peer sent data after its request, before it received a reply.
    EarlyData,
    /// The peer needs more outstanding RDMA Reads than this end accepts: send
    /// [`MpaInitiator::terminate`] before closing.
    InsufficientIrd,
    /// The ends support no common ready-to-receive message: send [`MpaInitiator::terminate`] before
    /// closing.
    NoRtr,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => write!(f, "the frame is not MPA's"),
            Self::Revision(revision) => write!(f, "MPA revision {revision} is unknown"),
            Self::PrivateDataLen(len) => write!(f, "private data of {len} bytes"),
            Self::Rejected => write!(f, "the peer has rejected the connection"),
            Self::EarlyData => write!(f, "the peer sent data before the reply"),
            Self::InsufficientIrd => write!(f, "the peer needs more RDMA Reads at once"),
            Self::NoRtr => write!(f, "no ready-to-receive message suits both ends"),
        }
    }
}

impl std::error::Error for SetupError {}

/// The negotiated parameters of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MpaEstablished {
    /// Whether CRCs are generated and checked.
    pub crc: bool,
    /// Whether the peer requires markers in the data that this end sends.
    pub markers: bool,
    /// The maximum outstanding RDMA Reads; `None` with revision 1.
    pub depths: Option<ReadDepths>,
    /// The depths that the peer sent; `None` with revision 1.
    pub peer_depths: Option<ReadDepths>,
    /// The initiator sends one of these messages first; `None` without peer-to-peer mode.
    pub rtr: Option<RtrTypes>,
    /// The peer's private data.
    pub private_data: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Frame {
    flags: u8,
    revision: u8,
    enhanced: Option<(ReadDepths, Option<RtrTypes>)>,
    private_data: Vec<u8>,
}

/// Collects and parses a frame.
#[derive(Debug, Default)]
struct FrameReader(Vec<u8>);

impl FrameReader {
    /// Consumes the bytes of the frame, and none after it. Returns their number, and the frame once
    /// it is complete.
    fn take(&mut self, input: &[u8], key: &[u8; 16]) -> Result<(usize, Option<Frame>), SetupError> {
        // rfc: 5044-7.1.2-l, 5044-7.1.2-o
        let mut taken = 0;
        loop {
            let start = self.0.len().min(16);
            if self.0[..start] != key[..start] {
                return Err(SetupError::Key);
            }
            let needed = self.needed()?;
            if self.0.len() == needed && needed >= FRAME_LEN {
                return Ok((taken, Some(Frame::parse(&std::mem::take(&mut self.0))?)));
            }
            // A complete header may announce private data.
            let n = (needed - self.0.len()).min(input.len() - taken);
            if n == 0 {
                return Ok((taken, None));
            }
            self.0.extend_from_slice(&input[taken..taken + n]);
            taken += n;
        }
    }

    fn needed(&self) -> Result<usize, SetupError> {
        // rfc: 5044-7.1.1-o, 5044-7.1.1-p, 5044-7.1.1-r, 5044-7.1.2-q, 5044-7.1.2-r, 5044-7.1.2-s
        // rfc: 6581-6-d
        let Some(&[.., flags, revision, high, low]) = self.0.first_chunk::<FRAME_LEN>() else {
            return Ok(FRAME_LEN);
        };
        if !(1..=2).contains(&revision) {
            return Err(SetupError::Revision(revision));
        }
        let len = usize::from(u16::from_be_bytes([high, low]));
        let short = revision == 2 && flags & ENHANCED != 0 && len < 4;
        if len > MAX_PRIVATE_DATA || short {
            return Err(SetupError::PrivateDataLen(len));
        }
        Ok(FRAME_LEN + len)
    }
}

impl Frame {
    fn parse(bytes: &[u8]) -> Result<Self, SetupError> {
        // rfc: 6581-6-e, 6581-9.2-n
        let (head, data) = bytes.split_at(FRAME_LEN);
        let (flags, revision) = (head[16], head[17]);
        let mut frame = Self {
            flags,
            revision,
            enhanced: None,
            private_data: data.to_vec(),
        };
        if revision == 2 && flags & ENHANCED != 0 {
            let Some((&[a, b, c, d], data)) = data.split_first_chunk() else {
                return Err(SetupError::PrivateDataLen(data.len()));
            };
            let (ird, ord) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            let depths = ReadDepths {
                ird: ird & 0x3fff,
                ord: ord & 0x3fff,
            };
            let rtr = RtrTypes {
                send: ird & 0x4000 != 0,
                write: ord & 0x8000 != 0,
                read: ord & 0x4000 != 0,
            };
            frame.enhanced = Some((depths, (ird & 0x8000 != 0).then_some(rtr)));
            frame.private_data = data.to_vec();
        }
        Ok(frame)
    }

    fn encode(&self, key: &[u8; 16]) -> Result<Vec<u8>, SetupError> {
        // rfc: 5044-7.1.1-m, 5044-7.1.1-q, 5044-7.1.1-s, 6581-6-a, 6581-9-a, 6581-9.2-a
        // rfc: 6581-9.2-b, 6581-9.2-l, 6581-9.2-n
        let len = self.private_data.len() + if self.enhanced.is_some() { 4 } else { 0 };
        let field = u16::try_from(len).ok().filter(|_| len <= MAX_PRIVATE_DATA);
        let field = field.ok_or(SetupError::PrivateDataLen(len))?;
        let enhanced = if self.enhanced.is_some() { ENHANCED } else { 0 };
        let mut bytes = key.to_vec();
        bytes.extend([self.flags | enhanced, self.revision]);
        bytes.extend(field.to_be_bytes());
        if let Some((depths, rtr)) = self.enhanced {
            let bit = |set: bool, bit: u16| if set { bit } else { 0 };
            let types = rtr.unwrap_or_default();
            let ird = depths.ird.min(NOT_NEGOTIATED)
                | bit(rtr.is_some(), 0x8000)
                | bit(types.send, 0x4000);
            let ord =
                depths.ord.min(NOT_NEGOTIATED) | bit(types.write, 0x8000) | bit(types.read, 0x4000);
            bytes.extend(ird.to_be_bytes());
            bytes.extend(ord.to_be_bytes());
        }
        bytes.extend(&self.private_data);
        Ok(bytes)
    }

    fn established(&self, crc: bool) -> MpaEstablished {
        // rfc: 5044-4.4-e, 5044-4.4-f, 5044-4.4-g, 5044-7.1.1-f, 5044-7.1.1-g, 5044-7.1.1-h
        // rfc: 5044-7.1.1-i, 5044-7.1.1-k, 6581-9.1-a
        MpaEstablished {
            crc: crc || self.flags & CRC != 0,
            markers: self.flags & MARKERS != 0,
            depths: None,
            peer_depths: self.enhanced.map(|(depths, _)| depths),
            rtr: None,
            private_data: self.private_data.clone(),
        }
    }
}

const fn flags(crc: bool) -> u8 {
    if crc { CRC } else { 0 }
}

/// The end that initiates the connection.
///
/// ```
/// use rpcrdma_iwarp::{MpaInitiator, MpaOptions, MpaResponder};
///
/// let options =
///     MpaOptions { crc: true, depths: None, rtr: None, private_data: b"hi".to_vec() };
/// let (mut initiator, request) = MpaInitiator::new(options.clone())?;
/// let mut responder = MpaResponder::new();
/// let request = responder.receive(&request)?.expect("the request is whole");
/// assert_eq!(request.private_data(), b"hi");
/// let (reply, _) = request.accept(&options)?;
/// let (taken, established) = initiator.receive(&reply)?;
/// assert_eq!(taken, reply.len());
/// assert!(established.expect("the reply is whole").crc);
/// # Ok::<(), rpcrdma_iwarp::SetupError>(())
/// ```
#[derive(Debug)]
pub struct MpaInitiator {
    options: MpaOptions,
    reader: FrameReader,
    rejection: Vec<u8>,
    rejected_depths: Option<ReadDepths>,
    /// The Terminate that ends a setup which the responder considers complete.
    terminate: Vec<u8>,
}

impl MpaInitiator {
    /// Creates an initiator. Returns it with the request to send.
    ///
    /// # Errors
    ///
    /// Returns `PrivateDataLen` if the private data are too long.
    pub fn new(options: MpaOptions) -> Result<(Self, Vec<u8>), SetupError> {
        // rfc: 5044-7.1.1-a, 5044-7.1.1-n, 5044-7.1.2-a, 5044-7.1.2-b, 6581-6-b, 6581-6-c
        // rfc: 6581-10-c
        let frame = Frame {
            flags: flags(options.crc),
            revision: if options.depths.is_some() { 2 } else { 1 },
            enhanced: options.depths.map(|depths| (depths, options.rtr)),
            private_data: options.private_data.clone(),
        };
        let request = frame.encode(REQUEST_KEY)?;
        let this = Self {
            options,
            reader: FrameReader::default(),
            rejection: Vec::new(),
            rejected_depths: None,
            terminate: Vec::new(),
        };
        Ok((this, request))
    }

    /// Consumes bytes of the reply. Returns their number; the bytes after the reply are FPDUs.
    ///
    /// # Errors
    ///
    /// After an error the caller must send [`Self::terminate`] and close the TCP connection.
    pub fn receive(&mut self, input: &[u8]) -> Result<(usize, Option<MpaEstablished>), SetupError> {
        // rfc: 5044-7.1.1-d, 5044-7.1.2-g, 5044-7.1.2-h, 5044-7.1.2-i
        let (taken, frame) = self.reader.take(input, REPLY_KEY)?;
        let Some(frame) = frame else {
            return Ok((taken, None));
        };
        if frame.flags & REJECTED != 0 {
            self.rejected_depths = frame.enhanced.map(|(depths, _)| depths);
            self.rejection = frame.private_data;
            return Err(SetupError::Rejected);
        }
        let established = self.establish(&frame);
        if let Err(SetupError::InsufficientIrd | SetupError::NoRtr) = established {
            self.terminate = self.encode_terminate(&frame, established.as_ref().err());
        }
        Ok((taken, Some(established?)))
    }

    fn establish(&self, frame: &Frame) -> Result<MpaEstablished, SetupError> {
        let mut established = frame.established(self.options.crc);
        if let (Some(ours), Some((theirs, rtr))) = (self.options.depths, frame.enhanced) {
            established.depths = Some(initiator_depths(ours, theirs)?);
            established.rtr = common_rtr(self.options.rtr, rtr)?;
        }
        Ok(established)
    }

    /// Returns the FPDU of a Terminate. The responder has accepted the connection, so it receives
    /// FPDUs.
    fn encode_terminate(&self, frame: &Frame, error: Option<&SetupError>) -> Vec<u8> {
        // rfc: 6581-9.1-g, 6581-9.1-h, 6581-9.2-j, 6581-9.2-k
        let code = match error {
            Some(SetupError::InsufficientIrd) => TerminateCode::MPA_INSUFFICIENT_IRD,
            _ => TerminateCode::MPA_NO_RTR,
        };
        let established = frame.established(self.options.crc);
        let mut framer = Framer::new(0, established.crc, established.markers, false);
        framer.push_terminate(&Terminate::new(code));
        let headers = framer.pieces().map(|piece| match piece {
            FramerPiece::Owned(bytes) => bytes,
            FramerPiece::Payload { .. } => &[],
        });
        headers.collect::<Vec<_>>().concat()
    }

    /// Returns the bytes to send after an error of [`Self::receive`], before the TCP connection is
    /// closed: a Terminate after `InsufficientIrd` and `NoRtr` (RFC 6581, section 9), and nothing
    /// otherwise.
    pub fn terminate(&self) -> &[u8] {
        &self.terminate
    }

    /// Returns the minimum number of missing bytes of the reply. A caller that reads no more than
    /// this does not consume bytes after the reply.
    pub fn missing(&self) -> usize {
        let needed = self.reader.needed().unwrap_or(FRAME_LEN);
        needed.saturating_sub(self.reader.0.len())
    }

    /// Returns the private data of a rejection.
    pub fn rejection(&self) -> &[u8] {
        &self.rejection
    }

    /// Returns the depths in a rejection, with which the peer would accept; `None` with revision 1.
    pub const fn rejected_depths(&self) -> Option<ReadDepths> {
        // rfc: 6581-9.1-i
        self.rejected_depths
    }
}

/// Computes the depths by RFC 6581, section 9.1: the initiator's ORD is at most the responder's
/// IRD, and its IRD is at least the responder's ORD.
fn initiator_depths(ours: ReadDepths, theirs: ReadDepths) -> Result<ReadDepths, SetupError> {
    // rfc: 6581-9.1-f, 6581-9.1-k, 6581-9.1-m
    if theirs.ord != NOT_NEGOTIATED && ours.ird != NOT_NEGOTIATED && theirs.ord > ours.ird {
        return Err(SetupError::InsufficientIrd);
    }
    let ord = if theirs.ird == NOT_NEGOTIATED {
        ours.ord
    } else {
        ours.ord.min(theirs.ird)
    };
    Ok(ReadDepths { ird: ours.ird, ord })
}

fn common_rtr(
    ours: Option<RtrTypes>,
    theirs: Option<RtrTypes>,
) -> Result<Option<RtrTypes>, SetupError> {
    let (Some(ours), Some(theirs)) = (ours, theirs) else {
        return Ok(None);
    };
    let common = RtrTypes {
        send: ours.send && theirs.send,
        write: ours.write && theirs.write,
        read: ours.read && theirs.read,
    };
    if common == RtrTypes::default() {
        Err(SetupError::NoRtr)
    } else {
        Ok(Some(common))
    }
}

/// The end that accepts the connection.
#[derive(Debug, Default)]
pub struct MpaResponder(FrameReader);

impl MpaResponder {
    /// Creates a responder that waits for a request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Consumes bytes of the request. Returns the request once it is complete.
    ///
    /// # Errors
    ///
    /// After an error the TCP connection must be closed.
    pub fn receive(&mut self, input: &[u8]) -> Result<Option<MpaRequest>, SetupError> {
        // rfc: 5044-7.1.1-b
        let (taken, frame) = self.0.take(input, REQUEST_KEY)?;
        if frame.is_some() && taken < input.len() {
            return Err(SetupError::EarlyData);
        }
        Ok(frame.map(MpaRequest))
    }
}

/// A request without a reply yet.
#[derive(Debug)]
pub struct MpaRequest(Frame);

impl MpaRequest {
    /// Returns the peer's private data.
    pub fn private_data(&self) -> &[u8] {
        &self.0.private_data
    }

    /// Returns MPA's revision, 1 or 2.
    pub const fn revision(&self) -> u8 {
        self.0.revision
    }

    /// Accepts the connection. Returns the reply to send, in the revision of the request. Without
    /// depths, the responder adopts those of the request.
    ///
    /// # Errors
    ///
    /// Returns `PrivateDataLen` if the private data are too long.
    pub fn accept(self, options: &MpaOptions) -> Result<(Vec<u8>, MpaEstablished), SetupError> {
        // rfc: 5044-3-i, 5044-7.1.1-c, 5044-7.1.2-f, 6581-9.2-c, 6581-9.2-d, 6581-9.2-e
        // rfc: 6581-9.2-f, 6581-9.2-h, 6581-9.2-m, 6581-10-a, 6581-10-b, 6581-10-d, 6581-10-e
        // rfc: 6581-10-f
        let mut established = self.0.established(options.crc);
        let enhanced = self.0.enhanced.map(|(theirs, rtr)| {
            let all = RtrTypes {
                send: true,
                write: true,
                read: true,
            };
            let offered = options.rtr.unwrap_or(all);
            let rtr = rtr
                .map(|asked| common_rtr(Some(asked), Some(offered)).ok().flatten())
                .map(|common| common.unwrap_or(offered));
            let ours = options.depths.unwrap_or(ReadDepths {
                ird: theirs.ord,
                ord: theirs.ird,
            });
            let (own, told) = responder_depths(ours, theirs, rtr.is_some_and(|rtr| rtr.read));
            established.depths = Some(own);
            established.rtr = rtr;
            (told, rtr)
        });
        let frame = Frame {
            flags: flags(established.crc),
            revision: self.0.revision,
            enhanced,
            private_data: options.private_data.clone(),
        };
        Ok((frame.encode(REPLY_KEY)?, established))
    }

    /// Rejects the connection. Returns the reply to send.
    ///
    /// # Errors
    ///
    /// Returns `PrivateDataLen` if the private data are too long.
    pub fn reject(self, private_data: &[u8]) -> Result<Vec<u8>, SetupError> {
        // rfc: 5044-7.1.2-e, 5044-7.1.2-n
        let enhanced = self.0.enhanced.map(|(theirs, rtr)| {
            (
                ReadDepths {
                    ird: theirs.ord,
                    ord: theirs.ird,
                },
                rtr,
            )
        });
        let frame = Frame {
            flags: REJECTED | self.0.flags & CRC,
            revision: self.0.revision,
            enhanced,
            private_data: private_data.to_vec(),
        };
        frame.encode(REPLY_KEY)
    }
}

/// Returns the responder's depths, and those in its reply.
fn responder_depths(
    ours: ReadDepths,
    theirs: ReadDepths,
    read_rtr: bool,
) -> (ReadDepths, ReadDepths) {
    // rfc: 6581-9.1-b, 6581-9.1-c, 6581-9.1-j, 6581-9.1-l
    // A Read as ready-to-receive message needs an IRD of at least 1 (RFC 6581, section 9.1).
    let ird = if read_rtr { ours.ird.max(1) } else { ours.ird };
    let ord = if theirs.ird == NOT_NEGOTIATED {
        ours.ord
    } else {
        ours.ord.min(theirs.ird)
    };
    let told = ReadDepths {
        ird: if theirs.ord == NOT_NEGOTIATED {
            NOT_NEGOTIATED
        } else {
            ird
        },
        ord: if theirs.ird == NOT_NEGOTIATED {
            NOT_NEGOTIATED
        } else {
            ord
        },
    };
    (ReadDepths { ird, ord }, told)
}
