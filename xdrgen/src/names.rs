//! Converts XDR names to Rust names: identifiers, or raw identifiers with the prefix `r#`, which
//! `emit::ident` reads.
//!
//! The rules decide the public names of all generated code, so that a change renames items of the
//! users. Two XDR names may become one Rust name: `check::clashes` reports them, and the setting
//! `rename` (`check::rename`) replaces one.

/// Converts to camel case: `rpcrdma2_xprt_hdr` to `Rpcrdma2XprtHdr`, `COMPOUND4res` to
/// `Compound4res`.
pub(crate) fn camel(name: &str) -> String {
    name.split('_')
        .flat_map(words)
        .map(|word| capitalize(&word))
        .collect()
}

/// Converts to snake case and escapes keywords: `minorVersion` to `minor_version`.
pub(crate) fn snake(name: &str) -> String {
    let parts: Vec<String> = name
        .split('_')
        .filter(|part| !part.is_empty())
        .flat_map(words)
        .collect();
    escape(parts.join("_").to_lowercase())
}

/// Converts the name of a program or a version to a module name that no enclosing generated module
/// has, and that hides no type which generated code uses.
pub(crate) fn module_name(name: &str) -> String {
    let rust = snake(name);
    if ["xdr", "owned"].contains(&rust.as_str()) || is_primitive(&rust) {
        format!("{rust}_")
    } else {
        rust
    }
}

/// Returns true for the name of a primitive type of Rust. A module of that name hides the type,
/// because both are in one namespace.
pub(crate) fn is_primitive(rust: &str) -> bool {
    PRIMITIVES.contains(&rust)
}

/// The Rust Standard Library, "Primitive Types": those that are names.
const PRIMITIVES: &[&str] = &[
    "bool", "char", "f16", "f32", "f64", "f128", "i8", "i16", "i32", "i64", "i128", "isize", "str",
    "u8", "u16", "u32", "u64", "u128", "usize",
];

/// Returns the name of a union's visitor.
pub(crate) fn visitor(union: &str) -> String {
    format!("{union}Visitor")
}

/// Converts to upper case: keeps `ROPT_CONNPROP`, turns `maxName` into `MAX_NAME`.
pub(crate) fn screaming(name: &str) -> String {
    let is_upper =
        name.chars().any(|c| c.is_ascii_uppercase()) && !name.chars().any(char::is_lowercase);
    if is_upper {
        name.to_owned()
    } else {
        snake(name).trim_start_matches("r#").to_uppercase()
    }
}

/// Converts a type's or a variant's name, after it strips the first of `prefixes` that matches.
pub(crate) fn type_name(name: &str, prefixes: &[String]) -> String {
    let rust = camel(strip(name, prefixes));
    match rust.chars().next() {
        None => "Unnamed".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("X{rust}"),
        Some(_) if rust == "Self" => "Self_".to_owned(),
        Some(_) => rust,
    }
}

/// Converts a field's name, after it strips the first of `prefixes` that matches.
pub(crate) fn field_name(name: &str, prefixes: &[String]) -> String {
    snake(strip(name, prefixes))
}

/// Strips the first of `prefixes` that matches, if the rest is a name.
pub(crate) fn strip<'a>(name: &'a str, prefixes: &[String]) -> &'a str {
    let rest = prefixes
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix.as_str()))
        .unwrap_or(name);
    if rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
        rest
    } else {
        name
    }
}

/// Returns true if a name in XDR may begin with a prefix.
pub(crate) fn begins_name(prefix: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    prefix.chars().all(inner) && prefix.starts_with(|first: char| !first.is_ascii_digit())
}

/// Returns the longest common prefix, ending in an underscore, of two or more names whose rest is a
/// name.
pub(crate) fn common_prefix<'a>(names: &[&'a str]) -> &'a str {
    let [first, _, ..] = names else {
        return "";
    };
    let fits = |prefix: &str| {
        names.iter().all(|name| {
            name.strip_prefix(prefix)
                .is_some_and(|left| left.starts_with(|c: char| c.is_ascii_alphabetic()))
        })
    };
    first
        .rmatch_indices('_')
        .map(|(at, _)| &first[..=at])
        .find(|prefix| fits(prefix))
        .unwrap_or("")
}

/// Returns a text as an identifier, raw only if it is a keyword; `None` if Rust does not accept the
/// text as a name in each edition.
pub(crate) fn identifier(text: &str) -> Option<String> {
    // The parser skips white space and comments.
    let parsed = syn::parse_str::<syn::Ident>(text).ok()?;
    let accepted = parsed == text && text != "gen";
    accepted.then(|| match text.strip_prefix("r#") {
        Some(raw) => escape(raw.to_owned()),
        None => text.to_owned(),
    })
}

