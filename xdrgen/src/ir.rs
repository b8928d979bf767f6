//! The intermediate representation that the emitters read. Names are resolved, values computed and
//! sizes known, so that emitting cannot fail.
//!
//! Types are in one arena, [`Schema::types`], and refer to each other by [`TypeId`]. A module lists
//! the types that it defines.
//!
//! `check::analyze` builds the schema. After a compilation without errors, `emit`, `value`, `diff`
//! and `wireshark` rely on these properties without a check: each identifier and index is in range;
//! each cycle of types passes through [`Type::Recursive`], [`Type::Nested`], [`Type::Array`] or
//! [`Type::List`]; each layout is computed.

use crate::source::Span;

/// Identifies a [`TypeDef`] of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub(crate) u32);

/// Identifies a [`ModuleDef`] of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub(crate) u32);

/// All definitions of a compilation.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// The modules, each after those that it uses.
    pub modules: Vec<ModuleDef>,
    /// The types of all modules.
    pub types: Vec<TypeDef>,
}

impl Schema {
    /// Returns the definition of a type.
    ///
    /// # Panics
    /// Panics if `id` is from another schema and out of range here.
    #[must_use]
    pub fn ty(&self, id: TypeId) -> &TypeDef {
        &self.types[id.0 as usize]
    }

    /// Returns a module.
    ///
    /// # Panics
    /// Panics if `id` is from another schema and out of range here.
    #[must_use]
    pub fn module(&self, id: ModuleId) -> &ModuleDef {
        &self.modules[id.0 as usize]
    }

    /// Returns true if a module has stubs. Then all modules use the runtime by way of `oncrpc`.
    #[must_use]
    pub fn has_stubs(&self) -> bool {
        self.modules.iter().any(|module| module.stubs.any())
    }

    /// Returns the name of the type of a procedure's results that a service returns in either
    /// shape; `None` if the results have no lifetime, so that both shapes are equal.
    pub(crate) fn results_type(&self, module: &ModuleDef, procedure: &Procedure) -> Option<String> {
        let layout = self.layout_of(procedure.reply.as_ref()?);
        let both = module.shapes == Shapes::Both && layout.lifetime;
        both.then(|| format!("{}Results", procedure.rust))
    }

    /// Returns the most items that a value of a type has, without those in sequences.
    pub(crate) fn items_in(&self, ty: &Type) -> usize {
        let part = |content: &Content| content.as_ref().map_or(0, |(_, ty)| self.items_in(ty));
        match self.resolve(ty) {
            Type::Item(_) => 1,
            Type::Optional(element) => self.items_in(element),
            Type::Named(id) => match &self.ty(*id).kind {
                TypeDefKind::Struct(fields) => {
                    fields.iter().map(|field| self.items_in(&field.ty)).sum()
                }
                TypeDefKind::Union(union) => {
                    let contents = union.arms.iter().map(|arm| &arm.content);
                    contents.chain(&union.default).map(part).max().unwrap_or(0)
                }
                TypeDefKind::Alias(_) | TypeDefKind::Enum(_) => 0,
            },
            _ => 0,
        }
    }

    /// Returns the type of the elements of a sequence that is decoded element by element: elements
    /// of a fixed size are skipped at no cost.
    pub(crate) fn element_of<'s>(&'s self, ty: &'s Type) -> Option<&'s Type> {
        match self.resolve(ty) {
            Type::Array(element, _) | Type::List(element) if !self.layout_of(element).plain => {
                Some(element)
            }
            _ => None,
        }
    }

    /// Returns the union to which a type resolves, if it is generated in a borrowed shape.
    pub(crate) fn borrowed_union<'s>(&'s self, ty: &'s Type) -> Option<TypeId> {
        let Type::Named(id) = self.resolve(ty) else {
            return None;
        };
        let definition = self.ty(*id);
        let is_union = matches!(definition.kind, TypeDefKind::Union(_));
        let is_borrowed = self.module(definition.module).shapes != Shapes::Owned;
        (is_union && is_borrowed && definition.external.is_none()).then_some(*id)
    }

    /// Returns true for an enum that is open.
    #[must_use]
    pub fn is_open(&self, id: TypeId) -> bool {
        matches!(&self.ty(id).kind, TypeDefKind::Enum(body) if body.open)
    }

    /// Resolves aliases. The walk is bounded, so it terminates in a cycle of aliases, which a check
    /// reports.
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

