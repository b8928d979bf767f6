//! Typed diagnostics: the code, the level, the message and the suggested fixes of each defect.
//!
//! The name of a [`Code`] is an interface: manifests, options of `xdrgen`, JSON and SARIF contain
//! it. A new code needs an example in `tests/diagnostics.rs`, from which that test writes
//! `docs/lints.md`. [`Diagnostics::report`] alone applies the levels. The method also drops a
//! diagnostic whose code, span and message equal those of an earlier one: the parser relies on that
//! where it backtracks. `report` decides the form in which users see a diagnostic.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::str::FromStr;

use crate::source::{SourceMap, Span};

/// The effect of a lint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The lint is not reported.
    Allow,
    /// The lint is reported as a warning.
    Warn,
    /// The lint is reported as an error, and the compilation fails.
    Deny,
}

impl Level {
    /// Returns the name that users write.
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
        /// Names each kind of defect that the compiler reports. An error is always denied; the
        /// level of a lint can be changed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $doc] $variant,)*
        }

        impl Code {
            /// All codes, in the order of their declaration, which is that of
            /// `docs/lints.md`.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name that users write, such as `swapped-typedef`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns a one-sentence explanation.
            #[must_use]
            pub fn explanation(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }

            /// Returns the default level of a lint; `None` for an error.
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
    NoXdr "no-xdr" error "A document contains no XDR: no line begins with `///`.";
    ErratumMismatch "erratum-mismatch" error "The old text of an erratum is not on the line that \
        the erratum names.";
    ErratumUseless "erratum-useless" error "An erratum silences no diagnostic.";
    // Syntax.
    InvalidToken "invalid-token" error "A character or a number is not valid in XDR.";
    UnterminatedComment "unterminated-comment" error "A `/*` has no matching `*/`.";
    Syntax "syntax" error "The text does not follow the grammar of RFC 4506, section 6.3, or RFC \
        5531, section 12.";
    Condition "condition" error "A condition for the C preprocessor is not understood, no \
        `#endif` closes it, or an `#elif`, `#else` or `#endif` has no `#if`.";
    SeveralDeclarations "several-declarations" error "An arm of a union has more than one \
        declaration.";
    // Names.
    UndefinedType "undefined-type" error "A type is not defined.";
    UndefinedConstant "undefined-constant" error "A constant is not defined.";
    SwappedTypedef "swapped-typedef" error "The name and the type of a typedef are swapped.";
    DuplicateDefinition "duplicate-definition" error "A name is defined twice.";
    DuplicateField "duplicate-field" error "Two fields of a struct have the same name.";
    DuplicateArm "duplicate-arm" error "Two arms of a union have the same name.";
    DuplicateCase "duplicate-case" error "Two cases of a union have the same value.";
    DuplicateNumber "duplicate-number" error "Two programs of a module, or versions or \
        procedures, have the same number.";
    AmbiguousMember "ambiguous-member" error "A name is a member of several enums that scope \
        their members, and is used outside of them.";
    WrongKind "wrong-kind" error "A name has the wrong kind: a value instead of a type, or \
        `struct` before the name of an enum.";
    // Types and values.
    RecursiveType "recursive-type" error "A type has no finite value: it contains itself, and \
        nothing ends it.";
    RecursiveConstant "recursive-constant" error "The values of constants depend on each other.";
    InvalidDiscriminant "invalid-discriminant" error "The discriminant of a union is not an \
        integer, an enum or a bool.";
    ForeignCase "foreign-case" error "The value of a case is not a value of the discriminant's \
        type.";
    EmptyUnion "empty-union" error "A union has no arms.";
    InvalidBound "invalid-bound" error "A length is negative or does not fit in 32 bits.";
    InvalidNumber "invalid-number" error "A program, version or procedure number is negative or \
        does not fit in 32 bits.";
    OutOfRange "out-of-range" error "A value is out of the range of its type.";
    // Rust names and overlays.
    NameClash "name-clash" error "Two XDR names map to the same Rust name.";
    OverlayCollision "overlay-collision" error "Two cases of an overlay have the same code.";
    OverlayInvalid "overlay-invalid" error "An overlay names an item that does not exist or has \
        the wrong type.";
    // Lints: contradictions within a draft.
    Consistency "consistency" warn "The copy of a definition in running text differs from the \
        compiled definition.";
    TextSyntax "text-syntax" warn "The copy of a definition in running text does not follow the \
        grammar.";
    ProseName "prose-name" allow "A name in running text resembles an XDR name of the document \
        but is not defined.";
    // Lints: XDR that is lost.
    UnmarkedLine "unmarked-line" deny "A line of a draft without `///` interrupts the XDR, is a \
        definition, or is in a block of XDR whose other lines have `///`.";
    NestedComment "nested-comment" warn "A `/*` is in a comment: an earlier comment may not be \
        closed, and hide XDR.";
    // Lints: what other tools do not read.
    UnspacedMarker "unspaced-marker" allow "A `///` is followed by no blank: the scripts that \
        drafts print leave it in the XDR.";
    // Lints: extensions of RFC 4506.
    PreludeType "prelude-type" allow "The prelude supplies a type, such as `uint32`, that no \
        document declares.";
    StructReference "struct-reference" allow "`struct T field` or `enum T field` is used where \
        RFC 4506 has `T field`.";
    TypedConstant "typed-constant" allow "`const uint32 A = 1;` is used where RFC 4506 has `const \
        A = 1;`.";
    BareUnsigned "bare-unsigned" allow "`unsigned` is used where RFC 4506 has `unsigned int`.";
    CInteger "c-integer" warn "A type of C (`char`, `short`, `long`) is used that XDR does not \
        have.";
    LineComment "line-comment" warn "A `//` comment is used.";
    ImplicitEnumValue "implicit-enum-value" warn "A member of an enum has no value: it is one \
        more than the previous member.";
    RepeatedTypedef "repeated-typedef" warn "A typedef is repeated, and both are the same.";
    DiscriminantName "discriminant-name" warn "An arm of a union has the name of the discriminant.";
    DuplicateEnumValue "duplicate-enum-value" warn "Two members of an enum have the same value.";
    Passthrough "passthrough" allow "A `%` line is for the output of rpcgen: constants and \
        includes are used where a name is not defined, the rest is ignored.";
    Preprocessor "preprocessor" warn "A `#` line is for the C preprocessor: conditions, constants \
        and includes are evaluated, other directives are ignored.";
    NamedArgument "named-argument" warn "An argument of a procedure has a name, where RFC 5531 \
        has only its type.";
    ProcedureDeclarator "procedure-declarator" warn "A procedure has a type such as `T *` or \
        `string<>`, where RFC 5531 has a name.";
    ManyArguments "many-arguments" warn "A procedure has more than eight arguments: they become a \
        struct.";
    BareString "bare-string" warn "`string x` is used where RFC 4506 has `string x<>`.";
    VariableName "variable-name" warn "A name follows the body of a definition in running text, as \
        in C, and is ignored.";
    WideConstant "wide-constant" warn "A constant has more than 64 bits: it can be compared, and \
        is no value of a type of XDR.";
    StringConstant "string-constant" warn "A constant is a string, as rpcgen accepts: it becomes a \
        `&str`, and no bound or value can use it.";
    ZeroCopyOpaque "zero-copy-opaque" warn "`zcopaque`, an extension of libevpl, is used: an \
        opaque that is eligible for direct data placement.";
    Package "package" warn "A `package` is used, an extension of other compilers, and ignored.";
    Namespace "namespace" warn "A `namespace` is used, an extension of xdrpp.";
    Pragma "pragma" warn "A `pragma`, an extension of Linux's xdrgen, is ignored.";
    TrailingComma "trailing-comma" warn "A comma follows the last member of a list.";
    EmptyDeclaration "empty-declaration" warn "A `;` follows nothing.";
    EmptyBody "empty-body" warn "A struct has no fields.";
    MissingArms "missing-arms" allow "A union without a default has no arm for some members of \
        its enum.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(name: &str) -> Result<Self, UnknownCode> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.name() == name)
            .ok_or_else(|| UnknownCode(name.to_owned()))
    }
}

