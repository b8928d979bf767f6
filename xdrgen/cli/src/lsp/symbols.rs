//! Finds the definition that a word of a document refers to, and lists the definitions of a
//! document, for the LSP requests `hover`, `definition` and `documentSymbol`.
//!
//! Words are looked up by name, so that names in running text and in copies of definitions are
//! found like names in XDR. Fields are found by position, and only at their definition, because
//! structs can have fields of the same name.
//!
//! Offsets and ranges are in bytes of the document; `lines` converts the positions of LSP.

use xdrgen_build::Compilation;
use xdrgen_build::ir::{
    ConstantValue, Layout, ModuleDef, Origin, Program, Schema, TypeDef, TypeDefKind,
};
use xdrgen_build::source::{Document, DocumentId, SourceMap, Span};

/// A definition, or a part of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol<'c> {
    pub(crate) name: &'c str,
    /// The span of the name.
    pub(crate) span: Span,
    /// The enclosing definition.
    pub(crate) origin: &'c Origin,
    pub(crate) kind: SymbolKind<'c>,
}

/// The kind of a [`Symbol`], with the data for a hover text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SymbolKind<'c> {
    Constant(&'c ConstantValue),
    Type(&'c TypeDef),
    /// A field of a struct.
    Field(&'c TypeDef),
    /// A member of an enum, and its value.
    Member(&'c TypeDef, i32),
    Program(u32),
    Version(u32),
    Procedure(u32),
}

/// Returns the range of the word that contains or ends at a byte offset.
pub(crate) fn word_at(text: &str, offset: usize) -> Option<std::ops::Range<usize>> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let (before, after) = text.split_at_checked(offset)?;
    let before = before.bytes().rev().take_while(is_word).count();
    let after = after.bytes().take_while(is_word).count();
    (before + after > 0).then(|| offset - before..offset + after)
}

/// Returns the symbol that the word at a byte offset of a document refers to.
pub(crate) fn symbol_at<'c>(
    compilation: &'c Compilation,
    (id, document): (DocumentId, &Document),
    offset: usize,
) -> Option<Symbol<'c>> {
    let range = word_at(document.text(), offset)?;
    let word = document.text().get(range)?;
    let finder = Finder {
        sources: compilation.sources(),
        schema: compilation.schema(),
        document: id,
    };
    finder
        .field(offset)
        .or_else(|| finder.global(word, document))
}

struct Finder<'c> {
    sources: &'c SourceMap,
    schema: &'c Schema,
    document: DocumentId,
}

impl<'c> Finder<'c> {
    /// Returns the field whose name is at an offset of the document.
    fn field(&self, offset: usize) -> Option<Symbol<'c>> {
        let types = self.schema.types.iter();
        let mut here = types.filter(|definition| self.is_here(definition.span));
        here.find_map(|definition| {
            let TypeDefKind::Struct(fields) = &definition.kind else {
                return None;
            };
            let mut fields = fields.iter();
            let field = fields.find(|field| {
                self.is_here(field.span) && {
                    let range = self.sources.document_range(field.span);
                    (range.start..=range.end).contains(&offset)
                }
            })?;
            Some(Symbol {
                name: &field.name,
                span: field.span,
                origin: &definition.origin,
                kind: SymbolKind::Field(definition),
            })
        })
    }

    fn is_here(&self, span: Span) -> bool {
        self.sources.text(span.text).document() == self.document
    }

    /// Returns the global definition of a name. If several modules define it, the document's module
    /// takes precedence.
    fn global(&self, name: &str, document: &Document) -> Option<Symbol<'c>> {
        let title = document.title();
        let own = |module: &&ModuleDef| module.documents.iter().any(|each| each == title);
        let (own, others): (Vec<&ModuleDef>, Vec<_>) = self.schema.modules.iter().partition(own);
        let mut modules = own.into_iter().chain(others);
        modules.find_map(|module| {
            self.symbols(module)
                .find(|symbol| symbol.name == name && is_written(symbol))
        })
    }

    /// Returns the definitions of a module, with the members of enums.
    fn symbols(&self, module: &'c ModuleDef) -> impl Iterator<Item = Symbol<'c>> {
        let constants = module.constants.iter().map(|constant| Symbol {
            name: &constant.name,
            span: constant.span,
            origin: &constant.origin,
            kind: SymbolKind::Constant(&constant.value),
        });
        let schema = self.schema;
        let types = module.types.iter().flat_map(move |id| {
            let definition = schema.ty(*id);
            std::iter::once(of_type(definition)).chain(members(definition))
        });
        let programs = module.programs.iter().flat_map(of_program);
        constants.chain(types).chain(programs)
    }
}

/// Returns false for an inline type, whose name the compiler has generated.
fn is_written(symbol: &Symbol<'_>) -> bool {
    let SymbolKind::Type(definition) = symbol.kind else {
        return true;
    };
    definition.origin.xdr.contains(&definition.name)
}

fn of_type(definition: &TypeDef) -> Symbol<'_> {
    Symbol {
        name: &definition.name,
        span: definition.span,
        origin: &definition.origin,
        kind: SymbolKind::Type(definition),
    }
}

