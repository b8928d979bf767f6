//! Captures: `rpcrdma decode --pcap` finds the RPC-over-RDMA messages of RoCEv2 and iWARP in them,
//! and `rpcrdma demo --pcap` writes messages to them.
//!
//! A frame passes through `file`, `packet`, then `roce` or `tcp` and `iwarp`, and `report`. This
//! module owns the connections: it decides which flows belong together, and which end is the
//! client. A capture is untrusted and may begin anywhere: every parser must have limits and must
//! not panic, and `MAX_FLOWS` limits each table of connections. A flow is announced at its first
//! message, so other protocols are not reported.
//!
//! A RoCE connection has two flows, one for each direction. The messages of connection managers
//! tell which belong together; without them `counterpart` guesses. `tcp` takes a stream out of the
//! table while it handles a segment, and must put it back unless the stream has ended.

mod file;
mod iwarp;
mod message;
mod packet;
mod report;
mod roce;
mod rpc;
mod tcp;
pub(crate) mod write;

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use rpcrdma_proto::connection::Properties;

use crate::output::OutputError;
use file::Frame;
use iwarp::{IwarpArrival, IwarpConnection};
use packet::{Packet, Parsed, TcpHeader, Transport};
use report::{ConnectionNumber, Report, Sender};
use roce::{Management, Requests, RoceArrival, Transfer};
use tcp::{Direction, StreamPart};

/// The maximum connections and queue pairs that are tracked at once. Those beyond it are not
/// decoded.
const MAX_FLOWS: usize = 1 << 16;

/// The report about a message that is incomplete at the end of the capture.
const END_OF_SEND: &str = "the end of a Send";

/// Prints the messages of a capture.
pub(crate) fn run(path: &Path, json: bool, draft: Properties) -> Result<(), Box<dyn Error>> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let input = std::fs::File::open(path).map_err(|error| named(&error))?;
    let report = Report::new(io::stdout().lock(), json, draft);
    analyze(input, report).map_err(|error| match error.downcast::<OutputError>() {
        Ok(error) => error as Box<dyn Error>,
        Err(error) => named(&error).into(),
    })
}

/// Reports the messages of a capture.
fn analyze(input: impl Read + Send, report: Report<impl Write>) -> Result<(), Box<dyn Error>> {
    let mut analysis = Analysis::new(report);
    let damage = file::read(input, |frame| Ok(analysis.frame(&frame)?))?;
    if let Some(link) = analysis.report.only_unsupported() {
        return Err(format!(
            "frames of the link type {link} are not supported: Ethernet, raw IP, loopback and \
             cooked frames of Linux are"
        )
        .into());
    }
    analysis.finish()?;
    Ok(analysis.report.finish(damage.as_deref())?)
}

/// A flow of RoCE: source address, destination address, and the number of the queue pair at the
/// destination.
type QueuePair = (IpAddr, IpAddr, u32);

/// The state of a flow, and its connection, once it is known.
#[derive(Default)]
struct Flow {
    requests: Requests,
    end: Option<(ConnectionNumber, Sender)>,
}

/// A RoCE connection without messages of connection managers. At first only one flow is known.
struct RoceConnection {
    number: ConnectionNumber,
    client: IpAddr,
    server: IpAddr,
    /// Whether the flow from the client and the flow from the server are known.
    known: [bool; 2],
}

/// A TCP connection.
#[derive(Default)]
struct Stream {
    directions: [Direction; 2],
    iwarp: IwarpConnection,
    /// The side that sent the first segment, a SYN.
    opened: Option<usize>,
    /// Whether it has ended. It is kept, since retransmitted segments may follow.
    has_ended: bool,
    /// Whether its ends are in the list of ended streams.
    is_listed: bool,
    /// The connection, once it is announced, and the side of the client.
    connection: Option<(ConnectionNumber, usize)>,
}

struct Analysis<W> {
    report: Report<W>,
    flows: HashMap<QueuePair, Flow>,
    roce: Vec<RoceConnection>,
    /// The unanswered requests of connection managers, by requester, responder and communication
    /// id: the queue pair of the requester, and the port.
    connect_requests: HashMap<(IpAddr, IpAddr, u32), (u32, u16)>,
    /// The flows of connections that connection managers set up: the sender, the flow of the other
    /// direction, and the port.
    managed: HashMap<QueuePair, (Sender, QueuePair, u16)>,
    streams: HashMap<Ends, Stream>,
    /// The streams that have ended, which make room for others, each once. A stream of the same
    /// ports may have replaced one.
    ended: VecDeque<Ends>,
}

