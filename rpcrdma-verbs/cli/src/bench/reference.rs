//! The reference for calls. On one thread it is measured in turns with them, so that noise affects
//! both; with several threads, after them.
//!
//! A reference transfers the same bytes in the same depth over the same kind of device, and all
//! transfers and `memcpy` use the working set of the calls. `CALL` and `REPLY` are the header bytes
//! of an echo in Version Two: if the headers change, these must change. `INLINE + CALL` must fit a
//! receive of `measure`, 4096 bytes. `rpcrdma_verbs::measure` and `tcp` make the transfers, and
//! `report` prints the ratios.

use std::error::Error;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use rpcrdma_verbs::measure::{self, Transfer, ping_pong, transfer_rate};
use rpcrdma_verbs::provider::any::AnyDevice;

use super::{Operation, Options, least_median_most, tcp};
use crate::device_source::DeviceSource;

/// Samples of the reference. For an echo: the same messages without RPC, with headers of 72 and 56
/// bytes as in Version Two. For a read or a write: the same transfers, and `memcpy`.
pub(super) struct Reference<'a> {
    options: &'a Options,
    source: &'a DeviceSource,
    /// Messages of one sample.
    count: u32,
    raw: Vec<f64>,
    memcpy: Vec<f64>,
    /// The same bytes over a plain TCP connection, if the device is iWARP over TCP.
    tcp: Vec<f64>,
    is_tcp: bool,
}

/// The bytes of the headers of a call and of a reply in Version Two.
const CALL: u32 = 72;
const REPLY: u32 = 56;
/// The duration of a sample of messages.
const SAMPLE: Duration = Duration::from_millis(150);
/// The maximum number of bytes, without headers, of an echo that has a reference: it is sent
/// inline.
const INLINE: u32 = 3072;

impl<'a> Reference<'a> {
    pub(super) fn new(
        options: &'a Options,
        source: &'a DeviceSource,
    ) -> Result<Self, Box<dyn Error>> {
        let mut this = Self {
            options,
            source,
            count: 200,
            raw: Vec::new(),
            memcpy: Vec::new(),
            tcp: Vec::new(),
            is_tcp: matches!(source.open()?, AnyDevice::Iwarp(_)),
        };
        if options.operation == Operation::Echo && options.size <= INLINE {
            let each = Duration::from_secs_f64(this.messages()? / 1e9);
            this.count = u32::try_from(SAMPLE.as_nanos() / each.as_nanos().max(1))?.max(200);
        }
        Ok(this)
    }

    /// Takes a sample.
    pub(super) fn take(&mut self) -> Result<(), Box<dyn Error>> {
        let (size, all, some) = (
            self.options.size,
            self.options.buffers(),
            usize::from(self.options.depth),
        );
        if self.is_tcp {
            self.tcp.push(self.over_tcp()?);
        }
        match self.options.operation {
            Operation::Echo if size <= INLINE => self.raw.push(self.messages()?),
            Operation::Echo => {}
            // Both ends would have to make progress at the same time, so plain TCP is the
            // reference.
            Operation::Read | Operation::Write if self.is_tcp => {}
            // The server moves the data of a read by RDMA Write, and those of a write by RDMA Read.
            Operation::Read => {
                self.raw.push(self.transfers(Transfer::Write)?);
                self.memcpy.push(memcpy(size, all, all));
            }
            Operation::Write => {
                self.raw.push(self.transfers(Transfer::Read)?);
                self.memcpy.push(memcpy(size, all, some));
            }
        }
        Ok(())
    }

    /// Returns the nanoseconds without RPC: minimum, median and maximum.
    pub(super) fn raw(&self) -> Option<[f64; 3]> {
        (!self.raw.is_empty()).then(|| least_median_most(self.raw.clone()))
    }

    /// Returns the median nanoseconds of `memcpy`.
    pub(super) fn memcpy(&self) -> Option<f64> {
        (!self.memcpy.is_empty()).then(|| least_median_most(self.memcpy.clone())[1])
    }

    /// Returns the nanoseconds of the same bytes over a plain TCP connection: minimum, median and
    /// maximum.
    pub(super) fn tcp(&self) -> Option<[f64; 3]> {
        (!self.tcp.is_empty()).then(|| least_median_most(self.tcp.clone()))
    }

    fn over_tcp(&self) -> Result<f64, Box<dyn Error>> {
        let Options { size, depth, .. } = *self.options;
        Ok(match self.options.operation {
            Operation::Echo => {
                let count = self.count.max(20 * u32::from(depth)) as usize;
                let sizes = [CALL, REPLY].map(|header| size.saturating_add(header) as usize);
                tcp::exchange(sizes, depth.into(), count)?
            }
            Operation::Read | Operation::Write => {
                tcp::stream(size as usize, self.options.buffers())?
            }
        })
    }

    fn ends(&self) -> Result<measure::Devices<AnyDevice>, Box<dyn Error>> {
        let (near, far) = (self.source.open()?, self.source.open()?);
        // The server uses the requested port.
        let address = SocketAddr::new(self.source.address(0).ip(), 0);
        Ok(measure::Devices { near, far, address })
    }

    fn messages(&self) -> Result<f64, Box<dyn Error>> {
        let Options {
            size,
            depth,
            connections,
            ..
        } = *self.options;
        let sizes = (size.saturating_add(CALL), size.saturating_add(REPLY));
        let connections = NonZeroU32::new(connections).ok_or("there are no connections")?;
        Ok(ping_pong(
            &self.ends()?,
            sizes,
            (in_flight(depth)?, connections),
            self.count,
        )?)
    }

    fn transfers(&self, how: Transfer) -> Result<f64, Box<dyn Error>> {
        let Options { size, depth, .. } = *self.options;
        let buffers = NonZeroU32::try_from(u32::try_from(self.options.buffers())?)?;
        let (depth, count) = (in_flight(depth)?, buffers.get().saturating_mul(2));
        let rate = transfer_rate(&self.ends()?, how, size, buffers, depth, count)?;
        Ok(1e9 * f64::from(size) / rate)
    }
}

/// Returns the number of messages in flight.
fn in_flight(depth: u16) -> Result<NonZeroU32, &'static str> {
    NonZeroU32::new(depth.into()).ok_or("there are no calls in flight")
}

/// Measures the nanoseconds of copying `size` bytes between buffers that are used in turn.
fn memcpy(size: u32, from: usize, to: usize) -> f64 {
    let buffers = |count: usize| vec![vec![1u8; size as usize]; count];
    let (from, mut to) = (buffers(from), buffers(to));
    let began = Instant::now();
    let (mut copied, count) = (0usize, 2 * from.len().max(to.len()));
    let mut targets = 0;
    for source in from.iter().cycle().take(count) {
        if let Some(target) = to.get_mut(targets) {
            target.copy_from_slice(std::hint::black_box(source));
            std::hint::black_box(target);
            copied += 1;
        }
        targets = (targets + 1) % to.len();
    }
    began.elapsed().as_nanos() as f64 / copied.max(1) as f64
}
