//! Tests constructs in the style of XDR files of other projects. The compiler accepts the files
//! that rpcgen accepts, except for files that are broken as published or that use undefined names.
//! The report names the cause.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Folder, check, note_skipped};
use xdrgen_build::{Code, Compilation, Config, Module, Style};

/// A rejected construct: its XDR, the code and a part of its report, and the files that contain it,
/// each with a part of its own report.
struct RejectedConstruct {
    xdr: &'static str,
    code: Code,
    cause: &'static str,
    files: &'static [(&'static str, &'static str)],
}

/// The files that the compiler rejects although rpcgen accepts them, because rpcgen passes names to
/// C unresolved. Paths are relative to `shared/corpus`.
const REJECTED: &[RejectedConstruct] = &[
    RejectedConstruct {
        xdr: "%#include \"limits.h\"\ntypedef opaque uuid[UUID_LEN];\n",
        code: Code::UndefinedConstant,
        cause: "`UUID_LEN` may come from this file",
        files: &[
            ("libvirt/lock_protocol.x", UUID),
            ("libvirt/log_protocol.x", UUID),
            ("libvirt/lxc_protocol.x", UUID),
            ("libvirt/qemu_protocol.x", UUID),
            ("libvirt/remote_protocol.x", UUID),
            ("libvirt/virnetprotocol.x", UUID),
        ],
    },
    RejectedConstruct {
        xdr: "%#include <types.h>\nunion value switch (int kind) { case KIND_INT: int i; };\n",
        code: Code::UndefinedConstant,
        cause: "`KIND_INT` may come from this file",
        files: &[
            ("libvirt/admin_protocol.x", PARAMETER),
            ("libvirt/remote_protocol.x", PARAMETER),
        ],
    },
    RejectedConstruct {
        xdr: "%#include \"remote.h\"\nstruct open_args { remote_domain domain; };\n",
        code: Code::UndefinedType,
        cause: "no XDR of that include is beside the document",
        files: &[(
            "ietf-extracted/rfc5663.x",
            "`deviceid4` may come from this file",
        )],
    },
    RejectedConstruct {
        xdr: "enum kind { LABEL = 0, PRIVS = 1 };\nenum item { LABEL = 0 };\n",
        code: Code::DuplicateDefinition,
        cause: "`LABEL` is defined twice",
        files: &[("ietf-extracted/rfc7861.x", "`LABEL` is defined twice")],
    },
    RejectedConstruct {
        xdr: "const V2_FLAGS_ONE = FLAGS_ONE;\n",
        code: Code::UndefinedConstant,
        cause: "no constant is named `FLAGS_ONE`",
        files: &[(
            "reffs/nfsv42_xdr.x",
            "no constant is named `FF_FLAGS_WRITE_ONE_MIRROR`",
        )],
    },
];

const UUID: &str = "`VIR_UUID_BUFLEN` may come from this file";
const PARAMETER: &str = "`VIR_TYPED_PARAM_INT` may come from this file";

/// Asserts that a compilation has an error with a code, and that the report names the cause.
fn assert_cause(what: &str, compilation: &Compilation, code: Code, cause: &str) {
    let report = compilation.report(Style::Plain);
    let mut found = compilation.diagnostics().iter();
    assert!(
        found.any(|found| found.is_error() && found.code == code),
        "{what}: {report}"
    );
    assert!(report.contains(cause), "{what}: {report}");
}

#[test]
fn reports_name_the_cause() {
    for RejectedConstruct {
        xdr, code, cause, ..
    } in REJECTED
    {
        assert_cause(xdr, &check(xdr), *code, cause);
    }
}

fn accepted(what: &str, compilation: &Compilation) {
    let report = compilation.report(Style::Plain);
    assert!(!compilation.has_errors(), "{what}: {report}");
    assert!(compilation.generate().is_ok(), "{what}");
}

#[test]
fn constructs_of_one_file() {
    let constructs = [
        (
            "nfs-utils, rpcsvc-proto, reffs: nlm_prot.x",
            "%#define NAME_LEN\t16\n%#define OWNER_LEN\tNAME_LEN+1\n\
             struct lock { string caller<NAME_LEN>; string owner<OWNER_LEN>; };\n",
        ),
        (
            "rpcsvc-proto: nlm_prot.x; reffs: nlm4_prot.x",
            "#ifdef RPC_HDR\n%#define NAME_LEN\t16\nstruct ignored { none n; };\n\
             %/* flags */\n%#define OWNER_LEN\tNAME_LEN+1\n#endif\n\
             struct lock { string caller<NAME_LEN>; string owner<OWNER_LEN>; };\n",
        ),
        (
            "reffs: nfsv3_xdr.x",
            "%#define COOKIE_SIZE 8\ntypedef opaque cookie[COOKIE_SIZE];\n",
        ),
        (
            "libtirpc: rpcb_prot.x",
            "program BIND { version B { string TO_TEXT(struct netbuf) = 1; \
             struct netbuf FROM_TEXT(string) = 2; } = 3; } = 100000;\n",
        ),
        (
            "libtirpc, rpcsvc-proto: key_prot.x",
            "const MODULUS = \"d4a0ba02\";\nstruct args { string name<MAXNETNAMELEN>; des_block key; };\n",
        ),
        (
            "reffs: nfsv42_xdr.x",
            "%#ifndef DEFINED\n%#define DEFINED\n%typedef struct authunix_parms authunix_parms;\n\
             %#endif\n\
             union sec switch (unsigned int flavor) { case AUTH_NONE: void;\n\
             case AUTH_UNIX: authunix_parms cred; };\n",
        ),
    ];
    for (files, xdr) in constructs {
        accepted(files, &check(xdr));
    }
}

