//! Tests `xdrgen decode`: bytes as trees, and errors.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A header of Version Two: RDMA2_MSG with one read segment and a write chunk of four segments.
const MSG: &str = "
    0000002a 00000002 00000020                      # xid, version, credit
    00000000                                        # RDMA2_MSG
    00000000                                        # CALL
    00000001 00000000 1234abcd 00001000 00007f0000001000
    00000000                                        # the last read segment
    00000001 00000004
        0000c001 00000400 0000000000010000
        0000c002 00000400 0000000000020000
        0000c003 00000400 0000000000030000
        0000c004 00000200 0000000000040000
    00000000 00000000                               # the last write chunk, and no reply chunk
";

/// A header of Version Two: RDMA2_OPTIONAL with ROPT_CONNPROP and three properties.
const OPTIONAL: &str = "
    0000002a:00000002:00000020
    0x00000005                                      # RDMA2_OPTIONAL
    0x00000000 0x00000001 0x00000028                # CALL, ROPT_CONNPROP
    00000003
    00000001 00000004 00004000                      # PROP_RBSIZ
    00000002 00000000                               # PROP_REQREMINV, its default
    00000063 00000003 616263 00                     # unknown
    00000000                                        # none that never change
";

/// Runs the command in a folder, with input.
fn xdrgen(folder: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xdrgen"));
    command.arg("decode").args(arguments).current_dir(folder);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("xdrgen runs");
    // The command may exit without reading.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("xdrgen ends")
}

/// Asserts the exit code. Returns the output.
#[track_caller]
fn exits(code: i32, folder: &Path, arguments: &[&str], input: &[u8]) -> (String, String) {
    let output = xdrgen(folder, arguments, input);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert_eq!(
        output.status.code(),
        Some(code),
        "xdrgen decode {arguments:?}\n{out}\n{err}"
    );
    (out, err)
}

/// Runs the command in this workspace, which has a manifest, and asserts the exit code.
#[track_caller]
fn in_workspace(code: i32, arguments: &[&str], input: &str) -> (String, String) {
    exits(code, Path::new(WORKSPACE), arguments, input.as_bytes())
}

/// Creates a folder with files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).expect(name);
    }
    folder
}

const SHAPES: &str = "struct point { int x; bool known; };\ntypedef point line<2>;\n";
const ONE: &[u8] = &[0, 0, 0, 7, 0, 0, 0, 1];
const ONE_SHOWN: &str = "      0  point\n      0    x      int   7\n      4    known  bool  TRUE\n";

#[test]
fn decodes_a_header_with_chunks() {
    let (out, err) = in_workspace(0, &["--type", "rpcrdma2_xprt_hdr", "--hex"], MSG);
    assert_eq!(err, "");
    insta::assert_snapshot!("msg", out);
    for name in ["v2::rpcrdma2_xprt_hdr", "v2::XprtHdr"] {
        assert_eq!(in_workspace(0, &["-t", name, "--hex", "-"], MSG).0, out);
    }
}

#[test]
fn decodes_a_header_with_properties() {
    let (out, _) = in_workspace(0, &["-t", "rpcrdma2_xprt_hdr", "--hex"], OPTIONAL);
    insta::assert_snapshot!("optional", out);
    let properties = [
        "-t",
        "rpcrdma2_xprt_hdr",
        "--hex",
        "--overlays",
        "v2::properties",
    ];
    let (out, _) = in_workspace(0, &properties, OPTIONAL);
    insta::assert_snapshot!("optional_by_properties", out);
    let (_, err) = in_workspace(2, &["-t", "rpcrdma2_xprt_hdr", "--overlays", "v2"], "");
    assert_eq!(
        err,
        "error: the module `v2` has no overlays; v2::properties, v2::characteristics have some\n"
    );
}

