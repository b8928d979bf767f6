//! The kernel's NFS server with this crate's client.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use oncrpc::{AuthSys, Call, Credentials, Method, ReplyLimits};
use rpcrdma_proto::connection::{Config, Session, SessionCounters};
use rpcrdma_proto::private_data::PrivateData;
use rpcrdma_proto::version::Version;
use rpcrdma_transport_tests::{nfs3, nfs4};
use rpcrdma_verbs::driver::{self, Driver};
use rpcrdma_verbs::dump::Dump;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::{LocalChannel, LocalEvent};

use crate::peer::Linux;
use crate::wire::{PeerEvent, REACHED, Wire};
use crate::{null_call, word, words};

const PATIENCE: Duration = Duration::from_secs(30);
/// The credits that Linux grants.
const GRANT: u32 = 64;

/// A client, with the messages that it has sent.
struct Caller {
    driver: Driver<AnyDevice>,
    channel: LocalChannel<AnyDevice>,
    sent: Arc<Mutex<Vec<String>>>,
}

impl Caller {
    fn new(linux: &Linux, config: Config) -> Self {
        let mut driver = Driver::new(&linux.open(), &Budget::new(1 << 26), 4096).unwrap();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let watched = sent.clone();
        driver.watch(move |_, bytes| watched.lock().unwrap().push(Dump::new(bytes).to_string()));
        let channel = LocalChannel::connect(&mut driver, linux.nfsd, config).unwrap();
        Self {
            driver,
            channel,
            sent,
        }
    }

    fn event(&mut self) -> LocalEvent {
        let began = Instant::now();
        loop {
            if let Some(event) = self.channel.poll_event(&mut self.driver) {
                return event;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "nothing happens; sent: {:#?}",
                self.sent.lock().unwrap()
            );
            self.driver.turn().unwrap();
            self.driver.wait(Duration::from_millis(10)).unwrap();
        }
    }

    /// Calls NULL of a version with these credentials. The reply may have `room` bytes.
    fn null(&mut self, version: u32, credentials: Credentials, room: u64) {
        let channel = self.channel.clone();
        if version == 3 {
            let client = nfs3::Client::new(channel);
            self.call(client.null(), credentials, room);
        } else {
            let client = nfs4::Client::new(channel);
            self.call(client.null(), credentials, room);
        }
    }

    /// Makes a call whose reply has no results.
    fn call<P>(
        &mut self,
        call: Call<'_, LocalChannel<AnyDevice>, P>,
        credentials: Credentials,
        room: u64,
    ) where
        P: Method<Results = ()>,
    {
        let limits = ReplyLimits::new(Some(room));
        let call = call.credentials(credentials).reply_limits(limits);
        let call = call.begin(&mut self.driver).unwrap();
        loop {
            match self.event() {
                LocalEvent::Completed(completed) => {
                    let results = self.channel.read(&call, &completed, P::to_results);
                    return results.expect("its reply").unwrap();
                }
                LocalEvent::Connected(version) => assert_eq!(version, Version::One),
                other => panic!("{other:?}; sent: {:#?}", self.sent.lock().unwrap()),
            }
        }
    }

    fn session(&self) -> &Session {
        self.driver.session(self.channel.id()).unwrap()
    }

    fn counters(&self) -> driver::ConnectionCounters {
        self.driver.counters(self.channel.id()).unwrap()
    }
}

/// Version Two is requested and rejected, and the same connection continues with Version One.
#[test]
fn null_calls_are_answered_after_the_fallback() {
    let Some(linux) = Linux::new() else { return };
    for version in [3, 4] {
        let sys = Credentials::from(AuthSys::new("client"));
        for (credentials, bytes) in [(Credentials::None, 40), (sys, 68)] {
            let mut caller = Caller::new(&linux, Config::client());
            caller.null(version, credentials, 0);
            let sent = caller.sent.lock().unwrap();
            assert!(
                sent[0].starts_with("ROPT_REQPROP call "),
                "the first message is of Version Two: {sent:?}"
            );
            assert!(sent[1].starts_with("RDMA_MSG call "), "{sent:?}");
            assert!(
                sent[1].ends_with(&format!(", 32 credits, {bytes} bytes inline")),
                "{sent:?}"
            );
            let all = SessionCounters {
                received: 2,
                sent: 2,
                connections: 1,
                ..SessionCounters::default()
            };
            assert_eq!(
                (caller.session().version(), caller.session().counters()),
                (Some(Version::One), all)
            );
            assert_eq!(
                (
                    caller.session().available_credits(),
                    caller.counters().exposures
                ),
                (32, 0),
                "all that was asked for"
            );
        }
    }
}

