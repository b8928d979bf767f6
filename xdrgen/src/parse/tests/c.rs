//! Tests constructs of C that XDR does not have: each is one error.

use super::{fixed, reported};

#[test]
fn character_constants() {
    for (written, number) in [
        ("'a'", "97"),
        ("' '", "32"),
        (r"'\n'", "10"),
        (r"'\\'", "92"),
        (r"'\''", "39"),
        (r"'\0'", "0"),
        (r"'\101'", "65"),
        (r"'\x7f'", "127"),
    ] {
        for text in [
            "const A = _;",
            "enum e { A = _, B = 300 };",
            "typedef opaque a<_>;",
        ] {
            let xdr = text.replace('_', written);
            let report = reported(&xdr);
            assert_eq!(report.lines().count(), 1, "{report}");
            assert!(report.contains("is a character constant"), "{report}");
            assert_eq!(fixed(&xdr), text.replace('_', number));
        }
        let union = format!("union u switch (int k) {{ case {written}: int x; }};");
        assert_eq!(reported(&union).lines().count(), 1);
        assert_eq!(fixed(&union), union.replace(written, number));
    }
    for other in [
        "const A = 'ab';",
        "const A = '';",
        r"const A = '\q';",
        "const A = 'é';",
        "'",
    ] {
        assert!(reported(other).contains("is not part of XDR"), "{other}");
    }
}

#[test]
fn members_without_values() {
    assert_eq!(
        fixed("enum e { A B };"),
        "enum e { A, B };",
        "{}",
        reported("enum e { A B };")
    );
    assert_eq!(fixed("enum e { A, B C, D };"), "enum e { A, B, C, D };");
    assert_eq!(fixed("enum e { A = 1, B A };"), "enum e { A = 1, B = A };");
    assert_eq!(fixed("enum e { A B = 1 };"), "enum e { A, B = 1 };");
}

#[test]
fn arrays_of_two_dimensions() {
    for (written, shown) in [
        ("[3][4]", "1:25"),
        ("<3>[N]", "1:25"),
        ("[3][4][5]", "1:25"),
    ] {
        let report = reported(&format!("struct s {{ int matrix{written}; }};"));
        let expected = "syntax XDR has no arrays of more than one dimension";
        assert_eq!(report, format!("{shown} {expected}\n"));
    }
    let report = reported("typedef opaque a[4][2];");
    assert_eq!(report.lines().count(), 1, "{report}");
}

#[test]
fn arguments_with_names() {
    let program = |arguments: &str| {
        format!("program P {{ version V {{ void A({arguments}) = 1; }} = 1; }} = 2;")
    };
    for (before, after) in [
        ("int a, string b<>", "int, string<>"),
        ("int a", "int"),
        ("int /* c */ a", "int /* c */ "),
    ] {
        assert_eq!(fixed(&program(before)), program(after));
    }
}
