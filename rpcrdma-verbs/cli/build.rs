//! Compiles `spec/block.x` into the client and the service of the command.

fn main() -> Result<(), xdrgen_build::Error> {
    xdrgen_build::Config::from_manifest("spec/xdrgen.toml")?.compile()
}
