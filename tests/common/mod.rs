//! Access to documents outside of the repository, in a folder beside the checkout, and temporary
//! crates of the code that is generated from them.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use xdrgen_build::GeneratedFile;

/// The folder of these documents: `../shared` from the root of the workspace.
const SHARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared");

/// Returns a subfolder of [`SHARED`]. If it does not exist, records that the calling test is
/// skipped and returns `None`.
pub(crate) fn shared(folder: &str) -> Option<PathBuf> {
    let path = Path::new(SHARED).join(folder);
    if path.is_dir() {
        return Some(path);
    }
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let note = format!("{test}: there is no folder `shared/{folder}` beside the checkout");
    eprintln!("skipped: {note}");
    // The summary of `.ci/run` counts these lines.
    if let Some(notes) = std::env::var_os("RPCRDMA_SKIPPED") {
        let mut notes = OpenOptions::new()
            .create(true)
            .append(true)
            .open(notes)
            .unwrap();
        writeln!(notes, "{note}").unwrap();
    }
    None
}

/// A temporary crate of generated modules, in the target folder of the workspace, with its own
/// target folder.
pub(crate) struct ThrowAway {
    folder: PathBuf,
    library: String,
}

impl ThrowAway {
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let library =
            "//! Generated.\n#![deny(warnings)]\n#![forbid(unsafe_code)]\n#![no_std]\n".to_owned();
        Self { folder, library }
    }

    /// Adds the files of one compilation. Its module names must differ from those of all others.
    pub(crate) fn add(&mut self, tree: &str, files: Vec<GeneratedFile>) {
        for file in files {
            let name = if file.name == xdrgen_build::ROOT_FILE {
                format!("{tree}.tree.rs")
            } else {
                file.name
            };
            self.write(&format!("src/{name}"), &file.content);
        }
        writeln!(self.library, "include!(\"{tree}.tree.rs\");").unwrap();
    }

    /// Compiles the crate, with warnings as errors.
    pub(crate) fn check(&self) {
        self.write("src/lib.rs", &self.library);
        let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("xdrgen/runtime");
        let manifest = format!(
            "[package]\nname = \"throw-away\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
             [workspace]\n\
             [dependencies]\nxdrgen-runtime = {{ path = {runtime:?} }}\n"
        );
        self.write("Cargo.toml", &manifest);
        let check = Command::new(env!("CARGO"))
            .args(["check", "--offline", "--quiet", "--target-dir"])
            .arg(self.folder.join("target"))
            .current_dir(&self.folder)
            .env_remove("RUSTFLAGS")
            .output()
            .unwrap();
        assert!(
            check.status.success(),
            "{}",
            String::from_utf8_lossy(&check.stderr)
        );
    }

    /// Writes a file only if its content changes, so that cargo does not rebuild it.
    fn write(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return;
        }
        std::fs::write(path, text).unwrap();
    }
}