/// Returns the members of an enum; none for other types.
fn members(definition: &TypeDef) -> Vec<Symbol<'_>> {
    let TypeDefKind::Enum(body) = &definition.kind else {
        return Vec::new();
    };
    let members = body.all_members().map(|member| Symbol {
        name: &member.name,
        span: member.span,
        origin: &definition.origin,
        kind: SymbolKind::Member(definition, member.value),
    });
    members.collect()
}

/// Returns a program, its versions and their procedures.
fn of_program(program: &Program) -> Vec<Symbol<'_>> {
    let mut symbols = vec![Symbol {
        name: &program.name,
        span: program.span,
        origin: &program.origin,
        kind: SymbolKind::Program(program.number),
    }];
    for version in &program.versions {
        symbols.push(Symbol {
            name: &version.name,
            span: version.span,
            origin: &program.origin,
            kind: SymbolKind::Version(version.number),
        });
        symbols.extend(version.procedures.iter().map(|procedure| Symbol {
            name: &procedure.name,
            span: procedure.span,
            origin: &procedure.origin,
            kind: SymbolKind::Procedure(procedure.number),
        }));
    }
    symbols
}

/// Returns the definitions of a document, with the members of enums, in document order. Fields, and
/// types whose name the compiler has generated, are left out.
pub(crate) fn of_document(compilation: &Compilation, document: DocumentId) -> Vec<Symbol<'_>> {
    let finder = Finder {
        sources: compilation.sources(),
        schema: compilation.schema(),
        document,
    };
    let modules = compilation.schema().modules.iter();
    let all = modules.flat_map(|module| finder.symbols(module));
    let here = all.filter(|symbol| finder.is_here(symbol.span));
    let mut symbols: Vec<Symbol<'_>> = here.filter(is_written).collect();
    symbols.sort_by_key(|symbol| symbol.span);
    symbols
}

impl Symbol<'_> {
    /// Returns the hover text in Markdown: the XDR, properties from the schema, and the source.
    pub(crate) fn hover(&self) -> String {
        let xdr = self.origin.xdr.trim_end().replace("```", "'''");
        let (summary, source) = (self.summary(), source(self.origin));
        format!("```xdr\n{xdr}\n```\n\n{summary}\n\n{source}\n")
    }

    /// Returns the properties from the schema that the kind of symbol has, such as its value.
    fn summary(&self) -> String {
        let name = self.name;
        match self.kind {
            SymbolKind::Constant(value) => match value.number() {
                Some(number) if number >= 0 => format!("`{name}` = {number} ({number:#x})"),
                _ => format!("`{name}` = {value}"),
            },
            SymbolKind::Type(definition) => {
                format!("{} Rust: `{}`", size(&definition.layout), definition.rust)
            }
            SymbolKind::Field(definition) => {
                format!("`{name}` is a field of `{}`", definition.name)
            }
            SymbolKind::Member(definition, value) => {
                format!("`{name}` = {value}, of `{}`", definition.name)
            }
            SymbolKind::Program(number) => format!("Program {number} ({number:#x})"),
            SymbolKind::Version(number) => format!("Version {number}"),
            SymbolKind::Procedure(number) => format!("Procedure {number}"),
        }
    }

    /// Returns the symbol's kind as a `SymbolKind` of LSP 3.17.
    pub(crate) fn lsp_kind(&self) -> u32 {
        match self.kind {
            SymbolKind::Constant(_) => 14,
            SymbolKind::Type(definition) => match definition.kind {
                TypeDefKind::Alias(_) => 26,
                TypeDefKind::Enum(_) => 10,
                TypeDefKind::Struct(_) | TypeDefKind::Union(_) => 23,
            },
            SymbolKind::Field(_) => 8,
            SymbolKind::Member(..) => 22,
            SymbolKind::Program(_) | SymbolKind::Version(_) => 2,
            SymbolKind::Procedure(_) => 12,
        }
    }
}

/// Returns the encoded size of a type.
fn size(layout: &Layout) -> String {
    match layout.max {
        Some(max) if max == layout.min => format!("{max} bytes."),
        Some(max) => format!("{} to {max} bytes.", layout.min),
        None => format!("{} bytes or more.", layout.min),
    }
}

/// Returns the position of a definition, such as `rfc5662, section 1 (Introduction), page 3, line
/// 120`.
fn source(origin: &Origin) -> String {
    let mut text = origin.document.clone();
    if let Some((number, title)) = &origin.section {
        text += &format!(", section {number} ({title})");
    }
    if let Some(page) = origin.page {
        text += &format!(", page {page}");
    }
    text + &format!(", line {}", origin.line)
}

#[cfg(test)]
mod tests {
    use super::word_at;

    #[test]
    fn words_of_a_text() {
        let text = "a_b1<c\u{e9}>";
        assert_eq!(word_at(text, 0), Some(0..4));
        assert_eq!(word_at(text, 4), Some(0..4));
        assert_eq!(word_at(text, 5), Some(5..6));
        assert_eq!(word_at(text, 7), None, "within a character");
        assert_eq!(word_at(text, 8), None);
        assert_eq!(word_at(text, 99), None);
    }
}
