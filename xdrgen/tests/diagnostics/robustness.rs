//! No input causes a panic or more than linear time.

use super::*;

/// Checks a text as XDR and as a draft, and renders all diagnostics.
fn check_all_formats(text: &str) -> usize {
    let marked: String = text
        .lines()
        .map(|line| format!("   /// {line}\n"))
        .collect();
    let copied = format!("<CODE BEGINS>\n{text}\n<CODE ENDS>\n/// const A = 1;\n");
    let found = [
        ("a.x", text),
        ("a.txt", text),
        ("b.txt", &*marked),
        ("c.txt", &*copied),
    ]
    .map(|(name, text)| {
        let config = Config::new()
            .lint(Code::ProseName, Level::Warn)
            .expect("a lint");
        render_all(&config.module(Module::new("a").text(name, text)).check())
    });
    found.iter().sum()
}

fn render_all(compilation: &Compilation) -> usize {
    let (sources, found): (_, Vec<Diagnostic>) =
        (compilation.sources(), compilation.diagnostics().to_vec());
    assert_eq!(report::json(sources, &found).lines().count(), found.len());
    assert_eq!(
        compilation.report(Style::Plain).is_empty(),
        found.is_empty()
    );
    let _ = compilation.generate();
    found.len()
}

#[test]
fn unusual_texts() {
    for text in [
        "",
        "\n",
        "\r\n\r\n",
        "/* only a comment */",
        "/* only */ // comments\n%and lines\n#for others\n",
        "\u{feff}",
        "\u{feff}const A = 1;",
        "const\tA\t=\t1;\r\n\tstruct\ta {\r\n\t\tb\tc;\r\n\t};\r\n",
        "\u{0}\u{0}const A\u{0} = 1;\u{0}",
        "struct \u{e9} { int \u{1f980}; };",
        "const A = 1;\u{c}\nconst B = \u{2028}2;",
        "const A = 1",
        "/*",
        "*/",
        "\"",
        "'",
        "-",
        "0x",
        "struct a { b c; }; \u{301}",
        "const A = 99999999999999999999999999999999999999999999999999;",
        "union a switch (int b) { case 1: case 1: case",
        "typedef opaque a<4294967295>; struct b { a c[4294967295]; };",
        "typedef opaque a[4294967295]; typedef a b[4294967295]; typedef b c[4294967295];",
        "typedef a a; typedef b c; typedef c b; struct d { d e[d]; };",
        "<CODE BEGINS>\n<CODE BEGINS>\n/// <CODE ENDS>\n<CODE ENDS>\n///\n////////\n/// @@FILE x\n",
    ] {
        check_all_formats(text);
        check_all_formats(&text.replace('\n', "\r\n"));
        check_all_formats(&text.replace('\n', "\r"));
    }
}

#[test]
fn line_ends_of_other_systems() {
    let xdr = "struct a {\n\tint b;\n\tc d;\n};\n";
    let places = |text: &str| {
        let compilation = check(text);
        let found = compilation.diagnostics().iter();
        found
            .map(|found| report::short(compilation.sources(), found))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        places(xdr),
        ["a.x:3:2: error[undefined-type]: no type is named `c`"]
    );
    assert_eq!(places(&xdr.replace('\n', "\r\n")), places(xdr));
}

