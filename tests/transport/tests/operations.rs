//! Calls of several operations with separate results (rtrext-02), as messages of two drivers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "the numbers of a test are small"
)]

use std::time::Instant;

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::transfer::{MethodPreference, ResultPlacement};
use rpcrdma_transport_tests::block::bytes;
use rpcrdma_transport_tests::device_source::DeviceSource;
use rpcrdma_transport_tests::ends::{PATIENCE, placing};
use rpcrdma_transport_tests::on_every_device;
use rpcrdma_verbs::driver::{
    BeginError, CallBuffers, CallParams, ConnectionId, Driver, DriverEvent, ListenerHandle,
    Payload, WriteError, Writer,
};
use rpcrdma_verbs::memory::{Budget, Buf};
use rpcrdma_verbs::provider::Device;

/// The words of a call before its operations: XID, CALL, RPC version 2, program 7, version 1,
/// procedure 1, no credentials, no verifier.
const CALL: [u32; 10] = [0, 0, 2, 7, 1, 1, 0, 0, 0, 0];
/// The words of a reply after its XID: REPLY, accepted, no verifier, success.
const REPLY: [u32; 5] = [1, 0, 0, 0, 0];
const REPLY_HEADER: usize = 24;

/// Two drivers. Each operation of a call is a count. The server answers it with a flag whether
/// there are bytes, and this number of bytes of the block.
struct Drivers<D: Device> {
    near: Driver<D>,
    far: Driver<D>,
    client: ConnectionId,
    listener: ListenerHandle,
    /// Whether the server reports which operation its results answer.
    tells: bool,
}

impl<D: Device> Drivers<D> {
    fn new(source: &impl DeviceSource<Device = D>, rtr: RtrExtConfig) -> Self {
        let driver = |device| Driver::new(&device, &Budget::new(1 << 28), 4096).unwrap();
        let (mut near, mut far) = (driver(source.open()), driver(source.open_server()));
        let server = Config::server().with_rtr(rtr);
        let listener = far.listen(source.address(), server).unwrap();
        let client = Config::client().with_rtr(rtr);
        let client = near.connect(listener.address(), client).unwrap();
        let mut drivers = Self {
            near,
            far,
            client,
            listener,
            tells: true,
        };
        // Advertised properties apply from the third call on.
        for _ in 0..3 {
            drivers.reads(&[0]);
        }
        drivers
    }

    fn call(
        &mut self,
        counts: &[u32],
        results: impl IntoIterator<Item = Buf>,
    ) -> Result<u32, BeginError> {
        let mut params = CallParams::new(40_000 * counts.len() as u32);
        params.results.extend(results);
        self.near.call(self.client, &mut params, |writer| {
            words(writer, &CALL)?;
            for count in counts {
                writer.operation(1, |writer| words(writer, &[*count]))?;
            }
            Ok(())
        })
    }

    /// Turns both drivers until the call is answered.
    fn reply(&mut self, expected: u32) -> (Payload, CallBuffers) {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "no reply");
            self.near.turn().unwrap();
            self.far.turn().unwrap();
            self.serve();
            match self.near.poll_event(self.client) {
                Some(DriverEvent::ReplyArrived { xid, message }) => {
                    assert_eq!(xid, expected);
                    return (message, self.near.take_buffers(self.client, xid));
                }
                None | Some(DriverEvent::Ready(_)) => {}
                Some(other) => panic!("{other:?}"),
            }
        }
    }

    fn serve(&mut self) {
        if let Some(request) = self.far.next_request(self.listener) {
            self.far.accept(self.listener, request).unwrap();
        }
        while let Some(id) = self.far.ready_accepted(self.listener) {
            while let Some(event) = self.far.poll_event(id) {
                if let DriverEvent::CallArrived { call, xid, message } = event {
                    let (tells, pool) = (self.tells, self.far.pool().clone());
                    let counts = message.bytes()[4 * CALL.len()..].chunks_exact(4);
                    let counts = counts.map(|count| u32::from_be_bytes(count.try_into().unwrap()));
                    let reply = |writer: &mut Writer<'_>| {
                        words(writer, &[xid])?;
                        words(writer, &REPLY)?;
                        for (position, count) in (4 * CALL.len() as u32..).step_by(4).zip(counts) {
                            if tells {
                                writer.answers(position);
                            }
                            words(writer, &[u32::from(count > 0)])?;
                            if count > 0 {
                                let mut data = pool.take(count).unwrap();
                                data.extend_from_slice(&bytes()[..count as usize]);
                                writer.item(data)?;
                            }
                        }
                        Ok(())
                    };
                    self.far.reply(id, call, reply).unwrap();
                }
            }
        }
    }

    /// Reads in one call, with a buffer of 32 KiB for each operation. Returns the number of result
    /// bytes in the reply, and in each buffer.
    fn reads(&mut self, counts: &[u32]) -> (usize, Vec<usize>) {
        let pool = self.near.pool().clone();
        let results = counts.iter().map(|_| pool.take(32_768).unwrap());
        let xid = self.call(counts, results).unwrap();
        let (message, buffers) = self.reply(xid);
        for result in &buffers.results {
            assert!(**result == bytes()[..result.len()]);
        }
        let lengths = buffers.results.iter().map(|result| result.len());
        (message.bytes().len() - REPLY_HEADER, lengths.collect())
    }
}