#[test]
fn prints_json() {
    let arguments = [
        "-t",
        "rpcrdma2_xprt_hdr",
        "--hex",
        "--format",
        "json",
        "--overlays",
        "v2::properties",
    ];
    let parsed = |input| -> serde_json::Value {
        let (out, _) = in_workspace(0, &arguments, input);
        assert_eq!(out.lines().count(), 1);
        serde_json::from_str(&out).expect("JSON")
    };
    let header = parsed(MSG);
    assert_eq!(
        (&header["type"], &header["length"]),
        (&"rpcrdma2_xprt_hdr".into(), &128.into())
    );
    let body = &header["value"][3];
    assert_eq!(
        (&body["name"], &body["case"], &body["offset"]),
        (&"rdma_body".into(), &"RDMA2_MSG".into(), &12.into())
    );
    let lists = &body["value"]["value"];
    assert_eq!(
        lists[1]["value"][0]["value"][1]["value"][2]["value"],
        0x7f00_0000_1000_u64
    );
    let chunk = &lists[2]["value"][0]["value"][0]["value"];
    assert_eq!(chunk.as_array().map(Vec::len), Some(4));
    assert_eq!(
        (&chunk[3]["offset"], &chunk[3]["value"][1]["value"]),
        (&104.into(), &512.into())
    );

    let optional = parsed(OPTIONAL);
    let info = &optional["value"][3]["value"]["value"][2];
    assert!(
        info["value"]
            .as_str()
            .expect("digits")
            .starts_with("0000000300000001")
    );
    let reading = &info["readings"][0];
    assert_eq!(
        (&reading["overlay"], &reading["case"]),
        (&"v2::properties::OptInfo".into(), &"ROPT_CONNPROP".into())
    );
    let size = &reading["content"]["value"][0]["value"][0]["value"][1]["readings"][0];
    assert_eq!(
        (&size["case"], &size["content"]["value"]),
        (&"PROP_RBSIZ".into(), &0x4000.into())
    );
}

#[test]
fn input_comes_from_files_and_pipes() {
    let files = folder(&[
        ("shapes.x", SHAPES.as_bytes()),
        ("one", ONE),
        ("one.hex", b"0x00000007 # x\n00:00:00:01\n"),
    ]);
    let shown = |arguments: &[&str], input: &[u8]| {
        let all = [&["--schema", "shapes.x", "--type", "point"], arguments].concat();
        assert_eq!(
            exits(0, files.path(), &all, input),
            (ONE_SHOWN.to_owned(), String::new())
        );
    };
    shown(&["one"], b"");
    shown(&[], ONE);
    shown(&["-"], ONE);
    shown(&["--hex", "one.hex"], b"");
    shown(&["--hex"], b"00000007\n00000001\n");
    shown(&["--hex", "-"], b"0000000700000001");
    shown(&["--prefix", "one"], b"");
}

#[test]
fn a_payload_may_follow_a_prefix() {
    let files = folder(&[("shapes.x", SHAPES.as_bytes())]);
    let show = |code, arguments: &[&str], more: &[u8]| {
        let all = [&["-s", "shapes.x", "-t", "point"], arguments].concat();
        exits(code, files.path(), &all, &[ONE, more].concat())
    };
    assert_eq!(
        show(0, &["--prefix"], b"!").0,
        format!("{ONE_SHOWN}      8  1 byte follows\n")
    );
    assert_eq!(
        show(0, &["--prefix"], b"more").0,
        format!("{ONE_SHOWN}      8  4 bytes follow\n")
    );
    assert!(
        show(0, &["--prefix", "--format", "json"], b"more")
            .0
            .starts_with("{\"type\":\"point\",\"offset\":0,\"length\":8,")
    );
    let (_, err) = show(1, &[], b"more");
    assert!(
        err.starts_with("error: trailing bytes after the value at byte 8\n"),
        "{err}"
    );
}

#[test]
fn errors_have_a_position() {
    let (out, err) = in_workspace(
        1,
        &["-t", "rpcrdma2_xprt_hdr", "--hex"],
        &MSG.replace("0000c003 00000400", "0000c003"),
    );
    assert_eq!(out, "");
    insta::assert_snapshot!("cut", err);
    let (_, err) = in_workspace(
        1,
        &["-t", "rpcrdma2_xprt_hdr", "--hex"],
        &MSG.replace("00000001 00000000", "00000009 00000000"),
    );
    let first = err.lines().next();
    assert_eq!(
        first,
        Some("error: rdma_body.rdma_chunks.rdma_reads: boolean is neither 0 nor 1 at byte 20")
    );
    let (_, err) = in_workspace(1, &["-t", "rpcrdma2_xprt_hdr"], "");
    assert_eq!(
        err,
        "error: rdma_xid: unexpected end of input at byte 0\n      0 |\n        | ^^\n        = \
        the input has 0 bytes\n"
    );
}

#[test]
fn a_schema_with_errors_is_reported() {
    let files = folder(&[
        ("broken.x", b"struct line { piont ends[2]; };\n"),
        ("one", ONE),
    ]);
    let (out, err) = exits(
        1,
        files.path(),
        &["-s", "broken.x", "-t", "line", "one"],
        b"",
    );
    assert!(
        out.is_empty() && err.contains("error[undefined-type]: no type is named `piont`"),
        "{err}"
    );
    assert!(err.contains("--> broken.x:1:15"), "{err}");
    exits(
        1,
        files.path(),
        &["-s", "missing.x", "-t", "line", "one"],
        b"",
    );
    // `decode` does not report lints.
    let files = folder(&[("warned.x", b"struct point { int x;; };\n")]);
    assert_eq!(
        exits(0, files.path(), &["-s", "warned.x", "-t", "point"], &[0; 4]).1,
        ""
    );
}

