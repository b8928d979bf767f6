//! Arguments that do not decode: each of them gets GARBAGE_ARGS (RFC 5531, section 9), and none is
//! executed. The valid arguments are written by hand from RFC 1813, sections 3.3 and 5.2.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use oncrpc::xdr::SharedBytes;
use oncrpc::{BackwardError, HandlerDeadline, OutgoingReply, Peer, ReceivedMessage};
use rpcrdma_nfs::{Export, FileSystem as _, MemoryFileSystem, NfsRouter, Squash, router};

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const SUCCESS: u32 = 0;
const GARBAGE_ARGS: u32 = 4;

/// Parts of arguments.
enum Part<'a> {
    Word(u32),
    /// A boolean or enumeration: its value, and the first invalid value.
    Below(u32, u32),
    Hyper(u64),
    Fixed([u8; 8]),
    /// An opaque or a string, and its maximum length.
    Opaque(&'a [u8], u32),
}

use Part::{Below, Fixed, Hyper, Opaque, Word};

fn encode(parts: &[Part<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        match part {
            Word(word) | Below(word, _) => bytes.extend(word.to_be_bytes()),
            Hyper(hyper) => bytes.extend(hyper.to_be_bytes()),
            Fixed(fixed) => bytes.extend(fixed),
            Opaque(opaque, _) => {
                bytes.extend(u32::try_from(opaque.len()).unwrap().to_be_bytes());
                bytes.extend(*opaque);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
        }
    }
    bytes
}

struct Server {
    router: NfsRouter<MemoryFileSystem>,
    root: Vec<u8>,
}

impl Server {
    fn new() -> Self {
        let memory = MemoryFileSystem::new(1 << 20);
        let root = memory.root().as_bytes().to_vec();
        let router = router(Export::new(memory).squash(Squash::None));
        Self { router, root }
    }

    /// Calls a procedure of version 3 as user 0. Returns the status of the call, and its results.
    fn call(&self, program: u32, procedure: u32, arguments: &[u8]) -> (u32, Vec<u8>) {
        let words = [7, 0, 2, program, 3, procedure, 1, 20, 0, 0, 0, 0, 0, 0, 0];
        let mut message: Vec<u8> = words
            .iter()
            .flat_map(|word: &u32| word.to_be_bytes())
            .collect();
        message.extend(arguments);
        let message = ReceivedMessage::whole(SharedBytes::from(message));
        let peer = Arc::new(Peer {
            address: None,
            transport: "memory",
            memory: None,
            caller: Err(BackwardError::Transport),
            status: None,
        });
        let deadline = HandlerDeadline::none();
        let served = self
            .router
            .serve(&message, &peer, deadline, OutgoingReply::default());
        let Poll::Ready(Some(reply)) = pin!(served).poll(&mut Context::from_waker(Waker::noop()))
        else {
            panic!("no reply");
        };
        let bytes = [reply.header, reply.body.to_vec()].concat();
        // The XID, REPLY, accepted, and an empty verifier.
        let expected = [7, 1, 0, 0, 0].map(u32::to_be_bytes).concat();
        assert_eq!(bytes[..20], expected);
        let status = u32::from_be_bytes(bytes[20..24].try_into().unwrap());
        (status, bytes[24..].to_vec())
    }

    fn refuses(&self, program: u32, procedure: u32, arguments: &[u8], why: &str) {
        let (status, results) = self.call(program, procedure, arguments);
        let shown = format!("{program} {procedure}: {why}: {arguments:02x?}");
        assert_eq!((status, results.len()), (GARBAGE_ARGS, 0), "{shown}");
    }

    /// Sends every malformed variant of the arguments of one procedure.
    fn try_all(&self, program: u32, procedure: u32, parts: &[Part<'_>]) {
        let whole = encode(parts);
        for len in 0..whole.len() {
            self.refuses(program, procedure, &whole[..len], "cut");
        }
        // Bytes after empty arguments are ignored, as by Linux's server.
        for more in [1, 4].into_iter().filter(|_| !parts.is_empty()) {
            let longer = [&whole[..], &vec![0; more]].concat();
            self.refuses(program, procedure, &longer, "more than the arguments");
        }
        for at in 0..parts.len() {
            let (before, after) = (encode(&parts[..at]), encode(&parts[at + 1..]));
            match &parts[at] {
                Below(_, limit) => {
                    for value in [*limit, limit + 1, 1 << 31, u32::MAX] {
                        let word = encode(&[Word(value)]);
                        let bytes = [&before[..], &word, &after].concat();
                        self.refuses(program, procedure, &bytes, "no such value");
                    }
                }
                Opaque(_, limit) => {
                    if *limit < ANY {
                        let long = vec![b'x'; *limit as usize + 1];
                        let bytes = [&before[..], &encode(&[Opaque(&long, 0)]), &after].concat();
                        self.refuses(program, procedure, &bytes, "too long");
                    }
                    for len in [limit.saturating_add(1), 1 << 31, u32::MAX - 3, u32::MAX] {
                        let bytes = [&before[..], &encode(&[Word(len)]), &after].concat();
                        self.refuses(program, procedure, &bytes, "a length of nothing");
                    }
                    let padded = [&encode(&[Word(1)])[..], b"x\0\0\x01"].concat();
                    let bytes = [&before[..], &padded, &after].concat();
                    self.refuses(program, procedure, &bytes, "padding");
                }
                Word(_) | Hyper(_) | Fixed(_) => {}
            }
        }
        let (status, _) = self.call(program, procedure, &whole);
        assert_eq!(status, SUCCESS, "{program} {procedure}");
    }
}

/// No limit except that of a message.
const ANY: u32 = u32::MAX;

/// Attributes that set everything: mode, uid, gid, size, atime and mtime (section 2.6, sattr3).
fn sattr() -> Vec<Part<'static>> {
    let set = |value| [Below(1, 2), value];
    let time = || [Below(2, 3), Word(1), Word(2)];
    let words = [Word(0o644), Word(1), Word(2)].into_iter().flat_map(set);
    words
        .chain(set(Hyper(0)))
        .chain(time())
        .chain(time())
        .collect()
}

fn joined<'a>(parts: impl IntoIterator<Item = Vec<Part<'a>>>) -> Vec<Part<'a>> {
    parts.into_iter().flatten().collect()
}

