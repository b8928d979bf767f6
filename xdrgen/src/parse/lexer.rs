//! Characters to tokens: RFC 4506, section 6.2, and the comments and lines of other tools that real files have.

use nom::branch::alt;
use nom::bytes::complete::{tag, take_until, take_while, take_while1};
use nom::character::complete::{anychar, one_of, satisfy};
use nom::combinator::{map_opt, opt, recognize};
use nom::sequence::pair;
use nom::{IResult, Parser};

use crate::diagnostic::{Code, Diagnostic};
use crate::parse::number;
use crate::parse::preprocessor::{Definition, Preprocessor};
use crate::source::{Span, TextId};

macro_rules! kinds {
    ($($kind:ident $spelling:literal,)*) => {
        /// What a token is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum TokenKind {
            /// An identifier that is no keyword.
            Name,
            /// A constant within 64 bits.
            Number,
            /// A word that is neither; reported already, and taken for either.
            Malformed,
            /// No token: the end of the text.
            End,
            $(#[doc = concat!("`", $spelling, "`")] $kind,)*
        }

        impl TokenKind {
            /// How it is written, where there is only one way.
            pub(crate) fn spelling(self) -> Option<&'static str> {
                match self {
                    $(Self::$kind => Some($spelling),)*
                    _ => None,
                }
            }

            /// The keyword or sign that is written so.
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
    Bool "bool", Case "case", Const "const", Default "default", Double "double", Enum "enum", Float "float",
    Hyper "hyper", Int "int", Opaque "opaque", Quadruple "quadruple", String "string", Struct "struct",
    Switch "switch", Typedef "typedef", Union "union", Unsigned "unsigned", Void "void",
    BraceOpen "{", BraceClose "}", ParenOpen "(", ParenClose ")", BracketOpen "[", BracketClose "]", AngleOpen "<",
    AngleClose ">", Comma ",", Semicolon ";", Colon ":", Equal "=", Star "*",
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'t> {
    /// What it is.
    pub(crate) kind: TokenKind,
    /// Its characters.
    pub(crate) text: &'t str,
    /// Where.
    pub(crate) span: Span,
    /// Whether no other token stands before it on its line.
    pub(crate) first_on_line: bool,
}

/// What [`lex`] finds.
#[derive(Debug, Default)]
pub(crate) struct Lexed<'t> {
    /// The tokens in their order.
    pub(crate) tokens: Vec<Token<'t>>,
    /// What is wrong with the characters between them, and lints.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The first block comment that speaks of copyright, without its marks.
    pub(crate) license: Option<String>,
}

/// The tokens of `content`, which is the content of `text`.
pub(crate) fn lex(content: &str, text: TextId) -> Lexed<'_> {
    let mut lexer = Lexer {
        content,
        text,
        first_on_line: true,
        unterminated: false,
        preprocessor: Preprocessor::default(),
        found: Lexed::default(),
    };
    let mut rest = content.strip_prefix('\u{feff}').unwrap_or(content);
    while !rest.is_empty() {
        rest = lexer.step(rest);
    }
    lexer.found
}

/// What stands at the head of a text.
enum Piece {
    Blank,
    Newline,
    Comment,
    Unterminated,
    LineComment,
    Word,
    Sign(TokenKind),
    Quoted,
    Junk,
}

struct Lexer<'t> {
    content: &'t str,
    text: TextId,
    first_on_line: bool,
    /// No `*/` follows: found once, so that it is not searched for again.
    unterminated: bool,
    preprocessor: Preprocessor<'t>,
    found: Lexed<'t>,
}

