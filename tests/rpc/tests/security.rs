//! Calls with a security flavor that has contexts, sequence numbers, signed headers, and encrypted
//! arguments and results, like RPCSEC_GSS (RFC 2203), but with toy ciphers.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::tcp::{read_record, send_record};
use crate::support::{Store, assert_error, found, key, put, run, until};
use kv1::Client;
use oncrpc::protocol::{AuthStat, OpaqueAuth};
use oncrpc::tcp::{self, connect};
use oncrpc::xdr::Item;
use oncrpc::{
    Acceptance, AsyncTransport as _, AuthSys, Body, CallOptions, CallSecurity, Channel,
    ClientSecurity, Credentials, Execution, ProcedureId, ProtectedCall, ReplyLimits, ReplySecurity,
    ReplyStatus, Request, Resend, Router, SecurityError, ServerSecurity, Verifier, loopback,
};
use rpcrdma_rpc_tests::kv::PutArgs;
use rpcrdma_rpc_tests::kv::kv::{PROGRAM, kv1};
use rpcrdma_verbs::provider::software::Fabric;
use tokio::net::{TcpListener, TcpStream};

const FLAVOR: u32 = 0x7261;
/// The shared secret of both ends.
const SECRET: u64 = 0x5eed;

fn sign(secret: u64, parts: &[&[u8]]) -> Vec<u8> {
    let mut hasher = DefaultHasher::new();
    (secret, parts).hash(&mut hasher);
    hasher.finish().to_be_bytes().to_vec()
}

/// Encrypts and decrypts whole words.
fn cipher(secret: u64, sequence: u32, bytes: &[u8]) -> Vec<u8> {
    let byte = |at: usize| sign(secret, &[&sequence.to_be_bytes(), &at.to_be_bytes()])[7];
    let bytes = bytes.iter().enumerate();
    bytes.map(|(at, plain)| plain ^ byte(at)).collect()
}

fn opaque_auth(body: &[u8]) -> Vec<u8> {
    assert!(body.len().is_multiple_of(4));
    let words = [FLAVOR, u32::try_from(body.len()).unwrap()];
    let words = words.iter().flat_map(|word| word.to_be_bytes());
    words.chain(body.iter().copied()).collect()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[4 * at..][..4].try_into().unwrap())
}

#[derive(Debug)]
struct Context {
    number: u32,
    secret: u64,
    /// The number of transmissions until the context expires.
    lifetime: u32,
    sequence: Arc<AtomicU32>,
    sealed: Arc<Mutex<HashSet<u32>>>,
}

impl Context {
    fn new(number: u32, secret: u64) -> Arc<Self> {
        Self::with_lifetime(number, secret, u32::MAX)
    }

    fn with_lifetime(number: u32, secret: u64, lifetime: u32) -> Arc<Self> {
        Arc::new(Self {
            number,
            secret,
            lifetime,
            sequence: Arc::default(),
            sealed: Arc::default(),
        })
    }
}

impl ClientSecurity for Context {
    fn begin(&self) -> Arc<dyn CallSecurity> {
        Arc::new(Sealed {
            context: self.number,
            secret: self.secret,
            lifetime: self.lifetime,
            next: self.sequence.clone(),
            sealed: self.sealed.clone(),
            sequences: Mutex::default(),
        })
    }
}

/// A call, with the sequence numbers of its transmissions.
#[derive(Debug)]
struct Sealed {
    context: u32,
    secret: u64,
    lifetime: u32,
    next: Arc<AtomicU32>,
    sealed: Arc<Mutex<HashSet<u32>>>,
    sequences: Mutex<Vec<u32>>,
}

impl CallSecurity for Sealed {
    fn seal(&self, header: &mut Vec<u8>, args: &Body) -> Result<Option<Body>, SecurityError> {
        let sequence = self.next.fetch_add(1, Relaxed);
        if sequence >= self.lifetime {
            return Err("the context has expired".into());
        }
        self.sequences.lock().unwrap().push(sequence);
        assert!(self.sealed.lock().unwrap().insert(sequence));
        let credential = [self.context, sequence].map(u32::to_be_bytes).concat();
        header.extend_from_slice(&opaque_auth(&credential));
        let signature = sign(self.secret, &[header]);
        header.extend_from_slice(&opaque_auth(&signature));
        let args = args.to_vec();
        if args.is_empty() {
            return Err("a call without arguments".into());
        }
        Ok(Some(Body::from_xdr(cipher(self.secret, sequence, &args))))
    }

