//! Tests trees as text and as JSON.

use super::*;

const ALL: &str = "const NUMBER = 1; const NAME = 2; enum color { RED = -1, BLUE = 16 };
     struct point { int x; hyper y; }; typedef string name<8>; struct empty { opaque none[0]; };
     union shade switch (color hue) { case RED: point at; case BLUE: void; };
     union level switch (int n) { case NUMBER: void; default: unsigned int other; };
     struct tagged { unsigned int tag; opaque data<>; };
     struct chain { point p; name n; chain *next; };
     struct all { unsigned int xid; unsigned hyper big; float f; double d; quadruple q; bool yes; \
                   color c; opaque id[3];
       string text<>; shade s[2]; level l<>; chain *list; point *maybe; int *number; point \
                   *absent; tagged t<>; empty e; empty es<>; };";

fn all() -> (Schema, Vec<u8>) {
    let defaults = Overlay {
        empty_is_default: true,
        ..overlay("Other", &[("NAME", "name"), ("NUMBER", "point")])
    };
    let schema = schema_with_overlays(
        ALL,
        vec![
            overlay("Content", &[("NUMBER", "uint32"), ("NAME", "point")]),
            defaults,
        ],
    );
    let mut bytes = words(&[0x00c0_ffee, 0, 9, 0x3fc0_0000, 0x7ff8_0000, 1]);
    bytes.extend([1; 16]);
    bytes.extend(words(&[1, 16, 0x6162_0000, 6]));
    bytes.extend(*b"a\n\"\xff\xc3\xa9\0\0");
    bytes.extend(words(&[u32::MAX, 1, 0, 2, 16]));
    bytes.extend(words(&[2, 1, 77, 8]));
    bytes.extend(words(&[1, 1, 0, 2, 1, 0x6100_0000, 0]));
    bytes.extend(words(&[1, 3, 0, 4, 1, 5, 0]));
    bytes.extend(words(&[4, 1, 4, 7, 2, 0, 2, 8, 1, 0x6200_0000, 9, 40]));
    bytes.extend([0x41; 40]);
    bytes.extend(words(&[3]));
    (schema, bytes)
}

#[test]
fn text_has_a_line_for_each_leaf() {
    let (schema, bytes) = all();
    let node = decode(&schema, &named(&schema, "all"), &bytes, &Limits::DEFAULT).unwrap();
    insta::assert_snapshot!(node.to_string());
}

#[test]
fn long_strings_are_cut_between_characters() {
    let schema = schema("typedef string text<>;");
    let shown = |text: &[u8]| {
        let bytes = [words(&[u32::try_from(text.len()).unwrap()]), text.to_vec()].concat();
        let bytes = [bytes, vec![0; text.len().next_multiple_of(4) - text.len()]].concat();
        decode(&schema, &named(&schema, "text"), &bytes, &Limits::DEFAULT)
            .unwrap()
            .to_string()
    };
    assert_eq!(
        shown(&[b'a'; 60]),
        format!("      0  text    \"{}\"\n", "a".repeat(60))
    );
    assert_eq!(
        shown(&[b'a'; 61]),
        format!("      0  text    \"{}\" .. 61 bytes\n", "a".repeat(60))
    );
    let long = ["a".repeat(59), "é".repeat(9)].concat();
    assert_eq!(
        shown(long.as_bytes()),
        format!("      0  text    \"{}\" .. 77 bytes\n", "a".repeat(59))
    );
    assert!(shown(&[0x80; 80]).contains("\\x80\" .. 80 bytes"));
}

