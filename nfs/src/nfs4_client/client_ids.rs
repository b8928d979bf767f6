//! The sequence numbers of CREATE_SESSION (RFC 8881, sections 18.35.3 and 18.36.4).
//!
//! EXCHANGE_ID returns the first number of a client ID that is not confirmed. For a confirmed one
//! the returned number has no meaning: the numbers go on from the CREATE_SESSIONs before. Entries
//! stay when their sessions end, since the server may keep the client ID; there is one for each
//! owner.

use std::collections::HashMap;
use std::sync::Arc;

use super::config::Nfs4Config;
use crate::nfs4::owned::ExchangeId4resok;
use crate::nfs4::{Clientid4, EXCHGID4_FLAG_CONFIRMED_R, Sequenceid4};

/// The client IDs of the sessions that were created, by their owners.
#[derive(Default, Debug)]
pub(super) struct ClientIds(HashMap<Arc<[u8]>, ClientId>);

#[derive(Debug)]
struct ClientId {
    id: Clientid4,
    /// The number of the next CREATE_SESSION.
    next: Sequenceid4,
}

impl ClientIds {
    /// Returns the number of the next CREATE_SESSION after an EXCHANGE_ID, or `None` if only others
    /// know it.
    pub(super) fn exchanged(
        &mut self,
        config: &Nfs4Config,
        client: &ExchangeId4resok,
    ) -> Option<Sequenceid4> {
        let (id, next) = (client.eir_clientid, client.eir_sequenceid);
        if client.eir_flags & EXCHGID4_FLAG_CONFIRMED_R == 0 {
            self.0.insert(config.owner.clone(), ClientId { id, next });
            return Some(next);
        }
        let known = self.0.get(&config.owner)?;
        (known.id == id).then_some(known.next)
    }

    /// Records that the server has used the number.
    pub(super) fn used(&mut self, config: &Nfs4Config) {
        if let Some(client) = self.0.get_mut(&config.owner) {
            client.next = client.next.wrapping_add(1);
        }
    }
}
