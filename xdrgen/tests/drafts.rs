//! The drafts of `spec/`: what is wrong with them as published, and that the errata mend all of it, and nothing else.

mod common;

use common::{Folder, RTREXT, SETS, SPEC, V2, XCHAREXT_02, XCHAREXT_03, place, report, spec, stands_on, strict};
use xdrgen_build::{Code, Compilation, Config, Diagnostic, Module, useless_errata};

/// One draft alone, as published, as `xdrgen check DRAFT` sees it.
fn alone(draft: &str) -> Compilation {
    Config::new().module(Module::new("draft").document(format!("{SPEC}/{draft}"))).check()
}

/// A set of drafts as one module.
fn together(folder: &str, drafts: &[&str], errata: &str) -> Config {
    let module = drafts.iter().fold(Module::new("v2"), |module, draft| module.document(format!("{folder}/{draft}")));
    strict(Config::new().errata(errata).module(module))
}

/// The diagnostics of a kind on a line.
#[track_caller]
fn on_line<'c>(compilation: &'c Compilation, draft: &str, code: Code, line: usize) -> Vec<&'c Diagnostic> {
    let sources = compilation.sources();
    let found: Vec<_> = compilation.diagnostics().iter().filter(|found| found.code == code).collect();
    let found: Vec<_> = found.into_iter().filter(|found| stands_on(sources, found, draft, &[line])).collect();
    assert!(!found.is_empty(), "no {code} on line {line} of {draft}\n{}", report(compilation));
    found
}

/// Asserts a diagnostic of a kind on each line, whose message or excerpt has a word.
#[track_caller]
fn reports(draft: &str, code: Code, word: &str, lines: &[usize]) {
    let compilation = alone(draft);
    for line in lines {
        let found = on_line(&compilation, draft, code, *line);
        assert!(found.iter().any(|found| found.message.contains(word)), "no `{word}` on line {line}: {found:?}");
    }
}

/// Asserts what the one mend makes of the line it is for.
#[track_caller]
fn mends(draft: &str, code: Code, line: usize, mended: &str) {
    let compilation = alone(draft);
    let found = on_line(&compilation, draft, code, line);
    let [fix] = found[0].fixes.as_slice() else { panic!("not one mend on line {line}: {found:?}") };
    let document = compilation.sources().document_of(fix.span);
    let range = compilation.sources().document_range(fix.span);
    let whole = document.line_range(line);
    let text = document.text();
    let after = format!("{}{}{}", &text[whole.start..range.start], fix.replacement, &text[range.end..whole.end]);
    assert_eq!(after.trim(), mended);
}

#[test]
fn reports_of_drafts_alone() {
    for draft in [V2, XCHAREXT_02, XCHAREXT_03, RTREXT] {
        insta::assert_snapshot!(draft.trim_end_matches(".txt"), report(&alone(draft)));
    }
}

#[test]
fn version_two_alone() {
    reports(V2, Code::UndefinedType, "`rpcrdma2_chunks`", &[600, 602]);
    mends(V2, Code::UndefinedType, 600, "///           rpcrdma2_chunk_lists rdma_chunks;");
    reports(V2, Code::DuplicateArm, "`rdma_chunks`", &[602]);
    let compilation = alone(V2);
    let first = on_line(&compilation, V2, Code::DuplicateArm, 602)[0].notes[0].span.expect("a place");
    assert_eq!(place(compilation.sources(), first), (600, 34));
    assert_eq!(compilation.diagnostics().len(), 3);
}

#[test]
fn xcharext_02_alone() {
    reports(XCHAREXT_02, Code::SwappedTypedef, "which is no type", &[560, 567, 569]);
    mends(XCHAREXT_02, Code::SwappedTypedef, 560, "///typedef uint32         xcharid;");
    mends(XCHAREXT_02, Code::SwappedTypedef, 567, "///typedef xcharval       xcharspec<>;");
    mends(XCHAREXT_02, Code::SwappedTypedef, 569, "///typedef uint32     xcharsubset<>;");
    assert_eq!(alone(XCHAREXT_02).diagnostics().len(), 3);
}

#[test]
fn xcharext_03_alone() {
    reports(XCHAREXT_03, Code::SwappedTypedef, "which is no type", &[966]);
    mends(XCHAREXT_03, Code::SwappedTypedef, 966, "///typedef uint32          propid;");
    reports(XCHAREXT_03, Code::Consistency, "`prop_bsiz` is called `prop_rbsiz`", &[996]);
    reports(XCHAREXT_03, Code::Consistency, "`ROPT_RESPRO` is called `ROPT_RESPROP`", &[1013]);
    mends(XCHAREXT_03, Code::Consistency, 1013, "///const uint32     ROPT_RESPROP = 3;");
    let compilation = alone(XCHAREXT_03);
    for (line, copy) in [(996, 421), (1013, 735)] {
        let found = on_line(&compilation, XCHAREXT_03, Code::Consistency, line)[0];
        assert_eq!(place(compilation.sources(), found.notes[0].span.expect("a place")).0, copy);
    }
}

