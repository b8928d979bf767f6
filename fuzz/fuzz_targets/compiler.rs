//! Any text through the whole compiler: as an `.x` file, as a draft, and as the `///` lines of a draft that prints it
//! twice. Nothing may panic, and what has no errors must become Rust.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xdrgen_build::{Code, Config, Level, Module, Overlay, Style, report};

fuzz_target!(|octets: &[u8]| {
    let text = String::from_utf8_lossy(octets);
    compile("a.x", &text);
    if text.contains("///") {
        compile("a.txt", &text);
    } else {
        compile("a.txt", &draft(&text));
    }
});

/// A draft that prints the text between `<CODE BEGINS>` and `<CODE ENDS>`, and again on marked lines.
fn draft(text: &str) -> String {
    let marked: String = text.lines().map(|line| format!("   /// {line}\n")).collect();
    format!("1.  Text\n\n<CODE BEGINS>\n{text}\n<CODE ENDS>\n\u{c}\n2.  XDR\n\n{marked}")
}

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

/// All lints on, so that each of them runs, and an overlay where the text has what it needs.
fn config(name: &str, text: &str) -> Config {
    let mut module = Module::new("a").strip("fz_").text(name, text);
    if text.contains("struct carrier") {
        module = module.overlay(Overlay {
            name: "Content".into(),
            carrier: "carrier".into(),
            code: "code".into(),
            data: "data".into(),
            empty_is_default: true,
            cases: [("ONE", "one"), ("TWO", "two")].map(|(code, ty)| (code.into(), ty.into())).into(),
            ..Overlay::default()
        });
    }
    let lints = Code::ALL.iter().filter(|code| code.default_level().is_some());
    lints.fold(Config::new().module(module), |config, lint| match config.lint(*lint, Level::Warn) {
        Ok(config) => config,
        Err(error) => panic!("{error}"),
    })
}
