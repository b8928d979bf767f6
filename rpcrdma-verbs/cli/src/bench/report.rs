//! The report, as text or as JSON.
//!
//! The fields of the JSON object are for programs: `benches/plots.py` reads them, also from results
//! of earlier versions. Counts of costs and registered bytes are those of the first thread.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

use super::{Costs, Measurement, Operation, Options, Reference};
use crate::output::{Count, OutputError};

/// The results of all threads combined.
struct Totals {
    /// Nanoseconds per call on its thread: minimum, median and maximum.
    calls: [f64; 3],
    rate: f64,
    /// Bytes of arguments and results per second.
    bytes_per_second: f64,
    /// The 50, 90, 99 and 99.9 percentiles of the latencies in microseconds.
    percentiles: [f64; 4],
    memory: usize,
    costs: Option<Costs>,
}

fn sums(options: &Options, found: &[Measurement]) -> Totals {
    let rate: f64 = found.iter().map(|one| 1e9 / one.calls[1]).sum();
    let median = found.len() as f64 * 1e9 / rate;
    let (least, most) = found.iter().fold((f64::MAX, 0f64), |(least, most), one| {
        (least.min(one.calls[0]), most.max(one.calls[2]))
    });
    let ways = if options.operation == Operation::Echo {
        2.0
    } else {
        1.0
    };
    let mut latencies: Vec<f64> = found
        .iter()
        .flat_map(|one| one.latencies.iter().copied())
        .collect();
    latencies.sort_by(f64::total_cmp);
    let percentile = |of: usize| {
        latencies
            .get(latencies.len() * of / 1000)
            .copied()
            .unwrap_or_default()
    };
    Totals {
        calls: [least, median, most],
        rate,
        bytes_per_second: ways * f64::from(options.size) * rate,
        percentiles: [500, 900, 990, 999].map(percentile),
        memory: found.first().map_or(0, |one| one.memory),
        costs: found.first().and_then(|one| one.costs),
    }
}

/// The references, in nanoseconds.
struct References {
    /// The same messages or transfers without RPC: minimum, median and maximum.
    raw: Option<[f64; 3]>,
    /// `memcpy` over the same working set.
    memcpy: Option<f64>,
    /// The same bytes over a plain TCP connection.
    tcp: Option<[f64; 3]>,
    /// The same calls with futures on tokio.
    tokio: Option<f64>,
}

pub(super) fn print(
    options: &Options,
    reference: Option<&Reference<'_>>,
    tokio: Option<f64>,
    found: &[Measurement],
) -> Result<(), Box<dyn Error>> {
    let sums = sums(options, found);
    let (raw, memcpy) = (
        reference.and_then(Reference::raw),
        reference.and_then(Reference::memcpy),
    );
    let tcp = reference.and_then(Reference::tcp);
    let others = References {
        raw,
        memcpy,
        tcp,
        tokio,
    };
    let mut out = io::stdout().lock();
    let done = if options.json {
        json(&mut out, options, &others, &sums)
    } else {
        text(&mut out, options, &others, &sums)
    };
    Ok(done.map_err(OutputError::from)?)
}

fn json(
    out: &mut impl Write,
    options: &Options,
    others: &References,
    sums: &Totals,
) -> io::Result<()> {
    let Options {
        operation,
        size,
        depth,
        connections,
        shared_receives,
        threads,
        apart,
        ..
    } = options;
    let [least, median, most] = sums.calls;
    let [half, ninety, ninety_nine, last] = sums.percentiles;
    let mut json = serde_json::json!({
        "operation": format!("{operation:?}").to_lowercase(), "size": size, "depth": depth,
        "connections": connections, "shared_receives": shared_receives,
        "threads": threads, "apart": apart, "device": options.selected,
        "protocol": options.protocol.number(),
        "ns_per_rpc": median, "ns_per_rpc_least": least, "ns_per_rpc_most": most,
        "raw_ns": others.raw.map(|raw| raw[1]), "raw_ns_least": others.raw.map(|raw| raw[0]),
        "raw_ns_most": others.raw.map(|raw| raw[2]), "memcpy_ns": others.memcpy,
        "tokio_ns": others.tokio, "tcp_ns": others.tcp.map(|tcp| tcp[1]),
        "rpc_per_second": sums.rate, "bytes_per_second": sums.bytes_per_second,
        "registered_bytes_per_connection": sums.memory,
        "latency_us": { "p50": half, "p90": ninety, "p99": ninety_nine, "p999": last },
    });
    if let (Some(costs), Some(json)) = (sums.costs, json.as_object_mut()) {
        json.insert(
            "extension".to_owned(),
            format!("{:?}", options.extension).to_lowercase().into(),
        );
        json.insert(
            "per_rpc".to_owned(),
            serde_json::json!({
                "round_trips": costs.round_trips, "messages": costs.messages,
                "reads_and_writes": costs.moves,
                "work_requests": costs.posts, "completions": costs.completions,
                "exposed": costs.exposed, "bytes_copied": costs.copied,
            }),
        );
    }
    if let (Some(delay), Some(json)) = (options.delay, json.as_object_mut()) {
        json.insert("delay_us".to_owned(), (delay.as_secs_f64() * 1e6).into());
    }
    writeln!(out, "{json}")
}

