//! The configuration file of `rpcrdma nfs serve`: exports and limits, which SIGHUP reloads.
//!
//! A file is either valid as a whole or rejected: unknown names are errors. `deploy/nfs.toml` shows
//! every limit, so a new one is added there, too. `served_dirs` relies on `check_dirs`: a directory
//! has one path. `serve` opens the directories, and `ExportTable` applies the exports.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Display;
use std::io::Read as _;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oncrpc::ServerLimits;
use rpcrdma_nfs::{ExportSettings, Network, Squash};
use serde::Deserialize;

use crate::units::{size, time};

/// Parses the setting of which callers are squashed.
pub(super) fn squash(text: &str) -> Result<Squash, String> {
    match text {
        "none" => Ok(Squash::None),
        "root" => Ok(Squash::Root),
        "all" => Ok(Squash::All),
        other => Err(format!("{other} is none of none, root and all")),
    }
}

/// The maximum length of the file.
const MAX_LEN: u64 = 1 << 20;

/// The validated settings of a file.
#[derive(Debug)]
pub(super) struct NfsConfig {
    pub(super) limits: ServerLimits,
    pub(super) exports: Vec<DirExport>,
}

/// An exported directory.
#[derive(Debug)]
pub(super) struct DirExport {
    pub(super) dir: PathBuf,
    /// Whether changes are on stable storage before the reply.
    pub(super) sync: bool,
    pub(super) settings: ExportSettings,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    limits: LimitTable,
    #[serde(default, rename = "export")]
    exports: Vec<ExportEntry>,
}

/// The numbers are as in [`ServerLimits`].
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitTable {
    max_connections: Option<NonZeroUsize>,
    max_connections_per_peer: Option<NonZeroUsize>,
    max_waiting_connections: Option<NonZeroUsize>,
    max_calls: Option<NonZeroUsize>,
    max_calls_per_peer: Option<NonZeroUsize>,
    max_calls_per_connection: Option<NonZeroUsize>,
    max_bytes: Option<Size>,
    max_bytes_per_peer: Option<Size>,
    max_bytes_per_connection: Option<Size>,
    transfer_time: Option<Time>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportEntry {
    path: String,
    dir: PathBuf,
    #[serde(default)]
    read_only: bool,
    squash: Option<SquashWord>,
    #[serde(default = "yes")]
    sync: bool,
    #[serde(default)]
    clients: Vec<ClientNetwork>,
    anonymous_uid: Option<u32>,
    anonymous_gid: Option<u32>,
}

const fn yes() -> bool {
    true
}

#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct Size(usize);

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = usize::try_from(size(&text)?).unwrap_or(usize::MAX);
        (bytes > 0)
            .then_some(Self(bytes))
            .ok_or_else(|| "0 bytes are too few".to_owned())
    }
}

/// A time, or `none`.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct Time(Option<Duration>);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "none" => Ok(Self(None)),
            text => match time(text)? {
                Duration::ZERO => Err("no time is too short: `none` is for no limit".to_owned()),
                time => Ok(Self(Some(time))),
            },
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct SquashWord(Squash);

impl TryFrom<String> for SquashWord {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        squash(&text).map(Self)
    }
}

#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
struct ClientNetwork(Network);

impl TryFrom<String> for ClientNetwork {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let network = text.parse();
        network
            .map(Self)
            .map_err(|error: rpcrdma_nfs::NetworkError| error.to_string())
    }
}

impl LimitTable {
    fn limits(&self) -> ServerLimits {
        type Count = fn(ServerLimits, usize) -> ServerLimits;
        let count = |number: Option<NonZeroUsize>| number.map(NonZeroUsize::get);
        let bytes = |size: Option<Size>| size.map(|Size(bytes)| bytes);
        let numbers: [(Option<usize>, Count); 9] = [
            (count(self.max_connections), ServerLimits::max_connections),
            (
                count(self.max_connections_per_peer),
                ServerLimits::max_connections_per_peer,
            ),
            (
                count(self.max_waiting_connections),
                ServerLimits::max_waiting_connections,
            ),
            (count(self.max_calls), ServerLimits::max_calls),
            (
                count(self.max_calls_per_peer),
                ServerLimits::max_calls_per_peer,
            ),
            (
                count(self.max_calls_per_connection),
                ServerLimits::max_calls_per_connection,
            ),
            (bytes(self.max_bytes), ServerLimits::max_bytes),
            (
                bytes(self.max_bytes_per_peer),
                ServerLimits::max_bytes_per_peer,
            ),
            (
                bytes(self.max_bytes_per_connection),
                ServerLimits::max_bytes_per_connection,
            ),
        ];
        let mut limits = ServerLimits::new();
        for (number, set) in numbers {
            limits = number.map_or(limits, |number| set(limits, number));
        }
        if let Some(Time(time)) = self.transfer_time {
            limits = limits.transfer_time(time);
        }
        limits
    }
}

