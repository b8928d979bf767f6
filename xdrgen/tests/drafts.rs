//! Tests the drafts of `spec/`: their defects as published, and that the errata repair exactly
//! these defects.

mod common;

use common::{
    Folder, RTREXT, SETS, SPEC, V2, XCHAREXT_02, XCHAREXT_03, is_on_lines, line_and_column, report,
    spec, strict,
};
use xdrgen_build::{Code, Compilation, Config, Diagnostic, Module, useless_errata};

/// Checks one draft as published, as `xdrgen check DRAFT` does.
fn check_alone(draft: &str) -> Compilation {
    Config::new()
        .module(Module::new("draft").document(format!("{SPEC}/{draft}")))
        .check()
}

/// Configures a set of drafts as one module.
fn module_of(folder: &str, drafts: &[&str], errata: &str) -> Config {
    let module = drafts.iter().fold(Module::new("v2"), |module, draft| {
        module.document(format!("{folder}/{draft}"))
    });
    strict(Config::new().errata(errata).module(module))
}

/// Returns the diagnostics with a code on a line.
#[track_caller]
fn on_line<'c>(
    compilation: &'c Compilation,
    draft: &str,
    code: Code,
    line: usize,
) -> Vec<&'c Diagnostic> {
    let sources = compilation.sources();
    let found: Vec<_> = compilation
        .diagnostics()
        .iter()
        .filter(|found| found.code == code)
        .collect();
    let found: Vec<_> = found
        .into_iter()
        .filter(|found| is_on_lines(sources, found, draft, &[line]))
        .collect();
    assert!(
        !found.is_empty(),
        "no {code} on line {line} of {draft}\n{}",
        report(compilation)
    );
    found
}

/// Asserts a diagnostic with a code on each line, whose message contains a word.
#[track_caller]
fn assert_reports(draft: &str, code: Code, word: &str, lines: &[usize]) {
    let compilation = check_alone(draft);
    for line in lines {
        let found = on_line(&compilation, draft, code, *line);
        assert!(
            found.iter().any(|found| found.message.contains(word)),
            "no `{word}` on line {line}: {found:?}"
        );
    }
}

/// Asserts the line after the only fix is applied.
#[track_caller]
fn assert_fix(draft: &str, code: Code, line: usize, expected: &str) {
    let compilation = check_alone(draft);
    let found = on_line(&compilation, draft, code, line);
    let [fix] = found[0].fixes.as_slice() else {
        panic!("not one fix on line {line}: {found:?}")
    };
    let document = compilation.sources().document_of(fix.span);
    let range = compilation.sources().document_range(fix.span);
    let whole = document.line_range(line);
    let text = document.text();
    let after = format!(
        "{}{}{}",
        &text[whole.start..range.start],
        fix.replacement,
        &text[range.end..whole.end]
    );
    assert_eq!(after.trim(), expected);
}

#[test]
fn reports_of_drafts_alone() {
    for draft in [V2, XCHAREXT_02, XCHAREXT_03, RTREXT] {
        insta::assert_snapshot!(draft.trim_end_matches(".txt"), report(&check_alone(draft)));
    }
}

#[test]
fn version_two_alone() {
    assert_reports(V2, Code::UndefinedType, "`rpcrdma2_chunks`", &[600, 602]);
    assert_fix(
        V2,
        Code::UndefinedType,
        600,
        "///           rpcrdma2_chunk_lists rdma_chunks;",
    );
    assert_reports(V2, Code::DuplicateArm, "`rdma_chunks`", &[602]);
    let compilation = check_alone(V2);
    let first = on_line(&compilation, V2, Code::DuplicateArm, 602)[0].notes[0]
        .span
        .expect("a span");
    assert_eq!(line_and_column(compilation.sources(), first), (600, 34));
    assert_eq!(compilation.diagnostics().len(), 3);
}

#[test]
fn xcharext_02_alone() {
    assert_reports(
        XCHAREXT_02,
        Code::SwappedTypedef,
        "which is not a type",
        &[560, 567, 569],
    );
    assert_fix(
        XCHAREXT_02,
        Code::SwappedTypedef,
        560,
        "///typedef uint32         xcharid;",
    );
    assert_fix(
        XCHAREXT_02,
        Code::SwappedTypedef,
        567,
        "///typedef xcharval       xcharspec<>;",
    );
    assert_fix(
        XCHAREXT_02,
        Code::SwappedTypedef,
        569,
        "///typedef uint32     xcharsubset<>;",
    );
    assert_eq!(check_alone(XCHAREXT_02).diagnostics().len(), 3);
}

