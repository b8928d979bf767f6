//! Builds the configuration from the command line: which manifest or documents, preludes, errata,
//! folders and levels of lints. `check`, `generate`, `decode` and `diff` use [`config`], and so
//! does `lsp` for a document that no manifest names, so that an editor and `xdrgen check` agree.
//!
//! A manifest has settings of its own: [`config`] rejects options for documents beside a folder
//! with a manifest, and the attributes in `args` reject them beside `--manifest`.

use std::path::{Path, PathBuf};

use xdrgen_build::{Code, Config, Level, Module, Prelude, Shapes};

use crate::CommandError;
use crate::args::{Input, Lints};

/// The options of `generate` for names and shapes.
pub(crate) struct Naming {
    pub(crate) shape: Option<Shapes>,
    pub(crate) module: Option<String>,
    pub(crate) strip: Vec<String>,
}

/// Returns the configuration for the inputs.
pub(crate) fn config(input: &Input, naming: Option<Naming>) -> Result<Config, CommandError> {
    let config = match manifest(input)? {
        Some(path) => {
            if naming.is_some_and(|naming| {
                naming.shape.is_some() || naming.module.is_some() || !naming.strip.is_empty()
            }) {
                return Err(CommandError::Usage(
                    "--shape, --module and --strip need documents; a manifest has settings of its \
                    own"
                    .into(),
                ));
            }
            let config = Config::from_manifest(path).map_err(CommandError::Report)?;
            if input.settings.no_errata {
                config.without_errata()
            } else {
                config
            }
        }
        None => documents(input, naming)?,
    };
    levels(config, &input.lints)
}

/// Returns the manifest, if the inputs select one.
fn manifest(input: &Input) -> Result<Option<PathBuf>, CommandError> {
    if let Some(path) = &input.settings.manifest {
        return Ok(Some(path.clone()));
    }
    if let [folder] = input.paths.as_slice()
        && folder.is_dir()
    {
        return in_folder(input, folder).map(Some);
    }
    if !input.paths.is_empty() {
        return Ok(None);
    }
    let default_paths = ["xdrgen.toml", "spec/xdrgen.toml"].map(Path::new);
    match default_paths.into_iter().find(|path| path.is_file()) {
        Some(path) => without_settings(input, path.to_owned()).map(Some),
        None => Err(CommandError::Usage(
            "there is no xdrgen.toml here or in spec/; name documents or --manifest".into(),
        )),
    }
}

/// Returns the manifest in a folder.
fn in_folder(input: &Input, folder: &Path) -> Result<PathBuf, CommandError> {
    let path = folder.join("xdrgen.toml");
    if !path.is_file() {
        return Err(CommandError::Usage(format!(
            "the folder `{}` has no xdrgen.toml; name documents",
            folder.display()
        )));
    }
    without_settings(input, path)
}

/// Returns the path of a manifest, to whose modules no other settings apply.
fn without_settings(input: &Input, manifest: PathBuf) -> Result<PathBuf, CommandError> {
    let settings = &input.settings;
    if !settings.errata.is_empty() || !settings.include.is_empty() || !settings.prelude.is_empty() {
        return Err(CommandError::Usage(
            "--errata, --include and --prelude need documents; a manifest has settings of its own"
                .into(),
        ));
    }
    Ok(manifest)
}

/// Returns a configuration with all documents in one module.
fn documents(input: &Input, naming: Option<Naming>) -> Result<Config, CommandError> {
    if input.settings.no_errata {
        return Err(CommandError::Usage(
            "--no-errata needs a manifest; documents have only the errata that --errata names"
                .into(),
        ));
    }
    let name = naming.as_ref().and_then(|naming| naming.module.clone());
    let mut module = Module::new(name.unwrap_or_else(|| module_name(&input.paths[0])));
    module = input
        .paths
        .iter()
        .fold(module, |module, path| module.document(path));
    if let Some(naming) = naming {
        module = module.shapes(naming.shape.unwrap_or_default());
        module = naming
            .strip
            .into_iter()
            .fold(module, |module, prefix| module.strip(prefix));
    }
    let mut config = Config::new();
    let mut preludes = Vec::new();
    for name in &input.settings.prelude {
        match Prelude::ALL.iter().find(|prelude| prelude.name() == name) {
            Some(prelude) => preludes.push(*prelude),
            None if name == "none" => {}
            None if Path::new(name).is_file() => {
                let file = module_name(Path::new(name));
                config = config.module(Module::new(&file).document(name));
                module = module.uses(file);
            }
            None => {
                return Err(CommandError::Usage(format!(
                    "`{name}` is not `ietf`, `c`, `rpc`, `rpcb`, `none` or a file"
                )));
            }
        }
    }
    if !input.settings.prelude.is_empty() {
        config = config.prelude(&preludes);
    }
    let folders = input.settings.include.iter();
    config = folders.fold(config, |config, folder| config.include_dir(folder));
    config = input
        .settings
        .errata
        .iter()
        .fold(config, |config, path| config.errata(path));
    Ok(config.module(module))
}

/// Converts a file name to a module name: `draft-x-01.txt` to `draft_x_01`.
fn module_name(path: &Path) -> String {
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    let name: String = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if xdrgen_build::is_module_name(&name) && !["xdrgen", "owned"].contains(&name.as_str()) {
        name
    } else {
        format!("xdr_{name}")
    }
}

pub(crate) fn levels(mut config: Config, lints: &Lints) -> Result<Config, CommandError> {
    let settings: [(&[Code], Level); 3] = [
        (&lints.allow, Level::Allow),
        (&lints.warn, Level::Warn),
        (&lints.deny, Level::Deny),
    ];
    for (codes, level) in settings {
        for code in codes {
            config = config
                .lint(*code, level)
                .map_err(|error| CommandError::Usage(error.to_string()))?;
        }
    }
    Ok(config)
}
