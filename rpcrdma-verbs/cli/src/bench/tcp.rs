//! The same bytes over a plain TCP connection on the loopback interface, without a protocol: the
//! reference for iWARP.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

/// The bytes that MPA and DDP add to a Send of one segment.
const FRAMING: usize = 24;

fn connection() -> io::Result<[TcpStream; 2]> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok([near, far])
}

/// Exchanges batches of `depth` messages on one thread, at least `count` messages. Returns the
/// nanoseconds for each message and its answer.
pub(super) fn exchange(sizes: [usize; 2], depth: usize, count: usize) -> io::Result<f64> {
    let [mut near, mut far] = connection()?;
    let [mut there, mut back] = sizes.map(|size| vec![1u8; depth * (size + FRAMING)]);
    let batches = count.div_ceil(depth);
    let mut exchange = || {
        near.write_all(&there)?;
        far.read_exact(&mut there)?;
        far.write_all(&back)?;
        near.read_exact(&mut back)
    };
    (0..batches / 10).try_for_each(|_| exchange())?;
    let began = Instant::now();
    (0..batches).try_for_each(|_| exchange())?;
    Ok(began.elapsed().as_nanos() as f64 / (batches * depth) as f64)
}

/// Sends all buffers of one thread to buffers of another, twice. Returns the nanoseconds for each
/// buffer.
pub(super) fn stream(size: usize, buffers: usize) -> io::Result<f64> {
    let [mut near, mut far] = connection()?;
    let receiver = thread::spawn(move || {
        let mut into = vec![vec![1u8; size]; buffers];
        let mut began = Instant::now();
        for round in 0..3 {
            if round == 1 {
                began = Instant::now();
            }
            into.iter_mut()
                .try_for_each(|buffer| far.read_exact(buffer))?;
        }
        Ok(began.elapsed().as_nanos() as f64 / (2 * buffers) as f64)
    });
    let from = vec![vec![1u8; size]; buffers];
    (0..3).try_for_each(|_| from.iter().try_for_each(|buffer| near.write_all(buffer)))?;
    let failed = |_| io::Error::other("the thread that receives has failed");
    receiver.join().map_err(failed)?
}
