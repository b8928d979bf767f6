//! Tests `xdrgen fmt`, `xdrgen lints --explain`, and `xdrgen lsp` without an editor: files, output
//! and exit codes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use xdrgen_build::Code;

fn xdrgen(folder: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_xdrgen"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("xdrgen runs");
    // A command that reads no input may have ended already.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("an output")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn files_are_formatted() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let read = || std::fs::read_to_string(folder.join("a.x")).expect("a file");
    std::fs::write(folder.join("a.x"), "const  A=1;\n").expect("a file");
    std::fs::write(folder.join("b.x"), "const B = 1;\n").expect("a file");
    let check = xdrgen(folder, &["fmt", "--check", "a.x", "b.x"], b"");
    assert_eq!(check.status.code(), Some(1));
    assert_eq!(text(&check.stderr), "a.x\n");
    assert_eq!(read(), "const  A=1;\n");
    let format = xdrgen(folder, &["fmt", "a.x", "b.x"], b"");
    assert_eq!(format.status.code(), Some(0), "{}", text(&format.stderr));
    assert_eq!(read(), "const A = 1;\n");
    let check = xdrgen(folder, &["fmt", "--check", "a.x", "b.x"], b"");
    assert_eq!(check.status.code(), Some(0));
}

#[test]
fn standard_input_is_formatted() {
    let folder = tempfile::tempdir().expect("a folder");
    let format = xdrgen(folder.path(), &["fmt", "-"], b"struct s{int a;};");
    assert_eq!(text(&format.stdout), "struct s {\n    int a;\n};\n");
    assert_eq!(format.status.code(), Some(0));
}

#[test]
fn file_with_a_syntax_error_is_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("a.x"), "struct  s { int x }").expect("a file");
    let format = xdrgen(folder, &["fmt", "a.x"], b"");
    assert_eq!(format.status.code(), Some(1));
    assert!(text(&format.stderr).contains("error[syntax]"));
    let stays = std::fs::read(folder.join("a.x")).expect("a file");
    assert_eq!(text(&stays), "struct  s { int x }");
    let missing = xdrgen(folder, &["fmt", "missing.x"], b"");
    assert_eq!(missing.status.code(), Some(2));
}

/// A file that would not change is not written, because cargo and make compare modification times.
#[test]
fn generate_does_not_rewrite_equal_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("a.x"), "const A = 1;\n").expect("a file");
    let arguments = ["generate", "a.x", "-o", "out"];
    assert_eq!(xdrgen(folder, &arguments, b"").status.code(), Some(0));
    let file = folder.join("out/a.rs");
    let past = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let set = || {
        let opened = std::fs::File::options().write(true).open(&file);
        opened
            .and_then(|opened| opened.set_modified(past))
            .expect("a time");
    };
    let time = || {
        std::fs::metadata(&file)
            .and_then(|data| data.modified())
            .expect("a time")
    };
    set();
    assert_eq!(xdrgen(folder, &arguments, b"").status.code(), Some(0));
    assert_eq!(time(), past);
    std::fs::write(folder.join("a.x"), "const A = 2;\n").expect("a file");
    assert_eq!(xdrgen(folder, &arguments, b"").status.code(), Some(0));
    assert_ne!(time(), past);
}

#[test]
fn each_code_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    for code in Code::ALL {
        let name = code.name();
        let explained = xdrgen(folder.path(), &["lints", "--explain", name], b"");
        let shown = text(&explained.stdout);
        assert_eq!(explained.status.code(), Some(0), "{code}");
        let unwrapped = shown.replace('\n', " ");
        assert!(
            unwrapped.starts_with(&format!("{code}  {} ", code.explanation())),
            "{shown}"
        );
        assert!(
            shown.contains(&format!("[{code}]")),
            "{code} has a report\n{shown}"
        );
        assert!(!shown.contains("\n## "), "{shown}");
    }
    let wrong = xdrgen(folder.path(), &["lints", "--explain", "no-such-code"], b"");
    assert_eq!(wrong.status.code(), Some(2));
}

fn message(content: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{content}", content.len())
}

#[test]
fn a_server_ends_with_its_editor() {
    let folder = tempfile::tempdir().expect("a folder");
    let initialize =
        message(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}"#);
    let initialized = message(r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#);
    let shutdown = message(r#"{"jsonrpc":"2.0","id":2,"method":"shutdown"}"#);
    let exit = message(r#"{"jsonrpc":"2.0","method":"exit"}"#);
    let cases = [
        (
            [initialize.as_str(), &initialized, &shutdown, &exit].concat(),
            0,
        ),
        ([initialize.as_str(), &initialized].concat(), 0),
        (String::new(), 0),
        (
            [initialize.as_str(), &initialized, &message("{")].concat(),
            2,
        ),
    ];
    for (input, code) in cases {
        let output = xdrgen(folder.path(), &["lsp"], input.as_bytes());
        assert_eq!(
            output.status.code(),
            Some(code),
            "{input}\n{}",
            text(&output.stderr)
        );
        if code == 0 {
            let shown = text(&output.stdout);
            let answered = shown.contains("\"hoverProvider\":true");
            assert_eq!(answered, !input.is_empty(), "{shown}");
        }
    }
    let wrong = xdrgen(folder.path(), &["lsp", "--prelude", "no-such-prelude"], b"");
    assert_eq!(wrong.status.code(), Some(2));
}
