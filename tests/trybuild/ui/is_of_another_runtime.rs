//! Generated code checks the version of the runtime.

const _: () = xdrgen_runtime::assert_abi(0);

fn main() {}
