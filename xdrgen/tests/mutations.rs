//! Mutation test over the drafts with errata applied: one token is deleted, doubled or swapped with
//! the next. Each defect must be reported at its position, also among defects in other definitions.
//!
//! All mutations are tried, and random combinations of five. The seed is printed; `XDRGEN_SEED=n`
//! repeats it. [`LegalReason`] decides whether a mutated text is still legal XDR, with rules of its
//! own that do not use the compiler.

mod common;

use common::{
    RTREXT, SETS, SPEC, V2, XCHAREXT_02, XCHAREXT_03, Xorshift, case_factor, is_on_lines, report,
    spec,
};
use xdrgen_build::diagnostic::Diagnostics;
use xdrgen_build::errata::{self, Erratum};
use xdrgen_build::source::SourceMap;
use xdrgen_build::{Compilation, Config, Module};

/// A word or a sign of a draft's `///` lines.
#[derive(Clone, Debug, PartialEq)]
struct Token {
    /// The offset of the first byte in the draft's text.
    start: usize,
    text: String,
    line: usize,
    /// The index of the definition that contains it.
    definition: usize,
}

impl Token {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }

    fn is_name(&self) -> bool {
        const KEYWORDS: &str = " bool case const default double enum float hyper int opaque \
            quadruple string struct \
                                switch typedef union unsigned void ";
        self.text
            .starts_with(|first: char| first.is_ascii_alphabetic())
            && !KEYWORDS.contains(&format!(" {} ", self.text))
    }
}

/// A draft with its errata applied. Each line keeps its number.
#[derive(Clone, Debug)]
struct Draft {
    name: &'static str,
    text: String,
    tokens: Vec<Token>,
}

impl Draft {
    fn clean(name: &'static str) -> Self {
        let mut lines: Vec<String> = spec(name).lines().map(str::to_owned).collect();
        let mut sources = SourceMap::new();
        let mut none = Diagnostics::default();
        let all = errata::read(&mut sources, "errata.toml", &spec("errata.toml"), &mut none);
        all.iter()
            .filter(|erratum| erratum.document == name)
            .for_each(|erratum| apply_erratum(&mut lines, erratum));
        let text = lines.join("\n") + "\n";
        let tokens = tokens(&text);
        Self { name, text, tokens }
    }

    /// Returns true if the running text has a copy of a definition, which the compiler compares.
    fn has_copy(&self, definition: usize) -> bool {
        let head: Vec<&str> = self
            .tokens
            .iter()
            .filter(|token| token.definition == definition)
            .map(|t| &*t.text)
            .collect();
        let head = format!("{} {}", head[0], head[1]);
        self.text.lines().any(|line| {
            let line = line.trim();
            line == head
                || line
                    .strip_prefix(&head)
                    .is_some_and(|rest| rest.starts_with([' ', '{']))
        })
    }

    /// Returns the text with mutations applied to different tokens.
    fn broken(&self, mutations: &[Mutation]) -> String {
        let mut edits: Vec<(usize, usize, String)> = Vec::new();
        for mutation in mutations {
            let token = &self.tokens[mutation.at];
            match mutation.kind {
                Kind::Delete => {
                    edits.push((token.start, token.end(), " ".repeat(token.text.len())))
                }
                Kind::Double => edits.push((token.end(), token.end(), format!(" {}", token.text))),
                Kind::Swap => {
                    let next = &self.tokens[mutation.at + 1];
                    edits.push((token.start, token.end(), format!(" {} ", next.text)));
                    edits.push((next.start, next.end(), format!(" {} ", token.text)));
                }
            }
        }
        edits.sort_by_key(|(start, ..)| std::cmp::Reverse(*start));
        let mut text = self.text.clone();
        edits
            .iter()
            .for_each(|(start, end, new)| text.replace_range(*start..*end, new));
        text
    }

    /// Returns the set of drafts that it is compiled with.
    fn set(&self) -> [&'static str; 3] {
        if self.name == XCHAREXT_02 {
            SETS[1]
        } else {
            SETS[0]
        }
    }
}

/// Applies an erratum. Several new lines are joined, so that the lines after them keep their
/// numbers.
fn apply_erratum(lines: &mut [String], erratum: &Erratum) {
    let new = erratum.new.split_whitespace().collect::<Vec<_>>().join(" ");
    for (at, piece) in erratum.old.trim_end().lines().enumerate() {
        let line = &mut lines[erratum.line - 1 + at];
        let piece = if at == 0 { piece } else { piece.trim() };
        assert_eq!(
            line.matches(piece).count(),
            1,
            "{}:{}",
            erratum.document,
            erratum.line
        );
        *line = line.replacen(piece, if at == 0 { &new } else { "" }, 1);
    }
}

