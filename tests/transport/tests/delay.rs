//! Calls over a fabric with a delay. Each end sleeps in a separate thread.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use oncrpc::{Call, Method, ReplyLimits};
use rpcrdma_proto::connection::Config;
use rpcrdma_transport_tests::block::{Block, bytes};
use rpcrdma_transport_tests::block1::Client;
use rpcrdma_transport_tests::ends::{self, Ends, any_address, connect};
use rpcrdma_transport_tests::schema::Region;
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::{LocalChannel, LocalEvent};

type Channel = LocalChannel<SoftwareDevice>;

const DELAY: Duration = Duration::from_millis(1);
/// The maximum sleep of an end. It is long, so that a call that waits for it is noticed.
const NAP: Duration = Duration::from_secs(30);

/// Serves on a thread. Returns the address.
fn serve(device: SoftwareDevice) -> SocketAddr {
    let (sender, address) = mpsc::channel();
    thread::spawn(move || {
        let mut driver = Driver::new(&device, &Budget::new(1 << 26), 4096).unwrap();
        let block = Block::default();
        let mut server = ends::serve(&mut driver, any_address(), Config::server(), &block);
        sender.send(server.local_addr()).unwrap();
        loop {
            driver.wait(NAP).unwrap();
            server.serve(&mut driver);
        }
    });
    address.recv().unwrap()
}

/// Makes a call, and sleeps until it is answered. Returns the duration.
fn answered<P: Method>(
    driver: &mut Driver<SoftwareDevice>,
    channel: &Channel,
    call: Call<'_, Channel, P>,
) -> Duration {
    let began = Instant::now();
    let call = call.begin(driver).unwrap();
    driver.turn().unwrap();
    loop {
        while let Some(event) = channel.poll_event(driver) {
            if let LocalEvent::Completed(completed) = event {
                let result = channel.read(&call, &completed, |_| ());
                result.expect("its reply").unwrap();
                return began.elapsed();
            }
        }
        driver.wait(NAP).unwrap();
    }
}

/// `wait` does not sleep while there are events that occurred without a turn.
#[test]
fn flushed_calls_are_reported_before_sleeping() {
    let fabric = Fabric::new();
    let address = serve(fabric.device());
    let mut driver = Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096).unwrap();
    let config = Config {
        max_segments: 1,
        max_segment_len: 4096,
        ..Config::client()
    };
    let client = connect(&mut driver, address, config);
    let channel = client.transport();
    answered(&mut driver, channel, client.null());
    let began = Instant::now();
    // The reply needs more segments than are available.
    let limits = ReplyLimits::new(Some(1 << 20));
    let call = client.null().reply_limits(limits);
    let call = call.begin(&mut driver).unwrap();
    driver.flush();
    assert!(driver.wait(NAP).unwrap() && began.elapsed() < NAP);
    let Some(LocalEvent::Completed(completed)) = channel.poll_event(&mut driver) else {
        panic!("the call has not ended");
    };
    let result = channel.read(&call, &completed, |()| ());
    result.expect("its end").unwrap_err();
}

/// Replies are sent when they are made, before the next turn of their driver.
#[test]
fn replies_do_not_wait_for_a_turn() {
    let mut ends = Ends::new(Config::client(), Config::server());
    for _ in 0..3 {
        ends.client.null().begin(&mut ends.near).unwrap();
        let mut answered = false;
        for _ in 0..10 {
            ends.near.turn().unwrap();
            ends.far.turn().unwrap();
            if ends.server.serve(&mut ends.far) > 0 {
                ends.near.turn().unwrap();
                while let Some(event) = ends.event() {
                    answered |= matches!(event, LocalEvent::Completed(_));
                }
                if answered {
                    break;
                }
            }
        }
        assert!(answered, "the server's driver was not turned again");
    }
}

#[test]
fn calls_take_their_round_trips() {
    let fabric = Fabric::with_delay(DELAY);
    let address = serve(fabric.device());
    let mut driver = Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096).unwrap();
    let client: Client<Channel> = connect(&mut driver, address, Config::client());
    let (channel, began) = (client.transport(), Instant::now());
    answered(&mut driver, channel, client.null());
    for _ in 0..10 {
        let there_and_back = answered(&mut driver, channel, client.null());
        assert!(there_and_back >= 2 * DELAY, "{there_and_back:?}");
        let bytes = ends::item(driver.pool(), &bytes()[..20_000]);
        let with_data = answered(&mut driver, channel, client.write(&Region { bytes }));
        assert!(with_data >= 4 * DELAY, "and the data are fetched");
    }
    assert!(began.elapsed() < NAP, "nobody has slept to the end");
}
