//! Tests limits, hostile counts and depths.

use super::*;

const RECURSIVE: &str = "struct t { t *l; t *r; bool v; }; struct rose { bool v; rose kids<>; }; \
    typedef int ints<>; typedef bool bools<>;
     typedef ints rows<>; struct chain { bool x; chain *next; }; struct head { chain *first; }; \
                         struct plain { int x; }; typedef plain plains<>;
     typedef opaque zero[0]; typedef zero zeros<>; struct empty { zero z; }; typedef empty \
                         empties<>; struct both { ints a; ints b; };";

#[test]
fn depth_is_counted() {
    let schema = schema(RECURSIVE);
    let depth = |depth| Limits {
        depth,
        ..Limits::DEFAULT
    };
    // A tree with a chain of right children below the root.
    let tree = |below: usize| {
        let open: Vec<u32> = [0, 1].repeat(below);
        [words(&open), words(&[0, 0, 0]), words(&[0]).repeat(below)].concat()
    };
    let ty = named(&schema, "t");
    assert!(decode(&schema, &ty, &tree(3), &depth(3)).is_ok());
    assert_eq!(
        error_within(&schema, "t", &tree(3), &depth(2)),
        (DepthLimit, 24, "r.r.r".to_owned())
    );
    assert_eq!(
        error_within(&schema, "t", &tree(1), &depth(0)),
        (DepthLimit, 8, "r".to_owned())
    );
    assert!(decode(&schema, &ty, &tree(64), &Limits::DEFAULT).is_ok());
    assert_eq!(
        error_within(&schema, "t", &tree(65), &Limits::DEFAULT).0,
        DepthLimit
    );
    let rose = words(&[0, 1, 0, 1, 0, 0]);
    assert_eq!(
        error_within(&schema, "rose", &rose, &depth(1)),
        (DepthLimit, 16, "kids[0].kids[0]".to_owned())
    );
    assert!(decode(&schema, &named(&schema, "rose"), &rose, &depth(2)).is_ok());
    // An element of a list is a level unless it is plain, but not a level for the next element.
    let chain = words(&[1, 0, 1, 0, 1, 0, 0]);
    assert!(decode(&schema, &named(&schema, "head"), &chain, &depth(1)).is_ok());
    assert_eq!(
        error_within(&schema, "head", &chain, &depth(0)),
        (DepthLimit, 4, "first[0]".to_owned())
    );
    for (name, bytes, fails) in [
        ("ints", words(&[1, 0]), false),
        ("plains", words(&[1, 0]), false),
        ("zeros", words(&[1]), false),
        ("bools", words(&[1, 0]), true),
        ("rows", words(&[1, 0]), true),
        ("empties", words(&[1]), true),
        ("empties", words(&[0]), false),
    ] {
        let error = decode(&schema, &named(&schema, name), &bytes, &depth(0)).err();
        let expected = DecodeError {
            kind: DepthLimit,
            offset: 4,
            path: "[0]".to_owned(),
        };
        assert_eq!(error, fails.then_some(expected), "{name}");
    }
}

#[test]
fn elements_and_bytes_are_counted() {
    let schema = schema(RECURSIVE);
    let elements = |elements| Limits {
        elements,
        ..Limits::DEFAULT
    };
    let both = words(&[2, 1, 2, 1, 3]);
    assert!(decode(&schema, &named(&schema, "both"), &both, &elements(3)).is_ok());
    assert_eq!(
        error_within(&schema, "both", &both, &elements(2)),
        (ElementLimit, 16, "b".to_owned())
    );
    let chain = words(&[1, 0, 1, 0, 0]);
    assert!(decode(&schema, &named(&schema, "head"), &chain, &elements(2)).is_ok());
    assert_eq!(
        error_within(&schema, "head", &chain, &elements(1)),
        (ElementLimit, 12, "first".to_owned())
    );
    assert_eq!(
        error_within(&schema, "zeros", &words(&[65_537]), &Limits::DEFAULT),
        (ElementLimit, 4, String::new())
    );
    assert_eq!(
        value(&schema, "zeros", &words(&[65_536])),
        Value::EmptyArray(65_536)
    );
    let bytes = |bytes| Limits {
        bytes,
        ..Limits::DEFAULT
    };
    assert!(decode(&schema, &named(&schema, "both"), &both, &bytes(20)).is_ok());
    assert_eq!(
        error_within(&schema, "both", &both, &bytes(19)),
        (SizeLimit, 19, String::new())
    );
    let prefix = decode_prefix(&schema, &named(&schema, "ints"), &both, &bytes(19));
    assert_eq!(prefix.unwrap_err().kind, SizeLimit);
}

