//! What directories of the host have beyond what every file system has.

mod data;
mod handles;
mod listing;
mod races;
mod users;
