//! The service with its generated clients, over the loopback transport and over TCP. The expected
//! results come from RFC 1813, whose sections the tests name.

mod attributes;
mod creating;
mod directories;
mod exports;
mod handles;
#[cfg(all(feature = "host", target_os = "linux"))]
mod host;
mod information;
mod malformed;
mod mount;
mod names;
mod procedures;
mod reading;
mod removing;
mod support;
mod writing;