/// Splits a name at changes of case: `minorVersion` into `minor`, `Version`; `SSLError` into `SSL`,
/// `Error`.
fn words(part: &str) -> Vec<String> {
    let chars: Vec<char> = part.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, &c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| chars[at]);
        let after = chars.get(at + 1).copied();
        let starts_word = c.is_uppercase() && before.is_some_and(char::is_lowercase);
        let ends_acronym = c.is_uppercase()
            && before.is_some_and(char::is_uppercase)
            && after.is_some_and(char::is_lowercase);
        if (starts_word || ends_acronym) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        word.push(c);
    }
    words.push(word);
    words
}

fn capitalize(word: &str) -> String {
    let is_upper = !word.chars().any(char::is_lowercase)
        || word.chars().filter(|c| c.is_uppercase()).count() > 1;
    let mut chars = word.chars();
    let first = chars
        .next()
        .map(|c| c.to_uppercase().to_string())
        .unwrap_or_default();
    let rest: String = if is_upper {
        chars.as_str().to_lowercase()
    } else {
        chars.as_str().to_owned()
    };
    first + &rest
}

/// Escapes a Rust keyword as a raw identifier. Keywords that cannot be raw get an underscore.
fn escape(name: String) -> String {
    match name.as_str() {
        "" => "unnamed".to_owned(),
        "self" | "super" | "crate" => format!("{name}_"),
        _ if name.starts_with(|first: char| first.is_ascii_digit()) => format!("x{name}"),
        _ if KEYWORDS.contains(&name.as_str()) => format!("r#{name}"),
        _ => name,
    }
}

/// The Rust Reference, "Keywords": strict, reserved, and those of later editions.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
    "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_camel_case() {
        let stripped = ["rpcrdma2_".to_owned()];
        for (xdr, rust) in [
            ("rpcrdma2_xprt_hdr", "XprtHdr"),
            ("rpcrdma2_", "Rpcrdma2"),
            ("COMPOUND4res", "Compound4res"),
            ("nfs_fh4", "NfsFh4"),
            ("virNetMessageHeader", "VirNetMessageHeader"),
            ("SSLError", "SslError"),
            ("self", "Self_"),
            ("NFS4ERR_NOENT", "Nfs4errNoent"),
            ("_1", "X1"),
            ("__", "Unnamed"),
        ] {
            assert_eq!(type_name(xdr, &stripped), rust);
        }
    }

    #[test]
    fn fields_are_snake_case_and_escape_keywords() {
        let stripped = ["rdma_".to_owned()];
        for (xdr, rust) in [
            ("rdma_xid", "xid"),
            ("type", "r#type"),
            ("self", "self_"),
            ("minorVersion", "minor_version"),
            ("rdma_", "rdma"),
            ("SIZE", "size"),
            ("_9", "x9"),
            ("_", "unnamed"),
        ] {
            assert_eq!(field_name(xdr, &stripped), rust);
        }
    }

    #[test]
    fn modules_hide_no_type() {
        for (xdr, rust) in [
            ("U32", "u32_"),
            ("STR", "str_"),
            ("xdr", "xdr_"),
            ("NFS_V3", "nfs_v3"),
            ("TYPE", "r#type"),
            ("self", "self_"),
        ] {
            assert_eq!(module_name(xdr), rust);
        }
    }

    #[test]
    fn identifiers_are_raw_only_if_they_are_keywords() {
        for (text, rust) in [
            ("a", "a"),
            ("r#type", "r#type"),
            ("r#a", "a"),
            ("r#gen", "r#gen"),
        ] {
            assert_eq!(identifier(text).as_deref(), Some(rust), "{text}");
        }
        for text in [
            "", "_", "9", "a b", " a", "a\n", "a/**/", "a-b", "type", "gen", "Self", "r#self",
            "r#Self", "r#", "'a",
        ] {
            assert_eq!(identifier(text), None, "{text}");
        }
    }

    #[test]
    fn members_lose_their_common_prefix() {
        assert_eq!(
            common_prefix(&["BKREQSUP_NONE", "BKREQSUP_INLINE"]),
            "BKREQSUP_"
        );
        assert_eq!(common_prefix(&["NFS4_OK", "NFS4ERR_PERM"]), "");
        assert_eq!(common_prefix(&["A_1", "A_B"]), "", "a digit is no name");
        assert_eq!(common_prefix(&["ONLY_ONE"]), "");
    }
}
