//! Computes the sizes of types: encoded in XDR, and in memory. `check::sizes` decides the order of
//! the types and computes the layouts of recursive types; before that, the layouts of named types
//! are empty.
//!
//! Decoders trust `min` and `plain`, which become `Wire::MIN` and `Wire::PLAIN` of generated types.
//! Boxing follows `memory`, and the inlining of codecs follows `weight` (`emit::structs`). `weight`
//! counts a group of [`Schema::shared_arms`] once because `emit::unions` emits its code once;
//! otherwise inlining would not end.

use crate::ir::{Arm, Discriminant, Layout, Primitive, Schema, Type, TypeDefKind, Union};

/// The maximum size in memory, in bytes, of the content of a union's arm or an optional that is
/// stored inline; larger content is boxed in the owned shape. A void arm or an absent optional
/// takes 4 bytes of XDR. A value with content of this size and its discriminant takes 32 bytes of
/// memory. Therefore no input decodes into more than eight times its size. An item is the
/// exception: an empty one takes ten times its 4 bytes.
const MAX_INLINE_SIZE: u64 = 24;

/// The size in memory, in bytes, of `xdrgen_runtime::Item`.
const ITEM_SIZE: u64 = 40;

impl Layout {
    /// Returns the layout of a type that is not generated. It takes at least four bytes, as every
    /// non-empty XDR type does; nothing else is known. It is boxed where the size in memory
    /// matters.
    pub(crate) fn external() -> Self {
        Self {
            min: 4,
            max: None,
            inline_max: None,
            copy: false,
            float: true,
            zero: false,
            memory: MAX_INLINE_SIZE + 8,
            weight: 8,
            ..Self::default()
        }
    }
}

impl Schema {
    /// Computes the layout of a type from the layouts of the types that it names.
    #[must_use]
    pub fn layout_of(&self, ty: &Type) -> Layout {
        match ty {
            Type::Primitive(primitive) => primitive_layout(*primitive),
            Type::FixedOpaque(length) => fixed_opaque(*length),
            Type::Opaque(max) | Type::String(max) => {
                let max = max.map(|max| 4 + padded_len(max));
                Layout {
                    max,
                    inline_max: max,
                    ..sequence()
                }
            }
            // The length stays in the message.
            Type::Item(content) => Layout {
                inline_max: Some(4),
                copy: false,
                items: true,
                memory: ITEM_SIZE,
                ..self.layout_of(content)
            },
            Type::Fixed(element, length) => fixed(self.layout_of(element), u64::from(*length)),
            Type::Array(element, max) => {
                let element = self.layout_of(element);
                let max = max
                    .zip(element.max)
                    .and_then(|(count, size)| u64::from(count).checked_mul(size)?.checked_add(4));
                Layout {
                    max,
                    inline_max: max,
                    ..sequence_of(&element)
                }
            }
            Type::List(element) => sequence_of(&self.layout_of(element)),
            Type::Optional(element) => optional(self.layout_of(element), self.is_boxed(element)),
            Type::Recursive(id) => Layout {
                memory: 8,
                float: self.ty(*id).layout.float,
                items: self.ty(*id).layout.items,
                ..sequence()
            },
            Type::Nested(content) => {
                let content = self.layout_of(content);
                Layout {
                    min: content.min,
                    memory: 8,
                    zero: false,
                    float: content.float,
                    items: content.items,
                    ..sequence()
                }
            }
            Type::Named(id) => self.ty(*id).layout,
        }
    }

    /// Returns true if the owned shape boxes a type as the content of an optional or an arm.
    #[must_use]
    pub fn is_boxed(&self, ty: &Type) -> bool {
        self.layout_of(ty).memory > MAX_INLINE_SIZE
    }

