//! Peers over TCP that violate iWARP: each loses its connection, at the latest after a timeout,
//! with a Terminate that names its error. The server continues to serve others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rpcrdma_iwarp::{
    FpduProgress, IwarpEvent, IwarpStream, MpaInitiator, MpaOptions, MpaResponder, Placement,
    ReadDepths, ReceiveRoom, StagAccess, StagError, TerminateCode,
};
use rpcrdma_proto::connection::Config;
use rpcrdma_transport_tests::block::Block;
use rpcrdma_transport_tests::ends;
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::iwarp::{IwarpConfig, IwarpDevice};

/// The timeout of a connection setup, and the maximum concurrent setups.
const SETUP: Duration = Duration::from_millis(300);
const SETUPS: usize = 4;
/// The time limit of an FPDU.
const FPDU: Duration = Duration::from_millis(300);
/// A short keep-alive interval, and the default one.
const OFTEN: Duration = Duration::from_millis(100);
const RARELY: Duration = Duration::from_secs(5);
/// The timeout for the end of a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tests count the descriptors of their process, so they run one at a time.
static TURN: Mutex<()> = Mutex::new(());

/// A server on a separate thread.
struct Server {
    _turn: MutexGuard<'static, ()>,
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn new() -> Self {
        Self::with_keep_alive(RARELY)
    }

