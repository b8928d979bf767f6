//! Conversions between URIs and paths of documents. A document without a file, such as a new one,
//! has its URI as its path.

use std::path::{Path, PathBuf};

use xdrgen_build::canonical;

const FILE: &str = "file://";

/// Returns the canonical path of a document, which identifies it.
pub(crate) fn path(uri: &str) -> PathBuf {
    let Some(rest) = uri.strip_prefix(FILE) else {
        return PathBuf::from(uri);
    };
    // A host may precede the path.
    let start = rest.find('/').unwrap_or(rest.len());
    canonical(Path::new(&decode(&rest[start..])))
}

/// Returns the URI of a path.
pub(crate) fn of(path: &Path) -> String {
    let text = path.to_string_lossy();
    if !path.is_absolute() {
        return text.into_owned();
    }
    let mut uri = FILE.to_owned();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Replaces `%41` by `A`. Other characters remain, including a `%` without two digits.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| byte == b'%');
        let escaped = digits
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_convert_to_paths_and_back() {
        for (uri, expected) in [
            ("file:///no/such%20file%2B.x", "/no/such file+.x"),
            ("file://host/no/such.x", "/no/such.x"),
            ("file:///no/100%.x", "/no/100%.x"),
            ("file:///no/%c3%a9.x", "/no/\u{e9}.x"),
            ("untitled:Untitled-1", "untitled:Untitled-1"),
        ] {
            assert_eq!(path(uri), Path::new(expected), "{uri}");
        }
        assert_eq!(of(Path::new("/no/\u{e9} +.x")), "file:///no/%C3%A9%20%2B.x");
        assert_eq!(of(Path::new("untitled:1")), "untitled:1");
    }
}