    fn open(
        &self,
        verifier: &OpaqueAuth<'_>,
        results: &[u8],
        is_success: bool,
    ) -> Result<Option<Vec<u8>>, SecurityError> {
        let sequences = self.sequences.lock().unwrap();
        let signed = |sequence: &&u32| {
            sign(self.secret, &[&sequence.to_be_bytes()]) == verifier.body.as_bytes()
        };
        let Some(sequence) = sequences.iter().find(signed) else {
            return Err("the verifier is wrong".into());
        };
        Ok(is_success.then(|| cipher(self.secret, *sequence, results)))
    }
}

/// The server's end: its contexts, and the calls that it has received.
#[derive(Clone, Debug, Default)]
struct Guard(Arc<Mutex<GuardState>>);

#[derive(Debug, Default)]
struct GuardState {
    contexts: u32,
    /// The contexts, with the sequence numbers of their calls.
    calls: HashSet<(u32, u32)>,
}

impl ServerSecurity for Guard {
    fn flavor(&self) -> u32 {
        FLAVOR
    }

    fn accept(&self, call: &ProtectedCall<'_>) -> Result<Acceptance, ReplyStatus> {
        assert_eq!(
            (call.procedure[0], call.peer.memory.is_some()),
            (PROGRAM, false)
        );
        let mut seen = self.0.lock().unwrap();
        if call.verifier.body.as_bytes() != sign(SECRET, &[call.header]) {
            return Err(ReplyStatus::AuthError(AuthStat::AuthBadverf));
        }
        let (context, sequence) = (word(call.credential, 0), word(call.credential, 1));
        if context == 0 && call.procedure[2] == 0 {
            seen.contexts += 1;
            return Ok(Acceptance::Reply {
                verifier: verifier(sequence),
                results: cipher(SECRET, sequence, &seen.contexts.to_be_bytes()),
            });
        }
        if context == 0 || context > seen.contexts {
            return Err(ReplyStatus::AuthError(AuthStat::RpcsecGssCredproblem));
        }
        if !seen.calls.insert((context, sequence)) {
            return Ok(Acceptance::Drop);
        }
        let args = cipher(SECRET, sequence, call.args);
        if args.first() == Some(&0xff) {
            return Err(ReplyStatus::GarbageArgs);
        }
        let user = AuthSys {
            uid: 1000 + context,
            ..AuthSys::default()
        };
        Ok(Acceptance::Serve {
            credentials: Credentials::from(user),
            args: Some(args),
            replies: Box::new(Replies(sequence)),
        })
    }
}

fn verifier(sequence: u32) -> Verifier {
    Verifier {
        flavor: FLAVOR,
        body: sign(SECRET, &[&sequence.to_be_bytes()]),
    }
}

#[derive(Debug)]
struct Replies(u32);

impl ReplySecurity for Replies {
    fn seal(
        &self,
        results: &Body,
        is_success: bool,
    ) -> Result<(Verifier, Option<Body>), SecurityError> {
        let sealed = cipher(SECRET, self.0, &results.to_vec());
        Ok((verifier(self.0), is_success.then(|| Body::from_xdr(sealed))))
    }
}

fn router(store: &Arc<Store>) -> Router<impl oncrpc::Programs> {
    Router::new()
        .security(Guard::default())
        .add_service(kv1::serve(store.clone()))
}

