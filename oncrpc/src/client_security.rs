//! Security flavors at the client, such as RPCSEC_GSS (RFC 2203).
//!
//! A flavor fills in the credential and the verifier of each call, checks the verifier of each
//! reply, and may encrypt arguments and results. [`Credentials`](crate::Credentials) suffice for
//! flavors that only identify the caller.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::error::CallErrorKind;
use crate::message::Body;
use crate::protocol::OpaqueAuth;

/// The error of a security flavor: a call or a reply cannot be protected, or does not match its
/// verifier.
pub type SecurityError = Box<dyn StdError + Send + Sync>;

/// A security flavor at the client, such as a context of RPCSEC_GSS. [`CallOptions::security`] sets
/// it.
///
/// [`CallOptions::security`]: crate::CallOptions::security
pub trait ClientSecurity: fmt::Debug + Send + Sync {
    /// Begins a call.
    fn begin(&self) -> Arc<dyn CallSecurity>;
}

/// The protection of one call and its reply.
pub trait CallSecurity: fmt::Debug + Send + Sync {
    /// Appends the credential and the verifier to `header`, which ends with the number of the
    /// procedure. Returns the protected arguments; `None` if the arguments are sent unchanged.
    ///
    /// A transport calls this for each transmission, since each has a new sequence number in
    /// RPCSEC_GSS (RFC 2203, section 5.3.3.1).
    ///
    /// # Errors
    /// The call cannot be protected. It is not sent, or not sent again.
    fn seal(&self, header: &mut Vec<u8>, args: &Body) -> Result<Option<Body>, SecurityError>;

    /// Checks the verifier of a reply that is not denied. Returns its results in plain form; `None`
    /// if they are in plain form already. There are results only if `is_success`.
    ///
    /// # Errors
    /// The reply is invalid.
    fn open(
        &self,
        verifier: &OpaqueAuth<'_>,
        results: &[u8],
        is_success: bool,
    ) -> Result<Option<Vec<u8>>, SecurityError>;
}

/// A transport without protected calls requested the header of a protected call.
#[derive(Debug)]
struct Unsupported;

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the transport carries no protected calls")
    }
}

impl StdError for Unsupported {}

/// Returns the error of a transport that does not support protected calls.
pub(crate) fn unsupported() -> CallErrorKind {
    CallErrorKind::Security(Arc::new(Unsupported))
}
