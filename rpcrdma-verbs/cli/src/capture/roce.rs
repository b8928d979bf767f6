//! RoCEv2: the Sends of reliable connections, and the messages of connection managers.
//!
//! Source: InfiniBand Architecture Specification, volume 1, section 9.2 (the base transport
//! header), 9.4 (opcodes), 9.7 (reliable connections) and 12.6 (messages of connection managers).
//! [`Requests`] follows the sequence numbers to one queue pair: an RDMA Read uses one for each
//! packet of its response, of which the capture does not tell the MTU. `capture` assigns queue
//! pairs to connections.

use super::packet::Bytes;

/// The UDP port of RoCEv2 (InfiniBand specification, annex A17).
pub(super) const PORT: u16 = 4791;
/// The maximum length of a reassembled Send.
const MAX_SEND: usize = 1 << 24;

const PSN_MASK: u32 = 0xff_ffff;
/// The path MTUs.
const MTUS: [u32; 5] = [256, 512, 1024, 2048, 4096];

/// A packet of InfiniBand: what follows the UDP header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer<'a> {
    opcode: u8,
    pub(super) queue_pair: u32,
    psn: u32,
    payload: &'a [u8],
    /// The number of bytes of payload and padding that were not captured.
    cut: usize,
}

/// The position of a packet in the message of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PacketPosition {
    First,
    Middle,
    Last,
    Only,
}

impl<'a> Transfer<'a> {
    /// Reads the base transport header. `length` is the length of the packet, including the ICRC.
    pub(super) fn parse(packet: &'a [u8], length: usize) -> Option<Self> {
        let cut = length.saturating_sub(packet.len());
        let mut bytes = Bytes(packet);
        let (opcode, flags) = (bytes.u8()?, bytes.u8()?);
        // The partition key and a reserved byte.
        bytes.take(3)?;
        let queue_pair = bytes.u24()?;
        bytes.u8()?;
        let psn = bytes.u24()?;
        // The padding and the ICRC are at the end.
        let tail = 4 + usize::from(flags >> 4 & 3);
        let captured = bytes.0.len().checked_sub(tail.saturating_sub(cut))?;
        let payload = bytes.0.get(..captured)?;
        Some(Self {
            opcode,
            queue_pair,
            psn,
            payload,
            cut: cut.saturating_sub(tail),
        })
    }

    /// Returns the position of the packet in its Send, and its data; `None` for any other packet.
    fn send(&self) -> Option<(PacketPosition, &'a [u8])> {
        let (place, header) = match self.opcode {
            0 => (PacketPosition::First, 0),
            1 => (PacketPosition::Middle, 0),
            2 => (PacketPosition::Last, 0),
            4 => (PacketPosition::Only, 0),
            // After the immediate data, or the key to invalidate.
            3 | 22 => (PacketPosition::Last, 4),
            5 | 23 => (PacketPosition::Only, 4),
            _ => return None,
        };
        Some((place, self.payload.get(header..)?))
    }

    /// Returns true for a request of a reliable connection.
    fn is_request(&self) -> bool {
        matches!(self.opcode, 0..=12 | 19..=20 | 22..=23)
    }

    /// Returns the length that an RDMA Read request asks for; `None` for any other packet.
    fn read_length(&self) -> Option<u32> {
        let mut reth = Bytes(self.payload);
        reth.take(12)?;
        reth.u32().filter(|_| self.opcode == 12)
    }

    /// Returns true if the packet retries the rest of an RDMA Read of this length, of which as many
    /// packets of the response have arrived: all but the last have the length of the MTU.
    fn retries(&self, length: u32, arrived: u32) -> bool {
        self.read_length().is_some_and(|rest| {
            let whole = |mtu: u32| arrived.checked_mul(mtu)?.checked_add(rest);
            rest > 0 && MTUS.into_iter().any(|mtu| whole(mtu) == Some(length))
        })
    }