#[test]
fn xcharext_03_alone() {
    assert_reports(
        XCHAREXT_03,
        Code::SwappedTypedef,
        "which is not a type",
        &[966],
    );
    assert_fix(
        XCHAREXT_03,
        Code::SwappedTypedef,
        966,
        "///typedef uint32          propid;",
    );
    assert_reports(
        XCHAREXT_03,
        Code::Consistency,
        "`prop_bsiz` is called `prop_rbsiz`",
        &[996],
    );
    assert_reports(
        XCHAREXT_03,
        Code::Consistency,
        "`ROPT_RESPRO` is called `ROPT_RESPROP`",
        &[1013],
    );
    assert_fix(
        XCHAREXT_03,
        Code::Consistency,
        1013,
        "///const uint32     ROPT_RESPROP = 3;",
    );
    let compilation = check_alone(XCHAREXT_03);
    for (line, copy) in [(996, 421), (1013, 735)] {
        let found = on_line(&compilation, XCHAREXT_03, Code::Consistency, line)[0];
        assert_eq!(
            line_and_column(compilation.sources(), found.notes[0].span.expect("a span")).0,
            copy
        );
    }
}

#[test]
fn rtrext_alone() {
    // Both unions without `{`, in the `///` block and in the text.
    assert_reports(RTREXT, Code::Syntax, "expected `{`", &[1680, 1706]);
    assert_reports(RTREXT, Code::TextSyntax, "expected `{`", &[930, 1014]);
    assert_fix(
        RTREXT,
        Code::Syntax,
        1680,
        "/// union xmdp_loc switch(xmdp_type type) {",
    );
    // Each arm with several declarations, from its first declaration on.
    assert_reports(
        RTREXT,
        Code::SeveralDeclarations,
        "several declarations",
        &[1685, 1712, 1855, 1865],
    );
    assert_reports(
        RTREXT,
        Code::TextSyntax,
        "several declarations",
        &[935, 1020, 1431, 1440],
    );
    // `xmdp_pldisp; optxc_pslen;`
    assert_reports(RTREXT, Code::Syntax, "found `;`", &[1832]);
    assert_reports(RTREXT, Code::TextSyntax, "found `;`", &[1374]);
    assert_fix(
        RTREXT,
        Code::Syntax,
        1832,
        "///         xmdp_pldisp optxc_pslen;",
    );
    // The missing semicolons.
    assert_reports(RTREXT, Code::Syntax, "expected `;`", &[1847]);
    assert_reports(RTREXT, Code::TextSyntax, "expected `;`", &[646, 1423]);
    assert_fix(RTREXT, Code::Syntax, 1847, "/// };");
    assert_fix(RTREXT, Code::TextSyntax, 646, "};");
    // Names.
    assert_reports(RTREXT, Code::UndefinedConstant, "`XMPTYPE_CHOICE`", &[1709]);
    assert_fix(
        RTREXT,
        Code::UndefinedConstant,
        1709,
        "///     case XMPTYPE_CHOOSE:",
    );
    assert_reports(RTREXT, Code::UndefinedType, "`msg_type`", &[1873]);
    assert_reports(
        RTREXT,
        Code::UndefinedType,
        "`rpcrdma1_segment`",
        &[1683, 1710, 1713],
    );
}

/// Checks the manifest in a copy of `spec/` with other errata.
fn with_errata(errata: &str) -> Compilation {
    let folder = Folder::new().with_spec().with("errata.toml", errata);
    Config::from_manifest(folder.path("xdrgen.toml"))
        .expect("the manifest")
        .check()
}

#[test]
fn codes_collide_without_errata() {
    // The drafts as published have other errors too. These errata concern only the codes.
    let all = spec("errata.toml");
    let codes = [
        "line = 1745",
        "line = 1178",
        "line = 1797",
        "line = 1292",
        "line = 1798",
        "line = 1332",
    ];
    let codes = [
        &codes[..],
        &["line = 1799", "line = 1369", "line = 1800", "line = 1502"],
    ]
    .concat();
    let without: Vec<&str> = all
        .split("[[erratum]]\n")
        .filter(|entry| !codes.iter().any(|line| entry.contains(line)))
        .collect();
    let compilation = with_errata(&without.join("[[erratum]]\n"));
    let found: Vec<_> = compilation
        .diagnostics()
        .iter()
        .filter(|one| one.code == Code::OverlayCollision)
        .collect();
    let collides = |code: &str, line: usize, other: &str, at: usize| {
        let with = found
            .iter()
            .filter(|found| is_on_lines(compilation.sources(), found, RTREXT, &[line]));
        let with: Vec<_> = with
            .filter(|found| found.message.contains(&format!("`{other}` and `{code}`")))
            .collect();
        assert_eq!(
            with.len(),
            1,
            "`{code}`, `{other}`\n{}",
            report(&compilation)
        );
        let first = with[0].notes[0].span.expect("a span");
        assert_eq!(
            line_and_column(compilation.sources(), first).0,
            at,
            "{code}"
        );
    };
    // Operations: of the properties, and of the characteristics.
    collides("ROPT_XMTREQ", 1797, "ROPT_CONNPROP", 1003);
    collides("ROPT_XMTRESP", 1798, "ROPT_REQPROP", 1004);
    collides("ROPT_XMTCONT", 1799, "ROPT_RESPROP", 1013);
    collides("ROPT_REPTERR", 1800, "ROPT_UPDPROP", 1014);
    collides("ROPT_XMTREQ", 1797, "ROPT_INITXCH", 597);
    collides("ROPT_XMTRESP", 1798, "ROPT_REQXCH", 598);
    collides("ROPT_XMTCONT", 1799, "ROPT_RESPXCH", 599);
    collides("ROPT_REPTERR", 1800, "ROPT_UPDXCH", 600);
    // Properties.
    collides("XPROP_RTRSUPP", 1745, "PROP_BRS", 982);
    collides("XPROP_RTRSUPP", 1745, "XCHAR_BRS", 576);
    assert_eq!(
        compilation
            .diagnostics()
            .iter()
            .filter(|found| found.is_error())
            .count(),
        found.len()
    );
}

