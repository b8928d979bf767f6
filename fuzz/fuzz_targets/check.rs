//! Any text through extraction, parser and checks: as an `.x` file, or, where it has marked lines, as a draft. Rendering,
//! which takes nine tenths of the target `compiler`, is left to that.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::documents::config;

fuzz_target!(|octets: &[u8]| {
    let text = String::from_utf8_lossy(octets);
    let name = if text.contains("///") { "a.txt" } else { "a.x" };
    let compilation = config(name, &text).check();
    let (sources, found) = (compilation.sources(), compilation.diagnostics());
    for diagnostic in found {
        let _ = xdrgen_build::report::short(sources, diagnostic);
    }
});
