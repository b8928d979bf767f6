//! Which changes of our properties the peer may request.

use super::wire::PropertyDraft;
use crate::property::{BasicProperty, Decision, PropertyValues};
use crate::version::V2_INLINE_THRESHOLD;

/// The limits on changes that the peer requests.
pub(super) struct ChangeLimits {
    pub(super) draft: PropertyDraft,
    pub(super) can_invalidate: bool,
    /// The maximum size of our receive buffers in bytes.
    pub(super) most: u32,
    /// The size in bytes of the receives that are posted from now on.
    pub(super) posted: u32,
}

impl ChangeLimits {
    /// Decides about a requested change of `ours`.
    pub(super) fn decide(&self, wanted: BasicProperty, ours: &PropertyValues) -> Decision {
        match wanted {
            BasicProperty::ReceiveBufferSize(size) => {
                self.decide_size(size, ours.receive_buffer_size)
            }
            BasicProperty::RemoteInvalidation(on) if !on || self.can_invalidate => Decision::Accept,
            BasicProperty::RemoteInvalidation(_) => Decision::Reject,
            BasicProperty::BackwardSupport(support)
                if support.value() <= ours.backward_support.value() =>
            {
                Decision::Accept
            }
            BasicProperty::BackwardSupport(_) => Decision::Reject,
        }
    }

    // spec: xc2-4.3-i, xc2-4.3-j
    fn decide_size(&self, wanted: u32, ours: u32) -> Decision {
        let grown = wanted.min(self.most);
        match self.draft {
            _ if (V2_INLINE_THRESHOLD..=ours).contains(&wanted) => Decision::Accept,
            // A size below the default threshold gains nothing.
            PropertyDraft::Properties
                if wanted < V2_INLINE_THRESHOLD && ours > V2_INLINE_THRESHOLD =>
            {
                Decision::Substitute(BasicProperty::ReceiveBufferSize(V2_INLINE_THRESHOLD))
            }
            // ROPT_UPDPROP announces a larger size once no receives of the old size are posted.
            PropertyDraft::Properties => Decision::Reject,
            // ROPT_UPDXCH announces the larger size, and says that it completes the request.
            PropertyDraft::Characteristics if grown > ours && grown >= self.posted => {
                Decision::Defer
            }
            PropertyDraft::Characteristics => Decision::Reject,
        }
    }
}

#[cfg(test)]
mod tests;
