//! The names of RPC programs, for text.

use std::fmt;

/// The first number that no registry assigns (RFC 5531, section 8.4.1).
const USER_DEFINED: u32 = 0x2000_0000;

/// A program, which is displayed by its name and its number. The number is hexadecimal if no
/// registry assigns it, as in most documents.
#[derive(Clone, Copy)]
pub(crate) struct Program(pub(crate) u32);

impl Program {
    /// Returns the name of a program that most hosts have, in the documents that define it.
    pub(crate) fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            100_000 => "RPCBIND",
            100_003 => "NFS",
            100_005 => "MOUNT",
            100_011 => "RQUOTA",
            100_021 => "NLM",
            100_024 => "NSM",
            100_227 => "NFSACL",
            _ => return None,
        })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} {}", self.0),
            None if self.0 < USER_DEFINED => self.0.fmt(f),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Program;

    /// The numbers are those of RFC 1813 and RFC 5531, and of the registry "RPC Program Numbers".
    #[test]
    fn programs_have_names_or_numbers() {
        for (program, text) in [
            (100_000, "RPCBIND 100000"),
            (100_003, "NFS 100003"),
            (100_005, "MOUNT 100005"),
            (100_021, "NLM 100021"),
            (100_024, "NSM 100024"),
            (100_001, "100001"),
            (0x1fff_ffff, "536870911"),
            (0x2000_0000, "0x20000000"),
            (0x2052_4d41, "0x20524d41"),
        ] {
            assert_eq!(Program(program).to_string(), text);
        }
    }
}
