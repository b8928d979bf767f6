//! Shows the bytes around an error.

use std::fmt::Write as _;

/// The number of bytes in a row.
const ROW: usize = 16;

/// Returns the rows around an offset, with marks under the rest of its 4-byte unit, or under the
/// end of the input.
pub(super) fn hex_dump(bytes: &[u8], offset: usize) -> String {
    let offset = offset.min(bytes.len());
    let row_start = offset / ROW * ROW;
    let mut text = String::new();
    for start in (row_start.saturating_sub(ROW)..=row_start + ROW).step_by(ROW) {
        let row = bytes.get(start..).unwrap_or_default();
        let row = row.get(..ROW).unwrap_or(row);
        if start <= row_start || !row.is_empty() {
            push(&mut text, start, row);
        }
        if start == row_start {
            let left = 4 - offset % 4;
            let marks = vec!["^^"; left.min(bytes.len() - offset).max(1)].join(" ");
            let _ = writeln!(text, "        | {:1$}{marks}", "", 3 * (offset - row_start));
        }
    }
    text
}

fn push(text: &mut String, start: usize, row: &[u8]) {
    let digits: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
    let printable = |byte: &u8| {
        if byte.is_ascii_graphic() || *byte == b' ' {
            char::from(*byte)
        } else {
            '.'
        }
    };
    let printable: String = row.iter().map(printable).collect();
    let line = format!(
        "{start:>7} | {:1$}  {printable}",
        digits.join(" "),
        3 * ROW - 1
    );
    let _ = writeln!(text, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::hex_dump;

    fn rows(bytes: &[u8], offset: usize) -> Vec<String> {
        hex_dump(bytes, offset).lines().map(str::to_owned).collect()
    }

    #[test]
    fn rows_before_and_after() {
        let bytes: Vec<u8> = (0..48).collect();
        assert_eq!(
            rows(&bytes, 20),
            [
                "      0 | 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  ................",
                "     16 | 10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f  ................",
                "        |             ^^ ^^ ^^ ^^",
                "     32 | 20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f   !\"#$%&'()*+,-./",
            ]
        );
        assert_eq!(rows(&bytes[..16], 2)[1..], ["        |       ^^ ^^"]);
        assert_eq!(rows(&bytes, 0).len(), 3);
    }

    #[test]
    fn the_end_is_marked() {
        assert_eq!(rows(b"", 0), ["      0 |", "        | ^^"]);
        assert_eq!(rows(b"", 9), ["      0 |", "        | ^^"]);
        assert_eq!(
            rows(b"abcde", 5)[1],
            format!("        | {}^^", " ".repeat(15))
        );
        let whole = rows(&[7; 16], 16);
        assert_eq!(
            (whole.len(), &*whole[1], &*whole[2]),
            (3, "     16 |", "        | ^^")
        );
        assert_eq!(rows(&[7; 40], 38).len(), 3);
    }
}
