//! Handles of the metrics of each procedure. They are looked up without a lock, and bounded, since
//! a peer may send any procedure number.

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
}

type Key = (u32, u32, u32);

/// The metrics of all procedures of one end.
struct Table {
    slots: [OnceLock<Box<ProcedureMetrics>>; SLOTS],
    others: OnceLock<Box<ProcedureMetrics>>,
    /// Received, and sent.
    bytes: OnceLock<[Counter; 2]>,
}

impl Table {
    const fn new() -> Self {
        Self {
            slots: [const { OnceLock::new() }; SLOTS],
            others: OnceLock::new(),
            bytes: OnceLock::new(),
        }
    }
}

static CLIENT: Table = Table::new();
static SERVER: Table = Table::new();

const fn table(end: End) -> &'static Table {
    match end {
        End::Client => &CLIENT,
        End::Server => &SERVER,
    }
}

/// Returns the metrics of a procedure. A procedure without a name is unknown to this process: a
/// peer may have invented it.
#[inline]
pub(super) fn of(end: End, procedure: &ProcedureId) -> &'static ProcedureMetrics {
    let slots = &table(end).slots;
    let first = procedure
        .number
        .wrapping_add(procedure.program.wrapping_mul(31)) as usize;
    match slots[first % SLOTS].get() {
        Some(metered) if metered.is_of(procedure) => metered,
        _ => find(end, procedure, first),
    }
}

/// Finds the metrics of a procedure that are not in its first slot, or creates them.
#[cold]
fn find(end: End, procedure: &ProcedureId, first: usize) -> &'static ProcedureMetrics {
    let table = table(end);
    if !procedure.name.is_empty() {
        for slot in first..first.saturating_add(PROBES) {
            let slot = &table.slots[slot % SLOTS];
            let new = || ProcedureMetrics::new(end, key(procedure), procedure_labels(procedure));
            let metered = slot.get_or_init(new);
            if metered.is_of(procedure) {
                return metered;
            }
        }
    }
    let labels = || ["program", "version", "procedure"].map(|label| Label::new(label, OTHER));
    let new = || ProcedureMetrics::new(end, (0, 0, 0), labels());
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
    fn new(end: End, key: Key, labels: [Label; 3]) -> Box<Self> {
        Box::new(Self {
            key,
            calls: CALLS[end as usize],
            outcomes: [const { OnceLock::new() }; CallOutcome::Failed as usize + 1],
            seconds: histogram!(SECONDS[end as usize], labels.to_vec()),
            labels,
        })
    }

    #[inline]
    fn is_of(&self, procedure: &ProcedureId) -> bool {
        self.key == key(procedure) && !procedure.name.is_empty()
    }

    #[inline]
    pub(super) fn count(&self, outcome: CallOutcome) {
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

    #[cold]
    pub(super) fn record(&self, took: Duration) {
        self.seconds.record(took.as_secs_f64());
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

/// Counts the bytes of messages.
#[inline]
pub(super) fn count_bytes(end: End, received: usize, sent: usize) {
    let [of_received, of_sent] = match table(end).bytes.get() {
        Some(both) => both,
        None => table(end).bytes.get_or_init(|| bytes(end)),
    };
    if received > 0 {
        of_received.increment(received as u64);
    }
    if sent > 0 {
        of_sent.increment(sent as u64);
    }
}

#[cold]
fn bytes(end: End) -> [Counter; 2] {
    [
        counter!(RECEIVED[end as usize]),
        counter!(SENT[end as usize]),
    ]
}
