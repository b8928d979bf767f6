//! A connect request at the listener. It is answered once: by `accepted` after the manager has
//! established the connection, by `reject`, or by its drop, which rejects.

use std::sync::Arc;

use super::QpPair;

/// A connect request. Dropping it rejects the connection.
#[derive(Debug)]
pub struct SoftwareConnectRequest {
    pub(in crate::provider::software) link: Arc<QpPair>,
    is_answered: bool,
}

impl SoftwareConnectRequest {
    pub(in crate::provider::software) fn new(link: Arc<QpPair>) -> Self {
        Self {
            link,
            is_answered: false,
        }
    }

    /// Consumes the request after the connection was established, without rejecting it.
    pub(in crate::provider::software) fn accepted(mut self) {
        self.is_answered = true;
    }

    pub(in crate::provider::software) fn reject(mut self, private_data: &[u8]) {
        self.is_answered = true;
        self.link.reject(private_data);
    }
}

impl Drop for SoftwareConnectRequest {
    fn drop(&mut self) {
        if !self.is_answered {
            self.link.reject(&[]);
        }
    }
}
