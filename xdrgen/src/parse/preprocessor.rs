//! The lines of the C preprocessor, as far as XDR files use them: which lines count, and constants by another name.
//!
//! A macro counts as defined once a `#define` of the same text said so; what rpcgen itself defines (`RPC_HDR` and the
//! like) selects C for one of its outputs and is undefined here.

use std::collections::HashSet;

/// Which lines count.
#[derive(Debug, Default)]
pub(super) struct Preprocessor<'t> {
    branches: Vec<Branch>,
    defined: HashSet<&'t str>,
}

/// One `#if` up to its `#endif`.
#[derive(Clone, Copy, Debug)]
struct Branch {
    /// Whether the lines around it count.
    outside: bool,
    /// Whether one of its branches counted so far.
    taken: bool,
    /// Whether the present one does.
    active: bool,
}

/// `#define NAME value`, where the value is one number or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Definition<'t> {
    pub(super) name: &'t str,
    pub(super) value: &'t str,
}

impl<'t> Preprocessor<'t> {
    /// Whether the lines that follow count.
    pub(super) fn counts(&self) -> bool {
        self.branches.last().is_none_or(|branch| branch.active)
    }

    /// Takes a line, from its `#` on. Returns the constant that it defines.
    pub(super) fn line(&mut self, line: &'t str) -> Option<Definition<'t>> {
        let line = line.trim_start_matches('#').trim_start();
        let end = line.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(line.len());
        let (command, argument) = (&line[..end], without_comment(&line[end..]));
        match command {
            "if" => self.open(self.holds(argument)),
            "ifdef" => self.open(self.defined.contains(argument)),
            "ifndef" => self.open(!self.defined.contains(argument)),
            "elif" => self.other(self.holds(argument)),
            "else" => self.other(true),
            "endif" => {
                self.branches.pop();
            }
            "undef" if self.counts() => {
                self.defined.remove(argument);
            }
            "define" if self.counts() => return self.define(argument),
            _ => {}
        }
        None
    }

    fn open(&mut self, condition: bool) {
        let outside = self.counts();
        let active = outside && condition;
        self.branches.push(Branch { outside, taken: active, active });
    }

    fn other(&mut self, condition: bool) {
        if let Some(branch) = self.branches.last_mut() {
            branch.active = branch.outside && condition && !branch.taken;
            branch.taken |= branch.active;
        }
    }

    fn define(&mut self, argument: &'t str) -> Option<Definition<'t>> {
        let end = argument.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(argument.len());
        let (name, value) = argument.split_at(end);
        self.defined.insert(name);
        let value = value.trim().trim_start_matches('(').trim_end_matches(')').trim();
        let is_word = !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        (is_word && !name.is_empty()).then_some(Definition { name, value })
    }

    /// Whether a condition holds. A macro without a definition is zero in C, and so is what we don't understand.
    fn holds(&self, condition: &str) -> bool {
        let (negated, condition) = match condition.strip_prefix('!') {
            Some(rest) => (true, rest.trim()),
            None => (false, condition),
        };
        let asked = condition.strip_prefix("defined").map(|name| name.trim().trim_matches(['(', ')']).trim());
        let holds = match asked {
            Some(name) => self.defined.contains(name),
            None => condition.trim_matches(['(', ')']).parse::<i64>().is_ok_and(|number| number != 0),
        };
        holds != negated
    }
}

fn without_comment(argument: &str) -> &str {
    let end = argument.find("/*").or_else(|| argument.find("//")).unwrap_or(argument.len());
    argument[..end].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> Vec<&str> {
        let mut preprocessor = Preprocessor::default();
        let mut counted = Vec::new();
        for line in text.lines() {
            if line.starts_with('#') {
                preprocessor.line(line);
            } else if preprocessor.counts() {
                counted.push(line);
            }
        }
        counted
    }

    #[test]
    fn one_branch_counts() {
        assert_eq!(counted("#ifdef A\na\n#else\nb\n#endif\nc"), ["b", "c"]);
        assert_eq!(counted("#ifndef A\n#define A\na\n#endif\n#ifdef A\nb\n#endif"), ["a", "b"]);
        assert_eq!(counted("#if 0\na\n#elif 1\nb\n#else\nc\n#endif"), ["b"]);
        assert_eq!(counted("#if !defined(A) /* x */\na\n#if A\nb\n#endif\n#endif"), ["a"]);
        assert_eq!(counted("#if 0\n#if 1\na\n#else\nb\n#endif\n#endif\nc"), ["c"]);
        assert_eq!(counted("#endif\na\n#else\nb"), ["a", "b"], "without an #if they say nothing");
    }

    #[test]
    fn a_define_of_one_word_is_a_constant() {
        let mut preprocessor = Preprocessor::default();
        let defined = |name, value| Some(Definition { name, value });
        assert_eq!(preprocessor.line("#define SIZE (16) /* octets */"), defined("SIZE", "16"));
        assert_eq!(preprocessor.line("# define SAME\tSIZE"), defined("SAME", "SIZE"));
        assert_eq!(preprocessor.line("#define GUARD"), None);
        assert_eq!(preprocessor.line("#define MAX(a, b) a"), None);
    }
}
