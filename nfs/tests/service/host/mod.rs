//! Tests that are specific to directories of the host.

mod data;
mod handles;
mod listing;
mod races;
mod users;