/// The error for a name that is not a [`Code`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCode(pub String);

impl fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no diagnostic is named `{}`", self.0)
    }
}

impl std::error::Error for UnknownCode {}

/// The levels of lints that differ from their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels(BTreeMap<Code, Level>);

impl Levels {
    /// Sets the level of a lint.
    ///
    /// # Errors
    /// Returns [`NotALint`] if the code is an error.
    pub fn set(&mut self, code: Code, level: Level) -> Result<(), NotALint> {
        if code.default_level().is_none() {
            return Err(NotALint(code));
        }
        self.0.insert(code, level);
        Ok(())
    }

    /// Returns the level of a code: that of an error is always [`Level::Deny`].
    #[must_use]
    pub fn get(&self, code: Code) -> Level {
        // `set` accepts only lints.
        let configured = self.0.get(&code).copied();
        configured.or(code.default_level()).unwrap_or(Level::Deny)
    }
}

/// The error for an attempt to change the level of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotALint(pub Code);

impl fmt::Display for NotALint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is an error, not a lint: its level can't be changed",
            self.0
        )
    }
}

impl std::error::Error for NotALint {}

/// A remark on a diagnostic, with an optional span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The position, if the note has one.
    pub span: Option<Span>,
    /// The text.
    pub message: String,
}

