//! A server over TCP, and clients that send arbitrary data.

use std::net::SocketAddr;
use std::sync::Arc;

use oncrpc::tcp::{Server, ServerConfig};
use oncrpc::{Router, ServerControl};
use rpcrdma_rpc_tests::kv::kv::{PROGRAM, kv1};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::Store;

/// A server that ends when the sender is dropped.
pub struct Running {
    pub address: SocketAddr,
    pub store: Arc<Store>,
    pub end: oneshot::Sender<()>,
    pub task: tokio::task::JoinHandle<()>,
}

pub async fn serve(control: &ServerControl) -> Running {
    serve_with(ServerConfig::new(), control).await
}

pub async fn serve_with(config: ServerConfig, control: &ServerControl) -> Running {
    let store = Arc::new(Store::default());
    let router = Router::new().add_service(kv1::serve(store.clone()));
    let server = Server::bind("127.0.0.1:0", router)
        .await
        .unwrap()
        .config(config)
        .control(control);
    let address = server.local_addr().unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let task = tokio::spawn(server.run_until(async {
        let _ = ended.await;
    }));
    Running {
        address,
        store,
        end,
        task,
    }
}

/// Serves a router until the test ends, and returns the address.
pub async fn serve_router<P: oncrpc::Programs>(
    router: Router<P>,
    control: &ServerControl,
) -> SocketAddr {
    let server = Server::bind("127.0.0.1:0", router).await.unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(server.control(control).run());
    address
}

/// Returns a connection from a local address.
pub async fn connect_from(local: SocketAddr, server: SocketAddr) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(local).unwrap();
    socket.connect(server).await.unwrap()
}

/// Cuts a connection: the other end sees a reset.
pub fn cut(stream: TcpStream) {
    let linger = Some(std::time::Duration::ZERO);
    socket2::SockRef::from(&stream).set_linger(linger).unwrap();
}

/// Reads a record of one fragment.
pub async fn read_record(stream: &mut TcpStream) -> Vec<u8> {
    let header = stream.read_u32().await.unwrap();
    let mut record = vec![0; (header & !(1 << 31)) as usize];
    stream.read_exact(&mut record).await.unwrap();
    record
}

/// Sends a record of one fragment.
pub async fn send_record(stream: &mut TcpStream, record: &[u8]) {
    let marker = 1 << 31 | u32::try_from(record.len()).unwrap();
    let bytes = [&marker.to_be_bytes()[..], record].concat();
    stream.write_all(&bytes).await.unwrap();
}

/// Sends a record, and returns the reply.
pub async fn exchange(stream: &mut TcpStream, call: &[u8]) -> Vec<u8> {
    send_record(stream, call).await;
    read_record(stream).await
}

/// Returns a call without credentials.
fn call(xid: u32, procedure: u32, args: &[u32]) -> Vec<u8> {
    let header = [xid, 0, 2, PROGRAM, 1, procedure, 0, 0, 0, 0];
    let words = header.iter().chain(args);
    words.flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns a GET of a key of one letter.
pub fn get_call(xid: u32, key: u8) -> Vec<u8> {
    call(xid, 1, &[1, u32::from(key) << 24])
}

/// Returns a PUT of an empty value.
pub fn put_call(xid: u32, key: u8) -> Vec<u8> {
    call(xid, 2, &[1, u32::from(key) << 24, 0])
}

/// Returns a FAIL.
pub fn fail_call(xid: u32, how: u32) -> Vec<u8> {
    call(xid, 3, &[how])
}
