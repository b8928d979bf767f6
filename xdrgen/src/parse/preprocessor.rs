//! Evaluates the directives of the C preprocessor that XDR files use: conditions, and constants
//! from `#define`.
//!
//! A macro is defined only by a `#define` in the same text. The macros that rpcgen defines
//! (`RPC_HDR` and similar) select C code for one of its outputs; they are undefined here. Lines for
//! the header are evaluated nevertheless, because all other outputs include the header.
//!
//! [`Preprocessor::line`] reads each `#` line of a text in order, also within inactive lines, so
//! that `#endif` finds its `#if`. The lexer and `check::unmarked` each run one: both must read the
//! same lines. `%#` lines define constants for C and never a macro of a condition.

use super::condition::{self, Macros};

/// The state of the conditions and macros.
#[derive(Debug, Default)]
pub(crate) struct Preprocessor<'t> {
    branches: Vec<Branch>,
    macros: Macros<'t>,
}

/// An `#if` that is not yet closed.
#[derive(Clone, Copy, Debug)]
struct Branch {
    /// Whether the enclosing lines are active.
    parent_active: bool,
    /// Whether one of its branches was active.
    taken: bool,
    /// Whether the current branch is active.
    active: bool,
    /// Whether the current branch is that of `#else`.
    is_else: bool,
    /// Whether the current branch is inactive only because it is for the header that rpcgen
    /// generates.
    header: bool,
}

/// The macro that rpcgen defines when it generates a header.
const HEADER: &str = "RPC_HDR";

/// `#define NAME value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Definition<'t> {
    pub(super) name: &'t str,
    /// The offset of the name in the line.
    pub(super) name_at: usize,
    /// The value with its comments; `None` for a macro with parameters.
    pub(super) value: Option<&'t str>,
    /// The offset of the value in the line.
    pub(super) value_at: usize,
}

/// Returns the definition of a line that starts with `%#` or `#`, without evaluating conditions.
pub(super) fn definition(line: &str) -> Option<Definition<'_>> {
    let command = line.trim_start_matches('%').trim_start();
    let command = command.strip_prefix('#')?.trim_start();
    let argument = command.strip_prefix("define")?;
    let argument = argument.strip_prefix(|c: char| c.is_whitespace())?;
    let argument = argument.trim_start();
    let (name, rest) = split(argument);
    let value = rest.trim_start();
    (!name.is_empty()).then(|| Definition {
        name,
        name_at: line.len() - argument.len(),
        value: (!rest.starts_with('(')).then(|| value.trim_end()),
        value_at: line.len() - value.len(),
    })
}

/// Splits the argument of `#define` after the name.
fn split(argument: &str) -> (&str, &str) {
    let end = argument.find(|c: char| !c.is_alphanumeric() && c != '_');
    argument.split_at(end.unwrap_or(argument.len()))
}

/// A defect of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Why its condition is not understood. The lines that follow are active.
    Condition(String),
    /// No `#if` precedes it, or an `#else` does. It has no effect.
    Misplaced(&'static str),
}

/// The effect of a directive on the text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect<'t> {
    /// The macro that it defines.
    pub(super) definition: Option<Definition<'t>>,
    pub(super) fault: Option<Fault>,
}

impl<'t> Preprocessor<'t> {
    /// Returns true if the lines that follow are active.
    pub(crate) fn is_active(&self) -> bool {
        self.branches.last().is_none_or(|branch| branch.active)
    }

    /// Returns true if the following lines are only for the header that rpcgen generates.
    pub(super) fn is_for_header(&self) -> bool {
        self.branches.last().is_some_and(|branch| branch.header)
    }

    /// Returns the number of `#if` that are not closed.
    pub(super) fn depth(&self) -> usize {
        self.branches.len()
    }

    /// Returns the number of `#if` before the one that makes the following lines inactive.
    pub(super) fn inactive_depth(&self) -> Option<usize> {
        self.branches.iter().position(|branch| !branch.active)
    }

