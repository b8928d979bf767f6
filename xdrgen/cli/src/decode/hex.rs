//! Parses bytes in hexadecimal, as people and other tools write them.

use std::fmt;

/// An error and its position. Lines and columns start at 1; columns count characters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HexError {
    line: usize,
    column: usize,
    kind: HexErrorKind,
}

#[derive(Debug, PartialEq, Eq)]
enum HexErrorKind {
    NotADigit(char),
    HalfByte(char),
    /// An offset, which `xxd` and Wireshark print before the bytes of a line.
    Offset,
}

impl fmt::Display for HexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)?;
        match self.kind {
            HexErrorKind::NotADigit(other) => write!(f, "{other:?} is not a hexadecimal digit"),
            HexErrorKind::Offset => {
                f.write_str("this looks like an offset; `xxd -p` prints bytes without offsets")
            }
            HexErrorKind::HalfByte(digit) => write!(
                f,
                "`{digit}` is half a byte; a byte has two adjacent digits"
            ),
        }
    }
}

/// Parses text: two digits for each byte, with white space, `:` and `0x` between bytes, and
/// comments from `#` to the end of the line.
pub(super) fn parse(text: &[u8]) -> Result<Vec<u8>, HexError> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for (line, text) in (1..).zip(String::from_utf8_lossy(text).lines()) {
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        if begins_with_offset(text) {
            return Err(HexError {
                line,
                column: 1,
                kind: HexErrorKind::Offset,
            });
        }
        let mut rest = (1..).zip(text.chars()).peekable();
        while let Some((column, first)) = rest.next() {
            if first.is_whitespace() || first == ':' {
                continue;
            }
            let error = |column, kind| HexError { line, column, kind };
            let high = first
                .to_digit(16)
                .ok_or(error(column, HexErrorKind::NotADigit(first)))?;
            match rest.peek().copied() {
                Some((_, 'x' | 'X')) if first == '0' => {}
                Some((column, second)) if !second.is_whitespace() && second != ':' => {
                    let low = second
                        .to_digit(16)
                        .ok_or(error(column, HexErrorKind::NotADigit(second)))?;
                    bytes.extend(u8::try_from(high << 4 | low));
                }
                _ => return Err(error(column, HexErrorKind::HalfByte(first))),
            }
            rest.next();
        }
    }
    Ok(bytes)
}

/// Returns true for a line that begins with `00000010: `, as `xxd` prints, or `0010   `, as
/// Wireshark does.
fn begins_with_offset(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_hexdigit).count();
    let after = line.get(digits..).unwrap_or_default();
    (digits == 8 && after.starts_with(": ")) || (digits == 4 && after.starts_with("  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this check, offsets would be read as bytes and corrupt the message silently.
    #[test]
    fn offsets_are_rejected() {
        for line in ["00000000: 0000 0001", "0010   00 00 00 01"] {
            let rejected = parse(format!("00 11 # a comment\n{line}").as_bytes());
            assert_eq!(
                rejected,
                Err(HexError {
                    line: 2,
                    column: 1,
                    kind: HexErrorKind::Offset
                }),
                "{line}"
            );
        }
        assert_eq!(
            parse(b"00000001 0000 0002"),
            Ok(vec![0, 0, 0, 1, 0, 0, 0, 2])
        );
        assert_eq!(parse(b"00:00:00:01"), Ok(vec![0, 0, 0, 1]));
    }

    #[test]
    fn bytes_have_two_digits() {
        for text in [
            "00ffA1b2",
            "00 ff a1 b2\n",
            "0x00 0xFF 0xa1 0Xb2",
            "0x00ffa1b2",
            "00:ff:a1:b2",
            "00ff # the first half\n\n\ta1b2#",
            "# nothing\r\n00ff\r\na1b2\r\n",
            "00,ffa1b2".replace(',', " : ").as_str(),
        ] {
            assert_eq!(
                parse(text.as_bytes()),
                Ok(vec![0x00, 0xff, 0xa1, 0xb2]),
                "{text}"
            );
        }
        assert_eq!(parse(b""), Ok(vec![]));
        assert_eq!(parse(b" # 00"), Ok(vec![]));
    }

    #[test]
    fn errors_have_a_position() {
        for (text, message) in [
            ("00\n0g", "line 2, column 2: 'g' is not a hexadecimal digit"),
            ("00 xx", "line 1, column 4: 'x' is not a hexadecimal digit"),
            ("é", "line 1, column 1: 'é' is not a hexadecimal digit"),
            (
                "\"00\"",
                "line 1, column 1: '\"' is not a hexadecimal digit",
            ),
            (
                "00 1 02",
                "line 1, column 4: `1` is half a byte; a byte has two adjacent digits",
            ),
            (
                "0x1",
                "line 1, column 3: `1` is half a byte; a byte has two adjacent digits",
            ),
            (
                "001\n2",
                "line 1, column 3: `1` is half a byte; a byte has two adjacent digits",
            ),
            ("1x00", "line 1, column 2: 'x' is not a hexadecimal digit"),
        ] {
            assert_eq!(
                parse(text.as_bytes()).map_err(|error| error.to_string()),
                Err(message.to_owned()),
                "{text}"
            );
        }
        assert!(parse(&[0xff, 0xfe]).is_err());
    }
}
