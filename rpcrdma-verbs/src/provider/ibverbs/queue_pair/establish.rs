//! The steps of a queue pair's connection, each of them under the lock of the queue pair. `manager`
//! calls them in the order of events: `begin`, `connect` and `respond` at the initiator,
//! `initialize` and `accept` at the acceptor, and `establish` at either.
//!
//! The queue pair goes to INIT, RTR and RTS; on iWARP the kernel makes the latter two transitions.
//! The acceptor can post as soon as it has accepted (`State::Ready`), before the event
//! `Established`.

use ibverbs_sys::{ibv_access_flags, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_state};

use super::super::connection::Phase;
use super::super::outstanding::CompletionTarget as _;
use super::super::sys::{self, Parameters};
use super::{QpInner, QpState, State};
use crate::provider::{Cause, ConnectionEvent, Result, VerbError};

/// The attribute bits that user space may set. Old kernels return others.
const KNOWN_MASK: u32 = (1 << 21) - 1;

/// The acknowledgement timeout: 4 us times 2 to this power. A dead peer is detected after slightly
/// more than eight timeouts; the connection manager's default would take half a minute.
const TIMEOUT: u8 = 17;

/// The peer may read and write memory for which it has keys.
const PEER_ACCESS: u32 =
    ibv_access_flags::IBV_ACCESS_REMOTE_READ.0 | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;

impl QpState {
    fn modify(&self, mut attributes: ibv_qp_attr, mask: u32) -> Result<()> {
        self.device("ibv_modify_qp")?
            .modify(&mut attributes, mask & KNOWN_MASK)
    }
}

impl QpInner {
    /// Moves to the INIT state before the route is known, so that receives can be posted.
    pub(in super::super) fn begin(&self) -> Result<()> {
        use ibv_qp_attr_mask as mask;
        let attributes = ibv_qp_attr {
            qp_state: ibv_qp_state::IBV_QPS_INIT,
            qp_access_flags: PEER_ACCESS,
            port_num: self.device_state.quirks.port,
            ..Default::default()
        };
        let common = mask::IBV_QP_STATE | mask::IBV_QP_ACCESS_FLAGS;
        let infiniband = mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT;
        self.lock().modify(
            attributes,
            if self.device_state.quirks.iwarp {
                common.0
            } else {
                (common | infiniband).0
            },
        )
    }

    /// Moves to the INIT state with the attributes of the connection.
    pub(in super::super) fn initialize(&self) -> Result<()> {
        self.initialize_locked(&self.lock())
    }

    fn initialize_locked(&self, state: &QpState) -> Result<()> {
        let (mut attributes, mask) = self.connection.id.attributes(ibv_qp_state::IBV_QPS_INIT)?;
        attributes.qp_access_flags = PEER_ACCESS;
        state.modify(attributes, mask | ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS.0)
    }

    /// Moves to the RTS state. `reads` contains the numbers of RDMA Reads of the peer and of this
    /// end, unless the connection knows them.
    fn modify_to_rts(&self, state: &QpState, reads: Option<(u8, u8)>) -> Result<()> {
        // For iWARP the kernel does this.
        if self.device_state.quirks.iwarp {
            return state.device("ibv_modify_qp").map(drop);
        }
        let (mut attributes, mask) = self.connection.id.attributes(ibv_qp_state::IBV_QPS_RTR)?;
        if let Some((theirs, _)) = reads {
            attributes.max_dest_rd_atomic = theirs;
        }
        state.modify(attributes, mask)?;
        let (mut attributes, mask) = self.connection.id.attributes(ibv_qp_state::IBV_QPS_RTS)?;
        if let Some((_, ours)) = reads {
            attributes.max_rd_atomic = ours;
        }
        attributes.timeout = attributes.timeout.min(TIMEOUT);
        state.modify(attributes, mask)
    }

    fn parameters<'a>(
        &self,
        state: &QpState,
        reads: (u8, u8),
        private_data: &'a [u8],
    ) -> Parameters<'a> {
        let device = state.device.as_ref();
        Parameters {
            private_data,
            reads,
            rnr_retry: self.config.rnr_retry,
            shared: self.shares_receives,
            pair: device.map_or(0, sys::QueuePair::number),
        }
    }

    fn reads(&self) -> u8 {
        u8::try_from(self.config.reads).unwrap_or(u8::MAX)
    }

    /// Sends the connect request.
    pub(in super::super) fn connect(&self) -> Result<()> {
        let state = self.lock();
        self.initialize_locked(&state)?;
        // Linux's server rejects clients that support no RDMA Reads.
        let reads = self.reads().max(1);
        let parameters = self.parameters(&state, (reads, reads), &self.private_data);
        self.connection.id.connect(&parameters)?;
        self.connection.set_phase(Phase::Requesting);
        Ok(())
    }

    /// Answers the acceptance of the peer, and reports that the connection is established.
    pub(in super::super) fn respond(&self, private_data: Box<[u8]>) -> Result<()> {
        let mut state = self.lock();
        self.modify_to_rts(&state, None)?;
        self.connection.id.establish()?;
        self.establish_locked(&mut state, private_data);
        Ok(())
    }

    /// Reports that the connection is established, unless it has ended.
    pub(in super::super) fn establish(&self, private_data: Box<[u8]>) {
        self.establish_locked(&mut self.lock(), private_data);
    }

    fn establish_locked(&self, state: &mut QpState, private_data: Box<[u8]>) {
        if state.state == State::Ended {
            return;
        }
        self.connection.set_phase(Phase::Established);
        state.state = State::Ready;
        let queue_pair = self.number;
        self.report(
            state,
            ConnectionEvent::Established {
                queue_pair,
                private_data,
            },
        );
    }

    /// Accepts the connect request of the peer.
    pub(in super::super) fn accept(&self, private_data: &[u8]) -> Result<()> {
        let mut state = self.lock();
        if state.state != State::Connecting {
            return Err(VerbError {
                verb: "accept",
                cause: Cause::State,
            });
        }
        let (theirs, ours) = self.connection.offered;
        let reads = (theirs.min(self.reads()), ours.min(self.reads()));
        self.modify_to_rts(&state, Some(reads))?;
        let parameters = self.parameters(&state, reads, private_data);
        self.connection.id.accept(&parameters)?;
        self.connection.set_phase(Phase::Accepted);
        state.state = State::Ready;
        Ok(())
    }

    /// Reports that the connection was not established.
    pub(in super::super) fn connect_failed(
        &self,
        rejected: bool,
        private_data: Box<[u8]>,
        error: Option<VerbError>,
    ) {
        self.end();
        self.report(
            &self.lock(),
            ConnectionEvent::Failed {
                queue_pair: self.number,
                rejected,
                private_data,
                error,
            },
        );
    }
}
