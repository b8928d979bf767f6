//! Finds page breaks of drafts and RFCs: a footer with `[Page 4]` and the running header of the
//! next page. [`header_footer_lines`] has one entry for each line of `str::lines`: `extract` and
//! the lints of `check` index it by line to skip page breaks within XDR and running text.

/// Returns the page number of a footer: a line that ends with `[Page 4]`, separated by at least two
/// blanks.
pub(crate) fn footer(line: &str) -> Option<u32> {
    let (before, number) = line.trim_end().strip_suffix(']')?.rsplit_once("[Page ")?;
    let separated = before.is_empty() || before.ends_with("  ");
    let number = number.trim();
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if separated && digits {
        number.parse().ok()
    } else {
        None
    }
}

/// Returns the first line and the number of each page.
pub(crate) fn pages(text: &str) -> Vec<(usize, u32)> {
    let mut pages: Vec<(usize, u32)> = Vec::new();
    let mut first = 1;
    for (at, line) in text.lines().enumerate() {
        let number =
            footer(line).filter(|number| pages.last().is_none_or(|(_, before)| before < number));
        if let Some(number) = number {
            pages.push((first, number));
            first = at + 2;
        }
    }
    // The lines after the last footer are on a page whose footer is missing.
    let rest = text
        .lines()
        .skip(first - 1)
        .any(|line| !line.trim().is_empty());
    if let Some((_, last)) = pages.last().copied().filter(|_| rest) {
        pages.push((first, last.saturating_add(1)));
    }
    pages
}

/// Returns, for each line, whether it is a page footer or running header.
pub(crate) fn header_footer_lines(text: &str) -> Vec<bool> {
    let mut after_footer = false;
    let of_line = |line: &str| {
        if footer(line).is_some() {
            after_footer = true;
            return true;
        }
        if line.trim().is_empty() {
            return false;
        }
        std::mem::take(&mut after_footer) && is_header(line)
    };
    text.lines().map(of_line).collect()
}

/// Returns true for a running header: `Internet-Draft ..` or `RFC 1813 ..`.
fn is_header(line: &str) -> bool {
    let line = line.trim_start_matches('\u{c}');
    line.starts_with("Internet-Draft ")
        || line
            .strip_prefix("RFC ")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_ends_with_its_page() {
        assert_eq!(
            footer("Noveck           Expires March 28, 2017                 [Page 7]"),
            Some(7)
        );
        assert_eq!(footer("[Page 126] \r"), Some(126));
        assert_eq!(footer("see [Page 7]"), None);
        assert_eq!(footer("  [Page x]"), None);
        assert_eq!(footer("  [Page ]"), None);
        assert_eq!(footer("  [Page 99999999999]"), None);
    }

    #[test]
    fn a_page_starts_after_the_footer_of_the_one_before() {
        let text = "a\nN  [Page 1]\n\u{c}RFC 1 b\n\nc\nN  [Page 2]\n";
        assert_eq!(pages(text), [(1, 1), (3, 2)]);
        assert_eq!(
            header_footer_lines(text),
            [false, true, true, false, false, true]
        );
        assert!(pages("no\npages").is_empty());
    }

    #[test]
    fn only_the_first_line_after_a_footer_is_a_header() {
        let text = "N  [Page 1]\n\n\nInternet-Draft  a\nInternet-Draft  b\nN  [Page \
            2]\nprose\nRFC 1813 says";
        assert_eq!(
            header_footer_lines(text),
            [true, false, false, true, false, true, false, false]
        );
    }
}
