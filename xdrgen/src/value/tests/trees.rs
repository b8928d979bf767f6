//! Tests the bytes, the tree and the errors of each construct.

use super::*;

#[test]
fn numbers() {
    let schema = schema(
        "typedef int i; typedef unsigned int u; typedef hyper h; typedef unsigned hyper uh;
         typedef float f; typedef double d; typedef quadruple q; typedef bool b;",
    );
    let eight = words(&[0xffff_ffff, 0xffff_fffe]);
    let table: [(&str, &[u8], Value<'_>); 9] = [
        ("i", &eight[4..], Value::I32(-2)),
        ("u", &eight[4..], Value::U32(0xffff_fffe)),
        ("h", &eight, Value::I64(-2)),
        ("uh", &eight, Value::U64(u64::MAX - 1)),
        ("f", &eight[4..], Value::F32(0xffff_fffe)),
        ("d", &eight, Value::F64(u64::MAX - 1)),
        ("q", &[7; 16], Value::Quadruple([7; 16])),
        ("b", &[0, 0, 0, 1], Value::Bool(true)),
        ("b", &[0; 4], Value::Bool(false)),
    ];
    for (name, bytes, expected) in table {
        assert_eq!(value(&schema, name, bytes), expected);
        assert_rejected(&schema, name, &bytes[1..], UnexpectedEnd, 0, "");
        assert_rejected(
            &schema,
            name,
            &[bytes, &[0]].concat(),
            TrailingBytes,
            bytes.len(),
            "",
        );
    }
    assert_rejected(&schema, "b", &[0, 0, 0, 2], InvalidBool, 0, "");
    assert_rejected(&schema, "b", &[1, 0, 0, 0], InvalidBool, 0, "");
}

#[test]
fn opaques_and_strings() {
    let schema = schema(
        "typedef opaque five[5]; typedef opaque some<5>; typedef opaque any<>; typedef string \
        text<5>;
         typedef opaque none[0]; struct s { int before; some o; };",
    );
    assert_eq!(
        value(&schema, "five", &[1, 2, 3, 4, 5, 0, 0, 0]),
        Value::Opaque(vec![1, 2, 3, 4, 5])
    );
    assert_rejected(&schema, "five", &[1, 2, 3, 4], UnexpectedEnd, 0, "");
    assert_rejected(
        &schema,
        "five",
        &[1, 2, 3, 4, 5, 0, 0],
        UnexpectedEnd,
        5,
        "",
    );
    assert_rejected(
        &schema,
        "five",
        &[1, 2, 3, 4, 5, 0, 0, 1],
        InvalidPadding,
        5,
        "",
    );
    assert_eq!(value(&schema, "none", &[]), Value::Empty);

    let bytes = [0, 0, 0, 3, 97, 98, 255, 0];
    assert_eq!(
        value(&schema, "some", &bytes),
        Value::Opaque(vec![97, 98, 255])
    );
    assert_eq!(
        value(&schema, "any", &bytes),
        Value::Opaque(vec![97, 98, 255])
    );
    assert_eq!(
        value(&schema, "text", &bytes),
        Value::String(vec![97, 98, 255])
    );
    assert_eq!(value(&schema, "text", &[0; 4]), Value::String(vec![]));
    for name in ["some", "text"] {
        assert_rejected(
            &schema,
            name,
            &[0, 0, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0],
            TooLong,
            0,
            "",
        );
        assert_rejected(
            &schema,
            name,
            &[0, 0, 0, 5, 1, 2, 3, 4],
            UnexpectedEnd,
            4,
            "",
        );
        assert_rejected(
            &schema,
            name,
            &[0, 0, 0, 1, 1, 0, 7, 0],
            InvalidPadding,
            5,
            "",
        );
    }
    assert_rejected(&schema, "any", &[255; 4], UnexpectedEnd, 4, "");
    assert_rejected(&schema, "s", &words(&[0, 6]), TooLong, 4, "o");
    assert_rejected(&schema, "s", &[0, 0, 0, 0, 0], UnexpectedEnd, 4, "o");
}

#[test]
fn enums() {
    let schema = schema("enum e { A = -1, B = 5, C = 5 }; struct s { e es[2]; };");
    assert_eq!(
        value(&schema, "e", &[255; 4]),
        Value::Enum {
            name: "A",
            value: -1
        }
    );
    assert_eq!(
        value(&schema, "e", &words(&[5])),
        Value::Enum {
            name: "B",
            value: 5
        }
    );
    assert_rejected(&schema, "e", &words(&[6]), InvalidEnum, 0, "");
    assert_rejected(&schema, "s", &words(&[5, 6]), InvalidEnum, 4, "es[1]");
}

#[test]
fn fields_have_offsets() {
    let schema =
        schema("struct p { int x; hyper y; }; struct s { p first; string name<>; p last; };");
    let bytes = [words(&[1, 0, 2, 1]), b"a\0\0\0".to_vec(), words(&[3, 0, 4])].concat();
    let node = decode(&schema, &named(&schema, "s"), &bytes, &Limits::DEFAULT).unwrap();
    let Value::Struct(fields) = node.value else {
        panic!()
    };
    let places: Vec<_> = fields
        .iter()
        .map(|(name, node)| (*name, &*node.ty, node.offset, node.length))
        .collect();
    assert_eq!(
        places,
        [
            ("first", "p", 0, 12),
            ("name", "string<>", 12, 8),
            ("last", "p", 20, 12)
        ]
    );
    let Value::Struct(last) = &fields[2].1.value else {
        panic!()
    };
    assert_eq!((last[1].1.offset, &last[1].1.value), (24, &Value::I64(4)));
    assert_rejected(&schema, "s", &bytes[..31], UnexpectedEnd, 24, "last.y");
    assert_rejected(&schema, "s", &bytes[..6], UnexpectedEnd, 4, "first.y");
}

#[test]
fn unions() {
    let schema = schema(
        "const LOW = -7; enum e { A = 1, B = 2, C = 3 };
         union i switch (int w) { case LOW: case 0: hyper h; case 1: void; default: string \
         rest<2>; };
         union u switch (unsigned int w) { case 4294967295: void; };
         union b switch (bool w) { case TRUE: int x; default: void; };
         union n switch (e w) { case A: bool a; case B: void; };
         union d switch (e w) { case A: bool a; default: void; };",
    );
    let number = Node {
        offset: 4,
        length: 8,
        ty: Cow::Borrowed("hyper"),
        value: Value::I64(9),
    };
    let low = value(&schema, "i", &words(&[0xffff_fff9, 0, 9]));
    assert_eq!(
        low,
        union(Value::I32(-7), "int", "LOW", Some(("h", number.clone())))
    );
    assert_eq!(
        value(&schema, "i", &words(&[0, 0, 9])),
        union(Value::I32(0), "int", "0", Some(("h", number)))
    );
    assert_eq!(
        value(&schema, "i", &words(&[1])),
        union(Value::I32(1), "int", "1", None)
    );
    let rest = Node {
        offset: 4,
        length: 4,
        ty: Cow::Borrowed("string<2>"),
        value: Value::String(vec![]),
    };
    assert_eq!(
        value(&schema, "i", &words(&[2, 0])),
        union(Value::I32(2), "int", "default", Some(("rest", rest)))
    );
    assert_eq!(
        value(&schema, "u", &[255; 4]),
        union(Value::U32(u32::MAX), "unsigned int", "4294967295", None)
    );
    assert_eq!(
        value(&schema, "b", &[0; 4]),
        union(Value::Bool(false), "bool", "FALSE", None)
    );
    assert_eq!(
        value(&schema, "n", &words(&[2])),
        union(
            Value::Enum {
                name: "B",
                value: 2
            },
            "e",
            "B",
            None
        )
    );
    assert_eq!(
        value(&schema, "d", &words(&[3])),
        union(
            Value::Enum {
                name: "C",
                value: 3
            },
            "e",
            "default",
            None
        )
    );

    assert_rejected(&schema, "i", &words(&[2, 3]), TooLong, 4, "rest");
    assert_rejected(&schema, "i", &[0, 0, 0], UnexpectedEnd, 0, "");
    assert_rejected(&schema, "u", &words(&[0]), InvalidDiscriminant, 0, "");
    assert_rejected(&schema, "b", &words(&[2]), InvalidDiscriminant, 0, "");
    assert_rejected(&schema, "n", &words(&[3]), InvalidDiscriminant, 0, "");
    assert_rejected(&schema, "n", &words(&[9]), InvalidDiscriminant, 0, "");
    assert_rejected(&schema, "n", &words(&[1, 2]), InvalidBool, 4, "a");
    assert_rejected(&schema, "d", &words(&[9]), InvalidEnum, 0, "");
}

fn numbers_of(value: &Value<'_>) -> Vec<(usize, i32)> {
    let (Value::Array(nodes) | Value::List(nodes)) = value else {
        panic!("{value:?}")
    };
    let number = |node: &Node<'_>| match node.value {
        Value::I32(number) => (node.offset, number),
        _ => panic!("{node:?}"),
    };
    nodes.iter().map(number).collect()
}

