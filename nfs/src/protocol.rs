//! The types, clients and services of NFSv3, MOUNT, RPCBIND and NFSv4.1, generated from `spec/`.

include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));

/// NFSv4.1 and 4.2, which are compiled separately.
#[cfg(feature = "nfs4")]
pub(crate) mod version4 {
    include!(concat!(env!("OUT_DIR"), "/nfs4/xdrgen.rs"));
}
