//! The command `xdrgen`.
#![forbid(unsafe_code)]
fn main() {}
