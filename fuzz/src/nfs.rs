//! A client of NFSv3 and MOUNT that sends what the fuzzer decides: calls with any arguments, to
//! handles that the server has given out and to others, retransmissions, and messages of any bytes.
//! Each call is answered with results of its procedure, and no change is executed twice.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use oncrpc::xdr::SharedBytes;
use oncrpc::{BackwardError, HandlerDeadline, OutgoingReply, Peer, ReceivedMessage};
use rpcrdma_nfs::nfs3::{
    Access3res, Commit3res, Create3res, Fsinfo3res, Fsstat3res, Getattr3res, Link3res, Lookup3res,
    Mkdir3res, Mknod3args, Mknod3res, Mknoddata3, Pathconf3res, PostOpFh3, Read3res, Readdir3res,
    Readdirplus3res, Readlink3res, Remove3res, Rename3res, Rmdir3res, Setattr3res, Symlink3res,
    Write3res,
};
use rpcrdma_nfs::{Export, FileSystem, NfsRouter, router};
use xdrgen_runtime::Decode;

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const LOOKUP: u8 = 3;
const MKNOD: u8 = 11;
/// Where the arguments of a call begin: behind the header with the credentials.
const ARGUMENTS: usize = 60;
/// AUTH_SYS with a stamp, no name, user 0, group 0 and no groups; no verifier.
const CREDENTIALS: [u8; 36] = {
    let mut bytes = [0; 36];
    bytes[3] = 1;
    bytes[7] = 20;
    bytes
};

/// What the fuzzer decides.
pub struct Input<'a>(pub &'a [u8]);

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

pub struct Client<F> {
    router: NfsRouter<F>,
    /// Handles that the server has given out.
    handles: Vec<Vec<u8>>,
    xid: u32,
    /// The last call of an NFS procedure, and its reply.
    last: Option<(u8, Vec<u8>, Vec<u8>)>,
    /// What no reply may contain.
    secret: Option<&'static [u8]>,
}

impl<F: FileSystem> Client<F> {
    pub fn new(export: Export<F>) -> Self {
        let root = export.file_system().root().as_bytes().to_vec();
        Self {
            router: router(export),
            handles: vec![root],
            xid: 0,
            last: None,
            secret: None,
        }
    }

    /// Sets what no reply may contain.
    pub fn secret(self, secret: &'static [u8]) -> Self {
        let secret = Some(secret);
        Self { secret, ..self }
    }

    /// Looks up a name in the root, so that the fuzzer has its handle.
    pub fn look_up(&mut self, name: &str) {
        let mut arguments = Vec::new();
        opaque(&mut arguments, &self.handles[0]);
        opaque(&mut arguments, name.as_bytes());
        self.procedure(LOOKUP, &arguments);
    }

    /// Sends what the fuzzer decides.
    pub fn calls(&mut self, mut input: Input<'_>) {
        // A message is at least as long as its header: more calls would tell nothing new.
        for _ in 0..64 {
            if input.0.is_empty() {
                break;
            }
            self.call(&mut input);
        }
    }

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
                self.procedure(kind, &arguments);
            }
            23..29 => {
                let arguments = input.bytes(length.into());
                let message = self.message(MOUNT, 3, u32::from(kind) - 23, arguments);
                let reply = self.exchange(&message).expect("each call is answered");
                assert_eq!(reply[..4], self.xid.to_be_bytes());
            }
            29 => {
                let version = u32::from(input.byte());
                let procedure = u32::from(input.byte());
                let arguments = input.bytes(length.into());
                let message = self.message(NFS, version, procedure, arguments);
                if !makes_device(&message) {
                    assert!(self.exchange(&message).is_some());
                }
            }
            30 => self.retransmit(),
            // Whatever is no call has no reply.
            _ => {
                let message = input.bytes(length.into());
                if !makes_device(message) {
                    _ = self.exchange(message);
                }
            }
        }
    }

    /// Calls a procedure of NFS.
    fn procedure(&mut self, number: u8, arguments: &[u8]) {
        let message = self.message(NFS, 3, number.into(), arguments);
        if number == MKNOD && makes_device(&message) {
            return;
        }
        let reply = self.exchange(&message).expect("each call is answered");
        self.check(number, &reply);
        self.last = Some((number, message, reply));
    }

    /// Sends the last call again: what changes names is not executed twice (RFC 1813, section 4.5).
    fn retransmit(&mut self) {
        let Some((number, message, reply)) = self.last.take() else {
            return;
        };
        let again = self.exchange(&message).expect("each call is answered");
        if matches!(number, 2 | 8..=15) {
            assert_eq!(again, reply, "procedure {number} again");
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

    /// Returns a call by user 0, with a new XID.
    fn message(&mut self, program: u32, version: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
        self.xid += 1;
        // XID, CALL, version 2 of RPC.
        let words = [self.xid, 0, 2, program, version, procedure].map(u32::to_be_bytes);
        [words.as_flattened(), &CREDENTIALS, arguments].concat()
    }

    /// Sends a message, and returns the reply.
    fn exchange(&self, message: &[u8]) -> Option<Vec<u8>> {
        let message = ReceivedMessage::whole(SharedBytes::from(message.to_vec()));
        let peer = Arc::new(Peer {
            address: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 700))),
            transport: "memory",
            memory: None,
            caller: Err(BackwardError::Transport),
            status: None,
        });
        let deadline = HandlerDeadline::none();
        let reply = wait(
            self.router
                .serve(&message, &peer, deadline, OutgoingReply::default()),
        );
        let reply = reply.map(|reply| [reply.header, reply.body.to_vec()].concat())?;
        let leaks = self.secret.is_some_and(|secret| contains(&reply, secret));
        assert!(!leaks, "a reply contains what is outside of the export");
        Some(reply)
    }

    /// Checks that a reply is that of a procedure, and keeps the handle in it.
    fn check(&mut self, procedure: u8, reply: &[u8]) {
        assert_eq!(reply[..4], self.xid.to_be_bytes(), "the XID");
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

/// Returns true if bytes contain others. libFuzzer sees what `memcmp` compares, and would put the
/// secret into its inputs.
pub fn contains(bytes: &[u8], others: &[u8]) -> bool {
    let mut parts = bytes.windows(others.len());
    parts.any(|part| part.iter().zip(others).all(|(one, other)| one == other))
}

/// Returns true for MKNOD of a device, which this process may be allowed to make and a defect of
/// the server could then open. Other headers than those of [`Client::message`] count as such.
fn makes_device(message: &[u8]) -> bool {
    let procedure = [NFS, 3, MKNOD.into()].map(u32::to_be_bytes);
    if message.get(12..24) != Some(procedure.as_flattened()) {
        return false;
    }
    let Some((header, arguments)) = message.split_at_checked(ARGUMENTS) else {
        return true;
    };
    let what = Mknod3args::from_bytes(arguments).map(|arguments| arguments.what);
    header[24..] != CREDENTIALS || matches!(what, Ok(Mknoddata3::Chr(_) | Mknoddata3::Blk(_)))
}

/// Runs the service of a call to its end; what it asks of other threads wakes this one.
fn wait<T>(served: impl Future<Output = T>) -> T {
    struct Waiter(Thread);
    impl Wake for Waiter {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Waiter(std::thread::current())));
    let mut served = pin!(served);
    loop {
        match served.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn whole<'a, T: Decode<'a>>(results: &'a [u8]) -> T {
    T::from_bytes(results).expect("the results of the procedure")
}
