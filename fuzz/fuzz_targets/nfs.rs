//! Sends a server of NFSv3 and MOUNT what a client likes to send: calls with any arguments, to
//! handles that the server has given out and to others, and messages of any bytes. Each call is
//! answered, and its results are those of its procedure.
#![no_main]

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use libfuzzer_sys::fuzz_target;
use oncrpc::xdr::SharedBytes;
use oncrpc::{BackwardError, HandlerDeadline, OutgoingReply, Peer, ReceivedMessage};
use rpcrdma_nfs::nfs3::{
    Access3res, Commit3res, Create3res, Fsinfo3res, Fsstat3res, Getattr3res, Link3res, Lookup3res,
    Mkdir3res, Mknod3res, Pathconf3res, PostOpFh3, Read3res, Readdir3res, Readdirplus3res,
    Readlink3res, Remove3res, Rename3res, Rmdir3res, Setattr3res, Symlink3res, Write3res,
};
use rpcrdma_nfs::{Export, FileSystem, MemoryFileSystem, NfsRouter, router};
use xdrgen_runtime::Decode;

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
/// Bytes that the file system takes.
const MEMORY: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let file_system = MemoryFileSystem::new(MEMORY);
    let root = file_system.root().as_bytes().to_vec();
    let mut client = Client {
        router: router(Export::new(file_system)),
        handles: vec![root],
    };
    let mut input = Input(bytes);
    // A message is at least as long as its header: more calls would tell nothing new.
    for _ in 0..64 {
        if input.0.is_empty() {
            break;
        }
        client.call(&mut input);
    }
});

/// What the fuzzer decides.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

struct Client {
    router: NfsRouter<MemoryFileSystem>,
    /// Handles that the server has given out.
    handles: Vec<Vec<u8>>,
}

impl Client {
    fn call(&mut self, input: &mut Input<'_>) {
        let kind = input.byte();
        let length = input.byte();
        match kind {
            0..23 => {
                let mut arguments = Vec::new();
                if kind > 0 {
                    self.handle(input, &mut arguments);
                }
                match kind {
                    // RENAME: a name, and a handle and a name.
                    14 => {
                        opaque(&mut arguments, input.bytes(usize::from(length % 16)));
                        self.handle(input, &mut arguments);
                        opaque(&mut arguments, input.bytes(usize::from(length / 16)));
                    }
                    // LINK: a second handle, and a name.
                    15 => {
                        self.handle(input, &mut arguments);
                        opaque(&mut arguments, input.bytes(length.into()));
                    }
                    _ => arguments.extend_from_slice(input.bytes(length.into())),
                }
                let reply = self.exchange(&call(NFS, 3, kind.into(), &arguments));
                let reply = reply.expect("each call is answered");
                self.check(kind, &reply);
            }
            23..29 => {
                let arguments = input.bytes(length.into());
                let reply = self.exchange(&call(MOUNT, 3, u32::from(kind) - 23, arguments));
                assert_eq!(reply.expect("each call is answered")[..4], [0, 0, 0, 7]);
            }
            29 => {
                let version = u32::from(input.byte());
                let procedure = u32::from(input.byte());
                let message = call(NFS, version, procedure, input.bytes(length.into()));
                assert!(self.exchange(&message).is_some());
            }
            // Whatever is no call has no reply.
            _ => _ = self.exchange(input.bytes(length.into())),
        }
    }

    /// Adds a handle: one that the server has given out, or any bytes.
    fn handle(&self, input: &mut Input<'_>, arguments: &mut Vec<u8>) {
        let which = usize::from(input.byte());
        match self.handles.get(which) {
            Some(handle) => opaque(arguments, handle),
            None => opaque(arguments, input.bytes(which % 80)),
        }
    }

    /// Sends a message, and returns the reply. This file system never waits.
    fn exchange(&self, message: &[u8]) -> Option<Vec<u8>> {
        let message = ReceivedMessage::whole(SharedBytes::from(message.to_vec()));
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
        match pin!(served).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => reply.map(|reply| [reply.header, reply.body.to_vec()].concat()),
            Poll::Pending => panic!("a file system in memory does not wait"),
        }
    }

    /// Checks that a reply is that of a procedure, and keeps the handle in it.
    fn check(&mut self, procedure: u8, reply: &[u8]) {
        assert_eq!(reply[..4], [0, 0, 0, 7], "the XID");
        assert_eq!(reply[4..8], [0, 0, 0, 1], "a reply");
        assert_eq!(reply[8..20], [0; 12], "accepted, and no verifier");
        let results = &reply[24..];
        match reply[20..24] {
            [0, 0, 0, 0] => {}
            // PROC_UNAVAIL, and GARBAGE_ARGS.
            [0, 0, 0, 3] if procedure == 22 => return,
            [0, 0, 0, 4] if procedure != 0 => return assert!(results.is_empty()),
            _ => panic!("{reply:?}"),
        }
        match procedure {
            0 => assert!(results.is_empty()),
            1 => _ = whole::<Getattr3res>(results),
            2 => _ = whole::<Setattr3res>(results),
            3 => {
                if let Lookup3res::Ok(found) = whole(results) {
                    self.keep(found.object.data.as_ref());
                }
            }
            4 => _ = whole::<Access3res>(results),
            5 => _ = whole::<Readlink3res>(results),
            6 => _ = whole::<Read3res>(results),
            7 => _ = whole::<Write3res>(results),
            8 => {
                if let Create3res::Ok(made) = whole(results) {
                    self.made(&made.obj);
                }
            }
            9 => {
                if let Mkdir3res::Ok(made) = whole(results) {
                    self.made(&made.obj);
                }
            }
            10 => {
                if let Symlink3res::Ok(made) = whole(results) {
                    self.made(&made.obj);
                }
            }
            11 => {
                if let Mknod3res::Ok(made) = whole(results) {
                    self.made(&made.obj);
                }
            }
            12 => _ = whole::<Remove3res>(results),
            13 => _ = whole::<Rmdir3res>(results),
            14 => _ = whole::<Rename3res>(results),
            15 => _ = whole::<Link3res>(results),
            16 => _ = whole::<Readdir3res>(results),
            17 => _ = whole::<Readdirplus3res>(results),
            18 => _ = whole::<Fsstat3res>(results),
            19 => _ = whole::<Fsinfo3res>(results),
            20 => _ = whole::<Pathconf3res>(results),
            21 => _ = whole::<Commit3res>(results),
            _ => panic!("there is no such procedure"),
        }
    }

    fn made(&mut self, handle: &PostOpFh3) {
        if let PostOpFh3::True(handle) = handle {
            self.keep(handle.data.as_ref());
        }
    }

    fn keep(&mut self, handle: &[u8]) {
        if self.handles.len() < 128 {
            self.handles.push(handle.to_vec());
        }
    }
}

/// Adds an opaque of variable length.
fn opaque(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    to.extend_from_slice(bytes);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// Returns a call by user 0.
fn call(program: u32, version: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
    // XID, CALL, version 2 of RPC; AUTH_SYS with stamp, no name, user, group and no groups; no
    // verifier.
    let words = [
        7, 0, 2, program, version, procedure, 1, 20, 0, 0, 0, 0, 0, 0, 0,
    ];
    let header = words.iter().flat_map(|word| word.to_be_bytes());
    header.chain(arguments.iter().copied()).collect()
}

fn whole<'a, T: Decode<'a>>(results: &'a [u8]) -> T {
    T::from_bytes(results).expect("the results of the procedure")
}
