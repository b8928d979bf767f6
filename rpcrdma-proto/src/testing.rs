//! Tables of the documentation that tests write.

use std::string::String;
use std::{env, format, fs};

/// Checks that the table `name` of a page of `docs/` is this one.
///
/// The table stands between `<!-- table NAME -->` and `<!-- end -->`. With `UPDATE_DOCS=1` in the
/// environment the test writes it instead. A published package has no `docs/`: there is nothing to
/// check then.
pub(crate) fn check_table(page: &str, name: &str, table: &str) {
    let Ok(text) = fs::read_to_string(page) else {
        return;
    };
    let (before, after) = (format!("<!-- table {name} -->\n\n"), "\n<!-- end -->");
    let start = text.find(&before).map(|at| at + before.len());
    let end = start.and_then(|start| Some(start + text.get(start..)?.find(after)?));
    let Some((start, end)) = start.zip(end) else {
        panic!("{page} has no table {name}")
    };
    if env::var_os("UPDATE_DOCS").is_some() {
        let updated: String = [&text[..start], table, &text[end..]].concat();
        return fs::write(page, updated).unwrap();
    }
    let shown = &text[start..end];
    assert!(
        shown == table,
        "{page} shows another table {name}; UPDATE_DOCS=1 writes this one:\n\n{table}"
    );
}