/// If the device has windows, Linux invalidates them with its replies.
#[test]
fn null_calls_are_answered_with_a_reply_chunk_offered() {
    let Some(linux) = Linux::new() else { return };
    let windows = linux.open().capabilities().windows;
    for (version, remote_invalidation) in [(3, false), (4, false), (3, windows), (4, windows)] {
        let config = Config {
            remote_invalidation,
            ..Config::client()
        };
        let mut caller = Caller::new(&linux, config);
        for _ in 0..3 {
            caller.null(version, Credentials::None, 100_000);
        }
        let sent = caller.sent.lock().unwrap();
        assert_eq!(
            sent.iter()
                .filter(|one| one.ends_with("40 bytes inline, Reply chunk of 100024"))
                .count(),
            3
        );
        let all = SessionCounters {
            received: 4,
            sent: 4,
            connections: 1,
            ..SessionCounters::default()
        };
        assert_eq!(
            (caller.session().version(), caller.session().counters()),
            (Some(Version::One), all)
        );
        assert_eq!(caller.counters().exposures, 3);
    }
}

/// It tolerates probes: RDMA Writes of 0 bytes, or RDMA Reads on iWARP.
#[test]
fn an_idle_connection_stays() {
    let Some(linux) = Linux::new() else { return };
    let mut caller = Caller::new(&linux, Config::client());
    caller.null(3, Credentials::None, 0);
    caller.driver.keep_alive(Some(Duration::from_millis(100)));
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        caller.driver.wait(Duration::from_millis(100)).unwrap();
        let event = caller.channel.poll_event(&mut caller.driver);
        assert!(event.is_none(), "{event:?}");
    }
    assert!(caller.counters().probes > 3, "{}", caller.counters().probes);
    caller.null(3, Credentials::None, 0);
    assert_eq!(caller.session().counters().connections, 1);
}

/// It rejects an unknown version with a message of that version, which lists its own version.
#[test]
fn version_two_is_rejected_as_before() {
    let Some(linux) = Linux::new() else { return };
    let ours = PrivateData::from_sizes(4096, 4096).encode();
    let (mut wire, _) = Wire::connect(&linux.open(), linux.nfsd, &ours);
    wire.send(&words(
        &[&[7, 2, 32, 0, 0, 0, 0, 0][..], &null_call(7, 3)].concat(),
    ));
    assert_eq!(
        wire.receive(PATIENCE),
        PeerEvent::Message(words(&[7, 2, GRANT, 4, 1, 1, 1]), None)
    );
}

/// Checks Linux's private data when it accepts, and that it understands the client's private data:
/// its replies may invalidate.
#[test]
fn private_data_are_understood() {
    let Some(linux) = Linux::new() else { return };
    let device = linux.open();
    let ours = PrivateData::from_sizes(4096, 4096);
    let mut all = vec![(Vec::new(), false), (ours.encode().to_vec(), false)];
    if device.capabilities().windows {
        all.push((ours.with_remote_invalidation(true).encode().to_vec(), true));
    }
    for (bytes, invalidates) in all {
        let (mut wire, said) = Wire::connect(&device, linux.nfsd, &bytes);
        let (told, padding) = said.split_at(8);
        assert_eq!(
            told,
            [0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3],
            "it does not say that it invalidates, and does"
        );
        assert!(padding.iter().all(|byte| *byte == 0), "{said:x?}");
        assert_eq!(PrivateData::parse(&said), ours);

        if invalidates {
            wire.bind(&device);
        }
        let [key, length, high, low] = wire.segment(0, REACHED);
        wire.send(&words(
            &[
                &[7, 1, 32, 0, 0, 0, 1, 1, key, length, high, low][..],
                &null_call(7, 3),
            ]
            .concat(),
        ));
        // The Reply chunk, with the number of bytes written.
        let reply = words(&[7, 1, GRANT, 1, 0, 0, 1, 1, key, 24, high, low]);
        assert_eq!(
            wire.receive(PATIENCE),
            PeerEvent::Message(reply, invalidates.then_some(key))
        );
        assert_eq!(wire.written(0, 24), words(&[7, 1, 0, 0, 0, 0]));
    }
}

/// Linux's receives have the advertised size, and a message that fills one is accepted.
#[test]
fn a_message_may_fill_its_receives() {
    let Some(linux) = Linux::new() else { return };
    let ours = PrivateData::from_sizes(4096, 4096).encode();
    for (words_more, taken) in [(1024 - 17, true), (1024 - 16, false)] {
        let (mut wire, _) = Wire::connect(&linux.open(), linux.nfsd, &ours);
        // It ignores what follows the arguments of a NULL call.
        let call = [
            &[7, 1, 32, 0, 0, 0, 0][..],
            &null_call(7, 3),
            &vec![0; words_more],
        ]
        .concat();
        wire.send(&words(&call));
        match wire.receive(PATIENCE) {
            PeerEvent::Message(bytes, None) if taken => {
                assert_eq!((word(&bytes, 0), word(&bytes, 3)), (7, 0))
            }
            PeerEvent::Lost if !taken => {}
            other => panic!("{} bytes: {other:?}", 4 * call.len()),
        }
    }
}