/// Selects the shapes of each type to emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shapes {
    /// Types that own their content (`Vec`, `Box`).
    Owned,
    /// Types that borrow from the buffer that they are decoded from.
    Borrowed,
    /// Borrowed types, and a module `owned` with owned types.
    #[default]
    Both,
}

impl Shapes {
    /// Returns true if borrowed types are emitted.
    #[must_use]
    pub fn borrowed(self) -> bool {
        self != Self::Owned
    }

    /// Returns true if owned types are emitted.
    #[must_use]
    pub fn owned(self) -> bool {
        self != Self::Borrowed
    }
}

/// A Rust module to generate.
#[derive(Clone, Debug, Default)]
pub struct ModuleDef {
    /// The path, such as `["v2", "rtr"]`.
    pub path: Vec<String>,
    /// The titles of the documents that define it.
    pub documents: Vec<String>,
    /// The licences that the documents require to be kept.
    pub licenses: Vec<String>,
    /// The shapes to emit.
    pub shapes: Shapes,
    /// The cargo feature that enables the module `owned`, if there is one.
    pub owned_feature: Option<String>,
    /// The cargo feature that enables serde, if there is one.
    pub serde_feature: Option<String>,
    /// The constants, in document order.
    pub constants: Vec<Constant>,
    /// The types, in document order.
    pub types: Vec<TypeId>,
    /// The programs, in document order.
    pub programs: Vec<Program>,
    /// The overlays, in configuration order.
    pub overlays: Vec<OverlayDef>,
    /// The stubs of each version of a program.
    pub stubs: Stubs,
}

/// Selects the stubs to emit for each version of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stubs {
    /// Whether there is a client.
    pub client: bool,
    /// Whether there are the traits of a service.
    pub server: bool,
}

impl Stubs {
    /// Returns true if there are any.
    #[must_use]
    pub const fn any(self) -> bool {
        self.client || self.server
    }
}

/// The position at which an item is defined, for its documentation.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The document's title: its file name without the extension.
    pub document: String,
    /// The section's number and title, if the document has headings.
    pub section: Option<(String, String)>,
    /// The page, if the document has page breaks.
    pub page: Option<u32>,
    /// The line number; the first line is 1.
    pub line: usize,
    /// The definition as XDR.
    pub xdr: String,
}

/// A constant.
#[derive(Clone, Debug)]
pub struct Constant {
    /// The name in XDR.
    pub name: String,
    /// The name in Rust.
    pub rust: String,
    /// The value.
    pub value: ConstantValue,
    /// The span of the name.
    pub span: Span,
    /// The position of the definition.
    pub origin: Origin,
}

/// The value of a [`Constant`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstantValue {
    /// A number, and its type.
    Number {
        /// The type, an integer; a 64-bit integer if the value has more bits than any XDR type.
        ty: Primitive,
        /// The value. It is in the range of the type, unless it has more than 64 bits.
        value: i128,
    },
    /// A string, without the quotation marks (an extension of rpcgen).
    Text(String),
}

impl ConstantValue {
    /// Returns the number; `None` for a string.
    #[must_use]
    pub fn number(&self) -> Option<i128> {
        match self {
            Self::Number { value, .. } => Some(*value),
            Self::Text(_) => None,
        }
    }
}

impl std::fmt::Display for ConstantValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number { value, .. } => write!(f, "{value}"),
            Self::Text(text) => write!(f, "\"{text}\""),
        }
    }
}

/// A named type.
#[derive(Clone, Debug)]
pub struct TypeDef {
    /// The module that defines it.
    pub module: ModuleId,
    /// The name in XDR. For an inline definition, a name made of the parent's and the field's name.
    pub name: String,
    /// The name in Rust.
    pub rust: String,
    /// The span of the name.
    pub span: Span,
    /// The position of the definition.
    pub origin: Origin,
    /// The definition.
    pub kind: TypeDefKind,
    /// The path of the Rust type, if the configuration supplies it. Then the definition is a struct
    /// without fields, and the encoding is unknown.
    pub external: Option<String>,
    /// The sizes.
    pub layout: Layout,
}

/// The definition of a named type.
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

