//! Who is called what: all names of all modules, collected before any is resolved.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use crate::ast::{self, DefinitionKind, Shape, TypeKind};
use crate::check::Input;
use crate::check::spelling::nearest;
use crate::check::values::{Expression, ValueId, Values};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::ir::{Primitive, TypeId};
use crate::names;
use crate::source::{Sources, Span};

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning {
    Type(TypeId),
    Value(ValueId),
}

/// A name and where it was first defined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) span: Span,
    pub(crate) meaning: Meaning,
}

/// The syntax that a type comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Syntax<'a> {
    Typedef(&'a ast::Declaration),
    /// A typedef whose two names were in each other's place: it is read the other way round.
    SwappedTypedef(&'a ast::Declaration, &'a ast::Ident),
    Enum(&'a ast::EnumBody),
    Struct(&'a ast::StructBody),
    Union(&'a ast::UnionBody),
}

/// A type before it is lowered.
#[derive(Clone, Debug)]
pub(crate) struct TypeSource<'a> {
    pub(crate) module: usize,
    pub(crate) name: String,
    /// Its name in Rust.
    pub(crate) rust: String,
    pub(crate) name_span: Span,
    pub(crate) span: Span,
    pub(crate) syntax: Syntax<'a>,
}

/// All names.
#[derive(Debug, Default)]
pub(crate) struct Symbols<'a> {
    scopes: Vec<HashMap<&'a str, Entry>>,
    pub(crate) types: Vec<TypeSource<'a>>,
    pub(crate) values: Values<'a>,
    /// The types written inside others, by where they stand.
    inline: HashMap<Span, TypeId>,
    /// How many names were compared with undefined ones, for those spelled alike.
    compared: Cell<usize>,
}

/// How many names are compared with undefined ones in all. A text that needs more has other troubles.
const MOST_COMPARISONS: usize = 250_000;

impl<'a> Symbols<'a> {
    /// Collects what all modules define.
    pub(crate) fn collect(sources: &Sources, inputs: &'a [Input], diagnostics: &mut Diagnostics) -> Self {
        let mut symbols = Self::default();
        for module in 0..inputs.len() {
            symbols.scopes.push(HashMap::new());
            Collector { symbols: &mut symbols, sources, inputs, module, diagnostics }.collect();
        }
        symbols
    }

    /// What a name stands for in a module: its own, then those it uses.
    pub(crate) fn lookup(&self, inputs: &[Input], module: usize, name: &str) -> Option<Entry> {
        let uses = inputs[module].uses.iter().copied();
        std::iter::once(module).chain(uses).find_map(|scope| self.scopes[scope].get(name).copied())
    }

    /// The type that is written inside another at `span`.
    pub(crate) fn inline(&self, span: Span) -> Option<TypeId> {
        self.inline.get(&span).copied()
    }

    /// The type of an identifier.
    pub(crate) fn ty(&self, id: TypeId) -> &TypeSource<'a> {
        &self.types[id.0 as usize]
    }

    /// The type, or value, that is spelled most like a name that a module has not.
    pub(crate) fn nearest(&self, inputs: &'a [Input], module: usize, types: bool, name: &str) -> Option<&'a str> {
        let compared = self.compared.get();
        if compared >= MOST_COMPARISONS {
            return None;
        }
        let visible = self.visible(inputs, module, types);
        self.compared.set(compared + visible.len());
        let preludes = inputs[module].prelude.iter().filter(|_| types).flat_map(|prelude| prelude.names()).copied();
        nearest(name, visible.into_iter().chain(preludes))
    }

    /// The names that are types, or values, as seen from a module.
    fn visible(&self, inputs: &[Input], module: usize, types: bool) -> Vec<&'a str> {
        let uses = inputs[module].uses.iter().copied();
        let mut names: Vec<&str> = std::iter::once(module)
            .chain(uses)
            .flat_map(|scope| self.scopes[scope].iter())
            .filter(|(_, entry)| match entry.meaning {
                Meaning::Type(_) => types,
                Meaning::Value(id) => !types && !self.values.source(id).of_program,
            })
            .map(|(name, _)| *name)
            .collect();
        names.sort_unstable();
        names
    }
}

/// Collects what one module defines.
struct Collector<'a, 'c> {
    symbols: &'c mut Symbols<'a>,
    sources: &'c Sources,
    inputs: &'a [Input],
    module: usize,
    diagnostics: &'c mut Diagnostics,
}

