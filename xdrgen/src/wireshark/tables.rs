//! The tables of a dissector: the types that a message can contain, and the fields that Wireshark
//! shows.
//!
//! `dissector.lua` reads them by these keys and kinds, and accepts what `value` accepts: `deep` is
//! true where `value` enters a level of `Limits::depth`. Each kind needs a function of that name in
//! `kinds` of `dissector.lua`. Users of Wireshark write the names of fields in filters.

use std::collections::{BTreeMap, VecDeque};

use super::lua::LuaValue;
use crate::ir::{
    Content, Discriminant, Enum, OverlayDef, Primitive, Schema, Type, TypeDefKind, TypeId, Union,
};
use crate::value::{is_empty, is_plain};

/// The tables, as Lua source text.
pub(super) struct Tables {
    /// A field on each line: name, label, kind, and the names of an enum's values.
    pub(super) fields: Vec<LuaValue>,
    /// A struct, union or enum on each line.
    pub(super) types: Vec<LuaValue>,
    /// The modules with overlays.
    pub(super) overlays: Vec<LuaValue>,
    /// The message's type and field.
    pub(super) root: LuaValue,
}

/// The kind of a field for Wireshark.
#[derive(Clone, Copy)]
enum Leaf {
    Primitive(Primitive),
    Enum(TypeId),
    Opaque,
    String,
    /// A subtree.
    Parent,
}

impl Leaf {
    fn name(self) -> &'static str {
        match self {
            Self::Primitive(primitive) => match primitive {
                Primitive::I32 => "int32",
                Primitive::U32 => "uint32",
                Primitive::I64 => "int64",
                Primitive::U64 => "uint64",
                Primitive::F32 => "float",
                Primitive::F64 => "double",
                Primitive::Quadruple => "bytes",
                Primitive::Bool => "bool",
            },
            Self::Enum(_) => "enum",
            Self::Opaque => "bytes",
            Self::String => "string",
            Self::Parent => "none",
        }
    }
}

/// Lists types in the order in which a message reaches them.
pub(super) struct Builder<'s> {
    schema: &'s Schema,
    protocol: &'s str,
    fields: Vec<LuaValue>,
    /// The fields with a name: their kinds and places.
    named: BTreeMap<String, Vec<(String, usize)>>,
    /// The place in the list of types.
    places: BTreeMap<TypeId, usize>,
    queue: VecDeque<TypeId>,
    /// The paths of modules whose overlays are used.
    modules: Vec<String>,
}

impl<'s> Builder<'s> {
    pub(super) fn new(schema: &'s Schema, protocol: &'s str) -> Self {
        Self {
            schema,
            protocol,
            fields: Vec::new(),
            named: BTreeMap::new(),
            places: BTreeMap::new(),
            queue: VecDeque::new(),
            modules: Vec::new(),
        }
    }

    /// Returns the tables for messages of the type `root`.
    pub(super) fn build(mut self, root: TypeId) -> Tables {
        let path = format!("{}.message", self.protocol);
        let root = self.slot(&path, &self.schema.ty(root).name, &Type::Named(root));
        let mut types = Vec::new();
        while let Some(id) = self.queue.pop_front() {
            types.push(self.definition(id));
        }
        Tables {
            fields: self.fields,
            types,
            overlays: self.modules.into_iter().map(LuaValue::Text).collect(),
            root,
        }
    }

    /// Returns the index of a type. A new type is defined later.
    fn place(&mut self, id: TypeId) -> LuaValue {
        let next = self.places.len();
        let place = *self.places.entry(id).or_insert(next);
        if place == next {
            self.queue.push_back(id);
        }
        LuaValue::index(place)
    }

    fn definition(&mut self, id: TypeId) -> LuaValue {
        let (schema, ty) = (self.schema, self.schema.ty(id));
        let path = format!("{}.{}", self.protocol, ty.name);
        match &ty.kind {
            TypeDefKind::Struct(fields) => {
                let slots = fields.iter().map(|field| {
                    self.slot(&format!("{path}.{}", field.name), &field.name, &field.ty)
                });
                let slots = slots.collect();
                let mut entries = vec![
                    ("k", LuaValue::text("struct")),
                    ("f", LuaValue::List(slots)),
                ];
                let overlays: Vec<LuaValue> = schema
                    .modules
                    .iter()
                    .flat_map(|module| module.overlays.iter().map(move |overlay| (module, overlay)))
                    .filter(|(_, overlay)| overlay.carrier == id)
                    .map(|(module, overlay)| self.overlay(&path, &module.path, overlay))
                    .collect();
                if !overlays.is_empty() {
                    entries.push(("o", LuaValue::List(overlays)));
                }
                LuaValue::Record(entries)
            }
            TypeDefKind::Union(union) => self.union(&path, union),
            TypeDefKind::Enum(body) => LuaValue::Record(vec![
                ("k", LuaValue::text("enum")),
                ("open", LuaValue::Bool(body.open)),
                ("n", names(body)),
            ]),
            // No alias is in the list: slots have resolved types.
            TypeDefKind::Alias(_) => LuaValue::Record(vec![("k", LuaValue::text("empty"))]),
        }
    }

