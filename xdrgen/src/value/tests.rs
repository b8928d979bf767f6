//! Tests each construct, and every error of the decoder and the encoder.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::DecodeErrorKind::*;
use super::*;
use crate::{Config, Module, Overlay};

mod encode_errors;
mod limits;
mod render;
mod trees;

/// Returns the schema of a document.
fn schema(xdr: &str) -> Schema {
    schema_with_overlays(xdr, Vec::new())
}

/// Returns the schema of a document with overlays.
fn schema_with_overlays(xdr: &str, overlays: Vec<Overlay>) -> Schema {
    let module = overlays
        .into_iter()
        .fold(Module::new("m").text("m.x", xdr), Module::overlay);
    let compilation = Config::new().module(module).check();
    assert!(
        !compilation.has_errors(),
        "{}",
        compilation.report(crate::Style::Plain)
    );
    compilation.schema().clone()
}

fn overlay(name: &str, cases: &[(&str, &str)]) -> Overlay {
    let cases = cases
        .iter()
        .map(|(code, ty)| ((*code).to_owned(), (*ty).to_owned()))
        .collect();
    let [name, carrier, code, data] = [name, "tagged", "tag", "data"].map(str::to_owned);
    Overlay {
        name,
        carrier,
        code,
        data,
        cases,
        ..Overlay::default()
    }
}

fn named(schema: &Schema, name: &str) -> Type {
    Type::Named(schema.find(name).unwrap())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Decodes a value and checks that it encodes to the same bytes.
fn value<'s>(schema: &'s Schema, name: &str, bytes: &[u8]) -> Value<'s> {
    let ty = named(schema, name);
    let node = decode(schema, &ty, bytes, &Limits::DEFAULT)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!((node.offset, node.length), (0, bytes.len()), "{name}");
    assert_eq!(encode(schema, &ty, &node).as_deref(), Ok(bytes), "{name}");
    node.value
}

/// Returns the error of a decode within limits.
fn error_within(
    schema: &Schema,
    name: &str,
    bytes: &[u8],
    limits: &Limits,
) -> (DecodeErrorKind, usize, String) {
    let error = decode(schema, &named(schema, name), bytes, limits).unwrap_err();
    (error.kind, error.offset, error.path)
}

#[track_caller]
fn assert_rejected(
    schema: &Schema,
    name: &str,
    bytes: &[u8],
    kind: DecodeErrorKind,
    offset: usize,
    path: &str,
) {
    let found = error_within(schema, name, bytes, &Limits::DEFAULT);
    assert_eq!(found, (kind, offset, path.to_owned()), "{name}");
}

#[test]
fn names_are_found() {
    let first = Module::new("a")
        .text(
            "a.x",
            "struct one_thing { int x; }; struct both { int x; };",
        )
        .strip("one_");
    let second = Module::new("a::b").text("b.x", "struct both { int x; }; typedef int number;");
    let compilation = Config::new().module(first).module(second).check();
    let schema = compilation.schema();
    for (name, found) in [
        ("one_thing", "a::one_thing"),
        ("a::one_thing", "a::one_thing"),
        ("a::Thing", "a::one_thing"),
        ("a::both", "a::both"),
        ("a::b::both", "a::b::both"),
        ("a::b::Both", "a::b::both"),
        ("number", "a::b::number"),
    ] {
        assert_eq!(
            schema.find(name).map(|id| schema.qualified_name(id)),
            Ok(found.to_owned())
        );
    }
    for (name, message) in [
        ("both", "`both` is ambiguous: `a::both`, `a::b::both`"),
        (
            "nubmer",
            "no type is named `nubmer`; did you mean `number`?",
        ),
        (
            "a::Thin",
            "no type is named `a::Thin`; did you mean `a::Thing`?",
        ),
        (
            "c::one_thing",
            "no type is named `c::one_thing`; did you mean `a::one_thing`?",
        ),
        ("something_else", "no type is named `something_else`"),
        ("", "no type is named ``"),
    ] {
        assert_eq!(schema.find(name).unwrap_err().to_string(), message);
    }
}

/// Returns a union whose discriminant is `w`.
fn union<'s>(
    discriminant: Value<'s>,
    ty: &'s str,
    case: &'s str,
    content: Option<(&'s str, Node<'s>)>,
) -> Value<'s> {
    let discriminant = Node {
        offset: 0,
        length: 4,
        ty: Cow::Borrowed(ty),
        value: discriminant,
    };
    let content = content.map(|(name, node)| (name, Box::new(node)));
    Value::Union {
        name: "w",
        discriminant: Box::new(discriminant),
        case,
        content,
    }
}