/// RFC 4506, section 4.19: a node is its fields and the pointer to the next one, wherever the
/// document uses it.
#[test]
fn list_nodes_and_lists() {
    let nodes = "struct node { int v; node *next; }; struct pair { int a; int b; pair *next; };";
    let uses = [
        "struct h { node *head; pair *pairs; };",
        "struct h { node *head; node one; pair *pairs; pair two; };",
        "typedef node *nodes; typedef pair *pairs;",
    ];
    for uses in uses {
        let schema = schema(&format!("{nodes} {uses}"));
        let Value::Struct(fields) = value(&schema, "node", &words(&[7, 1, 8, 0])) else {
            panic!("{uses}")
        };
        assert_eq!((fields[0].0, &fields[0].1.value), ("v", &Value::I32(7)));
        assert_eq!(numbers_of(&fields[1].1.value), [(8, 8)], "{uses}");
        assert_rejected(&schema, "node", &words(&[7]), UnexpectedEnd, 4, "next");
        let Value::Struct(fields) = value(&schema, "pair", &words(&[7, 8, 0])) else {
            panic!("{uses}")
        };
        assert_eq!(fields.len(), 3, "{uses}");
    }
    let schema = schema(&format!("{nodes} {}", uses[0]));
    let list = value(&schema, "*node", &words(&[1, 7, 1, 8, 0]));
    assert_eq!(numbers_of(&list), [(4, 7), (12, 8)]);
    assert_eq!(schema.find("m::NodeItems"), schema.find("*node"));
}

