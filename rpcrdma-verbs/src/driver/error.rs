//! What a driver can't do.

use std::fmt;

use rpcrdma_proto::connection::ConfigError;

use super::{ALIGNMENT, MOST};
use crate::memory::MemoryError;
use crate::provider::VerbError;

/// Why a driver can't do something.
#[derive(Debug)]
#[non_exhaustive]
pub enum DriverError {
    /// The settings make no sense.
    Config(ConfigError),
    /// The device refuses.
    Device(VerbError),
    /// There is no memory.
    Memory(MemoryError),
    /// The connection has ended for good, or never was.
    Gone,
    /// Receives can't be shared: there are connections already, or the device has no RNR retry.
    NotShared,
    /// Receives are shared, and have another size than these settings.
    SharedSize {
        /// Octets of each.
        size: u32,
    },
    /// Receives are shared, and those of one segment: not with these settings.
    SharedStructure,
    /// A receive buffer has more segments than the device takes.
    Segments {
        /// What it takes.
        most: usize,
    },
    /// A segment of a receive buffer is to be aligned more than a buffer of its length is.
    Alignment,
    /// As many connections as one driver can have.
    Full,
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Gone => f.write_str("the connection has ended for good"),
            Self::NotShared => f.write_str(
                "receives can be shared before there are connections, and on a device with RNR retry: not on this one now",
            ),
            Self::SharedSize { size } => {
                write!(f, "receives are shared, of {size} octets each: receive_size and receive_size_most must be that")
            }
            Self::SharedStructure => {
                f.write_str("receives are shared, of one segment each: rtr.structure must be None, or share none")
            }
            Self::Segments { most } => write!(f, "a receive buffer can have {most} segments on this device"),
            Self::Alignment => write!(
                f,
                "a segment is aligned to its length, if that is a power of four from 256 on, and to {ALIGNMENT} octets at most"
            ),
            Self::Full => write!(f, "a driver has {MOST} connections at most: use another for more"),
        }
    }
}

impl std::error::Error for DriverError {}

impl From<ConfigError> for DriverError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<VerbError> for DriverError {
    fn from(error: VerbError) -> Self {
        Self::Device(error)
    }
}

impl From<MemoryError> for DriverError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}
