//! Compiles `spec/block.x` into types, clients and services.

fn main() -> Result<(), xdrgen_build::Error> {
    xdrgen_build::Config::from_manifest("spec/xdrgen.toml")?.compile()
}
