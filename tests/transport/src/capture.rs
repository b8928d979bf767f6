//! A relay between two ends of TCP connections, which records their data as a capture for
//! Wireshark.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// The link type of packets that begin with the IP header.
const LINKTYPE_RAW: u32 = 101;
/// The maximum bytes of the stream in one packet.
const SEGMENT: usize = 1 << 14;

const FIN: u8 = 1;
const SYN: u8 = 2;
const PUSH: u8 = 8;
const ACK: u8 = 16;

/// The end that sends a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    Client,
    Server,
}

/// The packets of one connection, in the format of libpcap.
#[derive(Debug)]
pub struct Capture {
    file: Vec<u8>,
    began: Instant,
    /// The next sequence numbers of client and server.
    next: [u32; 2],
    ports: [u16; 2],
}

impl Capture {
    /// Starts a capture with the TCP handshake.
    fn new(server_port: u16) -> Self {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 1 << 16, LINKTYPE_RAW] {
            file.extend_from_slice(&u32::to_le_bytes(word));
        }
        let mut capture = Self {
            file,
            began: Instant::now(),
            next: [1000, 5000],
            ports: [40_000, server_port],
        };
        capture.packet(Sender::Client, SYN, &[]);
        capture.packet(Sender::Server, SYN | ACK, &[]);
        capture.packet(Sender::Client, ACK, &[]);
        capture
    }

    /// Records bytes of the stream.
    fn record(&mut self, from: Sender, bytes: &[u8]) {
        for part in bytes.chunks(SEGMENT) {
            self.packet(from, PUSH | ACK, part);
        }
    }

    fn packet(&mut self, from: Sender, flags: u8, bytes: &[u8]) {
        let (this, other) = match from {
            Sender::Client => (0, 1),
            Sender::Server => (1, 0),
        };
        let host = |end: usize| Ipv4Addr::new(192, 0, 2, 1 + end as u8).octets();
        let total = (40 + bytes.len()) as u16;
        let mut packet = vec![0x45, 0];
        packet.extend_from_slice(&total.to_be_bytes());
        packet.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
        packet.extend_from_slice(&host(this));
        packet.extend_from_slice(&host(other));
        packet.extend_from_slice(&self.ports[this].to_be_bytes());
        packet.extend_from_slice(&self.ports[other].to_be_bytes());
        packet.extend_from_slice(&self.next[this].to_be_bytes());
        let acknowledged = if flags & ACK == 0 {
            0
        } else {
            self.next[other]
        };
        packet.extend_from_slice(&acknowledged.to_be_bytes());
        packet.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend_from_slice(bytes);
        let since = self.began.elapsed();
        let length = packet.len() as u32;
        for word in [
            since.as_secs() as u32,
            since.subsec_micros(),
            length,
            length,
        ] {
            self.file.extend_from_slice(&word.to_le_bytes());
        }
        self.file.append(&mut packet);
        let counted = u32::from(flags & (SYN | FIN) != 0);
        self.next[this] = self.next[this].wrapping_add(bytes.len() as u32 + counted);
    }

    /// Returns the capture as a file.
    #[must_use]
    pub fn file(&self) -> &[u8] {
        &self.file
    }
}

/// Relays one connection to a server, and returns the address for its client.
///
/// # Errors
/// Fails if the relay cannot listen.
pub fn relay(server: SocketAddr) -> io::Result<(SocketAddr, Arc<Mutex<Capture>>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let capture = Arc::new(Mutex::new(Capture::new(server.port())));
    let shared = capture.clone();
    thread::spawn(move || {
        let (client, _) = listener.accept()?;
        let server = TcpStream::connect(server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let there = (client.try_clone()?, server.try_clone()?);
        let capture = shared.clone();
        thread::spawn(move || pump(Sender::Client, there, &capture));
        pump(Sender::Server, (server, client), &shared)
    });
    Ok((address, capture))
}

fn pump(
    from: Sender,
    (mut source, mut sink): (TcpStream, TcpStream),
    capture: &Mutex<Capture>,
) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let count = source.read(&mut bytes)?;
        let mut capture = capture.lock().expect("nobody has panicked");
        if count == 0 {
            capture.packet(from, FIN | ACK, &[]);
            return sink.shutdown(Shutdown::Write);
        }
        capture.record(from, &bytes[..count]);
        drop(capture);
        sink.write_all(&bytes[..count])?;
    }
}
