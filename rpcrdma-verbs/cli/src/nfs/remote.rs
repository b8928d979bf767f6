//! `HOST:/PATH`: an object of an NFSv3 server, and the connection to it.
//!
//! `Access` has the options of all subcommands that are clients: transport, ports, user and
//! timeout. `open` mounts the path itself, and a file by its parent if the server rejects the
//! mount; each mount has its own connection. `explain` relies on the type of the error, so a
//! subcommand must not convert a `ClientError` to text.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use oncrpc::{AuthSys, CallOptions, Channel, tcp};
use rpcrdma_nfs::client::{Client, ClientError, mount};
use rpcrdma_nfs::nfs3::Nfsstat3;
use rpcrdma_nfs::{FileHandle, Object};
use rpcrdma_verbs::ClientConfig;
use rustix::process::{Gid, getgid, getgroups, getuid};

use super::TCP_PORT;
use crate::device_source::{self, Locality};
use crate::serve::PORT;
use crate::units::time;

pub(super) type AnyError = Box<dyn Error>;

/// The groups of AUTH_SYS credentials beside the first one (RFC 5531, appendix A).
const MAX_GROUPS: usize = 16;

/// The transport to a server, and the user of its calls.
#[derive(Clone, clap::Args)]
pub(super) struct Access {
    /// TCP port of the server for NFS.
    #[arg(long, value_name = "PORT", default_value_t = TCP_PORT)]
    tcp: u16,
    /// TCP port of the server for MOUNT (default: that of `--tcp`). Linux: `rpc.mountd --port`.
    #[arg(long, value_name = "PORT")]
    mount: Option<u16>,
    /// Use NFS over RDMA at this port of the server (default 20049). MOUNT uses TCP.
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "20049",
        require_equals = true)]
    rdma: Option<u16>,
    /// RDMA device of this host for `--rdma`, as listed by `rpcrdma devices`. The default is iWARP
    /// over TCP, which needs none.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// User of the calls. The default is the user of this process, with its groups. Servers usually
    /// treat user 0 as nobody.
    #[arg(long)]
    uid: Option<u32>,
    /// Group of the calls. The default is the group of this process. With --uid or --gid there are
    /// no further groups.
    #[arg(long)]
    gid: Option<u32>,
    /// Timeout of each call.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60s")]
    timeout: Duration,
}

/// The path of an object of a server.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    host: String,
    path: String,
}

/// A client, and an object of its server.
pub(super) struct OpenedObject {
    pub(super) client: Client<Channel>,
    pub(super) object: Object,
}

/// A client, and a name in a directory of its server.
pub(super) struct RemoteName {
    pub(super) client: Client<Channel>,
    pub(super) dir: FileHandle,
    pub(super) name: String,
}

impl Remote {
    /// Parses `HOST:/PATH`. Returns `None` for other text, such as a path of this host.
    pub(super) fn new(text: &str) -> Option<Self> {
        let (host, path) = text.split_once(":/")?;
        if host.is_empty() || host.contains('/') {
            return None;
        }
        let path = format!("/{}", path.trim_end_matches('/'));
        Some(Self {
            host: host.to_owned(),
            path,
        })
    }

    /// Parses an argument.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let remote = Self::new(text).ok_or_else(|| format!("{text} is not like server:/path"))?;
        remote.check_host()?;
        Ok(remote)
    }

    /// Rejects a port in the host: each protocol has its own.
    pub(super) fn check_host(&self) -> Result<(), String> {
        match self.host.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') && port.parse::<u16>().is_ok() => Err(
                format!("{self} has a port: name it by --tcp={port} or --rdma={port}"),
            ),
            _ => Ok(()),
        }
    }

    /// Returns the path of the parent and the name in it, or `None` for the root.
    fn split(&self) -> Option<(&str, &str)> {
        let (parent, name) = self.path.rsplit_once('/')?;
        let parent = if parent.is_empty() { "/" } else { parent };
        Some((parent, name)).filter(|_| !name.is_empty())
    }

    /// Returns the last name of the path, if it has one.
    pub(super) fn name(&self) -> Option<&str> {
        Some(self.split()?.1)
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.path)
    }
}

impl Access {
    fn options(&self) -> CallOptions {
        let user = self.caller(getuid().as_raw(), getgid().as_raw(), groups);
        CallOptions::DEFAULT.credentials(user).timeout(self.timeout)
    }

    /// Returns the user of the calls. The arguments are the user, the group and all groups of this
    /// process.
    fn caller(&self, uid: u32, gid: u32, groups: impl FnOnce() -> Vec<u32>) -> AuthSys {
        let is_process = self.uid.is_none() && self.gid.is_none();
        let mut gids = if is_process { groups() } else { Vec::new() };
        gids.retain(|group| *group != gid);
        gids.truncate(MAX_GROUPS);
        AuthSys {
            uid: self.uid.unwrap_or(uid),
            gid: self.gid.unwrap_or(gid),
            gids,
            ..AuthSys::new("rpcrdma")
        }
    }

    /// Adds the object to the error of a server, and a hint if it refuses user 0. The error of a
    /// call without a reply names the server itself.
    pub(super) fn explain<T>(
        &self,
        remote: Option<&Remote>,
        done: Result<T, AnyError>,
    ) -> Result<T, AnyError> {
        let is_root = self.uid.unwrap_or_else(|| getuid().as_raw()) == 0;
        done.map_err(
            |error| match (remote, error.downcast_ref::<ClientError>()) {
                (None, _) | (_, None | Some(ClientError::Rpc(_))) => error,
                (Some(remote), Some(refused)) if is_root && is_permission(refused) => {
                    let hint = "servers usually treat user 0 as nobody: name another user by --uid";
                    format!("{remote}: {refused} ({hint})").into()
                }
                (Some(remote), Some(refused)) => format!("{remote}: {refused}").into(),
            },
        )
    }

