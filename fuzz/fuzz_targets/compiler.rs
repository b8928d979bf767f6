//! Runs arbitrary text through extraction, parser and checks, and renders the diagnostics for
//! tools. Nine tenths of the time go to the other outputs, so only one of [`RENDERED`] inputs runs
//! through them: the same text as a draft that contains it twice, reports for people, and Rust.
//! Nothing may panic, and text without errors must compile to Rust.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::documents::{config, draft, is_one_of};
use xdrgen_build::{Compilation, Style, report};

/// One of this number of inputs runs through all outputs.
const RENDERED: u64 = 64;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let name = if text.contains("///") { "a.txt" } else { "a.x" };
    let compilation = check(name, &text);
    if is_one_of(RENDERED, bytes) {
        render(&compilation);
        render(&check("a.txt", &draft(&text)));
    }
});

fn check(name: &str, text: &str) -> Compilation {
    let compilation = config(name, text).check();
    let (sources, found) = (compilation.sources(), compilation.diagnostics());
    let _ = report::json(sources, found);
    for diagnostic in found {
        let _ = report::short(sources, diagnostic);
    }
    compilation
}

fn render(compilation: &Compilation) {
    let _ = compilation.report(Style::Coloured);
    if !compilation.has_errors()
        && let Err(error) = compilation.generate()
    {
        panic!("{error}");
    }
}
