//! Finds the candidate with the most similar spelling, for suggestions.

/// Returns the candidate nearest to `name`, if its edit distance is at most one third of the name's
/// length. Returns the first of several equally near candidates.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let name: Vec<char> = name.chars().collect();
    let limit = name.len() / 3;
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        // Only a candidate nearer than the best so far matters.
        let limit = best.map_or(Some(limit), |(distance, _)| distance.checked_sub(1));
        let near = limit.and_then(|limit| distance_within(&name, candidate, limit));
        best = near.map(|distance| (distance, candidate)).or(best);
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns the edit distance between `a` and `b` (insertion, deletion, substitution, transposition
/// of neighbours), if it is at most `limit`.
fn distance_within(a: &[char], b: &str, limit: usize) -> Option<usize> {
    let b: Vec<char> = b.chars().collect();
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (row, &of_a) in a.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, &of_b) in b.iter().enumerate() {
            let changed = last[column] + usize::from(of_a != of_b);
            let mut least = changed.min(last[column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && of_a == b[column - 1] && a[row - 1] == of_b {
                least = least.min(before_last[column - 1] + 1);
            }
            next.push(least);
        }
        before_last = std::mem::replace(&mut last, next);
    }
    last.last().copied().filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(a: &str, b: &str) -> Option<usize> {
        distance_within(&a.chars().collect::<Vec<_>>(), b, 100)
    }

    #[test]
    fn each_edit_counts_one() {
        for (a, b, expected) in [
            ("", "", 0),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("prop_bsiz", "prop_rbsiz", 1),
            ("ROPT_RESPRO", "ROPT_RESPROP", 1),
            ("xdr", "xrd", 1),
            ("kitten", "sitting", 3),
            ("é", "e", 1),
        ] {
            assert_eq!(distance(a, b), Some(expected), "{a} {b}");
            assert_eq!(distance(b, a), Some(expected), "{b} {a}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        let names = [
            "ROPT_REQPROP",
            "ROPT_CONNPROP",
            "ROPT_RESPROP",
            "a",
            "XMPTYPE_CHOOSE",
        ];
        let nearest = |name| nearest(name, names.into_iter());
        assert_eq!(nearest("ROPT_CONNPR"), Some("ROPT_CONNPROP"));
        assert_eq!(nearest("ROPT_REPROP"), Some("ROPT_REQPROP"));
        assert_eq!(nearest("XMPTYPE_CHOICE"), Some("XMPTYPE_CHOOSE"));
        assert_eq!(nearest("b"), None);
        assert_eq!(nearest("ab"), None);
        assert_eq!(nearest("bcd"), None);
        assert_eq!(nearest("uint32"), None);
        assert_eq!(nearest(""), None);
        assert_eq!(nearest("ROPT_REQPROP"), Some("ROPT_REQPROP"));
    }
}
