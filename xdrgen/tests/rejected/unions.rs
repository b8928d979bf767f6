//! Discriminants and cases of unions.

use super::*;

#[test]
fn duplicate_cases() {
    rejected(
        "union a switch (int b) {\n case 1: void;\n case 1: void;\n};",
        &["3:7 duplicate-case <- 2:7"],
    );
    rejected(
        "union a switch (int b) {\n case 1:\n case 0x01: void;\n};",
        &["3:7 duplicate-case <- 2:7"],
    );
    rejected(
        "const C = 1;\nunion a switch (int b) {\n case 1: void;\n case C: void;\n};",
        &["4:7 duplicate-case <- 3:7"],
    );
    rejected(
        "enum e { A = 1, B = 2 };\nunion a switch (e b) {\n case A: void;\n case B: void;\n case \
        A: void;\n};",
        &["5:7 duplicate-case <- 3:7"],
    );
    rejected(
        "union a switch (bool b) {\n case TRUE: void;\n case FALSE: void;\n case TRUE: void;\n};",
        &["4:7 duplicate-case <- 2:7"],
    );
}

#[test]
fn cases_outside_of_the_discriminant_type() {
    let union = |case: &str| {
        format!(
            "enum e {{ A = 1, B = 2 }};\nenum f {{ C = 1, D = 7 }};\nconst ONE = 1;\nunion a \
            switch (e b) {{\n \
             case {case}: void;\n default: void;\n}};"
        )
    };
    legal(&union("A"));
    rejected(&union("3"), &["5:7 foreign-case <- 1:6"]);
    rejected(&union("-1"), &["5:7 foreign-case <- 1:6"]);
    rejected(&union("D"), &["5:7 foreign-case <- 1:6"]);
    // The enum has the value, but the name belongs to another enum.
    rejected(&union("C"), &["5:7 foreign-case <- 1:6"]);
    rejected(&union("4294967297"), &["5:7 foreign-case <- 1:6"]);
    rejected(&union("NONE"), &["5:7 undefined-constant"]);
    rejected(&union("e"), &["5:7 wrong-kind <- 1:6"]);
    for (ty, case) in [
        ("int", "2147483648"),
        ("int", "-2147483649"),
        ("unsigned int", "-1"),
        ("unsigned int", "4294967296"),
        ("bool", "2"),
        ("bool", "-1"),
    ] {
        rejected(
            &format!("union a switch ({ty} b) {{\n case {case}: void;\n default: void;\n}};"),
            &["2:7 foreign-case"],
        );
    }
    legal("union a switch (unsigned int b) { case 4294967295: void; };");
    legal("union a switch (int b) { case -2147483648: void; case 2147483647: void; };");
}

#[test]
fn invalid_discriminant_types() {
    for ty in [
        "hyper",
        "unsigned hyper",
        "float",
        "double",
        "quadruple",
        "s",
        "t",
        "u",
    ] {
        let types = "struct s { int a; };\ntypedef hyper t;\ntypedef int u[2];\n";
        rejected(
            &format!("{types}union a switch (\n{ty} b) {{ case 1: void; }};"),
            &["5:1 invalid-discriminant"],
        );
    }
    // A discriminant without a plain declaration is a syntax error.
    for declaration in ["int b[2]", "int b<>", "int *b"] {
        let compilation = check(&format!(
            "union a switch ({declaration}) {{ case 1: void; }};"
        ));
        assert!(
            compilation
                .diagnostics()
                .iter()
                .any(|found| found.code == Code::Syntax && found.is_error())
        );
    }
    // The type is the only defect: with another type, the declaration would be another one.
    for declaration in [
        "string b",
        "string b<>",
        "string b<4>",
        "string b[4]",
        "string *b",
        "opaque b",
        "opaque b[4]",
        "opaque b<4>",
        "opaque *b",
    ] {
        rejected(
            &format!("union a switch (\n{declaration}) {{ case 1: void; default: int c; }};"),
            &["2:1 invalid-discriminant"],
        );
    }
    rejected(
        "union a switch (string) { case 1: void; };",
        &["1:23 syntax"],
    );
    legal("typedef unsigned int u;\ntypedef u v;\nunion a switch (v b) { case 1: void; };");
    legal("enum e { A = 1 };\ntypedef e f;\nunion a switch (f b) { case A: void; };");
    rejected(
        "union a switch (none b) { case 1: void; };",
        &["1:17 undefined-type"],
    );
}

#[test]
fn unions_without_an_arm() {
    rejected("union a switch (int b) {\n};", &["1:7 empty-union"]);
    rejected(
        "union a switch (int b) {\n default: void;\n};",
        &["1:7 empty-union"],
    );
}

/// A union may leave out members of its enum; decoding rejects their values.
#[test]
fn members_without_an_arm() {
    let xdr = "enum e { A = 1, B = 2, C = 3 };\nunion a switch (e b) {\n case A: void;\n case C: \
        int d;\n};";
    legal(xdr);
    for (level, fails) in [(Level::Warn, false), (Level::Deny, true)] {
        let compilation = check_with(xdr, Code::MissingArms, level);
        assert_eq!(positions(&compilation), ["2:7 missing-arms"]);
        assert!(compilation.diagnostics()[0].message.contains("`B`"));
        assert_eq!(compilation.has_errors(), fails);
    }
    let with_default =
        "enum e { A = 1, B = 2 };\nunion a switch (e b) { case A: void; default: int d; };";
    assert!(
        check_with(with_default, Code::MissingArms, Level::Deny)
            .diagnostics()
            .is_empty()
    );
    let whole = "enum e { A = 1, B = 2 };\nunion a switch (e b) { case A: void; case B: int d; };";
    assert!(
        check_with(whole, Code::MissingArms, Level::Deny)
            .diagnostics()
            .is_empty()
    );
}
