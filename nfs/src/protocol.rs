//! The types, clients and services of NFSv3 and MOUNT, generated from `spec/`.

include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));
