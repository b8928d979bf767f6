#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{Dissector, DissectorError};
use crate::{Config, Module, Overlay, Schema};

const XDR: &str = "
    enum kind { ONE = 1, TWO = 2 };
    struct message { unsigned hyper id; kind what; unsigned magic; opaque data<>; struct chain \
                   *next; };
    struct chain { unsigned value<4>; struct chain *next; };
    struct one { bool yes; };
";

fn schema() -> Schema {
    let overlay = Overlay {
        name: "Data".into(),
        carrier: "envelope".into(),
        code: "code".into(),
        data: "data".into(),
        cases: vec![("A".into(), "one".into())],
        ..Overlay::default()
    };
    let more = "const A = 7; struct envelope { unsigned code; opaque data<>; message inner; };";
    let module = Module::new("m")
        .text("m.x", format!("{XDR}{more}"))
        .overlay(overlay);
    let compilation = Config::new().module(module).check();
    assert!(!compilation.has_errors(), "{:?}", compilation.diagnostics());
    compilation.schema().clone()
}

#[test]
fn each_reachable_type_is_listed_once() {
    let lua = Dissector::new("envelope")
        .protocol("p")
        .generate(&schema())
        .unwrap();
    for name in [
        "p.envelope.code",
        "p.message.what",
        "p.message.next.item",
        "p.one.yes",
    ] {
        let quoted = format!("{{ \"{name}\", ");
        assert_eq!(lua.matches(&quoted).count(), 1, "{name}");
    }
    let small = Dissector::new("one").generate(&schema()).unwrap();
    assert!(small.contains("one.one.yes") && !small.contains("chain"));
}

/// The encoding of a type of the configuration is not known: it is neither a struct nor empty.
#[test]
fn external_types_are_no_structs() {
    let xdr = "struct m { int id; fh object; struct { fh first; } in; fh all<>; int more; };\n\
               struct fh { opaque data<64>; };";
    let config = Config::new().module(Module::new("m").text("m.x", xdr));
    let compilation = config.extern_type("fh", "crate::Handle").check();
    assert!(!compilation.has_errors(), "{:?}", compilation.diagnostics());
    let lua = Dissector::new("m").generate(compilation.schema()).unwrap();
    let (tables, _) = lua.split_once("-- Everything below").unwrap();
    assert_eq!(tables.matches("k = \"external\"").count(), 3, "{tables}");
    assert!(
        tables.contains("\"m.m.object\", \"object\", \"bytes\""),
        "{tables}"
    );
    assert!(
        tables.contains("\"m.m.all.item\", \"all\", \"bytes\""),
        "{tables}"
    );
    let root = Dissector::new("fh").generate(compilation.schema());
    assert_eq!(root, Err(DissectorError::NotAStruct("fh".into())));
}

#[test]
fn expected_field_needs_a_fixed_offset() {
    let message = Dissector::new("message");
    let lua = message
        .clone()
        .expect("magic", 9)
        .generate(&schema())
        .unwrap();
    assert!(lua.contains("match = { { 12, 9, }, }"), "{lua}");
    for field in ["id", "data", "next", "none"] {
        let refused = message.clone().expect(field, 1).generate(&schema());
        assert_eq!(refused, Err(DissectorError::Field(field.into())));
    }
}

#[test]
fn invalid_settings_are_rejected() {
    let generate = |name: &str| Dissector::new(name).generate(&schema());
    assert!(matches!(generate("nothing"), Err(DissectorError::Type(_))));
    assert!(matches!(
        generate("kind"),
        Err(DissectorError::NotAStruct(_))
    ));
    for name in ["", "7", "a b", "A", "a\"b"] {
        let refused = Dissector::new("one").protocol(name).generate(&schema());
        assert_eq!(refused, Err(DissectorError::Protocol(name.into())));
    }
}
