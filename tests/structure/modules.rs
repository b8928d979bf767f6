//! The modules of a crate, and the names that each uses from the others.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Attribute, Item, UseTree};

/// The path of a module from the crate's root.
type ModulePath = Vec<String>;

/// For each module, the modules that it depends on, with one of the names that it uses from each.
pub(crate) type Dependencies = BTreeMap<String, BTreeMap<String, String>>;

pub(crate) struct Crate {
    modules: HashMap<ModulePath, Module>,
}

#[derive(Default)]
struct Module {
    /// The names that the module defines, including macros.
    defines: HashSet<String>,
    /// The imports and re-exports: the local name and its path.
    imports: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    /// The public types and traits among the definitions.
    types: BTreeSet<String>,
    /// All paths in its code.
    mentions: BTreeSet<Vec<String>>,
}

impl Crate {
    /// Reads a crate from its root file.
    pub(crate) fn read(root: &Path) -> Self {
        let mut modules = HashMap::new();
        read_file(root, root.parent().unwrap(), Vec::new(), &mut modules);
        Self { modules }
    }

    /// Returns the public types and traits, each with the path of its module.
    pub(crate) fn types(&self) -> impl Iterator<Item = (&str, String)> {
        self.modules.iter().flat_map(|(path, module)| {
            let types = module.types.iter();
            types.map(move |name| (name.as_str(), path.join("::")))
        })
    }

    /// Returns the dependencies of modules for each level: between siblings, each including its
    /// submodules. A module and its submodules count as one: they may name each other.
    pub(crate) fn levels(&self) -> Vec<Dependencies> {
        let mut levels: BTreeMap<ModulePath, Dependencies> = BTreeMap::new();
        for (from, module) in &self.modules {
            let imports = module.imports.values().chain(&module.globs);
            for mention in imports.chain(&module.mentions) {
                let Some(to) = self.definer(from, mention, 0) else {
                    continue;
                };
                let common = from
                    .iter()
                    .zip(&to)
                    .take_while(|(from, to)| from == to)
                    .count();
                if common < from.len() && common < to.len() {
                    let level = levels.entry(from[..common].to_vec()).or_default();
                    level.entry(to[..=common].join("::")).or_default();
                    let targets = level.entry(from[..=common].join("::")).or_default();
                    let name = || format!("{} (in {})", mention.join("::"), from.join("::"));
                    targets.entry(to[..=common].join("::")).or_insert_with(name);
                }
            }
        }
        levels.into_values().collect()
    }

    /// Returns the module that defines the item of a path; `None` if the item is of another crate,
    /// or the name is local.
    fn definer(&self, from: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        // Limits chains of re-exports to more than any crate here has.
        if depth > 16 {
            return None;
        }
        let (mut at, rest) = self.begin(from, path)?;
        for (number, name) in rest.iter().enumerate() {
            let module = self.modules.get(&at)?;
            let child = [at.as_slice(), std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&child) {
                at = child;
            } else if module.defines.contains(name) {
                return Some(at);
            } else if let Some(import) = module.imports.get(name) {
                // Resolve the import in its own module, with the rest of the path appended.
                let path = [import.as_slice(), &rest[number + 1..]].concat();
                return (path != rest)
                    .then(|| self.definer(&at, &path, depth + 1))
                    .flatten();
            } else {
                let after = &rest[number..];
                let glob = |glob: &Vec<String>| {
                    self.definer(&at, &[glob.as_slice(), after].concat(), depth + 1)
                };
                return module.globs.iter().find_map(glob);
            }
        }
        self.modules.contains_key(&at).then_some(at)
    }

    /// Returns the module in which a path begins, and the rest of the path.
    fn begin<'p>(&self, from: &[String], path: &'p [String]) -> Option<(ModulePath, &'p [String])> {
        let (first, rest) = path.split_first()?;
        let mut at = from.to_vec();
        match first.as_str() {
            "crate" => Some((Vec::new(), rest)),
            "self" => self.begin_after_super(at, rest),
            "super" => {
                at.pop()?;
                self.begin_after_super(at, rest)
            }
            _ => Some((at, path)),
        }
    }

    fn begin_after_super<'p>(
        &self,
        at: ModulePath,
        rest: &'p [String],
    ) -> Option<(ModulePath, &'p [String])> {
        if rest.first().is_some_and(|name| name == "super") {
            self.begin(&at, rest)
        } else {
            Some((at, rest))
        }
    }
}

