//! Tests the command `xdrgen`: its output, the files that it writes, and its exit codes.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The output of `check` for one document without defects.
const CLEAN_REPORT: &str = "1 document: no defects\n";

const CLEAN: &str = "struct point { int x; int y; };\n";
const BROKEN: &str = "struct line {\n    piont ends[2];\n};\n";
/// A document with only a warning.
const WARNED: &str = "struct point { int x;; };\n";
const DRAFT: &str = "1.  XDR\n\n   ////* A limit. */\n   ///const LIMIT = 0x10;\n\n   Prose.\n\
                     \n     /// typedef opaque name<LIMIT>;\n";

/// Runs the command in a folder.
fn xdrgen(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xdrgen"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("xdrgen runs")
}

/// Creates a folder with files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect(name);
    }
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Asserts the exit code in a folder. Returns the output.
#[track_caller]
fn exits(code: i32, folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = xdrgen(folder, arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        output.status.code(),
        Some(code),
        "xdrgen {arguments:?}\n{out}\n{err}"
    );
    (out, err)
}

#[test]
fn check_exits_with_0_1_or_2() {
    let files = folder(&[
        ("clean.x", CLEAN),
        ("broken.x", BROKEN),
        ("warned.x", WARNED),
    ]);
    let folder = files.path();
    assert_eq!(
        exits(0, folder, &["check", "clean.x"]),
        ("1 document: no defects\n".to_owned(), String::new())
    );
    let (out, err) = exits(1, folder, &["check", "broken.x"]);
    assert!(
        out.contains("error[undefined-type]: no type is named `piont`\n --> broken.x:2:5\n"),
        "{out}"
    );
    assert!(
        out.ends_with("\n1 error, 0 warnings\n") && err.is_empty(),
        "{out}{err}"
    );
    assert!(!out.contains('\u{1b}'), "no colours outside a terminal");
    let (out, _) = exits(0, folder, &["check", "warned.x"]);
    assert!(out.starts_with("warning[empty-declaration]: "), "{out}");
    assert!(out.ends_with("\n0 errors, 1 warning\n"), "{out}");
    let (out, _) = exits(
        1,
        folder,
        &["check", "missing.x", "broken.x", "--format", "short"],
    );
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(
        out.contains("error[unreadable]: `missing.x` can't be read"),
        "{out}"
    );
}

#[test]
fn invalid_arguments_exit_with_2() {
    let files = folder(&[
        ("clean.x", CLEAN),
        (
            "xdrgen.toml",
            "[[module]]\npath = \"a\"\ndocuments = [\"clean.x\"]\n",
        ),
    ]);
    let empty = folder(&[]);
    for arguments in [
        &["check", "--deny", "consistencies", "clean.x"][..],
        &["check", "--allow", "undefined-type", "clean.x"],
        &["check", "--warn", "syntax", "clean.x"],
        &["check", "--format", "xml", "clean.x"],
        &["check", "--prelude", "nowhere.x", "clean.x"],
        &["check", "--manifest", "xdrgen.toml", "clean.x"],
        &[
            "check",
            "--manifest",
            "xdrgen.toml",
            "--errata",
            "errata.toml",
        ],
        &["generate", "clean.x"],
        &["generate", "clean.x", "-o", "out", "--shape", "round"],
        &["generate", "-o", "out", "--shape", "owned"],
        &["extract"],
        &["explain"],
        &["check", "--colour"],
        &[],
    ] {
        let (out, err) = exits(2, files.path(), arguments);
        assert!(
            out.is_empty() && !err.is_empty(),
            "{arguments:?}: {out}{err}"
        );
    }
    for arguments in [&["check"][..], &["generate", "-o", "out"]] {
        let (_, err) = exits(2, empty.path(), arguments);
        assert!(err.contains("there is no xdrgen.toml"), "{err}");
    }
    let (out, _) = exits(0, empty.path(), &["--version"]);
    assert!(out.starts_with("xdrgen "), "{out}");
    let (out, _) = exits(0, empty.path(), &["--help"]);
    assert!(
        ["extract", "check", "generate"]
            .iter()
            .all(|command| out.contains(command)),
        "{out}"
    );
}

