//! The completions of a queue that wait to be polled, and its arming, for `software` and `iwarp`.
//!
//! The completion queue of the provider locks the buffer, and writes its descriptor: whoever adds
//! entries to an armed buffer disarms it and wakes. A send queue counts its requests as posted
//! until `poll` adds `retires` to its counter, as on devices: a posting thread that does not poll
//! gets `Cause::Full`. After an overrun each poll fails, and the entries are never reported.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::provider::{Cause, Completion, Result, VerbError};

/// The completions that wait to be polled.
#[derive(Debug)]
pub(in crate::provider) struct CompletionBuffer {
    entries: VecDeque<CompletionEntry>,
    most: usize,
    armed: bool,
    overrun: bool,
}

/// A completion, with the entries of the send queue that it frees.
#[derive(Debug)]
pub(in crate::provider) struct CompletionEntry {
    pub(in crate::provider) completion: Completion,
    pub(in crate::provider) retires: Option<(Arc<AtomicU32>, u32)>,
}

impl CompletionBuffer {
    /// Returns a buffer for `most` completions.
    pub(in crate::provider) fn new(most: u32) -> Self {
        Self {
            entries: VecDeque::new(),
            most: most as usize,
            armed: false,
            overrun: false,
        }
    }

    /// Takes all entries. Completions without room are lost, and the queue has overrun.
    #[inline(always)]
    pub(in crate::provider) fn extend(&mut self, entries: &mut VecDeque<CompletionEntry>) {
        // rfc: 5040-8.1.1-l
        let room = self.most - self.entries.len();
        self.overrun |= entries.len() > room;
        entries.truncate(room);
        // Most queues are polled until they are empty. The larger allocation stays with the queue.
        if self.entries.is_empty() && self.entries.capacity() <= entries.capacity() {
            std::mem::swap(&mut self.entries, entries);
        } else {
            self.entries.append(entries);
        }
    }

    pub(in crate::provider) const fn is_armed(&self) -> bool {
        self.armed
    }

    pub(in crate::provider) const fn set_armed(&mut self, armed: bool) {
        self.armed = armed;
    }

    /// Returns true if nothing waits to be polled.
    #[cfg(feature = "iwarp")]
    pub(in crate::provider) fn is_empty(&self) -> bool {
        self.entries.is_empty() && !self.overrun
    }

    /// Takes at most `most` completions, and returns their number.
    #[inline(always)]
    pub(in crate::provider) fn poll(
        &mut self,
        completions: &mut Vec<Completion>,
        most: usize,
    ) -> Result<usize> {
        if self.overrun {
            return Err(VerbError {
                verb: "poll",
                cause: Cause::Overrun,
            });
        }
        let count = most.min(self.entries.len());
        for entry in self.entries.iter().take(count) {
            if let Some((retired, count)) = &entry.retires {
                retired.fetch_add(*count, Ordering::Relaxed);
            }
            completions.push(entry.completion);
        }
        self.entries.drain(..count);
        Ok(count)
    }
}
