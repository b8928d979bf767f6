use crate::ErrorKind::*;
use crate::testing::{Tree, explain, octets_of, refused, round_trip, trees, words};
use crate::{Array, Decode, Limits, List, Nested, Wire};
use std::format;

#[test]
fn levels_are_counted() {
    assert!(Tree::from_bytes(&trees(64, 0)).is_ok());
    refused::<Tree<'_>>(&trees(65, 0), DepthLimit, 65 * 8);
    refused::<Tree<'_>>(&trees(100_000, 0), DepthLimit, 65 * 8);
}

#[test]
fn levels_can_be_taken_after_they_were_validated() {
    let octets = trees(500, 0);
    let limits = Limits { depth: 500, ..Limits::DEFAULT };
    let mut tree = Tree::from_bytes_with(&octets, &limits).unwrap();
    let mut levels = 0;
    while let Some(left) = tree.left {
        tree = left.get().unwrap();
        levels += 1;
    }
    assert_eq!((levels, tree.value), (500, 9));
}

#[test]
fn values_come_from_octets_or_from_a_reference() {
    let leaf = Tree { value: 9, ..Tree::default() };
    let kids = [leaf, leaf];
    let branch = Tree { left: Some(Nested::new(&leaf)), kids: Array::from(&kids), ..leaf };
    let root = Tree { left: Some(Nested::new(&branch)), more: List::from(&kids), ..leaf };
    round_trip(&root);
    let octets = octets_of(&root);
    let decoded = Tree::from_bytes(&octets).unwrap();
    assert_eq!(decoded.left.unwrap(), Nested::new(&branch));
    assert_ne!(decoded.left.unwrap(), Nested::new(&leaf));
    assert_eq!(decoded.left.unwrap().get(), Ok(branch));
    assert_eq!(format!("{decoded:?}"), format!("{root:?}"));
}

#[test]
fn paths_lead_through_recursion() {
    let octets = words(&[7, 1, 7, 0, 2, 9, 0, 0, 0, 9, 3]);
    let expected = "left.kids[1].left: boolean is neither 0 nor 1 at octet 40";
    assert_eq!(explain::<Tree<'_>>(&octets), expected);
    let deep = explain::<Tree<'_>>(&trees(65, 0));
    let elided = ["left"; 24].join(".");
    assert_eq!(deep, format!("{elided}..: nesting exceeds the depth limit at octet 520"));
}

#[test]
fn sizes_are_open_at_the_top() {
    assert_eq!(<Nested<'_, u32>>::MIN, 4);
    assert_eq!(<Nested<'_, u32>>::MAX, None);
    const { assert!(!<Nested<'_, u32>>::PLAIN) };
    let limits = Limits { depth: 0, ..Limits::DEFAULT };
    let error = <Nested<'_, u32>>::from_bytes_with(&[0; 4], &limits).unwrap_err();
    assert_eq!(error.kind(), DepthLimit);
    refused::<Nested<'_, u32>>(&[0; 3], UnexpectedEnd, 0);
}