/// Returns the tokens of the `///` lines.
fn tokens(text: &str) -> Vec<Token> {
    let mut found: Vec<Token> = Vec::new();
    let (mut in_comment, mut depth, mut definition, mut line_start) = (false, 0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let mut at = line
            .find("///")
            .filter(|at| line[..*at].trim().is_empty())
            .map_or(line.len(), |at| at + 3);
        while at < line.len() {
            let rest = &line[at..];
            if in_comment || rest.starts_with("/*") {
                let end = rest.find("*/");
                in_comment = end.is_none();
                at = end.map_or(line.len(), |end| at + end + 2);
                continue;
            }
            let word = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let length = word.max(1);
            if !rest.starts_with(char::is_whitespace) {
                let text = rest[..length].to_owned();
                depth += i32::from(text == "{") - i32::from(text == "}");
                let ends = text == ";" && depth == 0;
                found.push(Token {
                    start: line_start + at,
                    text,
                    line: number + 1,
                    definition,
                });
                definition += usize::from(ends);
            }
            at += length;
        }
        line_start += line.len();
    }
    found
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Delete,
    Double,
    Swap,
}

/// A mutation of a token, by its index.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mutation {
    at: usize,
    kind: Kind,
}

impl Mutation {
    fn random(generator: &mut Xorshift, draft: &Draft) -> Self {
        let at = generator.below(draft.tokens.len() - 1);
        Self {
            at,
            kind: [Kind::Delete, Kind::Double, Kind::Swap][generator.below(3)],
        }
    }

    /// Returns the lines on which it must be reported.
    fn lines(self, draft: &Draft) -> [usize; 2] {
        [draft.tokens[self.at].line, draft.tokens[self.at + 1].line]
    }

    fn shown(self, draft: &Draft) -> String {
        let Token { text, line, .. } = &draft.tokens[self.at];
        let next = &draft.tokens[self.at + 1].text;
        format!(
            "{}:{line}: {:?} `{text}` (before `{next}`)",
            draft.name, self.kind
        )
    }
}

/// The reason why a mutated text is still legal, so that nothing is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LegalReason {
    /// `struct T a` and `enum T a` become `T a`, which is the form of RFC 4506.
    KeywordOfReference,
    /// `const uint32 A = 1` becomes `const A = 1`, which is the form of RFC 4506.
    TypeOfConstant,
    /// `T *a` becomes `T a`, a different but legal specification, if `T` does not contain the
    /// struct with the field `a` and the running text has no copy of the definition.
    Optional,
}

impl LegalReason {
    fn of(draft: &Draft, mutation: Mutation) -> Option<Self> {
        if mutation.kind != Kind::Delete {
            return None;
        }
        let tokens = &draft.tokens;
        let own = &tokens[mutation.at];
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
        let is_name = |at: usize| tokens.get(at).is_some_and(Token::is_name);
        let at = mutation.at;
        match own.text.as_str() {
            "struct" | "enum" if is_name(at + 1) && text(at + 2) != "{" => {
                Some(Self::KeywordOfReference)
            }
            _ if own.is_name() && text(at.wrapping_sub(1)) == "const" && is_name(at + 1) => {
                Some(Self::TypeOfConstant)
            }
            "*" => {
                let head = tokens
                    .iter()
                    .find(|token| token.definition == own.definition && token.is_name());
                let recursive = head.is_some_and(|head| head.text == text(at - 1));
                (!recursive && !draft.has_copy(own.definition)).then_some(Self::Optional)
            }
            _ => None,
        }
    }
}

