//! Budgets, hostile counts, depths.

use super::*;

const RECURSIVE: &str = "struct t { t *l; t *r; bool v; }; struct rose { bool v; rose kids<>; }; typedef int ints<>; typedef bool bools<>;
     typedef ints rows<>; struct chain { bool x; chain *next; }; struct head { chain *first; }; struct plain { int x; }; typedef plain plains<>;
     typedef opaque zero[0]; typedef zero zeros<>; struct empty { zero z; }; typedef empty empties<>; struct both { ints a; ints b; };";

#[test]
fn depth_is_counted() {
    let schema = schema(RECURSIVE);
    let depth = |depth| Limits { depth, ..Limits::DEFAULT };
    // A tree that goes to the right: itself, and so many below.
    let tree = |below: usize| {
        let open: Vec<u32> = [0, 1].repeat(below);
        [words(&open), words(&[0, 0, 0]), words(&[0]).repeat(below)].concat()
    };
    let ty = named(&schema, "t");
    assert!(decode(&schema, &ty, &tree(3), &depth(3)).is_ok());
    assert_eq!(refused_within(&schema, "t", &tree(3), &depth(2)), (DepthLimit, 24, "r.r.r".to_owned()));
    assert_eq!(refused_within(&schema, "t", &tree(1), &depth(0)), (DepthLimit, 8, "r".to_owned()));
    assert!(decode(&schema, &ty, &tree(64), &Limits::DEFAULT).is_ok());
    assert_eq!(refused_within(&schema, "t", &tree(65), &Limits::DEFAULT).0, DepthLimit);
    let rose = words(&[0, 1, 0, 1, 0, 0]);
    assert_eq!(refused_within(&schema, "rose", &rose, &depth(1)), (DepthLimit, 16, "kids[0].kids[0]".to_owned()));
    assert!(decode(&schema, &named(&schema, "rose"), &rose, &depth(2)).is_ok());
    // An element of a list is a level unless it is plain, but not a level for the next.
    let chain = words(&[1, 0, 1, 0, 1, 0, 0]);
    assert!(decode(&schema, &named(&schema, "head"), &chain, &depth(1)).is_ok());
    assert_eq!(refused_within(&schema, "head", &chain, &depth(0)), (DepthLimit, 4, "first[0]".to_owned()));
    for (name, octets, fails) in [
        ("ints", words(&[1, 0]), false),
        ("plains", words(&[1, 0]), false),
        ("zeros", words(&[1]), false),
        ("bools", words(&[1, 0]), true),
        ("rows", words(&[1, 0]), true),
        ("empties", words(&[1]), true),
        ("empties", words(&[0]), false),
    ] {
        let error = decode(&schema, &named(&schema, name), &octets, &depth(0)).err();
        let expected = Error { kind: DepthLimit, offset: 4, path: "[0]".to_owned() };
        assert_eq!(error, fails.then_some(expected), "{name}");
    }
}

#[test]
fn elements_and_octets_are_counted() {
    let schema = schema(RECURSIVE);
    let elements = |elements| Limits { elements, ..Limits::DEFAULT };
    let both = words(&[2, 1, 2, 1, 3]);
    assert!(decode(&schema, &named(&schema, "both"), &both, &elements(3)).is_ok());
    assert_eq!(refused_within(&schema, "both", &both, &elements(2)), (ElementLimit, 16, "b".to_owned()));
    let chain = words(&[1, 0, 1, 0, 0]);
    assert!(decode(&schema, &named(&schema, "head"), &chain, &elements(2)).is_ok());
    assert_eq!(refused_within(&schema, "head", &chain, &elements(1)), (ElementLimit, 12, "first".to_owned()));
    assert_eq!(refused_within(&schema, "zeros", &words(&[65_537]), &Limits::DEFAULT), (ElementLimit, 4, String::new()));
    assert_eq!(value(&schema, "zeros", &words(&[65_536])), Value::Nothings(65_536));
    let octets = |octets| Limits { octets, ..Limits::DEFAULT };
    assert!(decode(&schema, &named(&schema, "both"), &both, &octets(20)).is_ok());
    assert_eq!(refused_within(&schema, "both", &both, &octets(19)), (SizeLimit, 19, String::new()));
    let prefix = decode_prefix(&schema, &named(&schema, "ints"), &both, &octets(19));
    assert_eq!(prefix.unwrap_err().kind, SizeLimit);
}

