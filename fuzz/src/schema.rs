//! The schemas of the generated codecs.

use std::sync::OnceLock;

use xdrgen_build::{Config, Schema};

#[path = "../../tests/fixtures/src/config.rs"]
mod config;

/// Returns the schema of the fixtures.
pub fn fixtures() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        schema(&config::fixtures(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/fixtures/spec"
        )))
    })
}

/// Returns the schema of `rpcrdma-proto`.
pub fn published() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        match Config::from_manifest(concat!(env!("CARGO_MANIFEST_DIR"), "/../spec/xdrgen.toml")) {
            Ok(config) => schema(&config),
            Err(error) => panic!("{error}"),
        }
    })
}

fn schema(config: &Config) -> Schema {
    let compilation = config.check();
    assert!(!compilation.has_errors());
    compilation.schema().clone()
}
