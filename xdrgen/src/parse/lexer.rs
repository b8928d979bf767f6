//! The lexer: RFC 4506, section 6.2, and the comments and directives that real files contain.
//!
//! `program`, `version`, `namespace`, `pragma`, `package` and the types of C are names here, so
//! that files may use them as names: the grammar recognizes them by their place (`recovery::word`).
//! A [`TokenKind::Malformed`] was reported here, so the grammar accepts it silently. A
//! [`TokenKind::Operator`] was not: the grammar reports it. `format` prints the tokens again:
//! `format::layout` decides by [`TokenKind`] where blanks and line breaks are, so a new kind may
//! need a case there.

use nom::branch::alt;
use nom::bytes::complete::{tag, take_until, take_while, take_while1};
use nom::character::complete::{anychar, one_of, satisfy};
use nom::combinator::{map_opt, opt, recognize};
use nom::error::{Error, ErrorKind};
use nom::sequence::pair;
use nom::{IResult, Parser};

use crate::ast;
use crate::diagnostic::{Code, Diagnostic};
use crate::parse::macros::{self, Numbers};
use crate::parse::number;
use crate::parse::preprocessor::{self, Definition, Fault, Preprocessor};
use crate::source::{Span, TextId};

macro_rules! kinds {
    ($($kind:ident $spelling:literal,)*) => {
        /// The kind of a token.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum TokenKind {
            /// An identifier that is not a keyword.
            Name,
            /// A constant of at most 127 bits. Those of more than 64 are reported later.
            Number,
            /// Text in quotation marks, which only a constant has (an extension of rpcgen).
            Text,
            /// A malformed name or number. It was reported, and the grammar accepts it as either.
            Malformed,
            /// An operator of C that is no sign of XDR, after a value or before one.
            Operator,
            /// The end of the text.
            End,
            $(#[doc = concat!("`", $spelling, "`")] $kind,)*
        }

        impl TokenKind {
            /// Returns the spelling, if the kind has only one.
            pub(crate) fn spelling(self) -> Option<&'static str> {
                match self {
                    $(Self::$kind => Some($spelling),)*
                    _ => None,
                }
            }

            /// Returns the keyword or sign with a spelling.
            fn of(spelling: &str) -> Option<Self> {
                match spelling {
                    $($spelling => Some(Self::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    Bool "bool", Case "case", Const "const", Default "default", Double "double", Enum "enum",
    Float "float", Hyper "hyper", Int "int", Opaque "opaque", Quadruple "quadruple",
    String "string", Struct "struct", Switch "switch", Typedef "typedef", Union "union",
    Unsigned "unsigned", Void "void",
    BraceOpen "{", BraceClose "}", ParenOpen "(", ParenClose ")", BracketOpen "[",
    BracketClose "]", AngleOpen "<", AngleClose ">", Comma ",", Semicolon ";", Colon ":",
    Equal "=", Star "*",
}

/// The operators of C that begin no token of XDR.
const OPERATORS: [&str; 14] = [
    "+", "-", "/", "|", "&", "^", "%", "~", "!", "||", "&&", "|~", "&~", "^~",
];

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'t> {
    /// The kind.
    pub(crate) kind: TokenKind,
    /// The characters.
    pub(crate) text: &'t str,
    /// The position.
    pub(crate) span: Span,
    /// Whether the token is the first on its line.
    pub(crate) first_on_line: bool,
}

/// The output of [`lex`].
#[derive(Debug, Default)]
pub(crate) struct LexOutput<'t> {
    /// The tokens, in text order.
    pub(crate) tokens: Vec<Token<'t>>,
    /// Lexical errors and lints.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The first block comment that mentions copyright, without comment marks.
    pub(crate) license: Option<String>,
    /// The start of each comment that contains a `/*`, up to it.
    pub(crate) hidden: Vec<Span>,
    /// The lines that include another file, `%#include` or `#include`.
    pub(crate) includes: Vec<Span>,
    /// The constants of `%#define`.
    pub(crate) macros: Vec<ast::Definition>,
    /// The constants of `#define`.
    pub(crate) constants: Vec<ast::Definition>,
    /// The names that `#define` and `%#define` define.
    pub(crate) defines: Vec<ast::Ident>,
    /// The lines of `%` that are no directives.
    pub(crate) passed: Vec<Span>,
    /// The lines that are not active.
    pub(crate) inactive: Vec<ast::Inactive>,
    /// The macros whose values are numbers.
    pub(super) numbers: Numbers,
}

/// Splits `content`, which is the content of `text`, into tokens.
pub(crate) fn lex(content: &str, text: TextId) -> LexOutput<'_> {
    let mut lexer = Lexer {
        content,
        text,
        first_on_line: true,
        unterminated: false,
        preprocessor: Preprocessor::default(),
        conditions: Vec::new(),
        output: LexOutput::default(),
    };
    let mut rest = content.strip_prefix('\u{feff}').unwrap_or(content);
    while !rest.is_empty() {
        rest = lexer.step(rest);
    }
    if let Some(span) = lexer.conditions.first().copied() {
        let message = "no `#endif` closes this condition";
        lexer.report(
            Code::Condition,
            span,
            message,
            "all following lines belong to it",
        );
    }
    lexer.output
}

/// The lexical element at the start of the input.
enum Piece {
    Blank,
    Newline,
    Comment,
    Unterminated,
    LineComment,
    Word,
    Sign(TokenKind),
    Quoted,
    Character(i128),
    Junk,
}

struct Lexer<'t> {
    content: &'t str,
    text: TextId,
    first_on_line: bool,
    /// Set once no `*/` follows, so that the rest is not searched again for each `/*`.
    unterminated: bool,
    preprocessor: Preprocessor<'t>,
    /// The `#if` lines that are not closed.
    conditions: Vec<Span>,
    output: LexOutput<'t>,
}

impl<'t> Lexer<'t> {
    /// Consumes one lexical element of `input`.
    fn step(&mut self, input: &'t str) -> &'t str {
        if self.first_on_line
            && let Ok((rest, sign)) = directive(input)
        {
            return self.directive(sign, input, rest);
        }
        let piece = if self.unterminated {
            piece_without_comment(input)
        } else {
            piece(input)
        };
        let Ok((rest, piece)) = piece else {
            return "";
        };
        self.take(piece, input, rest)
    }

    fn take(&mut self, piece: Piece, input: &'t str, rest: &'t str) -> &'t str {
        let taken = &input[..input.len() - rest.len()];
        let span = self.span(input, rest);
        match piece {
            Piece::Blank => {}
            Piece::Newline => self.first_on_line = true,
            Piece::Comment => {
                self.nested_comment(taken, span);
                if self.output.license.is_none() && taken.contains("Copyright") {
                    self.output.license = Some(strip_comment_marks(taken));
                }
            }
            Piece::Unterminated => return self.unterminated(input),
            Piece::LineComment => self.report(
                Code::LineComment,
                span,
                "a `//` comment",
                "XDR has only `/* .. */`",
            ),
            Piece::Sign(kind) => self.push(kind, taken, span),
            Piece::Word => self.word(taken, span),
            Piece::Quoted => self.push(TokenKind::Text, taken, span),
            Piece::Character(code) => self.character(code, taken, span),
            Piece::Junk if is_comment(taken, rest) => return self.foreign_comment(input),
            Piece::Junk => return self.junk(taken, span, rest),
        }
        rest
    }

    /// Reports a comment of another language, which ends with the line.
    fn foreign_comment(&mut self, input: &'t str) -> &'t str {
        let end = input.find('\n').unwrap_or(input.len());
        let (comment, rest) = input.split_at(end);
        let message = "a comment of another language";
        let found = Diagnostic::new(Code::InvalidToken, self.span(input, rest), message)
            .label("XDR has only `/* .. */`");
        let text = comment.trim_start_matches(['#', '-']).trim();
        let found = match text.contains("*/") {
            true => found,
            false => {
                let written = self.span(input, &input[comment.trim_end().len()..]);
                found.fix(written, format!("/* {text} */"), "write `/* .. */`")
            }
        };
        self.output.diagnostics.push(found);
        rest
    }

    /// Reports characters that begin no token. The grammar reports an operator where a value may
    /// be.
    fn junk(&mut self, taken: &'t str, span: Span, rest: &'t str) -> &'t str {
        use TokenKind::{
            AngleClose, AngleOpen, BracketOpen, Case, Equal, Malformed, Name, Number, Operator,
            ParenClose, ParenOpen,
        };
        let last = self.output.tokens.last().map(|token| token.kind);
        let is_in_value = matches!(
            last,
            Some(
                AngleClose
                    | AngleOpen
                    | BracketOpen
                    | Case
                    | Equal
                    | Malformed
                    | Name
                    | Number
                    | Operator
                    | ParenClose
                    | ParenOpen
            )
        );
        if is_in_value && OPERATORS.contains(&taken) {
            self.push(TokenKind::Operator, taken, span);
            return rest;
        }
        let message = format!("`{}` is not part of XDR", taken.escape_debug());
        let is_fraction = last == Some(Number) && taken == "." && rest.starts_with(is_digit);
        let (rest, label) = match word(rest) {
            Ok((rest, _)) if is_fraction => (rest, "XDR has only integers as constants"),
            _ => (rest, "not XDR"),
        };
        self.report(Code::InvalidToken, span, message, label);
        rest
    }

    /// Returns the span from the start of `input` to the start of `rest`. Both are suffixes of the
    /// content.
    fn span(&self, input: &str, rest: &str) -> Span {
        Span::new(
            self.text,
            self.content.len() - input.len()..self.content.len() - rest.len(),
        )
    }

    fn report(&mut self, code: Code, span: Span, message: impl Into<String>, label: &str) {
        self.output
            .diagnostics
            .push(Diagnostic::new(code, span, message).label(label));
    }

    fn push(&mut self, kind: TokenKind, text: &'t str, span: Span) {
        self.output.tokens.push(Token {
            kind,
            text,
            span,
            first_on_line: self.first_on_line,
        });
        self.first_on_line = false;
    }

    fn directive(&mut self, sign: char, input: &'t str, rest: &'t str) -> &'t str {
        let span = self.span(input, rest);
        let line = &input[..input.len() - rest.len()];
        let is_active = self.preprocessor.is_active() || self.preprocessor.is_for_header();
        if is_active && is_include(line) {
            self.output.includes.push(span);
        }
        if sign == '%' {
            if !line[1..].trim_start().starts_with('#') {
                self.output.passed.push(span);
            }
            let defines = preprocessor::definition(line)
                .is_some_and(|definition| self.define(definition, span, true));
            let label = if defines {
                "a constant, if the documents use it"
            } else if is_include(line) {
                "what the documents need is taken from the XDR of this file"
            } else {
                "ignored"
            };
            let message = "a line for the output of rpcgen";
            self.report(Code::Passthrough, span, message, label);
            return self.after_directive(span, rest);
        }
        let effect = self.preprocessor.line(line);
        self.conditions.resize(self.preprocessor.depth(), span);
        match effect.fault {
            Some(Fault::Condition(why)) => {
                let message = format!("the condition can't be evaluated: {why}");
                self.report(Code::Condition, span, message, "taken as true");
            }
            Some(Fault::Misplaced(why)) => self.report(Code::Condition, span, why, "ignored"),
            None => self.report(
                Code::Preprocessor,
                span,
                "a line for the C preprocessor",
                "conditions, constants and includes are evaluated, the rest is ignored",
            ),
        }
        if let Some(definition) = effect.definition {
            self.define(definition, span, false);
        }
        self.after_directive(span, rest)
    }

    /// Returns the input after a directive, without the lines that are not active.
    fn after_directive(&mut self, directive: Span, rest: &'t str) -> &'t str {
        let inactive = self.preprocessor.inactive_depth();
        let Some(condition) = inactive.and_then(|depth| self.conditions.get(depth)) else {
            return rest;
        };
        let condition = *condition;
        let next = next_directive(rest, self.preprocessor.is_for_header());
        let end = self.content.len() - next.len();
        let lines = Span::new(self.text, directive.range().end..end);
        self.output
            .inactive
            .push(ast::Inactive { condition, lines });
        next
    }

    /// Adds a macro as a constant. Returns false if its value is not a constant.
    fn define(&mut self, definition: Definition<'t>, span: Span, for_c: bool) -> bool {
        let at = |offset: usize, text: &str| {
            let start = span.range().start + offset;
            Span::new(self.text, start..start + text.len())
        };
        let name = ast::Ident {
            name: definition.name.to_owned(),
            span: at(definition.name_at, definition.name),
        };
        self.output.defines.push(name.clone());
        let text = definition.value.unwrap_or_default();
        let place = at(definition.value_at, text);
        let value = macros::expression(text, place, &self.output.numbers);
        let Some(value) = value.filter(|value| !is_keyword(&value.kind)) else {
            self.output.numbers.remove(definition.name);
            return false;
        };
        match macros::number(&value.kind, &self.output.numbers) {
            Some(number) => self
                .output
                .numbers
                .insert(definition.name.to_owned(), number),
            None => self.output.numbers.remove(definition.name),
        };
        let ty = None;
        let constant = ast::Definition {
            name,
            span,
            kind: ast::DefinitionKind::Const { ty, value },
        };
        let constants = match for_c {
            true => &mut self.output.macros,
            false => &mut self.output.constants,
        };
        constants.push(constant);
        true
    }

    fn word(&mut self, word: &'t str, span: Span) {
        if let Some(kind) = TokenKind::of(word) {
            return self.push(kind, word, span);
        }
        let kind = if word.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
            self.number(word, span)
        } else {
            self.name(word, span)
        };
        self.push(kind, word, span);
    }

    fn number(&mut self, word: &str, span: Span) -> TokenKind {
        let defect = match number::value(word) {
            Ok(_) => return TokenKind::Number,
            Err(defect) => defect,
        };
        let mut diagnostic = Diagnostic::new(
            Code::InvalidToken,
            span,
            format!("`{word}` is not a number"),
        )
        .label(defect.to_string());
        if let Some(corrected) = defect.corrected(word) {
            diagnostic = diagnostic.fix(span, corrected, "replace it");
        }
        self.output.diagnostics.push(diagnostic);
        TokenKind::Malformed
    }

    /// Reports a character constant, as C has it.
    fn character(&mut self, code: i128, taken: &'t str, span: Span) {
        let message = format!("`{taken}` is a character constant");
        self.output.diagnostics.push(
            Diagnostic::new(Code::InvalidToken, span, message)
                .label("XDR has only numbers")
                .fix(span, code.to_string(), format!("write `{code}`")),
        );
        self.push(TokenKind::Malformed, taken, span);
    }

    fn name(&mut self, word: &str, span: Span) -> TokenKind {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if word.chars().all(legal) {
            return TokenKind::Name;
        }
        let corrected: String = word
            .chars()
            .map(|c| if legal(c) { c } else { '_' })
            .collect();
        self.output.diagnostics.push(
            Diagnostic::new(Code::InvalidToken, span, format!("`{word}` is not a name"))
                .label("a name consists of ASCII letters, digits and `_`")
                .fix(span, corrected, "replace it"),
        );
        TokenKind::Malformed
    }

    /// Reports the first `/*` in a comment: the end of the comment before may be missing. A `/*`
    /// within a pattern such as `src/*` does not count.
    fn nested_comment(&mut self, comment: &str, span: Span) {
        let inner = comment.match_indices("/*").map(|(at, _)| at);
        let opens = |at: &usize| {
            let before = comment[..*at].chars().next_back();
            before.is_some_and(|c| c.is_whitespace() || matches!(c, ',' | ';' | '{' | '}'))
        };
        let Some(at) = inner.skip(1).find(opens) else {
            return;
        };
        let start = span.range().start;
        let mark = Span::new(self.text, start + at..start + at + 2);
        let outer = Span::new(self.text, start..start + 2);
        let end = comment.find(['\r', '\n']).unwrap_or(at).min(at);
        let end = start + comment[..end].trim_end().len();
        self.output.diagnostics.push(
            Diagnostic::new(Code::NestedComment, mark, "a `/*` in a comment")
                .label("this does not begin a comment")
                .note_at(outer, "the comment begins here, and is not closed before")
                .fix(
                    Span::new(self.text, end..end),
                    " */",
                    "end the comment before",
                ),
        );
        self.output
            .hidden
            .push(Span::new(self.text, start..start + at));
    }

    /// Reports an unterminated comment, and continues at the first line that looks like a
    /// definition.
    fn unterminated(&mut self, input: &'t str) -> &'t str {
        self.unterminated = true;
        let mark = self.span(input, &input[2..]);
        let line =
            self.content.len() - input.len() + input.find(['\r', '\n']).unwrap_or(input.len());
        self.output.diagnostics.push(
            Diagnostic::new(Code::UnterminatedComment, mark, "unterminated comment")
                .label("no `*/` follows")
                .fix(Span::new(self.text, line..line), " */", "end the comment"),
        );
        self.first_on_line = true;
        let mut rest = input;
        while let Some(end) = rest.find('\n') {
            rest = &rest[end + 1..];
            if looks_like_definition(rest) {
                return rest;
            }
        }
        ""
    }
}

fn piece(input: &str) -> IResult<&str, Piece> {
    alt((comment.map(|_| Piece::Comment), piece_without_comment)).parse(input)
}

fn piece_without_comment(input: &str) -> IResult<&str, Piece> {
    alt((
        take_while1(blank).map(|_| Piece::Blank),
        tag("\n").map(|_| Piece::Newline),
        word.map(|_| Piece::Word),
        sign.map(Piece::Sign),
        tag("/*").map(|_| Piece::Unterminated),
        pair(tag("//"), take_while(|c| c != '\n')).map(|_| Piece::LineComment),
        quoted.map(|_| Piece::Quoted),
        character.map(Piece::Character),
        junk.map(|_| Piece::Junk),
    ))
    .parse(input)
}

/// Returns true for `# ` and `-- `, which begin a comment in other languages.
fn is_comment(taken: &str, rest: &str) -> bool {
    let (first, rest) = match taken {
        "-" => (
            rest.starts_with('-'),
            rest.strip_prefix('-').unwrap_or(rest),
        ),
        _ => (taken == "#", rest),
    };
    first && rest.starts_with(blank)
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

fn blank(c: char) -> bool {
    c != '\n' && c.is_whitespace()
}

fn comment(input: &str) -> IResult<&str, &str> {
    recognize((tag("/*"), take_until("*/"), tag("*/"))).parse(input)
}

/// Recognizes a `%` or `#` line, with the lines that a backslash joins to it. A `%` line never
/// joins the line before. The formatter (`format::pieces`) has this rule and that of
/// `first_on_line`, too: they change together.
fn directive(input: &str) -> IResult<&str, char> {
    let (rest, sign) = one_of("%#").parse(input)?;
    let mut lines = rest.split_inclusive('\n').peekable();
    let mut length = 0;
    while let Some(line) = lines.next() {
        let content = line.trim_end_matches(['\n', '\r']);
        let joined = content.ends_with('\\')
            && lines
                .peek()
                .is_some_and(|next| !next.trim_start().starts_with('%'));
        length += if joined { line.len() } else { content.len() };
        if !joined {
            break;
        }
    }
    Ok((&rest[length..], sign))
}

/// Returns true if the name in a value is a keyword, such as that of a type.
fn is_keyword(value: &ast::ValueExprKind) -> bool {
    match value {
        ast::ValueExprKind::Number(_) => false,
        ast::ValueExprKind::Name(name) | ast::ValueExprKind::Sum(name, _) => {
            TokenKind::of(name).is_some()
        }
    }
}

/// Returns true for `#include` and `%#include`.
fn is_include(line: &str) -> bool {
    let line = line.trim_start_matches('%').trim_start();
    line.strip_prefix('#')
        .is_some_and(|command| command.trim_start().starts_with("include"))
}

/// Returns the input from the next preprocessor line on. If `for_header` is true, lines for C count
/// as preprocessor lines.
fn next_directive(mut rest: &str, for_header: bool) -> &str {
    while let Some(end) = rest.find('\n') {
        rest = &rest[end + 1..];
        let line = rest.trim_start_matches(blank);
        if line.starts_with('#') || for_header && line.starts_with('%') {
            return rest;
        }
    }
    ""
}

/// Recognizes a name or a number, and words that are likely meant as one: `nfs-fh`, `12ab`,
/// `1'000`.
fn word(input: &str) -> IResult<&str, &str> {
    let inner = |c: char| c.is_alphanumeric() || c == '_';
    let joint = pair(one_of("-'"), take_while1(inner));
    recognize((
        opt(tag("-")),
        satisfy(inner),
        take_while(inner),
        nom::multi::many0_count(joint),
    ))
    .parse(input)
}

fn sign(input: &str) -> IResult<&str, TokenKind> {
    map_opt(recognize(anychar), TokenKind::of).parse(input)
}

/// Recognizes quoted text on one line.
fn quoted(input: &str) -> IResult<&str, &str> {
    recognize((tag("\""), take_while(|c| c != '"' && c != '\n'), tag("\""))).parse(input)
}

/// Recognizes a character constant of C.
fn character(input: &str) -> IResult<&str, i128> {
    let (code, rest) = number::character(input)
        .ok_or_else(|| nom::Err::Error(Error::new(input, ErrorKind::Char)))?;
    Ok((rest, code))
}

/// Recognizes characters that begin no token.
fn junk(input: &str) -> IResult<&str, &str> {
    let more = |c: char| c.is_ascii_punctuation() && !"{}()[]<>,;:=*/_\"%#-".contains(c);
    recognize(pair(anychar, take_while(more))).parse(input)
}

/// Returns true if the first line of `rest` looks like the start of a definition.
fn looks_like_definition(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default();
    let mut words = line.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("struct" | "enum" | "program"), Some(_), third) => {
            third.is_none_or(|third| third.starts_with('{'))
        }
        (Some("union"), Some(_), Some(third)) => third.starts_with("switch"),
        (Some("const" | "typedef"), Some(_), Some(_)) => line.contains(';'),
        _ => false,
    }
}

/// Removes the marks and stars that frame the lines of a block comment.
fn strip_comment_marks(comment: &str) -> String {
    let inner = comment
        .strip_prefix("/*")
        .and_then(|inner| inner.strip_suffix("*/"))
        .unwrap_or(comment);
    let lines: Vec<&str> = inner.lines().map(strip_star).collect();
    let first = lines.iter().position(|line| !line.is_empty()).unwrap_or(0);
    let last = lines
        .iter()
        .rposition(|line| !line.is_empty())
        .map_or(0, |at| at + 1);
    lines.get(first..last).unwrap_or_default().join("\n")
}

fn strip_star(line: &str) -> &str {
    let line = line.trim_end();
    let unstarred = line.trim_start().trim_start_matches('*');
    unstarred.strip_prefix(' ').unwrap_or(unstarred)
}
