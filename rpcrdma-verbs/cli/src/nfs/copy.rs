//! `rpcrdma nfs cp`: copies a file from or to a server.
//!
//! The source is opened and read before a target on this host is created, so that a wrong source
//! changes nothing. A new file keeps write permission for its owner until it is complete, because a
//! server without privileges needs it. `Client::write_all` puts each window on stable storage
//! before the next one is read.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use oncrpc::Channel;
use rpcrdma_nfs::FileHandle;
use rpcrdma_nfs::client::{Client, ClientError};
use rpcrdma_nfs::nfs3::{Createhow3, Ftype3, Nfsstat3, Sattr3, SetMode3, SetSize3, StableHow};
use rustix::fs::Mode;
use serde_json::json;

use super::remote::{Access, AnyError, OpenedObject, Remote, RemoteName};
use crate::output::{Count, UsageError, outln};
use crate::progress::{CopyProgress, Progress};

#[derive(clap::Args)]
pub(super) struct Copy {
    #[command(flatten)]
    pub(super) access: Access,
    /// File to copy: server:/path, or a path of this host.
    from: String,
    /// Target: a path of this host, or server:/path. In a directory, the copy has the same name.
    to: String,
    /// Show progress even if standard error is not a terminal.
    #[arg(long)]
    progress: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The number of bytes that are written before they are committed.
const WINDOW: usize = 4 << 20;

impl Copy {
    /// Returns the end of the copy that is of a server.
    pub(super) fn remote(&self) -> Option<Remote> {
        Remote::new(&self.from).or_else(|| Remote::new(&self.to))
    }

    pub(super) async fn run(&self) -> Result<(), AnyError> {
        if let Some(remote) = self.remote() {
            remote.check_host().map_err(UsageError)?;
        }
        let bytes = match (Remote::new(&self.from), Remote::new(&self.to)) {
            (Some(from), None) => self.get(&from, Path::new(&self.to)).await?,
            (None, Some(to)) => self.put(Path::new(&self.from), &to).await?,
            _ => {
                let usage = "one of both is of a server, like server:/path, and the other is not";
                return Err(UsageError(usage.to_owned()).into());
            }
        };
        if self.json {
            outln!("{}", json!({ "bytes": bytes }));
        } else {
            outln!("{} copied", Count(bytes, "byte"));
        }
        Ok(())
    }

    /// Starts to show the progress of a copy of this size, if it is known.
    fn progress(&self, total: Option<u64>) -> CopyProgress {
        let line = Progress::new(self.progress || Progress::is_default());
        CopyProgress::new(line, total)
    }

    async fn get(&self, from: &Remote, to: &Path) -> Result<u64, AnyError> {
        let OpenedObject { client, object } = self.access.open(from).await?;
        let to = match from.name() {
            Some(name) if to.is_dir() => to.join(name),
            _ => PathBuf::from(to),
        };
        let mut stream = client.read_stream(&object.handle, 0, u64::MAX);
        // This comes before the file is created: a directory cannot be read.
        let mut part = stream.next().await?;
        let mut file =
            create_local(&to, object.attributes.mode).map_err(|error| at(&to, &error))?;
        let mut progress = self.progress(Some(object.attributes.size));
        let mut bytes = 0;
        while let Some(data) = part {
            file.write_all(&data).map_err(|error| at(&to, &error))?;
            bytes += data.len() as u64;
            progress.advance(bytes);
            part = stream.next().await?;
        }
        Ok(bytes)
    }

    async fn put(&self, from: &Path, to: &Remote) -> Result<u64, AnyError> {
        let mut file = File::open(from).map_err(|error| at(from, &error))?;
        let source = file.metadata().map_err(|error| at(from, &error))?;
        if source.is_dir() {
            return Err(at(from, &ErrorKind::IsADirectory.into()).into());
        }
        let RemoteName { client, dir, name } = self.target(from, to).await?;
        let created = NewFile::create(&client, &dir, &name, source.mode() & !umask()).await?;
        // Other files, such as pipes, have no size.
        let total = source.is_file().then_some(source.len());
        let mut progress = self.progress(total);
        let mut bytes = 0;
        loop {
            let mut window = client.stubs().transport().item_buf(WINDOW);
            let filled = fill(&mut file, &mut window).map_err(|error| at(from, &error))?;
            if filled == 0 {
                created.finish(&client).await?;
                return Ok(bytes);
            }
            let data = window.into_item(filled);
            client
                .write_all(&created.handle, bytes, data, StableHow::Unstable)
                .await?;
            bytes += filled as u64;
            progress.advance(bytes);
        }
    }

    /// Finds the target of a file: a name, or a directory that contains it.
    async fn target(&self, from: &Path, to: &Remote) -> Result<RemoteName, AnyError> {
        if let Ok(OpenedObject { client, object }) = self.access.open(to).await
            && object.attributes.r#type == Ftype3::Dir
        {
            let name = from.file_name().and_then(|name| name.to_str());
            return Ok(RemoteName {
                client,
                dir: object.handle,
                name: name.ok_or("the file has no name")?.to_owned(),
            });
        }
        self.access.place(to).await
    }
}

/// The permissions that a copy takes from its source.
const PERMISSIONS: u32 = 0o777;

/// The permission of the owner to write.
const OWNER_WRITES: u32 = 0o200;

/// The empty file of a server that a copy fills.
struct NewFile {
    handle: FileHandle,
    /// The mode that the file gets once it is complete.
    final_mode: Option<u32>,
}

impl NewFile {
    /// Creates a file with these permissions. A file that exists keeps its own, and loses its
    /// content.
    async fn create(
        client: &Client<Channel>,
        dir: &FileHandle,
        name: &str,
        mode: u32,
    ) -> Result<Self, ClientError> {
        let mode = mode & PERMISSIONS;
        let empty = Sattr3 {
            size: SetSize3::True(0),
            ..Sattr3::UNSET
        };
        let new = Sattr3 {
            // A server without privileges of its own needs this to write.
            mode: SetMode3::True(mode | OWNER_WRITES),
            ..empty
        };
        match client.create(dir, name, &Createhow3::Guarded(new)).await {
            Ok(created) => Ok(Self {
                handle: created.handle,
                final_mode: Some(mode).filter(|mode| mode & OWNER_WRITES == 0),
            }),
            Err(error) if error.status() == Some(Nfsstat3::Exist) => {
                let how = Createhow3::Unchecked(empty);
                Ok(Self {
                    handle: client.create(dir, name, &how).await?.handle,
                    final_mode: None,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Sets the final mode of a new file.
    async fn finish(&self, client: &Client<Channel>) -> Result<(), ClientError> {
        let Some(mode) = self.final_mode else {
            return Ok(());
        };
        let new = Sattr3 {
            mode: SetMode3::True(mode),
            ..Sattr3::UNSET
        };
        client.set_attributes(&self.handle, &new, None).await?;
        Ok(())
    }
}

/// Creates or empties a file of this host. A new file gets the permissions of its source without
/// those of the umask.
fn create_local(path: &Path, source_mode: u32) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    options.mode(source_mode & PERMISSIONS).open(path)
}

/// Returns the umask of the process.
fn umask() -> u32 {
    // It can be read only by setting it.
    let mask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(mask);
    mask.bits()
}

/// Reads until the memory is full or the file ends.
fn fill(file: &mut File, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