    /// Computes the layout of a definition from the layouts of the types that it names.
    #[must_use]
    pub fn layout_of_kind(&self, kind: &TypeDefKind) -> Layout {
        match kind {
            TypeDefKind::Alias(ty) => self.layout_of(ty),
            TypeDefKind::Enum(body) => Layout {
                min: 4,
                max: Some(4),
                inline_max: Some(4),
                memory: if body.open { 8 } else { 4 },
                zero: body.has_zero(),
                weight: 2,
                ..Layout::default()
            },
            TypeDefKind::Struct(fields) => {
                let parts = fields.iter().map(|field| self.layout_of(&field.ty));
                let empty = Layout {
                    plain: !fields.is_empty(),
                    ..Layout::default()
                };
                let mut sum = parts.fold(empty, both);
                sum.memory = sum.memory.div_ceil(8) * 8;
                sum
            }
            TypeDefKind::Union(union) => {
                let contents = union
                    .arms
                    .iter()
                    .map(|arm| &arm.content)
                    .chain(&union.default);
                let arms = contents.map(|content| match content {
                    None => Layout::default(),
                    Some((_, ty)) if self.is_boxed(ty) => Layout {
                        memory: 8,
                        shapes_differ: true,
                        ..self.layout_of(ty)
                    },
                    Some((_, ty)) => self.layout_of(ty),
                });
                let arms = arms.reduce(either).unwrap_or_default();
                let memory = arms.memory.div_ceil(8) * 8 + 8;
                let weight = self.weight_of(union);
                Layout {
                    min: arms.min.saturating_add(4),
                    max: arms.max.and_then(|max| max.checked_add(4)),
                    inline_max: arms.inline_max.and_then(|max| max.checked_add(4)),
                    plain: false,
                    memory,
                    weight,
                    zero: self.has_zero(union),
                    ..arms
                }
            }
        }
    }
}

impl Schema {
    /// Groups the arms of a union. Arms of one type form a group if their code is large enough to
    /// share.
    #[must_use]
    pub(crate) fn shared_arms<'u>(&self, union: &'u Union) -> Vec<Vec<&'u Arm>> {
        const MIN_SHARED_WEIGHT: u32 = 3;
        let ty = |arm: &Arm| arm.content.as_ref().map(|(_, ty)| ty.clone());
        let mut groups: Vec<Vec<&Arm>> = Vec::new();
        for arm in &union.arms {
            let heavy = arm
                .content
                .as_ref()
                .is_some_and(|(_, ty)| self.layout_of(ty).weight > MIN_SHARED_WEIGHT);
            match groups
                .iter_mut()
                .find(|group| heavy && ty(group[0]) == ty(arm))
            {
                Some(group) => group.push(arm),
                None => groups.push(vec![arm]),
            }
        }
        groups
    }

    /// Returns true if a union has a value whose discriminant is zero, with a zero as its content.
    fn has_zero(&self, union: &Union) -> bool {
        let content = match union.arms.iter().find(|arm| arm.value == 0) {
            Some(arm) => &arm.content,
            None => match (&union.default, union.discriminant) {
                (Some(content), Discriminant::I32 | Discriminant::U32) => content,
                // The layout of the enum may not be known yet.
                (Some(content), Discriminant::Enum(id)) => match &self.ty(id).kind {
                    TypeDefKind::Enum(body) if body.has_zero() => content,
                    _ => return false,
                },
                _ => return false,
            },
        };
        content
            .as_ref()
            .is_none_or(|(_, ty)| self.layout_of(ty).zero)
    }

    /// Computes the weight of a union. The emitted code of a group of arms exists once, so its
    /// weight counts once.
    fn weight_of(&self, union: &Union) -> u32 {
        let groups = self.shared_arms(union);
        let contents = groups
            .iter()
            .map(|group| &group[0].content)
            .chain(&union.default);
        contents.flatten().fold(2, |sum, (_, ty)| {
            sum.saturating_add(self.layout_of(ty).weight)
        })
    }
}

/// Returns the weight of a sequence or an optional of an element.
fn container_weight(element: &Layout) -> u32 {
    element.weight.saturating_add(3)
}

/// Returns a length with its padding (RFC 4506, section 3).
fn padded_len(length: u32) -> u64 {
    u64::from(length).div_ceil(4) * 4
}

fn primitive_layout(primitive: Primitive) -> Layout {
    let size = primitive.size();
    let bool = primitive == Primitive::Bool;
    Layout {
        min: size,
        max: Some(size),
        inline_max: Some(size),
        plain: !bool,
        float: matches!(primitive, Primitive::F32 | Primitive::F64),
        memory: if bool { 1 } else { size },
        weight: 1,
        ..Layout::default()
    }
}

fn fixed_opaque(length: u32) -> Layout {
    let (length, padded) = (u64::from(length), padded_len(length));
    Layout {
        min: padded,
        max: Some(padded),
        inline_max: Some(padded),
        plain: length == padded && length > 0,
        memory: length,
        weight: 2,
        ..Layout::default()
    }
}

/// Returns the layout of a sequence of which nothing is known.
fn sequence() -> Layout {
    Layout {
        min: 4,
        max: None,
        inline_max: None,
        lifetime: true,
        shapes_differ: true,
        memory: 24,
        weight: 3,
        ..Layout::default()
    }
}