#[test]
fn formats_of_reports() {
    let files = folder(&[("broken.x", BROKEN), ("clean.x", CLEAN)]);
    let (out, _) = exits(1, files.path(), &["check", "broken.x", "--format", "short"]);
    assert_eq!(
        out,
        "broken.x:2:5: error[undefined-type]: no type is named `piont`\n"
    );
    let (out, _) = exits(
        1,
        files.path(),
        &["check", "broken.x", "clean.x", "--format=json"],
    );
    assert_eq!(out.lines().count(), 1);
    assert!(
        out.starts_with("{\"code\":\"undefined-type\",\"level\":\"error\","),
        "{out}"
    );
    for part in [
        "\"file\":\"broken.x\",\"line\":2,\"column\":5,",
        "\"replacement\":\"point\"",
    ] {
        assert!(out.contains(part), "{out}");
    }
    assert_eq!(
        exits(0, files.path(), &["check", "clean.x", "--format", "json"]).0,
        ""
    );
}

#[test]
fn levels_of_lints() {
    let files = folder(&[
        ("warned.x", WARNED),
        ("prelude.x", "struct a { uint32 b; };\n"),
    ]);
    let check =
        |code, arguments: &[&str]| exits(code, files.path(), &[&["check"], arguments].concat()).0;
    assert!(
        check(1, &["warned.x", "--deny", "empty-declaration"])
            .starts_with("error[empty-declaration]")
    );
    assert_eq!(
        check(0, &["warned.x", "--allow", "empty-declaration"]),
        CLEAN_REPORT
    );
    // A file without a manifest uses all preludes. Their use is a lint.
    assert_eq!(check(0, &["prelude.x"]), CLEAN_REPORT);
    assert!(
        check(0, &["prelude.x", "--warn", "prelude-type"]).starts_with("warning[prelude-type]")
    );
    assert!(check(1, &["prelude.x", "--deny", "prelude-type"]).starts_with("error[prelude-type]"));
    let both = [
        "prelude.x",
        "warned.x",
        "--deny",
        "prelude-type",
        "--deny",
        "empty-declaration",
        "--format",
        "short",
    ];
    assert_eq!(check(1, &both).lines().count(), 2);
}

#[test]
fn preludes() {
    let files = folder(&[
        ("ietf.x", "struct a { uint32 b; };\n"),
        ("c.x", "struct a { uint32_t b; };\n"),
        ("own.x", "struct a { word b; };\n"),
        ("words.x", "typedef unsigned int word;\n"),
    ]);
    let check =
        |code, arguments: &[&str]| exits(code, files.path(), &[&["check"], arguments].concat()).0;
    check(0, &["ietf.x", "--prelude", "ietf"]);
    check(1, &["ietf.x", "--prelude", "c"]);
    check(1, &["ietf.x", "--prelude", "none"]);
    check(0, &["c.x", "--prelude", "c"]);
    check(1, &["c.x", "--prelude", "ietf"]);
    check(0, &["c.x", "--prelude", "ietf", "--prelude", "c"]);
    check(1, &["own.x"]);
    check(0, &["own.x", "--prelude", "words.x"]);
    check(1, &["ietf.x", "--prelude", "words.x"]);
}

#[test]
fn several_files_are_one_compilation() {
    let files = folder(&[("a.x", CLEAN), ("b.x", "struct line { point ends[2]; };\n")]);
    exits(1, files.path(), &["check", "b.x"]);
    exits(0, files.path(), &["check", "b.x", "a.x"]);
    exits(0, files.path(), &["check", "a.x", "b.x"]);
    let (out, _) = exits(
        1,
        files.path(),
        &["check", "a.x", "a.x", "--format", "short"],
    );
    assert!(out.contains("duplicate-definition"), "{out}");
}

#[test]
fn errata_are_applied() {
    let erratum = "[[erratum]]\ndocument = \"broken.x\"\nline = 2\nold = \"piont\"\nnew = \
        \"int\"\nreason = \"a slip\"\n";
    let stale = erratum.replace("piont", "pint");
    let useless = erratum
        .replace("piont", "ends")
        .replace("\"int\"", "\"both\"");
    let files = folder(&[
        ("broken.x", BROKEN),
        ("e.toml", erratum),
        ("stale.toml", &stale),
        ("bad.toml", "[[errata]]\n"),
    ]);
    let other = folder(&[
        ("broken.x", "struct line {\n    int ends[2];\n};\n"),
        ("useless.toml", &useless),
    ]);
    let check = |code, folder: &TempDir, arguments: &[&str]| {
        exits(code, folder.path(), &[&["check"], arguments].concat()).0
    };
    assert_eq!(
        check(0, &files, &["broken.x", "--errata", "e.toml"]),
        CLEAN_REPORT
    );
    let out = check(1, &files, &["broken.x", "--errata", "stale.toml"]);
    assert!(
        out.contains("error[erratum-mismatch]") && out.contains("--> stale.toml:4:7"),
        "{out}"
    );
    let out = check(1, &other, &["broken.x", "--errata", "useless.toml"]);
    assert!(
        out.contains("error[erratum-useless]") && out.contains("--> useless.toml:4:7"),
        "{out}"
    );
    let out = check(
        1,
        &files,
        &["broken.x", "--errata", "bad.toml", "--format", "short"],
    );
    assert!(out.contains("bad.toml:1:3: error[configuration]"), "{out}");
    check(1, &files, &["broken.x", "--errata", "missing.toml"]);
}

