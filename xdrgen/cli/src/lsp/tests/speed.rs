//! The response time for documents of the size of RFCs. It is printed and not asserted, because it
//! depends on other processes.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Session, range};

const ROUNDS: u32 = 21;

/// Types a letter at the end of a name and removes it. Returns the median times from a change to
/// its diagnostics and to a hover text.
fn median(uri: &str, text: &str, name: &str) -> (Duration, Duration) {
    let mut session = Session::new();
    session.open(uri, text);
    session.refresh();
    let at = text.find(name).expect("the name");
    let line = u32::try_from(text[..at].matches('\n').count()).expect("small");
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let column = u32::try_from(at - start + name.len()).expect("small");
    let (mut checks, mut hovers) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (end, typed) = if round % 2 == 0 {
            (column, "x")
        } else {
            (column + 1, "")
        };
        let change = json!([{ "range": range((line, column), (line, end)), "text": typed }]);
        let begin = Instant::now();
        session.change(uri, i64::from(round) + 2, change);
        session.refresh();
        checks.push(begin.elapsed());
        let begin = Instant::now();
        session.at("hover", uri, line, column);
        hovers.push(begin.elapsed());
    }
    checks.sort();
    hovers.sort();
    (checks[checks.len() / 2], hovers[hovers.len() / 2])
}

#[test]
fn response_time() {
    let folder = Path::new("../../../shared/rfc");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let (Some(rfc5662), Some(rfc8881)) = (read("rfc5662.txt"), read("rfc8881.txt")) else {
        return super::note_skipped("response_time needs shared/rfc beside the checkout");
    };
    let both = format!("{rfc8881}\n{rfc5662}");
    for (what, text) in [
        ("RFC 5662", &rfc5662),
        ("RFC 8881 with the XDR of RFC 5662", &both),
    ] {
        let (check, hover) = median("untitled:a.txt", text, "struct COMPOUND4args");
        let size = text.len() / 1000;
        println!("{what} ({size} kB): {check:.1?} to the diagnostics, {hover:.1?} to a hover text");
    }
}
