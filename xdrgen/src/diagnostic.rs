//! Typed diagnostics: what can be wrong, how serious it is, and what to do about it.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::str::FromStr;

use crate::source::{Sources, Span};

/// What happens when a lint fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    Allow,
    /// It is reported.
    Warn,
    /// It is reported, and the compilation fails.
    Deny,
}

impl Level {
    /// Its name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Warn => "warn",
            Self::Deny => "deny",
        }
    }
}

macro_rules! codes {
    ($($variant:ident $name:literal $level:ident $doc:literal;)*) => {
        /// Every kind of defect that the compiler reports, by name. Errors are always denied; the level of a lint can
        /// be changed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $doc] $variant,)*
        }

        impl Code {
            /// All of them, in the order of this page.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name, as users write it: `swapped-typedef`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it means, in a sentence.
            #[must_use]
            pub fn explanation(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }

            /// The level where nothing else was asked for; `None` for an error, which has no other.
            #[must_use]
            pub fn default_level(self) -> Option<Level> {
                match self { $(Self::$variant => codes!(@level $level),)* }
            }
        }
    };
    (@level error) => { None };
    (@level allow) => { Some(Level::Allow) };
    (@level warn) => { Some(Level::Warn) };
    (@level deny) => { Some(Level::Deny) };
}

codes! {
    // Reading.
    Unreadable "unreadable" error "A document or a configuration file can't be read.";
    Configuration "configuration" error "The manifest or a setting is wrong.";
    NoXdr "no-xdr" error "A document has no XDR: no line of it begins with `///`.";
    ErratumMismatch "erratum-mismatch" error "An erratum's old text is not on the line it names.";
    ErratumUseless "erratum-useless" error "An erratum silences no diagnostic.";
    // Syntax.
    InvalidToken "invalid-token" error "A character or a number that XDR does not have.";
    UnterminatedComment "unterminated-comment" error "A `/*` without its `*/`.";
    Syntax "syntax" error "The text does not follow the grammar of RFC 4506, section 6.3, or RFC 5531, section 12.";
    SeveralDeclarations "several-declarations" error "A union's arm has more than one declaration.";
    // Names.
    UndefinedType "undefined-type" error "A type that nothing defines.";
    UndefinedConstant "undefined-constant" error "A constant that nothing defines.";
    SwappedTypedef "swapped-typedef" error "A typedef whose new name and old type stand in each other's place.";
    DuplicateDefinition "duplicate-definition" error "One name is defined twice.";
    DuplicateField "duplicate-field" error "Two fields of a struct have one name.";
    DuplicateArm "duplicate-arm" error "Two arms of a union have one name.";
    DuplicateCase "duplicate-case" error "Two cases of a union have one value.";
    DuplicateNumber "duplicate-number" error "Two programs, versions or procedures have one number.";
    WrongKind "wrong-kind" error "A name stands for something else than is needed here, or `struct` names an enum.";
    // Types and values.
    RecursiveType "recursive-type" error "A type contains itself without an indirection, so no value of it ends.";
    RecursiveConstant "recursive-constant" error "Constants whose values depend on each other.";
    InvalidDiscriminant "invalid-discriminant" error "A union's discriminant is neither an integer, an enum nor a bool.";
    ForeignCase "foreign-case" error "A case that the discriminant's type does not have.";
    EmptyUnion "empty-union" error "A union without an arm.";
    InvalidBound "invalid-bound" error "A length that is negative or over 32 bits.";
    InvalidNumber "invalid-number" error "A program, version or procedure number that is negative or over 32 bits.";
    OutOfRange "out-of-range" error "A value that its type can't hold.";
    // Rust and overlays.
    NameClash "name-clash" error "Two XDR names become one Rust name.";
    OverlayCollision "overlay-collision" error "Two contents of an opaque field have one code.";
    OverlayInvalid "overlay-invalid" error "An overlay names something that is not there or does not fit.";
    // Lints: a draft against itself.
    Consistency "consistency" warn "The copy of a definition in the text differs from the one that is compiled.";
    TextSyntax "text-syntax" warn "The copy of a definition in the text does not follow the grammar.";
    ProseName "prose-name" allow "A name in running text looks like one of the document's XDR, and is none.";
    // Lints: beyond RFC 4506.
    PreludeType "prelude-type" allow "A type that no document declares and the prelude supplies, as `uint32`.";
    StructReference "struct-reference" allow "`struct T field` or `enum T field` where RFC 4506 has `T field`.";
    TypedConstant "typed-constant" allow "`const uint32 A = 1;` where RFC 4506 has `const A = 1;`.";
    BareUnsigned "bare-unsigned" allow "`unsigned` where RFC 4506 has `unsigned int`.";
    CInteger "c-integer" warn "A type of C (`char`, `short`, `long`) that XDR does not have.";
    LineComment "line-comment" warn "A `//` comment.";
    ImplicitEnumValue "implicit-enum-value" warn "An enum member without a value: one more than the one before.";
    DuplicateEnumValue "duplicate-enum-value" warn "Two members of an enum have one value.";
    Passthrough "passthrough" allow "A `%` line, meant for the output of rpcgen; it is left out.";
    Preprocessor "preprocessor" warn "A `#` line, meant for the C preprocessor: conditions are followed, constants taken, the rest left out.";
    Namespace "namespace" warn "A `namespace`, as xdrpp and Stellar have it.";
    Pragma "pragma" warn "A `pragma`, as Linux's xdrgen has it; it is left out.";
    TrailingComma "trailing-comma" warn "A comma after the last member of a list.";
    EmptyDeclaration "empty-declaration" warn "A `;` with nothing before it.";
    EmptyBody "empty-body" warn "A struct without a field.";
    MissingArms "missing-arms" allow "A union without a default that leaves out members of its enum.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(name: &str) -> Result<Self, UnknownCode> {
        Self::ALL.iter().copied().find(|code| code.name() == name).ok_or_else(|| UnknownCode(name.to_owned()))
    }
}

