//! What every provider must do: named cases, for any device. A provider's tests run all of them.
//!
//! A case fails by panicking. Where real devices differ from one another in a way that nothing above depends on, a case takes
//! either: which, is said at its place.

mod connecting;
#[cfg(test)]
mod delayed;
mod failing;
mod many;
#[cfg(test)]
mod numbering;
mod reaching;
mod sending;
mod waking;
mod windows;
mod world;

use std::net::SocketAddr;

use crate::provider::{Capabilities, Device};

/// What the cases are run on.
#[derive(Debug)]
pub struct Bed<D: Device> {
    /// Connects.
    pub near: D,
    /// Listens.
    pub far: D,
    /// Takes no part, and has a protection domain of its own.
    pub third: D,
    /// Where it listens: at any port.
    pub address: SocketAddr,
}

/// One of the cases.
#[derive(Debug)]
pub struct Case<D: Device> {
    /// What it is about.
    pub name: &'static str,
    /// What a device must have for it.
    pub needs: Need,
    run: fn(&Bed<D>),
}

/// What a device must have for a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// What every device has.
    Nothing,
    /// Memory windows.
    Windows,
    /// Memory windows that keep their bounds, and that no peer can invalidate but its own.
    GuardedWindows,
    /// Messages that wait for a receive.
    RnrRetry,
}

impl Need {
    /// Whether a device has it.
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
    /// Runs it.
    ///
    /// # Panics
    /// The provider does otherwise.
    pub fn run(&self, bed: &Bed<D>) {
        (self.run)(bed);
    }
}

/// The cases of modules: each by the name of its function.
macro_rules! cases {
    ($($module:ident: $need:ident { $($name:ident),* $(,)? })*) => {
        vec![$($(Case {
            name: concat!(stringify!($module), "::", stringify!($name)),
            needs: Need::$need,
            run: $module::$name::<D>,
        },)*)*]
    };
}

/// All cases.
#[must_use]
pub fn cases<D: Device>() -> Vec<Case<D>> {
    cases! {
        connecting: Nothing {
            private_data_of_every_size_arrives,
            too_much_private_data_is_refused,
            a_rejection_is_told_with_its_data,
            a_dropped_request_is_a_rejection,
            nobody_listens,
            an_address_is_taken_once,
            who_listens_no_more_is_not_found,
            a_request_is_prepared_once,
            a_request_is_accepted_with_its_own_queue_pair,
            what_the_acceptor_gives_up_is_rejected,
            what_the_initiator_gives_up_is_not_accepted,
            work_waits_for_the_connection,
            both_ends_are_told_of_the_end,
            more_reads_than_the_device_has_are_refused,
        }
        sending: Nothing {
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
        sending: RnrRetry {
            a_message_waits_for_a_receive,
        }
        reaching: Nothing {
            octets_are_written_and_read,
            parts_are_gathered_and_scattered,
            reads_stay_within_bounds,
            writes_stay_within_bounds,
            rights_are_kept,
            no_octets_ask_for_no_key,
            wrong_keys_are_refused,
            keys_of_other_devices_are_refused,
            keys_end_with_their_registration,
            a_write_is_there_before_a_later_message,
            a_read_is_done_before_a_later_message,
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
        failing: Nothing {
            a_message_without_a_receive_ends_both,
            a_message_longer_than_its_receive_ends_both,
            what_was_posted_is_flushed_in_order,
            what_is_posted_afterwards_is_flushed,
            teardown_under_load_gives_all_back,
            nothing_of_a_dropped_queue_pair_is_touched,
            a_completion_queue_overruns,
        }
        waking: Nothing {
            an_armed_queue_wakes_once,
            what_came_before_is_not_told,
            no_wake_up_is_lost,
            a_manager_wakes,
        }
        many: Nothing {
            many_queue_pairs_share_a_completion_queue,
            one_of_many_ends_alone,
        }
    }
}