fn words(writer: &mut Writer<'_>, words: &[u32]) -> Result<(), WriteError> {
    words.iter().try_for_each(|word| writer.put(word).map(drop))
}

/// Each operation of a call has its own buffers for results, which other operations do not use.
// spec: rtr-3.4-b, rtr-7.4-r, rtr-7.4-s
fn results_of_several_operations_are_separate(source: &impl DeviceSource) {
    for placement in [
        ResultPlacement::Cheaper,
        ResultPlacement::Explicit,
        ResultPlacement::Choice,
        ResultPlacement::BySize(25_000),
    ] {
        let mut drivers = Drivers::new(
            source,
            RtrExtConfig {
                placement,
                preference: MethodPreference::Groups,
                ..placing()
            },
        );
        for counts in [
            [20_000, 30_000, 5_000],
            [0, 30_000, 20_000],
            [0, 0, 32_768],
            [9_000, 0, 9_001],
            [0; 3],
        ] {
            let placed: Vec<usize> = counts.iter().map(|count| *count as usize).collect();
            let inline = counts.map(|count| if count > 0 { 8 } else { 4 });
            let inline = inline.iter().sum();
            assert_eq!(drivers.reads(&counts), (inline, placed), "{placement:?}");
        }
    }
}

/// The operation of the results is unknown in this case, so they stay in the reply.
fn results_without_an_operation_stay_in_the_reply(source: &impl DeviceSource) {
    let mut drivers = Drivers::new(
        source,
        RtrExtConfig {
            preference: MethodPreference::Groups,
            ..placing()
        },
    );
    drivers.tells = false;
    let found = drivers.reads(&[0, 2_000, 1_000]);
    assert_eq!(found, (4 + 8 + 8 + 3_000, vec![0; 3]));
}

fn operations_with_excess_results_are_rejected(source: &impl DeviceSource) {
    let mut drivers = Drivers::new(source, placing());
    let buf = drivers.near.pool().take(100).unwrap();
    let back = drivers.call(&[1, 2], [buf]).unwrap_err();
    assert_eq!(
        back.to_string(),
        "the operations have more results than the call has buffers for"
    );
    assert_eq!(back.buffers.results.len(), 1);
}

fn a_result_is_placed_in_the_callers_memory(source: &impl DeviceSource) {
    let mut drivers = Drivers::new(source, placing());
    let own = vec![0; 65_536];
    let own = Buf::adopt(drivers.near.device(), &Budget::new(1 << 20), own).unwrap();
    let xid = drivers.call(&[40_000], [own]).unwrap();
    let (_, buffers) = drivers.reply(xid);
    let result = buffers.results.into_iter().next().unwrap();
    let vec = result.into_vec().expect("the caller's own");
    assert!(vec == bytes()[..40_000]);
}

on_every_device!(
    results_of_several_operations_are_separate,
    results_without_an_operation_stay_in_the_reply,
    operations_with_excess_results_are_rejected,
    a_result_is_placed_in_the_callers_memory,
);