    /// Evaluates a directive, which starts at its `#`.
    pub(crate) fn line(&mut self, line: &'t str) -> Effect<'t> {
        let directive = line.trim_start_matches('#').trim_start();
        let end = directive.find(|c: char| !c.is_ascii_alphabetic());
        let (command, rest) = directive.split_at(end.unwrap_or(directive.len()));
        let argument = without_comment(rest);
        let mut effect = Effect::default();
        if let Some(why) = self.misplaced(command) {
            effect.fault = Some(Fault::Misplaced(why));
            return effect;
        }
        match command {
            "if" => {
                let (holds, header) = self.evaluate(rest, self.is_active(), &mut effect.fault);
                self.open(holds, header);
            }
            "ifdef" => {
                let name = first_word(argument);
                self.open(self.macros.contains_key(name), name == HEADER);
            }
            "ifndef" => self.open(!self.macros.contains_key(first_word(argument)), false),
            "elif" => {
                let last = self.branches.last();
                let matters = last.is_some_and(|last| last.parent_active && !last.taken);
                let (holds, _) = self.evaluate(rest, matters, &mut effect.fault);
                self.next_branch(holds, false);
            }
            "else" => self.next_branch(true, true),
            "endif" => {
                self.branches.pop();
            }
            "undef" if self.is_active() => {
                self.macros.remove(first_word(argument));
            }
            "define" if self.is_active() => {
                self.define(argument);
                effect.definition = definition(line);
            }
            _ => {}
        }
        effect
    }

    /// Returns why a directive has no effect where it is.
    fn misplaced(&self, command: &str) -> Option<&'static str> {
        match (command, self.branches.last()) {
            ("elif" | "else" | "endif", None) => Some("no `#if` precedes this line"),
            ("elif" | "else", Some(last)) if last.is_else => {
                Some("the `#if` of this line has an `#else` before")
            }
            _ => None,
        }
    }

    fn open(&mut self, condition: bool, header: bool) {
        let parent_active = self.is_active();
        let active = parent_active && condition;
        self.branches.push(Branch {
            parent_active,
            taken: active,
            active,
            is_else: false,
            header: header && parent_active && !active,
        });
    }

    fn next_branch(&mut self, condition: bool, is_else: bool) {
        if let Some(branch) = self.branches.last_mut() {
            branch.is_else = is_else;
            branch.active = branch.parent_active && condition && !branch.taken;
            branch.taken |= branch.active;
            branch.header = false;
        }
    }

    fn define(&mut self, argument: &'t str) {
        let (name, rest) = split(argument);
        let value = rest.trim().trim_start_matches('(').trim_end_matches(')');
        let parameters = rest.starts_with('(');
        let known = if parameters { argument } else { value.trim() };
        self.macros.insert(name, known);
    }

    /// Returns whether a condition holds, and whether it holds only for the header that rpcgen
    /// generates. A condition that is not understood holds, and is a fault if it matters.
    fn evaluate(&self, condition: &str, matters: bool, fault: &mut Option<Fault>) -> (bool, bool) {
        if !matters {
            return (false, false);
        }
        match condition::evaluate(condition, &self.macros, None) {
            Ok(true) => (true, false),
            Ok(false) => {
                let header = condition::evaluate(condition, &self.macros, Some(HEADER));
                (false, header == Ok(true))
            }
            Err(why) => {
                *fault = Some(Fault::Condition(why));
                (true, false)
            }
        }
    }
}

fn without_comment(argument: &str) -> &str {
    let mut ends = argument.match_indices('/').map(|(at, _)| at);
    let end = ends.find(|at| argument[at + 1..].starts_with(['*', '/']));
    argument[..end.unwrap_or(argument.len())].trim()
}