#[test]
fn invalid_arguments_exit_with_2() {
    let files = folder(&[
        ("shapes.x", SHAPES.as_bytes()),
        ("one", ONE),
        ("bad.hex", b"00 00\n0000 0g\n"),
    ]);
    let schema = ["-s", "shapes.x"];
    for (arguments, message) in [
        (
            &["-t", "piont", "one"][..],
            "error: no type is named `piont`; did you mean `point`?; --list lists all types\n",
        ),
        (
            &["-t", "point", "missing"],
            "error: `missing` can't be read: ",
        ),
        (
            &["-t", "point", "--hex", "bad.hex"],
            "error: `bad.hex`, line 2, column 7: 'g' is not a hexadecimal digit\n",
        ),
        (
            &["-t", "point", "--overlays", "shapes"],
            "error: the module `shapes` has no overlays; no module has any\n",
        ),
        (
            &["-t", "point", "--no-errata"],
            "error: --no-errata needs a manifest",
        ),
        (
            &["-t", "point", "--prelude", "nowhere"],
            "error: `nowhere` is not",
        ),
        (
            &["-t", "point", "--manifest", "xdrgen.toml"],
            "error: the argument",
        ),
        (
            &["-t", "point", "--format", "short"],
            "error: invalid value 'short'",
        ),
        (&["--list", "--hex"], "error: the argument"),
        (&["one"], "error: the following required arguments"),
    ] {
        let (out, err) = exits(2, files.path(), &[&schema[..], arguments].concat(), b"");
        assert!(
            out.is_empty() && err.starts_with(message),
            "{arguments:?}: {err}"
        );
    }
    let (_, err) = exits(
        2,
        files.path(),
        &["-t", "point", "--hex", "-s", "shapes.x"],
        b"00 0",
    );
    assert_eq!(
        err,
        "error: standard input, line 1, column 4: `0` is half a byte; a byte has two adjacent \
        digits\n"
    );
    let (_, err) = exits(2, files.path(), &["-t", "point"], b"");
    assert!(err.contains("there is no xdrgen.toml"), "{err}");
    let (_, err) = in_workspace(2, &["-t", "optinfo_connprops"], "");
    assert!(err.contains("did you mean `optinfo_connprop`?"), "{err}");
}

#[test]
fn types_are_listed() {
    let files = folder(&[("shapes.x", SHAPES.as_bytes())]);
    let (out, _) = exits(0, files.path(), &["--list", "--schema", "shapes.x"], b"");
    assert_eq!(
        out,
        "shapes::point  struct   shapes::Point\nshapes::line   typedef  shapes::Line\n"
    );
    let (out, _) = in_workspace(0, &["--list", "--manifest", "spec/xdrgen.toml"], "");
    assert!(
        out.lines().any(|line| line.split_whitespace().eq([
            "v2::rpcrdma2_body",
            "union",
            "v2::Body"
        ])),
        "{out}"
    );
}

#[test]
fn documents_are_selected_as_for_check() {
    let drafts = [
        "-t",
        "rpcrdma2_segment",
        "-s",
        "spec/draft-cel-nfsv4-rpcrdma-version-two-01.txt",
    ];
    let bytes = "\0".repeat(16);
    // The draft as published has errors.
    let (_, err) = in_workspace(1, &drafts, &bytes);
    assert!(err.contains("rpcrdma2_chunks"), "{err}");
    let (out, _) = in_workspace(
        0,
        &[&drafts[..], &["--errata", "spec/errata.toml"]].concat(),
        &bytes,
    );
    assert_eq!(out.lines().count(), 4, "{out}");
    assert_eq!(
        in_workspace(0, &["-t", "rpcrdma2_segment", "-s", "spec"], &bytes).0,
        out
    );
    in_workspace(1, &["-t", "rpcrdma2_segment", "--no-errata"], &bytes);
}

#[test]
fn the_guide_shows_actual_output() {
    let guide = include_str!("../../../docs/guide.md");
    let section = guide
        .split("\n## ")
        .find(|section| section.starts_with("Decode bytes"))
        .expect("a section");
    let blocks: Vec<&str> = section
        .split("```text\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    let [bytes, tree, fault] = blocks[..] else {
        panic!("{blocks:?}")
    };
    let arguments = [
        "--type",
        "rpcrdma2_xprt_hdr",
        "--hex",
        "--overlays",
        "v2::properties",
    ];
    assert_eq!(in_workspace(0, &arguments, bytes).0, tree);
    assert_eq!(
        in_workspace(1, &arguments, &bytes.replacen("00000028", "00000040", 1)).1,
        fault
    );
}
