//! Tests that the encoder checks trees against the schema.

use super::*;

/// Asserts the error of a tree that the caller built.
#[track_caller]
fn assert_encode_error(schema: &Schema, name: &str, value: Value<'_>, message: &str) {
    let error = encode(schema, &named(schema, name), &Node::from(value)).unwrap_err();
    assert_eq!(error.to_string(), message);
}

#[test]
fn trees_are_checked_against_the_schema() {
    let schema = schema(
        "enum e { A = 1 }; struct s { int x; opaque o[2]; string t<2>; e m; int few<1>; int \
        two[2]; };
         union u switch (e w) { case A: int x; }; union v switch (int w) { case 1: void; };
         typedef opaque big<1>; struct chain { int x; chain *next; }; struct head { chain *first; \
         };",
    );
    let encoded = value(
        &schema,
        "s",
        &words(&[7, 0x0102_0000, 1, 0x6100_0000, 1, 1, 9, 3, 4]),
    );
    let Value::Struct(fields) = &encoded else {
        panic!()
    };
    let changed = |at: usize, value: Value<'static>| {
        let mut fields = fields.clone();
        fields[at].1.value = value;
        Value::Struct(fields)
    };
    let short = Value::Struct(fields[..5].to_vec());
    let nodes = |count| {
        (0..count)
            .map(|_| Node::from(Value::I32(0)))
            .collect::<Vec<_>>()
    };
    assert_encode_error(
        &schema,
        "s",
        changed(0, Value::U32(7)),
        "x: expected `int`, found `unsigned int`",
    );
    assert_encode_error(
        &schema,
        "s",
        changed(1, Value::Opaque(vec![1])),
        "o: length 1 is not 2",
    );
    assert_encode_error(
        &schema,
        "s",
        changed(2, Value::String(vec![0; 3])),
        "t: length 3 exceeds the bound 2",
    );
    assert_encode_error(
        &schema,
        "s",
        changed(2, Value::Opaque(vec![])),
        "t: expected `string<2>`, found `opaque`",
    );
    assert_encode_error(
        &schema,
        "s",
        changed(
            3,
            Value::Enum {
                name: "A",
                value: 2,
            },
        ),
        "m: 2 is not a member of the enumeration",
    );
    assert_encode_error(
        &schema,
        "s",
        changed(4, Value::Array(nodes(2))),
        "few: length 2 exceeds the bound 1",
    );
    assert_encode_error(
        &schema,
        "s",
        changed(4, Value::EmptyArray(1)),
        "few: expected `int<1>`, found `array`",
    );
    assert_encode_error(
        &schema,
        "s",
        changed(5, Value::Array(nodes(3))),
        "two: length 3 is not 2",
    );
    assert_encode_error(&schema, "s", short, "expected `two`, found nothing");
    assert_encode_error(
        &schema,
        "s",
        Value::Struct(vec![("y", Value::I32(0).into())]),
        "expected `x`, found `y`",
    );
    assert_encode_error(&schema, "s", Value::Empty, "expected `s`, found `empty`");
    assert_encode_error(
        &schema,
        "u",
        union(Value::Enum { name: "", value: 1 }, "", "", None),
        "expected `x`, found nothing",
    );
    assert_encode_error(
        &schema,
        "u",
        union(Value::I32(1), "", "", None),
        "expected `e`, found `int`",
    );
    assert_encode_error(
        &schema,
        "v",
        union(Value::I32(2), "", "", None),
        "discriminant 2 without an arm",
    );
    let more = union(Value::I32(1), "", "", Some(("x", Value::I32(1).into())));
    assert_encode_error(&schema, "v", more, "expected nothing, found `x`");
    let schema_with_overlays = Value::TypedOpaque {
        bytes: vec![1, 2],
        readings: Vec::new(),
    };
    assert_encode_error(
        &schema,
        "big",
        schema_with_overlays,
        "length 2 exceeds the bound 1",
    );
    let list = vec![Value::I32(1).into(), Value::Bool(true).into()];
    let head = Value::Struct(vec![("first", Value::List(list).into())]);
    assert_encode_error(
        &schema,
        "head",
        head,
        "first[1]: expected `int`, found `bool`",
    );

    // Trees built by the caller that are valid.
    let schema_with_overlays = Node::from(Value::TypedOpaque {
        bytes: vec![9],
        readings: Vec::new(),
    });
    assert_eq!(
        encode(&schema, &named(&schema, "big"), &schema_with_overlays),
        Ok(vec![0, 0, 0, 1, 9, 0, 0, 0])
    );
    let arm = union(
        Value::Enum { name: "", value: 1 },
        "",
        "",
        Some(("x", Value::I32(5).into())),
    );
    assert_eq!(
        encode(&schema, &named(&schema, "u"), &arm.into()),
        Ok(words(&[1, 5]))
    );
}
