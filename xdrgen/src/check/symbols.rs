//! The symbol table: all names of all modules, collected before any is resolved.
//!
//! A name has the definition that is collected first in its module, or else one of a module in
//! `uses`, in order, without the `uses` of that module. `lower` asks the preludes last. Typedefs
//! are collected after other definitions, so that swapped ones are recognized; `lower` restores
//! document order. The index of a type in `types` is its [`TypeId`]. `evaluate` computes the
//! values.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use crate::ast::{self, Declarator, DefinitionKind, TypeKind};
use crate::check::ModuleInput;
use crate::check::c_types::c_type;
use crate::check::places::Places;
use crate::check::values::{Expression, ValueId, Values};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::ir::{Primitive, TypeId};
use crate::names;
use crate::source::{SourceMap, Span};
use crate::spelling::nearest;

/// The kind of item that a name refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SymbolKind {
    Type(TypeId),
    Value(ValueId),
    /// A constant that is a string, and is used by programs only.
    Text,
}

/// A symbol and the span of its first definition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    pub(crate) span: Span,
    pub(crate) kind: SymbolKind,
}

/// The syntax of a type's definition.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TypeSyntax<'a> {
    Typedef(&'a ast::Declaration),
    /// A typedef with swapped names. It is lowered as if they were in the right order.
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
    /// The name in Rust.
    pub(crate) rust: String,
    pub(crate) name_span: Span,
    pub(crate) span: Span,
    pub(crate) syntax: TypeSyntax<'a>,
}

