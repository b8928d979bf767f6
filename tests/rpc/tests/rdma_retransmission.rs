//! The chunks into which the reply to a retransmitted call is transferred: those of the
//! retransmission, and not those of the call that is being executed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::support::iwarp::{device, message, read_segment, send, set_up};
use crate::support::{run, until};
use echo1::{EchoResults, ReadResults};
use oncrpc::{Context, ReplyCache, Router, RpcError};
use rpcrdma_rpc_tests::cached_echo::echo::{PROGRAM, echo1};
use rpcrdma_rpc_tests::cached_echo::{Block, owned};
use rpcrdma_verbs::{ServerConfig, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Bytes of a result, which the cache keeps.
const LEN: u32 = 50_000;
/// Bytes of a chunk.
const ROOM: u32 = LEN + 1000;
/// The handles of the chunks of the call and of its retransmission.
const FIRST: u32 = 0x1111;
const SECOND: u32 = 0x2222;

/// Waits before it returns what is read.
#[derive(Debug, Default)]
struct Waiting {
    reads: AtomicUsize,
    go_on: tokio::sync::Notify,
}

impl echo1::Service for Waiting {
    async fn echo(&self, _: &Context, _: Block<'_>) -> Result<EchoResults<'_>, RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn read(&self, _: &Context, len: u32) -> Result<ReadResults<'_>, RpcError> {
        let goes_on = self.go_on.notified();
        self.reads.fetch_add(1, Relaxed);
        goes_on.await;
        let data = vec![7; len as usize].into();
        Ok(owned::Block { data }.into())
    }

    async fn write(&self, _: &Context, _: Block<'_>) -> Result<u32, RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }
}

/// Returns a READ with these chunk lists.
fn read_call(lists: &[u32]) -> Vec<u8> {
    let words = [9, 0, 2, PROGRAM, 1, 2, 0, 0, 0, 0, LEN];
    let call: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    message(&call, lists)
}

/// Connects, and sends this call.
async fn begin(server: SocketAddr, call: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server).await.unwrap();
    assert!(set_up(&mut stream).await);
    stream.write_all(&send(1, call)).await.unwrap();
    stream
}

/// The reply to a call, as the server transferred it.
#[derive(Default)]
struct Reply {
    /// The handle of each RDMA Write, and its number of bytes.
    writes: Vec<(u32, usize)>,
    /// The message of the Send.
    sent: Vec<u8>,
}

impl Reply {
    async fn receive(stream: &mut TcpStream) -> Self {
        let mut reply = Self::default();
        loop {
            let segment = read_segment(stream).await.unwrap();
            let is_tagged = segment[0] & 0x80 != 0;
            if is_tagged {
                let handle = u32::from_be_bytes(segment[2..6].try_into().unwrap());
                reply.writes.push((handle, segment.len() - 14));
            } else {
                reply.sent.extend(&segment[18..]);
                return reply;
            }
        }
    }

    /// Returns the words of the header's chunk lists, and of the message that follows.
    fn lists(&self) -> Vec<u32> {
        let words = self.sent[16..].chunks_exact(4);
        words
            .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
            .collect()
    }

    /// Asserts that so many bytes were written, all into the chunk of the retransmission.
    #[track_caller]
    fn assert_is_in_second(&self, bytes: u32) {
        assert!(!self.writes.is_empty());
        for (handle, _) in &self.writes {
            assert_eq!(*handle, SECOND);
        }
        let written: usize = self.writes.iter().map(|(_, len)| len).sum();
        assert_eq!(written, bytes as usize);
    }
}

/// Sends a call, loses its connection while it is being executed, sends it again with another
/// chunk, and returns the reply.
async fn retransmit(lists: impl Fn(u32) -> Vec<u32>) -> Reply {
    let (waiting, cache) = (Arc::new(Waiting::default()), ReplyCache::default());
    let router = {
        let (served, cache) = (waiting.clone(), cache.clone());
        move || {
            Router::new()
                .add_service(echo1::serve(served))
                .reply_cache(cache)
        }
    };
    let any = "127.0.0.1:0".parse().unwrap();
    let server = serve(&device(), any, ServerConfig::new(), router).unwrap();

    let mut first = begin(server.local_addr(), &read_call(&lists(FIRST))).await;
    until(|| waiting.reads.load(Relaxed) == 1).await;
    first.shutdown().await.unwrap();
    // The server closes the connection, and sends nothing before.
    let mut rest = Vec::new();
    let _ = first.read_to_end(&mut rest).await;
    assert!(rest.is_empty(), "{rest:?}");

    let mut second = begin(server.local_addr(), &read_call(&lists(SECOND))).await;
    until(|| cache.stats().in_progress == 1).await;
    waiting.go_on.notify_waiters();
    let reply = Reply::receive(&mut second).await;
    assert_eq!(waiting.reads.load(Relaxed), 1);
    assert_eq!(cache.stats().executed, 1);
    reply
}

#[test]
fn a_reply_is_written_into_the_write_chunk_of_the_retransmission() {
    run(async {
        let reply = retransmit(|handle| vec![0, 1, 1, handle, ROOM, 0, 0, 0, 0]).await;
        reply.assert_is_in_second(LEN);
        // RDMA_MSG; the Write list; the RPC reply without the data.
        let lists = [0, 1, 1, SECOND, LEN, 0, 0, 0, 0, 9, 1, 0, 0, 0, 0, LEN];
        assert_eq!(reply.lists(), lists);
    });
}

#[test]
fn a_reply_is_written_into_the_reply_chunk_of_the_retransmission() {
    run(async {
        let reply = retransmit(|handle| vec![0, 0, 1, 1, handle, ROOM, 0, 0]).await;
        // The RPC reply has 24 bytes before the results, and the data its length.
        let len = 24 + 4 + LEN;
        reply.assert_is_in_second(len);
        assert_eq!(reply.lists(), [0, 0, 1, 1, SECOND, len, 0, 0]);
    });
}
