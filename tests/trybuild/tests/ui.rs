//! What users of generated types must not be able to do: each case in `ui/` is refused by the compiler, for the reason
//! that stands beside it.
//!
//! rustc's words change between its releases: bless them with `TRYBUILD=overwrite`, and read the difference.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
