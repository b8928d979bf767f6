//! The abstract syntax tree. Names are unresolved and values not computed; every node has its span.
//!
//! `parse` creates it; `extend` and `supply` move definitions between specifications; `check`
//! lowers it to `ir`. `check::symbols` identifies an inline type by its span, and a member of an
//! enum by that of its name, so no two of them have the same span. A new node that refers to a name
//! needs a case in [`visit_references`], or `supply` does not find the definition; one that defines
//! a name needs a case in [`Definition::names`].

use crate::source::Span;

/// An identifier.
#[derive(Clone, Debug)]
pub struct Ident {
    /// The name.
    pub name: String,
    /// The position.
    pub span: Span,
}

/// The definitions of a text, in document order.
#[derive(Clone, Debug, Default)]
pub struct Specification {
    /// The definitions, including those inside a `namespace`.
    pub definitions: Vec<Definition>,
    /// The first comment that mentions copyright, without comment marks. Drafts require it to be
    /// kept.
    pub license: Option<String>,
    /// The start of each comment that contains a `/*`, up to it. It may hide definitions.
    pub hidden: Vec<Span>,
    /// The lines that include another file, `%#include` or `#include`. An included file may define
    /// a name that no document defines.
    pub includes: Vec<Span>,
    /// The members and arms outside of a definition, in a document that extends others.
    pub fragments: Vec<Fragment>,
    /// The constants of `%#define`, which are for C, and those of `#define` whose values depend on
    /// other documents. A constant becomes a definition if a document uses it and no document
    /// defines it.
    pub macros: Vec<Definition>,
    /// The names that the lines of the preprocessor define, with the positions. XDR has no use for
    /// some of them: their values are not numbers.
    pub defines: Vec<Ident>,
    /// The lines of `%` that are no directives: rpcgen passes them to its output.
    pub passed: Vec<Span>,
    /// The lines that are not active, because of conditions of the preprocessor.
    pub inactive: Vec<Inactive>,
}

/// Lines that are not active.
#[derive(Clone, Copy, Debug)]
pub struct Inactive {
    /// The line of the preprocessor that begins the condition.
    pub condition: Span,
    /// The lines.
    pub lines: Span,
}

/// A top-level definition.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The name that it defines.
    pub name: Ident,
    /// The span from the keyword to the semicolon. That of a `#define` or `%#define` is its line,
    /// by which `check::symbols` recognizes it.
    pub span: Span,
    /// The body.
    pub kind: DefinitionKind,
}

/// The body of a definition.
#[derive(Clone, Debug)]
pub enum DefinitionKind {
    /// `const A = 1;`, or `const uint32 A = 1;`
    Const {
        /// The type, if one is written (an extension).
        ty: Option<TypeSpecifier>,
        /// The value.
        value: ValueExpr,
    },
    /// `const A = "text";` (an extension of rpcgen).
    Text {
        /// The text, without the quotation marks.
        value: String,
        /// The position of the text.
        span: Span,
    },
    /// `typedef T name;`. The name of the declaration is that of the definition.
    Typedef(Declaration),
    /// `enum name { .. };`
    Enum(EnumBody),
    /// `struct name { .. };`
    Struct(StructBody),
    /// `union name switch (..) { .. };`
    Union(Box<UnionBody>),
    /// `program name { .. } = 1;`
    Program(ProgramBody),
}

/// Members or arms that an extension adds to an enum or a union of another document.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// The position.
    pub span: Span,
    /// The text between the previous item and this one. A comment in it names the extended
    /// definition.
    pub before: Span,
    /// The added members or arms.
    pub kind: FragmentKind,
}

/// The members or arms of a [`Fragment`].
#[derive(Clone, Debug)]
pub enum FragmentKind {
    /// `A = 1, B = 2`
    Members(Vec<EnumMember>),
    /// `case A: T name;`
    Arms(Vec<UnionArm>),
}

/// A declaration: `T name`, `T name[3]`, `T name<3>`, `T *name`.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The span from the type to the end of the declarator, without the semicolon.
    pub span: Span,
    /// The type of one element.
    pub ty: TypeSpecifier,
    /// The name.
    pub name: Ident,
    /// The number of elements.
    pub declarator: Declarator,
}

/// The number of elements that a declaration stands for.
#[derive(Clone, Debug)]
pub enum Declarator {
    /// `T name`
    Plain,
    /// `T *name`: zero or one element.
    Optional,
    /// `T name[N]`: exactly `N` elements.
    Fixed(ValueExpr),
    /// `T name<N>` or `T name<>`: at most `N` elements, or any number.
    Variable(Option<ValueExpr>),
}

