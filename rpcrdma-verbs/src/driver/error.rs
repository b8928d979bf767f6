//! The errors of a driver. An error that another one contains is a part of its text, and so not its
//! `source`, which reports print as well.

use std::fmt;

use rpcrdma_proto::connection::ConfigError;

use super::{MAX_ALIGNMENT, MAX_CONNECTIONS};
use crate::memory::MemoryError;
use crate::provider::VerbError;

/// The reason why a driver cannot do something.
#[derive(Debug)]
#[non_exhaustive]
pub enum DriverError {
    /// The settings are invalid.
    Config(ConfigError),
    /// The device refuses.
    Device(VerbError),
    /// No memory is available.
    Memory(MemoryError),
    /// The connection has ended or never existed.
    ConnectionGone,
    /// Receives cannot be shared: there are connections already, or the device has no RNR retry.
    CannotShareReceives,
    /// Receives are shared, with a size that differs from these settings.
    SharedReceiveSize {
        /// The size of the shared receives in bytes.
        size: u32,
    },
    /// Shared receives have one segment, and these settings require several.
    SharedReceiveStructure,
    /// A receive buffer has more segments than the device supports.
    TooManySegments {
        /// The maximum number of segments.
        max: usize,
    },
    /// A segment of a receive buffer requires a larger alignment than a buffer of its length has.
    Alignment,
    /// The driver has the maximum number of connections.
    TooManyConnections,
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::ConnectionGone => f.write_str("the connection has ended"),
            Self::CannotShareReceives => f.write_str(
                "receives can only be shared before there are connections, and on a device with \
                RNR retry",
            ),
            Self::SharedReceiveSize { size } => {
                write!(
                    f,
                    "shared receives have {size} bytes: receive_size must be equal, and max_receive_size no larger"
                )
            }
            Self::SharedReceiveStructure => {
                f.write_str("shared receives have one segment: rtr.structure must be None")
            }
            Self::TooManySegments { max } => write!(
                f,
                "a receive buffer can have at most {max} \
                segments on this device"
            ),
            Self::Alignment => write!(
                f,
                "the alignment of a segment must be a power of two, and exceed neither its length \
                nor {MAX_ALIGNMENT} bytes"
            ),
            Self::TooManyConnections => write!(
                f,
                "a driver has at most {} connections: use another driver for more",
                MAX_CONNECTIONS - 1
            ),
        }
    }
}

impl std::error::Error for DriverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => error.source(),
            Self::Device(error) => error.source(),
            Self::Memory(error) => error.source(),
            _ => None,
        }
    }
}

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

/// The reason why a connection could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The device or the system reported an error.
    Device(VerbError),
    /// The server rejected the connection; with its reason, if it gave one.
    Rejected(Option<String>),
    /// The server does not answer, or nothing is known of it.
    Unanswered,
    /// No address is known for the server's name.
    Unresolved(std::io::Error),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Rejected(None) => f.write_str("the server rejected the connection"),
            Self::Rejected(Some(reason)) => {
                write!(f, "the server rejected the connection: {reason}")
            }
            Self::Unanswered => f.write_str("the server does not answer"),
            Self::Unresolved(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device(error) => error.source(),
            Self::Unresolved(error) => error.source(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DriverError;

    #[test]
    fn texts_have_the_limits_that_are_checked() {
        let text = DriverError::TooManyConnections.to_string();
        let expected = "a driver has at most 65535 connections: use another driver for more";
        assert_eq!(text, expected);
        let text = DriverError::Alignment.to_string();
        let expected = "the alignment of a segment must be a power of two, and exceed neither its \
            length nor 4096 bytes";
        assert_eq!(text, expected);
    }
}
