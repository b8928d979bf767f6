//! Documents of any text, and the settings under which everything of the compiler runs.

use xdrgen_build::{Code, Config, Level, Module, Overlay};

/// A draft that prints the text between `<CODE BEGINS>` and `<CODE ENDS>`, and again on marked lines; or the text itself,
/// if it has such lines.
pub fn draft(text: &str) -> String {
    if text.contains("///") {
        return text.to_owned();
    }
    let marked: String = text.lines().map(|line| format!("   /// {line}\n")).collect();
    format!("1.  Text\n\n<CODE BEGINS>\n{text}\n<CODE ENDS>\n\u{c}\n2.  XDR\n\n{marked}")
}

/// All lints on, so that each of them runs, and an overlay where the text has what it needs.
pub fn config(name: &str, text: &str) -> Config {
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

/// Whether an input is the one of so many that a target does more with. It depends on the input alone, so that what fails
/// fails again.
pub fn is_one_of(many: u64, octets: &[u8]) -> bool {
    // FNV-1a; its upper half, where every octet counts.
    let hash = octets
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3));
    (hash >> 32).is_multiple_of(many)
}
