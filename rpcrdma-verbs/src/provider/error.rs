//! The errors of verbs. The failure of a posted request is no error of a verb: its completion has a
//! `Status`. `conformance` compares causes, so that all providers use the same one for the same
//! mistake. `Hinted` is made where the reason is known; callers get the error of the system by
//! `cause`. It is a part of the text, and so not the `source`, which reports print as well.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// The failure of a verb.
#[derive(Debug)]
pub struct VerbError {
    /// The name of the verb.
    pub verb: &'static str,
    /// The cause.
    pub cause: Cause,
}

/// The cause of the failure of a verb.
#[derive(Debug)]
#[non_exhaustive]
pub enum Cause {
    /// An error of the system.
    System(io::Error),
    /// An error of the system, with its usual reason.
    Hinted(io::Error, Box<str>),
    /// There is no RDMA device with this name, or none at all. The list contains the existing ones.
    NoDevice(Option<String>, Vec<String>),
    /// No port of the device is active.
    PortDown(String),
    /// The address is reached through another device.
    OtherDevice {
        /// The address.
        address: SocketAddr,
        /// The device through which it is reached.
        device: String,
    },
    /// The queue pair or connection is in the wrong state.
    State,
    /// A queue is full.
    Full,
    /// The request has more entries, bytes or reads than the device supports.
    Limit,
    /// Nothing listens at the address.
    Unreachable(SocketAddr),
    /// The address is in use.
    AddressInUse(SocketAddr),
    /// The private data is longer than the connection manager supports.
    PrivateData,
    /// A completion queue has overrun because it is too small.
    Overrun,
    /// An object of another provider is used.
    OtherProvider,
    /// The program was built without the provider of this device.
    NotBuilt(String),
}

impl fmt::Display for VerbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.verb)?;
        match &self.cause {
            Cause::System(error) => error.fmt(f),
            Cause::Hinted(error, reason) => write!(f, "{error}: {reason}"),
            Cause::NoDevice(name, found) => no_device(f, name.as_deref(), found),
            Cause::PortDown(device) => {
                write!(
                    f,
                    "no port of {device} is active: is its cable plugged, its network interface up?"
                )
            }
            Cause::OtherDevice { address, device } => {
                write!(f, "{address} is reached through the device {device}")
            }
            Cause::State => f.write_str("wrong state"),
            Cause::Full => f.write_str("the queue is full"),
            Cause::Limit => f.write_str("exceeds a limit of the device"),
            Cause::Unreachable(address) => write!(f, "nothing listens at {address}"),
            Cause::AddressInUse(address) => write!(f, "{address} is in use"),
            Cause::PrivateData => f.write_str("too much private data"),
            Cause::Overrun => f.write_str("the completion queue has overrun"),
            Cause::OtherProvider => f.write_str("this is another provider's"),
            Cause::NotBuilt(device) => write!(
                f,
                "{device}: this program was built without RDMA devices: build it with the feature \
                ibverbs"
            ),
        }
    }
}

fn no_device(f: &mut fmt::Formatter<'_>, name: Option<&str>, found: &[String]) -> fmt::Result {
    match (name, found) {
        (Some(name), []) => write!(f, "there is no RDMA device {name}, and no other"),
        (Some(name), found) => write!(
            f,
            "there is no RDMA device {name}, only {}",
            found.join(", ")
        ),
        (None, _) => f.write_str("there is no RDMA device"),
    }
}

impl std::error::Error for VerbError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Cause::System(error) | Cause::Hinted(error, _) = &self.cause {
            error.source()
        } else {
            None
        }
    }
}

/// The result of a verb.
pub type Result<T> = std::result::Result<T, VerbError>;
