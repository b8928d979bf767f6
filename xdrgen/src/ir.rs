//! What the emitters see: names resolved, values computed, sizes known, nothing left that could fail.
//!
//! Types live in one arena, [`Schema::types`], and refer to each other by [`TypeId`]; a module lists what it defines.

use crate::source::Span;

/// Identifies a [`TypeDef`] of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub(crate) u32);

/// Identifies a [`Module`] of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub(crate) u32);

/// Everything that one compilation defines.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// The modules, each after those it uses.
    pub modules: Vec<Module>,
    /// All types of all modules.
    pub types: Vec<TypeDef>,
}

impl Schema {
    /// The definition of a type.
    #[must_use]
    pub fn ty(&self, id: TypeId) -> &TypeDef {
        &self.types[id.0 as usize]
    }

    /// The module of an identifier.
    #[must_use]
    pub fn module(&self, id: ModuleId) -> &Module {
        &self.modules[id.0 as usize]
    }

    /// Follows aliases to what a type really is. In a circle of aliases, which a check reports, it ends somewhere.
    #[must_use]
    pub fn resolve<'s>(&'s self, mut ty: &'s Type) -> &'s Type {
        for _ in 0..self.types.len() {
            match ty {
                Type::Named(id) => match &self.ty(*id).kind {
                    TypeDefKind::Alias(target) => ty = target,
                    _ => break,
                },
                _ => break,
            }
        }
        ty
    }
}

/// Which forms of each type are emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shapes {
    /// Types that own what they hold.
    Owned,
    /// Types that borrow from the buffer they were decoded from.
    Borrowed,
    /// Borrowed types, and a module `owned` with those that own.
    #[default]
    Both,
}

impl Shapes {
    /// Whether borrowed types are emitted.
    #[must_use]
    pub fn borrowed(self) -> bool {
        self != Self::Owned
    }

    /// Whether owned types are emitted.
    #[must_use]
    pub fn owned(self) -> bool {
        self != Self::Borrowed
    }
}

/// A Rust module to be.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Its path, as `["v2", "rtr"]`.
    pub path: Vec<String>,
    /// The documents it was compiled from.
    pub documents: Vec<String>,
    /// The licences that the documents ask to keep.
    pub licenses: Vec<String>,
    /// Which forms are emitted.
    pub shapes: Shapes,
    /// The cargo feature that the module `owned` needs, where it has one.
    pub owned_feature: Option<String>,
    /// The constants, in their order.
    pub constants: Vec<Constant>,
    /// The types, in their order.
    pub types: Vec<TypeId>,
    /// The programs, in their order.
    pub programs: Vec<Program>,
    /// The overlays, in their order.
    pub overlays: Vec<Overlay>,
}

/// Where an item was defined, for its documentation.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The document's title: its file name without the ending.
    pub document: String,
    /// The section's number and title, where the document has headings.
    pub section: Option<(String, String)>,
    /// The page, where the document has page breaks.
    pub page: Option<u32>,
    /// The line, counted from one.
    pub line: usize,
    /// The definition as XDR.
    pub xdr: String,
}

/// A constant.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Its name in XDR.
    pub name: String,
    /// Its name in Rust.
    pub rust: String,
    /// Its type: one of the integers.
    pub ty: Primitive,
    /// Its value, which the type holds.
    pub value: i128,
    /// Where its name stands.
    pub span: Span,
    /// Where it is defined.
    pub origin: Origin,
}

/// A type with a name.
#[derive(Clone, Debug)]
pub struct TypeDef {
    /// The module that defines it.
    pub module: ModuleId,
    /// Its name in XDR; one made up of its parent's and its field's where it was written inline.
    pub name: String,
    /// Its name in Rust.
    pub rust: String,
    /// Where its name stands.
    pub span: Span,
    /// Where it is defined.
    pub origin: Origin,
    /// What it is.
    pub kind: TypeDefKind,
    /// Its sizes.
    pub layout: Layout,
}

/// What a type is.
#[derive(Clone, Debug)]
pub enum TypeDefKind {
    /// Another name for a type.
    Alias(Type),
    /// An enum.
    Enum(Enum),
    /// A struct.
    Struct(Vec<Field>),
    /// A discriminated union.
    Union(Union),
}

/// Sizes and properties of a type, computed once for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The fewest octets of XDR that a value takes.
    pub min: u64,
    /// The most; `None` is unbounded.
    pub max: Option<u64>,
    /// It has a fixed size, every bit pattern of that size is a value, and it is made of runs of such: one bounds check
    /// reads it.
    pub plain: bool,
    /// Its borrowed form has a lifetime.
    pub lifetime: bool,
    /// Its owned and its borrowed form differ: it has a lifetime, or its owned form boxes something.
    pub two_forms: bool,
    /// It holds a floating-point number, so it has no `Eq`.
    pub float: bool,
    /// No more than so many octets of memory does its owned form take, without what it owns on the heap.
    pub memory: u64,
    /// It contains itself, through an indirection.
    pub recursive: bool,
    /// How much code decodes a value with all that it contains: about so many branches.
    pub weight: u32,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            min: 0,
            max: Some(0),
            plain: false,
            lifetime: false,
            two_forms: false,
            float: false,
            memory: 0,
            recursive: false,
            weight: 0,
        }
    }
}