impl From<ExportEntry> for DirExport {
    fn from(entry: ExportEntry) -> Self {
        let default = ExportSettings::default();
        Self {
            dir: entry.dir,
            sync: entry.sync,
            settings: ExportSettings {
                path: entry.path,
                read_only: entry.read_only,
                squash: entry
                    .squash
                    .map_or(default.squash, |SquashWord(squash)| squash),
                anonymous_uid: entry.anonymous_uid.unwrap_or(default.anonymous_uid),
                anonymous_gid: entry.anonymous_gid.unwrap_or(default.anonymous_gid),
                networks: entry
                    .clients
                    .into_iter()
                    .map(|ClientNetwork(one)| one)
                    .collect(),
            },
        }
    }
}

impl NfsConfig {
    /// Reads and validates a file.
    pub(super) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let at = |error: &dyn Display| format!("{}: {error}", path.display());
        let file = std::fs::File::open(path).map_err(|error| at(&error))?;
        let mut text = String::new();
        let read = file.take(MAX_LEN + 1).read_to_string(&mut text);
        read.map_err(|error| at(&error))?;
        if text.len() as u64 > MAX_LEN {
            return Err(at(&"over 1 MiB are no configuration").into());
        }
        let config = Self::parse(&text).map_err(|error| at(&error))?;
        config.check_dirs().map_err(|error| at(&error))?;
        Ok(config)
    }

    /// Checks that no directory has two paths. Its handles do not tell by which path a client
    /// mounted it, so that the first export would serve the clients of both. Two exports with one
    /// path can share a directory: they differ by their clients.
    fn check_dirs(&self) -> Result<(), String> {
        let mut known = HashMap::new();
        for export in &self.exports {
            // The error of a directory that does not exist comes when it is opened.
            let Ok(found) = export.dir.metadata() else {
                continue;
            };
            let first: &mut &DirExport = known.entry((found.dev(), found.ino())).or_insert(export);
            if !is_same_path(first, export) {
                return Err(same_dir(first, export));
            }
        }
        Ok(())
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let limits = file.limits.limits();
        let exports: Vec<DirExport> = file.exports.into_iter().map(Into::into).collect();
        for (number, export) in exports.iter().enumerate() {
            let settings = &export.settings;
            let wrong = |what: &str| Err(format!("export {}: {what}", settings.path));
            if !settings.path.starts_with('/') {
                return wrong("the path does not begin with /");
            }
            if !export.dir.is_absolute() {
                return wrong("the directory does not begin with /");
            }
            let hides = |earlier: &DirExport| {
                is_same_path(earlier, export) && earlier.settings.networks.is_empty()
            };
            if exports[..number].iter().any(hides) {
                return wrong("an earlier export of this path is for every client");
            }
        }
        Ok(Self { limits, exports })
    }
}

/// Returns true if clients mount two exports by one path: `/pub` is `/pub/`.
fn is_same_path(one: &DirExport, other: &DirExport) -> bool {
    Path::new(&one.settings.path) == Path::new(&other.settings.path)
}