/// Returns the first word of an argument: C ignores the rest, with a warning.
fn first_word(argument: &str) -> &str {
    let end = argument.find(|c: char| !c.is_alphanumeric() && c != '_');
    &argument[..end.unwrap_or(argument.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active_lines(text: &str) -> Vec<&str> {
        let mut preprocessor = Preprocessor::default();
        let mut active_lines = Vec::new();
        for line in text.lines() {
            if line.starts_with('#') {
                preprocessor.line(line);
            } else if preprocessor.is_active() {
                active_lines.push(line);
            }
        }
        active_lines
    }

    #[test]
    fn one_branch_is_active() {
        assert_eq!(active_lines("#ifdef A\na\n#else\nb\n#endif\nc"), ["b", "c"]);
        assert_eq!(
            active_lines("#ifndef A\n#define A\na\n#endif\n#ifdef A\nb\n#endif"),
            ["a", "b"]
        );
        assert_eq!(
            active_lines("#if 0\na\n#elif 1\nb\n#else\nc\n#endif"),
            ["b"]
        );
        assert_eq!(
            active_lines("#if !defined(A) /* x */\na\n#if A\nb\n#endif\n#endif"),
            ["a"]
        );
        assert_eq!(
            active_lines("#if 0\n#if 1\na\n#else\nb\n#endif\n#endif\nc"),
            ["c"]
        );
        assert_eq!(
            active_lines("#endif\na\n#else\nb"),
            ["a", "b"],
            "without an #if they have no effect"
        );
    }

    #[test]
    fn a_define_has_a_name_and_a_value() {
        for (line, name, value) in [
            (
                "#define SIZE (16) /* bytes */",
                "SIZE",
                Some("(16) /* bytes */"),
            ),
            ("# define SAME\tSIZE", "SAME", Some("SIZE")),
            ("#define  SUM d + 1 ", "SUM", Some("d + 1")),
            ("#define GUARD", "GUARD", Some("")),
            ("#define MAX(a, b) a", "MAX", None),
        ] {
            let found = Preprocessor::default().line(line).definition;
            let found = found.unwrap_or_else(|| panic!("{line}"));
            assert_eq!((found.name, found.value), (name, value));
            assert!(line[found.name_at..].starts_with(name), "{line}");
            assert!(
                line[found.value_at..].starts_with(value.unwrap_or("(")),
                "{line}"
            );
        }
        for line in ["#define", "#define ", "#defined A 1", "#undef A"] {
            assert_eq!(Preprocessor::default().line(line).definition, None);
        }
        let mut inactive = Preprocessor::default();
        inactive.line("#if 0");
        assert_eq!(inactive.line("#define A 1").definition, None);
    }

    #[test]
    fn operators_are_evaluated() {
        assert_eq!(
            active_lines("#define V 2\n#if A || V >= 2\na\n#elif V\nb\n#endif"),
            ["a"]
        );
        assert_eq!(
            active_lines("#if defined(RPC_HDR) && V\na\n#else\nb\n#endif"),
            ["b"]
        );
    }

    #[test]
    fn comments_and_further_words_do_not_belong_to_a_name() {
        let text = "#define A\n#ifdef A // see /* b */\na\n#endif\n#ifdef A /* // */ \nb\n#endif\n\
                    #ifdef A B\nc\n#endif\n#ifndef A B\nd\n#endif\n#undef A;\n#ifdef A\ne\n#endif";
        assert_eq!(active_lines(text), ["a", "b", "c"]);
    }

    #[test]
    fn a_directive_without_its_if_is_a_fault_and_has_no_effect() {
        let mut preprocessor = Preprocessor::default();
        let mut misplaced =
            |line| matches!(preprocessor.line(line).fault, Some(Fault::Misplaced(_)));
        for line in ["#else", "#elif A(1)", "#endif"] {
            assert!(misplaced(line), "{line}");
        }
        assert!(!misplaced("#if 0") && !misplaced("#else"));
        assert!(misplaced("#else") && misplaced("#elif 1"));
        assert!(!misplaced("#endif"));
        assert_eq!(
            active_lines("#if 0\na\n#else\nb\n#else\nc\n#endif"),
            ["b", "c"]
        );
    }

    /// A condition is evaluated only where its value matters.
    #[test]
    fn a_condition_that_is_not_understood_is_a_fault_and_holds() {
        let mut preprocessor = Preprocessor::default();
        let mut fault = |line| preprocessor.line(line).fault.is_some();
        assert!(fault("#if A(1)"));
        assert!(!fault("#elif A(2)"));
        assert!(!fault("#endif"));
        assert!(!fault("#if 0"));
        assert!(!fault("#if A(3)"));
        assert!(!fault("#endif"));
        assert!(fault("#elif A ?"));
        assert!(preprocessor.is_active() && preprocessor.depth() == 1);
    }
}