#[test]
fn a_manifest_has_all_settings() {
    let manifest = "prelude = [\"ietf\"]\n\n[lints]\nprelude-type = \"warn\"\n\n[[module]]\npath \
        = \"a::b\"\ndocuments = [\"a.x\"]\n";
    let files = folder(&[
        ("spec/xdrgen.toml", manifest),
        ("spec/a.x", "struct a { uint32 b; };\n"),
        (
            "bad.toml",
            "[[module]]\npath = \"a\"\ndocument = [\"a.x\"]\n",
        ),
    ]);
    let folder = files.path();
    let named = exits(
        0,
        folder,
        &[
            "check",
            "--manifest",
            "spec/xdrgen.toml",
            "--format",
            "short",
        ],
    );
    assert_eq!(named.0.lines().count(), 1);
    assert!(
        named.0.starts_with("spec/a.x:1:12: warning[prelude-type]"),
        "{}",
        named.0
    );
    assert_eq!(exits(0, folder, &["check", "--format", "short"]), named);
    assert_eq!(
        exits(0, folder, &["check", "--allow", "prelude-type"]).0,
        CLEAN_REPORT
    );
    exits(1, folder, &["check", "--deny", "prelude-type"]);
    let (_, err) = exits(1, folder, &["check", "--manifest", "bad.toml"]);
    assert!(
        err.contains("error[configuration]: unknown field `document`")
            && err.contains("bad.toml:3:1"),
        "{err}"
    );
    exits(1, folder, &["check", "--manifest", "missing.toml"]);
    exits(0, folder, &["generate", "-o", "out"]);
    assert!(folder.join("out/xdrgen.rs").is_file());
}

#[test]
fn the_workspace_is_clean() {
    let workspace = Path::new(WORKSPACE);
    let clean = ("5 documents: no defects\n".to_owned(), String::new());
    assert_eq!(exits(0, workspace, &["check"]), clean);
    assert_eq!(
        exits(
            0,
            workspace,
            &["check", "--deny", "consistency", "--deny", "text-syntax"]
        ),
        clean
    );
    assert_eq!(
        exits(0, workspace, &["check", "--manifest", "spec/xdrgen.toml"]),
        clean
    );
    // The drafts as published have defects.
    let draft = "spec/draft-dnoveck-nfsv4-rpcrdma-xcharext-03.txt";
    let (out, _) = exits(1, workspace, &["check", draft, "--format", "short"]);
    assert!(
        out.starts_with(&format!("{draft}:966:15: error[swapped-typedef]")),
        "{out}"
    );
    assert_eq!(out.lines().count(), 3, "{out}");
}

#[test]
fn extract_prints_xdr() {
    let files = folder(&[
        ("draft-a-00.txt", DRAFT),
        ("a.x", CLEAN),
        ("prose.txt", "Nothing.\n"),
    ]);
    let extracted = "/* A limit. */\nconst LIMIT = 0x10;\ntypedef opaque name<LIMIT>;\n";
    assert_eq!(
        exits(0, files.path(), &["extract", "draft-a-00.txt"]),
        (extracted.to_owned(), String::new())
    );
    assert_eq!(
        exits(0, files.path(), &["extract", "draft-a-00.txt", "a.x"]).0,
        format!("{extracted}{CLEAN}")
    );
    let (out, err) = exits(1, files.path(), &["extract", "prose.txt", "a.x"]);
    assert_eq!(out, CLEAN, "the other files are extracted");
    assert!(err.contains("no-xdr"), "{err}");
    exits(1, files.path(), &["extract", "missing.txt"]);
}