/// A suggested change of the document that is likely to repair the defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The description of the change, such as `swap the name and the type`.
    pub message: String,
    /// The range to replace.
    pub span: Span,
    /// The replacement.
    pub replacement: String,
}

/// A defect in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind of defect.
    pub code: Code,
    /// The severity. [`Diagnostics::report`] sets it from the configured levels.
    pub level: Level,
    /// The message: a sentence without a full stop.
    pub message: String,
    /// The position; `None` if the defect concerns a whole file.
    pub span: Option<Span>,
    /// The text under the caret.
    pub label: String,
    /// Remarks, such as the position of the first of two definitions.
    pub notes: Vec<Note>,
    /// Suggested changes.
    pub fixes: Vec<Fix>,
}

impl Diagnostic {
    /// Creates a diagnostic with a span.
    #[must_use]
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self {
            span: Some(span),
            ..Self::without_span(code, message)
        }
    }

    /// Creates a diagnostic without a span.
    #[must_use]
    pub fn without_span(code: Code, message: impl Into<String>) -> Self {
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

    /// Sets the text under the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds a remark with a span.
    #[must_use]
    pub fn note_at(mut self, span: Span, message: impl Into<String>) -> Self {
        self.notes.push(Note {
            span: Some(span),
            message: message.into(),
        });
        self
    }

    /// Adds a remark without a span.
    #[must_use]
    pub fn note(mut self, message: impl Into<String>) -> Self {
        self.notes.push(Note {
            span: None,
            message: message.into(),
        });
        self
    }

    /// Adds a suggested change.
    #[must_use]
    pub fn fix(
        mut self,
        span: Span,
        replacement: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        self.fixes.push(Fix {
            message: message.into(),
            span,
            replacement: replacement.into(),
        });
        self
    }

    /// Returns true if this diagnostic fails the compilation.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.level == Level::Deny
    }
}

/// Collects diagnostics and applies the configured levels.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    levels: Levels,
    list: Vec<Diagnostic>,
    /// Diagnostics already reported, so that none is reported twice at one position.
    seen: HashSet<(Code, Option<Span>, String)>,
}

impl Diagnostics {
    /// Creates an empty collection.
    #[must_use]
    pub fn new(levels: Levels) -> Self {
        Self {
            levels,
            ..Self::default()
        }
    }

    /// Adds a diagnostic at the current level of its code. A diagnostic at [`Level::Allow`] is
    /// dropped.
    pub fn report(&mut self, mut diagnostic: Diagnostic) {
        diagnostic.level = self.levels.get(diagnostic.code);
        if diagnostic.level == Level::Allow {
            return;
        }
        if self
            .seen
            .insert((diagnostic.code, diagnostic.span, diagnostic.message.clone()))
        {
            self.list.push(diagnostic);
        }
    }

    /// Adds all diagnostics of another collection, which was created with the same levels.
    pub fn append(&mut self, other: Self) {
        other.list.into_iter().for_each(|found| self.report(found));
    }

    /// Returns the number of errors.
    #[must_use]
    pub fn error_count(&self) -> usize {
        self.list.iter().filter(|found| found.is_error()).count()
    }

    /// Returns true if a lint is enabled, so that its check is worth running.
    #[must_use]
    pub fn is_enabled(&self, code: Code) -> bool {
        self.levels.get(code) != Level::Allow
    }

    /// Returns the configured levels.
    #[must_use]
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Returns true if a collected diagnostic is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(Diagnostic::is_error)
    }

    /// Returns all diagnostics, sorted by document and position. Those without a span come first.
    #[must_use]
    pub fn into_sorted(self, sources: &SourceMap) -> Vec<Diagnostic> {
        let mut list = self.list;
        list.sort_by_cached_key(|diagnostic| {
            let place = diagnostic.span.map(|span| {
                (
                    sources.text(span.text).document(),
                    sources.document_range(span).start,
                )
            });
            (place, diagnostic.code, diagnostic.message.clone())
        });
        list
    }
}