impl<'a> Collector<'a, '_> {
    fn collect(&mut self) {
        let specifications: &'a [_] = &self.inputs[self.module].specifications;
        let definitions = || specifications.iter().flat_map(|(_, specification)| &specification.definitions);
        let defined: HashSet<&str> = definitions().map(|definition| definition.name.name.as_str()).collect();
        // Typedefs last: whether one is the wrong way round shows only against the other definitions.
        for typedefs in [false, true] {
            for definition in definitions() {
                if matches!(definition.kind, DefinitionKind::Typedef(_)) == typedefs {
                    self.definition(definition, &defined);
                }
            }
        }
    }

    fn definition(&mut self, definition: &'a ast::Definition, defined: &HashSet<&str>) {
        let name = &definition.name;
        match &definition.kind {
            DefinitionKind::Const { ty, value } => {
                let ty = ty.as_ref().map(|ty| &ty.kind);
                let id = self.symbols.values.add(self.module, name, Expression::of(value), None);
                self.symbols.values.set_type(id, ty);
                self.define(name, Meaning::Value(id));
            }
            DefinitionKind::Typedef(declaration) => self.typedef(definition, declaration, defined),
            DefinitionKind::Enum(body) => self.named(definition, Syntax::Enum(body)),
            DefinitionKind::Struct(body) => self.named(definition, Syntax::Struct(body)),
            DefinitionKind::Union(body) => self.named(definition, Syntax::Union(body)),
            DefinitionKind::Program(program) => {
                let number = self.symbols.values.add(self.module, name, Expression::of(&program.number), None);
                self.symbols.values.set_of_program(number);
                self.define(name, Meaning::Value(number));
                self.program(program);
            }
        }
    }

    /// A type with a name of its own.
    fn named(&mut self, definition: &'a ast::Definition, syntax: Syntax<'a>) {
        let id = self.add(&definition.name.name, definition.name.span, definition.span, syntax);
        self.define(&definition.name, Meaning::Type(id));
        self.parts(id, syntax);
    }

    fn typedef(&mut self, definition: &'a ast::Definition, declaration: &'a ast::Declaration, known: &HashSet<&str>) {
        if let (Shape::Plain, Some(syntax)) = (&declaration.shape, body(&declaration.ty)) {
            // `typedef struct { .. } name;` is `struct name { .. };`
            return self.named(definition, syntax);
        }
        if let TypeKind::Named { name, keyword } = &declaration.ty.kind {
            if keyword.is_some() && name.name == declaration.name.name {
                // `typedef struct T T;` says nothing in XDR.
                return;
            }
            if self.is_swapped(declaration, name, known) {
                return self.swapped(definition, declaration, name);
            }
        }
        self.named(definition, Syntax::Typedef(declaration));
    }

    /// `typedef propid uint32;`: the new name is a type already, and the old type is none.
    fn is_swapped(&self, declaration: &ast::Declaration, ty: &ast::Ident, defined: &HashSet<&str>) -> bool {
        let new = declaration.name.name.as_str();
        let input = &self.inputs[self.module];
        let exists = self.symbols.lookup(self.inputs, self.module, new).is_some() || input.prelude(new).is_some();
        let old_exists = defined.contains(ty.name.as_str())
            || self.symbols.lookup(self.inputs, self.module, &ty.name).is_some()
            || input.prelude(&ty.name).is_some();
        exists && !old_exists
    }

    fn swapped(&mut self, definition: &'a ast::Definition, declaration: &'a ast::Declaration, ty: &'a ast::Ident) {
        let new = &declaration.name;
        let text = self.sources.slice(declaration.span);
        let at = |span: Span| span.start.saturating_sub(declaration.span.start) as usize;
        let (first, second) = (at(ty.span), at(new.span));
        let mended =
            text.get(..first).zip(text.get(first + ty.name.len()..second)).zip(text.get(second + new.name.len()..));
        let written = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut diagnostic = Diagnostic::new(
            Code::SwappedTypedef,
            declaration.span,
            format!("`typedef {written}` makes `{}` a name for `{}`, which is no type", new.name, ty.name),
        )
        .label(format!("`{}` exists already, `{}` does not", new.name, ty.name));
        if let Some(((before, between), after)) = mended {
            let mended = format!("{before}{}{between}{}{after}", new.name, ty.name);
            diagnostic = diagnostic.fix(declaration.span, mended, "swap the type and the new name");
        }
        self.diagnostics.report(diagnostic);
        let syntax = Syntax::SwappedTypedef(declaration, new);
        let id = self.add(&ty.name, ty.span, definition.span, syntax);
        self.define(ty, Meaning::Type(id));
    }

    fn add(&mut self, name: &str, name_span: Span, span: Span, syntax: Syntax<'a>) -> TypeId {
        let rust = names::type_name(name, &self.inputs[self.module].strip);
        self.add_as(name, rust, name_span, span, syntax)
    }

    fn add_as(&mut self, name: &str, rust: String, name_span: Span, span: Span, syntax: Syntax<'a>) -> TypeId {
        let id = TypeId(u32::try_from(self.symbols.types.len()).unwrap_or(u32::MAX));
        let module = self.module;
        self.symbols.types.push(TypeSource { module, name: name.to_owned(), rust, name_span, span, syntax });
        id
    }

    fn define(&mut self, name: &'a ast::Ident, meaning: Meaning) {
        let scope = &mut self.symbols.scopes[self.module];
        if let Some(first) = scope.get(name.name.as_str()) {
            // Typedefs are collected last, so that what was found first may stand after this.
            let (first, again) = (first.span.min(name.span), first.span.max(name.span));
            let message = format!("`{}` is defined twice", name.name);
            let diagnostic = Diagnostic::new(Code::DuplicateDefinition, again, message)
                .label("defined again here")
                .note_at(first, "first defined here");
            self.diagnostics.report(diagnostic);
        } else if !matches!(meaning, Meaning::Type(_)) && self.inputs[self.module].prelude(&name.name).is_some() {
            // It stays a type, so that its uses are no errors too.
            let message = format!("`{}` is a type of the prelude, and can't be the name of anything else", name.name);
            self.diagnostics.report(Diagnostic::new(Code::WrongKind, name.span, message).label("not a type here"));
        } else {
            scope.insert(&name.name, Entry { span: name.span, meaning });
        }
    }

    /// The members of an enum, which are names of the module too, and the types written inside.
    fn parts(&mut self, id: TypeId, syntax: Syntax<'a>) {
        match syntax {
            Syntax::Enum(body) => self.members(id, body),
            Syntax::Struct(body) => body.fields.iter().for_each(|field| self.declaration(id, field)),
            Syntax::Union(body) => {
                self.declaration(id, &body.discriminant);
                body.fields().for_each(|field| self.declaration(id, field));
            }
            Syntax::Typedef(declaration) => self.declaration(id, declaration),
            Syntax::SwappedTypedef(..) => {}
        }
    }

    fn members(&mut self, id: TypeId, body: &'a ast::EnumBody) {
        let mut previous = None;
        for member in &body.members {
            let expression = member.value.as_ref().map_or(Expression::After(previous), Expression::of);
            let value = self.symbols.values.add(self.module, &member.name, expression, Some(id));
            self.define(&member.name, Meaning::Value(value));
            previous = Some(value);
        }
    }

    fn declaration(&mut self, parent: TypeId, declaration: &'a ast::Declaration) {
        let Some(syntax) = body(&declaration.ty) else {
            return;
        };
        let parent = self.symbols.ty(parent);
        let field = &declaration.name;
        let (name, rust) = match parent.syntax {
            Syntax::Typedef(_) => (format!("{}_item", field.name), format!("{}Item", parent.rust)),
            _ => {
                // Both go without their prefixes, which the field's would otherwise bring into the middle.
                let rust = names::type_name(&field.name, &self.inputs[self.module].strip);
                (format!("{}_{}", parent.name, field.name), format!("{}{rust}", parent.rust))
            }
        };
        let id = self.add_as(&name, rust, field.span, declaration.ty.span, syntax);
        self.symbols.inline.insert(declaration.ty.span, id);
        self.parts(id, syntax);
    }

    /// A version's or a procedure's name is a constant, as in rpcgen's C, unless something else is called so.
    fn number(&mut self, name: &'a ast::Ident, number: &'a ast::Value) {
        let value = self.symbols.values.add(self.module, name, Expression::of(number), None);
        self.symbols.values.set_of_program(value);
        let entry = Entry { span: name.span, meaning: Meaning::Value(value) };
        self.symbols.scopes[self.module].entry(&name.name).or_insert(entry);
    }

    /// The numbers of a program's versions and procedures, and the types written inside them.
    fn program(&mut self, program: &'a ast::Program) {
        program.versions.iter().for_each(|version| self.number(&version.name, &version.number));
        let procedures = program.versions.iter().flat_map(|version| &version.procedures);
        procedures.clone().for_each(|procedure| self.number(&procedure.name, &procedure.number));
        for procedure in procedures {
            for (ty, role) in
                procedure.arguments.iter().map(|ty| (ty, "args")).chain(procedure.reply.iter().map(|ty| (ty, "reply")))
            {
                if let Some(syntax) = body(ty) {
                    let name = format!("{}_{role}", procedure.name.name);
                    let id = self.add(&name, procedure.name.span, ty.span, syntax);
                    self.symbols.inline.insert(ty.span, id);
                    self.parts(id, syntax);
                }
            }
        }
    }
}

/// The body of a type that is written in place.
fn body(ty: &ast::TypeSpecifier) -> Option<Syntax<'_>> {
    Some(match &ty.kind {
        TypeKind::Enum(body) => Syntax::Enum(body),
        TypeKind::Struct(body) => Syntax::Struct(body),
        TypeKind::Union(body) => Syntax::Union(body),
        _ => return None,
    })
}

/// The integer that a type specifier names directly or through the prelude.
pub(crate) fn primitive(kind: &TypeKind) -> Option<Primitive> {
    Some(match kind {
        TypeKind::Int => Primitive::I32,
        TypeKind::UnsignedInt => Primitive::U32,
        TypeKind::Hyper => Primitive::I64,
        TypeKind::UnsignedHyper => Primitive::U64,
        TypeKind::Float => Primitive::F32,
        TypeKind::Double => Primitive::F64,
        TypeKind::Quadruple => Primitive::Quadruple,
        TypeKind::Bool => Primitive::Bool,
        _ => return None,
    })
}