/// The type of one element, with its span.
#[derive(Clone, Debug)]
pub struct TypeSpecifier {
    /// The position.
    pub span: Span,
    /// The type.
    pub kind: TypeKind,
}

/// The type of one element.
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// `int`
    Int,
    /// `unsigned int`, `unsigned`
    UnsignedInt,
    /// `hyper`
    Hyper,
    /// `unsigned hyper`
    UnsignedHyper,
    /// `float`
    Float,
    /// `double`
    Double,
    /// `quadruple`
    Quadruple,
    /// `bool`
    Bool,
    /// `opaque`, which requires a length.
    Opaque,
    /// `zcopaque` of libevpl's compiler (an extension): an opaque that is eligible for direct data
    /// placement.
    ZeroCopyOpaque,
    /// `string`, which requires a bound.
    String,
    /// A named type: `T`, `struct T`, `enum T` or `union T`.
    Named {
        /// The name.
        name: Ident,
        /// The keyword before the name, if there is one.
        keyword: Option<Keyword>,
    },
    /// `enum { .. }`
    Enum(EnumBody),
    /// `struct { .. }`
    Struct(StructBody),
    /// `union switch (..) { .. }`
    Union(Box<UnionBody>),
}

/// A keyword before the name of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyword {
    /// `struct T`
    Struct,
    /// `enum T`
    Enum,
    /// `union T`
    Union,
}

/// A number, or an expression with the name of a value.
#[derive(Clone, Debug)]
pub struct ValueExpr {
    /// The position.
    pub span: Span,
    /// The value.
    pub kind: ValueExprKind,
}

/// The kind of a [`ValueExpr`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueExprKind {
    /// A decimal, hexadecimal or octal constant. RFC 4506 has those of 64 bits, signed or unsigned.
    Number(i128),
    /// The name of a constant or of an enum's member.
    Name(String),
    /// A sum with a multiple of a named value: the value of a macro, `#define A B*4+1`.
    Sum(String, Linear),
}

/// A linear function: `factor * value + addend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The factor of the named value.
    pub factor: i128,
    /// The number that is added.
    pub addend: i128,
}

impl Linear {
    /// Returns the result for a value; `None` if it has more than 127 bits.
    #[must_use]
    pub fn of(self, value: i128) -> Option<i128> {
        self.factor.checked_mul(value)?.checked_add(self.addend)
    }

    /// Returns the expression for a name, as C has it.
    #[must_use]
    pub fn with_name(self, name: &str) -> String {
        match self {
            Self { factor: 1, addend } => format!("{name}{addend:+}"),
            Self { factor, addend: 0 } => format!("{name}*{factor}"),
            Self { factor, addend } => format!("{name}*{factor}{addend:+}"),
        }
    }
}

/// `{ A = 1, B = 2 }`
#[derive(Clone, Debug)]
pub struct EnumBody {
    /// The members, in document order.
    pub members: Vec<EnumMember>,
}

/// A member of an enum.
#[derive(Clone, Debug)]
pub struct EnumMember {
    /// The name.
    pub name: Ident,
    /// The value. `None` means one more than the previous member (an extension).
    pub value: Option<ValueExpr>,
}

/// `{ T a; U b; }`
#[derive(Clone, Debug)]
pub struct StructBody {
    /// The fields, in document order, without `void`.
    pub fields: Vec<Declaration>,
}

/// `switch (T name) { case .. }`
#[derive(Clone, Debug)]
pub struct UnionBody {
    /// `T name`
    pub discriminant: Declaration,
    /// The arms, in document order.
    pub arms: Vec<UnionArm>,
    /// The `default` arm, with the span of the keyword.
    pub default: Option<(Span, ArmBody)>,
}

/// `case A: case B: T name;`
#[derive(Clone, Debug)]
pub struct UnionArm {
    /// The values, one or more.
    pub cases: Vec<ValueExpr>,
    /// The content.
    pub body: ArmBody,
}

/// The content of an arm.
#[derive(Clone, Debug)]
pub enum ArmBody {
    /// `void;`
    Void,
    /// One declaration. An arm with several is an error; the parser recovers by putting them into a
    /// struct.
    Field(Box<Declaration>),
}

/// `program NAME { version .. } = 1;`
#[derive(Clone, Debug)]
pub struct ProgramBody {
    /// The versions, in document order.
    pub versions: Vec<ProgramVersion>,
    /// The program number.
    pub number: ValueExpr,
}

/// `version NAME { T PROC(U) = 1; } = 1;`
#[derive(Clone, Debug)]
pub struct ProgramVersion {
    /// The name.
    pub name: Ident,
    /// The procedures, in document order.
    pub procedures: Vec<ProgramProcedure>,
    /// The version number.
    pub number: ValueExpr,
}

