//! The time without a connection.
//!
//! `rpc_transport::client` calls `failed` after each closed connection or failed attempt, `end`
//! when a connection is established, and `due` in each turn without a connection. `due` must see
//! each turn, since the outage begins when there is a call, and is reset when there is none. The
//! session decides when to connect again.

use std::sync::Arc;
use std::time::Duration;

use oncrpc::CallErrorKind;

use crate::driver::ConnectError;

/// The time without a connection, while there are calls.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// The start, in the driver's time.
    since: Option<u64>,
    cause: Option<Arc<ConnectError>>,
}

impl Outage {
    /// Records the error of the last attempt to connect.
    pub(super) fn failed(&mut self, cause: Option<ConnectError>) {
        self.cause = cause.map(Arc::new).or(self.cause.take());
    }

    /// Ends the outage: a connection is established.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Returns the error of the last attempt to connect.
    pub(super) fn cause(&self) -> Option<String> {
        self.cause.as_ref().map(ToString::to_string)
    }

    /// Returns the time at which calls fail for lack of a connection. Without calls there is none,
    /// and the outage begins with the next call.
    pub(super) fn due(&mut self, has_calls: bool, now: u64, limit: Duration) -> Option<u64> {
        if !has_calls {
            self.since = None;
            return None;
        }
        let limit = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        Some(self.since.get_or_insert(now).saturating_add(limit))
    }

    /// Returns the error of the calls that fail now. The outage begins again with the next call.
    pub(super) fn fail(&mut self) -> CallErrorKind {
        self.since = None;
        let none = || CallErrorKind::Connect(Arc::new(ConnectError::Unanswered));
        self.error().unwrap_or_else(none)
    }

    /// Returns the error of calls that do not wait for a connection, if an attempt has failed.
    pub(super) fn error(&self) -> Option<CallErrorKind> {
        let cause = self.cause.clone()?;
        Some(CallErrorKind::Connect(cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_with_a_call() {
        let (mut outage, limit) = (Outage::default(), Duration::from_micros(100));
        assert_eq!(outage.due(false, 5, limit), None);
        assert_eq!(outage.due(true, 10, limit), Some(110));
        assert_eq!(outage.due(true, 50, limit), Some(110));
        assert_eq!(outage.due(false, 60, limit), None);
        assert_eq!(outage.due(true, 70, limit), Some(170));
        assert_eq!(
            outage.fail().to_string(),
            "can't connect: the server does not answer"
        );
        outage.failed(Some(ConnectError::Rejected(None)));
        outage.failed(None);
        assert_eq!(
            outage.fail().to_string(),
            "can't connect: the server rejected the connection"
        );
        outage.end();
        assert_eq!(outage.cause(), None);
    }
}
