//! Tests that incorrect uses of generated types do not compile: each case in `ui/` fails with the
//! error beside it.
//!
//! The wording of rustc changes between releases: update the files with `TRYBUILD=overwrite` and
//! review the difference.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