/// `T PROC(U, V) = 1;`
#[derive(Clone, Debug)]
pub struct ProgramProcedure {
    /// The name.
    pub name: Ident,
    /// The span from the reply's type to the semicolon.
    pub span: Span,
    /// The type of the reply; `None` is `void`.
    pub reply: Option<Parameter>,
    /// The arguments; empty for `void`.
    pub arguments: Vec<Parameter>,
    /// The procedure number.
    pub number: ValueExpr,
}

/// An argument or the reply of a procedure: `T`, or as an extension `T *`, `T<3>`, `T name`.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The span from the type to the end of the declarator.
    pub span: Span,
    /// The type of one element.
    pub ty: TypeSpecifier,
    /// The number of elements.
    pub declarator: Declarator,
    /// The name of an argument, if it has one (an extension).
    pub name: Option<Ident>,
}

/// Selects the names that [`Specification::names`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Names with global scope (RFC 4506, section 6.4): types, constants, enum members, programs,
    /// versions and procedures.
    Global,
    /// Global names, and the names of fields, arms and discriminants.
    All,
}

impl Specification {
    /// Returns the names that this specification defines.
    #[must_use]
    pub fn names(&self, scope: Scope) -> Vec<String> {
        let definitions = self.definitions.iter();
        definitions
            .flat_map(|definition| definition.names(scope))
            .collect()
    }
}

impl Definition {
    /// Returns the names that this definition defines.
    #[must_use]
    pub fn names(&self, scope: Scope) -> Vec<String> {
        let mut names = Names {
            scope,
            found: Vec::new(),
        };
        names.add(&self.name);
        match &self.kind {
            DefinitionKind::Const { .. } | DefinitionKind::Text { .. } => {}
            DefinitionKind::Typedef(declaration) => names.visit_type(&declaration.ty),
            DefinitionKind::Enum(body) => names.visit_enum(body),
            DefinitionKind::Struct(body) => names.visit_struct(body),
            DefinitionKind::Union(body) => names.visit_union(body),
            DefinitionKind::Program(program) => names.visit_program(program),
        }
        names.found
    }
}

/// Collects names.
struct Names {
    scope: Scope,
    found: Vec<String>,
}

impl Names {
    fn add(&mut self, name: &Ident) {
        self.found.push(name.name.clone());
    }

    fn visit_field(&mut self, field: &Declaration) {
        if self.scope == Scope::All {
            self.add(&field.name);
        }
        self.visit_type(&field.ty);
    }

    fn visit_type(&mut self, ty: &TypeSpecifier) {
        match &ty.kind {
            TypeKind::Enum(body) => self.visit_enum(body),
            TypeKind::Struct(body) => self.visit_struct(body),
            TypeKind::Union(body) => self.visit_union(body),
            _ => {}
        }
    }

    fn visit_enum(&mut self, body: &EnumBody) {
        body.members
            .iter()
            .for_each(|member| self.add(&member.name));
    }

    fn visit_struct(&mut self, body: &StructBody) {
        body.fields.iter().for_each(|field| self.visit_field(field));
    }

    fn visit_union(&mut self, body: &UnionBody) {
        self.visit_field(&body.discriminant);
        body.fields().for_each(|field| self.visit_field(field));
    }

    fn visit_program(&mut self, program: &ProgramBody) {
        for version in &program.versions {
            self.add(&version.name);
            version
                .procedures
                .iter()
                .for_each(|procedure| self.add(&procedure.name));
        }
    }
}

impl Declaration {
    /// Returns true if both declare the same type, as far as the syntax shows it: a name, or a type
    /// without a body, and equal lengths.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.ty.kind.is_same_as(&other.ty.kind) && self.declarator.is_same_as(&other.declarator)
    }
}

impl ProgramProcedure {
    /// Returns true if both have the same number, and the same types of arguments and results, as
    /// far as the syntax shows it.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let (arguments, again) = (&self.arguments, &other.arguments);
        let reply = match (&self.reply, &other.reply) {
            (None, None) => true,
            (Some(reply), Some(again)) => reply.is_same_as(again),
            _ => false,
        };
        let mut pairs = arguments.iter().zip(again);
        self.number.kind == other.number.kind
            && reply
            && arguments.len() == again.len()
            && pairs.all(|(argument, again)| argument.is_same_as(again))
    }
}

impl Parameter {
    fn is_same_as(&self, other: &Self) -> bool {
        self.ty.kind.is_same_as(&other.ty.kind) && self.declarator.is_same_as(&other.declarator)
    }
}