/// Reads the file of a module. The files of its submodules are in `folder`.
fn read_file(
    file: &Path,
    folder: &Path,
    path: ModulePath,
    modules: &mut HashMap<ModulePath, Module>,
) {
    let parsed = syn::parse_file(&fs::read_to_string(file).unwrap()).unwrap();
    read_items(&parsed.items, folder, path, modules);
}

fn read_items(
    items: &[Item],
    folder: &Path,
    path: ModulePath,
    modules: &mut HashMap<ModulePath, Module>,
) {
    let mut module = Module::default();
    for item in items.iter().filter(|item| !is_test(attributes(item))) {
        if let Item::Mod(child) = item {
            let name = child.ident.to_string();
            let path = [path.as_slice(), std::slice::from_ref(&name)].concat();
            let inner = folder.join(&name);
            match &child.content {
                Some((_, items)) => read_items(items, &inner, path, modules),
                None => read_file(&child_file(folder, &name), &inner, path, modules),
            }
            continue;
        }
        if let Item::Use(item) = item {
            flatten(&item.tree, &mut Vec::new(), &mut module);
            continue;
        }
        module.defines.extend(defined(item));
        module.types.extend(public_type(item));
        add_paths(item.to_token_stream(), &mut module.mentions);
    }
    modules.insert(path, module);
}

fn child_file(folder: &Path, name: &str) -> PathBuf {
    let flat = folder.join(format!("{name}.rs"));
    if flat.is_file() {
        flat
    } else {
        folder.join(name).join("mod.rs")
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        meta => meta.path().is_ident("test"),
    })
}

fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Returns the name of a public type or trait. (The compiler warns where others can't reach it.)
fn public_type(item: &Item) -> Option<String> {
    let (visibility, name) = match item {
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        Item::Union(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    matches!(visibility, syn::Visibility::Public(_)).then(|| name.to_string())
}

/// Adds the imports of a `use`.
fn flatten(tree: &UseTree, prefix: &mut Vec<String>, module: &mut Module) {
    let import = |name: &str, module: &mut Module, prefix: &[String], last: Option<&str>| {
        let path = prefix
            .iter()
            .cloned()
            .chain(last.map(str::to_owned))
            .collect();
        module.imports.insert(name.to_owned(), path);
    };
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, module);
            prefix.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            let last = prefix.last().cloned().unwrap_or_default();
            import(&last, module, prefix, None);
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            import(&name, module, prefix, Some(&name));
        }
        UseTree::Rename(rename) if rename.ident == "self" => {
            import(&rename.rename.to_string(), module, prefix, None)
        }
        UseTree::Rename(rename) => {
            import(
                &rename.rename.to_string(),
                module,
                prefix,
                Some(&rename.ident.to_string()),
            );
        }
        UseTree::Glob(_) => module.globs.push(prefix.clone()),
        UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|tree| flatten(tree, prefix, module)),
    }
}

/// Collects the paths of code: `link::establish`, `super::Link`.
fn add_paths(tokens: TokenStream, paths: &mut BTreeSet<Vec<String>>) {
    let mut path = Vec::new();
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Punct(sign) if sign.as_char() == ':' => {
                colons += 1;
                continue;
            }
            TokenTree::Ident(name) => {
                match colons {
                    // What it goes on from is no name: `<T>::new`, `::std`.
                    2 if path.is_empty() => path.push(String::new()),
                    2 => {}
                    _ => add_path(&mut path, paths),
                }
                path.push(name.to_string());
            }
            TokenTree::Group(group) => {
                add_path(&mut path, paths);
                add_paths(group.stream(), paths);
            }
            _ => add_path(&mut path, paths),
        }
        colons = 0;
    }
    add_path(&mut path, paths);
}

/// Adds the path, and empties it. One name alone is a definition or an import of the module.
fn add_path(path: &mut Vec<String>, paths: &mut BTreeSet<Vec<String>>) {
    let path = std::mem::take(path);
    if path.len() > 1 {
        paths.insert(path);
    }
}
