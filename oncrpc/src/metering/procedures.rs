//! Handles of the metrics of each procedure. They are looked up without a lock, and bounded, since
//! a peer may send any procedure number. A slot is never freed. Handles are created at their first
//! use and kept: a recorder that is installed later gets nothing of them. A procedure without a
//! name, or without a free slot, counts as `other`.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Histogram, Label, counter, histogram};

use super::names::{CALLS, RECEIVED, SECONDS, SENT};
use super::{CallOutcome, End};
use crate::procedure::ProcedureId;

/// The maximum number of procedures with their own metrics at each end: a power of two.
const SLOTS: usize = 512;
/// The maximum number of slots in one lookup.
const PROBES: usize = 16;
/// The label of all other procedures.
const OTHER: &str = "other";

/// The metrics of a procedure.
#[derive(Debug)]
pub(super) struct ProcedureMetrics {
    key: Key,
    labels: [Label; 3],
    calls: &'static str,
    /// Calls by outcome.
    outcomes: [OnceLock<Counter>; CallOutcome::Failed as usize + 1],
    seconds: Histogram,
    /// Those of the end, for all procedures.
    bytes: ByteCounters,
}

/// Bytes of messages.
#[derive(Clone, Debug)]
struct ByteCounters {
    received: Counter,
    sent: Counter,
}

type Key = (u32, u32, u32);

/// The metrics of all procedures of one end.
struct Table {
    end: End,
    slots: [OnceLock<Box<ProcedureMetrics>>; SLOTS],
    others: OnceLock<Box<ProcedureMetrics>>,
    bytes: OnceLock<ByteCounters>,
}

impl Table {
    const fn new(end: End) -> Self {
        Self {
            end,
            slots: [const { OnceLock::new() }; SLOTS],
            others: OnceLock::new(),
            bytes: OnceLock::new(),
        }
    }

    #[inline]
    fn bytes(&self) -> &ByteCounters {
        match self.bytes.get() {
            Some(bytes) => bytes,
            None => self.new_bytes(),
        }
    }

    #[cold]
    fn new_bytes(&self) -> &ByteCounters {
        self.bytes.get_or_init(|| ByteCounters::new(self.end))
    }
}

static CLIENT: Table = Table::new(End::Client);
static SERVER: Table = Table::new(End::Server);

const fn table(end: End) -> &'static Table {
    match end {
        End::Client => &CLIENT,
        End::Server => &SERVER,
    }
}

/// Returns the metrics of a procedure. A procedure without a name is unknown to this process: a
/// peer may have invented it.
#[inline]
fn of(table: &'static Table, procedure: &ProcedureId) -> &'static ProcedureMetrics {
    let first = procedure
        .number
        .wrapping_add(procedure.program.wrapping_mul(31)) as usize;
    match table.slots[first % SLOTS].get() {
        Some(metered) if metered.key == key(procedure) => metered,
        _ => find(table, procedure, first),
    }
}

/// Finds the metrics of a procedure that are not in its first slot, or creates them.
#[cold]
fn find(table: &'static Table, procedure: &ProcedureId, first: usize) -> &'static ProcedureMetrics {
    if !procedure.name.is_empty() {
        for slot in first..first.saturating_add(PROBES) {
            let slot = &table.slots[slot % SLOTS];
            let new = || ProcedureMetrics::new(table, key(procedure), procedure_labels(procedure));
            let metered = slot.get_or_init(new);
            if metered.key == key(procedure) {
                return metered;
            }
        }
    }
    let labels = || ["program", "version", "procedure"].map(|label| Label::new(label, OTHER));
    let new = || ProcedureMetrics::new(table, (0, 0, 0), labels());
    table.others.get_or_init(new)
}

const fn key(procedure: &ProcedureId) -> Key {
    (procedure.program, procedure.version, procedure.number)
}

fn procedure_labels(procedure: &ProcedureId) -> [Label; 3] {
    [
        Label::new("program", procedure.program.to_string()),
        Label::new("version", procedure.version.to_string()),
        Label::from_static_parts("procedure", procedure.name),
    ]
}

impl ProcedureMetrics {
    #[cold]
    fn new(table: &'static Table, key: Key, labels: [Label; 3]) -> Box<Self> {
        let end = table.end as usize;
        Box::new(Self {
            key,
            calls: CALLS[end],
            outcomes: [const { OnceLock::new() }; CallOutcome::Failed as usize + 1],
            seconds: histogram!(SECONDS[end], labels.to_vec()),
            bytes: table.bytes().clone(),
            labels,
        })
    }

    #[inline]
    fn count(&self, outcome: CallOutcome) {
        let counter = self.outcomes[outcome as usize].get();
        counter.unwrap_or_else(|| self.made(outcome)).increment(1);
    }

    #[cold]
    fn made(&self, outcome: CallOutcome) -> &Counter {
        self.outcomes[outcome as usize].get_or_init(|| self.counter(outcome))
    }

    #[cold]
    fn counter(&self, outcome: CallOutcome) -> Counter {
        let mut labels = self.labels.to_vec();
        labels.push(Label::from_static_parts("status", outcome.name()));
        counter!(self.calls, labels)
    }
}

impl CallOutcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::ProgramUnavailable => "program_unavailable",
            Self::ProgramMismatch => "program_mismatch",
            Self::ProcedureUnavailable => "procedure_unavailable",
            Self::GarbageArgs => "garbage_args",
            Self::SystemError => "system_error",
            Self::RpcMismatch => "rpc_mismatch",
            Self::AuthError => "auth_error",
            Self::NoReply => "no_reply",
            Self::Undecodable => "undecodable",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::ConnectionLost => "connection_lost",
            Self::Failed => "failed",
        }
    }
}

/// Counts a call that was executed, and the bytes of its messages.
// One function for all metrics of a call, and not inlined: its code in place would be too long for
// the functions around it to be inlined, which costs more than the metrics.
#[inline(never)]
pub(super) fn count_served(procedure: &ProcedureId, received: usize, sent: usize) {
    let metered = of(&SERVER, procedure);
    metered.count(CallOutcome::Success);
    metered.bytes.received.increment(received as u64);
    metered.bytes.sent.increment(sent as u64);
}

/// Counts a call that has results, and the bytes of its reply.
#[inline(never)]
pub(super) fn count_answered(procedure: &ProcedureId, received: usize) {
    let metered = of(&CLIENT, procedure);
    metered.count(CallOutcome::Success);
    metered.bytes.received.increment(received as u64);
}

/// Counts a call with any outcome.
#[cold]
pub(super) fn count_ended(
    end: End,
    procedure: &ProcedureId,
    outcome: CallOutcome,
    received: usize,
    sent: usize,
) {
    let metered = of(table(end), procedure);
    metered.count(outcome);
    metered.bytes.count(received, sent);
}

/// Counts the bytes of messages.
#[inline]
pub(super) fn count_bytes(end: End, received: usize, sent: usize) {
    table(end).bytes().count(received, sent);
}

/// Records the time of a call.
#[cold]
pub(super) fn record(end: End, procedure: &ProcedureId, took: Duration) {
    of(table(end), procedure).seconds.record(took.as_secs_f64());
}

impl ByteCounters {
    #[cold]
    fn new(end: End) -> Self {
        Self {
            received: counter!(RECEIVED[end as usize]),
            sent: counter!(SENT[end as usize]),
        }
    }

    #[inline]
    fn count(&self, received: usize, sent: usize) {
        if received > 0 {
            self.received.increment(received as u64);
        }
        if sent > 0 {
            self.sent.increment(sent as u64);
        }
    }
}
