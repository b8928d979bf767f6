//! Checks that the code in the tutorial is compiled here.

const TUTORIAL: &str = include_str!("../../../docs/rpc.md");
const KV_X: &str = include_str!("../../../examples/kv/spec/kv.x");
const KV_BUILD: &str = include_str!("../../../examples/kv/build.rs");
const KV_MAIN: &str = include_str!("../../../examples/kv/src/main.rs");

/// Returns the code blocks of a page.
fn blocks(page: &str) -> impl Iterator<Item = &str> {
    page.split("\n```").skip(1).step_by(2)
}

#[test]
fn the_tutorial_shows_compiled_files() {
    let files = [
        KV_X,
        include_str!("../../../examples/kv/spec/xdrgen.toml"),
        KV_BUILD,
        KV_MAIN,
        include_str!("../examples/callback.rs"),
        include_str!("../examples/driver_mode.rs"),
        include_str!("../examples/service_per_thread.rs"),
        include_str!("calls.rs"),
        include_str!("catalog.rs"),
    ];
    let mut count = 0;
    for block in blocks(TUTORIAL) {
        let (language, code) = block.split_once('\n').unwrap_or_default();
        // The tests of the example run its commands.
        if language == "console" {
            continue;
        }
        assert!(
            files.iter().any(|file| file.contains(code)),
            "not compiled:\n{code}"
        );
        count += 1;
    }
    assert_eq!(count, 14);
}

/// Lines without blank ones and comments.
#[test]
fn the_example_has_70_lines() {
    let is_code = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("//") && !line.starts_with("/*")
    };
    let lines = [KV_X, KV_BUILD, KV_MAIN].map(|file| file.lines().filter(is_code).count());
    assert!(lines.iter().sum::<usize>() <= 70, "{lines:?}");
}