/// Returns the error of two exports with one directory.
fn same_dir(first: &DirExport, second: &DirExport) -> String {
    let [one, two] = [first, second].map(|export| {
        let dir = export.dir.display();
        format!("export {} (directory {dir})", export.settings.path)
    });
    format!("{one} and {two} have the same directory: a directory can have only one path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_limits_and_exports() {
        let config = NfsConfig::parse(
            r#"
            [limits]
            max_connections = 100
            max_connections_per_peer = 10
            max_waiting_connections = 30
            max_calls = 50
            max_calls_per_peer = 20
            max_calls_per_connection = 5
            max_bytes = "1G"
            max_bytes_per_peer = "64M"
            max_bytes_per_connection = "1M"
            transfer_time = "none"

            [[export]]
            path = "/data"
            dir = "/srv/data"
            squash = "all"
            anonymous_uid = 1000
            anonymous_gid = 100
            read_only = true
            sync = false
            clients = ["192.0.2.0/24", "2001:db8::7"]

            [[export]]
            path = "/home"
            dir = "/home"
            "#,
        );
        let config = config.unwrap();
        let limits = ServerLimits::new()
            .max_connections(100)
            .max_connections_per_peer(10)
            .max_waiting_connections(30)
            .max_calls(50)
            .max_calls_per_peer(20)
            .max_calls_per_connection(5)
            .max_bytes(1 << 30)
            .max_bytes_per_peer(64 << 20)
            .max_bytes_per_connection(1 << 20)
            .transfer_time(None);
        assert_eq!(config.limits, limits);
        let [data, home] = &config.exports[..] else {
            panic!("{config:?}");
        };
        assert!(!data.sync && home.sync);
        assert_eq!(data.dir, Path::new("/srv/data"));
        let networks = ["192.0.2.0/24", "2001:db8::7"].map(|text| text.parse().unwrap());
        let settings = ExportSettings {
            path: "/data".to_owned(),
            read_only: true,
            squash: Squash::All,
            anonymous_uid: 1000,
            anonymous_gid: 100,
            networks: networks.to_vec(),
        };
        assert_eq!(data.settings, settings);
        let settings = ExportSettings {
            path: "/home".to_owned(),
            ..ExportSettings::default()
        };
        assert_eq!(home.settings, settings);
        assert_eq!(NfsConfig::parse("").unwrap().limits, ServerLimits::new());
    }

    #[test]
    fn errors_in_a_file_are_located() {
        let export = "[[export]]\npath = \"/a\"\ndir = \"/srv\"\n";
        let twice = export.repeat(2);
        for (text, error) in [
            (
                "[limits]\nmax_conections = 1",
                "unknown field `max_conections`",
            ),
            ("[limits]\nmax_calls = 0", "nonzero"),
            ("[limits]\nmax_bytes = \"0\"", "0 bytes are too few"),
            (
                "[limits]\nmax_bytes = \"1X\"",
                "1X is not a number of bytes",
            ),
            ("[limits]\ntransfer_time = \"10\"", "10s are seconds"),
            ("[limits]\ntransfer_time = \"0s\"", "`none` is for no limit"),
            ("[[export]]\npath = \"/a\"", "missing field `dir`"),
            (
                "[[export]]\npath = \"a\"\ndir = \"/srv\"",
                "export a: the path does not begin with /",
            ),
            (
                "[[export]]\npath = \"/a\"\ndir = \"srv\"",
                "export /a: the directory does not begin with /",
            ),
            (
                "[[export]]\npath = \"/a\"\ndir = \"/b\"\nsquash = \"me\"",
                "me is none of",
            ),
            (
                "[[export]]\npath = \"/a\"\ndir = \"/b\"\nclients = [\"192.0.2.0/99\"]",
                "192.0.2.0/99",
            ),
            (&twice, "an earlier export of this path is for every client"),
            (
                &twice.replacen("\"/a\"", "\"/a/\"", 1),
                "an earlier export of this path is for every client",
            ),
            ("]", "line 1"),
        ] {
            let found = NfsConfig::parse(text).unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
    }

    #[test]
    fn a_directory_has_one_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a", "b"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        std::os::unix::fs::symlink("a", path("link")).unwrap();
        let check = |exports: &[(&str, &str, &str)]| {
            let mut text = String::new();
            for (name, dir, clients) in exports {
                let dir = path(dir);
                text += &format!("[[export]]\npath = {name:?}\ndir = {dir:?}\n");
                text += &format!("clients = [{clients}]\n");
            }
            std::fs::write(path("nfs.toml"), text).unwrap();
            NfsConfig::read(&path("nfs.toml")).map_err(|error| error.to_string())
        };
        for dir in ["a", "b/../a", "link"] {
            let error = check(&[("/x", "a", ""), ("/y", "b", ""), ("/z", dir, "")]).unwrap_err();
            let found = path(dir);
            for part in ["export /x", "export /z", found.to_str().unwrap()] {
                assert!(error.contains(part), "{error}");
            }
        }
        check(&[("/x", "a", ""), ("/y", "b", ""), ("/z", "none", "")]).unwrap();
        // The same path, for different clients.
        check(&[("/x", "a", "\"192.0.2.0/24\""), ("/x", "a", "")]).unwrap();
    }
}