/// Constructs in the style of each project, which the project's files need.
const PROJECTS: &[(&str, &str)] = &[
    (
        "Linux",
        "/* from a specification */\npragma header nlm4;\nconst MAXNAMELEN = 1025;\n\
         typedef opaque netobj<1024>;\nenum stats { GRANTED = 0 };\npragma big_endian stats;\n\
         program LOCK { version V4 { void NULL(void) = 0; } = 4; } = 100021;\n",
    ),
    (
        "libnfs",
        "struct exports { string dir<>; struct exports *next; };\ntypedef struct exports *list;\n\
         program M { version V { list EXPORT(void) = 5; } = 3; } = 100005;\n",
    ),
    (
        "libvirt",
        "const STRING_MAX = 65536;\ntypedef string nonnull_string<STRING_MAX>;\n\
         typedef nonnull_string *opt_string;\nstruct args { opt_string name; unsigned hyper flags; \
         char data<16>; };\n",
    ),
    (
        "goxdr",
        "// A comment\nnamespace a { namespace b {\nunion u switch (unsigned kind) {\n\
         case 0:\n case 1:\n  string one<>;\n default:\n  void;\n}; } }\n\
         program P { version V { b::u MANY(b::u, unsigned hyper, string) = 1; } = 1; } = \
         0x20000000;\n",
    ),
    (
        "xdrpp",
        "namespace test {\ntypedef unsigned hyper big;\nstruct tree { big key; tree *left; tree \
         *right; };\n\
         union value switch (int type) { case 0: struct { int x; int y; } point; default: void; \
         };\n}\n",
    ),
    (
        "stellar-core",
        "namespace stellar\n{\nenum Kind { A = 0, B = 1 };\nunion Entry switch (Kind kind)\n{\n\
         case A:\n  struct\n  {\n    union switch (int v)\n    {\n    case 0:\n      void;\n    }\n\
             ext;\n  } a;\ncase B:\n  opaque b[32];\n};\n}\n",
    ),
    (
        "rust-xdr",
        "typedef opaque Bar[8];\ntypedef Bar Bars<>;\nstruct Foo { int a; unsigned int b; Bars c; \
         };\n",
    ),
    (
        "libevpl",
        "struct read { unsigned int count; bool eof; zcopaque data<>; };\n",
    ),
    (
        "nfs-ganesha",
        "%#include \"config.h\"\nstruct netobj { u_int n_len; opaque n_bytes<>; };\n\
         typedef u_int32_t sessionid[4];\n%extern bool_t xdr_sessionid(XDR *, sessionid);\n",
    ),
    (
        "FreeBSD",
        "#ifndef lint\n%static const char rcsid[] =\n%  \"$FreeBSD$\";\n#endif /* not lint */\n\
         #ifdef RPC_HDR\n%#include <sys/types.h>\n#endif\nconst RQ_PATHLEN = 1024;\n\
         struct getquota { string path<RQ_PATHLEN>; int uid; };\n",
    ),
    (
        "illumos",
        "#if RPC_HDR\n%\n%/* CDDL */\n%\n#endif\n#define MAXIDS 16\ntypedef long ids<MAXIDS>;\n\
         struct cred { u_long uid; ids gids; };\n",
    ),
    (
        "oncrpc4j",
        "package org;\n/** A comment. */\nstruct Point { int x; int y; };\n\
         program P { version V { Point MOVE(Point from, int dx, int dy) = 1; } = 1; } = 2;\n",
    ),
    (
        "glusterfs",
        "#ifdef RPC_XDR\n%#include \"compat.h\"\n#endif\nstruct stat { opaque gfid[16]; unsigned \
         hyper size; };\n\
         struct dirent { unsigned hyper ino; struct stat st; string name<>; opaque dict<>; dirent \
         *next; };\n",
    ),
    (
        "ganglia",
        "enum formats { full = 128, request = full, value };\nunion message switch (formats id) {\n\
         case full: string name<>;\ncase value: float f; default: void; };\n",
    ),
    (
        "VXI-11",
        "typedef long Device_Link;\ntypedef long Device_Flags;\nenum Family { TCP, UDP };\n\
         struct Create { long clientId; bool lockDevice; unsigned long timeout; string device<>; \
         };\n\
         program CORE { version V { Device_Link CREATE(Create) = 10; } = 1; } = 0x0607AF;\n",
    ),
    (
        "am-utils",
        "const LEN = 1024;\ntypedef string amq_string<LEN>;\ntypedef long *time_type;\n\
         struct tree { \
         amq_string mountpoint; tree *next; tree *child; };\ntypedef struct tree *tree_p;\n\
         program AMQ { version V { tree_p TREE(amq_string) = 1; } = 57; } = 300019;\n",
    ),
    (
        "NDMP",
        "struct u_quad { u_long high; u_long low; };\nenum error { OK, BAD = 4, WORSE, };\n\
         union addr switch (error kind) { case OK: struct u_quad position; default: void; };\n",
    ),
    (
        "GNU Hurd",
        "typedef quad_t wide;\nstruct wait { wide usec; };\n",
    ),
    (
        "jrpcgen",
        "const A = 0X1F;\nconst B = 017;\nstruct keys { string names<>; opaque data[A]; };\n\
         program P { version V { keys *FIND(string<>) = 1; } = 1; } = 3;\n",
    ),
];

