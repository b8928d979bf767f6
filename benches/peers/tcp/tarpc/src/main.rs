//! tarpc with bincode over TCP. `serve ADDRESS` is the server. `call ADDRESS DEPTH` measures calls
//! of 64 bytes each way for one second, with DEPTH calls in flight on one connection, and prints
//! the calls per second.

#![forbid(unsafe_code)]

use std::error::Error;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use tarpc::server::{BaseChannel, Channel as _};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::{client, context, serde_transport::tcp};

const SAMPLE: Duration = Duration::from_secs(1);

#[tarpc::service]
trait Echo {
    async fn echo(data: serde_bytes::ByteBuf) -> serde_bytes::ByteBuf;
}

#[derive(Clone)]
struct Server;

impl Echo for Server {
    async fn echo(self, _: context::Context, data: serde_bytes::ByteBuf) -> serde_bytes::ByteBuf {
        data
    }
}

async fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let mut listener = tcp::listen(address, Bincode::default).await?;
    println!("{}", listener.local_addr());
    while let Some(transport) = listener.next().await {
        let requests = BaseChannel::with_defaults(transport?).execute(Server.serve());
        tokio::task::spawn_local(requests.for_each(async |handler| {
            tokio::task::spawn_local(handler);
        }));
    }
    Ok(())
}

async fn call(address: &str, depth: usize) -> Result<f64, Box<dyn Error>> {
    let transport = tcp::connect(address, Bincode::default).await?;
    let client = EchoClient::new(client::Config::default(), transport).spawn();
    let data = serde_bytes::ByteBuf::from(vec![7; 64]);
    client.echo(context::current(), data.clone()).await?;
    let began = Instant::now();
    let tasks: Vec<_> = (0..depth)
        .map(|_| {
            let (client, data) = (client.clone(), data.clone());
            tokio::task::spawn_local(async move {
                let mut count = 0u32;
                while began.elapsed() < SAMPLE {
                    let answer = client.echo(context::current(), data.clone()).await;
                    assert!(answer.is_ok_and(|answer| answer.len() == 64));
                    count += 1;
                }
                count
            })
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += task.await?;
    }
    Ok(f64::from(sum) / began.elapsed().as_secs_f64())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let local = tokio::task::LocalSet::new();
    match arguments[..] {
        ["serve", address] => local.run_until(serve(address)).await,
        ["call", address, depth] => {
            let calls = local.run_until(call(address, depth.parse()?)).await?;
            println!("{calls:.0}");
            Ok(())
        }
        _ => Err("usage: serve ADDRESS, or call ADDRESS DEPTH".into()),
    }
}