    /// Returns the connection manager message in a datagram to queue pair 1.
    pub(super) fn management(&self) -> Option<Management> {
        if self.opcode != 0x64 || self.queue_pair != 1 {
            return None;
        }
        // After the extended header of the datagram.
        let mad = self.payload.get(8..)?;
        let class = *mad.get(1)?;
        let mut body = Bytes(mad.get(24..)?);
        let attribute = Bytes(mad.get(16..)?).u16()?;
        if class != 7 {
            return None;
        }
        let local = body.u32()?;
        match attribute {
            0x10 => {
                // The service id ends with the port.
                body.take(10)?;
                let port = body.u16()?;
                body.take(12)?;
                body.u32()?;
                let queue_pair = body.u24()?;
                Some(Management::Request {
                    id: local,
                    queue_pair,
                    port,
                })
            }
            0x13 => {
                let request = body.u32()?;
                body.u32()?;
                Some(Management::Reply {
                    request,
                    queue_pair: body.u24()?,
                })
            }
            _ => None,
        }
    }
}

/// A message of a connection manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Management {
    Request { id: u32, queue_pair: u32, port: u16 },
    Reply { request: u32, queue_pair: u32 },
}

/// An event of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum RoceArrival {
    /// A Send is complete. It had this number of packets.
    Send { bytes: Vec<u8>, packets: usize },
    /// Packets are missing in the capture. `send` tells whether they, or this packet, belong to a
    /// Send.
    Lost { text: String, send: bool },
}

/// The expected sequence number (PSN) of the next packet.
#[derive(Clone, Copy)]
enum ExpectedPacket {
    Psn(u32),
    /// After an RDMA Read of this many bytes, which uses as many sequence numbers as its response
    /// has packets.
    AfterRead {
        psn: u32,
        length: u32,
    },
}

/// The requests to one queue pair.
#[derive(Default)]
pub(super) struct Requests {
    next: Option<ExpectedPacket>,
    /// The incomplete Send, and its number of packets.
    partial: Option<(Vec<u8>, usize)>,
}

impl Requests {
    /// Handles a packet, and returns what it completes or reveals.
    pub(super) fn receive(&mut self, packet: &Transfer<'_>) -> Vec<RoceArrival> {
        let mut arrivals = Vec::new();
        if !packet.is_request() {
            return arrivals;
        }
        match self.missing(packet) {
            Missing::Nothing => {}
            // The packet is a retransmission.
            Missing::Before => return arrivals,
            Missing::Some(text) => {
                let send = self.partial.take().is_some();
                arrivals.push(RoceArrival::Lost { text, send });
            }
        }
        self.next = Some(match packet.read_length() {
            Some(length) => ExpectedPacket::AfterRead {
                psn: packet.psn,
                length,
            },
            None => ExpectedPacket::Psn(packet.psn.wrapping_add(1) & PSN_MASK),
        });
        arrivals.extend(self.collect(packet));
        arrivals
    }

    /// Returns whether the last packet belongs to a Send that is incomplete.
    pub(super) const fn is_within_send(&self) -> bool {
        self.partial.is_some()
    }

    fn collect(&mut self, packet: &Transfer<'_>) -> Option<RoceArrival> {
        let Some((place, data)) = packet.send() else {
            self.partial = None;
            return None;
        };
        let lost = |text: &str| {
            Some(RoceArrival::Lost {
                text: text.to_owned(),
                send: true,
            })
        };
        if packet.cut > 0 {
            self.partial = None;
            return lost(&format!("{} bytes of a Send were not captured", packet.cut));
        }
        let (mut bytes, packets) = match place {
            PacketPosition::First | PacketPosition::Only => (Vec::new(), 0),
            PacketPosition::Middle | PacketPosition::Last => {
                // Otherwise the loss has been reported already, or the capture begins here.
                self.partial.take()?
            }
        };
        if bytes.len() + data.len() > MAX_SEND {
            return lost("a Send is longer than 16 MiB");
        }
        bytes.extend_from_slice(data);
        match place {
            PacketPosition::First | PacketPosition::Middle => {
                self.partial = Some((bytes, packets + 1));
                None
            }
            PacketPosition::Last | PacketPosition::Only => Some(RoceArrival::Send {
                bytes,
                packets: packets + 1,
            }),
        }
    }

