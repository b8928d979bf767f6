//! iWARP with peers that require markers (RFC 5044, section 4.3), which ours never do.
//!
//! What stands between both ends requires markers of each in the other's name, checks them, and
//! takes them out.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::version::Version;
use rpcrdma_transport_tests::block::{self, Block};
use rpcrdma_transport_tests::ends::{Ends, connect, serve};
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::iwarp::{IwarpConfig, IwarpDevice};

/// The bytes from one marker to the next.
const DISTANCE: usize = 512;
/// The flag of a frame of the setup by which an end requires markers, and the byte that has it.
const MARKERS: u8 = 0x80;
const FLAGS: usize = 16;

/// Passes a frame of the setup on, whose sender then requires markers.
fn require_markers(from: &mut TcpStream, to: &mut TcpStream) {
    let mut frame = vec![0; 20];
    from.read_exact(&mut frame).unwrap();
    assert_eq!(frame[FLAGS] & MARKERS, 0, "ours never ask for markers");
    frame[FLAGS] |= MARKERS;
    let mut private_data = vec![0; u16::from_be_bytes([frame[18], frame[19]]).into()];
    from.read_exact(&mut private_data).unwrap();
    frame.extend(private_data);
    to.write_all(&frame).unwrap();
}

/// Reads a stream with markers.
struct Reader {
    stream: TcpStream,
    at: usize,
    /// The bytes of the FPDU with its markers, and where it begins.
    fpdu: Vec<u8>,
    begin: Option<usize>,
    markers: Arc<AtomicUsize>,
}

impl Reader {
    fn read(&mut self, count: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        self.at += count;
        self.fpdu.extend(&bytes);
        Ok(bytes)
    }

    /// Takes out a marker, if one must be here: it points to the begin of the FPDU.
    fn marker(&mut self) -> std::io::Result<()> {
        if self.at.is_multiple_of(DISTANCE) {
            let back = self.begin.map_or(0, |begin| self.at - begin);
            let marker = self.read(4)?;
            let pointer = u16::try_from(back).unwrap().to_be_bytes();
            assert_eq!(marker, [0, 0, pointer[0], pointer[1]]);
            self.markers.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Reads bytes with the markers between them.
    fn take(&mut self, count: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            self.marker()?;
            let room = DISTANCE - self.at % DISTANCE;
            bytes.extend(self.read(room.min(count - bytes.len()))?);
        }
        Ok(bytes)
    }

    /// Reads an FPDU, and returns it without markers.
    fn next(&mut self, with_crc: bool) -> std::io::Result<Vec<u8>> {
        (self.begin, self.fpdu) = (None, Vec::new());
        // It belongs to the FPDU, and points nowhere.
        self.marker()?;
        self.begin = Some(self.at);
        let mut bytes = self.take(2)?;
        let length = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
        bytes.extend(self.take((2 + length).next_multiple_of(4) - 2)?);
        self.marker()?;
        let sum = crc32c::crc32c(&self.fpdu).to_le_bytes();
        let crc = self.read(4)?;
        assert!(!with_crc || crc == sum, "a wrong CRC");
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        Ok(bytes)
    }
}

/// Passes FPDUs on without markers, until one of both ends is gone.
fn forward(mut from: Reader, mut to: TcpStream, with_crc: bool) {
    while let Ok(fpdu) = from.next(with_crc) {
        if to.write_all(&fpdu).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Stands between a server and its client. Returns its address, and counts the markers of each end.
fn between(server: SocketAddr, with_crc: bool) -> (SocketAddr, [Arc<AtomicUsize>; 2]) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let markers = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let counters = markers.clone();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(server).unwrap();
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
        }
        require_markers(&mut client, &mut server);
        require_markers(&mut server, &mut client);
        let ends = [(&client, &server), (&server, &client)];
        for ((from, to), markers) in ends.into_iter().zip(counters) {
            let (stream, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let reader = Reader {
                stream,
                at: 0,
                fpdu: Vec::new(),
                begin: None,
                markers,
            };
            std::thread::spawn(move || forward(reader, to, with_crc));
        }
    });
    (address, markers)
}

fn calls_are_answered(config: IwarpConfig, max_version: Version) {
    let budgets = [Budget::new(1 << 28), Budget::new(1 << 28)];
    let driver = |budget| {
        let device = IwarpDevice::new(config.clone());
        Driver::new(&device, budget, 4096).unwrap()
    };
    let (mut near, mut far) = (driver(&budgets[0]), driver(&budgets[1]));
    let block = Block::default();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = serve(&mut far, any, Config::server(), &block);
    let (address, markers) = between(server.local_addr(), config.crc);
    let protocol = Config {
        max_version,
        ..Config::client()
    };
    let client = connect(&mut near, address, protocol);
    let mut ends = Ends {
        client,
        near,
        far,
        server,
        block,
        budgets,
    };
    ends.null();
    // In Sends, by RDMA Reads of the server, and by RDMA Writes of the server.
    for count in [0, 1, 500, 900, 3000] {
        ends.echo(&block::bytes()[7..][..count]);
    }
    for count in [1, 5000, 300_001] {
        ends.write(&block::bytes()[..count]);
        ends.read(u32::try_from(count).unwrap());
    }
    // An RDMA Read Response goes from the client, and an RDMA Write from the server.
    for markers in markers {
        assert!(markers.load(Relaxed) > 305_000 / DISTANCE);
    }
}

#[test]
fn peers_may_require_markers() {
    // rfc: 5044-4.3-a, 5044-4.3-d, 5044-7.1.1-f
    for max_version in [Version::One, Version::Two] {
        calls_are_answered(IwarpConfig::default(), max_version);
    }
}

#[test]
fn markers_need_no_crc() {
    let config = IwarpConfig {
        crc: false,
        ..IwarpConfig::default()
    };
    calls_are_answered(config, Version::Two);
}

/// FPDUs that fit into a segment of TCP leave room for their markers.
#[test]
fn short_fpdus_have_markers() {
    let config = IwarpConfig {
        max_fpdu: Some(1448),
        ..IwarpConfig::default()
    };
    calls_are_answered(config, Version::Two);
}
