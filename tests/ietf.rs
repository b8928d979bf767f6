//! Compiles published RFCs in every shape to Rust that compiles without a warning.
//!
//! The RFCs are not part of this repository: the test needs a folder `shared` beside the checkout.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use xdrgen_build::{Config, Module, Shapes};

/// NFSv4.1, NFSv4.0, NFSv4.2, and RPC-over-RDMA Version One.
const DOCUMENTS: [&str; 4] = ["rfc5662", "rfc7531", "rfc7863", "rfc8166"];
const SHAPES: [(&str, Shapes); 3] = [
    ("both", Shapes::Both),
    ("owned", Shapes::Owned),
    ("borrowed", Shapes::Borrowed),
];

#[test]
fn rfcs_compile_in_every_shape() {
    let Some(rfcs) = common::shared("rfc") else {
        return;
    };
    let mut library = common::ThrowAway::new("ietf");
    for document in DOCUMENTS {
        for (name, shapes) in SHAPES {
            let (path, name) = (
                rfcs.join(format!("{document}.txt")),
                format!("{document}_{name}"),
            );
            let module = Module::new(&name).document(path).shapes(shapes);
            let files = Config::new().module(module).check().generate();
            library.add(
                &name,
                files.unwrap_or_else(|report| panic!("{name}: {report}")),
            );
        }
    }
    library.check();
}

/// The package with NFSv4.1 contains the XDR of RFC 7863 as published, without the text around it.
#[test]
fn nfs4_schema_matches_the_rfc() {
    let Some(rfcs) = common::shared("rfc") else {
        return;
    };
    let extracted = xdrgen_build::extract_file(rfcs.join("rfc7863.txt")).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/nfs/spec/nfs4.x");
    let published = std::fs::read_to_string(path).unwrap();
    assert!(extracted == published, "nfs4.x differs from RFC 7863");
}