#[test]
fn hostile_counts_cost_nothing() {
    let schema = schema(&format!(
        "{RECURSIVE} typedef int many[250000]; typedef opaque octets<>; struct z0 {{ zero a; zero b; }}; {} typedef z40 z<>;",
        (1..=40).map(|at| format!("struct z{at} {{ z{0} a; z{0} b; }};", at - 1)).collect::<String>()
    ));
    for (count, kind) in [(u32::MAX, ElementLimit), (1 << 24, UnexpectedEnd)] {
        for name in ["ints", "bools", "rows", "plains"] {
            assert_eq!(refused_within(&schema, name, &words(&[count]), &Limits::DEFAULT).0, kind, "{name}");
        }
    }
    refused(&schema, "octets", &words(&[u32::MAX]), UnexpectedEnd, 4, "");
    refused(&schema, "many", &words(&[7, 7, 7]), UnexpectedEnd, 12, "[3]");
    // Doubled forty times, and still nothing.
    assert_eq!(value(&schema, "z40", &[]), Value::Nothing);
    assert_eq!(value(&schema, "z", &words(&[9])), Value::Nothings(9));
}

/// Runs in a thread whose stack is smaller than what a test has.
fn on_a_small_stack(run: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(3 << 19).spawn_scoped(scope, run).unwrap().join().unwrap();
    });
}

#[test]
fn no_tree_is_too_deep_for_the_stack() {
    // Unions in optionals in structs, and all of them again.
    let xdr = "union u switch (int w) { case 0: s *next; default: void; }; struct s { u inner[1]; };";
    let schema = schema(xdr);
    let unlimited = Limits { depth: u32::MAX, elements: u32::MAX, octets: u32::MAX };
    on_a_small_stack(|| {
        let deep = words(&[0, 1]).repeat(1_000_000);
        let error = decode(&schema, &named(&schema, "s"), &deep, &unlimited).unwrap_err();
        assert_eq!((error.kind, error.offset), (DepthLimit, MOST_NESTED / 4 * 8));
        // A tree as deep as can be, and all that can be done with it.
        let levels = MOST_NESTED / 4 - 1;
        let octets = [words(&[0, 1]).repeat(levels), words(&[1])].concat();
        let node = decode(&schema, &named(&schema, "s"), &octets, &unlimited).unwrap();
        assert_eq!(node.clone(), node);
        assert_eq!(encode(&schema, &named(&schema, "s"), &node), Ok(octets));
        assert_eq!(node.to_string().lines().count(), 3 * levels + 3);
        assert!(node.to_json().len() > 10_000 && format!("{node:?}").len() > 10_000);
    });
}

#[test]
fn no_schema_is_too_deep_for_the_stack() {
    let chain: String = (1..2000).map(|at| format!("struct s{at} {{ s{} x; }};", at - 1)).collect();
    let typedefs: String = (1..2000).map(|at| format!("typedef t{} t{at};", at - 1)).collect();
    let schema = schema(&format!("struct s0 {{ int x; }}; {chain} typedef bool t0; {typedefs} typedef t1999 ts<>;"));
    on_a_small_stack(|| {
        assert_eq!(refused_within(&schema, "s1999", &[0; 4], &Limits::DEFAULT).0, DepthLimit);
        assert_eq!(refused_within(&schema, "s511", &[0; 4], &Limits::DEFAULT).0, DepthLimit);
        assert_eq!(decode(&schema, &named(&schema, "s510"), &[0; 4], &Limits::DEFAULT).unwrap().length, 4);
        assert_eq!(decode(&schema, &named(&schema, "t1999"), &[0; 4], &Limits::DEFAULT).unwrap().length, 4);
        assert_eq!(decode(&schema, &named(&schema, "ts"), &words(&[1, 1]), &Limits::DEFAULT).unwrap().length, 8);
    });
    let mut tree = Node::from(Value::I32(0));
    for _ in 0..600 {
        tree = Node::from(Value::Struct(vec![("x", tree)]));
    }
    let error = encode(&schema, &named(&schema, "s600"), &tree).unwrap_err();
    assert_eq!(error.kind, EncodeErrorKind::TooDeep);
}

#[test]
fn contents_in_contents_end() {
    let cases = [("N", "tagged")];
    let xdr = "const N = 1; struct tagged { unsigned int tag; opaque data<>; };";
    let schema = overlaid(xdr, vec![overlay("A", &cases), overlay("B", &cases), overlay("C", &cases)]);
    // Each within the one before, as many as fit.
    let octets = (0..2000_u32)
        .rev()
        .fold(Vec::new(), |inner: Vec<u8>, _| [words(&[1, u32::try_from(inner.len()).unwrap()]), inner].concat());
    let node = decode(&schema, &named(&schema, "tagged"), &octets, &Limits::DEFAULT).unwrap();
    assert_eq!(encode(&schema, &named(&schema, "tagged"), &node), Ok(octets));
    fn depth(node: &Node<'_>) -> usize {
        let Value::Struct(fields) = &node.value else { return 0 };
        let Value::Overlaid { readings, .. } = &fields[1].1.value else { return 0 };
        1 + readings
            .iter()
            .filter_map(|reading| reading.content.as_ref().ok()?.as_deref())
            .map(depth)
            .max()
            .unwrap_or(0)
    }
    assert_eq!(depth(&node), 4);
}