/// Establishes a context by a NULL call with arguments, and returns it.
async fn establish(channel: &Channel) -> Arc<Context> {
    let first = Context::new(0, SECRET);
    let request = Request {
        procedure: ProcedureId {
            program: PROGRAM,
            version: 1,
            number: 0,
            name: "NULL",
        },
        credentials: None,
        security: Some(first.begin()),
        body: Body::from_xdr(vec![1, 2, 3, 4]),
        limits: ReplyLimits::new(Some(8)),
        timeout: None,
        is_idempotent: true,
        resend: Resend::IfIdempotent,
        wait_for_connection: true,
        span: None,
    };
    let reply = channel.call(request).await.unwrap();
    Context::new(word(reply.stream(), 6), SECRET)
}

fn options(context: &Arc<Context>) -> CallOptions {
    CallOptions::DEFAULT.security(context.clone())
}

async fn both() -> [(Channel, Arc<Store>); 2] {
    let store = Arc::new(Store::default());
    let (near, runner) = loopback(router(&store));
    tokio::spawn(runner);
    let far = Arc::new(Store::default());
    let server = tcp::Server::bind("127.0.0.1:0", router(&far))
        .await
        .unwrap();
    let address = server.local_addr().unwrap().to_string();
    tokio::spawn(server.run());
    [(near, store), (connect(&address).await.unwrap(), far)]
}

#[test]
fn protected_calls_are_served() {
    run(async {
        for (channel, store) in both().await {
            let contexts = [establish(&channel).await, establish(&channel).await];
            for (number, context) in (1..).zip(&contexts) {
                let kv = Client::new(channel.clone()).with_options(options(context));
                kv.put(&put("a", vec![7; 5000])).await.unwrap();
                let value = found(kv.get(&key("a")).await.unwrap());
                assert_eq!(value.map(Item::into_shared).unwrap().as_bytes(), [7; 5000]);
                assert_eq!(kv.fail(&5).await.unwrap(), 1000 + number);
                // The reply of a failed call is protected, too.
                let error = kv.fail(&1).await.unwrap_err();
                assert_error(&error, "the server failed", Execution::Unknown);
                let error = kv.fail(&2).await.unwrap_err();
                let text = "the server does not offer the procedure";
                assert_error(&error, text, Execution::NotExecuted);
            }
            // Calls without protection are still served.
            let kv = Client::new(channel.clone());
            assert_eq!(kv.fail(&9).await.unwrap(), 9);
            assert_eq!(store.puts.load(Relaxed), 2);
        }
    });
}

#[test]
fn tampered_messages_are_rejected() {
    run(async {
        for (channel, store) in both().await {
            let context = establish(&channel).await;
            let unknown = Context::new(77, SECRET);
            let kv = Client::new(channel.clone()).with_options(options(&unknown));
            let error = kv.fail(&9).await.unwrap_err();
            let text = "the server refuses the credentials: RPCSEC_GSS_CREDPROBLEM";
            assert_error(&error, text, Execution::NotExecuted);
            let forged = Context::new(context.number, 1);
            let kv = Client::new(channel.clone()).with_options(options(&forged));
            let error = kv.fail(&9).await.unwrap_err();
            let text = "the server refuses the credentials: AUTH_BADVERF";
            assert_error(&error, text, Execution::NotExecuted);
            let kv = Client::new(channel).with_options(options(&context));
            let error = kv.fail(&0xff00_0000).await.unwrap_err();
            let text = "protection of the call failed: the verifier is wrong";
            assert_error(&error, text, Execution::Unknown);
            assert_eq!(store.fails.load(Relaxed), 0);
        }
    });
}

