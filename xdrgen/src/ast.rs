//! Syntax, as it was written: names unresolved, values not computed, every part with its span.

use crate::source::Span;

/// A name where it stands.
#[derive(Clone, Debug)]
pub struct Ident {
    /// The name.
    pub name: String,
    /// Where.
    pub span: Span,
}

/// What a text holds: its definitions in their order.
#[derive(Clone, Debug, Default)]
pub struct Specification {
    /// The definitions. Those inside a `namespace` are among them.
    pub definitions: Vec<Definition>,
    /// The text's first comment that speaks of copyright, without its comment marks; drafts ask to keep it.
    pub license: Option<String>,
}

/// A definition at the top of a specification.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The name it defines.
    pub name: Ident,
    /// From its keyword to its semicolon.
    pub span: Span,
    /// What it is.
    pub kind: DefinitionKind,
}

/// What a definition is.
#[derive(Clone, Debug)]
pub enum DefinitionKind {
    /// `const A = 1;`, or `const uint32 A = 1;`
    Const {
        /// The type, where one is written: an extension.
        ty: Option<TypeSpecifier>,
        /// The value.
        value: Value,
    },
    /// `typedef T name;` The declaration's name is the definition's.
    Typedef(Declaration),
    /// `enum name { .. };`
    Enum(EnumBody),
    /// `struct name { .. };`
    Struct(StructBody),
    /// `union name switch (..) { .. };`
    Union(Box<UnionBody>),
    /// `program name { .. } = 1;`
    Program(Program),
}

/// A type with a name, and how many: `T name`, `T name[3]`, `T name<3>`, `T *name`.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// From the type to the end of the declarator, without the semicolon.
    pub span: Span,
    /// The type of one element.
    pub ty: TypeSpecifier,
    /// The name.
    pub name: Ident,
    /// How many.
    pub shape: Shape,
}

/// How many elements a declaration stands for.
#[derive(Clone, Debug)]
pub enum Shape {
    /// `T name`
    Plain,
    /// `T *name`: none or one.
    Optional,
    /// `T name[N]`: exactly so many.
    Fixed(Value),
    /// `T name<N>` or `T name<>`: at most so many.
    Variable(Option<Value>),
}

/// The type of one element.
#[derive(Clone, Debug)]
pub struct TypeSpecifier {
    /// Where.
    pub span: Span,
    /// What.
    pub kind: TypeKind,
}

/// What type.
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
    /// `opaque`: only with a length.
    Opaque,
    /// `string`: only with a bound.
    String,
    /// A name: `T`, `struct T` or `enum T`.
    Named {
        /// The name.
        name: Ident,
        /// The keyword before it, where there is one.
        keyword: Option<Keyword>,
    },
    /// `enum { .. }`
    Enum(EnumBody),
    /// `struct { .. }`
    Struct(StructBody),
    /// `union switch (..) { .. }`
    Union(Box<UnionBody>),
}

/// A keyword before a type's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyword {
    /// `struct T`
    Struct,
    /// `enum T`
    Enum,
    /// `union T`
    Union,
}

/// A number, or the name of one.
#[derive(Clone, Debug)]
pub struct Value {
    /// Where.
    pub span: Span,
    /// What.
    pub kind: ValueKind,
}

/// A number, or the name of one.
#[derive(Clone, Debug)]
pub enum ValueKind {
    /// A decimal, hexadecimal or octal constant, within 64 bits, signed or unsigned.
    Number(i128),
    /// The name of a constant or of an enum's member.
    Name(String),
}

/// `{ A = 1, B = 2 }`
#[derive(Clone, Debug)]
pub struct EnumBody {
    /// The members, in their order.
    pub members: Vec<Member>,
}

/// A member of an enum.
#[derive(Clone, Debug)]
pub struct Member {
    /// The name.
    pub name: Ident,
    /// The value; none is one more than the member before, an extension.
    pub value: Option<Value>,
}

/// `{ T a; U b; }`
#[derive(Clone, Debug)]
pub struct StructBody {
    /// The fields, in their order, without `void`.
    pub fields: Vec<Declaration>,
}

/// `switch (T name) { case .. }`
#[derive(Clone, Debug)]
pub struct UnionBody {
    /// `T name`
    pub discriminant: Declaration,
    /// The arms, in their order.
    pub arms: Vec<Arm>,
    /// `default:`, and where the keyword stands.
    pub default: Option<(Span, ArmBody)>,
}

/// `case A: case B: T name;`
#[derive(Clone, Debug)]
pub struct Arm {
    /// The values, one or more.
    pub cases: Vec<Value>,
    /// What follows.
    pub body: ArmBody,
}

/// What an arm holds.
#[derive(Clone, Debug)]
pub enum ArmBody {
    /// `void;`
    Void,
    /// One declaration. (Several are an error, from which the parser recovers by keeping the first.)
    Field(Box<Declaration>),
}

/// `program NAME { version .. } = 1;`
#[derive(Clone, Debug)]
pub struct Program {
    /// The versions, in their order.
    pub versions: Vec<Version>,
    /// The program number.
    pub number: Value,
}

/// `version NAME { T PROC(U) = 1; } = 1;`
#[derive(Clone, Debug)]
pub struct Version {
    /// Its name.
    pub name: Ident,
    /// The procedures, in their order.
    pub procedures: Vec<Procedure>,
    /// The version number.
    pub number: Value,
}

