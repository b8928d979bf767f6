//! Runs arbitrary text through extraction, parser and checks, in the form that its content suggests
//! and as one without markers or an extension, and renders the diagnostics for
//! tools. Nine tenths of the time go to the other outputs, so only one of [`RENDERED`] inputs runs
//! through them: the same text as a draft that contains it twice, reports for people, and Rust.
//! Nothing may panic, and text without errors must compile to Rust.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::documents::{config, draft, is_one_of};
use xdrgen_build::{Compilation, Config, Module, Style, report};

/// What an input extends: a definition of each kind that can grow.
const EXTENDED: &str = "enum op { GET = 1 }; union args switch (op which) { case GET: int get; };\n\
                        program PROG { version ONE { void NULL(void) = 0; } = 1; } = 7;\n";

/// One of this number of inputs runs through all outputs.
const RENDERED: u64 = 64;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let compilation = check(name(&text), &text);
    forms(&text);
    if is_one_of(RENDERED, bytes) {
        render(&compilation);
        render(&check("a.txt", &draft(&text)));
    }
});

/// Returns the name of a document with the form of a text.
fn name(text: &str) -> &'static str {
    if text.contains("<sourcecode") {
        "a.xml"
    } else if text.contains("~~~") || text.contains("```") {
        "a.md"
    } else if text.contains("///") {
        "a.txt"
    } else {
        "a.x"
    }
}

/// Compiles a text as a document without markers, and as one that extends another.
fn forms(text: &str) {
    let prose = Module::new("a").prose("a.txt", &[]);
    let prose = Config::new().module(prose).edited("a.txt", text);
    let name = name(text);
    let extension = Module::new("a").text("base.x", EXTENDED).extension(name);
    let extension = Config::new().module(extension).edited(name, text);
    for config in [prose, extension] {
        let compilation = config.check();
        for found in compilation.diagnostics() {
            let _ = report::short(compilation.sources(), found);
        }
    }
}

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