/// Compiles a draft's text with the other drafts of its set, as one module.
fn compile(
    drafts: &[Draft],
    set: [&'static str; 3],
    broken: &[(&'static str, &str)],
) -> Compilation {
    let mut module = Module::new("v2");
    for name in set {
        let clean = drafts
            .iter()
            .find(|draft| draft.name == name)
            .map(|draft| draft.text.as_str());
        let text = broken
            .iter()
            .find(|(other, _)| *other == name)
            .map(|(_, text)| *text)
            .or(clean);
        module = module.text(name, text.expect(name));
    }
    Config::new().module(module).check()
}

fn drafts() -> Vec<Draft> {
    [V2, XCHAREXT_02, XCHAREXT_03, RTREXT]
        .map(Draft::clean)
        .to_vec()
}

/// Returns what is wrong with the diagnostics of a mutation, if anything.
fn complaint(drafts: &[Draft], draft: &Draft, mutation: Mutation) -> Option<String> {
    let text = draft.broken(&[mutation]);
    let compilation = compile(drafts, draft.set(), &[(draft.name, &text)]);
    let errors = compilation.has_errors();
    let lines = mutation.lines(draft);
    let mut found = compilation.diagnostics().iter();
    let complaint = match LegalReason::of(draft, mutation) {
        Some(reason) if errors => format!("is legal ({reason:?}), but has errors"),
        None if !found.any(|one| is_on_lines(compilation.sources(), one, draft.name, &lines)) => {
            format!("is not reported on lines {lines:?}")
        }
        _ => return None,
    };
    Some(format!(
        "{} {complaint}\n{}",
        mutation.shown(draft),
        short(&compilation)
    ))
}

fn short(compilation: &Compilation) -> String {
    let lines = compilation.diagnostics().iter();
    lines
        .map(|one| {
            format!(
                "    {}\n",
                xdrgen_build::report::short(compilation.sources(), one)
            )
        })
        .collect()
}

#[test]
fn the_drafts_with_errata_are_clean() {
    let drafts = drafts();
    for set in SETS {
        let compilation = compile(&drafts, set, &[]);
        assert!(
            compilation.diagnostics().is_empty(),
            "{}",
            report(&compilation)
        );
    }
    for draft in &drafts {
        let published =
            std::fs::read_to_string(format!("{SPEC}/{}", draft.name)).expect(draft.name);
        assert_eq!(draft.text.lines().count(), published.lines().count());
        assert!(draft.tokens.len() > 100, "{}", draft.name);
    }
}

/// Runs all possible mutations, on all cores.
#[test]
fn all_mutations_are_reported_at_their_positions() {
    let drafts = drafts();
    let kinds = [Kind::Delete, Kind::Double, Kind::Swap];
    let mut all: Vec<(&Draft, Mutation)> = Vec::new();
    for draft in &drafts {
        for at in 0..draft.tokens.len() - 1 {
            all.extend(kinds.map(|kind| (draft, Mutation { at, kind })));
        }
    }
    let legal = all
        .iter()
        .filter_map(|(draft, mutation)| LegalReason::of(draft, *mutation));
    let legal = legal.count();
    assert!(legal * 10 < all.len(), "{legal} of {} are legal", all.len());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let complaints: Vec<String> = std::thread::scope(|scope| {
        let drafts = &drafts;
        let check = move |part: &[(&Draft, Mutation)]| -> Vec<String> {
            part.iter()
                .filter_map(|(draft, mutation)| complaint(drafts, draft, *mutation))
                .collect()
        };
        let parts = all.chunks(all.len().div_ceil(workers));
        let running: Vec<_> = parts.map(|part| scope.spawn(move || check(part))).collect();
        running
            .into_iter()
            .flat_map(|worker| worker.join().expect("no panic"))
            .collect()
    });
    assert!(
        complaints.is_empty(),
        "{} of {}\n{}",
        complaints.len(),
        all.len(),
        complaints.join("\n")
    );
}

/// The end of a definition and the start of the next may be one defect to the parser, which does
/// not know where the one ends: `} ; typedef` are this close.
const BOUNDARY: usize = 6;

/// Combines five defects in different definitions. All must be reported.
fn five_defects(random: &mut Xorshift, drafts: &[Draft]) -> Option<String> {
    let set = SETS[random.below(2)];
    let members: Vec<&Draft> = drafts
        .iter()
        .filter(|draft| set.contains(&draft.name))
        .collect();
    let mut chosen: Vec<(&Draft, Mutation)> = Vec::new();
    while chosen.len() < 5 {
        let draft = members[random.below(3)];
        let mutation = Mutation::random(random, draft);
        let definition = |draft: &Draft, mutation: Mutation, after: usize| {
            draft.tokens[mutation.at + after].definition
        };
        let taken = |(other, before): &(&Draft, Mutation)| {
            // The token after the last of a definition is the first of the next, so a swap affects
            // both.
            let share = definition(other, *before, 0) <= definition(draft, mutation, 1)
                && definition(draft, mutation, 0) <= definition(other, *before, 1);
            other.name == draft.name && (share || mutation.at.abs_diff(before.at) < BOUNDARY)
        };
        if LegalReason::of(draft, mutation).is_none() && !chosen.iter().any(taken) {
            chosen.push((draft, mutation));
        }
    }
    let texts: Vec<(&'static str, String)> = members
        .iter()
        .map(|draft| {
            let own = chosen.iter().filter(|(other, _)| other.name == draft.name);
            (
                draft.name,
                draft.broken(&own.map(|(_, mutation)| *mutation).collect::<Vec<_>>()),
            )
        })
        .collect();
    let broken: Vec<(&'static str, &str)> = texts
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    let compilation = compile(drafts, set, &broken);
    let missed: Vec<String> = chosen
        .iter()
        .filter(|(draft, mutation)| {
            let lines = mutation.lines(draft);
            let mut found = compilation.diagnostics().iter();
            !found.any(|one| is_on_lines(compilation.sources(), one, draft.name, &lines))
        })
        .map(|(draft, mutation)| mutation.shown(draft))
        .collect();
    let all: Vec<String> = chosen
        .iter()
        .map(|(draft, mutation)| mutation.shown(draft))
        .collect();
    (!missed.is_empty())
        .then(|| format!("missed {missed:#?} among {all:#?}\n{}", short(&compilation)))
}

#[test]
fn five_defects_at_once_are_all_reported() {
    let drafts = drafts();
    let mut random = Xorshift::from_environment();
    let cases = 60 * case_factor();
    let complaints: Vec<String> = (0..cases)
        .filter_map(|_| five_defects(&mut random, &drafts))
        .collect();
    assert!(
        complaints.is_empty(),
        "{} of {cases}\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}
