//! What the command line says.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use xdrgen_build::{Code, Shapes};

/// Extracts, checks and compiles XDR, straight from IETF drafts (.txt) or from .x files.
#[derive(Debug, Parser)]
#[command(name = "xdrgen", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the XDR of documents, without the markers.
    Extract {
        /// Drafts, RFCs or .x files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Report every defect of documents, each with FILE:LINE:COLUMN.
    ///
    /// Exits with 0 if there are none or warnings only, with 1 if there are errors, with 2 if it was called wrongly.
    Check {
        #[command(flatten)]
        input: Input,
        /// How to print what is found.
        #[arg(long, value_enum, default_value_t = Format::Human)]
        format: Format,
    },
    /// Write formatted Rust, a file for each module and one with the tree of them.
    Generate {
        #[command(flatten)]
        input: Input,
        /// The folder to write to; it is made if it is not there.
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
        /// Which forms of each type to write. (A manifest says so itself.)
        #[arg(long, value_enum)]
        shape: Option<Shape>,
        /// The module's name; by default the first file's.
        #[arg(long)]
        module: Option<String>,
        /// A prefix that Rust names go without; may be given several times.
        #[arg(long, value_name = "PREFIX")]
        strip: Vec<String>,
    },
    /// Show what octets are as a value of a type: each field with its offset, its name, its type and its value.
    ///
    /// The schema is that of the manifest xdrgen.toml or spec/xdrgen.toml, or of the documents that --schema names. Exits with 0
    /// if the octets are such a value; with 1 if they are not, and says where and why, or if the schema has errors; with 2 if
    /// it was called wrongly.
    Decode(Decode),
    /// List the lints and errors, with their levels and meanings.
    Lints,
}

#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Documents, compiled together; or a folder with a manifest; without any, the manifest.
    #[arg(conflicts_with = "manifest")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) lints: Lints,
}

/// What goes with documents, or stands for them.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// The manifest; by default xdrgen.toml or spec/xdrgen.toml, where no documents are named.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["errata", "prelude"])]
    pub(crate) manifest: Option<PathBuf>,
    /// A file of errata to apply; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) errata: Vec<PathBuf>,
    /// Leave out the manifest's errata: take the documents as published.
    #[arg(long, conflicts_with = "errata")]
    pub(crate) no_errata: bool,
    /// Types that need no declaration: `ietf`, `c`, `rpc`, `none`, or a file of XDR; may be given several times. [default: ietf, c and rpc]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) prelude: Vec<String>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct Lints {
    /// Make a lint an error.
    #[arg(long, value_name = "LINT")]
    pub(crate) deny: Vec<Code>,
    /// Make a lint a warning.
    #[arg(long, value_name = "LINT")]
    pub(crate) warn: Vec<Code>,
    /// Switch a lint off.
    #[arg(long, value_name = "LINT")]
    pub(crate) allow: Vec<Code>,
}

#[derive(Debug, Args)]
pub(crate) struct Decode {
    /// The octets; `-`, or nothing, is the standard input.
    pub(crate) file: Option<PathBuf>,
    /// The type: `rpcrdma2_xprt_hdr`, or `v2::rpcrdma2_xprt_hdr`, or `v2::XprtHdr` as in Rust.
    #[arg(short = 't', long = "type", value_name = "TYPE", required_unless_present = "list")]
    pub(crate) ty: Option<String>,
    /// The input is text in hexadecimal, as `xxd -p` prints it. White space, `:`, `0x` and what follows a `#` are passed over.
    #[arg(long)]
    pub(crate) hex: bool,
    /// The value may end before the octets do: say how many are left. (In JSON the `length` tells where they begin.)
    #[arg(long)]
    pub(crate) prefix: bool,
    /// The most elements that all sequences together may have. A million takes some 300 MB.
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    pub(crate) elements: u32,
    /// How to print the value.
    #[arg(long, value_enum, default_value_t = Shown::Human)]
    pub(crate) format: Shown,
    /// Read opaque fields by the overlays of this module alone; may be given several times. [default: those of all modules]
    #[arg(long, value_name = "MODULE")]
    pub(crate) overlays: Vec<String>,
    /// List the types of the schema.
    #[arg(long, conflicts_with_all = ["file", "ty", "hex", "prefix", "format", "overlays"])]
    pub(crate) list: bool,
    /// A document to take the types from, or a folder with a manifest; may be given several times.
    #[arg(short, long, value_name = "PATH", conflicts_with = "manifest")]
    pub(crate) schema: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shown {
    /// A tree, a line for each leaf.
    Human,
    /// One JSON object.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// With the lines, as rustc does.
    Human,
    /// One line each.
    Short,
    /// One JSON object a line.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// Types that own what they hold.
    Owned,
    /// Types that borrow from the buffer.
    Borrowed,
    /// Both.
    Both,
}

impl From<Shape> for Shapes {
    fn from(shape: Shape) -> Self {
        match shape {
            Shape::Owned => Self::Owned,
            Shape::Borrowed => Self::Borrowed,
            Shape::Both => Self::Both,
        }
    }
}
