//! Registration with an rpcbind of each version, over TCP (RFC 1833).

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rpcrdma_nfs::{Rpcbind, RpcbindEntry, RpcbindError, RpcbindTransport};

/// A program, a version and a netid.
type Key = (u32, u32, String);

/// An rpcbind with some versions, which parses the bytes as RFC 1833 and RFC 5531 define them.
#[derive(Clone)]
struct Fake {
    versions: &'static [u32],
    mappings: Arc<Mutex<BTreeMap<Key, String>>>,
}

/// The rest of a call.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn word(&mut self) -> u32 {
        let (word, rest) = self.0.split_first_chunk().unwrap();
        self.0 = rest;
        u32::from_be_bytes(*word)
    }

    fn text(&mut self) -> String {
        let len = self.word() as usize;
        let (text, rest) = self.0.split_at(len.next_multiple_of(4));
        self.0 = rest;
        String::from_utf8(text[..len].to_vec()).unwrap()
    }
}

/// Reads a call, which is a single fragment.
fn read_call(stream: &mut TcpStream) -> Vec<u8> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let len = u32::from_be_bytes(mark).checked_sub(1 << 31).unwrap();
    let mut call = vec![0; len as usize];
    stream.read_exact(&mut call).unwrap();
    call
}

impl Fake {
    fn new(versions: &'static [u32]) -> Self {
        Self {
            versions,
            mappings: Arc::default(),
        }
    }

    /// Starts to serve, and returns a client of it.
    fn start(&self) -> Rpcbind {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rpcbind = Rpcbind::at(listener.local_addr().unwrap());
        let fake = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let reply = fake.reply(&read_call(&mut stream));
                let mark = (u32::try_from(reply.len()).unwrap() | 1 << 31).to_be_bytes();
                stream.write_all(&[&mark[..], &reply].concat()).unwrap();
            }
        });
        rpcbind
    }

    fn reply(&self, call: &[u8]) -> Vec<u8> {
        let mut call = Words(call);
        let words: Vec<_> = (0..10).map(|_| call.word()).collect();
        let (xid, version, procedure) = (words[0], words[4], words[5]);
        // A call of RPC version 2 to the program, with empty credential and verifier.
        assert_eq!((words[1], words[2], words[3]), (0, 2, 100_000));
        assert_eq!(words[6..], [0; 4]);
        let mut reply: Vec<u8> = [xid, 1, 0, 0, 0].map(u32::to_be_bytes).concat();
        if self.versions.contains(&version) {
            reply.extend(0_u32.to_be_bytes());
            reply.extend(self.results(version, procedure, &mut call));
            assert!(call.0.is_empty());
        } else {
            let (low, high) = (self.versions[0], self.versions[self.versions.len() - 1]);
            reply.extend([2, low, high].map(u32::to_be_bytes).concat());
        }
        reply
    }

    fn results(&self, version: u32, procedure: u32, arguments: &mut Words<'_>) -> Vec<u8> {
        let (program, of_program) = (arguments.word(), arguments.word());
        let (netid, address) = if version == 2 {
            // TCP.
            assert_eq!(arguments.word(), 6);
            ("tcp".to_owned(), format!("port {}", arguments.word()))
        } else {
            let mapping = (arguments.text(), arguments.text());
            arguments.text();
            mapping
        };
        let key = (program, of_program, netid);
        let mut mappings = self.mappings.lock().unwrap();
        let done = match procedure {
            1 => *mappings.entry(key).or_insert_with(|| address.clone()) == address,
            2 => mappings.remove(&key).is_some(),
            3 => {
                let mut found = mappings.get(&key).cloned().unwrap_or_default().into_bytes();
                let len = u32::try_from(found.len()).unwrap();
                found.resize(found.len().next_multiple_of(4), 0);
                return [&len.to_be_bytes()[..], &found].concat();
            }
            _ => panic!("procedure {procedure}"),
        };
        u32::from(done).to_be_bytes().to_vec()
    }

    fn all(&self) -> Vec<String> {
        let mappings = self.mappings.lock().unwrap();
        let line = |((program, version, netid), address): (&Key, &String)| {
            format!("{program} {version} {netid} {address}")
        };
        mappings.iter().map(line).collect()
    }
}

fn entry(program: u32, transport: RpcbindTransport, address: &str) -> RpcbindEntry {
    RpcbindEntry {
        program,
        version: 3,
        transport,
        address: address.parse().unwrap(),
    }
}

/// NFS over TCP with both address families, and over RDMA.
fn three() -> [RpcbindEntry; 3] {
    [
        entry(100_003, RpcbindTransport::Tcp, "0.0.0.0:2049"),
        entry(100_003, RpcbindTransport::Tcp, "[::]:2049"),
        entry(100_003, RpcbindTransport::Rdma, "0.0.0.0:20049"),
    ]
}