#[test]
fn extract_takes_definitions_from_prose() {
    let text = "1. A\n\n   const SIZE = 8;\n\n   const SIZE = 8;\n\n2. B\n\n   struct point {\n     \
                int x;\n   } here;\n\n   struct line {\n     int;\n   };\n";
    let files = folder(&[("a.txt", text)]);
    let size = "const SIZE = 8;\n";
    // The name after the brace is not XDR.
    let point = "   struct point {\n     int x;\n   };\n";
    let say_size = "a.txt: section 1, lines 3 to 3: SIZE\n\
                    a.txt: section 1, lines 5 to 5: SIZE (as in line 3, not taken)\n";
    let say_point = "a.txt: section 2, lines 9 to 11: point\n\
                     a.txt: section 2, lines 13 to 15: not taken: `struct line {`: line 14: \
                     expected a name, found `;`\n";
    let extracted = |arguments: &[&str]| {
        let arguments = [&["extract", "--prose"], arguments, &["a.txt"]].concat();
        exits(0, files.path(), &arguments)
    };
    let (out, err) = extracted(&["--section", "1"]);
    assert_eq!((out.as_str().trim_start(), err.as_str()), (size, say_size));
    let (out, err) = extracted(&["--section", "2"]);
    assert_eq!((out.as_str(), err.as_str()), (point, say_point));
    let printed = folder(&[("out.x", &out)]);
    exits(0, printed.path(), &["check", "out.x"]);
    let all = format!("{say_size}{say_point}");
    assert_eq!(extracted(&[]).1, all);
    assert_eq!(extracted(&["--section", "1", "--section", "2"]).1, all);
}

#[test]
fn generate_writes_rust() {
    let files = folder(&[("draft-a-00.txt", DRAFT), ("broken.x", BROKEN)]);
    let folder = files.path();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
    let all_of = |out: &str| -> String {
        let entries = folder.join(out).read_dir().expect(out);
        let mut names: Vec<_> = entries.map(|entry| entry.expect(out).path()).collect();
        names.sort();
        names
            .iter()
            .map(|path| std::fs::read_to_string(path).expect(out))
            .collect()
    };
    assert_eq!(
        exits(0, folder, &["generate", "draft-a-00.txt", "-o", "new/out"]),
        (String::new(), String::new())
    );
    assert!(read("new/out/xdrgen.rs").contains("draft_a_00"));
    assert!(all_of("new/out").contains("pub const LIMIT"));
    assert!(all_of("new/out").contains("pub mod owned"));
    exits(
        0,
        folder,
        &[
            "generate",
            "draft-a-00.txt",
            "-o",
            "borrowed",
            "--shape",
            "borrowed",
        ],
    );
    exits(
        0,
        folder,
        &[
            "generate",
            "draft-a-00.txt",
            "-o",
            "owned",
            "--shape",
            "owned",
            "--module",
            "names",
        ],
    );
    exits(
        0,
        folder,
        &[
            "generate",
            "draft-a-00.txt",
            "-o",
            "both",
            "--shape",
            "both",
        ],
    );
    assert!(!all_of("borrowed").contains("pub mod owned"));
    assert!(read("owned/xdrgen.rs").contains("names"));
    assert_eq!(all_of("both"), all_of("new/out"));
    assert_ne!(all_of("borrowed"), all_of("owned"));
    // Nothing is written if there are errors.
    let (out, err) = exits(1, folder, &["generate", "broken.x", "-o", "nothing"]);
    assert!(
        out.is_empty() && err.contains("error[undefined-type]"),
        "{err}"
    );
    assert!(!folder.join("nothing").exists());
    exits(
        1,
        folder,
        &["generate", "draft-a-00.txt", "-o", "broken.x/out"],
    );
}

#[test]
fn lints_are_listed() {
    let (out, _) = exits(0, Path::new(WORKSPACE), &["lints"]);
    for line in [
        "swapped-typedef        error",
        "consistency            warn",
        "prose-name             allow",
    ] {
        assert!(out.contains(line), "{out}");
    }
}

#[test]
fn errata_of_other_documents_are_ignored() {
    let workspace = Path::new(WORKSPACE);
    let draft = "spec/draft-cel-nfsv4-rpcrdma-version-two-01.txt";
    let (out, _) = exits(
        0,
        workspace,
        &["check", draft, "--errata", "spec/errata.toml"],
    );
    assert_eq!(out, CLEAN_REPORT);
}