#[test]
fn json_contains_the_tree() {
    let (schema, bytes) = all();
    let node = decode(&schema, &named(&schema, "all"), &bytes, &Limits::DEFAULT).unwrap();
    let json: serde_json::Value = serde_json::from_str(&node.to_json()).unwrap();
    assert_eq!(
        (&json["kind"], &json["type"], &json["length"]),
        (&"struct".into(), &"all".into(), &bytes.len().into())
    );
    assert!(json.get("name").is_none());
    let field = |name: &str| {
        let fields = json["value"].as_array().unwrap();
        fields.iter().find(|field| field["name"] == name).unwrap()
    };
    for (name, value) in [
        ("xid", 0x00c0_ffee.into()),
        ("big", 9.into()),
        ("f", 1.5.into()),
        ("d", "NaN".into()),
        ("q", "01".repeat(16).into()),
        ("yes", true.into()),
        ("c", "BLUE".into()),
        ("id", "616200".into()),
        ("text", "a\n\"\u{fffd}é".into()),
        ("absent", serde_json::Value::Null),
        ("e", serde_json::Value::Null),
    ] {
        assert_eq!(field(name)["value"], value, "{name}");
    }
    assert_eq!(
        (&field("c")["number"], &field("text")["bytes"]),
        (&16.into(), &"610a22ffc3a9".into())
    );
    assert_eq!(
        (&field("es")["count"], &field("es")["kind"]),
        (&3.into(), &"array".into())
    );
    let shade = &field("s")["value"][0];
    assert_eq!(
        (&shade["case"], &shade["discriminant"]["value"]),
        (&"RED".into(), &"RED".into())
    );
    assert_eq!(
        (
            &shade["value"]["name"],
            &shade["value"]["value"][1]["value"]
        ),
        (&"at".into(), &2.into())
    );
    assert_eq!(field("s")["value"][1]["value"], serde_json::Value::Null);
    assert_eq!(field("maybe")["value"]["value"][0]["value"], 3);
    let readings = |at: usize| &field("t")["value"][at]["value"][1]["readings"];
    assert_eq!(
        (
            &readings(0)[0]["overlay"],
            &readings(0)[0]["content"]["value"]
        ),
        (&"m::Content".into(), &7.into())
    );
    assert!(
        readings(0)[1]["error"]
            .as_str()
            .unwrap()
            .starts_with("t[0].data.y: unexpected end")
    );
    assert_eq!(readings(1)[1]["default"], true);
    assert_eq!(readings(3), &serde_json::Value::Null);
    assert!(!node.to_json().contains('\n'));
}

#[test]
fn special_floats_are_shown() {
    let schema = schema("typedef float f; typedef double d;");
    let json = |name: &str, bytes: &[u8]| {
        let node = decode(&schema, &named(&schema, name), bytes, &Limits::DEFAULT).unwrap();
        let json: serde_json::Value = serde_json::from_str(&node.to_json()).unwrap();
        (
            node.to_string()
                .split_whitespace()
                .skip(2)
                .collect::<Vec<_>>()
                .join(" "),
            json["value"].clone(),
        )
    };
    assert_eq!(
        json("f", &f32::INFINITY.to_be_bytes()),
        ("inf".to_owned(), "inf".into())
    );
    assert_eq!(
        json("d", &f64::NEG_INFINITY.to_be_bytes()),
        ("-inf".to_owned(), "-inf".into())
    );
    assert_eq!(
        json("f", &words(&[0x7fc0_0001])),
        ("NaN (0x7fc00001)".to_owned(), "NaN".into())
    );
    assert_eq!(
        json("d", &0.1_f64.to_be_bytes()),
        ("0.1".to_owned(), 0.1.into())
    );
}

#[test]
fn text_shows_a_case_only_if_its_name_differs_from_the_discriminant() {
    let schema = schema(
        "const TEN = 10; union u switch (unsigned int n) { case 12: void; case TEN: void; };",
    );
    let shown = |bytes: &[u8]| {
        let node = decode(&schema, &named(&schema, "u"), bytes, &Limits::DEFAULT).unwrap();
        node.to_string()
    };
    assert_eq!(shown(&words(&[12])), "      0  u    n = 12 (0xc), void\n");
    assert_eq!(
        shown(&words(&[10])),
        "      0  u    n = 10 (0xa), case TEN, void\n"
    );
}
