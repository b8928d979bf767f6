//! The command line arguments. The doc comments are the texts of `--help`, and of the manual pages
//! that `shell` writes; `docs/guide.md` documents the options. `input` turns [`Input`] into a
//! configuration, and also rejects combinations that the attributes here do not exclude.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use xdrgen_build::{Code, Shapes};

/// Extracts, checks and compiles XDR from IETF drafts (.txt) or from .x files.
#[derive(Debug, Parser)]
#[command(name = "xdrgen", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Say on standard error which documents are read, and which files are written.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the XDR of documents, without markers.
    Extract {
        /// Drafts, RFCs or .x files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Find definitions in the text of documents without markers, and say on standard error
        /// what is taken.
        #[arg(long)]
        prose: bool,
        /// Read this section of the text alone, with all within it; may be repeated.
        #[arg(long, value_name = "NUMBER", requires = "prose")]
        section: Vec<String>,
    },
    /// Report the defects of documents, each with FILE:LINE:COLUMN.
    ///
    /// The exit code is 0 if there are no errors (there may be warnings), 1 if there are errors,
    /// and 2 if the arguments are invalid.
    Check(CheckArgs),
    /// Write formatted Rust: a file for each module, and one that includes all of them; or a
    /// dissector for Wireshark.
    Generate {
        #[command(flatten)]
        input: Input,
        /// The output folder. It is created if it does not exist.
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
        /// The shapes of each type to generate. (A manifest sets them itself.)
        #[arg(long, value_enum)]
        shape: Option<Shape>,
        /// The module's name. The default is the name of the first file.
        #[arg(long)]
        module: Option<String>,
        /// A prefix to strip from Rust names. May be given several times.
        #[arg(long, value_name = "PREFIX")]
        strip: Vec<String>,
        #[command(flatten)]
        wireshark: WiresharkArgs,
    },
    /// Decode bytes as a value of a type, and show each field with its offset, name, type and
    /// value.
    ///
    /// The schema comes from the manifest xdrgen.toml or spec/xdrgen.toml, or from the documents
    /// that --schema names. The exit code is 0 if the bytes are a value of the type, 1 if they are
    /// not (the error names the position) or if the schema has errors, and 2 if the arguments are
    /// invalid.
    Decode(DecodeArgs),
    /// Say what has changed from one revision of a document to another.
    ///
    /// Each change is `compatible` (the messages are the same), `extending` (messages in the old
    /// form are in the new one, too), or `breaking`. Types are matched by their names, and
    /// otherwise by where they are used. The exit code is 0 if no change is breaking, 1 if one is,
    /// and 2 if the arguments are invalid or a document has errors.
    Diff(DiffArgs),
    /// Serve an editor: diagnostics, hover texts, definitions, quick fixes and formatting.
    ///
    /// The editor starts the command and speaks the Language Server Protocol on standard input and
    /// output. A document is checked with the documents of the nearest manifest that names it
    /// (xdrgen.toml, or spec/xdrgen.toml, in a folder above), and otherwise alone, with the
    /// settings below.
    Lsp(LspArgs),
    /// Format XDR files (.x): indentation, blanks and line breaks; comments stay.
    ///
    /// The exit code is 0 if all files are formatted, 1 if --check finds one that is not or a file
    /// has a syntax error, and 2 if the arguments are invalid.
    Fmt(FmtArgs),
    /// List all lints and errors, with their default levels and meanings.
    Lints {
        /// The output format.
        #[arg(long, value_enum, default_value_t = ValueFormat::Human)]
        format: ValueFormat,
        /// Explain one code, with an example of a document and its report.
        #[arg(long, value_name = "CODE", conflicts_with = "format")]
        explain: Option<Code>,
    },
    /// Print completions for a shell.
    #[command(hide = true)]
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write manual pages: one for the command, and one for each subcommand.
    #[command(hide = true)]
    Man {
        /// The folder for the pages. It is created if it does not exist.
        dir: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Documents to compile together, or a folder with a manifest. The default is the manifest.
    #[arg(conflicts_with = "manifest")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) lints: Lints,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "A dissector for Wireshark, in place of Rust")]
pub(crate) struct WiresharkArgs {
    /// Write a dissector of messages of this type, in Lua, with the overlays of all modules:
    /// `rpcrdma2_xprt_hdr`, `v2::rpcrdma2_xprt_hdr`, or the Rust path `v2::XprtHdr`.
    #[arg(long, value_name = "TYPE", conflicts_with_all = ["shape", "strip"])]
    pub(crate) wireshark: Option<String>,
    /// The protocol's name, with which the names of all fields begin. The default is the name of
    /// the type.
    #[arg(long, value_name = "NAME", requires = "wireshark")]
    pub(crate) protocol: Option<String>,
    /// A field of the message and the value that tells it from messages of other protocols. May be
    /// given several times. Without it, only what can be decoded is taken for a message.
    #[arg(long, value_name = "FIELD=NUMBER", requires = "wireshark", value_parser = expectation)]
    pub(crate) expect: Vec<(String, u32)>,
    /// Bytes may follow a message: Wireshark's dissector for them, such as `rpc`, or `data`.
    #[arg(long, value_name = "DISSECTOR", requires = "wireshark")]
    pub(crate) payload: Option<String>,
}

/// Parses a field with its value.
fn expectation(text: &str) -> Result<(String, u32), String> {
    let (field, number) = text.split_once('=').ok_or("there is no `=`")?;
    let number = match number.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    let number = number.map_err(|error| error.to_string())?;
    Ok((field.to_owned(), number))
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) input: Input,
    /// The output format.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub(crate) format: ReportFormat,
    /// Report errors alone: neither warnings nor a summary.
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Report at most this many errors.
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_errors: Option<usize>,
    /// Change the documents as the report suggests, and check them again.
    ///
    /// A fix is left out if it is one of several for its defect, changes more than one line,
    /// overlaps with another one, or is in a line that an erratum changes. Standard error says what
    /// was changed.
    #[arg(long)]
    pub(crate) fix: bool,
}

