//! Security flavors at the client's end: what RPCSEC_GSS (RFC 2203) needs there.
//!
//! A flavor fills in the credential and the verifier of each call, checks the verifier of each reply,
//! and may send arguments and results in a form of its own. [`Credentials`](crate::Credentials) are
//! enough for flavors that only say who calls.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::error::CallErrorKind;
use crate::message::Body;
use crate::protocol::OpaqueAuth;

/// Why a call or a reply can't be protected, or is not what its verifier says.
pub type SecurityError = Box<dyn StdError + Send + Sync>;

/// A security flavor at the client's end: a context of RPCSEC_GSS, say. [`CallOptions::security`]
/// gives it to calls.
///
/// [`CallOptions::security`]: crate::CallOptions::security
pub trait ClientSecurity: fmt::Debug + Send + Sync {
    /// Begins a call.
    fn begin(&self) -> Arc<dyn CallSecurity>;
}

/// What a security flavor does to one call and its reply.
pub trait CallSecurity: fmt::Debug + Send + Sync {
    /// Appends the credential and the verifier to `header`, which ends with the number of the
    /// procedure, and returns the arguments in the form in which they are sent; `None` if that is
    /// the form in which they are.
    ///
    /// It is done each time that the call is sent: a call of RPCSEC_GSS has a new sequence number
    /// each time (RFC 2203, section 5.3.3.1).
    ///
    /// # Errors
    /// Returns why the call can't be protected. It is not executed.
    fn seal(&self, header: &mut Vec<u8>, args: &Body) -> Result<Option<Body>, SecurityError>;

    /// Checks the verifier of a reply that is not denied, and returns its results in plain form;
    /// `None` if that is the form in which they are. There are none unless `is_success`.
    ///
    /// # Errors
    /// Returns what is wrong with the reply.
    fn open(
        &self,
        verifier: &OpaqueAuth<'_>,
        results: &[u8],
        is_success: bool,
    ) -> Result<Option<Vec<u8>>, SecurityError>;
}

/// A transport asked for the header of a protected call by itself.
#[derive(Debug)]
struct Unsupported;

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the transport carries no protected calls")
    }
}

impl StdError for Unsupported {}

/// Returns the error of a transport that carries no protected calls.
pub(crate) fn unsupported() -> CallErrorKind {
    CallErrorKind::Security(Arc::new(Unsupported))
}
