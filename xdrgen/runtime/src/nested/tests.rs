use crate::ErrorKind::*;
use crate::testing::{Tree, assert_rejected, assert_round_trip, encoded, explain, trees, words};
use crate::{Array, Decode, Limits, List, Nested, Wire};
use std::format;

#[test]
fn levels_are_counted() {
    assert!(Tree::from_bytes(&trees(64, 0)).is_ok());
    assert_rejected::<Tree<'_>>(&trees(65, 0), DepthLimit, 65 * 8);
    assert_rejected::<Tree<'_>>(&trees(100_000, 0), DepthLimit, 65 * 8);
}

#[test]
fn validated_levels_can_be_decoded() {
    let bytes = trees(500, 0);
    let limits = Limits {
        depth: 500,
        ..Limits::DEFAULT
    };
    let mut tree = Tree::from_bytes_with(&bytes, &limits).unwrap();
    let mut levels = 0;
    while let Some(left) = tree.left {
        tree = left.get().unwrap();
        levels += 1;
    }
    assert_eq!((levels, tree.value), (500, 9));
}

#[test]
fn values_are_decoded_or_referenced() {
    let leaf = Tree {
        value: 9,
        ..Tree::default()
    };
    let kids = [leaf, leaf];
    let branch = Tree {
        left: Some(Nested::new(&leaf)),
        kids: Array::from(&kids),
        ..leaf
    };
    let root = Tree {
        left: Some(Nested::new(&branch)),
        more: List::from(&kids),
        ..leaf
    };
    assert_round_trip(&root);
    let bytes = encoded(&root);
    let decoded = Tree::from_bytes(&bytes).unwrap();
    assert_eq!(decoded.left.unwrap(), Nested::new(&branch));
    assert_ne!(decoded.left.unwrap(), Nested::new(&leaf));
    assert_eq!(decoded.left.unwrap().get(), Ok(branch));
    assert_eq!(format!("{decoded:?}"), format!("{root:?}"));
}

#[test]
fn paths_include_recursion() {
    let bytes = words(&[7, 1, 7, 0, 2, 9, 0, 0, 0, 9, 3]);
    let expected = "left.kids[1].left: boolean is neither 0 nor 1 at byte 40";
    assert_eq!(explain::<Tree<'_>>(&bytes), expected);
    let deep = explain::<Tree<'_>>(&trees(65, 0));
    let elided = ["left"; 24].join(".");
    assert_eq!(
        deep,
        format!("{elided}..: nesting exceeds the depth limit at byte 520")
    );
}

#[test]
fn sizes_are_unbounded() {
    assert_eq!(<Nested<'_, u32>>::MIN, 4);
    assert_eq!(<Nested<'_, u32>>::MAX, None);
    const { assert!(!<Nested<'_, u32>>::PLAIN) };
    let limits = Limits {
        depth: 0,
        ..Limits::DEFAULT
    };
    let error = <Nested<'_, u32>>::from_bytes_with(&[0; 4], &limits).unwrap_err();
    assert_eq!(error.kind(), DepthLimit);
    assert_rejected::<Nested<'_, u32>>(&[0; 3], UnexpectedEnd, 0);
}