/// A retransmitted call has another sequence number, and is executed once.
#[test]
fn a_retransmitted_call_is_executed_once() {
    run(async {
        let store = Arc::new(Store::default());
        let server = tcp::Server::bind("127.0.0.1:0", router(&store))
            .await
            .unwrap();
        let address = server.local_addr().unwrap();
        tokio::spawn(server.run());
        let context = establish(&connect(&address.to_string()).await.unwrap()).await;
        let mut raw = TcpStream::connect(address).await.unwrap();
        let call = context.begin();
        let header = [9, 0, 2, PROGRAM, 1, 2].map(u32::to_be_bytes).concat();
        let mut args = Body::new();
        args.encode::<PutArgs<'_>>(&put("a", vec![7; 5000]))
            .unwrap();
        let mut replies = Vec::new();
        for _ in 0..2 {
            let mut message = header.clone();
            let body = call.seal(&mut message, &args).unwrap().unwrap();
            message.extend_from_slice(&body.to_vec());
            send_record(&mut raw, &message).await;
            replies.push(read_record(&mut raw).await);
            // A call with the same sequence number is dropped.
            send_record(&mut raw, &message).await;
        }
        assert_eq!(store.puts.load(Relaxed), 1);
        for (sequence, reply) in (0..).zip(&replies) {
            assert_eq!([0, 1, 2, 3].map(|at| word(reply, at)), [9, 1, 0, FLAVOR]);
            assert_eq!(reply[20..28], verifier(sequence).body);
            assert_eq!((word(reply, 7), reply.len()), (0, 32));
        }
    });
}

/// A client whose connection is lost retransmits its call with another sequence number.
#[test]
fn each_transmission_is_sealed() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let context = Context::new(1, SECRET);
        let kv = Client::new(connect(&address).await.unwrap()).with_options(options(&context));
        let (mut first, _) = listener.accept().await.unwrap();
        let call = tokio::spawn(async move { kv.get(&key("a")).await.map(|_| ()) });
        let before = read_record(&mut first).await;
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        let after = read_record(&mut second).await;
        assert_eq!(before[..36], after[..36]);
        assert_eq!((word(&before, 9), word(&after, 9)), (0, 1));
        assert_ne!(before[48..], after[48..], "the arguments");
        // The reply to the first transmission is accepted, too.
        let mut reply = [word(&after, 0), 1, 0].map(u32::to_be_bytes).concat();
        reply.extend(opaque_auth(&verifier(0).body));
        reply.extend([0; 4]);
        reply.extend(cipher(SECRET, 0, &[0; 4]));
        send_record(&mut second, &reply).await;
        call.await.unwrap().unwrap();
        assert_eq!(context.sealed.lock().unwrap().len(), 2);
    });
}

/// The server may have executed the first transmission of a call that cannot be sealed again.
#[test]
fn the_execution_of_a_call_is_unknown_if_its_context_expires() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let context = Context::with_lifetime(1, SECRET, 1);
        let kv = Client::new(connect(&address).await.unwrap()).with_options(options(&context));
        let (mut first, _) = listener.accept().await.unwrap();
        let call = tokio::spawn(async move { kv.get(&key("a")).await.map(|_| ()) });
        read_record(&mut first).await;
        drop(first);
        let _second = listener.accept().await.unwrap();
        let error = call.await.unwrap().unwrap_err();
        let text = "protection of the call failed: the context has expired";
        assert_error(&error, text, Execution::Unknown);
    });
}

#[test]
fn unprotectable_calls_are_not_sent() {
    run(async {
        for (channel, store) in both().await {
            let context = establish(&channel).await;
            let kv = Client::new(channel).with_options(options(&context));
            let error = kv.null().await.unwrap_err();
            assert_eq!(error.execution(), Execution::NotExecuted);
            let text = "protection of the call failed: a call without arguments";
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(store.fails.load(Relaxed), 0);
        }
        // RDMA does not support protected calls.
        let store = Arc::new(Store::default());
        let (fabric, served) = (Fabric::new(), store.clone());
        let address = "127.0.0.1:0".parse().unwrap();
        let config = rpcrdma_verbs::ServerConfig::new();
        let server = rpcrdma_verbs::serve(&fabric.device(), address, config, move || {
            Router::new().add_service(kv1::serve(served))
        });
        let address = server.as_ref().unwrap().local_addr();
        let config = rpcrdma_verbs::ClientConfig::new();
        let channel = rpcrdma_verbs::connect(&fabric.device(), address, config).unwrap();
        let context = Context::new(1, SECRET);
        let kv = Client::new(channel).with_options(options(&context));
        let error = kv.fail(&9).await.unwrap_err();
        let text = "protection of the call failed: the transport carries no protected calls";
        assert_error(&error, text, Execution::NotExecuted);
        until(|| store.fails.load(Relaxed) == 0).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    });
}
