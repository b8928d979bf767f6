//! Types that headers of C define and XDR files use without a declaration: the errors of their
//! names show the type of XDR with the same values.

use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// A type of C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CType {
    /// The type of XDR with the same values.
    xdr: &'static str,
    /// Whether its size in C depends on the system.
    varies: bool,
}

/// Returns the type of C with a name.
pub(crate) fn c_type(name: &str) -> Option<CType> {
    let (xdr, varies) = match name {
        "size_t" | "uintptr_t" | "ino_t" | "dev_t" | "rlim_t" | "fsblkcnt_t" | "fsfilcnt_t" => {
            ("unsigned hyper", true)
        }
        "ssize_t" | "intptr_t" | "ptrdiff_t" | "off_t" | "off64_t" | "loff_t" | "time_t"
        | "blkcnt_t" | "blksize_t" | "suseconds_t" | "clock_t" => ("hyper", true),
        "ulong" | "nlink_t" => ("unsigned hyper", true),
        "u64" | "__u64" | "be64" | "__be64" | "le64" | "__le64" | "ulonglong" => {
            ("unsigned hyper", false)
        }
        "s64" | "__s64" | "i64" | "longlong" => ("hyper", false),
        "uid_t" | "gid_t" | "mode_t" | "id_t" | "socklen_t" => ("unsigned int", true),
        "u32" | "__u32" | "be32" | "__be32" | "le32" | "__le32" | "u16" | "__u16" | "be16"
        | "__be16" | "u8" | "__u8" | "uint16" | "uint8" | "ushort" | "uchar" | "byte"
        | "in_addr_t" | "in_port_t" => ("unsigned int", false),
        "pid_t" => ("int", true),
        "s32" | "__s32" | "i32" | "s16" | "__s16" | "i16" | "s8" | "__s8" | "i8" | "int16"
        | "int8" => ("int", false),
        "boolean" | "boolean_t" | "_Bool" | "BOOL" => ("bool", false),
        _ => return None,
    };
    Some(CType { xdr, varies })
}

impl CType {
    /// Adds the type of XDR to the error of an undefined name at `span`.
    pub(crate) fn explain(self, span: Span, found: Diagnostic) -> Diagnostic {
        let xdr = self.xdr;
        let found =
            found
                .label("not defined: a type of C")
                .fix(span, xdr, format!("write `{xdr}`"));
        if !self.varies {
            return found;
        }
        found.note(
            "its size in C depends on the system, and XDR has none for it: `[extern]` in the \
             manifest names a Rust type that has one",
        )
    }
}