/// The two ends of a TCP connection.
type Ends = (SocketAddr, SocketAddr);

impl<W: Write> Analysis<W> {
    fn new(report: Report<W>) -> Self {
        Self {
            report,
            flows: HashMap::new(),
            roce: Vec::new(),
            connect_requests: HashMap::new(),
            managed: HashMap::new(),
            streams: HashMap::new(),
            ended: VecDeque::new(),
        }
    }

    fn frame(&mut self, frame: &Frame<'_>) -> Result<(), OutputError> {
        self.report.frame(frame);
        let packet = match packet::parse(frame) {
            Some(Parsed::Packet(packet)) => packet,
            Some(Parsed::Fragment) => {
                self.report.fragment();
                return Ok(());
            }
            None => return Ok(()),
        };
        match packet.transport {
            Transport::Udp if packet.destination.port() == roce::PORT => self.roce(&packet),
            Transport::Udp => Ok(()),
            Transport::Tcp(header) => self.tcp(&packet, header),
        }
    }

    /// Handles the end of the capture, where messages may be incomplete.
    fn finish(&mut self) -> Result<(), OutputError> {
        let flows = self
            .flows
            .iter()
            .filter(|(_, flow)| flow.requests.is_within_send());
        let mut flows: Vec<QueuePair> = flows.map(|(key, _)| *key).collect();
        flows.sort_unstable();
        for key in flows {
            if let Some((number, from)) = self.known_end(key) {
                self.report.lost(number, from, END_OF_SEND)?;
            }
        }
        let streams = std::mem::take(&mut self.streams);
        let mut streams: Vec<_> = streams.into_iter().collect();
        // The output does not depend on the order of the map.
        streams.sort_unstable_by_key(|(ends, _)| *ends);
        for (ends, mut stream) in streams {
            self.close(ends, &mut stream)?;
            if let Some((number, client)) = stream.connection.filter(|_| !stream.has_ended) {
                for (side, what) in stream.iwarp.incomplete() {
                    self.report
                        .lost(number, Sender::of_side(side, client), what)?;
                }
            }
        }
        Ok(())
    }
}

/// RoCEv2 packets.
impl<W: Write> Analysis<W> {
    fn roce(&mut self, packet: &Packet<'_>) -> Result<(), OutputError> {
        let Some(transfer) = Transfer::parse(packet.payload, packet.length) else {
            return Ok(());
        };
        let (source, destination) = (packet.source.ip(), packet.destination.ip());
        if let Some(management) = transfer.management() {
            self.manage(source, destination, management);
            return Ok(());
        }
        let key = (source, destination, transfer.queue_pair);
        if !self.flows.contains_key(&key) && self.flows.len() >= MAX_FLOWS {
            self.report.overflow();
            return Ok(());
        }
        let arrivals = self
            .flows
            .entry(key)
            .or_default()
            .requests
            .receive(&transfer);
        for arrival in arrivals {
            self.arrived(key, arrival)?;
        }
        Ok(())
    }

    /// Tracks the messages of connection managers.
    fn manage(&mut self, source: IpAddr, destination: IpAddr, management: Management) {
        if self.connect_requests.len() >= MAX_FLOWS || self.managed.len() >= MAX_FLOWS {
            return self.report.overflow();
        }
        match management {
            Management::Request {
                id,
                queue_pair,
                port,
            } => {
                self.connect_requests
                    .insert((source, destination, id), (queue_pair, port));
            }
            Management::Reply {
                request,
                queue_pair,
            } => {
                let asked = self
                    .connect_requests
                    .remove(&(destination, source, request));
                let Some((client, port)) = asked else {
                    return;
                };
                let to_client = (source, destination, client);
                let to_server = (destination, source, queue_pair);
                self.managed
                    .insert(to_server, (Sender::Client, to_client, port));
                self.managed
                    .insert(to_client, (Sender::Server, to_server, port));
                // An earlier connection may have had the same queue pair numbers.
                self.flows.remove(&to_client);
                self.flows.remove(&to_server);
            }
        }
    }

