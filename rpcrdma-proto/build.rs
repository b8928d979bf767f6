//! Compiles the drafts in `spec/` into the types of `rpcrdma-proto`.

fn main() -> Result<(), xdrgen_build::Error> {
    xdrgen_build::Config::from_manifest("spec/xdrgen.toml")?.compile()
}
