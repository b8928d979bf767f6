//! A second implementation of the grammar of RFC 4506 and RFC 5531: a simple recognizer, which is
//! the oracle of the mutation test.

/// Splits a text into words and signs.
pub(super) fn words(xdr: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(first) = xdr[at..].chars().next() {
        let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match first {
            _ if xdr[at..].starts_with("/*") => {
                xdr[at..].find("*/").map_or(xdr.len() - at, |end| end + 2)
            }
            c if inner(c) || c == '-' => xdr[at + 1..]
                .find(|c| !inner(c))
                .map_or(xdr.len() - at, |end| end + 1),
            c => c.len_utf8(),
        };
        if !first.is_whitespace() && !xdr[at..].starts_with("/*") {
            words.push((at, &xdr[at..at + length]));
        }
        at += length;
    }
    words
}

/// Returns true if the words follow the grammar, including the extensions that are allowed by
/// default.
pub(super) fn is_legal(words: &[&str]) -> bool {
    let mut reader = Reader { words, at: 0 };
    while reader.at < words.len() {
        if reader.definition().is_none() {
            return false;
        }
    }
    true
}

struct Reader<'t> {
    words: &'t [&'t str],
    at: usize,
}

const KEYWORDS: &[&str] = &[
    "bool",
    "case",
    "const",
    "default",
    "double",
    "quadruple",
    "enum",
    "float",
    "hyper",
    "int",
    "opaque",
    "string",
    "struct",
    "switch",
    "typedef",
    "union",
    "unsigned",
    "void",
];

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> &str {
        self.words.get(self.at + ahead).copied().unwrap_or_default()
    }

    fn word(&mut self, word: &str) -> Option<()> {
        (self.peek(0) == word).then(|| self.at += 1)
    }

    fn all(&mut self, words: &[&str]) -> Option<()> {
        words.iter().try_for_each(|word| self.word(word))
    }

    fn is_name(&self, ahead: usize) -> bool {
        let word = self.peek(ahead);
        word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !KEYWORDS.contains(&word)
    }

    fn name(&mut self) -> Option<()> {
        self.is_name(0).then(|| self.at += 1)
    }

    fn value(&mut self) -> Option<()> {
        let number = self
            .peek(0)
            .starts_with(|c: char| c.is_ascii_digit() || c == '-');
        (number || self.is_name(0)).then(|| self.at += 1)
    }

    fn definition(&mut self) -> Option<()> {
        let keyword = self.peek(0).to_owned();
        self.at += 1;
        match keyword.as_str() {
            "const" => {
                if self.peek(1) != "=" {
                    self.ty()?;
                }
                self.name()?;
                self.word("=")?;
                self.value()?;
            }
            "typedef" => self.declaration()?,
            "enum" | "struct" => {
                self.name()?;
                self.body(&keyword)?;
            }
            "union" => {
                self.name()?;
                self.union()?;
            }
            "program" => {
                self.name()?;
                self.word("{")?;
                self.many("}", Self::version)?;
                self.word("=")?;
                self.value()?;
            }
            _ => return None,
        }
        self.word(";")
    }

    /// One or more items, then `end`.
    fn many(&mut self, end: &str, item: fn(&mut Self) -> Option<()>) -> Option<()> {
        item(self)?;
        while self.word(end).is_none() {
            item(self)?;
        }
        Some(())
    }

    fn body(&mut self, keyword: &str) -> Option<()> {
        self.word("{")?;
        if keyword == "struct" {
            self.many("}", Self::field)
        } else {
            self.members()
        }
    }

    fn members(&mut self) -> Option<()> {
        loop {
            self.name()?;
            self.word("=")?;
            self.value()?;
            if self.word("}").is_some() {
                return Some(());
            }
            self.word(",")?;
        }
    }

    fn field(&mut self) -> Option<()> {
        self.declaration()?;
        self.word(";")
    }

    fn union(&mut self) -> Option<()> {
        self.all(&["switch", "("])?;
        self.ty()?;
        self.name()?;
        self.all(&[")", "{"])?;
        while self.peek(0) == "case" {
            while self.word("case").is_some() {
                self.value()?;
                self.word(":")?;
            }
            self.arm()?;
        }
        if self.word("default").is_some() {
            self.word(":")?;
            self.arm()?;
        }
        self.word("}")
    }

    fn arm(&mut self) -> Option<()> {
        if self.word("void").is_none() {
            self.declaration()?;
        }
        self.word(";")
    }

    fn ty(&mut self) -> Option<()> {
        let keyword = self.peek(0).to_owned();
        if self.name().is_some() {
            return Some(());
        }
        self.at += 1;
        match keyword.as_str() {
            "bool" | "double" | "quadruple" | "float" | "hyper" | "int" => Some(()),
            "unsigned" => {
                let _ = self.word("int").or_else(|| self.word("hyper"));
                Some(())
            }
            "struct" | "enum" if self.peek(0) == "{" => self.body(&keyword),
            "union" if self.peek(0) == "switch" => self.union(),
            "struct" | "enum" | "union" => self.name(),
            _ => None,
        }
    }

    fn declaration(&mut self) -> Option<()> {
        let first = self.peek(0).to_owned();
        if matches!(first.as_str(), "opaque" | "string") {
            self.at += 1;
        } else {
            self.ty()?;
        }
        if first != "opaque" && first != "string" && self.word("*").is_some() {
            return self.name();
        }
        self.name()?;
        match self.peek(0) {
            "[" if first != "string" => {
                self.at += 1;
                self.value()?;
                self.word("]")
            }
            "<" => {
                self.at += 1;
                let _ = self.value();
                self.word(">")
            }
            _ => (first != "opaque" && first != "string").then_some(()),
        }
    }

    fn version(&mut self) -> Option<()> {
        self.word("version")?;
        self.name()?;
        self.word("{")?;
        self.many("}", Self::procedure)?;
        self.word("=")?;
        self.value()?;
        self.word(";")
    }

    fn procedure(&mut self) -> Option<()> {
        self.result()?;
        self.name()?;
        self.word("(")?;
        if self.word("void").is_none() {
            self.result()?;
            while self.word(",").is_some() {
                self.result()?;
            }
        }
        self.all(&[")", "="])?;
        self.value()?;
        self.word(";")
    }

    /// A result or an argument, which may be a bare `string`.
    fn result(&mut self) -> Option<()> {
        self.word("void")
            .or_else(|| self.word("string"))
            .or_else(|| self.ty())
    }
}