#[test]
fn sequences() {
    let schema = schema(
        "typedef int two[2]; typedef int some<2>; typedef some rows<>;
         struct chain { int x; chain *next; }; struct head { chain *first; bool b; };",
    );
    assert_eq!(
        numbers_of(&value(&schema, "two", &words(&[7, 8]))),
        [(0, 7), (4, 8)]
    );
    assert_eq!(
        numbers_of(&value(&schema, "some", &words(&[2, 7, 8]))),
        [(4, 7), (8, 8)]
    );
    assert_rejected(&schema, "two", &words(&[7]), UnexpectedEnd, 4, "[1]");
    assert_rejected(&schema, "some", &words(&[3, 1, 2, 3]), TooLong, 0, "");
    assert_rejected(&schema, "rows", &words(&[2, 1, 7, 3]), TooLong, 12, "[1]");
    assert_rejected(
        &schema,
        "rows",
        &words(&[2, 1, 7, 1]),
        UnexpectedEnd,
        16,
        "[1][0]",
    );

    let Value::Struct(fields) = value(&schema, "head", &words(&[1, 7, 1, 8, 0, 1])) else {
        panic!()
    };
    assert_eq!(
        (numbers_of(&fields[0].1.value), &*fields[0].1.ty),
        (vec![(4, 7), (12, 8)], "int *")
    );
    assert_rejected(&schema, "head", &words(&[1, 7, 2]), InvalidBool, 8, "first");
    assert_rejected(
        &schema,
        "head",
        &words(&[1, 7, 1]),
        UnexpectedEnd,
        12,
        "first[1]",
    );
    assert_rejected(&schema, "head", &words(&[1, 7]), UnexpectedEnd, 8, "first");
}

#[test]
fn optionals_and_recursion() {
    let schema = schema("struct t { t *l; t *r; bool v; }; typedef int *maybe;");
    assert_eq!(value(&schema, "maybe", &[0; 4]), Value::Optional(None));
    let seven = Node {
        offset: 4,
        length: 4,
        ty: Cow::Borrowed("int"),
        value: Value::I32(7),
    };
    assert_eq!(
        value(&schema, "maybe", &words(&[1, 7])),
        Value::Optional(Some(Box::new(seven)))
    );
    assert_rejected(&schema, "maybe", &words(&[2, 7]), InvalidBool, 0, "");
    assert_rejected(&schema, "maybe", &words(&[1]), UnexpectedEnd, 4, "");

    let Value::Struct(fields) = value(&schema, "t", &words(&[0, 1, 0, 0, 1, 0])) else {
        panic!()
    };
    let Value::Optional(Some(right)) = &fields[1].1.value else {
        panic!()
    };
    assert_eq!(
        (&*fields[1].1.ty, &*right.ty, right.offset, right.length),
        ("t *", "t", 8, 12)
    );
    assert_rejected(
        &schema,
        "t",
        &words(&[0, 1, 0, 0, 2, 0]),
        InvalidBool,
        16,
        "r.v",
    );
}

#[test]
fn types_without_bytes_are_empty() {
    let schema = schema(
        "struct empty { opaque none[0]; int neither[0]; }; typedef empty many<>; typedef empty \
        two[2];
         struct s { empty e; int x; many ms; two t; };",
    );
    assert_eq!(value(&schema, "empty", &[]), Value::Empty);
    assert_eq!(value(&schema, "many", &words(&[3])), Value::EmptyArray(3));
    assert_eq!(value(&schema, "many", &words(&[0])), Value::EmptyArray(0));
    let Value::Struct(fields) = value(&schema, "s", &words(&[7, 65_536])) else {
        panic!()
    };
    let values: Vec<_> = fields.iter().map(|(_, node)| &node.value).collect();
    assert_eq!(
        values,
        [
            &Value::Empty,
            &Value::I32(7),
            &Value::EmptyArray(65_536),
            &Value::Empty
        ]
    );
    assert_rejected(&schema, "s", &words(&[7, 65_537]), ElementLimit, 8, "ms");
}