/// The tree includes files from its own folder, so that any file can include it, and not only a
/// build script.
#[test]
fn the_tree_includes_files_of_its_folder() {
    let files = folder(&[("xdrgen.x", CLEAN)]);
    exits(0, files.path(), &["generate", "xdrgen.x", "-o", "out"]);
    let tree = std::fs::read_to_string(files.path().join("out/xdrgen.rs")).expect("a tree");
    for line in tree.lines().filter(|line| line.contains("include!")) {
        let name = line.split('"').nth(1).expect("a name");
        assert!(
            files.path().join("out").join(name).is_file() && name != "xdrgen.rs",
            "{line}"
        );
    }
    assert!(tree.contains("pub mod xdr_xdrgen"), "{tree}");
}

#[test]
fn a_folder_selects_its_manifest() {
    let workspace = Path::new(WORKSPACE);
    assert_eq!(
        exits(0, workspace, &["check", "spec"]).0,
        "5 documents: no defects\n"
    );
    let (_, err) = exits(2, workspace, &["check", "docs"]);
    assert!(
        err.contains("the folder `docs` has no xdrgen.toml"),
        "{err}"
    );
    exits(
        2,
        workspace,
        &["check", "spec", "--errata", "spec/errata.toml"],
    );
    let (out, _) = exits(
        1,
        workspace,
        &["check", "spec", "--no-errata", "--format", "short"],
    );
    assert!(
        out.contains("error[overlay-collision]: `PROP_BRS` and `XPROP_RTRSUPP` are both 3"),
        "{out}"
    );
    exits(2, workspace, &["check", "oncrpc/spec/rpc.x", "--no-errata"]);
    // A manifest has errata and preludes of its own, also if it is the default one.
    for manifest in [&[][..], &["spec"]] {
        for other in [["--errata", "none.toml"], ["--prelude", "c"]] {
            let (_, error) = exits(2, workspace, &[&["check"], manifest, &other].concat());
            assert!(error.contains("need documents"), "{error}");
        }
    }
}

/// A prelude does not count as a document.
#[test]
fn a_prelude_is_not_counted() {
    let files = folder(&[("a.x", "struct a { netobj object; };\n")]);
    assert_eq!(exits(0, files.path(), &["check", "a.x"]).0, CLEAN_REPORT);
}

#[test]
fn diff_exits_with_0_1_or_2() {
    let files = folder(&[
        (
            "old.x",
            "const MAX = 4;\nenum e { A = 1 };\nstruct s { opaque a<MAX>; };\n",
        ),
        (
            "wider.x",
            "const MAX = 4;\nenum e { A = 1, B = 2 };\nstruct s { opaque a<5>; };\n",
        ),
        ("broken.x", BROKEN),
        (
            "a/xdrgen.toml",
            "[[module]]\npath = \"m\"\ndocuments = [\"../old.x\"]\n",
        ),
        (
            "b/xdrgen.toml",
            "[[module]]\npath = \"m\"\ndocuments = [\"../wider.x\"]\n",
        ),
    ]);
    let folder = files.path();
    let (out, err) = exits(0, folder, &["diff", "old.x", "old.x"]);
    assert_eq!((out.as_str(), err.as_str()), ("no changes\n", ""));
    let extended = "extending: enum `e`: the member `B` = 2 was added
  old: old.x:2:6
  new: wider.x:2:17
extending: struct `s`: the field `a`: the type is `opaque<5>`, it was `opaque<4>`
  old: old.x:3:19
  new: wider.x:3:19
0 breaking, 2 extending, 0 compatible
";
    assert_eq!(exits(0, folder, &["diff", "old.x", "wider.x"]).0, extended);
    let (out, _) = exits(0, folder, &["diff", "a", "b"]);
    assert!(
        out.ends_with("0 breaking, 2 extending, 0 compatible\n"),
        "{out}"
    );
    let (out, _) = exits(1, folder, &["diff", "wider.x", "old.x", "--format", "json"]);
    let first = "{\"class\":\"breaking\",\"message\":\"enum `e`: the member `B`: it was removed\",\
        \"old\":{\"file\":\"wider.x\",\"line\":2,\"column\":17},\
        \"new\":{\"file\":\"old.x\",\"line\":2,\"column\":6}}";
    assert_eq!(out.lines().next(), Some(first));
    assert_eq!(out.lines().count(), 2);
    let (out, err) = exits(2, folder, &["diff", "old.x", "broken.x"]);
    assert!(out.is_empty() && err.contains("piont"), "{err}");
    exits(2, folder, &["diff", "old.x", "missing.x"]);
    exits(2, folder, &["diff", "old.x"]);
}