#[test]
fn hostile_counts_do_not_allocate() {
    let schema = schema(&format!(
        "{RECURSIVE} typedef int many[250000]; typedef opaque bytes<>; struct z0 {{ zero a; zero \
        b; }}; {} typedef z40 z<>;",
        (1..=40)
            .map(|at| format!("struct z{at} {{ z{0} a; z{0} b; }};", at - 1))
            .collect::<String>()
    ));
    for (count, kind) in [(u32::MAX, ElementLimit), (1 << 24, UnexpectedEnd)] {
        for name in ["ints", "bools", "rows", "plains"] {
            assert_eq!(
                error_within(&schema, name, &words(&[count]), &Limits::DEFAULT).0,
                kind,
                "{name}"
            );
        }
    }
    assert_rejected(&schema, "bytes", &words(&[u32::MAX]), UnexpectedEnd, 4, "");
    assert_rejected(
        &schema,
        "many",
        &words(&[7, 7, 7]),
        UnexpectedEnd,
        12,
        "[3]",
    );
    // 40 levels that each contain two of the next have 2^40 parts, all with an encoded size of
    // zero.
    assert_eq!(value(&schema, "z40", &[]), Value::Empty);
    assert_eq!(value(&schema, "z", &words(&[9])), Value::EmptyArray(9));
}

/// Runs in a thread whose stack is smaller than that of a test.
fn on_a_small_stack(run: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(3 << 19)
            .spawn_scoped(scope, run)
            .unwrap()
            .join()
            .unwrap();
    });
}

#[test]
fn no_tree_is_too_deep_for_the_stack() {
    // A cycle of unions, optionals, structs and arrays.
    let xdr =
        "union u switch (int w) { case 0: s *next; default: void; }; struct s { u inner[1]; };";
    let schema = schema(xdr);
    let unlimited = Limits {
        depth: u32::MAX,
        elements: u32::MAX,
        bytes: u32::MAX,
    };
    on_a_small_stack(|| {
        let deep = words(&[0, 1]).repeat(1_000_000);
        let error = decode(&schema, &named(&schema, "s"), &deep, &unlimited).unwrap_err();
        assert_eq!(
            (error.kind, error.offset),
            (DepthLimit, MAX_TREE_DEPTH / 4 * 8)
        );
        // A tree of the maximum depth survives all operations.
        let levels = MAX_TREE_DEPTH / 4 - 1;
        let bytes = [words(&[0, 1]).repeat(levels), words(&[1])].concat();
        let node = decode(&schema, &named(&schema, "s"), &bytes, &unlimited).unwrap();
        assert_eq!(node.clone(), node);
        assert_eq!(encode(&schema, &named(&schema, "s"), &node), Ok(bytes));
        assert_eq!(node.to_string().lines().count(), 3 * levels + 3);
        assert!(node.to_json().len() > 10_000 && format!("{node:?}").len() > 10_000);
    });
}

#[test]
fn no_schema_is_too_deep_for_the_stack() {
    let chain: String = (1..2000)
        .map(|at| format!("struct s{at} {{ s{} x; }};", at - 1))
        .collect();
    let typedefs: String = (1..2000)
        .map(|at| format!("typedef t{} t{at};", at - 1))
        .collect();
    let schema = schema(&format!(
        "struct s0 {{ int x; }}; {chain} typedef bool t0; {typedefs} typedef t1999 ts<>;"
    ));
    on_a_small_stack(|| {
        assert_eq!(
            error_within(&schema, "s1999", &[0; 4], &Limits::DEFAULT).0,
            DepthLimit
        );
        assert_eq!(
            error_within(&schema, "s511", &[0; 4], &Limits::DEFAULT).0,
            DepthLimit
        );
        assert_eq!(
            decode(&schema, &named(&schema, "s510"), &[0; 4], &Limits::DEFAULT)
                .unwrap()
                .length,
            4
        );
        assert_eq!(
            decode(&schema, &named(&schema, "t1999"), &[0; 4], &Limits::DEFAULT)
                .unwrap()
                .length,
            4
        );
        assert_eq!(
            decode(
                &schema,
                &named(&schema, "ts"),
                &words(&[1, 1]),
                &Limits::DEFAULT
            )
            .unwrap()
            .length,
            8
        );
    });
    let mut tree = Node::from(Value::I32(0));
    for _ in 0..600 {
        tree = Node::from(Value::Struct(vec![("x", tree)]));
    }
    let error = encode(&schema, &named(&schema, "s600"), &tree).unwrap_err();
    assert_eq!(error.kind, EncodeErrorKind::TooDeep);
}

#[test]
fn nested_overlay_contents_are_bounded() {
    let cases = [("N", "tagged")];
    let xdr = "const N = 1; struct tagged { unsigned int tag; opaque data<>; };";
    let schema = schema_with_overlays(
        xdr,
        vec![
            overlay("A", &cases),
            overlay("B", &cases),
            overlay("C", &cases),
        ],
    );
    // Each content is within the previous one, as many as fit.
    let bytes = (0..2000_u32).rev().fold(Vec::new(), |inner: Vec<u8>, _| {
        [words(&[1, u32::try_from(inner.len()).unwrap()]), inner].concat()
    });
    let node = decode(&schema, &named(&schema, "tagged"), &bytes, &Limits::DEFAULT).unwrap();
    assert_eq!(encode(&schema, &named(&schema, "tagged"), &node), Ok(bytes));
    fn depth(node: &Node<'_>) -> usize {
        let Value::Struct(fields) = &node.value else {
            return 0;
        };
        let Value::TypedOpaque { readings, .. } = &fields[1].1.value else {
            return 0;
        };
        1 + readings
            .iter()
            .filter_map(|reading| reading.content.as_ref().ok()?.as_deref())
            .map(depth)
            .max()
            .unwrap_or(0)
    }
    assert_eq!(depth(&node), 4);
}