/// Sizes and properties of a type, computed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The minimum encoded size, in bytes.
    pub min: u64,
    /// The maximum encoded size, in bytes; `None` if it is unbounded.
    pub max: Option<u64>,
    /// The maximum encoded size, in bytes, without the content of items outside of sequences;
    /// `None` if it is unbounded.
    pub inline_max: Option<u64>,
    /// Whether the type has a fixed encoded size and every bit pattern of that size is a valid
    /// value, so that one bounds check is enough to decode it.
    pub plain: bool,
    /// Whether the borrowed shape has a lifetime.
    pub lifetime: bool,
    /// Whether the borrowed shape can be `Copy`: it contains no item outside of sequences.
    pub copy: bool,
    /// Whether the owned and the borrowed shape differ: because of a lifetime, or because the owned
    /// shape boxes a part.
    pub shapes_differ: bool,
    /// Whether the type contains a floating-point number or a type that is not generated, so that
    /// it cannot implement `Eq`.
    pub float: bool,
    /// Whether the type contains an item, in a sequence or outside of one.
    pub items: bool,
    /// The maximum size of the owned shape in memory, in bytes, without its heap allocations.
    pub memory: u64,
    /// Whether the type has a zero, in which all numbers are zero and all sequences are empty. Such
    /// a type implements `Default`.
    pub zero: bool,
    /// Whether the type contains itself, through an indirection.
    pub recursive: bool,
    /// The approximate number of branches in the code that decodes a value with all its parts.
    pub weight: u32,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            min: 0,
            max: Some(0),
            inline_max: Some(0),
            plain: false,
            lifetime: false,
            copy: true,
            shapes_differ: false,
            float: false,
            items: false,
            memory: 0,
            zero: true,
            recursive: false,
            weight: 0,
        }
    }
}

/// A type without parts.
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
    /// Returns the encoded size in bytes.
    #[must_use]
    pub fn size(self) -> u64 {
        match self {
            Self::I32 | Self::U32 | Self::F32 | Self::Bool => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
            Self::Quadruple => 16,
        }
    }

    /// Returns the range of an integer type; `None` for other types.
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
    /// An opaque or a string of variable length that a transport may move out of the message. Only
    /// a field or the content of an arm has this type.
    Item(Box<Type>),
    /// `T x[N]`
    Fixed(Box<Type>, u32),
    /// `T x<N>`
    Array(Box<Type>, Option<u32>),
    /// `T *x`
    Optional(Box<Type>),
    /// `T *x`, where `T` contains the type with this field. Boxed in the owned shape, decoded on
    /// access in the borrowed shape.
    Recursive(TypeId),
    /// `T x` as the content of an arm, where `T` contains the union and another arm ends the value.
    /// Boxed in the owned shape, decoded on access in the borrowed shape.
    Nested(Box<Type>),
    /// `T *x`, where `T` is the node of a linked list: a sequence of these elements.
    List(Box<Type>),
    /// A named type.
    Named(TypeId),
}

