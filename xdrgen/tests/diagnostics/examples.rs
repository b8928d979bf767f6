//! A minimal example of each code.

use xdrgen_build::Code;

/// A minimal example of a diagnostic: its files. Those with the extension `.x` or `.txt` are
/// compiled together.
pub(super) type Example = &'static [(&'static str, &'static str)];

/// A draft of two pages, with one defect that has a fix and one that has a note.
pub(super) const DRAFT: &str = "\
1.  Introduction

1.1.  Points

   <CODE BEGINS>
   struct a_point {
           a_coord x;
           a_coord y;
   };
   <CODE ENDS>

Author                 Expires May 1, 2017                      [Page 1]
\u{c}
Internet-Draft                  Points                     November 2016

2.  XDR

   /// typedef a_coord uint32;
   /// struct a_point {
   ///         a_coord x;
   ///         int y;
   /// };

Author                 Expires May 1, 2017                      [Page 2]
";

const MANIFEST: &str = "\
errata = []

[[module]]
path = \"a\"
documents = [\"a.x\"]

[[module.overlay]]
name = \"Content\"
struct = \"carrier\"
code = \"kind\"
data = \"body\"
cases = [[\"POINT\", \"point\"], [\"LINE\", \"line\"]]
";

/// Returns the example for a code. A test fails for a [`Code`] without an example.
pub(super) fn example(code: Code) -> Option<Example> {
    Some(match code {
        Code::AmbiguousMember => &[
            (
                "a.x",
                "enum color { NONE = 0 };\nenum shape { NONE = 1 };\nconst LIMIT = NONE;\n",
            ),
            (
                "xdrgen.toml",
                "[[module]]\npath = \"a\"\ndocuments = [\"a.x\"]\nscoped_enums = true\n",
            ),
        ],
        Code::Unreadable => &[("missing.x", "")],
        Code::Configuration => &[(
            "xdrgen.toml",
            "[lints]\nconsistency = \"deny\"\nundefined-type = \"warn\"\n",
        )],
        Code::NoXdr => &[("draft-a-00.txt", "1.  Introduction\n\n   Nothing here.\n")],
        Code::ErratumMismatch => &[
            ("draft-a-00.txt", "1.  XDR\n\n   /// const A = 1;\n"),
            (
                "errata.toml",
                "[[erratum]]\ndocument = \"draft-a-00.txt\"\nline = 3\nold = \"A = 2\"\nnew = \"A \
                = 3\"\nreason = \"a\"\n",
            ),
        ],
        Code::ErratumUseless => &[
            ("draft-a-00.txt", "1.  XDR\n\n   /// const A = 1;\n"),
            (
                "errata.toml",
                "[[erratum]]\ndocument = \"draft-a-00.txt\"\nline = 3\nold = \"A = 1\"\nnew = \"A \
                = 3\"\nreason = \"a\"\n",
            ),
        ],
        Code::OverlayCollision => &[
            ("xdrgen.toml", MANIFEST),
            (
                "a.x",
                "const POINT = 1;\nconst LINE = 1;\nstruct point { int x; };\nstruct line { point \
                ends[2]; };\n\
                 struct carrier { unsigned int kind; opaque body<>; };\n",
            ),
        ],
        Code::OverlayInvalid => &[
            ("xdrgen.toml", MANIFEST),
            (
                "a.x",
                "const POINT = 1;\nconst LINE = 2;\nstruct point { int x; };\nstruct line { point \
                ends[2]; };\n\
                 struct carrier { unsigned int kind; int body; };\n",
            ),
        ],
        Code::Consistency => &[(
            "draft-a-00.txt",
            "1.  A\n\n   <CODE BEGINS>\n   const LIMIT = 8;\n   <CODE ENDS>\n\n2.  XDR\n\n   /// \
            const LIMIT = 16;\n",
        )],
        Code::TextSyntax => &[(
            "draft-a-00.txt",
            "1.  A\n\n   <CODE BEGINS>\n   const LIMIT 16;\n   <CODE ENDS>\n\n2.  XDR\n\n   /// \
            const LIMIT = 16;\n",
        )],
        Code::UnmarkedLine => &[(
            "draft-a-00.txt",
            "1.  XDR\n\n   /// struct a_point {\n   //          int x;\n   ///         int y;\n   \
            /// };\n",
        )],
        Code::UnspacedMarker => &[(
            "draft-a-00.txt",
            "1.  XDR\n\n   /// struct a_point {\n   ///        int x;\n   ///};\n   ///\n",
        )],
        Code::ProseName => &[(
            "draft-a-00.txt",
            "1.  A\n\n   A peer sends ROPT_CONNPR first.\n\n2.  XDR\n\n   /// const ROPT_CONNPROP \
            = 1;\n",
        )],
        code => {
            return syntax(code)
                .or_else(|| names(code))
                .or_else(|| values(code))
                .or_else(|| extension(code));
        }
    })
}

/// Examples of syntax errors.
fn syntax(code: Code) -> Option<Example> {
    Some(match code {
        Code::Condition => &[
            (
                "a.x",
                "#define VERSION(a) a\n#if VERSION(2)\ntypedef int mode;\n#endif\n",
            ),
            (
                "xdrgen.toml",
                "[[module]]\npath = \"a\"\ndocuments = [\"a.x\"]\n\n[lints]\npreprocessor = \
                 \"allow\"\n",
            ),
        ],
        Code::InvalidToken => &[("a.x", "const MODE = 0894;\n")],
        Code::UnterminatedComment => &[("a.x", "/* the mode\nconst MODE = 1;\n")],
        Code::NestedComment => &[(
            "a.x",
            "enum color {\n    RED = 1, /* first\n    BLUE = 2, /* second */\n    GREEN = 3\n};\n",
        )],
        Code::Syntax => &[("a.x", "struct point {\n    int x\n    int y;\n};\n")],
        Code::SeveralDeclarations => &[(
            "a.x",
            "union result switch (int status) {\ncase 0:\n    int x;\n    int y;\ndefault:\n    \
            void;\n};\n",
        )],
        _ => return None,
    })
}

/// Examples of names.
fn names(code: Code) -> Option<Example> {
    Some(match code {
        Code::UndefinedType => &[(
            "a.x",
            "struct point { int x; };\nstruct line { piont ends[2]; };\n",
        )],
        Code::UndefinedConstant => &[("a.x", "const LIMIT = 16;\ntypedef opaque name<LIMTI>;\n")],
        Code::SwappedTypedef => &[("a.x", "typedef propid          uint32;\n")],
        Code::DuplicateDefinition => {
            &[("a.x", "enum color { RED = 1 };\nenum light { RED = 1 };\n")]
        }
        Code::DuplicateField => &[("a.x", "struct point {\n    int x;\n    int x;\n};\n")],
        Code::DuplicateArm => &[(
            "a.x",
            "union result switch (int status) {\ncase 0:\n    int value;\ncase 1:\n    hyper \
            value;\n};\n",
        )],
        Code::DuplicateCase => &[(
            "a.x",
            "enum color { RED = 1, BLUE = 2 };\nunion paint switch (color which) {\n\
             case RED:\n    void;\n\
             case BLUE:\ncase RED:\n    int shade;\n};\n",
        )],
        Code::DuplicateNumber => &[(
            "a.x",
            "program PING_PROG {\n    version PING_VERS {\n        void PING_NULL(void) = \
             0;\n        int PING_BACK(int) = 0;\n    \
             } = 1;\n} = 200000;\n",
        )],
        Code::WrongKind => &[(
            "a.x",
            "enum color { RED = 1 };\nstruct paint { struct color which; };\n",
        )],
        Code::NameClash => &[("a.x", "struct point { int read_count; int readCount; };\n")],
        _ => return None,
    })
}

/// Examples of types and values.
fn values(code: Code) -> Option<Example> {
    Some(match code {
        Code::RecursiveType => &[(
            "a.x",
            "struct tree {\n    int value;\n    branch left;\n};\nstruct branch {\n    tree \
            top;\n};\n",
        )],
        Code::RecursiveConstant => &[("a.x", "const FIRST = LAST;\nconst LAST = FIRST;\n")],
        Code::InvalidDiscriminant => &[(
            "a.x",
            "union result switch (hyper status) {\ncase 0:\n    void;\ndefault:\n    int \
            error;\n};\n",
        )],
        Code::ForeignCase => &[(
            "a.x",
            "enum color { RED = 1, BLUE = 2 };\nenum light { REDD = 1 };\nunion paint switch \
            (color which) {\n\
             case REDD:\n    void;\ndefault:\n    int shade;\n};\n",
        )],
        Code::EmptyUnion => &[(
            "a.x",
            "union result switch (int status) {\ndefault:\n    void;\n};\n",
        )],
        Code::InvalidBound => &[("a.x", "const LIMIT = -1;\ntypedef opaque name<LIMIT>;\n")],
        Code::InvalidNumber => &[(
            "a.x",
            "program PING {\n    version ONE {\n        void NULL(void) = 0;\n    } = 1;\n} = \
            0x100000000;\n",
        )],
        Code::OutOfRange => &[(
            "a.x",
            "enum color {\n    RED = 1,\n    BLUE = 0x80000000\n};\n",
        )],
        _ => return None,
    })
}

/// A program with one procedure.
macro_rules! program {
    ($procedure:literal) => {
        concat!(
            "program CALC {\n    version CALC_V1 {\n        ",
            $procedure,
            "\n    } = 1;\n} = 0x20000001;\n"
        )
    };
}

/// Examples of extensions of RFC 4506.
fn extension(code: Code) -> Option<Example> {
    Some(match code {
        Code::PreludeType => &[("a.x", "struct point { uint32 x; };\n")],
        Code::StructReference => &[(
            "a.x",
            "struct point { int x; };\nstruct line { struct point ends[2]; };\n",
        )],
        Code::TypedConstant => &[("a.x", "const uint32 LIMIT = 16;\n")],
        Code::BareUnsigned => &[("a.x", "struct point { unsigned x; };\n")],
        Code::CInteger => &[("a.x", "struct point { long x; };\n")],
        Code::LineComment => &[("a.x", "const LIMIT = 16; // bytes\n")],
        Code::ImplicitEnumValue => &[("a.x", "enum color {\n    RED = 1,\n    BLUE\n};\n")],
        Code::RepeatedTypedef => &[(
            "a.x",
            "typedef opaque handle<64>;\ntypedef opaque handle<0x40>; /* as above */\n",
        )],
        Code::DiscriminantName => &[(
            "a.x",
            "union result switch (int status) {\ncase 0:\n    void;\ndefault:\n    hyper \
            status;\n};\n",
        )],
        Code::DuplicateEnumValue => &[("a.x", "enum color {\n    RED = 1,\n    BLUE = 1\n};\n")],
        Code::NamedArgument => &[("a.x", program!("int NEGATE(int number) = 1;"))],
        Code::ProcedureDeclarator => &[("a.x", program!("string<> NAME(int) = 1;"))],
        Code::ManyArguments => &[(
            "a.x",
            program!("void SUM(int, int, int, int, int, int, int, int, int) = 1;"),
        )],
        Code::BareString => &[("a.x", "struct person {\n    string name;\n};\n")],
        Code::VariableName => &[
            (
                "a.txt",
                "1.  Points\n\n   struct a_point {\n           int x;\n   } point;\n",
            ),
            (
                "xdrgen.toml",
                "[[module]]\npath = \"a\"\n[[module.prose]]\ndocument = \"a.txt\"\n",
            ),
        ],
        Code::WideConstant => &[("a.x", "const PRIME = 18446744073709551629;\n")],
        Code::StringConstant => &[("a.x", "const MODULUS = \"d4a0ba02\";\n")],
        Code::ZeroCopyOpaque => &[("a.x", "struct data {\n    zcopaque bytes<>;\n};\n")],
        Code::Package => &[("a.x", "package points;\nconst LIMIT = 16;\n")],
        Code::Passthrough => &[("a.x", "%#include <rpc/rpc.h>\nconst LIMIT = 16;\n")],
        Code::Preprocessor => &[("a.x", "#include <rpc/rpc.h>\nconst LIMIT = 16;\n")],
        Code::Namespace => &[("a.x", "namespace a {\nconst LIMIT = 16;\n}\n")],
        Code::Pragma => &[("a.x", "pragma header nfs4;\nconst LIMIT = 16;\n")],
        Code::TrailingComma => &[("a.x", "enum color {\n    RED = 1,\n    BLUE = 2,\n};\n")],
        Code::EmptyDeclaration => &[("a.x", "struct point {\n    int x;;\n};\n")],
        Code::EmptyBody => &[("a.x", "struct nothing {\n};\n")],
        Code::MissingArms => &[(
            "a.x",
            "enum color { RED = 1, BLUE = 2 };\nunion paint switch (color which) {\n\
             case RED:\n    void;\n};\n",
        )],
        _ => return None,
    })
}