/// `T PROC(U, V) = 1;`
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its name.
    pub name: Ident,
    /// From the reply's type to the semicolon.
    pub span: Span,
    /// What it returns; none is `void`.
    pub reply: Option<TypeSpecifier>,
    /// What it takes; none is `void`.
    pub arguments: Vec<TypeSpecifier>,
    /// The procedure number.
    pub number: Value,
}

/// Which names [`Specification::names`] lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those that the whole specification sees (RFC 4506, section 6.4): types, constants, members, programs and their parts.
    Global,
    /// Those of fields, arms and discriminants, too.
    All,
}

impl Specification {
    /// The names that are defined here.
    #[must_use]
    pub fn names(&self, scope: Scope) -> Vec<String> {
        let mut names = Names { scope, found: Vec::new() };
        for definition in &self.definitions {
            names.add(&definition.name);
            match &definition.kind {
                DefinitionKind::Const { .. } => {}
                DefinitionKind::Typedef(declaration) => names.of_type(&declaration.ty),
                DefinitionKind::Enum(body) => names.of_enum(body),
                DefinitionKind::Struct(body) => names.of_struct(body),
                DefinitionKind::Union(body) => names.of_union(body),
                DefinitionKind::Program(program) => names.of_program(program),
            }
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

    fn of_field(&mut self, field: &Declaration) {
        if self.scope == Scope::All {
            self.add(&field.name);
        }
        self.of_type(&field.ty);
    }

    fn of_type(&mut self, ty: &TypeSpecifier) {
        match &ty.kind {
            TypeKind::Enum(body) => self.of_enum(body),
            TypeKind::Struct(body) => self.of_struct(body),
            TypeKind::Union(body) => self.of_union(body),
            _ => {}
        }
    }

    fn of_enum(&mut self, body: &EnumBody) {
        body.members.iter().for_each(|member| self.add(&member.name));
    }

    fn of_struct(&mut self, body: &StructBody) {
        body.fields.iter().for_each(|field| self.of_field(field));
    }

    fn of_union(&mut self, body: &UnionBody) {
        self.of_field(&body.discriminant);
        body.fields().for_each(|field| self.of_field(field));
    }

    fn of_program(&mut self, program: &Program) {
        for version in &program.versions {
            self.add(&version.name);
            version.procedures.iter().for_each(|procedure| self.add(&procedure.name));
        }
    }
}

impl UnionBody {
    /// What the arms hold, `default` among them.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Declaration> {
        let bodies = self.arms.iter().map(|arm| &arm.body).chain(self.default.iter().map(|(_, body)| body));
        bodies.filter_map(|body| match body {
            ArmBody::Void => None,
            ArmBody::Field(field) => Some(&**field),
        })
    }
}

/// Calls `see` with every name that stands for a type or a value defined elsewhere, and where it stands.
pub fn references<'a>(definition: &'a Definition, see: &mut impl FnMut(&'a str, Span)) {
    match &definition.kind {
        DefinitionKind::Const { ty, value } => {
            ty.iter().for_each(|ty| of_type(ty, see));
            of_value(value, see);
        }
        DefinitionKind::Typedef(declaration) => of_declaration(declaration, see),
        DefinitionKind::Enum(body) => of_enum(body, see),
        DefinitionKind::Struct(body) => body.fields.iter().for_each(|field| of_declaration(field, see)),
        DefinitionKind::Union(body) => of_union(body, see),
        DefinitionKind::Program(program) => {
            for procedure in program.versions.iter().flat_map(|version| &version.procedures) {
                procedure.arguments.iter().chain(&procedure.reply).for_each(|ty| of_type(ty, see));
            }
        }
    }
}

fn of_declaration<'a>(declaration: &'a Declaration, see: &mut impl FnMut(&'a str, Span)) {
    of_type(&declaration.ty, see);
    if let Shape::Fixed(value) | Shape::Variable(Some(value)) = &declaration.shape {
        of_value(value, see);
    }
}

fn of_type<'a>(ty: &'a TypeSpecifier, see: &mut impl FnMut(&'a str, Span)) {
    match &ty.kind {
        TypeKind::Named { name, .. } => see(&name.name, name.span),
        TypeKind::Enum(body) => of_enum(body, see),
        TypeKind::Struct(body) => body.fields.iter().for_each(|field| of_declaration(field, see)),
        TypeKind::Union(body) => of_union(body, see),
        _ => {}
    }
}

fn of_enum<'a>(body: &'a EnumBody, see: &mut impl FnMut(&'a str, Span)) {
    body.members.iter().filter_map(|member| member.value.as_ref()).for_each(|value| of_value(value, see));
}

fn of_union<'a>(body: &'a UnionBody, see: &mut impl FnMut(&'a str, Span)) {
    of_declaration(&body.discriminant, see);
    body.arms.iter().flat_map(|arm| &arm.cases).for_each(|case| of_value(case, see));
    body.fields().for_each(|field| of_declaration(field, see));
}

fn of_value<'a>(value: &'a Value, see: &mut impl FnMut(&'a str, Span)) {
    if let ValueKind::Name(name) = &value.kind {
        see(name, value.span);
    }
}
