//! Compiles `spec/rpc.x` into the types of RPC messages.

fn main() -> Result<(), xdrgen_build::Error> {
    xdrgen_build::Config::from_manifest("spec/xdrgen.toml")?.compile()
}