#[test]
fn a_prefix_may_have_trailing_bytes() {
    let schema = schema("struct s { int x; string y<>; };");
    let bytes = [&words(&[1, 0])[..], b"payload"].concat();
    let node = decode_prefix(&schema, &named(&schema, "s"), &bytes, &Limits::DEFAULT).unwrap();
    assert_eq!(&bytes[node.length..], b"payload");
    assert_rejected(&schema, "s", &bytes, TrailingBytes, 8, "");
    let error =
        decode_prefix(&schema, &named(&schema, "s"), &bytes[..7], &Limits::DEFAULT).unwrap_err();
    assert_eq!(error.to_string(), "y: unexpected end of input at byte 4");
    // A type without a definition.
    let three = Type::Fixed(Box::new(Type::Primitive(Primitive::Bool)), 3);
    let node = decode_prefix(&schema, &three, &[0; 13], &Limits::DEFAULT).unwrap();
    assert_eq!((node.length, &*node.ty), (12, "bool[3]"));
}

const TAGGED: &str =
    "const N = 1; const T = 2; const R = 3; typedef unsigned int code; struct tagged { code tag; \
    opaque data<64>; };
     struct r { int x; tagged inner; }; typedef string name<4>; struct outer { int before; tagged \
     t; };";

fn readings<'v>(value: &'v Value<'_>) -> &'v [Reading<'v>] {
    let Value::Struct(fields) = value else {
        panic!("{value:?}")
    };
    match &fields[1].1.value {
        Value::Opaque(_) => &[],
        Value::TypedOpaque { readings, .. } => readings,
        Value::Struct(_) => readings(&fields[1].1.value),
        other => panic!("{other:?}"),
    }
}

#[test]
fn overlays_read_opaques() {
    let schema = schema_with_overlays(
        TAGGED,
        vec![overlay(
            "Content",
            &[("N", "uint32"), ("T", "name"), ("R", "r")],
        )],
    );
    let known = value(&schema, "outer", &words(&[0, 1, 4, 7]));
    let [reading] = readings(&known) else {
        panic!("{known:?}")
    };
    assert_eq!((&*reading.overlay, reading.case), ("m::Content", "N"));
    let content = reading.content.as_ref().unwrap().as_ref().unwrap();
    assert_eq!(
        (content.offset, content.length, &content.value),
        (12, 4, &Value::U32(7))
    );
    // Errors in the content belong to the reading; their offsets are those of the input.
    for (bytes, fault) in [
        (
            &words(&[0, 1, 8, 7, 9])[..],
            "t.data: trailing bytes after the value at byte 16",
        ),
        (
            &words(&[0, 1, 0]),
            "t.data: unexpected end of input at byte 12",
        ),
        (
            &words(&[0, 2, 4, 5]),
            "t.data: length exceeds its bound at byte 12",
        ),
        (
            &words(&[0, 3, 8, 0, 1]),
            "t.data.inner.data: unexpected end of input at byte 20",
        ),
    ] {
        let carrier = value(&schema, "outer", bytes);
        assert_eq!(
            readings(&carrier)[0]
                .content
                .as_ref()
                .unwrap_err()
                .to_string(),
            fault
        );
    }
    assert_eq!(
        readings(&value(&schema, "outer", &words(&[0, 9, 4, 7]))),
        []
    );
    // A content within a content.
    let nested = value(&schema, "tagged", &words(&[3, 16, 5, 1, 4, 7]));
    let content = readings(&nested)[0]
        .content
        .as_ref()
        .unwrap()
        .as_ref()
        .unwrap();
    assert_eq!(
        readings(&content.value)[0]
            .content
            .as_ref()
            .unwrap()
            .as_ref()
            .unwrap()
            .offset,
        20
    );
}

#[test]
fn several_overlays_and_default_values() {
    let defaults = Overlay {
        empty_is_default: true,
        ..overlay("Other", &[("N", "name"), ("T", "uint32")])
    };
    let schema = schema_with_overlays(
        TAGGED,
        vec![overlay("Content", &[("N", "uint32")]), defaults],
    );
    let two = value(&schema, "tagged", &words(&[1, 0]));
    let [first, second] = readings(&two) else {
        panic!("{two:?}")
    };
    assert_eq!(
        first.content.as_ref().map_err(|error| error.kind),
        Err(UnexpectedEnd)
    );
    assert_eq!((&*second.overlay, &second.content), ("m::Other", &Ok(None)));
    assert_eq!(
        readings(&value(&schema, "tagged", &words(&[2, 4, 8]))).len(),
        1
    );
}
