//! The connection manager of the software fabric: it creates queue pairs, and checks their settings
//! against the capabilities of the device. `Fabric` has the table of listeners, and `qp_pair` the
//! phases of a connection.
//!
//! `connect` pushes the request to the event queue of the listener at once. An address without a
//! listener is reported by a later event, as on a device, and not by the result of `connect`. The
//! queue pair of `connect` is side 0 of its `QpPair`, and that of `prepare` side 1. `accept` takes
//! only the queue pair that `prepare` returned for the same request. A request that is dropped is
//! rejected, also one that `accept` could not establish.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use super::qp_pair::{QpPair, QpState, SoftwareConnectRequest};
use super::{Fabric, SoftwareDevice, SoftwareQueuePair};
use crate::provider::common::events::EventQueue;
use crate::provider::common::receives::ReceiveQueue;
use crate::provider::common::wakeup::invalid;
use crate::provider::{
    self, Cause, ConnectionEvent, MAX_PRIVATE_DATA, QueuePairConfig, Queues, Result, VerbError,
    check_private_data,
};

/// The connection manager of the software fabric.
#[derive(Debug)]
pub struct SoftwareConnectionManager {
    device: SoftwareDevice,
    events: Arc<EventQueue<SoftwareConnectRequest>>,
    listening: Vec<SocketAddr>,
}

impl SoftwareConnectionManager {
    pub(super) fn new(device: SoftwareDevice) -> Result<Self> {
        Ok(Self {
            device,
            events: Arc::new(EventQueue::new()?),
            listening: Vec::new(),
        })
    }

    /// Checks the settings of a queue pair, and creates its state, which is not connected.
    fn new_state(
        &self,
        verb: &'static str,
        config: &QueuePairConfig,
        queues: Queues<'_, SoftwareDevice>,
    ) -> Result<QpState> {
        let capabilities = &self.device.capabilities;
        if config.reads > capabilities.max_reads || (config.rnr_retry && !capabilities.rnr_retry) {
            return Err(VerbError {
                verb,
                cause: Cause::Limit,
            });
        }
        let receives = match queues.receives {
            Some(shared) if !shared.0.is_of(&self.device.domain) => {
                return Err(invalid(verb));
            }
            Some(shared) => ReceiveQueue::Shared(shared.0.clone()),
            None => {
                let most = config.receives as usize;
                ReceiveQueue::Own {
                    queue: VecDeque::with_capacity(most),
                    most,
                }
            }
        };
        let (number, completions) = (
            self.device.fabric.next_number(),
            queues.completions.shared.clone(),
        );
        let device = (self.device.domain.clone(), self.device.capabilities.clone());
        Ok(QpState::new(
            number,
            device,
            completions,
            receives,
            self.events.clone(),
            config,
        ))
    }
}

impl Drop for SoftwareConnectionManager {
    fn drop(&mut self) {
        for address in &self.listening {
            self.device.fabric.unlisten(address);
        }
        // Dropping the events rejects unpolled requests.
        self.events.clear();
    }
}

impl provider::ConnectionManager<SoftwareDevice> for SoftwareConnectionManager {
    type Request = SoftwareConnectRequest;

    fn listen(&mut self, address: SocketAddr) -> Result<SocketAddr> {
        let address = self.device.fabric.listen(address, &self.events)?;
        self.listening.push(address);
        Ok(address)
    }

    fn unlisten(&mut self, address: SocketAddr) {
        if let Some(at) = self.listening.iter().position(|known| *known == address) {
            self.listening.swap_remove(at);
            self.device.fabric.unlisten(&address);
        }
    }

    fn connect(
        &mut self,
        address: SocketAddr,
        config: &QueuePairConfig,
        queues: Queues<'_, SoftwareDevice>,
        private_data: &[u8],
    ) -> Result<SoftwareQueuePair> {
        check_private_data("connect", private_data)?;
        let fabric: &Arc<Fabric> = &self.device.fabric;
        let state = self.new_state("connect", config, queues)?;
        let number = state.number;
        let link = QpPair::new(fabric.clone(), state);
        fabric.attach(&link);
        match fabric.listener(&address) {
            Some(listener) => listener.push(ConnectionEvent::Requested {
                request: SoftwareConnectRequest::new(link.clone()),
                private_data: private_data.into(),
                peer: fabric.ephemeral(),
                listener: address,
            }),
            // As on a device, the failure is reported later.
            None => link.refuse(|first| first.unreachable(address)),
        }
        Ok(SoftwareQueuePair {
            link,
            side: 0,
            number,
            domain: self.device.domain.clone(),
            ended: OnceLock::new(),
        })
    }

    fn prepare(
        &mut self,
        request: &SoftwareConnectRequest,
        config: &QueuePairConfig,
        queues: Queues<'_, SoftwareDevice>,
    ) -> Result<SoftwareQueuePair> {
        let state = self.new_state("prepare", config, queues)?;
        let number = state.number;
        if !request.link.join(state) {
            return Err(VerbError {
                verb: "prepare",
                cause: Cause::State,
            });
        }
        let (link, domain) = (request.link.clone(), self.device.domain.clone());
        Ok(SoftwareQueuePair {
            link,
            side: 1,
            number,
            domain,
            ended: OnceLock::new(),
        })
    }

    fn accept(
        &mut self,
        request: SoftwareConnectRequest,
        queue_pair: &SoftwareQueuePair,
        private_data: &[u8],
    ) -> Result<()> {
        check_private_data("accept", private_data)?;
        let prepared = Arc::ptr_eq(&queue_pair.link, &request.link) && queue_pair.side == 1;
        let established = prepared
            && request.link.establish(|first, second| {
                first.established(private_data);
                second.established(&[]);
            });
        if !established {
            return Err(VerbError {
                verb: "accept",
                cause: Cause::State,
            });
        }
        request.accepted();
        Ok(())
    }

    fn reject(&mut self, request: SoftwareConnectRequest, private_data: &[u8]) {
        request.reject(private_data.get(..MAX_PRIVATE_DATA).unwrap_or(private_data));
    }

    fn poll(&mut self) -> Option<ConnectionEvent<SoftwareConnectRequest>> {
        self.events.poll()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.events.descriptor()
    }
}
