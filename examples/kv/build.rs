//! Compiles `spec/kv.x` into types, a client and a service.

fn main() -> Result<(), xdrgen_build::Error> {
    xdrgen_build::Config::from_manifest("spec/xdrgen.toml")?.compile()
}
