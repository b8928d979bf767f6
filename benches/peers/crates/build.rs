//! Generates code from `headers.x` with each of the crates, and from NFSv4.1 with the crate that
//! supports it. The environment variable `NFS` names its XDR (a file `*.x`) or the text of RFC
//! 5662.

use std::error::Error;
use std::fs;
use std::path::Path;

const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../headers.x");

/// A text in the document, and its replacement.
type Change = (&'static str, &'static str);

/// Changes of `headers.x` that fastxdr needs, with the same bytes on the wire:
///
/// - it panics on an array that is an arm of a union, so such an array is in a structure;
/// - the code that it generates for an array of numbers does not compile, so numbers have a type of
///   their own, as its documentation advises.
const FOR_FASTXDR: [Change; 6] = [
    (
        "union xmdp_loc switch",
        "typedef unsigned int number; struct xmdp_segments { rpcrdma2_segment ex<>; }; union \
        xmdp_loc switch",
    ),
    ("rpcrdma2_segment xmdl_ex<>;", "xmdp_segments xmdl_ex;"),
    (
        "rpcrdma2_segment   xmdrsdl_ex<>;",
        "xmdp_segments xmdrsdl_ex;",
    ),
    ("unsigned int xmdl_bsnum<>;", "number xmdl_bsnum<>;"),
    (
        "unsigned int opticonnpr_nochg<>;",
        "number opticonnpr_nochg<>;",
    ),
    ("unsigned int values<>;", "number values<>;"),
];

/// Changes of RFC 5662 that xdrgen 0.4 needs: it panics on a 64-bit number that is negative in
/// `i64`, and the discriminant of a union with named cases must have the type of their enumeration.
const FOR_XDRGEN: [Change; 4] = [
    ("= 0xffffffffffffffff;", "= 0;"),
    ("= 0xfffffffffffffffe;", "= 0;"),
    (
        "switch (uint32_t cb_secflavor)",
        "switch (auth_flavor cb_secflavor)",
    ),
    ("switch (uint32_t flavor)", "switch (auth_flavor flavor)"),
];

/// Types that RFC 5662 does not define and xdrgen 0.4 does not know.
const FOR_NFS: &str = "
    const TRUE = 1;
    const FALSE = 0;
    typedef int int32_t;
    typedef unsigned int uint32_t;
    typedef hyper int64_t;
    typedef unsigned hyper uint64_t;
    enum auth_flavor { AUTH_NONE = 0, AUTH_SYS = 1, RPCSEC_GSS = 6 };
    struct authsys_parms {
        unsigned int stamp;
        string machinename<255>;
        unsigned int uid;
        unsigned int gid;
        unsigned int gids<16>;
    };
";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={HEADERS}");
    println!("cargo::rerun-if-env-changed=NFS");
    println!("cargo::rustc-check-cfg=cfg(nfs)");
    let out = std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?;
    let out = Path::new(&out);

    let headers = fs::read_to_string(HEADERS)?;
    fs::write(out.join("xdr_codec.rs"), xdrgen(&headers)?)?;
    let headers = changed(headers, &FOR_FASTXDR)?;
    let code = fastxdr::Generator::default()
        .generate(&headers)
        .map_err(|error| error.to_string())?;
    fs::write(out.join("fastxdr.rs"), code)?;

    if let Some(path) = std::env::var_os("NFS").filter(|path| !path.is_empty()) {
        println!("cargo::rerun-if-changed={}", Path::new(&path).display());
        println!("cargo::rustc-cfg=nfs");
        let text = fs::read_to_string(&path)?;
        let xdr = if Path::new(&path)
            .extension()
            .is_some_and(|found| found == "x")
        {
            text
        } else {
            extracted(&text)
        };
        // xdrgen does not support programs, and the callbacks after them are not needed.
        let (types, _) = xdr
            .split_once("program NFS4_PROGRAM")
            .ok_or("NFS: not the XDR of NFSv4.1")?;
        let types = changed(types.to_owned(), &FOR_XDRGEN)?;
        fs::write(out.join("nfs.rs"), xdrgen(&format!("{FOR_NFS}{types}"))?)?;
    }
    Ok(())
}

fn xdrgen(xdr: &str) -> Result<Vec<u8>, String> {
    let mut code = Vec::new();
    xdrgen::generate("", xdr.as_bytes(), &mut code).map_err(|error| error.to_string())?;
    Ok(code)
}

fn changed(mut xdr: String, changes: &[Change]) -> Result<String, String> {
    for (printed, wanted) in changes {
        if !xdr.contains(printed) {
            return Err(format!("nowhere: {printed}"));
        }
        xdr = xdr.replace(printed, wanted);
    }
    Ok(xdr)
}

/// The lines that RFC 5662 marks as XDR.
fn extracted(text: &str) -> String {
    let marked = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("///"));
    marked
        .flat_map(|line| [line.strip_prefix(' ').unwrap_or(line), "\n"])
        .collect()
}
