//! `spec/requirements.toml`: each rule stands in its draft where it says, and the sources cite what
//! is marked as covered.
//!
//! `cargo test -p rpcrdma --test requirements -- --nocapture` prints how far each draft is covered,
//! and which rules have a citation in code alone or in a test alone.

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

/// The draft whose text is not in the repository: the right column of this diff, where there is
/// one.
const BIDIRECTION: &str = "bd";
const DIFF: &str = "draft-ietf-nfsv4-rpcrdma-bidirection-03.txt";

/// An RFC whose text is not in the repository, and its file in the folder of RFCs, where there is
/// one.
const RFC: (&str, &str) = ("rfc8166", "rfc8166.txt");

/// The folders that are searched for citations, except for these tests, which make some up.
const SOURCES: [&str; 5] = [
    "rpcrdma-proto/src",
    "rpcrdma-proto/tests",
    "rpcrdma-verbs",
    "tests",
    "xdrgen",
];
const UNSEARCHED: [&str; 2] = ["tests/requirements.rs", "tests/requirements"];
