//! Both ends of the RDMA transport on one thread, with a typed client and a service, for the
//! transport tests on the software fabric and on the device named in the environment.
#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::cast_possible_truncation,
    reason = "it is for tests"
)]

pub mod block;
pub mod capture;
pub mod device_source;
pub mod ends;
pub mod faulty_tcp;
pub mod random;
pub mod traffic;

include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));

pub use nfs::nfs::{nfs3, nfs4};
pub use schema::block::block1;
pub use schema::callback::callback1;
