//! Reads XML as far as RFCXML (RFC 7991) needs it: tags, text, and sections that no entity hides.
//!
//! [`pieces`], [`attribute`] and [`entity`] also serve `extract::markup`, whose columns rely on
//! exact offsets. Damaged input yields fewer pieces and no error; no entity of a DOCTYPE is
//! expanded. [`Counters`] numbers the sections of markdown too.

use std::ops::Range;

use super::Section;

/// A piece of an XML document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// `<name attributes>`; `empty` for `<name/>`.
    Start {
        name: &'t str,
        attributes: &'t str,
        empty: bool,
    },
    /// `</name>`
    End(&'t str),
    /// Text with entities.
    Text(Range<usize>),
    /// The content of `<![CDATA[ .. ]]>`.
    Verbatim(Range<usize>),
}

/// Splits a document into pieces, each with the offset at which it begins. Each byte is read once.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = (usize, Piece<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
            let start = at;
            if !rest.starts_with('<') {
                at += rest.find('<').unwrap_or(rest.len());
                return Some((start, Piece::Text(start..at)));
            }
            if let Some(content) = rest.strip_prefix("<![CDATA[") {
                let from = start + (rest.len() - content.len());
                let end = content.find("]]>").map_or(text.len(), |end| from + end);
                at = (end + 3).min(text.len());
                return Some((start, Piece::Verbatim(from..end)));
            }
            let (close, skipped) = match rest {
                rest if rest.starts_with("<!--") => ("-->", true),
                rest if rest.starts_with("<?") => ("?>", true),
                rest if rest.starts_with("<!") => (doctype_end(rest), true),
                _ => (">", false),
            };
            let end = rest.find(close).map_or(rest.len(), |end| end + close.len());
            at += end;
            if !skipped {
                return Some((start, tag(&rest[1..end])));
            }
        }
    })
}

/// Returns what ends a `<!DOCTYPE`: entities may be declared within it.
fn doctype_end(rest: &str) -> &'static str {
    let bracket = rest.find('[');
    let angle = rest.find('>');
    match (bracket, angle) {
        (Some(bracket), Some(angle)) if bracket < angle => "]>",
        _ => ">",
    }
}

/// Reads a tag after its `<`.
fn tag(content: &str) -> Piece<'_> {
    let content = content.strip_suffix('>').unwrap_or(content);
    if let Some(name) = content.strip_prefix('/') {
        return Piece::End(name.trim());
    }
    let (content, empty) = match content.strip_suffix('/') {
        Some(content) => (content, true),
        None => (content, false),
    };
    let end = content.find(char::is_whitespace).unwrap_or(content.len());
    Piece::Start {
        name: &content[..end],
        attributes: &content[end..],
        empty,
    }
}

/// Returns the value of an attribute.
pub(crate) fn attribute<'t>(attributes: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = attributes;
    while let Some((before, after)) = rest.split_once('=') {
        let key = before.split_whitespace().next_back().unwrap_or_default();
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (value, next) = after[1..].split_once(quote)?;
        if key == name {
            return Some(value);
        }
        rest = next;
    }
    None
}

/// Decodes the entity at the start of a text: the character, and the length of the entity.
pub(crate) fn entity(text: &str) -> Option<(char, usize)> {
    const MAX_LENGTH: usize = 12;
    let end = text
        .bytes()
        .take(MAX_LENGTH)
        .position(|byte| byte == b';')?;
    let name = text.get(..end)?.strip_prefix('&')?;
    let code = |digits: &str, radix| {
        let code = u32::from_str_radix(digits, radix).ok()?;
        char::from_u32(code)
    };
    let decoded = match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        _ => match name.strip_prefix("#x").or_else(|| name.strip_prefix("#X")) {
            Some(digits) => code(digits, 16)?,
            None => code(name.strip_prefix('#')?, 10)?,
        },
    };
    Some((decoded, end + 1))
}

/// Returns a text with its entities decoded, on one line.
fn decoded(text: &str) -> String {
    let mut found = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (next, length) = match first {
            '&' => entity(rest).unwrap_or(('&', 1)),
            other => (other, other.len_utf8()),
        };
        found.push(next);
        rest = &rest[length..];
    }
    found.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the sections of an RFCXML document, with the numbers that its renderers give them.