/// A type that has no parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primitive {
    /// `int`
    I32,
    /// `unsigned int`
    U32,
    /// `hyper`
    I64,
    /// `unsigned hyper`
    U64,
    /// `float`
    F32,
    /// `double`
    F64,
    /// `quadruple`
    Quadruple,
    /// `bool`
    Bool,
}

impl Primitive {
    /// Its octets of XDR.
    #[must_use]
    pub fn size(self) -> u64 {
        match self {
            Self::I32 | Self::U32 | Self::F32 | Self::Bool => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
            Self::Quadruple => 16,
        }
    }

    /// The values an integer holds; `None` for other types.
    #[must_use]
    pub fn range(self) -> Option<std::ops::RangeInclusive<i128>> {
        Some(match self {
            Self::I32 => i128::from(i32::MIN)..=i128::from(i32::MAX),
            Self::U32 => 0..=i128::from(u32::MAX),
            Self::I64 => i128::from(i64::MIN)..=i128::from(i64::MAX),
            Self::U64 => 0..=i128::from(u64::MAX),
            Self::F32 | Self::F64 | Self::Quadruple | Self::Bool => return None,
        })
    }
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A type without parts.
    Primitive(Primitive),
    /// `opaque x[N]`
    FixedOpaque(u32),
    /// `opaque x<N>`
    Opaque(Option<u32>),
    /// `string x<N>`
    String(Option<u32>),
    /// `T x[N]`
    Fixed(Box<Type>, u32),
    /// `T x<N>`
    Array(Box<Type>, Option<u32>),
    /// `T *x`
    Optional(Box<Type>),
    /// `T *x` to a type that contains the one which holds it: boxed in the owned form, lazy in the borrowed.
    Recursive(TypeId),
    /// `T *x` to the head of a linked list: a sequence of these.
    List(Box<Type>),
    /// A type with a name.
    Named(TypeId),
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name in XDR.
    pub name: String,
    /// Its name in Rust.
    pub rust: String,
    /// Where its name stands.
    pub span: Span,
    /// Its type.
    pub ty: Type,
}

/// An enum.
#[derive(Clone, Debug, Default)]
pub struct Enum {
    /// The members with values of their own.
    pub members: Vec<Member>,
    /// Members whose value an earlier one has: (name in XDR, name in Rust, index of the earlier).
    pub aliases: Vec<(String, String, usize)>,
}

/// A member of an enum.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name in XDR.
    pub name: String,
    /// Its name in Rust.
    pub rust: String,
    /// Where its name stands.
    pub span: Span,
    /// Its value.
    pub value: i32,
}

/// The type of a union's discriminant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discriminant {
    /// `int`
    I32,
    /// `unsigned int`
    U32,
    /// `bool`
    Bool,
    /// An enum.
    Enum(TypeId),
}

/// A discriminated union.
#[derive(Clone, Debug)]
pub struct Union {
    /// The discriminant's name in XDR.
    pub name: String,
    /// The discriminant's name in Rust.
    pub rust: String,
    /// Its type.
    pub discriminant: Discriminant,
    /// One for each case, in their order: cases that share a declaration have one each.
    pub arms: Vec<Arm>,
    /// `default`: its content, `None` is void.
    pub default: Option<Content>,
}

/// What an arm holds: its name in XDR and its type; `None` is void.
pub type Content = Option<(String, Type)>;

/// A case of a union.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The case as it was written: a constant's name or a number.
    pub case: String,
    /// The variant's name in Rust.
    pub rust: String,
    /// Where the case stands.
    pub span: Span,
    /// The discriminant's value, as the 32 bits that travel.
    pub value: u32,
    /// What it holds.
    pub content: Content,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name in XDR.
    pub name: String,
    /// Its module's name in Rust.
    pub rust: String,
    /// Its number.
    pub number: u32,
    /// Its versions.
    pub versions: Vec<Version>,
    /// Where it is defined.
    pub origin: Origin,
}

/// A version of a program.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its name in XDR.
    pub name: String,
    /// Its module's name in Rust.
    pub rust: String,
    /// Its number.
    pub number: u32,
    /// Its procedures.
    pub procedures: Vec<Procedure>,
}

/// A procedure of a version.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its name in XDR.
    pub name: String,
    /// Its type's name in Rust.
    pub rust: String,
    /// Where its name stands.
    pub span: Span,
    /// Its number.
    pub number: u32,
    /// What it takes.
    pub arguments: Vec<Type>,
    /// What it returns; none is void.
    pub reply: Option<Type>,
    /// Where it is defined.
    pub origin: Origin,
}

/// Typed contents of an opaque field, chosen by a code beside it.
#[derive(Clone, Debug)]
pub struct Overlay {
    /// The enum's name in Rust.
    pub rust: String,
    /// Where it was asked for, in a manifest.
    pub span: Option<Span>,
    /// The struct that has both fields.
    pub carrier: TypeId,
    /// The index of the field with the code.
    pub code: usize,
    /// The index of the opaque field.
    pub data: usize,
    /// Whether no octets at all stand for the default value of what the code names.
    pub empty_is_default: bool,
    /// The known contents.
    pub cases: Vec<OverlayCase>,
}

/// A known content.
#[derive(Clone, Debug)]
pub struct OverlayCase {
    /// The constant that is its code.
    pub constant: String,
    /// The variant's name in Rust.
    pub rust: String,
    /// The code.
    pub code: u32,
    /// The content's type.
    pub ty: Type,
}
