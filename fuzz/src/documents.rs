//! Documents with arbitrary text, and a configuration that runs the whole compiler.

use xdrgen_build::{Code, Config, Level, Module, Overlay};

/// Returns a draft that contains the text between `<CODE BEGINS>` and `<CODE ENDS>`, and again on
/// `///` lines; or the text itself, if it has such lines.
pub fn draft(text: &str) -> String {
    if text.contains("///") {
        return text.to_owned();
    }
    let marked: String = text
        .lines()
        .map(|line| format!("   /// {line}\n"))
        .collect();
    format!("1.  Text\n\n<CODE BEGINS>\n{text}\n<CODE ENDS>\n\u{c}\n2.  XDR\n\n{marked}")
}

/// Returns a configuration with all lints enabled, and an overlay if the text has its carrier.
pub fn config(name: &str, text: &str) -> Config {
    let mut module = Module::new("a").text(name, text);
    module = module.scoped_enums(text.contains("scoped"));
    if text.contains("fz_") {
        module = module.strip("fz_");
    }
    if text.contains("struct carrier") {
        module = module.overlay(Overlay {
            name: "Content".into(),
            carrier: "carrier".into(),
            code: "code".into(),
            data: "data".into(),
            empty_is_default: true,
            cases: [("ONE", "one"), ("TWO", "two")]
                .map(|(code, ty)| (code.into(), ty.into()))
                .into(),
            ..Overlay::default()
        });
    }
    let lints = Code::ALL
        .iter()
        .filter(|code| code.default_level().is_some());
    let mut config = Config::new().module(module);
    if text.contains("time_t") {
        config = config.extern_type("time_t", "crate::Time");
    }
    lints.fold(config, |config, lint| {
        match config.lint(*lint, Level::Warn) {
            Ok(config) => config,
            Err(error) => panic!("{error}"),
        }
    })
}

/// Returns true for one of `many` inputs, which a target processes further. The result depends only
/// on the input, so that failures are reproducible.
pub fn is_one_of(many: u64, bytes: &[u8]) -> bool {
    // FNV-1a; every byte affects the upper half.
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32).is_multiple_of(many)
}
