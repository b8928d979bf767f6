//! The text format of Prometheus, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use std::collections::BTreeMap;
use std::str::FromStr;

/// A page of metrics.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The kinds of metrics, by name.
    pub(super) kinds: BTreeMap<String, String>,
    /// The values, by name and labels.
    pub(super) samples: BTreeMap<SampleName, f64>,
}

/// A name, and labels in order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SampleName {
    pub(super) metric: String,
    pub(super) labels: Vec<(String, String)>,
}

impl SampleName {
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(label, _)| label == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl FromStr for Page {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut page = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(comment) = line.strip_prefix('#') {
                page.comment(comment);
            } else if !line.is_empty() {
                let (name, value) = sample(line)
                    .ok_or_else(|| format!("line {} is not a metric: {line:.60}", number + 1))?;
                page.samples.insert(name, value);
            }
        }
        Ok(page)
    }
}

impl Page {
    fn comment(&mut self, comment: &str) {
        let mut words = comment.split_whitespace();
        if let (Some("TYPE"), Some(name), Some(kind)) = (words.next(), words.next(), words.next()) {
            self.kinds.insert(name.to_owned(), kind.to_owned());
        }
    }

    /// Returns the kind of a metric. The samples of a histogram have derived names.
    pub(super) fn kind(&self, metric: &str) -> &str {
        let suffixes = ["_bucket", "_sum", "_count"];
        let family = suffixes
            .iter()
            .find_map(|suffix| metric.strip_suffix(suffix));
        let kind = self.kinds.get(metric);
        let kind = kind.or_else(|| self.kinds.get(family?));
        kind.map_or("untyped", String::as_str)
    }
}

/// Parses a line: a name, labels, a value, and perhaps a time.
fn sample(line: &str) -> Option<(SampleName, f64)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let end = line.find(|c| !is_name(c)).filter(|end| *end > 0)?;
    let (metric, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let name = SampleName {
        metric: metric.to_owned(),
        labels,
    };
    let mut words = rest.split_whitespace();
    let value = words.next()?.parse().ok()?;
    let has_time = words.next().is_none_or(|time| time.parse::<i64>().is_ok());
    (has_time && words.next().is_none()).then_some((name, value))
}

/// Parses labels, and returns the rest of the line.
fn labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, after) = rest.split_once('=')?;
        let (value, after) = quoted(after.trim_start().strip_prefix('"')?)?;
        labels.push((name.trim().to_owned(), value));
        rest = after;
    }
}

/// Parses a value after its opening quotation mark, and returns the rest after the closing one.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of the example in the documentation of the format.
    const EXAMPLE: &str = r#"
# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000

# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""} 1.458255915e9

# Minimalistic line:
metric_without_timestamp_and_labels 12.47
something_weird{problem="division by zero"} +Inf -3982045

# TYPE http_request_duration_seconds histogram
http_request_duration_seconds_bucket{le="0.05"} 24054
http_request_duration_seconds_bucket{le="+Inf"} 144320
http_request_duration_seconds_sum 53423
http_request_duration_seconds_count 144320
"#;

    #[test]
    fn the_example_of_the_format_is_read() {
        let page: Page = EXAMPLE.parse().unwrap();
        let values: Vec<_> = page.samples.values().copied().collect();
        let all = [
            144_320.0,
            24054.0,
            144_320.0,
            53423.0,
            1027.0,
            3.0,
            12.47,
            1.458255915e9,
            f64::INFINITY,
        ];
        assert_eq!(values, all);
        let names: Vec<_> = page.samples.keys().collect();
        assert_eq!(names[4].label("code"), Some("200"));
        assert_eq!(
            names[7].label("error"),
            Some("Cannot find file:\n\"FILE.TXT\"")
        );
        assert_eq!(names[7].label("path"), Some("C:\\DIR\\FILE.TXT"));
        assert_eq!(page.kind("http_requests_total"), "counter");
        assert_eq!(page.kind("http_request_duration_seconds_sum"), "histogram");
        assert_eq!(page.kind("something_weird"), "untyped");
    }

    #[test]
    fn malformed_lines_are_reported() {
        for line in [
            "<html>",
            "a",
            "a b",
            "a{b} 1",
            "a{b=\"c} 1",
            "a{b=\"c\\",
            "a{b=\"c\" 1",
            "a{",
            "a 1 2 3",
            "a 1 x",
            "{} 1",
            "a\u{fc} 1",
        ] {
            let error = format!("ok 1\n{line}").parse::<Page>().unwrap_err();
            assert!(
                error.starts_with("line 2 is not a metric: "),
                "{line}: {error}"
            );
        }
    }
}