fn text(
    out: &mut impl Write,
    options: &Options,
    others: &References,
    sums: &Totals,
) -> io::Result<()> {
    settings(out, options)?;
    let [least, median, most] = sums.calls;
    writeln!(
        out,
        "    {median:.0} ns for each call on its thread ({least:.0} to {most:.0}), {:.0} calls in \
        a second, {:.0} MB/s",
        sums.rate,
        sums.bytes_per_second / 1e6
    )?;
    references(out, options, others, median)?;
    let [half, ninety, ninety_nine, last] = sums.percentiles;
    writeln!(
        out,
        "    {half:.1} us from call to reply at the median, {ninety:.1} at 90 %, {ninety_nine:.1} \
        at 99 %, {last:.1} at 99.9 %"
    )?;
    if let Some(costs) = &sums.costs {
        writeln!(out, "    each call: {costs}")?;
    }
    let ends = if options.apart || options.connect.is_some() {
        "at the client's end"
    } else {
        "both ends together"
    };
    writeln!(
        out,
        "    {} bytes registered for each connection, {ends}",
        sums.memory
    )
}

/// Writes the line with the settings of the measurement.
fn settings(out: &mut impl Write, options: &Options) -> io::Result<()> {
    let Options {
        operation,
        size,
        depth,
        connections,
        threads,
        ..
    } = options;
    let what = match operation {
        Operation::Echo => "each way",
        Operation::Read => "read",
        Operation::Write => "written",
    };
    write!(
        out,
        "{} {what}, {depth} in flight on each of {}, {}",
        Count((*size).into(), "byte"),
        Count((*connections).into(), "connection"),
        Count(*threads as u64, "thread")
    )?;
    if let Some(device) = &options.selected {
        write!(out, ", on {device}")?;
    }
    if options.apart {
        write!(out, ", the server on a thread of its own")?;
    }
    if let Some(delay) = options.delay {
        write!(out, ", {delay:?} from end to end")?;
    }
    writeln!(out, ":")
}

/// Writes a line for each reference, compared with the `median` time of a call.
fn references(
    out: &mut impl Write,
    options: &Options,
    others: &References,
    median: f64,
) -> io::Result<()> {
    if let Some([least, raw, most]) = others.raw {
        let same = match options.operation {
            Operation::Echo => "messages",
            Operation::Read | Operation::Write => "transfers",
        };
        let times = median / raw;
        writeln!(
            out,
            "    {raw:.0} ns for the same {same} without RPC ({least:.0} to {most:.0}): a call \
            takes {times:.2} times that"
        )?;
    }
    if let Some(memcpy) = others.memcpy {
        writeln!(
            out,
            "    {memcpy:.0} ns for memcpy over the same set: {:.2} of the time of a call",
            memcpy / median
        )?;
    }
    if let Some([least, tcp, most]) = others.tcp {
        let times = median / tcp;
        writeln!(
            out,
            "    {tcp:.0} ns for the same bytes over TCP ({least:.0} to {most:.0}): a call takes \
            {times:.2} times that"
        )?;
    }
    if let Some(tokio) = others.tokio {
        writeln!(out, "    {tokio:.0} ns for each call with futures on tokio")?;
    }
    Ok(())
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            round_trips,
            messages,
            moves,
            posts,
            completions,
            exposed,
            copied,
        } = self;
        write!(
            f,
            "{round_trips:.2} round trips, {messages:.2} messages, {moves:.2} RDMA Reads and \
            Writes, {posts:.2} work requests, {completions:.2} completions, {exposed:.2} regions \
            exposed, {copied:.0} bytes copied"
        )
    }
}
