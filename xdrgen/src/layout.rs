//! How large values are: in octets of XDR, and in memory.

use crate::ir::{Arm, Layout, Schema, Type, TypeDefKind, Union};

/// Up to so many octets of memory, an arm of a union or an optional holds its content itself; what is larger is boxed
/// in the owned form. A void arm or an absent optional takes four octets of XDR, and a value of this much with its
/// discriminant 32 octets of memory: so no input decodes into more than eight times its size.
const LARGEST_UNBOXED: u64 = 24;

impl Schema {
    /// The layout of a type, from those of the types it names.
    #[must_use]
    pub fn layout_of(&self, ty: &Type) -> Layout {
        let sequence =
            Layout { min: 4, max: None, lifetime: true, two_forms: true, memory: 24, weight: 3, ..Layout::default() };
        match ty {
            Type::Primitive(primitive) => {
                let (size, bool) = (primitive.size(), *primitive == crate::ir::Primitive::Bool);
                let float = matches!(primitive, crate::ir::Primitive::F32 | crate::ir::Primitive::F64);
                let memory = if bool { 1 } else { size };
                Layout { min: size, max: Some(size), plain: !bool, float, memory, weight: 1, ..Layout::default() }
            }
            Type::FixedOpaque(length) => {
                let (length, padded) = (u64::from(*length), padded(*length));
                let plain = length == padded && length > 0;
                Layout { min: padded, max: Some(padded), plain, memory: length, weight: 2, ..Layout::default() }
            }
            Type::Opaque(max) | Type::String(max) => Layout { max: max.map(|max| 4 + padded(max)), ..sequence },
            Type::Fixed(element, length) => fixed(self.layout_of(element), u64::from(*length)),
            Type::Array(element, max) => {
                let element = self.layout_of(element);
                let most =
                    max.zip(element.max).and_then(|(count, size)| u64::from(count).checked_mul(size)?.checked_add(4));
                Layout { max: most, float: element.float, weight: around(&element), ..sequence }
            }
            Type::Optional(element) => {
                let layout = self.layout_of(element);
                let boxed = self.is_boxed(element);
                let memory = if boxed { 8 } else { layout.memory.div_ceil(8) * 8 + 8 };
                let max = layout.max.and_then(|max| max.checked_add(4));
                let two_forms = layout.two_forms || boxed;
                Layout { min: 4, max, plain: false, memory, two_forms, weight: around(&layout), ..layout }
            }
            Type::Recursive(id) => Layout { memory: 8, float: self.ty(*id).layout.float, ..sequence },
            Type::List(element) => {
                let element = self.layout_of(element);
                Layout { float: element.float, weight: around(&element), ..sequence }
            }
            Type::Named(id) => self.ty(*id).layout,
        }
    }

    /// Whether the owned form boxes a type where it is optional or an arm's.
    #[must_use]
    pub fn is_boxed(&self, ty: &Type) -> bool {
        self.layout_of(ty).memory > LARGEST_UNBOXED
    }

    /// The layout of a definition, from those of the types it names.
    #[must_use]
    pub fn layout_of_kind(&self, kind: &TypeDefKind) -> Layout {
        match kind {
            TypeDefKind::Alias(ty) => self.layout_of(ty),
            TypeDefKind::Enum(_) => Layout { min: 4, max: Some(4), memory: 4, weight: 2, ..Layout::default() },
            TypeDefKind::Struct(fields) => {
                let parts = fields.iter().map(|field| self.layout_of(&field.ty));
                let empty = Layout { plain: !fields.is_empty(), ..Layout::default() };
                let mut sum = parts.fold(empty, in_sequence);
                sum.memory = sum.memory.div_ceil(8) * 8;
                sum
            }
            TypeDefKind::Union(union) => {
                let contents = union.arms.iter().map(|arm| &arm.content).chain(&union.default);
                let arms = contents.map(|content| match content {
                    None => Layout::default(),
                    Some((_, ty)) if self.is_boxed(ty) => Layout { memory: 8, two_forms: true, ..self.layout_of(ty) },
                    Some((_, ty)) => self.layout_of(ty),
                });
                let arms = arms.reduce(alternatives).unwrap_or_default();
                let max = arms.max.and_then(|max| max.checked_add(4));
                let memory = arms.memory.div_ceil(8) * 8 + 8;
                let weight = self.weight_of(union);
                Layout { min: arms.min.saturating_add(4), max, plain: false, memory, weight, ..arms }
            }
        }
    }
}