    /// Compares the sequence number of a packet with the expected one.
    fn missing(&self, packet: &Transfer<'_>) -> Missing {
        let psn = packet.psn;
        let distance = |from: u32| psn.wrapping_sub(from) & PSN_MASK;
        let by_distance = |from: u32| match distance(from) {
            0 => Missing::Nothing,
            // Half of the sequence number space is behind the expected one.
            behind if behind > PSN_MASK / 2 => Missing::Before,
            1 => Missing::Some(format!("the packet {from:#08x}")),
            count => {
                let last = psn.wrapping_sub(1) & PSN_MASK;
                Missing::Some(format!("{count} packets, {from:#08x} to {last:#08x}"))
            }
        };
        match self.next {
            None => Missing::Nothing,
            Some(ExpectedPacket::Psn(next)) => by_distance(next),
            Some(ExpectedPacket::AfterRead { psn: read, length }) => {
                let after = MTUS.map(|mtu| length.div_ceil(mtu).max(1));
                let ahead = distance(read);
                if after.contains(&ahead) {
                    Missing::Nothing
                } else if ahead == 0 || ahead > PSN_MASK / 2 || packet.retries(length, ahead) {
                    Missing::Before
                } else if ahead > after[0] {
                    by_distance(read.wrapping_add(after[0]) & PSN_MASK)
                } else {
                    Missing::Some("packets after an RDMA Read".to_owned())
                }
            }
        }
    }
}

/// The packets before a packet that the capture lacks.
enum Missing {
    Nothing,
    /// None: the packet itself was seen before.
    Before,
    Some(String),
}

#[cfg(test)]
mod tests {
    use super::{Requests, RoceArrival, Transfer};

    /// Returns an RDMA Read request, or a Send of one packet, with its ICRC.
    fn packet(psn: u32, read: Option<u32>) -> Vec<u8> {
        let mut packet = vec![if read.is_some() { 12 } else { 4 }, 0, 0xff, 0xff];
        packet.extend(0x100u32.to_be_bytes());
        packet.extend(psn.to_be_bytes());
        if let Some(length) = read {
            packet.extend([0; 12]);
            packet.extend(length.to_be_bytes());
        }
        packet.extend([0; 4]);
        packet
    }

    /// Returns the losses in a sequence of requests.
    fn losses(requests: &[(u32, Option<u32>)]) -> usize {
        let mut flow = Requests::default();
        let mut count = 0;
        for (psn, read) in requests {
            let packet = packet(*psn, *read);
            let transfer = Transfer::parse(&packet, packet.len()).expect("a packet");
            let arrivals = flow.receive(&transfer);
            let lost = |arrival: &&RoceArrival| matches!(arrival, RoceArrival::Lost { .. });
            count += arrivals.iter().filter(lost).count();
        }
        count
    }

    /// A requester that lacks packets of a response reads the rest again, from the first that it
    /// lacks.
    #[test]
    fn the_retried_rest_of_a_read_is_no_loss() {
        // The MTU is 1024: the response has ten packets.
        let (read, send) = ((100, Some(10_000)), (110, None));
        for arrived in 0..10 {
            let rest = (100 + arrived, Some(10_000 - 1024 * arrived));
            assert_eq!(losses(&[read, rest, send]), 0, "{arrived}");
            assert_eq!(losses(&[read, send, rest, (111, None)]), 0, "{arrived}");
            // It is tried twice.
            assert_eq!(losses(&[read, rest, rest, send]), 0, "{arrived}");
        }
        // Another Read follows, of which the capture lacks the packet before it.
        assert_eq!(losses(&[read, (106, Some(512))]), 1);
        assert_eq!(losses(&[read, (106, None)]), 1);
    }
}