/// Settings for documents, or a manifest with settings.
#[derive(Debug, Default, Args)]
pub(crate) struct Settings {
    /// The manifest. The default, if no documents are named, is xdrgen.toml or spec/xdrgen.toml.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["errata", "include", "prelude"])]
    pub(crate) manifest: Option<PathBuf>,
    /// An errata file to apply. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) errata: Vec<PathBuf>,
    /// Ignore the manifest's errata: check the documents as published.
    #[arg(long, conflicts_with = "errata")]
    pub(crate) no_errata: bool,
    /// A folder with files that documents include. May be given several times.
    #[arg(long, value_name = "DIR")]
    pub(crate) include: Vec<PathBuf>,
    /// Types that need no declaration: `ietf`, `c`, `rpc`, `rpcb`, `none`, or a file of XDR. May be
    /// given several times. [default: all but none]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) prelude: Vec<String>,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Lints {
    /// Report a lint as an error.
    #[arg(long, value_name = "LINT")]
    pub(crate) deny: Vec<Code>,
    /// Report a lint as a warning.
    #[arg(long, value_name = "LINT")]
    pub(crate) warn: Vec<Code>,
    /// Disable a lint.
    #[arg(long, value_name = "LINT")]
    pub(crate) allow: Vec<Code>,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The old document, or a folder with a manifest.
    pub(crate) old: PathBuf,
    /// The new document, or a folder with a manifest.
    pub(crate) new: PathBuf,
    /// An errata file to apply to both. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) errata: Vec<PathBuf>,
    /// A folder with files that documents include. May be given several times.
    #[arg(long, value_name = "DIR")]
    pub(crate) include: Vec<PathBuf>,
    /// Types that need no declaration, as for `check`.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) prelude: Vec<String>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = ValueFormat::Human)]
    pub(crate) format: ValueFormat,
}

#[derive(Debug, Default, Args)]
pub(crate) struct LspArgs {
    /// An errata file for documents that no manifest names. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) errata: Vec<PathBuf>,
    /// A folder with files that documents include. May be given several times.
    #[arg(long, value_name = "DIR")]
    pub(crate) include: Vec<PathBuf>,
    /// Types that need no declaration, as for `check`.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) prelude: Vec<String>,
    #[command(flatten)]
    pub(crate) lints: Lints,
}

#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    /// The files. `-` reads standard input, and writes to standard output.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Write nothing, and name the files that are not formatted.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DecodeArgs {
    /// The file with the bytes. The default, and `-`, is standard input.
    pub(crate) file: Option<PathBuf>,
    /// The type: `rpcrdma2_xprt_hdr`, `v2::rpcrdma2_xprt_hdr`, or the Rust path `v2::XprtHdr`.
    #[arg(
        short = 't',
        long = "type",
        value_name = "TYPE",
        required_unless_present = "list"
    )]
    pub(crate) ty: Option<String>,
    /// Read the input as hexadecimal text, as `xxd -p` prints it. White space, `:`, `0x`, and
    /// comments that start with `#` are ignored.
    #[arg(long)]
    pub(crate) hex: bool,
    /// Allow bytes after the value, and print their number. (In JSON, `length` is their offset.)
    #[arg(long)]
    pub(crate) prefix: bool,
    /// The maximum total number of elements in sequences. A million elements take about 300 MB.
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    pub(crate) elements: u32,
    /// The output format.
    #[arg(long, value_enum, default_value_t = ValueFormat::Human)]
    pub(crate) format: ValueFormat,
    /// Decode opaque fields with the overlays of this module only. May be given several times.
    /// [default: the overlays of all modules]
    #[arg(long, value_name = "MODULE")]
    pub(crate) overlays: Vec<String>,
    /// List the types of the schema.
    #[arg(long, conflicts_with_all = ["file", "ty", "hex", "prefix", "overlays"])]
    pub(crate) list: bool,
    /// A document that defines the types, or a folder with a manifest. May be given several times.
    #[arg(short, long, value_name = "PATH", conflicts_with = "manifest")]
    pub(crate) schema: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ValueFormat {
    /// Text for people.
    Human,
    /// JSON, one object per line.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Excerpts of the documents, in the style of rustc.
    Human,
    /// One line for each diagnostic.
    Short,
    /// One JSON object for each diagnostic, each on a line.
    Json,
    /// A log of SARIF 2.1.0, for code scanning.
    Sarif,
    /// Commands of GitHub's workflows, which annotate the lines of a change.
    Github,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// Types that own their content.
    Owned,
    /// Types that borrow from the input.
    Borrowed,
    /// Both shapes.
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
