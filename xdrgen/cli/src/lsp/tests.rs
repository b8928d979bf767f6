//! Tests of the server without an editor.

mod editor;
mod features;
mod speed;

use serde_json::{Value, json};

use super::server::Server;
use crate::args::LspArgs;

/// A server and the state of its editor: the published diagnostics of each document.
pub(super) struct Session {
    pub(super) server: Server,
    pub(super) diagnostics: std::collections::BTreeMap<String, Value>,
}

impl Session {
    pub(super) fn new() -> Self {
        Self {
            server: Server::new(LspArgs::default()),
            diagnostics: std::collections::BTreeMap::new(),
        }
    }

    pub(super) fn notify(&mut self, method: &str, params: Value) {
        self.server.notification(method, params);
    }

    pub(super) fn open(&mut self, uri: &str, text: &str) {
        let document = json!({ "uri": uri, "languageId": "xdr", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    pub(super) fn change(&mut self, uri: &str, version: i64, changes: Value) {
        let document = json!({ "uri": uri, "version": version });
        let params = json!({ "textDocument": document, "contentChanges": changes });
        self.notify("textDocument/didChange", params);
    }

    pub(super) fn close(&mut self, uri: &str) {
        self.notify(
            "textDocument/didClose",
            json!({ "textDocument": { "uri": uri } }),
        );
    }

    /// Lets the server check, and stores the diagnostics that it publishes.
    pub(super) fn refresh(&mut self) {
        for (method, params) in self.server.refresh() {
            assert_eq!(method, "textDocument/publishDiagnostics");
            let uri = params["uri"].as_str().expect("a URI").to_owned();
            self.diagnostics.insert(uri, params["diagnostics"].clone());
        }
        assert!(!self.server.is_stale());
    }

    pub(super) fn request(&mut self, method: &str, params: Value) -> Value {
        let result = self.server.request(method, params);
        result.unwrap_or_else(|error| panic!("{method}: {error:?}"))
    }

    /// Sends a request with a position.
    pub(super) fn at(&mut self, method: &str, uri: &str, line: u32, character: u32) -> Value {
        let position = json!({ "line": line, "character": character });
        let document = json!({ "uri": uri });
        let params = json!({ "textDocument": document, "position": position });
        self.request(&format!("textDocument/{method}"), params)
    }

    pub(super) fn actions(&mut self, uri: &str, range: &Value) -> Value {
        let params = json!({
            "textDocument": { "uri": uri },
            "range": range,
            "context": { "diagnostics": [] },
        });
        self.request("textDocument/codeAction", params)
    }

    /// Returns the diagnostics of a document; none if nothing was published.
    pub(super) fn found(&self, uri: &str) -> Value {
        self.diagnostics.get(uri).cloned().unwrap_or(json!([]))
    }
}

/// Returns the range from one position to another.
pub(super) fn range(start: (u32, u32), end: (u32, u32)) -> Value {
    json!({
        "start": { "line": start.0, "character": start.1 },
        "end": { "line": end.0, "character": end.1 },
    })
}

/// Records that a test is skipped: the summary of `.ci/run` counts these lines.
pub(super) fn note_skipped(note: &str) {
    use std::io::Write as _;
    eprintln!("skipped: {note}");
    if let Some(notes) = std::env::var_os("RPCRDMA_SKIPPED") {
        let notes = std::fs::OpenOptions::new().append(true).open(notes);
        writeln!(notes.expect("the notes"), "{note}").expect("it is written");
    }
}