    /// Requests the handle of a directory (MNT).
    async fn mount(&self, host: &str, path: &str) -> Result<FileHandle, AnyError> {
        let port = self.mount.unwrap_or(self.tcp);
        let channel = connect_tcp(host, port).await?;
        Ok(mount(channel, &self.options(), path).await?)
    }

    /// Connects to NFS.
    async fn connect(&self, host: &str, root: FileHandle) -> Result<Client<Channel>, AnyError> {
        let channel = if self.rdma.is_some() || self.device.is_some() {
            let source = device_source::Options::of_host(self.device.clone());
            let device = source.source(Locality::Network)?.open()?;
            let server = format!("{host}:{}", self.rdma.unwrap_or(PORT));
            rpcrdma_verbs::connect(&device, server, ClientConfig::new())?
        } else {
            connect_tcp(host, self.tcp).await?
        };
        Ok(Client::new(channel, self.options(), root).await?)
    }

    /// Mounts the directory of an object, whether or not the object exists.
    pub(super) async fn place(&self, remote: &Remote) -> Result<RemoteName, AnyError> {
        let (parent, name) = remote.split().ok_or("the path has no name")?;
        let dir = self.mount(&remote.host, parent).await?;
        Ok(RemoteName {
            client: self.connect(&remote.host, dir).await?,
            dir,
            name: name.to_owned(),
        })
    }

    /// Finds an object: either a directory that can be mounted itself, or a name in one.
    pub(super) async fn open(&self, remote: &Remote) -> Result<OpenedObject, AnyError> {
        let refused = match self.mount(&remote.host, &remote.path).await {
            Ok(handle) => {
                let client = self.connect(&remote.host, handle).await?;
                let attributes = client.attributes(&handle).await?;
                let object = Object { handle, attributes };
                return Ok(OpenedObject { client, object });
            }
            Err(error) => error,
        };
        let may_be_file = matches!(refused.downcast_ref(), Some(ClientError::Mount(_)));
        if !may_be_file || remote.split().is_none() {
            return Err(refused);
        }
        let RemoteName { client, dir, name } = self.place(remote).await?;
        let object = client.lookup(&dir, &name).await?;
        Ok(OpenedObject { client, object })
    }
}

/// Returns the groups of this process.
fn groups() -> Vec<u32> {
    let groups = getgroups().unwrap_or_default();
    groups.into_iter().map(Gid::as_raw).collect()
}

fn is_permission(error: &ClientError) -> bool {
    matches!(error.status(), Some(Nfsstat3::Acces | Nfsstat3::Perm))
}

async fn connect_tcp(host: &str, port: u16) -> Result<Channel, AnyError> {
    // The error names the server.
    Ok(tcp::connect(&format!("{host}:{port}")).await?)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        access: Access,
    }

    fn access(arguments: &[&str]) -> Access {
        let arguments = [&["test"], arguments].concat();
        Command::try_parse_from(arguments).unwrap().access
    }

    #[test]
    fn the_user_of_the_process_calls_unless_another_is_named() {
        let caller = |arguments: &[&str]| {
            let AuthSys { uid, gid, gids, .. } =
                access(arguments).caller(1000, 100, || (95..=200).collect());
            (uid, gid, gids)
        };
        // At most 16 groups, without the first one.
        let groups = (95..=99).chain(101..=111).collect();
        assert_eq!(caller(&[]), (1000, 100, groups));
        assert_eq!(caller(&["--uid=7"]), (7, 100, Vec::new()));
        assert_eq!(caller(&["--gid=8"]), (1000, 8, Vec::new()));
        assert_eq!(caller(&["--uid=0", "--gid=0"]), (0, 0, Vec::new()));
    }

    #[test]
    fn errors_of_permission_of_user_0_have_a_hint() {
        let explained = |uid: &str, status| {
            let error = ClientError::Status {
                procedure: "NFSPROC3_CREATE",
                status,
            };
            let remote = Remote::new("storage-1:/data/a");
            let explained = access(&[uid]).explain::<()>(remote.as_ref(), Err(error.into()));
            explained.unwrap_err().to_string()
        };
        for status in [Nfsstat3::Acces, Nfsstat3::Perm] {
            let plain = format!("storage-1:/data/a: NFSPROC3_CREATE: {}", status.name());
            let hint = explained("--uid=0", status);
            assert!(hint.starts_with(&plain) && hint.contains("--uid"), "{hint}");
            assert_eq!(explained("--uid=7", status), plain);
        }
        assert_eq!(
            explained("--uid=0", Nfsstat3::Rofs),
            "storage-1:/data/a: NFSPROC3_CREATE: NFS3ERR_ROFS"
        );
    }

    #[test]
    fn a_port_in_the_host_is_rejected() {
        let error = Remote::parse("storage-1:7249:/data").unwrap_err();
        assert_eq!(
            error,
            "storage-1:7249:/data has a port: name it by --tcp=7249 or --rdma=7249"
        );
        for host in ["storage-1", "192.0.2.1", "[::1]", "[2001:db8::7249]"] {
            let remote = Remote::parse(&format!("{host}:/data/")).unwrap();
            assert_eq!(remote.to_string(), format!("{host}:/data"));
        }
    }
}