    /// Returns the connection of a flow, if it is announced.
    fn known_end(&self, key: QueuePair) -> Option<(ConnectionNumber, Sender)> {
        let end = |key: &QueuePair| self.flows.get(key).and_then(|flow| flow.end);
        let by_managers = || {
            let (from, peer, _) = self.managed.get(&key)?;
            end(peer).map(|(number, _)| (number, *from))
        };
        end(&key).or_else(by_managers)
    }

    fn arrived(&mut self, key: QueuePair, arrival: RoceArrival) -> Result<(), OutputError> {
        let end = self.known_end(key);
        match arrival {
            RoceArrival::Lost { text, .. } => match end {
                Some((number, from)) => self.report.lost(number, from, &text),
                None => Ok(()),
            },
            RoceArrival::Send { bytes, packets } => {
                let Some(message) = self.report.parse(&bytes, end.is_some()) else {
                    return Ok(());
                };
                let (number, from) = match end {
                    Some(end) => end,
                    None => self.identify(key, &message)?,
                };
                self.report.message(number, from, &message, packets)
            }
        }
    }

    /// Finds the connection of a flow from its first message.
    fn identify(
        &mut self,
        key: QueuePair,
        message: &message::Message<'_>,
    ) -> Result<(ConnectionNumber, Sender), OutputError> {
        let managed = self.managed.get(&key).copied();
        let end = match managed {
            Some((from, peer, port)) => {
                let known = self.flows.get(&peer).and_then(|flow| flow.end);
                match known {
                    Some((number, _)) => (number, from),
                    None => (self.announce(key, from, Some((peer.2, port)))?, from),
                }
            }
            None => match self.counterpart(key, message) {
                Some(end) => end,
                None => {
                    let call = message.is_call().unwrap_or(true);
                    let from = if call { Sender::Client } else { Sender::Server };
                    (self.announce(key, from, None)?, from)
                }
            },
        };
        if let Some(flow) = self.flows.get_mut(&key) {
            flow.end = Some(end);
        }
        Ok(end)
    }

    /// Without connection manager messages, a flow belongs to the connection whose call it answers,
    /// or to the only connection that lacks this direction.
    fn counterpart(
        &mut self,
        (source, destination, _): QueuePair,
        message: &message::Message<'_>,
    ) -> Option<(ConnectionNumber, Sender)> {
        let ends = [Sender::Client, Sender::Server];
        let candidates: Vec<(usize, usize)> = self
            .roce
            .iter()
            .enumerate()
            .flat_map(|(at, connection)| {
                let hosts = [
                    (connection.client, connection.server),
                    (connection.server, connection.client),
                ];
                let fits = move |side: &usize| {
                    !connection.known[*side] && hosts[*side] == (source, destination)
                };
                [0, 1].into_iter().filter(fits).map(move |side| (at, side))
            })
            .collect();
        let answers = |(at, side): &&(usize, usize)| {
            let peer = ends[*side].other();
            let xid = message.xid().unwrap_or_default();
            self.report.has_call(self.roce[*at].number, peer, xid)
        };
        let (at, side) = match (candidates.iter().find(answers), candidates.as_slice()) {
            (Some(found), _) => *found,
            (None, [only]) => *only,
            _ => return None,
        };
        let connection = self.roce.get_mut(at)?;
        connection.known[side] = true;
        Some((connection.number, ends[side]))
    }

    fn announce(
        &mut self,
        (source, destination, queue_pair): QueuePair,
        from: Sender,
        peer: Option<(u32, u16)>,
    ) -> Result<ConnectionNumber, OutputError> {
        let receiver = format!("{destination} QP {queue_pair:#x}");
        let sender = match peer {
            Some((queue_pair, _)) => format!("{source} QP {queue_pair:#x}"),
            None => source.to_string(),
        };
        let (mut client, mut server) = (sender, receiver);
        let (mut hosts, mut known) = ((source, destination), [true, false]);
        if from == Sender::Server {
            std::mem::swap(&mut client, &mut server);
            (hosts, known) = ((destination, source), [false, true]);
        }
        if let Some((_, port)) = peer {
            server += &format!(" port {port}");
        }
        let number = self.report.connection("RoCEv2", &client, &server)?;
        if peer.is_none() && self.roce.len() < MAX_FLOWS {
            let (client, server) = hosts;
            self.roce.push(RoceConnection {
                number,
                client,
                server,
                known,
            });
        }
        Ok(number)
    }
}

