//! Tests `spec/requirements.toml`: each rule is in its draft at the given line, and the sources
//! cite each rule that is marked as covered.
//!
//! `cargo test -p rpcrdma --test requirements -- --nocapture` prints the coverage of each draft,
//! and the rules that only code or only a test cites.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

#[path = "requirements/citations.rs"]
mod citations;
#[path = "requirements/drafts.rs"]
mod drafts;
#[path = "requirements/list.rs"]
mod list;
#[path = "requirements/own.rs"]
mod own;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The prefix of a draft's ids, and its file.
const DRAFTS: [(&str, &str); 4] = [
    ("v2", "draft-cel-nfsv4-rpcrdma-version-two-01.txt"),
    ("xc3", "draft-dnoveck-nfsv4-rpcrdma-xcharext-03.txt"),
    ("xc2", "draft-dnoveck-nfsv4-rpcrdma-xcharext-02.txt"),
    ("rtr", "draft-dnoveck-nfsv4-rpcrdma-rtrext-02.txt"),
];

/// The draft whose text is not in the repository. Its text is the right column of a diff in the
/// folder `shared`.
const BIDIRECTION: &str = "bd";
const DIFF: &str = "draft-ietf-nfsv4-rpcrdma-bidirection-03.txt";

/// The RFC whose text is not in the repository, and its file in the folder `shared`.
const RFC: (&str, &str) = ("rfc8166", "rfc8166.txt");

/// The folders that are searched for citations. These tests are excluded, because they contain
/// invented citations.
const SOURCES: [&str; 5] = [
    "rpcrdma-proto/src",
    "rpcrdma-proto/tests",
    "rpcrdma-verbs",
    "tests",
    "xdrgen",
];
const UNSEARCHED: [&str; 2] = ["tests/requirements.rs", "tests/requirements"];
