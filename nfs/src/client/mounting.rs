//! MNT: looks up the handle of a directory by its path.

use oncrpc::xdr::{Error as XdrError, ErrorKind, Text};
use oncrpc::{AsyncTransport, CallError, CallErrorKind, CallOptions, Execution, ProcedureId};

use super::error::ClientError;
use crate::handle::FileHandle;
use crate::mount3::mount_program::mount_v3::{Client as MountClient, Mnt};
use crate::mount3::owned::Mountres3;

/// Asks a MOUNT service for the handle of a directory. NFSv3 servers offer MOUNT over TCP even if
/// they offer NFS over RDMA.
///
/// # Errors
/// Returns `Mount` if the server refuses, and `Rpc` if there is no reply or the path is longer than
/// 1024 bytes.
pub async fn mount<T: AsyncTransport>(
    transport: T,
    options: &CallOptions,
    path: impl AsRef<[u8]>,
) -> Result<FileHandle, ClientError> {
    let peer = transport.peer();
    let Ok(path) = Text::from_bytes(path.as_ref()) else {
        let kind = CallErrorKind::Encode(XdrError::new(ErrorKind::TooLong, 0));
        let procedure = ProcedureId::of::<Mnt>();
        return Err(CallError::new(procedure, peer, kind, Execution::NotExecuted).into());
    };
    let client = MountClient::new(transport).with_options(options.clone());
    match client.mnt(&path).await? {
        Mountres3::Ok(ok) => Ok(FileHandle::from(&ok.fhandle)),
        Mountres3::Default(status) => Err(ClientError::Mount(status)),
    }
}