/// All symbols.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable<'a> {
    scopes: Vec<HashMap<&'a str, Symbol>>,
    pub(crate) types: Vec<TypeSource<'a>>,
    pub(crate) values: Values<'a>,
    /// The inline types, by their span.
    inline: HashMap<Span, TypeId>,
    /// The members that are scoped by their enum, by the span of their name.
    scoped: HashMap<Span, ValueId>,
    /// The same members by enum and name.
    members: HashMap<(TypeId, &'a str), ValueId>,
    /// The names that are members of several enums of a module, with the first two.
    ambiguous: HashMap<(usize, &'a str), (Span, Span)>,
    /// The places outside of the definitions that have names.
    places: Vec<Places<'a>>,
    /// The number of names that were compared with undefined names so far, to find similar
    /// spellings.
    comparisons: Cell<usize>,
}

/// The maximum number of comparisons in a compilation. It keeps the cost linear for texts with many
/// undefined names.
const MAX_COMPARISONS: usize = 250_000;

impl<'a> SymbolTable<'a> {
    /// Collects the definitions of all modules.
    pub(crate) fn collect(
        sources: &'a SourceMap,
        inputs: &'a [ModuleInput],
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let mut symbols = Self::default();
        for module in 0..inputs.len() {
            symbols.scopes.push(HashMap::new());
            symbols.places.push(Places::of(sources, &inputs[module]));
            Collector {
                symbols: &mut symbols,
                sources,
                inputs,
                module,
                diagnostics,
            }
            .collect();
        }
        symbols
    }

    /// Adds to the error of an undefined name where it may be defined, or the visible name that is
    /// spelled nearest.
    pub(crate) fn explain(
        &self,
        inputs: &'a [ModuleInput],
        module: usize,
        types: bool,
        name: &ast::Ident,
        found: Diagnostic,
    ) -> Diagnostic {
        let places = &self.places[module];
        let (found, is_elsewhere) = places.note(&inputs[module], &name.name, types, found);
        if let Some(of_c) = c_type(&name.name).filter(|_| types && !is_elsewhere) {
            return of_c.explain(name.span, found);
        }
        match self.nearest(inputs, module, types, &name.name) {
            Some(near) if !is_elsewhere => {
                let kind = if types { "type" } else { "constant" };
                found.fix(name.span, near, format!("a {kind} `{near}` exists"))
            }
            _ => found,
        }
    }

    /// Looks up a name in a module, and then in the modules that it uses.
    pub(crate) fn lookup(
        &self,
        inputs: &[ModuleInput],
        module: usize,
        name: &str,
    ) -> Option<Symbol> {
        let uses = inputs[module].uses.iter().copied();
        std::iter::once(module)
            .chain(uses)
            .find_map(|scope| self.scopes[scope].get(name).copied())
    }

    /// Returns the scoped member whose name is at `span`.
    pub(crate) fn scoped_member(&self, span: Span) -> Option<ValueId> {
        self.scoped.get(&span).copied()
    }

    /// Returns the scoped member of an enum.
    pub(crate) fn member_of(&self, id: TypeId, name: &str) -> Option<ValueId> {
        self.members.get(&(id, name)).copied()
    }

    /// Reports a name that is a member of several enums.
    pub(crate) fn ambiguous(&self, module: usize, name: &str, span: Span) -> Option<Diagnostic> {
        let (first, second) = self.ambiguous.get(&(module, name))?;
        let message = format!("`{name}` is a member of several enums");
        let found = Diagnostic::new(Code::AmbiguousMember, span, message)
            .label("none of them is meant here")
            .note_at(*first, "a member of this name")
            .note_at(*second, "another one");
        Some(found)
    }

    /// Returns the inline type at `span`.
    pub(crate) fn inline(&self, span: Span) -> Option<TypeId> {
        self.inline.get(&span).copied()
    }

    /// Returns a type.
    pub(crate) fn ty(&self, id: TypeId) -> &TypeSource<'a> {
        &self.types[id.0 as usize]
    }

    /// Returns the visible type, or value, whose spelling is nearest to an undefined name.
    fn nearest(
        &self,
        inputs: &'a [ModuleInput],
        module: usize,
        types: bool,
        name: &str,
    ) -> Option<&'a str> {
        if self.comparisons.get() >= MAX_COMPARISONS {
            return None;
        }
        let visible = self.visible(inputs, module, types);
        let preludes = inputs[module]
            .prelude
            .iter()
            .filter(|_| types)
            .flat_map(|prelude| prelude.names())
            .copied();
        self.nearest_of(name, visible.into_iter().chain(preludes))
    }

    /// Returns the candidate whose spelling is nearest to a name, unless too many were compared
    /// before.
    pub(crate) fn nearest_of<'n>(
        &self,
        name: &str,
        candidates: impl Iterator<Item = &'n str>,
    ) -> Option<&'n str> {
        let comparisons = &self.comparisons;
        if comparisons.get() >= MAX_COMPARISONS {
            return None;
        }
        nearest(
            name,
            candidates.inspect(|_| comparisons.set(comparisons.get() + 1)),
        )
    }

    /// Returns the names of the types, or values, that are visible in a module.
    fn visible(&self, inputs: &[ModuleInput], module: usize, types: bool) -> Vec<&'a str> {
        let uses = inputs[module].uses.iter().copied();
        let mut names: Vec<&str> = std::iter::once(module)
            .chain(uses)
            .flat_map(|scope| self.scopes[scope].iter())
            .filter(|(_, entry)| match entry.kind {
                SymbolKind::Type(_) => types,
                SymbolKind::Value(id) => !types && !self.values.source(id).is_program_number,
                SymbolKind::Text => false,
            })
            .map(|(name, _)| *name)
            .collect();
        names.sort_unstable();
        names
    }
}

/// Collects the definitions of one module.
struct Collector<'a, 'c> {
    symbols: &'c mut SymbolTable<'a>,
    sources: &'c SourceMap,
    inputs: &'a [ModuleInput],
    module: usize,
    diagnostics: &'c mut Diagnostics,
}

