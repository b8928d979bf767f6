//! Ends over iWARP that sleep while the other works: the rest of a transfer wakes them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::Config;
use rpcrdma_transport_tests::block::{self, Block};
use rpcrdma_transport_tests::ends::{self, item};
use rpcrdma_transport_tests::schema::{ReadArgs, Region};
use rpcrdma_verbs::LocalEvent;
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::iwarp::IwarpDevice;

/// The sleep of each end if nothing wakes it.
const SLEEP: Duration = Duration::from_secs(5);

#[test]
fn a_long_transfer_does_not_wait_for_a_timeout() {
    let ended = AtomicBool::new(false);
    let (announce, announced) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let budget = Budget::new(1 << 28);
            let mut driver = Driver::new(&IwarpDevice::default(), &budget, 4096).unwrap();
            let any = ends::any_address();
            let mut server = ends::serve(&mut driver, any, Config::server(), &Block::default());
            let waker = driver.waker();
            announce.send((server.local_addr(), waker)).unwrap();
            while !ended.load(Ordering::Relaxed) {
                driver.wait(SLEEP).unwrap();
                server.serve(&mut driver);
            }
        });
        let (address, waker) = announced.recv().unwrap();
        let budget = Budget::new(1 << 28);
        let mut driver = Driver::new(&IwarpDevice::default(), &budget, 4096).unwrap();
        let client = ends::connect(&mut driver, address, Config::client());
        let bytes = block::bytes();
        let count = u32::try_from(bytes.len()).unwrap();
        let began = Instant::now();
        for round in 0..20 {
            if round % 2 == 0 {
                let region = Region {
                    bytes: item(driver.pool(), bytes),
                };
                client.write(&region).begin(&mut driver).unwrap();
            } else {
                client.read(&ReadArgs { count }).begin(&mut driver).unwrap();
            }
            loop {
                match client.transport().poll_event(&mut driver) {
                    Some(LocalEvent::Completed(completed)) => {
                        client.transport().recycle(&mut driver, completed);
                        break;
                    }
                    Some(_) => {}
                    None => {
                        driver.wait(SLEEP).unwrap();
                    }
                }
            }
        }
        let took = began.elapsed();
        ended.store(true, Ordering::Relaxed);
        waker.wake();
        assert!(took < SLEEP, "{took:?}");
    });
}
