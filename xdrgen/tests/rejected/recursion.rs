//! Types without a finite value.

use super::*;

#[test]
fn recursive_types_without_an_end() {
    rejected("struct a {\n int b;\n a c;\n};", &["3:4 recursive-type"]);
    rejected("struct a {\n a b[2];\n};", &["2:4 recursive-type"]);
    rejected("typedef a a;", &["1:11 recursive-type"]);
    rejected(
        "typedef b a;\ntypedef a b;",
        &["1:11 recursive-type <- 2:11"],
    );
    rejected("typedef a a[3];", &["1:11 recursive-type"]);
    rejected(
        "struct a {\n b c;\n};\nstruct b {\n int d;\n a e;\n};",
        &["2:4 recursive-type <- 6:4"],
    );
    rejected(
        "struct a {\n b c;\n};\ntypedef a b;",
        &["2:4 recursive-type <- 4:11"],
    );
    rejected(
        "struct a {\n b c;\n};\ntypedef a b[1];",
        &["2:4 recursive-type <- 4:11"],
    );
    rejected(
        "struct a {\n struct {\n  a b;\n } c;\n};",
        &["4:4 recursive-type <- 3:5"],
    );
    // A cycle with another reference, and two cycles.
    rejected(
        "struct a {\n b c;\n d e;\n};\nstruct b { int f; };\nstruct d {\n a g;\n};",
        &["3:4 recursive-type <- 7:4"],
    );
    rejected(
        "struct a {\n a b;\n};\nstruct c {\n c d;\n};",
        &["2:4 recursive-type", "5:4 recursive-type"],
    );
}

/// RFC 4506, section 4.19: "the list is ended" by the other arm.
#[test]
fn recursive_unions_with_an_end() {
    legal("union a switch (int b) {\n case 1:\n  a c;\n case 2:\n  void;\n};");
    legal("union a switch (int b) {\n case 1:\n  void;\n default:\n  a c;\n};");
    legal(
        "union a switch (int b) {\n case 1:\n  d c;\n default:\n  void;\n};\nstruct d {\n e \
        f[2];\n};\ntypedef a e;",
    );
    // The list of the RFC, and two types that contain each other.
    legal(
        "union list switch (bool more) { case TRUE: node n; case FALSE: void; };
struct node { int value; list next; };",
    );
    legal(
        "union a switch (int b) { case 1: c d[2]; };
union c switch (int b) { case 1: a d; case 2: int e; };",
    );
    // A union whose cycle also contains an optional, and an arm that contains a list node.
    legal("union a switch (int b) { case 1: a *c; case 2: a d; default: void; };");
    legal(
        "struct n { u v; n *next; };\nunion u switch (int b) { case 1: n x; case 2: n *y; \
        default: void; };",
    );
}

#[test]
fn recursive_unions_without_an_end() {
    rejected(
        "union a switch (int b) {\n case 1:\n  a c;\n};",
        &["3:5 recursive-type <- 1:7"],
    );
    // The default is unreachable, so that it does not end the recursion.
    rejected(
        "union a switch (bool b) {\n case TRUE:\n  a c;\n case FALSE:\n  a d;\n default:\n  \
        void;\n};",
        &["3:5 recursive-type <- 1:7"],
    );
    rejected(
        "union a switch (int b) {\n case 1:\n  s c;\n default:\n  a d;\n};\nstruct s {\n a e;\n};",
        &["5:5 recursive-type <- 1:7"],
    );
    // The union in its other field does not end a struct that contains itself.
    rejected(
        "struct s {\n u c;\n s d;\n};\nunion u switch (int b) {\n case 1:\n  s e;\n default:\n  \
        void;\n};",
        &["3:4 recursive-type"],
    );
}

#[test]
fn recursive_types_through_an_indirection() {
    legal("struct a { int b; a *c; };");
    legal("struct a { a b<>; };");
    legal("struct a { int b; a c<4>; };");
    legal("struct a { b c; };\nstruct b { int d; a *e; };");
    legal("typedef a *b;\nstruct a { int c; b d; };");
    legal("union a switch (int b) { case 1: a *c; default: void; };");
    legal("struct a { b c[2]; };\ntypedef a b<3>;");
}
