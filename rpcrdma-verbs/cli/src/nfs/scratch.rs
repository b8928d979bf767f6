//! The directory of `rpcrdma nfs bench` on a server, and its removal.

use oncrpc::Channel;
use rpcrdma_nfs::FileHandle;
use rpcrdma_nfs::client::{Client, ClientError};
use rpcrdma_nfs::nfs3::{Nfsstat3, Sattr3, SetMode3};

/// A directory that contains nothing but files of this process.
pub(super) struct ScratchDir {
    client: Client<Channel>,
    parent: FileHandle,
    pub(super) name: String,
    pub(super) handle: FileHandle,
}

impl ScratchDir {
    /// Creates the directory. Its name contains the number of this process.
    pub(super) async fn create(
        client: Client<Channel>,
        parent: FileHandle,
    ) -> Result<Self, ClientError> {
        let name = format!("rpcrdma-bench-{}", std::process::id());
        let attributes = Sattr3 {
            mode: SetMode3::True(0o700),
            ..Sattr3::UNSET
        };
        let made = client.make_dir(&parent, &name, &attributes).await?;
        Ok(Self {
            client,
            parent,
            name,
            handle: made.handle,
        })
    }

    /// Removes the files and the directory. Ends early if there is no reply; otherwise tries to
    /// remove every file, and returns the first error.
    pub(super) async fn remove(&self) -> Result<(), ClientError> {
        let mut names = Vec::new();
        let mut stream = self.client.read_dir(&self.handle);
        while let Some(entries) = stream.next().await? {
            names.extend(entries.into_iter().map(|entry| entry.name));
        }
        let mut removed = Ok(());
        for name in names.iter().filter(|name| !is_dot(name)) {
            match self.client.remove(&self.handle, name).await {
                Err(error) if error.status() == Some(Nfsstat3::Noent) => {}
                Err(error @ ClientError::Rpc(_)) => return removed.and(Err(error)),
                done => removed = removed.and(done),
            }
        }
        removed?;
        self.client.remove_dir(&self.parent, &self.name).await
    }
}

fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}