impl TypeSpecifier {
    /// Returns true if both types are absent, or the same as far as the syntax shows it.
    pub(crate) fn are_same(one: Option<&Self>, other: Option<&Self>) -> bool {
        match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => one.kind.is_same_as(&other.kind),
            _ => false,
        }
    }
}

impl TypeKind {
    /// Returns true if both are the same type. Types with a body define members and fields, so no
    /// two of them are the same.
    fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Named { name, .. }, Self::Named { name: again, .. }) => name.name == again.name,
            (Self::Enum(_) | Self::Struct(_) | Self::Union(_), _) => false,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl Declarator {
    fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plain, Self::Plain)
            | (Self::Optional, Self::Optional)
            | (Self::Variable(None), Self::Variable(None)) => true,
            (Self::Fixed(length), Self::Fixed(again))
            | (Self::Variable(Some(length)), Self::Variable(Some(again))) => {
                length.kind == again.kind
            }
            _ => false,
        }
    }
}

impl UnionBody {
    /// Returns the declarations of all arms, including `default`.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Declaration> {
        let bodies = self
            .arms
            .iter()
            .map(|arm| &arm.body)
            .chain(self.default.iter().map(|(_, body)| body));
        bodies.filter_map(|body| match body {
            ArmBody::Void => None,
            ArmBody::Field(field) => Some(&**field),
        })
    }
}

/// Calls `visit` with the name and the span of every reference to a type or a value, including
/// those of inline types.
pub fn visit_references<'a>(definition: &'a Definition, visit: &mut impl FnMut(&'a str, Span)) {
    match &definition.kind {
        DefinitionKind::Const { ty, value } => {
            ty.iter().for_each(|ty| visit_type(ty, visit));
            visit_value(value, visit);
        }
        DefinitionKind::Text { .. } => {}
        DefinitionKind::Typedef(declaration) => visit_declaration(declaration, visit),
        DefinitionKind::Enum(body) => visit_enum(body, visit),
        DefinitionKind::Struct(body) => body
            .fields
            .iter()
            .for_each(|field| visit_declaration(field, visit)),
        DefinitionKind::Union(body) => visit_union(body, visit),
        DefinitionKind::Program(program) => {
            visit_value(&program.number, visit);
            let versions = program.versions.iter();
            versions
                .clone()
                .for_each(|version| visit_value(&version.number, visit));
            for procedure in versions.flat_map(|version| &version.procedures) {
                visit_value(&procedure.number, visit);
                let parameters = procedure.arguments.iter().chain(&procedure.reply);
                parameters.for_each(|parameter| {
                    visit_type(&parameter.ty, visit);
                    visit_declarator(&parameter.declarator, visit);
                });
            }
        }
    }
}

fn visit_declaration<'a>(declaration: &'a Declaration, visit: &mut impl FnMut(&'a str, Span)) {
    visit_type(&declaration.ty, visit);
    visit_declarator(&declaration.declarator, visit);
}

fn visit_declarator<'a>(declarator: &'a Declarator, visit: &mut impl FnMut(&'a str, Span)) {
    if let Declarator::Fixed(value) | Declarator::Variable(Some(value)) = declarator {
        visit_value(value, visit);
    }
}

fn visit_type<'a>(ty: &'a TypeSpecifier, visit: &mut impl FnMut(&'a str, Span)) {
    match &ty.kind {
        TypeKind::Named { name, .. } => visit(&name.name, name.span),
        TypeKind::Enum(body) => visit_enum(body, visit),
        TypeKind::Struct(body) => body
            .fields
            .iter()
            .for_each(|field| visit_declaration(field, visit)),
        TypeKind::Union(body) => visit_union(body, visit),
        _ => {}
    }
}

fn visit_enum<'a>(body: &'a EnumBody, visit: &mut impl FnMut(&'a str, Span)) {
    body.members
        .iter()
        .filter_map(|member| member.value.as_ref())
        .for_each(|value| visit_value(value, visit));
}

fn visit_union<'a>(body: &'a UnionBody, visit: &mut impl FnMut(&'a str, Span)) {
    visit_declaration(&body.discriminant, visit);
    body.arms
        .iter()
        .flat_map(|arm| &arm.cases)
        .for_each(|case| visit_value(case, visit));
    body.fields()
        .for_each(|field| visit_declaration(field, visit));
}

fn visit_value<'a>(value: &'a ValueExpr, visit: &mut impl FnMut(&'a str, Span)) {
    match &value.kind {
        ValueExprKind::Number(_) => {}
        ValueExprKind::Name(name) | ValueExprKind::Sum(name, _) => visit(name, value.span),
    }
}
