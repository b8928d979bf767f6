//! The conformance suite of providers: named cases that run on any device. The tests of a provider
//! run all of them (`tests/conformance.rs`).
//!
//! A case fails by panicking. Where devices differ, and nothing above depends on it, a case accepts
//! either behaviour, and says so. `cases` lists each case under the capability that it needs. A
//! case uses the traits of `provider` alone, and no type of a provider. The modules with
//! `cfg(test)` have tests of one provider, which are not in the list.

mod connections;
#[cfg(test)]
mod delay;
mod failures;
mod fixture;
#[cfg(all(test, feature = "iwarp"))]
mod local_errors;
mod many_queue_pairs;
mod messages;
mod rdma_access;
#[cfg(test)]
mod request_numbers;
mod sinks;
mod threads;
mod wakeups;
mod windows;

use std::net::SocketAddr;

use crate::provider::{Capabilities, Device};

/// The devices that the cases run on.
#[derive(Debug)]
pub struct TestBed<D: Device> {
    /// The device that connects.
    pub near: D,
    /// The device that listens.
    pub far: D,
    /// A device with its own protection domain, which is not connected.
    pub third: D,
    /// The address to listen on, of both `near` and `far`: with port 0, since a case listens in two
    /// threads at once.
    pub address: SocketAddr,
}

/// A case.
#[derive(Debug)]
pub struct Case<D: Device> {
    /// What the case tests.
    pub name: &'static str,
    /// The capability that the case requires.
    pub needs: Need,
    run: fn(&TestBed<D>),
}

/// A capability that a case requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// No special capability.
    Nothing,
    /// Memory windows.
    Windows,
    /// Memory windows that confine the peer, and that only their own peer can invalidate.
    GuardedWindows,
    /// Messages that wait for a receive.
    RnrRetry,
}

impl Need {
    /// Returns true if a device has the capability.
    #[must_use]
    pub fn is_met(self, capabilities: &Capabilities) -> bool {
        match self {
            Self::Nothing => true,
            Self::Windows => capabilities.windows,
            Self::GuardedWindows => capabilities.windows && capabilities.guards_windows,
            Self::RnrRetry => capabilities.rnr_retry,
        }
    }
}

impl<D: Device> Case<D> {
    /// Runs the case.
    ///
    /// # Panics
    /// Panics if the provider behaves differently.
    pub fn run(&self, bed: &TestBed<D>) {
        (self.run)(bed);
    }
}

/// Lists the cases of modules, each with the name of its function.
macro_rules! cases {
    ($($module:ident: $need:ident { $($name:ident),* $(,)? })*) => {
        vec![$($(Case {
            name: concat!(stringify!($module), "::", stringify!($name)),
            needs: Need::$need,
            run: $module::$name::<D>,
        },)*)*]
    };
}

/// Returns all cases.
#[must_use]
pub fn cases<D: Device>() -> Vec<Case<D>> {
    cases! {
        connections: Nothing {
            private_data_of_every_size_arrives,
            too_much_private_data_is_refused,
            a_rejection_is_told_with_its_data,
            a_dropped_request_is_a_rejection,
            nobody_listens,
            an_address_is_taken_once,
            who_listens_no_more_is_not_found,
            a_request_is_prepared_once,
            a_request_is_accepted_by_another_manager,
            a_request_is_accepted_with_its_own_queue_pair,
            what_the_acceptor_gives_up_is_rejected,
            what_the_initiator_gives_up_is_not_accepted,
            work_waits_for_the_connection,
            both_ends_are_told_of_the_end,
            more_reads_than_the_device_has_are_refused,
        }
        messages: Nothing {
            messages_of_all_sizes_arrive,
            parts_are_gathered,
            more_slices_than_the_device_takes_are_refused,
            messages_keep_their_order,
            receives_may_be_larger,
            requests_without_completions_end_with_a_later_one,
            memory_is_free_when_its_request_is_done,
            messages_go_along_as_they_were,
            more_than_the_device_takes_along_is_refused,
            a_send_queue_is_full_until_completions_are_polled,
            a_receive_queue_is_full,
            shared_receives_serve_several_queue_pairs,
            memory_of_another_device_is_refused,
        }
        messages: RnrRetry {
            a_message_waits_for_a_receive,
        }
        rdma_access: Nothing {
            bytes_are_written_and_read,
            parts_are_gathered_and_scattered,
            reads_stay_within_bounds,
            writes_stay_within_bounds,
            rights_are_kept,
            no_bytes_ask_for_no_key,
            wrong_keys_are_refused,
            keys_of_other_devices_are_refused,
            keys_end_with_their_registration,
            a_write_is_there_before_a_later_message,
            a_read_is_done_before_a_later_message,
            both_ends_read_at_once,
        }
        sinks: Nothing {
            the_key_of_a_sink_reaches_nothing_beyond_it,
            the_key_of_a_sink_ends_with_its_read,
            the_key_of_a_block_gives_the_peer_no_right,
            the_key_of_a_sink_ends_with_a_refused_post,
        }
        windows: Windows {
            a_key_ends_with_its_invalidation,
            a_peer_invalidates,
            a_peer_invalidates_no_other_key,
            a_bound_window_is_not_bound_again,
            what_is_not_bound_is_not_invalidated,
            a_window_ends_with_its_owner,
            a_window_serves_its_queue_pair_alone,
            binding_asks_for_memory_of_the_device,
        }
        windows: GuardedWindows {
            a_window_exposes_its_range_alone,
            a_peer_invalidates_no_other_window,
        }
        failures: Nothing {
            a_message_without_a_receive_ends_both,
            a_message_longer_than_its_receive_ends_both,
            what_was_posted_is_flushed_in_order,
            what_is_posted_afterwards_is_flushed,
            teardown_under_load_gives_all_back,
            nothing_of_a_dropped_queue_pair_is_touched,
            a_completion_queue_overruns,
        }
        wakeups: Nothing {
            an_armed_queue_wakes_once,
            what_came_before_is_not_told,
            no_wake_up_is_lost,
            a_manager_wakes,
        }
        many_queue_pairs: Nothing {
            many_queue_pairs_share_a_completion_queue,
            one_of_many_ends_alone,
        }
        threads: Nothing {
            a_thread_ends_objects_while_another_sends,
            a_region_ends_in_another_thread,
            two_threads_end_one_queue,
            what_one_thread_makes_another_uses,
        }
    }
}