/// iWARP segments.
impl<W: Write> Analysis<W> {
    fn tcp(&mut self, packet: &Packet<'_>, header: TcpHeader) -> Result<(), OutputError> {
        let (source, destination) = (packet.source, packet.destination);
        let (addresses, side) = if source <= destination {
            ((source, destination), 0)
        } else {
            ((destination, source), 1)
        };
        let mut stream = match self.streams.remove(&addresses) {
            // The ports are reused for a new connection.
            Some(mut old) if old.directions[side].is_restarted_by(header) => {
                self.close(addresses, &mut old)?;
                Stream {
                    is_listed: old.is_listed,
                    ..Stream::default()
                }
            }
            Some(stream) => stream,
            // Acknowledgements alone do not identify a stream.
            None if packet.length == 0 && !header.syn => return Ok(()),
            None if !self.has_room() => {
                self.report.overflow();
                return Ok(());
            }
            None => Stream::default(),
        };
        if header.syn {
            let is_answer = header.acknowledged.is_some();
            stream.opened = Some(if is_answer { 1 - side } else { side });
        }
        let parts = stream.directions[side].segment(header, packet.payload, packet.length);
        self.iwarp(addresses, &mut stream, side, parts)?;
        if let Some(number) = header.acknowledged {
            let parts = stream.directions[1 - side].acknowledged(number);
            self.iwarp(addresses, &mut stream, 1 - side, parts)?;
        }
        let have_ended = stream.directions.iter().all(Direction::has_ended);
        if !stream.has_ended && (header.reset || have_ended) {
            stream.has_ended = true;
            if !std::mem::replace(&mut stream.is_listed, true) {
                self.ended.push_back(addresses);
            }
            self.close(addresses, &mut stream)?;
        }
        self.streams.insert(addresses, stream);
        Ok(())
    }

    /// Returns true if there is room for another stream, for which one that has ended is dropped.
    fn has_room(&mut self) -> bool {
        while self.streams.len() >= MAX_FLOWS {
            let Some(oldest) = self.ended.pop_front() else {
                return false;
            };
            match self.streams.get_mut(&oldest) {
                Some(stream) if !stream.has_ended => stream.is_listed = false,
                _ => drop(self.streams.remove(&oldest)),
            }
        }
        true
    }

    /// Handles the data that still wait in an ended stream.
    fn close(&mut self, addresses: Ends, stream: &mut Stream) -> Result<(), OutputError> {
        for side in [0, 1] {
            let parts = stream.directions[side].finish();
            self.iwarp(addresses, stream, side, parts)?;
        }
        Ok(())
    }

    fn iwarp(
        &mut self,
        addresses: Ends,
        stream: &mut Stream,
        side: usize,
        parts: Vec<StreamPart>,
    ) -> Result<(), OutputError> {
        for part in parts {
            for (from, arrival) in stream.iwarp.receive(side, part) {
                self.arrived_on_stream(addresses, stream, from, arrival)?;
            }
        }
        Ok(())
    }

    fn arrived_on_stream(
        &mut self,
        addresses: Ends,
        stream: &mut Stream,
        side: usize,
        arrival: IwarpArrival,
    ) -> Result<(), OutputError> {
        match arrival {
            IwarpArrival::Lost(text) => match stream.connection {
                Some((number, client)) => {
                    let from = Sender::of_side(side, client);
                    self.report.lost(number, from, &text)
                }
                None => Ok(()),
            },
            IwarpArrival::Send { bytes, segments } => {
                let Some(message) = self.report.parse(&bytes, stream.connection.is_some()) else {
                    return Ok(());
                };
                let (number, client) = match stream.connection {
                    Some(known) => known,
                    None => {
                        let first = stream.iwarp.initiator().or(stream.opened);
                        let by_call = || {
                            if message.is_call() == Some(false) {
                                1 - side
                            } else {
                                side
                            }
                        };
                        let client = first.unwrap_or_else(by_call);
                        let ends = [addresses.0, addresses.1].map(|end| end.to_string());
                        let (client_name, server_name) =
                            (&ends[client & 1], &ends[1 - (client & 1)]);
                        let number = self.report.connection("iWARP", client_name, server_name)?;
                        (number, client)
                    }
                };
                stream.connection = Some((number, client));
                let from = Sender::of_side(side, client);
                self.report.message(number, from, &message, segments)
            }
        }
    }
}

#[cfg(test)]
mod tests;