#[test]
fn malformed_nfs_arguments_are_garbage() {
    let server = Server::new();
    let fh = || vec![Opaque(&server.root, 64)];
    let name = |name: &'static [u8]| joined([fh(), vec![Opaque(name, ANY)]]);
    let cookie = || vec![Hyper(0), Fixed([0; 8])];
    let table = [
        (1, fh()),
        (
            2,
            joined([fh(), sattr(), vec![Below(1, 2), Word(0), Word(0)]]),
        ),
        (3, name(b"x")),
        (4, joined([fh(), vec![Word(1)]])),
        (5, fh()),
        (6, joined([fh(), vec![Hyper(0), Word(1)]])),
        (
            7,
            joined([
                fh(),
                vec![Hyper(0), Word(3), Below(0, 3), Opaque(b"abc", ANY)],
            ]),
        ),
        (8, joined([name(b"a"), vec![Below(0, 3)], sattr()])),
        (8, joined([name(b"b"), vec![Below(1, 3)], sattr()])),
        (9, joined([name(b"c"), sattr()])),
        (10, joined([name(b"d"), sattr(), vec![Opaque(b"to", ANY)]])),
        // A character device, and a FIFO.
        (
            11,
            joined([
                name(b"e"),
                vec![Below(4, 8)],
                sattr(),
                vec![Word(1), Word(2)],
            ]),
        ),
        (11, joined([name(b"f"), vec![Below(7, 8)], sattr()])),
        (12, name(b"x")),
        (13, name(b"x")),
        (14, joined([name(b"x"), name(b"y")])),
        (15, joined([fh(), name(b"y")])),
        (16, joined([fh(), cookie(), vec![Word(4096)]])),
        (17, joined([fh(), cookie(), vec![Word(4096), Word(4096)]])),
        (18, fh()),
        (19, fh()),
        (20, fh()),
        (21, joined([fh(), vec![Hyper(0), Word(0)]])),
    ];
    for (procedure, parts) in &table {
        server.try_all(NFS, *procedure, parts);
    }
    // An exclusive CREATE: another mode changes the length of the arguments.
    let exclusive = joined([name(b"g"), vec![Word(2), Fixed([1; 8])]]);
    server.try_all(NFS, 8, &exclusive);
    server.try_all(NFS, 0, &[]);
    // Rejected calls were not executed: only these names exist.
    let (_, listed) = server.call(
        NFS,
        16,
        &encode(&joined([fh(), cookie(), vec![Word(4096)]])),
    );
    let names = listed
        .windows(8)
        .filter(|part| part[..4] == [0, 0, 0, 1] && part[5..] == [0; 3]);
    let names: Vec<_> = names
        .map(|part| part[4])
        .filter(u8::is_ascii_alphabetic)
        .collect();
    let mut names: Vec<_> = names.into_iter().map(char::from).collect();
    names.sort_unstable();
    assert_eq!(names, ['a', 'b', 'c', 'd', 'e', 'f', 'g']);
}

#[test]
fn malformed_mount_arguments_are_garbage() {
    let server = Server::new();
    for procedure in [1, 3] {
        server.try_all(MOUNT, procedure, &[Opaque(b"/", 1024)]);
    }
    for procedure in [0, 2, 4, 5] {
        server.try_all(MOUNT, procedure, &[]);
    }
    // The longest path is not an export.
    let path = [b'/'; 1024];
    let (status, root) = server.call(MOUNT, 1, &encode(&[Opaque(&path, 0)]));
    assert_eq!((status, &root[..4]), (SUCCESS, &[0; 4][..]));
}

#[test]
fn unknown_procedures_are_unavailable() {
    let server = Server::new();
    let unavailable = 3;
    for procedure in [22, 23, 255, u32::MAX] {
        assert_eq!(server.call(NFS, procedure, &[]).0, unavailable);
    }
    for procedure in [6, u32::MAX] {
        assert_eq!(server.call(MOUNT, procedure, &[]).0, unavailable);
    }
    // NFSACL: Linux's client concludes that the server has no ACLs.
    assert_eq!(server.call(100_227, 0, &[]).0, 1);
}
