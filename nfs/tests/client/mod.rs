//! The client with this crate's server over the loopback transport, TCP and RDMA (software fabric),
//! with every file system, and with faulty servers.

mod chunks;
mod faulty_servers;
mod files;
mod names;
mod support;
