//! Any text through extraction, parser and checks, with the reports for machines; and one input of so many through the rest,
//! which takes nine tenths of the time: the same text as a draft that prints it twice, reports for people, and Rust. Nothing
//! may panic, and what has no errors must become Rust.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::documents::{config, draft, is_one_of};
use xdrgen_build::{Compilation, Style, report};

/// One input of so many goes through everything.
const RENDERED: u64 = 64;

fuzz_target!(|octets: &[u8]| {
    let text = String::from_utf8_lossy(octets);
    let name = if text.contains("///") { "a.txt" } else { "a.x" };
    let compilation = check(name, &text);
    if is_one_of(RENDERED, octets) {
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