#[test]
fn servers_are_registered_and_removed_by_versions_4_and_3() {
    for versions in [&[2, 3, 4][..], &[2, 3]] {
        let fake = Fake::new(versions);
        let rpcbind = fake.start();
        rpcbind.register(&three()).unwrap();
        // A killed server is started again.
        rpcbind.register(&three()).unwrap();
        let expected = [
            "100003 3 rdma 0.0.0.0.78.81",
            "100003 3 tcp 0.0.0.0.8.1",
            "100003 3 tcp6 ::.8.1",
        ];
        assert_eq!(fake.all(), expected);
        rpcbind.remove(&three());
        assert!(fake.all().is_empty());
    }
}

#[test]
fn the_port_mapper_supports_only_tcp_over_ipv4() {
    let fake = Fake::new(&[2]);
    let rpcbind = fake.start();
    let [tcp, tcp6, rdma] = three();
    rpcbind.register(&[tcp]).unwrap();
    assert_eq!(fake.all(), ["100003 3 tcp port 2049"]);
    for other in [tcp6, rdma] {
        let mount = entry(100_005, RpcbindTransport::Tcp, "0.0.0.0:2049");
        let failed = rpcbind.register(&[mount, other]);
        assert!(
            matches!(failed, Err(RpcbindError::Protocol(_))),
            "{failed:?}"
        );
        // All or nothing.
        assert_eq!(fake.all(), ["100003 3 tcp port 2049"]);
    }
    rpcbind.remove(&[tcp]);
    assert!(fake.all().is_empty());
}

#[test]
fn another_servers_program_stays_registered() {
    let fake = Fake::new(&[2, 3, 4]);
    let rpcbind = fake.start();
    let other = entry(100_005, RpcbindTransport::Tcp, "0.0.0.0:20048");
    rpcbind.register(&[other]).unwrap();
    let nfs = entry(100_003, RpcbindTransport::Tcp, "0.0.0.0:2049");
    let mount = entry(100_005, RpcbindTransport::Tcp, "0.0.0.0:2049");
    let refused = rpcbind.register(&[nfs, mount]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "rpcbind does not register program 100005 version 3 for tcp, which is registered at \
         0.0.0.0.78.80"
    );
    assert_eq!(fake.all(), ["100005 3 tcp 0.0.0.0.78.80"]);
}

/// A registration whose reply is lost is undone with the others.
#[test]
fn an_entry_whose_reply_is_lost_does_not_stay_registered() {
    let fake = Fake::new(&[2, 3, 4]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let rpcbind = Rpcbind::at(listener.local_addr().unwrap());
    let server = fake.clone();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let reply = server.reply(&read_call(&mut stream));
            if number != 1 {
                let mark = (u32::try_from(reply.len()).unwrap() | 1 << 31).to_be_bytes();
                stream.write_all(&[&mark[..], &reply].concat()).unwrap();
            }
        }
    });
    let failed = rpcbind.register(&three());
    assert!(
        matches!(failed, Err(RpcbindError::Unreachable(_))),
        "{failed:?}"
    );
    assert!(fake.all().is_empty(), "{:?}", fake.all());
}

/// Peers that are not an rpcbind end the call, and use no more memory than a reply.
#[test]
fn malformed_replies_are_errors() {
    let accepted = [1, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    let replies: [Vec<u8>; 7] = [
        // Nothing, a truncated record, one of 2^31-1 bytes, and an empty fragment.
        vec![],
        vec![0x80, 0, 0, 8, 0],
        vec![0xff; 4],
        vec![0; 4],
        // The reply to another call, a call, and a boolean of 7.
        [vec![0x80, 0, 0, 24], vec![0; 24]].concat(),
        [vec![0x80, 0, 0, 8, 0, 0, 0, 1], vec![0; 4]].concat(),
        [vec![0x80, 0, 0, 28], accepted, vec![0, 0, 0, 7]].concat(),
    ];
    for reply in replies {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rpcbind = Rpcbind::at(listener.local_addr().unwrap());
        let shown = format!("{reply:?}");
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Read the whole call, so that closing does not reset the connection.
            read_call(&mut stream);
            stream.write_all(&reply).unwrap();
        });
        let failed = rpcbind.register(&three()[..1]);
        assert!(failed.is_err(), "{shown}");
        peer.join().unwrap();
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = closed.local_addr().unwrap();
    drop(closed);
    let unreachable = Rpcbind::at(nowhere).register(&three());
    assert!(matches!(unreachable, Err(RpcbindError::Unreachable(_))));
}
