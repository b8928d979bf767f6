//! Compiles RFC 5662 if its text is available: it is not part of this repository.

use std::error::Error;
use std::path::Path;

use xdrgen_build::{Config, Module};

/// The RFC's path, in the folder `shared` beside the checkout.
const NFS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/rfc/rfc5662.txt");

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rustc-check-cfg=cfg(nfs)");
    // Cargo would treat a missing file as changed in each build.
    println!("cargo::rerun-if-changed=build.rs");
    if Path::new(NFS).is_file() {
        println!("cargo::rerun-if-changed={NFS}");
        println!("cargo::rustc-cfg=nfs");
        println!("cargo::rustc-env=NFS={NFS}");
        Config::new()
            .module(Module::new("nfs").document(NFS))
            .compile()?;
    }
    Ok(())
}