impl<'a> Collector<'a, '_> {
    fn collect(&mut self) {
        let specifications: &'a [_] = &self.inputs[self.module].specifications;
        let definitions = || {
            specifications
                .iter()
                .flat_map(|(_, specification)| &specification.definitions)
        };
        let defined: HashSet<&str> = definitions()
            .map(|definition| definition.name.name.as_str())
            .collect();
        // Typedefs are last: whether one is swapped depends on the other definitions.
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
            DefinitionKind::Const { value, .. } if self.is_repeated_define(definition, value) => {}
            DefinitionKind::Const { ty, value } => {
                let ty = ty.as_ref().map(|ty| &ty.kind);
                let id = self
                    .symbols
                    .values
                    .add(self.module, name, Expression::of(value), None);
                self.symbols.values.set_type(id, ty);
                if is_define(self.sources, definition) {
                    self.symbols.values.set_define(id);
                }
                self.define(name, SymbolKind::Value(id));
            }
            DefinitionKind::Text { .. } => self.define(name, SymbolKind::Text),
            DefinitionKind::Typedef(declaration) => self.typedef(definition, declaration, defined),
            DefinitionKind::Enum(body) => self.named(definition, TypeSyntax::Enum(body)),
            DefinitionKind::Struct(body) => self.named(definition, TypeSyntax::Struct(body)),
            DefinitionKind::Union(body) => self.named(definition, TypeSyntax::Union(body)),
            DefinitionKind::Program(program) => {
                let number = self.symbols.values.add(
                    self.module,
                    name,
                    Expression::of(&program.number),
                    None,
                );
                self.symbols.values.set_program_number(number);
                self.define(name, SymbolKind::Value(number));
                self.program(program);
            }
        }
    }

    /// Adds a named type.
    fn named(&mut self, definition: &'a ast::Definition, syntax: TypeSyntax<'a>) {
        let id = self.add(
            &definition.name.name,
            definition.name.span,
            definition.span,
            syntax,
        );
        self.define(&definition.name, SymbolKind::Type(id));
        self.parts(id, syntax);
    }

    fn typedef(
        &mut self,
        definition: &'a ast::Definition,
        declaration: &'a ast::Declaration,
        known: &HashSet<&str>,
    ) {
        if let (Declarator::Plain, Some(syntax)) = (&declaration.declarator, body(&declaration.ty))
        {
            // `typedef struct { .. } name;` is `struct name { .. };`
            return self.named(definition, syntax);
        }
        if self.is_repeated(declaration) {
            return;
        }
        if let TypeKind::Named { name, keyword } = &declaration.ty.kind {
            if keyword.is_some() && name.name == declaration.name.name {
                // `typedef struct T T;` has no effect in XDR.
                return;
            }
            if self.is_swapped(declaration, name, known) {
                return self.swapped(definition, declaration, name);
            }
        }
        self.named(definition, TypeSyntax::Typedef(declaration));
    }

    /// Returns true for a typedef that repeats an earlier one of the module, and reports it.
    fn is_repeated(&mut self, declaration: &ast::Declaration) -> bool {
        let name = &declaration.name;
        let scope = &self.symbols.scopes[self.module];
        let Some(&Symbol { span, kind }) = scope.get(name.name.as_str()) else {
            return false;
        };
        let same = match kind {
            SymbolKind::Type(id) => match self.symbols.ty(id).syntax {
                TypeSyntax::Typedef(first) => first.is_same_as(declaration),
                _ => false,
            },
            SymbolKind::Value(_) | SymbolKind::Text => false,
        };
        if same {
            let message = format!("the typedef of `{}` is repeated", name.name);
            let found = Diagnostic::new(Code::RepeatedTypedef, name.span, message)
                .label("again here")
                .note_at(span, "first here, with the same type");
            self.diagnostics.report(found);
        }
        same
    }

    /// Returns true for a `#define` that repeats an earlier one of the module, as C allows it.
    fn is_repeated_define(&self, definition: &ast::Definition, value: &'a ast::ValueExpr) -> bool {
        let scope = &self.symbols.scopes[self.module];
        let Some(Symbol {
            kind: SymbolKind::Value(id),
            ..
        }) = scope.get(definition.name.name.as_str())
        else {
            return false;
        };
        let first = self.symbols.values.source(*id);
        first.is_define
            && is_define(self.sources, definition)
            && first.expression.is_same_as(Expression::of(value))
    }

    /// Returns true for `typedef propid uint32;`: the new name is a type already, and the old type
    /// is not defined.
    fn is_swapped(
        &self,
        declaration: &ast::Declaration,
        ty: &ast::Ident,
        defined: &HashSet<&str>,
    ) -> bool {
        let new = declaration.name.name.as_str();
        let input = &self.inputs[self.module];
        let exists = self.symbols.lookup(self.inputs, self.module, new).is_some()
            || input.prelude(new).is_some();
        let old_exists = defined.contains(ty.name.as_str())
            || self
                .symbols
                .lookup(self.inputs, self.module, &ty.name)
                .is_some()
            || input.prelude(&ty.name).is_some();
        exists && !old_exists
    }

    fn swapped(
        &mut self,
        definition: &'a ast::Definition,
        declaration: &'a ast::Declaration,
        ty: &'a ast::Ident,
    ) {
        let new = &declaration.name;
        let text = self.sources.slice(declaration.span);
        let at = |span: Span| span.start.saturating_sub(declaration.span.start) as usize;
        let (first, second) = (at(ty.span), at(new.span));
        let corrected = text
            .get(..first)
            .zip(text.get(first + ty.name.len()..second))
            .zip(text.get(second + new.name.len()..));
        let written = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut diagnostic = Diagnostic::new(
            Code::SwappedTypedef,
            declaration.span,
            format!(
                "`typedef {written}` defines `{}` as `{}`, which is not a type",
                new.name, ty.name
            ),
        )
        .label(format!(
            "`{}` is already defined, `{}` is not",
            new.name, ty.name
        ));
        if let Some(((before, between), after)) = corrected {
            let corrected = format!("{before}{}{between}{}{after}", new.name, ty.name);
            diagnostic = diagnostic.fix(
                declaration.span,
                corrected,
                "swap the type and the new name",
            );
        }
        self.diagnostics.report(diagnostic);
        let syntax = TypeSyntax::SwappedTypedef(declaration, new);
        let id = self.add(&ty.name, ty.span, definition.span, syntax);
        self.define(ty, SymbolKind::Type(id));
    }

    fn add(&mut self, name: &str, name_span: Span, span: Span, syntax: TypeSyntax<'a>) -> TypeId {
        let rust = names::type_name(name, &self.inputs[self.module].strip);
        self.add_as(name, rust, name_span, span, syntax)
    }

    fn add_as(
        &mut self,
        name: &str,
        rust: String,
        name_span: Span,
        span: Span,
        syntax: TypeSyntax<'a>,
    ) -> TypeId {
        let id = TypeId(u32::try_from(self.symbols.types.len()).unwrap_or(u32::MAX));
        let module = self.module;
        self.symbols.types.push(TypeSource {
            module,
            name: name.to_owned(),
            rust,
            name_span,
            span,
            syntax,
        });
        id
    }

    fn define(&mut self, name: &'a ast::Ident, kind: SymbolKind) {
        let scope = &mut self.symbols.scopes[self.module];
        if let Some(first) = scope.get(name.name.as_str()) {
            // Typedefs are collected last, so the definition that was collected first may come
            // later in the document.
            let (first, again) = (first.span.min(name.span), first.span.max(name.span));
            let message = format!("`{}` is defined twice", name.name);
            let diagnostic = Diagnostic::new(Code::DuplicateDefinition, again, message)
                .label("defined again here")
                .note_at(first, "first defined here");
            self.diagnostics.report(diagnostic);
        } else if !matches!(kind, SymbolKind::Type(_))
            && self.inputs[self.module].prelude(&name.name).is_some()
        {
            // The name remains a type, so that its uses are not reported too.
            let message = format!(
                "`{}` is a type of the prelude and can't be redefined as a value",
                name.name
            );
            self.diagnostics.report(
                Diagnostic::new(Code::WrongKind, name.span, message).label("not a type here"),
            );
        } else {
            scope.insert(
                &name.name,
                Symbol {
                    span: name.span,
                    kind,
                },
            );
        }
    }

    /// Adds the members of an enum, which are names of the module, and the inline types.
    fn parts(&mut self, id: TypeId, syntax: TypeSyntax<'a>) {
        match syntax {
            TypeSyntax::Enum(body) => self.members(id, body),
            TypeSyntax::Struct(body) => body
                .fields
                .iter()
                .for_each(|field| self.declaration(id, field)),
            TypeSyntax::Union(body) => {
                self.declaration(id, &body.discriminant);
                body.fields().for_each(|field| self.declaration(id, field));
            }
            TypeSyntax::Typedef(declaration) => self.declaration(id, declaration),
            TypeSyntax::SwappedTypedef(..) => {}
        }
    }

    fn members(&mut self, id: TypeId, body: &'a ast::EnumBody) {
        let mut previous = None;
        for member in &body.members {
            let expression = member
                .value
                .as_ref()
                .map_or(Expression::After(previous), Expression::of);
            let value = self
                .symbols
                .values
                .add(self.module, &member.name, expression, Some(id));
            if self.inputs[self.module].scoped_enums {
                self.scoped_member(id, &member.name, value);
            } else {
                self.define(&member.name, SymbolKind::Value(value));
            }
            previous = Some(value);
        }
    }

    /// Adds a member that is scoped by its enum. Its name is one of the module, too, unless several
    /// enums have it.
    fn scoped_member(&mut self, id: TypeId, name: &'a ast::Ident, value: ValueId) {
        let own = self.symbols.members.insert((id, &name.name), value);
        self.symbols.scoped.insert(name.span, value);
        let module = self.module;
        let first = self.symbols.scopes[module].get(name.name.as_str()).copied();
        let other = first.filter(|first| match first.kind {
            SymbolKind::Value(value) => {
                let parent = self.symbols.values.source(value).parent_enum;
                parent.is_some_and(|parent| parent != id)
            }
            SymbolKind::Type(_) | SymbolKind::Text => false,
        });
        match other {
            Some(first) if own.is_none() => {
                let both = (first.span, name.span);
                self.symbols
                    .ambiguous
                    .entry((module, &name.name))
                    .or_insert(both);
            }
            _ => self.define(name, SymbolKind::Value(value)),
        }
    }

    fn declaration(&mut self, parent: TypeId, declaration: &'a ast::Declaration) {
        let Some(syntax) = body(&declaration.ty) else {
            return;
        };
        let parent = self.symbols.ty(parent);
        let field = &declaration.name;
        let (name, rust) = match parent.syntax {
            TypeSyntax::Typedef(_) => (
                format!("{}_item", field.name),
                format!("{}Item", parent.rust),
            ),
            _ => {
                // Both names are stripped of their prefixes first; the field's prefix would
                // otherwise be in the middle.
                let rust = names::type_name(&field.name, &self.inputs[self.module].strip);
                (
                    format!("{}_{}", parent.name, field.name),
                    format!("{}{rust}", parent.rust),
                )
            }
        };
        let id = self.add_as(&name, rust, field.span, declaration.ty.span, syntax);
        self.symbols.inline.insert(declaration.ty.span, id);
        self.parts(id, syntax);
    }

    /// Adds the name of a version or a procedure as a constant, as rpcgen's C has it, unless the
    /// name is defined.
    fn number(&mut self, name: &'a ast::Ident, number: &'a ast::ValueExpr) {
        let value = self
            .symbols
            .values
            .add(self.module, name, Expression::of(number), None);
        self.symbols.values.set_program_number(value);
        let entry = Symbol {
            span: name.span,
            kind: SymbolKind::Value(value),
        };
        self.symbols.scopes[self.module]
            .entry(&name.name)
            .or_insert(entry);
    }

    /// Adds the numbers of a program's versions and procedures, and their inline types.
    fn program(&mut self, program: &'a ast::ProgramBody) {
        program
            .versions
            .iter()
            .for_each(|version| self.number(&version.name, &version.number));
        let procedures = program
            .versions
            .iter()
            .flat_map(|version| &version.procedures);
        procedures
            .clone()
            .for_each(|procedure| self.number(&procedure.name, &procedure.number));
        for procedure in procedures {
            for (ty, role) in procedure
                .arguments
                .iter()
                .map(|argument| (&argument.ty, "args"))
                .chain(procedure.reply.iter().map(|reply| (&reply.ty, "reply")))
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

/// Returns true for the constant of a `#define` or `%#define` line.
fn is_define(sources: &SourceMap, definition: &ast::Definition) -> bool {
    sources.slice(definition.span).starts_with(['#', '%'])
}

/// Returns the syntax of an inline type.
fn body(ty: &ast::TypeSpecifier) -> Option<TypeSyntax<'_>> {
    Some(match &ty.kind {
        TypeKind::Enum(body) => TypeSyntax::Enum(body),
        TypeKind::Struct(body) => TypeSyntax::Struct(body),
        TypeKind::Union(body) => TypeSyntax::Union(body),
        _ => return None,
    })
}

/// Returns the primitive type that a type specifier names.
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
