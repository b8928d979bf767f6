//! A proxy that cuts its connections at random, for the jobs of `tests/vm` in which Linux's client
//! must retransmit its calls: `proxy LISTEN TARGET FROM SHORTEST LONGEST`. The last two arguments
//! limit the time between cuts, in milliseconds.
//!
//! It connects to the target from the port of its client, at the address FROM, so that a reply
//! cache recognizes a client that reconnects. Without arguments it tests itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Connects to the target from a port.
async fn dial(target: SocketAddr, from: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(from)?;
    socket.connect(target).await
}

/// Forwards a connection until it ends or is cut.
async fn carry(
    mut client: TcpStream,
    (target, from): (SocketAddr, SocketAddr),
    mut cuts: watch::Receiver<u64>,
) -> io::Result<()> {
    let mut server = dial(target, from).await?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    tokio::select! {
        ended = copy_bidirectional(&mut client, &mut server) => drop(ended?),
        _ = cuts.changed() => {}
    }
    for stream in [&client, &server] {
        // Both ends are reset, so that the port is free at once.
        stream.set_zero_linger()?;
    }
    Ok(())
}

/// Cuts all connections repeatedly, at random intervals between two limits in milliseconds.
async fn cut_at_random(cut: watch::Sender<u64>, [shortest, longest]: [u64; 2]) {
    let random = RandomState::new();
    for number in 1.. {
        let more = random.hash_one(number) % (longest - shortest + 1);
        sleep(Duration::from_millis(shortest + more)).await;
        println!("cut {number}");
        cut.send_replace(number);
    }
}

/// Accepts connections, and forwards them until they are cut.
async fn run(listener: TcpListener, target: SocketAddr, from: IpAddr, cuts: watch::Receiver<u64>) {
    loop {
        let Ok((client, peer)) = listener.accept().await else {
            continue;
        };
        let from = SocketAddr::new(from, peer.port());
        let mut cuts = cuts.clone();
        // Earlier cuts do not count.
        cuts.mark_unchanged();
        tokio::spawn(async move {
            if let Err(error) = carry(client, (target, from), cuts).await {
                println!("{peer}: {error}");
            }
        });
    }
}

/// Data pass through unchanged, from the same port, until both ends are reset.
async fn test_itself() {
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (to, at) = (target.local_addr().unwrap(), listener.local_addr().unwrap());
    let (cut, cuts) = watch::channel(0);
    tokio::spawn(run(listener, to, [127, 0, 0, 2].into(), cuts));
    for _ in 0..3 {
        let mut client = TcpStream::connect(at).await.unwrap();
        let (mut server, peer) = target.accept().await.unwrap();
        let from = SocketAddr::from(([127, 0, 0, 2], client.local_addr().unwrap().port()));
        assert_eq!(peer, from);
        client.write_all(b"there").await.unwrap();
        let mut bytes = [0; 5];
        server.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"there");
        cut.send_modify(|number| *number += 1);
        for stream in [&mut client, &mut server] {
            let reset = stream.read(&mut bytes).await.unwrap_err();
            assert_eq!(reset.kind(), io::ErrorKind::ConnectionReset);
        }
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // cargo may pass options of libtest to the tests of a package.
    let [listen, target, from, shortest, longest] = arguments[..] else {
        let tested = timeout(Duration::from_secs(30), test_itself());
        tested.await.expect("hangs");
        return println!(
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out"
        );
    };
    let listener = TcpListener::bind(listen).await.unwrap();
    let between = [shortest, longest].map(|time| time.parse().unwrap());
    println!("listening");
    let (cut, cuts) = watch::channel(0);
    tokio::spawn(cut_at_random(cut, between));
    let (target, from) = (target.parse().unwrap(), from.parse().unwrap());
    run(listener, target, from, cuts).await;
}