/// Returns the layout of a sequence without a bound.
fn sequence_of(element: &Layout) -> Layout {
    Layout {
        float: element.float,
        items: element.items,
        weight: container_weight(element),
        ..sequence()
    }
}

fn optional(content: Layout, boxed: bool) -> Layout {
    let memory = if boxed {
        8
    } else {
        content.memory.div_ceil(8) * 8 + 8
    };
    Layout {
        min: 4,
        max: content.max.and_then(|max| max.checked_add(4)),
        inline_max: content.inline_max.and_then(|max| max.checked_add(4)),
        plain: false,
        memory,
        shapes_differ: content.shapes_differ || boxed,
        zero: true,
        weight: container_weight(&content),
        ..content
    }
}

fn fixed(element: Layout, count: u64) -> Layout {
    Layout {
        min: element.min.saturating_mul(count),
        max: element.max.and_then(|max| max.checked_mul(count)),
        inline_max: element.max.and_then(|max| max.checked_mul(count)),
        plain: false,
        memory: element.memory.saturating_mul(count),
        weight: container_weight(&element),
        ..element
    }
}

/// Combines the layouts of two parts of which a value has both.
fn both(a: Layout, b: Layout) -> Layout {
    Layout {
        min: a.min.saturating_add(b.min),
        max: a.max.zip(b.max).and_then(|(a, b)| a.checked_add(b)),
        inline_max: a
            .inline_max
            .zip(b.inline_max)
            .and_then(|(a, b)| a.checked_add(b)),
        plain: a.plain && b.plain,
        lifetime: a.lifetime || b.lifetime,
        copy: a.copy && b.copy,
        shapes_differ: a.shapes_differ || b.shapes_differ,
        float: a.float || b.float,
        items: a.items || b.items,
        zero: a.zero && b.zero,
        memory: a.memory.saturating_add(if b.memory < 4 {
            b.memory
        } else {
            b.memory.div_ceil(4) * 4
        }),
        recursive: false,
        // Adjacent plain fields are read behind one bounds check.
        weight: if a.plain && b.plain {
            1
        } else {
            a.weight.saturating_add(b.weight)
        },
    }
}

/// Combines the layouts of two parts of which a value has one.
fn either(a: Layout, b: Layout) -> Layout {
    Layout {
        min: a.min.min(b.min),
        max: a.max.zip(b.max).map(|(a, b)| a.max(b)),
        inline_max: a.inline_max.zip(b.inline_max).map(|(a, b)| a.max(b)),
        plain: false,
        lifetime: a.lifetime || b.lifetime,
        copy: a.copy && b.copy,
        shapes_differ: a.shapes_differ || b.shapes_differ,
        float: a.float || b.float,
        items: a.items || b.items,
        memory: a.memory.max(b.memory),
        zero: a.zero && b.zero,
        recursive: false,
        weight: a.weight.max(b.weight),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Module};

    /// Light types are always inlined. If an arm that is emitted once for each case counted only
    /// once, inlining would not terminate.
    #[test]
    fn weight_counts_emitted_code() -> Result<(), Box<dyn std::error::Error>> {
        let arms = |ty: &str| -> String {
            (0..8)
                .map(|at| format!("case {at}: {ty} a{at};\n"))
                .collect()
        };
        let union =
            |name: &str, arms: String| format!("union {name} switch (int which) {{\n{arms}\n}};\n");
        let light = (0..8)
            .map(|at| format!("case {at}: opaque a{at}<>;\n"))
            .collect();
        let text = [
            "struct leaf { opaque a<>; opaque b<>; };\n".to_owned(),
            union("once", arms("leaf")),
            union("twice", arms("once")),
            union("each", light),
            union("each_of_each", arms("each")),
        ];
        let compilation = Config::new()
            .module(Module::new("a").text("a.x", text.concat()))
            .check();
        let schema = compilation.schema();
        let weights: Result<Vec<u32>, _> = ["leaf", "once", "twice", "each", "each_of_each"]
            .iter()
            .map(|name| schema.find(name).map(|id| schema.ty(id).layout.weight))
            .collect();
        assert_eq!(weights?, [6, 8, 10, 26, 28]);
        // The number of emitted bodies equals the number that counts: one for the eight arms of one
        // type.
        let files = compilation.generate()?;
        let code: String = files.iter().map(|file| file.content.as_str()).collect();
        assert_eq!(
            code.matches("which @ (0 | 1 | 2 | 3 | 4 | 5 | 6 | 7)")
                .count(),
            2 * 3,
            "three unions, in two shapes"
        );
        Ok(())
    }
}
