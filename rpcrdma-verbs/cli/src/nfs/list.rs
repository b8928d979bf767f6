//! `rpcrdma nfs ls` and `rpcrdma nfs cat`.

use std::io::{self, Write as _};

use oncrpc::Channel;
use rpcrdma_nfs::client::{Client, ClientError};
use rpcrdma_nfs::nfs3::{Fattr3, Ftype3, Nfsstat3};
use rpcrdma_nfs::{DirEntry, FileHandle};

use super::remote::{Access, AnyError, OpenedObject, Remote};
use crate::output::{OutputError, outln};

#[derive(clap::Args)]
pub(super) struct List {
    #[command(flatten)]
    pub(super) access: Access,
    /// Directory or file of a server: server:/path.
    #[arg(value_name = "SERVER:/PATH", value_parser = Remote::parse)]
    pub(super) what: Remote,
    /// Print a line of JSON for each entry. In names that are not UTF-8, U+FFFD replaces invalid
    /// bytes.
    #[arg(long)]
    json: bool,
}

impl List {
    /// Returns true if every entry was listed.
    pub(super) async fn run(&self) -> Result<bool, AnyError> {
        let OpenedObject { client, object } = self.access.open(&self.what).await?;
        if object.attributes.r#type != Ftype3::Dir {
            let name = self.what.name().unwrap_or_default();
            self.print(name.as_bytes(), &object.attributes)?;
            return Ok(true);
        }
        // Servers need not support READDIRPLUS.
        let mut stream = client.read_dir_plus(&object.handle);
        let mut part = stream.next().await;
        if part
            .as_ref()
            .is_err_and(|error| error.status() == Some(Nfsstat3::Notsupp))
        {
            stream = client.read_dir(&object.handle);
            part = stream.next().await;
        }
        let mut is_complete = true;
        while let Some(entries) = part? {
            for entry in entries {
                is_complete &= self.list(&client, &object.handle, &entry).await?;
            }
            part = stream.next().await;
        }
        Ok(is_complete)
    }

    /// Prints an entry, unless it is the directory itself or its parent. Returns false if the
    /// server refuses its attributes, as it does for a mount point; the error is printed.
    async fn list(
        &self,
        client: &Client<Channel>,
        dir: &FileHandle,
        entry: &DirEntry,
    ) -> Result<bool, AnyError> {
        if matches!(entry.name.as_slice(), b"." | b"..") {
            return Ok(true);
        }
        let attributes = match &entry.object {
            Some(object) => object.attributes,
            None => match client.lookup(dir, &entry.name).await {
                Ok(object) => object.attributes,
                // It was removed in the meantime.
                Err(error) if error.status() == Some(Nfsstat3::Noent) => return Ok(true),
                // Other names would fail alike, each after its timeout.
                Err(error @ ClientError::Rpc(_)) => return Err(error.into()),
                Err(error) => {
                    eprintln!("rpcrdma: {}: {error}", printable(&entry.name));
                    return Ok(false);
                }
            },
        };
        self.print(&entry.name, &attributes)?;
        Ok(true)
    }

    fn print(&self, name: &[u8], attributes: &Fattr3) -> Result<(), OutputError> {
        let Fattr3 {
            nlink,
            uid,
            gid,
            size,
            ..
        } = attributes;
        let mode = mode(attributes);
        if self.json {
            let name = String::from_utf8_lossy(name);
            let line = serde_json::json!({
                "name": name, "mode": mode, "links": nlink, "uid": uid, "gid": gid, "size": size,
            });
            outln!("{line}");
            return Ok(());
        }
        outln!(
            "{mode} {nlink:>3} {uid:>5} {gid:>5} {size:>12} {}",
            printable(name)
        );
        Ok(())
    }
}

/// Returns a name in a form that is safe for a terminal.
fn printable(name: &[u8]) -> String {
    let mut text = String::new();
    for character in String::from_utf8_lossy(name).chars() {
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

/// Returns the type and the permissions as `ls -l` shows them.
fn mode(attributes: &Fattr3) -> String {
    let kind = match attributes.r#type {
        Ftype3::Reg => '-',
        Ftype3::Dir => 'd',
        Ftype3::Blk => 'b',
        Ftype3::Chr => 'c',
        Ftype3::Lnk => 'l',
        Ftype3::Sock => 's',
        Ftype3::Fifo => 'p',
    };
    let bits = (0..9).rev().zip("rwxrwxrwx".chars());
    let bits = bits.map(|(bit, letter)| {
        let is_set = attributes.mode >> bit & 1 == 1;
        if is_set { letter } else { '-' }
    });
    std::iter::once(kind).chain(bits).collect()
}

#[derive(clap::Args)]
pub(super) struct Cat {
    #[command(flatten)]
    pub(super) access: Access,
    /// File of a server: server:/path.
    #[arg(value_name = "SERVER:/PATH", value_parser = Remote::parse)]
    pub(super) file: Remote,
}

impl Cat {
    pub(super) async fn run(&self) -> Result<(), AnyError> {
        let OpenedObject { client, object } = self.access.open(&self.file).await?;
        let mut stream = client.read_stream(&object.handle, 0, u64::MAX);
        while let Some(data) = stream.next().await? {
            io::stdout()
                .lock()
                .write_all(&data)
                .map_err(OutputError::from)?;
        }
        Ok(io::stdout().lock().flush().map_err(OutputError::from)?)
    }
}
