//! Calls over TCP, and the same bytes without RPC. Each end is a process, so that it can be
//! measured in alternation with other implementations (`benches/peers/tcp/run`).
//!
//!     cargo run --release -p rpcrdma-rpc-tests --example tcp_calls -- serve 127.0.0.1:7001
//!     cargo run --release -p rpcrdma-rpc-tests --example tcp_calls -- call 127.0.0.1:7001 echo 64
//!
//! `call ADDRESS WHAT DEPTH` prints the calls per second of one connection with this many calls in
//! flight, measured over one second. WHAT is `echo` (64 bytes each way), `read` or `write` (1 MiB).
//! `raw-serve` and `raw` do the same without RPC.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};

use oncrpc::xdr::SharedBytes;
use oncrpc::{Channel, Context, Router, RpcError, tcp};
use rpcrdma_rpc_tests::echo::echo::echo1::{self, Client, EchoResults, ReadResults};
use rpcrdma_rpc_tests::echo::{Block, owned};

type Failure = Box<dyn Error>;

/// The bytes of a small call, and of a large one.
const SMALL: usize = 64;
const LARGE: usize = 1 << 20;
/// The duration of a sample.
const SAMPLE: Duration = Duration::from_secs(1);

struct Echo {
    block: SharedBytes,
}

impl echo1::Service for Echo {
    async fn echo(&self, _: &Context, block: Block<'_>) -> Result<EchoResults<'_>, RpcError> {
        let data = block.data.into_shared().into();
        Ok(owned::Block { data }.into())
    }

    async fn read(&self, _: &Context, count: u32) -> Result<ReadResults<'_>, RpcError> {
        if count as usize != self.block.len() {
            return Err(RpcError::garbage_args("another length"));
        }
        let data = self.block.clone().into();
        Ok(owned::Block { data }.into())
    }

    async fn write(&self, _: &Context, block: Block<'_>) -> Result<u32, RpcError> {
        Ok(u32::try_from(block.data.len())?)
    }
}

async fn serve(address: &str) -> Result<(), Failure> {
    let block = vec![7; LARGE].into();
    let router = Router::new().add_service(echo1::serve(Echo { block }));
    let server = tcp::Server::bind(address, router).await?;
    println!("{}", server.local_addr()?);
    server.run().await;
    Ok(())
}

/// Makes one call.
async fn call_once(
    client: &Client<Channel>,
    what: &str,
    block: &SharedBytes,
) -> Result<(), Failure> {
    let data = block.clone().into();
    let bytes = match what {
        "read" => client.read(&u32::try_from(LARGE)?).await?.data.len(),
        "write" => client.write(&Block { data }).await? as usize,
        _ => client.echo(&Block { data }).await?.data.len(),
    };
    if bytes != block.len() {
        return Err(format!("{bytes} bytes").into());
    }
    Ok(())
}

/// Returns the calls per second.
async fn call(address: &str, what: &str, depth: usize) -> Result<f64, Failure> {
    let size = if what == "echo" { SMALL } else { LARGE };
    let block = SharedBytes::from(vec![7; size]);
    let client = Rc::new(Client::new(tcp::connect(address).await?));
    call_once(&client, what, &block).await?;
    let began = Instant::now();
    let tasks: Vec<_> = (0..depth)
        .map(|_| {
            let (client, block, what) = (client.clone(), block.clone(), what.to_owned());
            tokio::task::spawn_local(async move {
                let mut count = 0u32;
                while began.elapsed() < SAMPLE {
                    call_once(&client, &what, &block)
                        .await
                        .map_err(|error| error.to_string())?;
                    count += 1;
                }
                Ok::<_, String>(count)
            })
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += task.await??;
    }
    Ok(f64::from(sum) / began.elapsed().as_secs_f64())
}

fn answer(stream: &mut TcpStream, what: u8, block: &mut [u8]) -> std::io::Result<()> {
    match what {
        b'r' => stream.write_all(block),
        b'w' => {
            stream.read_exact(block)?;
            stream.write_all(&[0; 4])
        }
        _ => {
            stream.read_exact(&mut block[..SMALL])?;
            stream.write_all(&block[..SMALL])
        }
    }
}

/// Answers requests: a byte for the kind of the request, followed by data for a `write` or an
/// `echo`.
fn raw_serve(address: &str) -> Result<(), Failure> {
    let listener = TcpListener::bind(address)?;
    println!("{}", listener.local_addr()?);
    let mut block = vec![7; LARGE];
    for stream in listener.incoming() {
        let mut stream = stream?;
        stream.set_nodelay(true)?;
        let mut what = [0];
        while stream.read_exact(&mut what).is_ok() {
            if answer(&mut stream, what[0], &mut block).is_err() {
                // The client has ended with requests in flight.
                break;
            }
        }
    }
    Ok(())
}

/// Returns how often per second the bytes of a call and those of a reply are exchanged.
fn raw(address: &str, what: &str, depth: u32) -> Result<f64, Failure> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let (request, reply) = match what {
        "read" => (1, LARGE),
        "write" => (1 + LARGE, 4),
        _ => (1 + SMALL, SMALL),
    };
    let mut request = vec![7; request];
    request[0] = what.as_bytes()[0];
    let mut writer = stream.try_clone()?;
    let (more, wanted) = std::sync::mpsc::channel::<()>();
    let sender = std::thread::spawn(move || {
        while wanted.recv().is_ok() {
            writer.write_all(&request)?;
        }
        Ok::<_, std::io::Error>(())
    });
    let mut reply = vec![0; reply];
    let began = Instant::now();
    let mut count = 0u32;
    for _ in 0..depth {
        more.send(())?;
    }
    while began.elapsed() < SAMPLE {
        stream.read_exact(&mut reply)?;
        count += 1;
        more.send(())?;
    }
    let rate = f64::from(count) / began.elapsed().as_secs_f64();
    drop(more);
    stream.shutdown(std::net::Shutdown::Both)?;
    // The connection ends with requests in flight.
    let _ = sender.join();
    Ok(rate)
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match arguments[..] {
        ["serve", address] => runtime.block_on(serve(address)),
        ["call", address, what, depth] => {
            let calls = call(address, what, depth.parse()?);
            println!(
                "{:.0}",
                tokio::task::LocalSet::new().block_on(&runtime, calls)?
            );
            Ok(())
        }
        ["raw-serve", address] => raw_serve(address),
        ["raw", address, what, depth] => {
            println!("{:.0}", raw(address, what, depth.parse()?)?);
            Ok(())
        }
        _ => Err("usage: serve|raw-serve ADDRESS, call|raw ADDRESS echo|read|write DEPTH".into()),
    }
}