impl<'t> Lexer<'t> {
    /// Takes one piece off `input`.
    fn step(&mut self, input: &'t str) -> &'t str {
        if self.first_on_line
            && let Ok((rest, sign)) = directive(input)
        {
            return self.directive(sign, input, rest);
        }
        let piece = if self.unterminated { piece_without_comment(input) } else { piece(input) };
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
                if self.found.license.is_none() && taken.contains("Copyright") {
                    self.found.license = Some(undecorated(taken));
                }
            }
            Piece::Unterminated => return self.unterminated(input),
            Piece::LineComment => self.say(Code::LineComment, span, "a `//` comment", "XDR has `/* .. */` alone"),
            Piece::Sign(kind) => self.push(kind, taken, span),
            Piece::Word => self.word(taken, span),
            Piece::Quoted => {
                self.say(Code::InvalidToken, span, "a quoted text", "XDR has numbers alone");
                self.push(TokenKind::Malformed, taken, span);
            }
            Piece::Junk => {
                let message = format!("`{}` is no part of XDR", taken.escape_debug());
                self.say(Code::InvalidToken, span, message, "not XDR");
            }
        }
        rest
    }

    /// The span from the start of `input` to the start of `rest`, both tails of the content.
    fn span(&self, input: &str, rest: &str) -> Span {
        Span::new(self.text, self.content.len() - input.len()..self.content.len() - rest.len())
    }

    fn say(&mut self, code: Code, span: Span, message: impl Into<String>, label: &str) {
        self.found.diagnostics.push(Diagnostic::new(code, span, message).label(label));
    }

    fn push(&mut self, kind: TokenKind, text: &'t str, span: Span) {
        self.found.tokens.push(Token { kind, text, span, first_on_line: self.first_on_line });
        self.first_on_line = false;
    }

    fn directive(&mut self, sign: char, input: &'t str, rest: &'t str) -> &'t str {
        let span = self.span(input, rest);
        if sign == '%' {
            self.say(Code::Passthrough, span, "a line for the output of rpcgen", "left out");
            return rest;
        }
        self.say(Code::Preprocessor, span, "a line for the C preprocessor", "followed as far as XDR files need it");
        if let Some(definition) = self.preprocessor.line(&input[..input.len() - rest.len()]) {
            self.define(definition, span);
        }
        if self.preprocessor.counts() { rest } else { next_directive(rest) }
    }

    /// Reads `#define NAME value` as `const NAME = value;`.
    fn define(&mut self, definition: Definition<'t>, span: Span) {
        self.push(TokenKind::Const, "const", span);
        self.push(TokenKind::Name, definition.name, span);
        self.push(TokenKind::Equal, "=", span);
        self.word(definition.value, span);
        self.push(TokenKind::Semicolon, ";", span);
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
        let mut diagnostic =
            Diagnostic::new(Code::InvalidToken, span, format!("`{word}` is not a number")).label(defect.to_string());
        if let Some(mended) = defect.mended(word) {
            diagnostic = diagnostic.fix(span, mended, "write it so");
        }
        self.found.diagnostics.push(diagnostic);
        TokenKind::Malformed
    }

    fn name(&mut self, word: &str, span: Span) -> TokenKind {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if word.chars().all(legal) {
            return TokenKind::Name;
        }
        let mended: String = word.chars().map(|c| if legal(c) { c } else { '_' }).collect();
        self.found.diagnostics.push(
            Diagnostic::new(Code::InvalidToken, span, format!("`{word}` is not a name"))
                .label("a name has letters of ASCII, digits and `_` alone")
                .fix(span, mended, "write it so"),
        );
        TokenKind::Malformed
    }

    /// Reports a comment without an end, and goes on at the first line that looks like a definition.
    fn unterminated(&mut self, input: &'t str) -> &'t str {
        self.unterminated = true;
        let mark = self.span(input, &input[2..]);
        let line = self.content.len() - input.len() + input.find(['\r', '\n']).unwrap_or(input.len());
        self.found.diagnostics.push(
            Diagnostic::new(Code::UnterminatedComment, mark, "a comment without its end").label("no `*/` follows").fix(
                Span::new(self.text, line..line),
                " */",
                "end the comment",
            ),
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
        junk.map(|_| Piece::Junk),
    ))
    .parse(input)
}

fn blank(c: char) -> bool {
    c != '\n' && c.is_whitespace()
}

fn comment(input: &str) -> IResult<&str, &str> {
    recognize((tag("/*"), take_until("*/"), tag("*/"))).parse(input)
}

/// A `%` or `#` line with the lines that a backslash joins to it; but each `%` line is one of its own.
fn directive(input: &str) -> IResult<&str, char> {
    let (rest, sign) = one_of("%#").parse(input)?;
    let mut lines = rest.split_inclusive('\n').peekable();
    let mut length = 0;
    while let Some(line) = lines.next() {
        let content = line.trim_end_matches(['\n', '\r']);
        let joined = content.ends_with('\\') && lines.peek().is_some_and(|next| !next.trim_start().starts_with('%'));
        length += if joined { line.len() } else { content.len() };
        if !joined {
            break;
        }
    }
    Ok((&rest[length..], sign))
}

/// What is left from the next line of the preprocessor on.
fn next_directive(mut rest: &str) -> &str {
    while let Some(end) = rest.find('\n') {
        rest = &rest[end + 1..];
        if rest.trim_start_matches(blank).starts_with('#') {
            return rest;
        }
    }
    ""
}

/// A name or a number, or what was meant as one: `nfs-fh`, `12ab`, `1'000`.
fn word(input: &str) -> IResult<&str, &str> {
    let inner = |c: char| c.is_alphanumeric() || c == '_';
    let joint = pair(one_of("-'"), take_while1(inner));
    recognize((opt(tag("-")), satisfy(inner), take_while(inner), nom::multi::many0_count(joint))).parse(input)
}

fn sign(input: &str) -> IResult<&str, TokenKind> {
    map_opt(recognize(anychar), TokenKind::of).parse(input)
}

/// A quoted text on one line.
fn quoted(input: &str) -> IResult<&str, &str> {
    recognize((tag("\""), take_while(|c| c != '"' && c != '\n'), tag("\""))).parse(input)
}

/// Characters that begin nothing.
fn junk(input: &str) -> IResult<&str, &str> {
    let more = |c: char| c.is_ascii_punctuation() && !"{}()[]<>,;:=*/_\"%#-".contains(c);
    recognize(pair(anychar, take_while(more))).parse(input)
}

/// Whether the first line of `rest` begins as a definition does.
fn looks_like_definition(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default();
    let mut words = line.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("struct" | "enum" | "program"), Some(_), third) => third.is_none_or(|third| third.starts_with('{')),
        (Some("union"), Some(_), Some(third)) => third.starts_with("switch"),
        (Some("const" | "typedef"), Some(_), Some(_)) => line.contains(';'),
        _ => false,
    }
}

/// A block comment's lines without the marks and stars that frame them.
fn undecorated(comment: &str) -> String {
    let inner = comment.strip_prefix("/*").and_then(|inner| inner.strip_suffix("*/")).unwrap_or(comment);
    let lines: Vec<&str> = inner.lines().map(undecorated_line).collect();
    let first = lines.iter().position(|line| !line.is_empty()).unwrap_or(0);
    let last = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |at| at + 1);
    lines.get(first..last).unwrap_or_default().join("\n")
}

fn undecorated_line(line: &str) -> &str {
    let line = line.trim_end();
    let unstarred = line.trim_start().trim_start_matches('*');
    unstarred.strip_prefix(' ').unwrap_or(unstarred)
}