#[test]
fn invalid_utf_8() {
    let folder = Folder::new()
        .with("a.x", b"/* \xe9\xff */\nstruct a { none b; };\n")
        .with("b.txt", b"\xe9\xff\n   /// const A = none;\n \xfe\n")
        .with("c.x", [0xff; 1000]);
    let check = |name: &str| {
        Config::new()
            .module(Module::new("a").document(folder.path(name)))
            .check()
    };
    let lines = |compilation: &Compilation| {
        let found = compilation.diagnostics().iter();
        found
            .map(|found| {
                compilation
                    .sources()
                    .locate(found.span.expect("a span"))
                    .line
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(&check("a.x")), [2]);
    assert_eq!(lines(&check("b.txt")), [2]);
    assert!(render_all(&check("c.x")) > 0);
}

#[test]
fn long_texts() {
    let line = "?!$ garbage )( 1 2 3 @@@ lorem { ipsum;\n";
    // Ten megabytes without XDR.
    let compilation = Config::new()
        .module(Module::new("a").text("a.txt", line.repeat(10_000_000 / line.len())))
        .check();
    assert_eq!(render_all(&compilation), 1);
    let comment = format!(
        "/*\n{}*/\nconst A = none;\n",
        line.repeat(10_000_000 / line.len())
    );
    assert_eq!(render_all(&check(&comment)), 1);
    // Many lines, each with defects.
    let text = line.repeat(5_000);
    assert!(check(&text).diagnostics().len() >= 5_000);
    let marked = format!("/// {line}").repeat(5_000);
    let count = |marked: String| {
        let module = Module::new("a").text("a.txt", marked);
        Config::new().module(module).check().diagnostics().len()
    };
    assert!(count(format!("/// const A = 1;\n{marked}")) >= 5_000);
    // A text without a definition is another language.
    assert_eq!(count(marked), 1);
    assert_eq!(check(&"x".repeat(5_000_000)).diagnostics().len(), 1);
    check(&"{".repeat(100_000));
    check(&"struct a { ".repeat(20_000));
    check(&"union a switch (int b) { case 1: ".repeat(20_000));
}

/// Concatenates numbered items.
fn chain(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect()
}

#[test]
fn long_chains() {
    const LINKS: usize = 100_000;
    const LESS: usize = 20_000;
    let constants = chain(LINKS, |at| format!("const C{} = C{at};\n", at + 1));
    assert!(
        check(&format!("{constants}const C0 = 1;\n"))
            .diagnostics()
            .is_empty()
    );
    let typedefs = chain(LINKS, |at| format!("typedef t{at} t{};\n", at + 1));
    assert!(
        check(&format!("{typedefs}typedef int t0;\n"))
            .diagnostics()
            .is_empty()
    );
    for reversed in [false, true] {
        let order = |at: usize| if reversed { LESS - 1 - at } else { at };
        let constants = chain(LESS, |at| {
            format!("const C{} = C{};\n", order(at) + 1, order(at))
        });
        assert!(
            check(&format!("{constants}const C0 = 1;\n"))
                .diagnostics()
                .is_empty()
        );
        let typedefs = chain(LESS, |at| {
            format!("typedef t{} t{};\n", order(at), order(at) + 1)
        });
        assert!(
            check(&format!("{typedefs}typedef int t0;\n"))
                .diagnostics()
                .is_empty()
        );
    }
    let structs = chain(LESS, |at| format!("struct s{} {{ s{at} a; }};\n", at + 1));
    assert!(
        check(&format!("{structs}struct s0 {{ int b; }};\n"))
            .diagnostics()
            .is_empty()
    );
    // Chains that end in a cycle or in an undefined name.
    let circle = chain(LESS, |at| format!("const C{at} = C{};\n", (at + 1) % LESS));
    assert_eq!(check(&circle).diagnostics().len(), 1);
    let circle = chain(LESS, |at| {
        format!("struct s{at} {{ s{} a; }};\n", (at + 1) % LESS)
    });
    assert_eq!(check(&circle).diagnostics().len(), 1);
    let undefined = chain(5_000, |at| format!("typedef none{at} t{at};\n"));
    assert_eq!(check(&undefined).diagnostics().len(), 5_000);
}

#[test]
fn wide_definitions() {
    let members = chain(30_000, |at| format!("M{at} = {at},\n"));
    assert!(
        check_with(
            &format!("enum e {{ {members} LAST = -1 }};"),
            Code::MissingArms,
            Level::Warn
        )
        .diagnostics()
        .is_empty()
    );
    let fields = chain(30_000, |at| format!("int f{at};\n"));
    assert!(
        check(&format!("struct s {{ {fields} }};"))
            .diagnostics()
            .is_empty()
    );
    let arms = chain(30_000, |at| format!("case {at}: int a{at};\n"));
    assert!(
        check(&format!("union u switch (int d) {{ {arms} }};"))
            .diagnostics()
            .is_empty()
    );
}