/// A name that no [`Code`] has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCode(pub String);

impl fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no lint is called `{}`", self.0)
    }
}

impl std::error::Error for UnknownCode {}

/// What is asked of each lint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels(BTreeMap<Code, Level>);

impl Levels {
    /// Sets a lint's level. An error's can't be set.
    ///
    /// # Errors
    /// The code is an error.
    pub fn set(&mut self, code: Code, level: Level) -> Result<(), NotALint> {
        if code.default_level().is_none() {
            return Err(NotALint(code));
        }
        self.0.insert(code, level);
        Ok(())
    }

    /// The level that a code has now.
    #[must_use]
    pub fn of(&self, code: Code) -> Level {
        let default = code.default_level();
        self.0.get(&code).copied().filter(|_| default.is_some()).or(default).unwrap_or(Level::Deny)
    }
}

/// The level of an error can't be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotALint(pub Code);

impl fmt::Display for NotALint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is an error, not a lint: its level can't be changed", self.0)
    }
}

impl std::error::Error for NotALint {}

/// A remark that belongs to a diagnostic, at a place of its own where it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where, if anywhere.
    pub span: Option<Span>,
    /// What.
    pub message: String,
}

/// A change that would likely mend the defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// What it does, as `swap the name and the type`.
    pub message: String,
    /// What is replaced.
    pub span: Span,
    /// By what.
    pub replacement: String,
}

/// One defect, at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What kind.
    pub code: Code,
    /// How serious. Set by [`Diagnostics::report`] from the levels.
    pub level: Level,
    /// What is wrong, in a sentence without a full stop.
    pub message: String,
    /// Where; nowhere for what concerns a whole file.
    pub span: Option<Span>,
    /// What stands under the caret.
    pub label: String,
    /// Remarks, as where the first of two stands.
    pub notes: Vec<Note>,
    /// Likely mends.
    pub fixes: Vec<Fix>,
}

impl Diagnostic {
    /// A diagnostic at a place.
    #[must_use]
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self { span: Some(span), ..Self::nowhere(code, message) }
    }

    /// A diagnostic without a place.
    #[must_use]
    pub fn nowhere(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            level: code.default_level().unwrap_or(Level::Deny),
            message: message.into(),
            span: None,
            label: String::new(),
            notes: Vec::new(),
            fixes: Vec::new(),
        }
    }

    /// Says something under the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds a remark at a place.
    #[must_use]
    pub fn note_at(mut self, span: Span, message: impl Into<String>) -> Self {
        self.notes.push(Note { span: Some(span), message: message.into() });
        self
    }

    /// Adds a remark.
    #[must_use]
    pub fn note(mut self, message: impl Into<String>) -> Self {
        self.notes.push(Note { span: None, message: message.into() });
        self
    }

    /// Adds a likely mend.
    #[must_use]
    pub fn fix(mut self, span: Span, replacement: impl Into<String>, message: impl Into<String>) -> Self {
        self.fixes.push(Fix { message: message.into(), span, replacement: replacement.into() });
        self
    }

    /// Whether the compilation fails for it.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.level == Level::Deny
    }
}

/// Collects diagnostics under the levels that were asked for.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    levels: Levels,
    list: Vec<Diagnostic>,
    /// What was reported where: no place is told the same twice.
    seen: HashSet<(Code, Option<Span>, String)>,
}

impl Diagnostics {
    /// None yet.
    #[must_use]
    pub fn new(levels: Levels) -> Self {
        Self { levels, ..Self::default() }
    }

    /// Takes a diagnostic, at the level its code has now; one that is allowed is dropped.
    pub fn report(&mut self, mut diagnostic: Diagnostic) {
        diagnostic.level = self.levels.of(diagnostic.code);
        if diagnostic.level == Level::Allow {
            return;
        }
        if self.seen.insert((diagnostic.code, diagnostic.span, diagnostic.message.clone())) {
            self.list.push(diagnostic);
        }
    }

    /// Whether a lint is worth looking for.
    #[must_use]
    pub fn wants(&self, code: Code) -> bool {
        self.levels.of(code) != Level::Allow
    }

    /// The levels in force.
    #[must_use]
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Whether the compilation fails.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(Diagnostic::is_error)
    }

    /// All of them, sorted by document and place.
    #[must_use]
    pub fn into_sorted(self, sources: &Sources) -> Vec<Diagnostic> {
        let mut list = self.list;
        list.sort_by_cached_key(|diagnostic| {
            let place =
                diagnostic.span.map(|span| (sources.text(span.text).document(), sources.document_range(span).start));
            (place, diagnostic.code, diagnostic.message.clone())
        });
        list
    }
}