pub(crate) fn sections(text: &str) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    let mut counters = Counters::default();
    let (mut line, mut counted) = (1, 0);
    // The section whose `<name>` was not read yet, and whether its text is next.
    let (mut unnamed, mut in_name) = (None, false);
    for (at, piece) in pieces(text) {
        line += text[counted..at].matches('\n').count();
        counted = at;
        match piece {
            Piece::Start { name: "back", .. } => counters.begin_appendices(),
            Piece::Start {
                name: "section",
                attributes,
                empty: false,
            } => {
                let numbered = attribute(attributes, "numbered") != Some("false");
                let number = counters.open(numbered);
                let title = attribute(attributes, "title").map(decoded);
                unnamed = title.is_none().then_some(found.len());
                let title = title.unwrap_or_default();
                found.extend(number.map(|number| Section {
                    line,
                    number,
                    title,
                }));
            }
            Piece::End("section") => counters.close(),
            Piece::Start { name: "name", .. } => in_name = unnamed.is_some(),
            Piece::End("name") if in_name => {
                in_name = false;
                let section = unnamed.take().and_then(|at: usize| found.get_mut(at));
                if let Some(section) = section {
                    section.title = decoded(&section.title);
                }
            }
            Piece::Text(range) if in_name => {
                let section = unnamed.and_then(|at: usize| found.get_mut(at));
                if let Some(section) = section {
                    section.title.push_str(&text[range]);
                }
            }
            _ => {}
        }
    }
    found
}

/// The numbers of the open sections, and of their last subsections.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// The number of the last part at each level.
    last: Vec<u32>,
    depth: usize,
    appendix: bool,
    /// The open sections without a number.
    unnumbered: usize,
}

impl Counters {
    /// Numbers the following sections as appendices.
    pub(super) fn begin_appendices(&mut self) {
        *self = Self {
            appendix: true,
            ..Self::default()
        };
    }

    /// Returns the number of the next section at the current level, and enters it. A subsection of
    /// a section without a number has no number.
    fn open(&mut self, numbered: bool) -> Option<String> {
        if !numbered || self.unnumbered > 0 {
            self.unnumbered += 1;
            return None;
        }
        self.depth += 1;
        Some(self.at(self.depth))
    }

    fn close(&mut self) {
        if self.unnumbered > 0 {
            self.unnumbered -= 1;
        } else {
            self.depth = self.depth.saturating_sub(1);
        }
    }

    /// Returns the number of the next section at a level, the first of which is 1.
    pub(super) fn at(&mut self, level: usize) -> String {
        self.last.resize(level, 0);
        if let Some(last) = self.last.last_mut() {
            *last += 1;
        }
        let mut number = String::new();
        for (at, part) in self.last.iter().enumerate() {
            let letter = char::from_u32(u32::from(b'A') + part.saturating_sub(1));
            match letter {
                Some(letter) if self.appendix && at == 0 => number.push(letter),
                _ if at == 0 => number += &part.to_string(),
                _ => number += &format!(".{part}"),
            }
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_the_numbers_of_the_renderers() {
        let text = "<?xml version='1.0'?>\n<!DOCTYPE rfc [\n <!ENTITY a \"b\">\n]>\n<rfc><middle>\n\
            <section title=\"A &amp; b\">\n<!-- <section> -->\n<section>\n<name>C <em>d</em>\n\
            </name>\n\
            </section></section>\n<section numbered=\"false\"><section/></section>\n\
            <section title='E'></section></middle>\n<back><section title=\"F\"><section \
            title=\"G\">\
            </section></section></back></rfc>";
        let found = sections(text);
        let list: Vec<(usize, &str, &str)> = found
            .iter()
            .map(|section| {
                (
                    section.line,
                    section.number.as_str(),
                    section.title.as_str(),
                )
            })
            .collect();
        let expected = [
            (6, "1", "A & b"),
            (8, "1.1", "C d"),
            (13, "2", "E"),
            (14, "A", "F"),
            (14, "A.1", "G"),
        ];
        assert_eq!(list, expected);
    }

    #[test]
    fn entities_are_decoded() {
        for (text, expected) in [
            ("&lt;a", Some(('<', 4))),
            ("&#60;", Some(('<', 5))),
            ("&#x3c;", Some(('<', 6))),
            ("&nothing;", None),
            ("& a;", None),
            ("&#xffffffff;", None),
            ("&", None),
        ] {
            assert_eq!(entity(text), expected, "{text}");
        }
    }

    #[test]
    fn damaged_documents_terminate() {
        for text in [
            "<",
            "<a",
            "<![CDATA[",
            "<!--",
            "<?",
            "</",
            "<!DOCTYPE [",
            "&",
            "<a b='",
        ] {
            assert!(pieces(text).count() <= 1, "{text}");
            assert_eq!(sections(text), [], "{text}");
        }
    }
}