    fn with_keep_alive(interval: Duration) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = Arc::new(AtomicBool::new(false));
        let (announce, announced) = std::sync::mpsc::channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let (told, count) = (ended.clone(), connections.clone());
        let thread = thread::spawn(move || {
            let device = IwarpDevice::new(IwarpConfig {
                setup_timeout: SETUP,
                max_setups: SETUPS,
                fpdu_timeout: FPDU,
                ..IwarpConfig::default()
            });
            let mut driver = Driver::new(&device, &Budget::new(1 << 28), 4096).unwrap();
            driver.keep_alive(Some(interval));
            let any = ends::any_address();
            let mut server = ends::serve(&mut driver, any, Config::server(), &Block::default());
            announce.send(server.local_addr()).unwrap();
            while !told.load(Ordering::Relaxed) {
                driver.wait(Duration::from_millis(20)).unwrap();
                server.serve(&mut driver);
                count.store(server.connections().len(), Ordering::Relaxed);
            }
        });
        Self {
            _turn: turn,
            address: announced.recv().unwrap(),
            ended,
            connections,
            thread: Some(thread),
        }
    }

    /// Asserts that a correct client gets an answer.
    fn assert_serves(&self) {
        let device = IwarpDevice::default();
        let mut driver = Driver::new(&device, &Budget::new(1 << 28), 4096).unwrap();
        let client = ends::connect(&mut driver, self.address, Config::client());
        client.null().begin(&mut driver).unwrap();
        let began = Instant::now();
        while client
            .transport()
            .poll_event(&mut driver)
            .is_none_or(|event| !matches!(event, rpcrdma_verbs::LocalEvent::Completed(_)))
        {
            assert!(began.elapsed() < PATIENCE, "no answer");
            driver.wait(Duration::from_millis(5)).unwrap();
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Waits until the server has this many connections.
    fn await_connections(&self, count: usize) {
        let began = Instant::now();
        while self.connections.load(Ordering::Relaxed) != count {
            assert!(began.elapsed() < PATIENCE, "not {count} connections");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Connects, and performs the iWARP setup.
    fn established(&self) -> (TcpStream, IwarpStream) {
        self.established_over(self.connect(), options())
    }

    /// Performs the iWARP setup.
    fn established_over(
        &self,
        mut stream: TcpStream,
        options: MpaOptions,
    ) -> (TcpStream, IwarpStream) {
        let depths = options.depths.unwrap();
        let (mut initiator, request) = MpaInitiator::new(options).unwrap();
        stream.write_all(&request).unwrap();
        let mut reply = [0; 1];
        loop {
            stream.read_exact(&mut reply).unwrap();
            if let (_, Some(established)) = initiator.receive(&reply).unwrap() {
                return (stream, IwarpStream::initiator(&established, depths, 1448));
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || thread::panicking());
    }
}

fn options() -> MpaOptions {
    MpaOptions {
        crc: true,
        depths: Some(ReadDepths { ird: 4, ord: 4 }),
        rtr: None,
        private_data: Vec::new(),
    }
}

/// The memory of a peer that offers none.
struct NoMemory;

impl Placement for NoMemory {
    fn check(&mut self, _: u32, _: u64, _: u64, _: StagAccess) -> Result<(), StagError> {
        Err(StagError::Invalid)
    }

    fn receive_room(&mut self, _: u32) -> ReceiveRoom {
        ReceiveRoom::Bytes(1 << 20)
    }

    fn may_invalidate(&mut self, _: u32) -> bool {
        false
    }
}

/// Waits for the end of a connection. Returns the code of its Terminate.
fn end(mut stream: TcpStream, mut iwarp: IwarpStream) -> Option<TerminateCode> {
    let mut code = None;
    let mut bytes = [0; 4096];
    loop {
        let count = match stream.read(&mut bytes) {
            Ok(0) => return code,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return code,
            Err(error) => panic!("the connection does not end: {error}"),
        };
        let mut input = &bytes[..count];
        loop {
            let (taken, progress) = iwarp.advance(input, &mut NoMemory).unwrap();
            input = &input[taken..];
            match progress {
                FpduProgress::NeedInput | FpduProgress::Stalled => break,
                FpduProgress::Place { len, .. } => {
                    let (placed, rest) = input.split_at(len.min(input.len()));
                    if placed.is_empty() {
                        break;
                    }
                    iwarp.placed(placed);
                    input = rest;
                }
                FpduProgress::Event(IwarpEvent::Terminated(terminate)) => {
                    code = Some(terminate.code);
                }
                FpduProgress::Event(_) => {}
            }
        }
    }
}

/// Returns an FPDU with its CRC.
fn fpdu(ulpdu: &[u8]) -> Vec<u8> {
    let mut bytes = u16::try_from(ulpdu.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(ulpdu);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let sum = crc32c::crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

fn untagged(control: [u8; 2], queue: u32, msn: u32, mo: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = control.to_vec();
    for field in [0, queue, msn, mo] {
        bytes.extend(u32::to_be_bytes(field));
    }
    bytes.extend(payload);
    fpdu(&bytes)
}

fn tagged(control: [u8; 2], stag: u32, offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = control.to_vec();
    bytes.extend(stag.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(payload);
    fpdu(&bytes)
}

/// Returns an RDMA Read Request for memory of the server.
fn read_request(msn: u32, stag: u32, len: u32) -> Vec<u8> {
    let mut request = vec![0; 12];
    request.extend(len.to_be_bytes());
    request.extend(stag.to_be_bytes());
    request.extend([0; 8]);
    untagged([0x41, 0x41], 1, msn, 0, &request)
}

/// The name of a case, the data after the setup, and the expected Terminate: layer, error type,
/// code.
type Stream = (&'static str, Vec<u8>, Option<[u8; 3]>);

fn streams() -> Vec<Stream> {
    let send = |msn, mo, payload: &[u8]| untagged([0x41, 0x43], 0, msn, mo, payload);
    let mut wrong_crc = send(1, 0, b"1234");
    *wrong_crc.last_mut().unwrap() ^= 1;
    let many_reads: Vec<u8> = (1..100).flat_map(|msn| read_request(msn, 0, 0)).collect();
    vec![
        // A responder that has validated no FPDU sends none (RFC 5044, section 7.1.2).
        ("a wrong CRC at first", wrong_crc.clone(), None),
        (
            "a wrong CRC",
            [tagged([0xc1, 0x40], 0, 0, b""), wrong_crc].concat(),
            Some([2, 0, 2]),
        ),
        ("no room for a header", fpdu(&[0x41, 0x43]), Some([1, 0, 0])),
        (
            "an unknown opcode",
            untagged([0x41, 0x4c], 0, 1, 0, b""),
            Some([0, 2, 6]),
        ),
        (
            "an unknown version of RDMAP",
            untagged([0x41, 0x83], 0, 1, 0, b""),
            Some([0, 2, 5]),
        ),
        (
            "an unknown version of DDP",
            untagged([0x42, 0x43], 0, 1, 0, b""),
            Some([1, 2, 6]),
        ),
        (
            "an STag that is guessed",
            tagged([0xc1, 0x40], 0x1234_5678, 0, b"1234"),
            Some([1, 1, 0]),
        ),
        (
            "a response that nobody has asked for",
            tagged([0xc1, 0x42], 0x1234_5678, 0, b"1234"),
            Some([0, 2, 6]),
        ),
        (
            "a Read of memory that is guessed",
            read_request(1, 0x1234_5678, 4),
            Some([0, 1, 0]),
        ),
        ("Reads without end", many_reads, Some([1, 2, 2])),
        (
            "a message before its turn",
            send(7, 0, b"1234"),
            Some([1, 2, 3]),
        ),
        (
            "a segment before its turn",
            send(1, 100, b"1234"),
            Some([1, 2, 4]),
        ),
        (
            "a message beyond the receive",
            [
                untagged([0x01, 0x43], 0, 1, 0, &[7; 4000]),
                send(1, 4000, &[7; 4000]),
            ]
            .concat(),
            Some([1, 2, 5]),
        ),
        (
            "a queue that is not there",
            untagged([0x41, 0x43], 9, 1, 0, b""),
            Some([1, 2, 1]),
        ),
        (
            "a Terminate",
            untagged([0x41, 0x47], 2, 1, 0, &[0x20, 2, 0, 0]),
            None,
        ),
    ]
}

#[test]
fn protocol_violations_end_the_connection() {
    // rfc: 5040-5.4-g, 5040-6.1-a, 5040-6.1-e, 5040-6.2.1-a, 5040-6.2.1-c, 5040-6.2.1-d, 5040-7-b
    // rfc: 5040-7.1-b, 5041-3-l, 5041-6.2.2-a, 5041-6.2.2-c, 5041-6.2.2-d, 5041-7.1-j
    let server = Server::new();
    for (name, bytes, expected) in streams() {
        let (mut stream, iwarp) = server.established();
        stream.write_all(&bytes).unwrap();
        let code = end(stream, iwarp).map(|code| [code.layer, code.error_type, code.code]);
        assert_eq!(code, expected, "{name}");
    }
    server.assert_serves();
}

/// Returns the data that a peer sends in place of a request.
fn requests() -> Vec<(&'static str, Vec<u8>)> {
    let request = |flags: u8, revision: u8, data: usize| {
        let mut bytes = b"MPA ID Req Frame".to_vec();
        bytes.extend([flags, revision]);
        bytes.extend(u16::try_from(data).unwrap().to_be_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    };
    let whole = request(0x50, 2, 4);
    vec![
        ("nothing", Vec::new()),
        ("half a request", whole[..10].to_vec()),
        ("a request without its private data", whole[..20].to_vec()),
        ("private data that are too long", request(0x50, 2, 513)),
        ("an unknown revision", request(0x40, 3, 0)),
        (
            "the frame of a reply",
            b"MPA ID Rep Frame\x40\x01\0\0".to_vec(),
        ),
        (
            "another protocol",
            b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n".to_vec(),
        ),
        ("more than a request", [whole, vec![0; 100]].concat()),
    ]
}

#[test]
fn invalid_requests_end_the_connection() {
    // rfc: 5044-7.1.1-b, 5044-7.1.1-r, 5044-7.1.2-c, 5044-7.1.2-d, 5044-7.1.2-l, 5044-7.1.2-p
    // rfc: 5044-7.1.2-t, 5044-8-e
    let server = Server::new();
    for (name, bytes) in requests() {
        let mut stream = server.connect();
        stream.write_all(&bytes).unwrap();
        let began = Instant::now();
        let mut rest = Vec::new();
        // A reset is an end, too.
        if let Err(error) = stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{name}");
        }
        assert!(began.elapsed() < PATIENCE / 2, "{name}");
    }
    server.assert_serves();
}

/// Connections without a request block others only until their timeout.
#[test]
fn concurrent_setups_are_limited() {
    // rfc: 5044-7.1.2-p, 5044-7.1.2-t
    let server = Server::new();
    let silent: Vec<TcpStream> = (0..10 * SETUPS).map(|_| server.connect()).collect();
    server.assert_serves();
    drop(silent);
    server.assert_serves();
}

/// A reset after each byte of a connection: of its setup, of its messages, and of its data.
#[test]
fn a_reset_is_handled_at_each_byte() {
    let server = Server::new();
    let (_, request) = MpaInitiator::new(options()).unwrap();
    let call = untagged([0x41, 0x43], 0, 1, 0, &call());
    let before = descriptors();
    for at in 0..=request.len() + call.len() {
        let mut stream = server.connect();
        let first = at.min(request.len());
        stream.write_all(&request[..first]).unwrap();
        if at > request.len() {
            let (mut initiator, _) = MpaInitiator::new(options()).unwrap();
            while is_waiting(&mut initiator, &mut stream) {}
            stream.write_all(&call[..at - first]).unwrap();
        }
        let socket = socket2::SockRef::from(&stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
        drop(stream);
    }
    server.assert_serves();
    let began = Instant::now();
    while descriptors() > before {
        assert!(began.elapsed() < PATIENCE, "sockets are left");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Takes a byte of the reply. Returns false once the reply is complete.
fn is_waiting(initiator: &mut MpaInitiator, stream: &mut TcpStream) -> bool {
    let mut byte = [0; 1];
    stream.read_exact(&mut byte).unwrap();
    initiator.receive(&byte).unwrap().1.is_none()
}

/// An initiator that cannot use a responder's reply sends a Terminate with the reason (RFC 6581,
/// section 9): it accepts fewer RDMA Reads, or supports other ready-to-receive messages.
#[test]
fn an_initiator_terminates_an_unsuitable_reply() {
    // rfc: 6581-9.1-g, 6581-9.1-h, 6581-9.2-j, 6581-9.2-k
    let replies = [
        ([0x50, 2, 0, 4, 0, 1, 0x3f, 0xfe], false, 6),
        ([0x50, 2, 0, 4, 0xc0, 1, 0, 1], true, 7),
    ];
    for (reply, peer_to_peer, code) in replies {
        let listener = TcpListener::bind(ends::any_address()).unwrap();
        let device = IwarpDevice::new(IwarpConfig {
            peer_to_peer,
            ..IwarpConfig::default()
        });
        let mut driver = Driver::new(&device, &Budget::new(1 << 28), 4096).unwrap();
        let address = listener.local_addr().unwrap();
        let _client = ends::connect(&mut driver, address, Config::client());
        driver.turn().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let reply = [b"MPA ID Rep Frame", &reply[..]].concat();
        stream.write_all(&reply).unwrap();
        stream.set_nonblocking(true).unwrap();
        let (mut came, began) = (Vec::new(), Instant::now());
        loop {
            assert!(began.elapsed() < PATIENCE, "{came:x?}");
            driver.wait(Duration::from_millis(5)).unwrap();
            let mut bytes = [0; 4096];
            match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => came.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
        // After the request comes only the FPDU of the Terminate.
        let mut terminate = vec![0x20, code, 0, 0];
        terminate = untagged([0x41, 0x47], 2, 1, 0, &terminate);
        assert!(came.ends_with(&terminate), "{came:x?}");
        let request = 20 + usize::from(u16::from_be_bytes([came[18], came[19]]));
        assert_eq!(came.len(), request + terminate.len());
    }
}

/// A server that accepts and reads nothing more: TCP's window closes, and keep-alive detects it.
#[test]
fn a_closed_window_ends_the_connection() {
    let listener = TcpListener::bind(ends::any_address()).unwrap();
    let small = socket2::SockRef::from(&listener).set_recv_buffer_size(4096);
    small.unwrap();
    let mut driver = Driver::new(&IwarpDevice::default(), &Budget::new(1 << 28), 4096).unwrap();
    driver.keep_alive(Some(Duration::from_millis(100)));
    let address = listener.local_addr().unwrap();
    let client = ends::connect(&mut driver, address, Config::client());
    for _ in 0..8 {
        client.null().begin(&mut driver).unwrap();
    }
    driver.turn().unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let (mut responder, mut is_up, began) = (MpaResponder::new(), false, Instant::now());
    loop {
        assert!(began.elapsed() < PATIENCE, "the connection does not end");
        driver.wait(Duration::from_millis(5)).unwrap();
        let mut bytes = [0; 1];
        while !is_up && stream.read(&mut bytes).is_ok_and(|count| count > 0) {
            if let Some(request) = responder.receive(&bytes).unwrap() {
                let (reply, _) = request.accept(&options()).unwrap();
                stream.write_all(&reply).unwrap();
                is_up = true;
            }
        }
        match client.transport().poll_event(&mut driver) {
            Some(rpcrdma_verbs::LocalEvent::Disconnected { .. }) => break,
            Some(rpcrdma_verbs::LocalEvent::Completed(_)) => panic!("nobody has answered"),
            _ => {}
        }
    }
    assert!(is_up);
}

/// An FPDU that never ends: at first, where the responder may not send (RFC 5044, section 7.1.2),
/// and after another FPDU.
#[test]
fn half_an_fpdu_ends_the_connection() {
    let server = Server::new();
    let call = untagged([0x41, 0x43], 0, 1, 0, &call());
    let first = tagged([0xc1, 0x40], 0, 0, b"");
    let late = TerminateCode::RDMAP_STREAM_CATASTROPHIC;
    for count in [1, 20, 30, call.len() - 1] {
        for (before, code) in [(&[][..], None), (&first[..], Some(late))] {
            let (mut stream, iwarp) = server.established();
            let began = Instant::now();
            let bytes = [before, &call[..count]].concat();
            stream.write_all(&bytes).unwrap();
            assert_eq!(end(stream, iwarp), code, "{count} bytes");
            let elapsed = began.elapsed();
            assert!((FPDU..PATIENCE / 2).contains(&elapsed), "{elapsed:?}");
        }
    }
    server.assert_serves();
}

/// The bytes of an FPDU that arrive one by one do not extend its time.
#[test]
fn a_slow_fpdu_ends_the_connection() {
    let server = Server::new();
    let call = untagged([0x41, 0x43], 0, 1, 0, &call());
    let (mut stream, _iwarp) = server.established();
    let failed = call.iter().position(|byte| {
        thread::sleep(FPDU / 10);
        stream.write_all(&[*byte]).is_err()
    });
    assert!(failed.is_some(), "all bytes were sent");
    server.assert_serves();
}

/// A peer that has sent nothing cannot be probed, and may be an idle client: its connection stays.
#[test]
fn a_silent_peer_keeps_its_connection() {
    // rfc: 5044-7.1.2-k
    let server = Server::with_keep_alive(OFTEN);
    let (mut stream, _iwarp) = server.established();
    thread::sleep(10 * OFTEN);
    let call = untagged([0x41, 0x43], 0, 1, 0, &call());
    stream.write_all(&call).unwrap();
    assert!(stream.read(&mut [0; 4096]).unwrap() > 0, "no reply");
}

/// From the first FPDU of its peer, the server may probe.
#[test]
fn the_first_fpdu_begins_keepalive() {
    let server = Server::with_keep_alive(OFTEN);
    let (mut stream, iwarp) = server.established();
    stream.write_all(&tagged([0xc1, 0x40], 0, 0, b"")).unwrap();
    // It does not answer the server's RDMA Reads.
    assert_eq!(end(stream, iwarp), None);
    server.assert_serves();
}

/// A message without its last segment. RDMA Writes do not extend its time.
#[test]
fn half_a_message_ends_the_connection() {
    let server = Server::new();
    let half = untagged([0x01, 0x43], 0, 1, 0, &[0; 100]);
    let write = tagged([0xc1, 0x40], 0, 0, b"");
    let (mut stream, iwarp) = server.established();
    let began = Instant::now();
    stream.write_all(&half).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let writes = thread::spawn(move || {
        while began.elapsed() < PATIENCE / 2 && writer.write_all(&write).is_ok() {
            thread::sleep(FPDU / 4);
        }
    });
    let late = TerminateCode::RDMAP_STREAM_CATASTROPHIC;
    assert_eq!(end(stream, iwarp), Some(late));
    let elapsed = began.elapsed();
    assert!((FPDU..PATIENCE / 2).contains(&elapsed), "{elapsed:?}");
    writes.join().unwrap();
    server.assert_serves();
}

/// A peer that answers no RDMA Reads (RFC 6581, section 9.1) cannot be probed: replies must not
/// wait behind a probe.
#[test]
fn a_peer_without_reads_is_served_after_a_pause() {
    let server = Server::with_keep_alive(OFTEN);
    let options = MpaOptions {
        depths: Some(ReadDepths { ird: 0, ord: 4 }),
        ..options()
    };
    let (mut stream, _iwarp) = server.established_over(server.connect(), options);
    for msn in 1..=3 {
        let call = untagged([0x41, 0x43], 0, msn, 0, &echo(msn));
        stream.write_all(&call).unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 800, "call {msn}");
        thread::sleep(5 * OFTEN);
    }
}

/// A client that calls and never reads: the replies close its window, and keep-alive detects it.
#[test]
fn a_client_with_a_closed_window_loses_its_connection() {
    let server = Server::with_keep_alive(OFTEN);
    let socket = socket2::Socket::new(
        socket2::Domain::IPV4,
        socket2::Type::STREAM,
        Some(socket2::Protocol::TCP),
    );
    let socket = socket.unwrap();
    socket.set_recv_buffer_size(1).unwrap();
    socket.connect(&server.address.into()).unwrap();
    let (mut stream, _iwarp) = server.established_over(socket.into(), options());
    server.await_connections(1);
    for msn in 1..=CREDITS {
        let call = untagged([0x41, 0x43], 0, msn, 0, &echo(msn));
        if stream.write_all(&call).is_err() {
            // This thread was late.
            break;
        }
        // The first reply grants credits for the others.
        thread::sleep(OFTEN / 2);
    }
    server.await_connections(0);
    server.assert_serves();
}

/// The number of calls that a client may send after the first reply.
const CREDITS: u32 = 8;
/// The number of the procedure ECHO.
const ECHO: u32 = 1;

/// Returns a call of Version One whose reply has 800 bytes.
fn echo(xid: u32) -> Vec<u8> {
    let words: [u32; 18] = [
        xid,
        1,
        CREDITS,
        0,
        0,
        0,
        0,
        xid,
        0,
        2,
        0x2000_0001,
        1,
        ECHO,
        0,
        0,
        0,
        0,
        800,
    ];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    bytes.resize(bytes.len() + 800, 7);
    bytes
}

/// Returns a NULL call of Version One in an RPC-over-RDMA message.
fn call() -> Vec<u8> {
    let words: [u32; 17] = [1, 1, 8, 0, 0, 0, 0, 1, 0, 2, 0x2000_0001, 1, 0, 0, 0, 0, 0];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns the number of this process's descriptors.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A silent peer gets RDMA Writes of 0 bytes after the first message: Linux's siw needs one to
/// notice the message.
#[test]
fn an_initiator_nudges_a_silent_peer() {
    let listener = TcpListener::bind(ends::any_address()).unwrap();
    let device = IwarpDevice::default();
    let mut driver = Driver::new(&device, &Budget::new(1 << 28), 4096).unwrap();
    let client = ends::connect(
        &mut driver,
        listener.local_addr().unwrap(),
        Config::client(),
    );
    client.null().begin(&mut driver).unwrap();
    driver.turn().unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut responder = Some(MpaResponder::new());
    let nothing = tagged([0xc1, 0x40], 0, 0, b"");
    let (mut came, began) = (Vec::new(), Instant::now());
    while !came.ends_with(&nothing) {
        assert!(began.elapsed() < PATIENCE, "{came:x?}");
        driver.wait(Duration::from_millis(5)).unwrap();
        let mut bytes = [0; 4096];
        let Ok(count) = stream.read(&mut bytes) else {
            continue;
        };
        match &mut responder {
            Some(setup) => {
                if let Some(request) = setup.receive(&bytes[..count]).unwrap() {
                    let (reply, _) = request.accept(&options()).unwrap();
                    stream.write_all(&reply).unwrap();
                    responder = None;
                }
            }
            None => came.extend_from_slice(&bytes[..count]),
        }
    }
    // The call was sent first.
    assert!(came.len() > nothing.len() + 40);
}
