//! Runs arbitrary text through extraction, parser and checks, and renders the diagnostics for
//! tools. A text is compiled in the form that its content suggests; behind [`PROSE`] it is a
//! document without markers, and behind [`EXTENSION`] one that extends another. Nine tenths of the
//! time go to the other outputs, so only one of [`RENDERED`] inputs runs through them: the same
//! text as a draft that contains it twice, reports for people, and Rust. Nothing may panic, and
//! text without errors must compile to Rust.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_fuzz::documents::{config, draft, is_one_of};
use xdrgen_build::{Compilation, Config, Module, Style, report};

/// What an input extends: a definition of each kind that can grow.
const EXTENDED: &str = "enum op { GET = 1 }; union args switch (op which) { case GET: int get; };\n\
                        program PROG { version ONE { void NULL(void) = 0; } = 1; } = 7;\n";

/// The first bytes of inputs of other forms, with which no document begins.
const PROSE: u8 = b'2';
const EXTENSION: u8 = b'3';

/// One of this number of inputs runs through all outputs.
const RENDERED: u64 = 64;

fuzz_target!(|bytes: &[u8]| {
    let (form, bytes) = match bytes {
        [form @ (PROSE | EXTENSION), text @ ..] => (Some(*form), text),
        text => (None, text),
    };
    let text = String::from_utf8_lossy(bytes);
    let compilation = check(&configured(form, &text));
    if is_one_of(RENDERED, bytes) {
        render(&compilation);
        render(&check(&config("a.txt", &draft(&text))));
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

fn configured(form: Option<u8>, text: &str) -> Config {
    match form {
        Some(PROSE) => {
            let module = Module::new("a").prose("a.txt", &[]);
            Config::new().module(module).edited("a.txt", text)
        }
        Some(_) => {
            let name = name(text);
            let module = Module::new("a").text("base.x", EXTENDED).extension(name);
            Config::new().module(module).edited(name, text)
        }
        None => config(name(text), text),
    }
}

fn check(config: &Config) -> Compilation {
    let compilation = config.check();
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