#[test]
fn colliding_codes_are_reported_among_other_defects() {
    let compilation = with_errata("");
    let lines = [1745, 1797, 1798, 1799, 1800];
    for line in lines {
        on_line(&compilation, RTREXT, Code::OverlayCollision, line);
    }
    for (draft, code, line) in [
        (V2, Code::DuplicateArm, 602),
        (XCHAREXT_02, Code::SwappedTypedef, 560),
        (XCHAREXT_03, Code::SwappedTypedef, 966),
        (RTREXT, Code::UndefinedType, 1683),
        (RTREXT, Code::SeveralDeclarations, 1865),
    ] {
        on_line(&compilation, draft, code, line);
    }
}

#[test]
fn the_drafts_are_clean_with_errata() {
    for set in SETS {
        let compilation = module_of(SPEC, &set, &format!("{SPEC}/errata.toml")).check();
        assert!(
            compilation.diagnostics().is_empty(),
            "{set:?}\n{}",
            report(&compilation)
        );
        assert!(compilation.generate().is_ok(), "{set:?}");
    }
    let manifest =
        strict(Config::from_manifest(format!("{SPEC}/xdrgen.toml")).expect("the manifest"));
    let compilation = manifest.check();
    assert!(
        compilation.diagnostics().is_empty(),
        "{}",
        report(&compilation)
    );
}

/// Returns each erratum with its document.
fn errata() -> Vec<(String, String)> {
    let all = spec("errata.toml");
    let entries = all.split("[[erratum]]\n").skip(1).map(|entry| {
        let document = entry
            .lines()
            .next()
            .and_then(|line| line.split('"').nth(1))
            .expect("a document");
        (document.to_owned(), format!("[[erratum]]\n{entry}"))
    });
    entries.collect()
}

#[test]
fn every_erratum_is_needed() {
    let all = errata();
    assert_eq!(all.len(), 44);
    let folder = Folder::new().with_spec();
    for (without, (document, entry)) in all.iter().enumerate() {
        let rest: Vec<&str> = all
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != without)
            .map(|(_, (_, e))| &**e)
            .collect();
        std::fs::write(folder.path("errata.toml"), rest.concat()).expect("errata.toml");
        let manifest =
            strict(Config::from_manifest(folder.path("xdrgen.toml")).expect("the manifest"));
        assert!(
            manifest.check().has_errors(),
            "the manifest is clean without\n{entry}"
        );
        for set in SETS.iter().filter(|set| set.contains(&document.as_str())) {
            let compilation = module_of(&folder.path(""), set, &folder.path("errata.toml")).check();
            assert!(
                compilation.has_errors(),
                "{set:?} is clean without\n{entry}"
            );
        }
    }
}

#[test]
fn no_erratum_is_reported_useless() {
    let manifest = Config::from_manifest(format!("{SPEC}/xdrgen.toml")).expect("the manifest");
    let compilation = useless_errata(&manifest);
    assert!(
        compilation.diagnostics().is_empty(),
        "{}",
        report(&compilation)
    );
}

/// The XDR of xcharext has no blank after the marker on 31 lines of each revision; the script in
/// the same draft removes `/// `. The test checks the first and the last.
#[test]
fn markers_without_a_blank() {
    for (draft, first, last) in [(XCHAREXT_02, 557, 623), (XCHAREXT_03, 963, 1037)] {
        let module = Module::new("draft").document(format!("{SPEC}/{draft}"));
        let config = Config::new().module(module);
        let config = config
            .lint(Code::UnspacedMarker, xdrgen_build::Level::Warn)
            .expect("a lint");
        let compilation = config.check();
        let lines: Vec<usize> = compilation
            .diagnostics()
            .iter()
            .filter(|found| found.code == Code::UnspacedMarker)
            .filter_map(|found| found.span)
            .map(|span| line_and_column(compilation.sources(), span).0)
            .collect();
        assert_eq!(
            (lines.len(), lines[0], lines[30]),
            (31, first, last),
            "{draft}"
        );
    }
}