#[test]
fn rtrext_alone() {
    // Both unions without `{`, in the `///` block and in the text.
    reports(RTREXT, Code::Syntax, "expected `{`", &[1680, 1706]);
    reports(RTREXT, Code::TextSyntax, "expected `{`", &[930, 1014]);
    mends(RTREXT, Code::Syntax, 1680, "/// union xmdp_loc switch(xmdp_type type) {");
    // Each arm with several declarations, from the first of them on.
    reports(RTREXT, Code::SeveralDeclarations, "several declarations", &[1685, 1712, 1855, 1865]);
    reports(RTREXT, Code::TextSyntax, "several declarations", &[935, 1020, 1431, 1440]);
    // `xmdp_pldisp; optxc_pslen;`
    reports(RTREXT, Code::Syntax, "found `;`", &[1832]);
    reports(RTREXT, Code::TextSyntax, "found `;`", &[1374]);
    mends(RTREXT, Code::Syntax, 1832, "///         xmdp_pldisp optxc_pslen;");
    // The missing semicolons.
    reports(RTREXT, Code::Syntax, "expected `;`", &[1847]);
    reports(RTREXT, Code::TextSyntax, "expected `;`", &[646, 1423]);
    mends(RTREXT, Code::Syntax, 1847, "/// };");
    mends(RTREXT, Code::TextSyntax, 646, "};");
    // Names.
    reports(RTREXT, Code::UndefinedConstant, "`XMPTYPE_CHOICE`", &[1709]);
    mends(RTREXT, Code::UndefinedConstant, 1709, "///     case XMPTYPE_CHOOSE:");
    reports(RTREXT, Code::UndefinedType, "`msg_type`", &[1873]);
    reports(RTREXT, Code::UndefinedType, "`rpcrdma1_segment`", &[1683, 1710, 1713]);
}

/// The manifest's compilation in a copy of `spec/` with other errata.
fn with_errata(errata: &str) -> Compilation {
    let folder = Folder::new().with_spec().with("errata.toml", errata);
    Config::from_manifest(folder.path("xdrgen.toml")).expect("the manifest").check()
}

#[test]
fn codes_collide_without_errata() {
    // As published the drafts have other errors too; these concern the codes alone.
    let all = spec("errata.toml");
    let codes = ["line = 1745", "line = 1178", "line = 1797", "line = 1292", "line = 1798", "line = 1332"];
    let codes = [&codes[..], &["line = 1799", "line = 1369", "line = 1800", "line = 1502"]].concat();
    let without: Vec<&str> =
        all.split("[[erratum]]\n").filter(|entry| !codes.iter().any(|line| entry.contains(line))).collect();
    let compilation = with_errata(&without.join("[[erratum]]\n"));
    let found: Vec<_> = compilation.diagnostics().iter().filter(|one| one.code == Code::OverlayCollision).collect();
    let collides = |code: &str, line: usize, other: &str, at: usize| {
        let with = found.iter().filter(|found| stands_on(compilation.sources(), found, RTREXT, &[line]));
        let with: Vec<_> = with.filter(|found| found.message.contains(&format!("`{other}` and `{code}`"))).collect();
        assert_eq!(with.len(), 1, "`{code}`, `{other}`\n{}", report(&compilation));
        let first = with[0].notes[0].span.expect("a place");
        assert_eq!(place(compilation.sources(), first).0, at, "{code}");
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
    assert_eq!(compilation.diagnostics().iter().filter(|found| found.is_error()).count(), found.len());
}

#[test]
fn codes_collide_among_all_other_defects() {
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
fn with_errata_all_is_clean() {
    for set in SETS {
        let compilation = together(SPEC, &set, &format!("{SPEC}/errata.toml")).check();
        assert!(compilation.diagnostics().is_empty(), "{set:?}\n{}", report(&compilation));
        assert!(compilation.generate().is_ok(), "{set:?}");
    }
    let manifest = strict(Config::from_manifest(format!("{SPEC}/xdrgen.toml")).expect("the manifest"));
    let compilation = manifest.check();
    assert!(compilation.diagnostics().is_empty(), "{}", report(&compilation));
}

/// The errata with their documents, and the text before each.
fn errata() -> Vec<(String, String)> {
    let all = spec("errata.toml");
    let entries = all.split("[[erratum]]\n").skip(1).map(|entry| {
        let document = entry.lines().next().and_then(|line| line.split('"').nth(1)).expect("a document");
        (document.to_owned(), format!("[[erratum]]\n{entry}"))
    });
    entries.collect()
}

#[test]
fn no_erratum_can_be_left_out() {
    let all = errata();
    assert_eq!(all.len(), 44);
    let folder = Folder::new().with_spec();
    for (without, (document, entry)) in all.iter().enumerate() {
        let rest: Vec<&str> = all.iter().enumerate().filter(|(at, _)| *at != without).map(|(_, (_, e))| &**e).collect();
        std::fs::write(folder.path("errata.toml"), rest.concat()).expect("errata.toml");
        let manifest = strict(Config::from_manifest(folder.path("xdrgen.toml")).expect("the manifest"));
        assert!(manifest.check().has_errors(), "the manifest is clean without\n{entry}");
        for set in SETS.iter().filter(|set| set.contains(&document.as_str())) {
            let compilation = together(&folder.path(""), set, &folder.path("errata.toml")).check();
            assert!(compilation.has_errors(), "{set:?} is clean without\n{entry}");
        }
    }
}

#[test]
fn no_erratum_is_reported_useless() {
    let manifest = Config::from_manifest(format!("{SPEC}/xdrgen.toml")).expect("the manifest");
    let compilation = useless_errata(&manifest);
    assert!(compilation.diagnostics().is_empty(), "{}", report(&compilation));
}