impl Schema {
    /// The arms of a union, those together whose contents have one type, and code enough that it pays to share it.
    #[must_use]
    pub(crate) fn shared_arms<'u>(&self, union: &'u Union) -> Vec<Vec<&'u Arm>> {
        const WORTH: u32 = 3;
        let ty = |arm: &Arm| arm.content.as_ref().map(|(_, ty)| ty.clone());
        let mut groups: Vec<Vec<&Arm>> = Vec::new();
        for arm in &union.arms {
            let heavy = arm.content.as_ref().is_some_and(|(_, ty)| self.layout_of(ty).weight > WORTH);
            match groups.iter_mut().find(|group| heavy && ty(group[0]) == ty(arm)) {
                Some(group) => group.push(arm),
                None => groups.push(vec![arm]),
            }
        }
        groups
    }

    /// What the emitted code has once for each group of arms, the weight counts once.
    fn weight_of(&self, union: &Union) -> u32 {
        let groups = self.shared_arms(union);
        let contents = groups.iter().map(|group| &group[0].content).chain(&union.default);
        contents.flatten().fold(2, |sum, (_, ty)| sum.saturating_add(self.layout_of(ty).weight))
    }
}

/// The weight of a sequence or an optional of these.
fn around(element: &Layout) -> u32 {
    element.weight.saturating_add(3)
}

/// A length with its padding (RFC 4506, section 3).
fn padded(length: u32) -> u64 {
    u64::from(length).div_ceil(4) * 4
}

fn fixed(element: Layout, count: u64) -> Layout {
    Layout {
        min: element.min.saturating_mul(count),
        max: element.max.and_then(|max| max.checked_mul(count)),
        plain: false,
        memory: element.memory.saturating_mul(count),
        weight: around(&element),
        ..element
    }
}

/// One after the other.
fn in_sequence(a: Layout, b: Layout) -> Layout {
    Layout {
        min: a.min.saturating_add(b.min),
        max: a.max.zip(b.max).and_then(|(a, b)| a.checked_add(b)),
        plain: a.plain && b.plain,
        lifetime: a.lifetime || b.lifetime,
        two_forms: a.two_forms || b.two_forms,
        float: a.float || b.float,
        memory: a.memory.saturating_add(if b.memory < 4 { b.memory } else { b.memory.div_ceil(4) * 4 }),
        recursive: false,
        // A run of plain fields is read at once.
        weight: if a.plain && b.plain { 1 } else { a.weight.saturating_add(b.weight) },
    }
}

/// One or the other.
fn alternatives(a: Layout, b: Layout) -> Layout {
    Layout {
        min: a.min.min(b.min),
        max: a.max.zip(b.max).map(|(a, b)| a.max(b)),
        plain: false,
        lifetime: a.lifetime || b.lifetime,
        two_forms: a.two_forms || b.two_forms,
        float: a.float || b.float,
        memory: a.memory.max(b.memory),
        recursive: false,
        weight: a.weight.max(b.weight),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Module};

    /// Always inlining what is light would be without an end if arms that are emitted one by one were counted once.
    #[test]
    fn weight_counts_what_is_emitted() -> Result<(), Box<dyn std::error::Error>> {
        let arms = |ty: &str| -> String { (0..8).map(|at| format!("case {at}: {ty} a{at};\n")).collect() };
        let union = |name: &str, arms: String| format!("union {name} switch (int which) {{\n{arms}\n}};\n");
        let light = (0..8).map(|at| format!("case {at}: opaque a{at}<>;\n")).collect();
        let text = [
            "struct leaf { opaque a<>; opaque b<>; };\n".to_owned(),
            union("once", arms("leaf")),
            union("twice", arms("once")),
            union("each", light),
            union("each_of_each", arms("each")),
        ];
        let compilation = Config::new().module(Module::new("a").text("a.x", text.concat())).check();
        let schema = compilation.schema();
        let weights: Result<Vec<u32>, _> = ["leaf", "once", "twice", "each", "each_of_each"]
            .iter()
            .map(|name| schema.find(name).map(|id| schema.ty(id).layout.weight))
            .collect();
        assert_eq!(weights?, [6, 8, 10, 26, 28]);
        // As many bodies are emitted as are counted: one for the eight arms of one type.
        let files = compilation.generate()?;
        let code: String = files.iter().map(|file| file.content.as_str()).collect();
        assert_eq!(
            code.matches("which @ (0 | 1 | 2 | 3 | 4 | 5 | 6 | 7)").count(),
            2 * 3,
            "three unions, in two forms"
        );
        Ok(())
    }
}