    fn union(&mut self, path: &str, union: &Union) -> LuaValue {
        let switch = match union.discriminant {
            Discriminant::I32 => Type::Primitive(Primitive::I32),
            Discriminant::U32 => Type::Primitive(Primitive::U32),
            Discriminant::Bool => Type::Primitive(Primitive::Bool),
            Discriminant::Enum(id) => Type::Named(id),
        };
        let switch = self.slot(&format!("{path}.{}", union.name), &union.name, &switch);
        let mut contents: Vec<&Content> = Vec::new();
        let mut arms = Vec::new();
        // Cases that share a declaration share its field.
        for arm in &union.arms {
            let at = contents.iter().position(|content| **content == arm.content);
            let at = at.unwrap_or(contents.len());
            if at == contents.len() {
                contents.push(&arm.content);
            }
            arms.push((i128::from(arm.value), at, arm.case.clone()));
        }
        let default = union.default.as_ref().map(|content| {
            let at = contents.iter().position(|other| *other == content);
            let at = at.unwrap_or(contents.len());
            if at == contents.len() {
                contents.push(content);
            }
            at
        });
        let slots = contents.into_iter().map(|content| match content {
            None => LuaValue::Bool(false),
            Some((name, ty)) => self.slot(&format!("{path}.{name}"), name, ty),
        });
        let slots = LuaValue::List(slots.collect());
        let cases = arms.into_iter().map(|(value, at, case)| {
            let case = LuaValue::text(case);
            LuaValue::List(vec![LuaValue::Integer(value), LuaValue::index(at), case])
        });
        LuaValue::Record(vec![
            ("k", LuaValue::text("union")),
            ("s", switch),
            ("c", slots),
            ("a", LuaValue::List(cases.collect())),
            ("d", default.map_or(LuaValue::Bool(false), LuaValue::index)),
        ])
    }

    fn overlay(&mut self, path: &str, module: &[String], overlay: &OverlayDef) -> LuaValue {
        let module = module.join("::");
        let at = self.modules.iter().position(|other| *other == module);
        let at = at.unwrap_or(self.modules.len());
        if at == self.modules.len() {
            self.modules.push(module);
        }
        let cases = overlay.cases.iter().map(|case| {
            let path = format!("{path}.{}", case.constant);
            let slot = self.slot(&path, &case.constant, &case.ty);
            LuaValue::List(vec![LuaValue::Integer(case.code.into()), slot])
        });
        let cases = cases.collect();
        LuaValue::Record(vec![
            ("m", LuaValue::index(at)),
            ("code", LuaValue::index(overlay.code)),
            ("data", LuaValue::index(overlay.data)),
            ("empty", LuaValue::Bool(overlay.empty_is_default)),
            ("c", LuaValue::List(cases)),
        ])
    }

    /// Returns a place for a value: its label, its field, the field of its elements, and its type.
    fn slot(&mut self, path: &str, label: &str, ty: &Type) -> LuaValue {
        let leaf = self.leaf(ty);
        let field = self.field(path, label, leaf);
        let mut entries = vec![("l", LuaValue::text(label)), ("f", field)];
        let element = self.innermost(ty);
        if matches!(leaf, Leaf::Parent) && !matches!(element, Leaf::Parent) {
            let item = self.field(&format!("{path}.item"), label, element);
            entries.push(("i", item));
        }
        entries.push(("t", self.ty(ty)));
        LuaValue::Record(entries)
    }

    /// Returns the index of a field. Types or overlays of several modules may have the same name:
    /// they share a field if the kind is the same; otherwise the name gets a number.
    fn field(&mut self, path: &str, label: &str, leaf: Leaf) -> LuaValue {
        let mut rest = vec![LuaValue::text(label), LuaValue::text(leaf.name())];
        if let Leaf::Enum(id) = leaf
            && let TypeDefKind::Enum(body) = &self.schema.ty(id).kind
        {
            rest.push(names(body));
        }
        let kind = LuaValue::List(rest.clone()).to_string();
        let same = self.named.entry(path.to_owned()).or_default();
        if let Some((_, at)) = same.iter().find(|(other, _)| *other == kind) {
            return LuaValue::index(*at);
        }
        let at = self.fields.len();
        same.push((kind, at));
        let name = match same.len() {
            1 => path.to_owned(),
            number => format!("{path}_{number}"),
        };
        rest.insert(0, LuaValue::Text(name));
        self.fields.push(LuaValue::List(rest));
        LuaValue::index(at)
    }

