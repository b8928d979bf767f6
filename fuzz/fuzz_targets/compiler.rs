//! Any text through the whole compiler, reports and generated Rust included: as an `.x` file, and as a draft that prints
//! it twice. Nothing may panic, and what has no errors must become Rust. The target `check` is the same without rendering.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::documents::{config, draft};
use xdrgen_build::{Style, report};

fuzz_target!(|octets: &[u8]| {
    let text = String::from_utf8_lossy(octets);
    compile("a.x", &text);
    compile("a.txt", &draft(&text));
});

fn compile(name: &str, text: &str) {
    let compilation = config(name, text).check();
    let (sources, found) = (compilation.sources(), compilation.diagnostics());
    let _ = compilation.report(Style::Coloured);
    let _ = report::json(sources, found);
    for diagnostic in found {
        let _ = report::short(sources, diagnostic);
    }
    if !compilation.has_errors()
        && let Err(error) = compilation.generate()
    {
        panic!("{error}");
    }
}
