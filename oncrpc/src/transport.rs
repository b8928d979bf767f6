//! Transports: they send calls to a server and return its replies.

use std::future::Future;
use std::sync::Arc;

use crate::error::CallError;
use crate::message::{Body, ReceivedMessage};
use crate::request::Request;

/// A transport to one server. Generated clients are generic over it.
///
/// Calls of an [`AsyncTransport`] are awaited. Those of a [`LocalTransport`] are begun on a driver
/// that its user drives.
pub trait Transport {
    /// Returns the name or address of the server.
    fn peer(&self) -> Arc<str>;

    /// Returns an empty body for the arguments of a call, which may reuse the memory of an earlier
    /// one.
    fn body(&self) -> Body {
        Body::new()
    }
}

/// A transport that runs elsewhere, such as a [`Channel`](crate::Channel).
pub trait AsyncTransport: Transport {
    /// A call in flight. It resolves to the whole reply, with its RPC header. If it is dropped, the
    /// call is cancelled.
    type Call: Future<Output = Result<ReceivedMessage, CallError>> + Unpin;

    /// Begins a call.
    fn call(&self, request: Request) -> Self::Call;
}

/// A transport that its user drives, on one thread: without locks, without tasks.
pub trait LocalTransport: Transport {
    /// The driver of the user.
    type Driver;

    /// Begins a call, and returns its XID.
    ///
    /// # Errors
    /// The call cannot begin. It is not executed.
    fn begin(&self, driver: &mut Self::Driver, request: Request) -> Result<u32, CallError>;
}

/// Implements the traits for references to transports.
macro_rules! by_reference {
    ($($reference:ty),*) => {$(
        impl<T: Transport + ?Sized> Transport for $reference {
            fn peer(&self) -> Arc<str> {
                (**self).peer()
            }

            fn body(&self) -> Body {
                (**self).body()
            }
        }

        impl<T: AsyncTransport + ?Sized> AsyncTransport for $reference {
            type Call = T::Call;

            fn call(&self, request: Request) -> T::Call {
                (**self).call(request)
            }
        }

        impl<T: LocalTransport + ?Sized> LocalTransport for $reference {
            type Driver = T::Driver;

            fn begin(&self, driver: &mut T::Driver, request: Request) -> Result<u32, CallError> {
                (**self).begin(driver, request)
            }
        }
    )*};
}
by_reference!(&T, Arc<T>);