    /// Returns how a value itself is shown.
    fn leaf(&self, ty: &Type) -> Leaf {
        match self.schema.resolve(ty) {
            resolved if is_empty(self.schema, resolved) => Leaf::Parent,
            resolved if self.is_external(resolved) => Leaf::Opaque,
            Type::Primitive(primitive) => Leaf::Primitive(*primitive),
            Type::FixedOpaque(_) | Type::Opaque(_) => Leaf::Opaque,
            Type::String(_) => Leaf::String,
            Type::Item(content) | Type::Nested(content) | Type::Optional(content) => {
                self.leaf(content)
            }
            Type::Named(id) | Type::Recursive(id) if self.is_enum(*id) => Leaf::Enum(*id),
            _ => Leaf::Parent,
        }
    }

    /// Returns how the elements of sequences are shown.
    fn innermost(&self, ty: &Type) -> Leaf {
        match self.schema.resolve(ty) {
            Type::Fixed(element, _) | Type::Array(element, _) | Type::List(element) => {
                self.innermost(element)
            }
            Type::Optional(content) | Type::Nested(content) => self.innermost(content),
            other => self.leaf(other),
        }
    }

    /// Returns true for a type whose encoding only its code in Rust knows.
    fn is_external(&self, ty: &Type) -> bool {
        matches!(ty, Type::Named(id) if self.schema.ty(*id).external.is_some())
    }

    fn is_enum(&self, id: TypeId) -> bool {
        matches!(self.schema.ty(id).kind, TypeDefKind::Enum(_))
    }

    /// Returns a type: a kind with its bounds, or the index of a definition.
    fn ty(&mut self, ty: &Type) -> LuaValue {
        let schema = self.schema;
        let resolved = schema.resolve(ty);
        if is_empty(schema, resolved) {
            return kind("empty", []);
        }
        if self.is_external(resolved) {
            return kind("external", []);
        }
        match resolved {
            Type::Primitive(Primitive::Quadruple) => kind("fixed", [("n", LuaValue::Integer(16))]),
            Type::Primitive(Primitive::Bool) => kind("bool", []),
            Type::Primitive(primitive) => {
                let size = LuaValue::Integer(primitive.size().into());
                let unsigned = LuaValue::Bool(*primitive == Primitive::U32);
                kind("number", [("n", size), ("u", unsigned)])
            }
            Type::FixedOpaque(length) => {
                kind("fixed", [("n", LuaValue::Integer((*length).into()))])
            }
            Type::Opaque(max) | Type::String(max) => {
                kind("counted", [("max", LuaValue::optional(*max))])
            }
            Type::Item(content) => self.ty(content),
            Type::Nested(content) => {
                let content = self.ty(content);
                kind("nested", [("of", content)])
            }
            Type::Fixed(element, length) => {
                let element = self.ty(element);
                let length = LuaValue::Integer((*length).into());
                kind("vector", [("n", length), ("of", element)])
            }
            Type::Array(element, max) => {
                let deep = LuaValue::Bool(!is_plain(schema, element));
                let element = self.ty(element);
                let max = LuaValue::optional(*max);
                kind("array", [("max", max), ("deep", deep), ("of", element)])
            }
            Type::List(element) => {
                let deep = LuaValue::Bool(!is_plain(schema, element));
                let element = self.ty(element);
                kind("list", [("deep", deep), ("of", element)])
            }
            Type::Optional(content) => {
                let content = self.ty(content);
                let deep = LuaValue::Bool(false);
                kind("optional", [("deep", deep), ("of", content)])
            }
            Type::Recursive(id) => {
                let content = self.ty(&Type::Named(*id));
                let deep = LuaValue::Bool(true);
                kind("optional", [("deep", deep), ("of", content)])
            }
            Type::Named(id) => {
                let place = self.place(*id);
                kind("named", [("t", place)])
            }
        }
    }
}

fn kind<const N: usize>(name: &str, rest: [(&'static str, LuaValue); N]) -> LuaValue {
    let mut entries = vec![("k", LuaValue::text(name))];
    entries.extend(rest);
    LuaValue::Record(entries)
}

fn names(body: &Enum) -> LuaValue {
    let names = body.members.iter();
    let names = names.map(|member| (i128::from(member.value), member.name.clone()));
    LuaValue::Names(names.collect())
}
