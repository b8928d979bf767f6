//! Generated code says which runtime it was generated for.

const _: () = xdrgen_runtime::assert_abi(0);

fn main() {}