impl Type {
    /// Returns the maximum length of an item's content, in bytes; `None` for another type.
    #[must_use]
    pub fn item_max(&self) -> Option<u32> {
        match self {
            Self::Item(content) => match **content {
                Self::Opaque(max) | Self::String(max) => Some(max.unwrap_or(u32::MAX)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name in XDR.
    pub name: String,
    /// The name in Rust.
    pub rust: String,
    /// The span of the name.
    pub span: Span,
    /// The type.
    pub ty: Type,
}

/// An enum.
#[derive(Clone, Debug, Default)]
pub struct Enum {
    /// The members with distinct values.
    pub members: Vec<Member>,
    /// The members that repeat the value of an earlier member.
    pub aliases: Vec<MemberAlias>,
    /// Whether values without a member are values of the type too.
    pub open: bool,
}

impl Enum {
    /// Returns true if zero is a value of the enum.
    #[must_use]
    pub fn has_zero(&self) -> bool {
        self.open || self.members.iter().any(|member| member.value == 0)
    }

    /// Returns the name in Rust of the variant for values without a member, if the enum is open:
    /// `Unknown`, unless a member has that name.
    #[must_use]
    pub fn unknown(&self) -> &'static str {
        if self.all_members().any(|member| member.rust == "Unknown") {
            "UnknownValue"
        } else {
            "Unknown"
        }
    }

    /// Returns all members: those with distinct values, then those that repeat a value.
    pub fn all_members(&self) -> impl Iterator<Item = &Member> {
        let aliases = self.aliases.iter().map(|alias| &alias.member);
        self.members.iter().chain(aliases)
    }
}

/// A member of an enum.
#[derive(Clone, Debug)]
pub struct Member {
    /// The name in XDR.
    pub name: String,
    /// The name in Rust.
    pub rust: String,
    /// The span of the name.
    pub span: Span,
    /// The value.
    pub value: i32,
}

/// A member of an enum that repeats the value of an earlier member.
#[derive(Clone, Debug)]
pub struct MemberAlias {
    /// The member.
    pub member: Member,
    /// The index of the earlier member in [`Enum::members`].
    pub first: usize,
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
    /// The discriminant's type.
    pub discriminant: Discriminant,
    /// The arms, one for each case, in document order. Cases that share a declaration have one arm
    /// each.
    pub arms: Vec<Arm>,
    /// The content of the `default` arm; `None` if there is no such arm.
    pub default: Option<Content>,
    /// Whether a value consumes the memory for one item, even if its arm has no item.
    pub takes_item: bool,
    /// Whether a struct has a sequence of such values, whose arms a visitor handles as they are
    /// decoded.
    pub visited: bool,
}

/// The content of an arm: its name in XDR and its type; `None` is void.
pub type Content = Option<(String, Type)>;

/// An arm for one case of a union.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The case as written: the name of a constant, or a number.
    pub case: String,
    /// The variant's name in Rust.
    pub rust: String,
    /// The span of the case.
    pub span: Span,
    /// The encoded value of the discriminant.
    pub value: u32,
    /// The content.
    pub content: Content,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name in XDR.
    pub name: String,
    /// The module's name in Rust.
    pub rust: String,
    /// The span of the name.
    pub span: Span,
    /// The program number.
    pub number: u32,
    /// The versions.
    pub versions: Vec<Version>,
    /// The position of the definition.
    pub origin: Origin,
}

/// A version of a program.
#[derive(Clone, Debug)]
pub struct Version {
    /// The name in XDR.
    pub name: String,
    /// The module's name in Rust.
    pub rust: String,
    /// The span of the name.
    pub span: Span,
    /// The version number.
    pub number: u32,
    /// The procedures.
    pub procedures: Vec<Procedure>,
}

/// A procedure of a version.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// The name in XDR.
    pub name: String,
    /// The type's name in Rust.
    pub rust: String,
    /// The name of the method in Rust.
    pub method: String,
    /// The span of the name.
    pub span: Span,
    /// The procedure number.
    pub number: u32,
    /// The types of the arguments.
    pub arguments: Vec<Type>,
    /// The names of the arguments in Rust, one for each.
    pub argument_names: Vec<String>,
    /// The type of the reply; `None` is void.
    pub reply: Option<Type>,
    /// Whether a call may be executed twice without harm.
    pub idempotent: bool,
    /// The items of the reply, in the order of XDR, without those in sequences.
    pub reply_items: Vec<ReplyItem>,
    /// The position of the definition.
    pub origin: Origin,
}

/// An item of a procedure's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyItem {
    /// The limits of its length: one for each arm of a union that contains the item.
    pub limits: Vec<ItemLimit>,
}

impl ReplyItem {
    /// Adds the limits of an item of another arm.
    pub(crate) fn merge(&mut self, other: Self) {
        let new = other.limits.into_iter();
        let new: Vec<_> = new.filter(|limit| !self.limits.contains(limit)).collect();
        self.limits.extend(new);
    }
}

/// A limit of an item's length: the lower of the bound and the argument, if both exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemLimit {
    /// The bound in XDR, in bytes.
    pub max: Option<u32>,
    /// The argument that limits the length of the item.
    pub argument: Option<Argument>,
}

/// An argument that is an unsigned number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The index of the argument that contains it.
    pub index: usize,
    /// The names in Rust of the fields that lead to it.
    pub fields: Vec<String>,
    /// Whether it has 64 bits.
    pub wide: bool,
}

/// Typed contents of an opaque field, selected by a code field in the same struct.
#[derive(Clone, Debug)]
pub struct OverlayDef {
    /// The enum's name in Rust.
    pub rust: String,
    /// The span of the overlay in the manifest.
    pub span: Option<Span>,
    /// The struct that contains both fields.
    pub carrier: TypeId,
    /// The index of the code field.
    pub code: usize,
    /// The index of the opaque field.
    pub data: usize,
    /// Whether zero bytes stand for the default value of the content's type.
    pub empty_is_default: bool,
    /// The known cases.
    pub cases: Vec<OverlayCase>,
}

/// A known case of an overlay.
#[derive(Clone, Debug)]
pub struct OverlayCase {
    /// The constant whose value is the code.
    pub constant: String,
    /// The variant's name in Rust.
    pub rust: String,
    /// The code.
    pub code: u32,
    /// The type of the content.
    pub ty: Type,
}
