//! Compiles `spec/nfs3.x` and `spec/mount3.x` into types, clients and services, and also
//! `spec/nfs4.x` with the feature `nfs4`.

use std::env;
use std::path::PathBuf;

use xdrgen_build::{Config, Error};

fn main() -> Result<(), Error> {
    Config::from_manifest("spec/xdrgen.toml")?.compile()?;
    println!("cargo::rerun-if-env-changed=CARGO_FEATURE_NFS4");
    let (feature, out) = (env::var_os("CARGO_FEATURE_NFS4"), env::var_os("OUT_DIR"));
    if let (Some(_), Some(out)) = (feature, out) {
        let config = Config::from_manifest("spec/nfs4.toml")?;
        config.out_dir(PathBuf::from(out).join("nfs4")).compile()?;
    }
    Ok(())
}
