//! Checks that the code in the tutorial is compiled here.

const TUTORIAL: &str = include_str!("../../../docs/rpc.md");

/// Returns the code blocks of a page.
fn blocks(page: &str) -> impl Iterator<Item = &str> {
    page.split("\n```").skip(1).step_by(2)
}

#[test]
fn the_tutorial_shows_compiled_files() {
    let files = [
        include_str!("../spec/kv.x"),
        include_str!("../spec/xdrgen.toml"),
        include_str!("../build.rs"),
        include_str!("../examples/callback.rs"),
        include_str!("../examples/driver_mode.rs"),
        include_str!("../examples/kv.rs"),
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
    assert_eq!(count, 10);
}
