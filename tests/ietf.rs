//! Compiles published RFCs in every shape to Rust that compiles without a warning.
//!
//! The RFCs are not part of this repository: the test needs a folder `shared` beside the checkout.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;

use xdrgen_build::diff::{Class, diff};
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

/// Returns the changes from a text to a schema of the package for NFS by which messages differ.
fn breaking(name: &str, text: &str, ours: &str) -> Vec<String> {
    let old = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-of-rfc1813.x"));
    std::fs::write(&old, text).unwrap();
    let new = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/nfs/spec")).join(ours);
    let [old, new] = [old, new].map(|path| {
        Config::new()
            .module(Module::new("m").document(path))
            .check()
    });
    assert!(!old.has_errors() && !new.has_errors(), "{name}");
    let changes = diff(old.schema(), new.schema()).into_iter();
    changes
        .filter(|change| change.class != Class::Compatible)
        .map(|change| change.message)
        .collect()
}

/// The schemas of NFSv3 and MOUNT, which were written after RFC 1813, are those of its text.
#[test]
fn the_schemas_of_nfs3_are_those_of_the_rfc() {
    let Some(rfcs) = common::shared("rfc") else {
        return;
    };
    let text = |sections: &[&str]| {
        let sections: Vec<_> = sections.iter().map(|&one| one.to_owned()).collect();
        xdrgen_build::extract_prose(rfcs.join("rfc1813.txt"), &sections).unwrap()
    };
    // Section 2.4 has these constants in a table, and section 3.3.19 another name than section 3.
    let constants = "const NFS3_FHSIZE = 64; const NFS3_COOKIEVERFSIZE = 8;
        const NFS3_CREATEVERFSIZE = 8; const NFS3_WRITEVERFSIZE = 8;\n";
    let nfs = constants.to_owned() + &text(&["2", "3"]).replace("FSINFO3args", "FSINFOargs");
    // Nothing uses signed integers.
    let expected = [
        "typedef `int64`: it was removed",
        "typedef `int32`: it was removed",
    ];
    assert_eq!(breaking("nfs3", &nfs, "nfs3.x"), expected);
    // The enum has MNT3_OK.
    let mount = text(&["5"]).replace("case MNT_OK", "case MNT3_OK");
    assert_eq!(breaking("mount3", &mount, "mount3.x"), [""; 0]);
}
