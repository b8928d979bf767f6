//! Finds cycles in a graph: sets of modules that depend on each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::modules::Dependencies;

/// Modules that depend on each other, each with the modules of the cycle that it names.
pub(crate) struct Circle(BTreeMap<String, Vec<(String, String)>>);

impl Circle {
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self
            .0
            .iter()
            .flat_map(|(from, all)| all.iter().map(move |to| (from, to)));
        lines
            .into_iter()
            .try_for_each(|(from, (to, name))| writeln!(f, "  {from} -> {to}: {name}"))
    }
}

/// Returns all cycles, each with its modules in order.
pub(crate) fn circles(all: &Dependencies) -> Vec<Circle> {
    let reach: BTreeMap<&str, BTreeSet<&str>> = all
        .keys()
        .map(|from| (from.as_str(), reachable(all, from)))
        .collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for from in all.keys().map(String::as_str) {
        let circle: BTreeSet<&str> = reach[from]
            .iter()
            .copied()
            .filter(|to| reach[*to].contains(from))
            .collect();
        if circle.len() > 1 && seen.insert(circle.clone()) {
            let edges = |from: &str| -> Vec<(String, String)> {
                let inside = all[from]
                    .iter()
                    .filter(|(to, _)| circle.contains(to.as_str()));
                inside
                    .map(|(to, name)| (to.clone(), name.clone()))
                    .collect()
            };
            found.push(Circle(
                circle
                    .iter()
                    .map(|from| ((*from).to_owned(), edges(from)))
                    .collect(),
            ));
        }
    }
    found
}

/// Returns the modules that a module depends on, directly or not.
fn reachable<'a>(all: &'a Dependencies, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(from) = open.pop() {
        let targets = all.get(from).into_iter().flatten();
        open.extend(targets.filter_map(|(to, _)| found.insert(to.as_str()).then_some(to.as_str())));
    }
    found
}

#[test]
fn circle_is_found_with_its_imports() {
    let edge = |to: &str| (to.to_owned(), format!("{to}::Name"));
    let all = Dependencies::from([
        ("a".to_owned(), BTreeMap::from([edge("b")])),
        ("b".to_owned(), BTreeMap::from([edge("c")])),
        ("c".to_owned(), BTreeMap::from([edge("a"), edge("d")])),
        ("d".to_owned(), BTreeMap::new()),
    ]);
    let [circle] = circles(&all).try_into().ok().unwrap();
    assert_eq!(
        circle.to_string(),
        "  a -> b: b::Name\n  b -> c: c::Name\n  c -> a: a::Name\n"
    );
}
