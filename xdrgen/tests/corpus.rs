//! Tests constructs in the spirit of XDR files of other projects: what rpcgen accepts is accepted,
//! except for files that are broken as published or that name what no file of theirs defines. The
//! report names the cause.

mod common;

use common::{Folder, check};
use xdrgen_build::{Code, Compilation, Config, Module, Style};

/// A construct that is refused: the projects' files that have it, the XDR, and the code and a line of
/// the report.
struct Refused {
    files: &'static [&'static str],
    xdr: &'static str,
    code: Code,
    cause: &'static str,
}

/// The files that rpcgen accepts, because it passes names to C unresolved, and that the compiler
/// refuses.
const REFUSED: &[Refused] = &[
    Refused {
        files: &[
            "libvirt: admin_protocol.x, lock_protocol.x, log_protocol.x, remote_protocol.x, virnetprotocol.x",
        ],
        xdr: "%#include \"limits.h\"\ntypedef opaque uuid[UUID_LEN];\n",
        code: Code::UndefinedConstant,
        cause: "`UUID_LEN` may come from this file",
    },
    Refused {
        files: &["libvirt: admin_protocol.x, remote_protocol.x"],
        xdr: "%#include <types.h>\nunion value switch (int kind) { case KIND_INT: int i; };\n",
        code: Code::UndefinedConstant,
        cause: "`KIND_INT` may come from this file",
    },
    Refused {
        files: &["libvirt: lxc_protocol.x, qemu_protocol.x", "RFC 5663"],
        xdr: "%#include \"remote.h\"\nstruct open_args { remote_domain domain; };\n",
        code: Code::UndefinedType,
        cause: "no XDR of that include is beside the document",
    },
    Refused {
        files: &["RFC 7861"],
        xdr: "enum kind { LABEL = 0, PRIVS = 1 };\nenum item { LABEL = 0 };\n",
        code: Code::DuplicateDefinition,
        cause: "`LABEL` is defined twice",
    },
    Refused {
        files: &["reffs: nfsv42_xdr.x"],
        xdr: "const V2_FLAGS_ONE = FLAGS_ONE;\n",
        code: Code::UndefinedConstant,
        cause: "no constant is named `FLAGS_ONE`",
    },
    Refused {
        files: &["libtirpc, rpcsvc-proto: key_prot.x"],
        xdr: "const MODULUS = \"d4a0ba02\";\n",
        code: Code::InvalidToken,
        cause: "XDR has only numbers",
    },
];

#[test]
fn the_report_names_the_cause() {
    for Refused {
        files,
        xdr,
        code,
        cause,
    } in REFUSED
    {
        let compilation = check(xdr);
        let report = compilation.report(Style::Plain);
        let mut found = compilation.diagnostics().iter();
        assert!(
            found.any(|found| found.is_error() && found.code == *code),
            "{files:?}: {report}"
        );
        assert!(report.contains(cause), "{files:?}: {report}");
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
            "libtirpc: key_prot.x",
            "struct args { string name<MAXNETNAMELEN>; des_block key; };\n",
        ),
        (
            "reffs: nfsv42_xdr.x",
            "%#ifndef DEFINED\n%#define DEFINED\n%typedef struct authunix_parms authunix_parms;\n%#endif\n\
             union sec switch (unsigned int flavor) { case AUTH_NONE: void;\n\
             case AUTH_UNIX: authunix_parms cred; };\n",
        ),
    ];
    for (files, xdr) in constructs {
        accepted(files, &check(xdr));
    }
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