#[test]
fn constructs_of_projects() {
    let mut refused = Vec::new();
    for (project, xdr) in PROJECTS {
        let checked = check(xdr);
        if checked.has_errors() {
            refused.push(format!("{project}: {}", checked.report(Style::Plain)));
        } else {
            accepted(project, &checked);
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    // Other tests cover the constructs of nfs-utils, rpcsvc-proto, reffs, libtirpc and glibc.
    assert!(PROJECTS.len() + 5 >= 20);
}

/// Returns the files of `shared/corpus`; `None` if it is not beside the checkout.
fn shared_files() -> Option<Vec<PathBuf>> {
    let folder = Path::new("../../shared/corpus");
    let mut files = Vec::new();
    for project in folder.read_dir().ok()? {
        let Ok(project) = project.expect("a folder").path().read_dir() else {
            continue;
        };
        let paths = project.map(|entry| entry.expect("a file").path());
        files.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "x")));
    }
    files.sort();
    Some(files)
}

/// Returns true if rpcgen accepts a file.
fn rpcgen_accepts(path: &Path) -> bool {
    let output = Command::new("rpcgen").arg("-h").arg(path).output();
    output.is_ok_and(|output| output.status.success())
}

/// `REJECTED` lists every file that rpcgen accepts and the compiler rejects, and no other. The
/// report of each file names the cause.
#[test]
fn files_accepted_by_rpcgen_are_accepted() {
    let rpcgen = Command::new("rpcgen").arg("--version").output().is_ok();
    let (Some(files), true) = (shared_files(), rpcgen) else {
        return note_skipped(
            "files_accepted_by_rpcgen_are_accepted needs rpcgen, and shared/corpus beside the \
             checkout",
        );
    };
    assert!(files.len() >= 80, "{}", files.len());
    let listed = REJECTED
        .iter()
        .flat_map(|rejected| rejected.files.iter().map(move |file| (rejected.code, file)));
    let mut listed: Vec<_> = listed.collect();
    let mut refused = Vec::new();
    for path in files.iter().filter(|path| rpcgen_accepts(path)) {
        let module = Module::new("a").document(path);
        let checked = Config::new().module(module).check();
        if !checked.has_errors() {
            continue;
        }
        let report = checked.report(Style::Plain);
        let count = listed.len();
        listed.retain(|(code, (file, cause))| {
            let is_this = path.ends_with(file);
            if is_this {
                assert_cause(file, &checked, *code, cause);
            }
            !is_this
        });
        if listed.len() == count {
            refused.push(format!("{}:\n{report}", path.display()));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(listed.is_empty(), "not refused: {listed:?}");
}

#[test]
fn constructs_of_several_files() {
    let folder = Folder::new()
        .with("object.x", "%#define GUARD_H\nstruct object { int id; };\n")
        .with(
            "names.x",
            "#include \"object.x\"\nenum error { FINE = 0 };\n",
        )
        .with(
            "callback.x",
            "%#include <svc/names.h>\n%#include \"names_clnt.h\"\n\
             typedef object *pointer;\nstruct data { pointer all<>; error status; };\n",
        );
    for (files, name) in [
        ("glibc: nis.x", "names.x"),
        ("glibc: nis_callback.x", "callback.x"),
    ] {
        let module = Module::new("a").document(folder.path(name));
        accepted(files, &Config::new().module(module).check());
    }
}
