//! Registration with the rpcbind of this host (RFC 1833).
//!
//! A server does not need rpcbind: clients that know its ports do not ask for them. With rpcbind,
//! clients find the ports, and `showmount` and `rpcinfo` list the server. This module falls back
//! from version 4 to version 2, and undoes a partial registration. `exchange` makes each call, and
//! blocks the thread: an asynchronous program calls these methods on a thread that may block.

mod entry;
mod exchange;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::protocol::{pmap, rpcb};
pub use entry::{RpcbindEntry, RpcbindTransport};
use exchange::{CallFailure, Procedure, call};

use oncrpc::xdr::{Text, TextBuf};

const PROGRAM: u32 = 100_000;
const SET: u32 = 1;
const UNSET: u32 = 2;
const GETADDR: u32 = 3;

/// The error of a registration.
#[derive(Debug)]
#[non_exhaustive]
pub enum RpcbindError {
    /// No rpcbind is reachable, or it does not reply.
    Unreachable(io::Error),
    /// The rpcbind refuses: another server has registered the program at this address, or the
    /// caller may not register services.
    Refused {
        /// The refused entry.
        entry: RpcbindEntry,
        /// The universal address that is registered, if any.
        registered: Option<String>,
    },
    /// The reply violates RFC 1833, or none of the versions 2 to 4 is supported.
    Protocol(&'static str),
}

impl fmt::Display for RpcbindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(f, "no rpcbind can be reached: {error}"),
            Self::Refused { entry, registered } => {
                write!(f, "rpcbind does not register {entry}")?;
                match registered {
                    Some(address) => write!(f, ", which is registered at {address}"),
                    None => Ok(()),
                }
            }
            Self::Protocol(what) => write!(f, "rpcbind: {what}"),
        }
    }
}

impl std::error::Error for RpcbindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The error is a part of the text, and so not the source, which reports print as well.
            Self::Unreachable(error) => error.source(),
            _ => None,
        }
    }
}

impl From<CallFailure> for RpcbindError {
    fn from(failure: CallFailure) -> Self {
        match failure {
            CallFailure::Io(error) => Self::Unreachable(error),
            CallFailure::Unsupported => Self::Protocol("none of the versions 2 to 4 is supported"),
            CallFailure::Malformed => Self::Protocol("malformed reply"),
            CallFailure::Rejected => Self::Protocol("the call is rejected"),
        }
    }
}

/// The address where an rpcbind listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RpcbindAddress {
    #[cfg_attr(not(unix), allow(dead_code, reason = "there are no such sockets"))]
    Socket(PathBuf),
    Tcp(SocketAddr),
}

/// The rpcbind of this host. Its methods block: they try each address with each version of rpcbind,
/// and give up a connection, a write or a read after 5 seconds. With tokio, call them in
/// `tokio::task::spawn_blocking`.
///
/// ```no_run
/// use rpcrdma_nfs::{Rpcbind, RpcbindEntry, RpcbindTransport};
///
/// let nfs = RpcbindEntry {
///     program: 100_003,
///     version: 3,
///     transport: RpcbindTransport::Tcp,
///     address: ([0, 0, 0, 0], 2049).into(),
/// };
/// let rpcbind = Rpcbind::of_host();
/// rpcbind.register(&[nfs])?;
/// // .. serve ..
/// rpcbind.remove(&[nfs]);
/// # Ok::<(), rpcrdma_nfs::RpcbindError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rpcbind {
    addresses: Vec<RpcbindAddress>,
}

/// Returns true for the end of a timeout: std returns either kind from a read.
fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

impl Rpcbind {
    /// Uses the rpcbind at its socket `/run/rpcbind.sock`, where it learns the user of the caller,
    /// or at port 111 of the loopback address.
    #[must_use]
    pub fn of_host() -> Self {
        let sockets = ["/run/rpcbind.sock", "/var/run/rpcbind.sock"];
        let sockets = sockets.map(|path| RpcbindAddress::Socket(path.into()));
        let tcp = RpcbindAddress::Tcp((Ipv4Addr::LOCALHOST, 111).into());
        Self {
            addresses: sockets.into_iter().chain([tcp]).collect(),
        }
    }

    /// Uses the rpcbind at an address over TCP. Most accept registrations only through the loopback
    /// address and from privileged ports.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self {
            addresses: vec![RpcbindAddress::Tcp(address)],
        }
    }

    /// Registers all entries, or none. An entry that is already registered with the same address is
    /// kept, so that a killed server can be started again.
    ///
    /// # Errors
    /// See [`RpcbindError`].
    pub fn register(&self, entries: &[RpcbindEntry]) -> Result<(), RpcbindError> {
        for (done, entry) in entries.iter().enumerate() {
            if let Err(error) = self.set(entry) {
                self.remove(entries.get(..done).unwrap_or_default());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes registered entries. If one cannot be removed, it remains: its port then refuses
    /// connections of clients. Gives up if rpcbind does not reply.
    pub fn remove(&self, entries: &[RpcbindEntry]) {
        for entry in entries {
            // After a timeout, each other entry would take as long.
            if matches!(self.changed(UNSET, entry), Err(CallFailure::Io(error)) if is_timeout(&error))
            {
                return;
            }
        }
    }

    fn set(&self, entry: &RpcbindEntry) -> Result<(), RpcbindError> {
        let is_set = self.changed(SET, entry);
        if matches!(is_set, Ok(true)) {
            return Ok(());
        }
        let registered = self.registered(entry).ok().flatten();
        if let Err(failure) = is_set {
            // If only the reply was lost, the entry is registered.
            if registered == Some(entry.universal_address()) {
                self.remove(std::slice::from_ref(entry));
            }
            return Err(failure.into());
        }
        Err(RpcbindError::Refused {
            entry: *entry,
            registered,
        })
    }

    /// Calls SET or UNSET of the highest version that rpcbind supports. Returns its answer.
    fn changed(&self, procedure: u32, entry: &RpcbindEntry) -> Result<bool, CallFailure> {
        let address = entry.universal_address();
        let mapping = rpcb::Rpcb {
            prog: entry.program,
            vers: entry.version,
            netid: Text::new(entry.netid()).unwrap_or_default(),
            addr: Text::new(&address).unwrap_or_default(),
            owner: Text::default(),
        };
        for version in [4, 3] {
            let procedure = Procedure {
                version,
                number: procedure,
            };
            match call(&self.addresses, procedure, &mapping) {
                Err(CallFailure::Unsupported) => {}
                done => return done,
            }
        }
        // The port mapper supports only TCP and UDP over IPv4.
        let Some(port) = entry.port_of_tcp() else {
            return Err(CallFailure::Unsupported);
        };
        let mapping = pmap::Mapping {
            prog: entry.program,
            vers: entry.version,
            prot: pmap::IPPROTO_TCP,
            port: port.into(),
        };
        let procedure = Procedure {
            version: 2,
            number: procedure,
        };
        call(&self.addresses, procedure, &mapping)
    }

    /// Returns the universal address at which a program is registered.
    fn registered(&self, entry: &RpcbindEntry) -> Result<Option<String>, CallFailure> {
        let mapping = rpcb::Rpcb {
            prog: entry.program,
            vers: entry.version,
            netid: Text::new(entry.netid()).unwrap_or_default(),
            addr: Text::default(),
            owner: Text::default(),
        };
        let procedure = Procedure {
            version: 3,
            number: GETADDR,
        };
        let address: TextBuf = call(&self.addresses, procedure, &mapping)?;
        let address = String::from_utf8_lossy(address.as_bytes()).into_owned();
        Ok(Some(address).filter(|address| !address.is_empty()))
    }
}
