//! The connection manager of the software fabric.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::completion::{invalid, quiet, wake, waker};
use super::link::{End, Link, Receives};
use super::{Fabric, QueuePair, SoftwareDevice};
use crate::provider::{self, Cause, ConnectionEvent, PRIVATE_DATA, QueuePairConfig, Queues, Result, VerbError};

/// The connection manager of the software fabric.
#[derive(Debug)]
pub struct Manager {
    device: SoftwareDevice,
    notices: Arc<Notices>,
    listening: Vec<SocketAddr>,
}

/// What a manager is to tell.
#[derive(Debug)]
pub(super) struct Notices {
    queue: Mutex<VecDeque<ConnectionEvent<Request>>>,
    /// Whether the queue may have something: so that whoever polls in vain takes no lock.
    some: AtomicBool,
    wake: OwnedFd,
}

impl Notices {
    pub(super) fn tell(&self, event: ConnectionEvent<Request>) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(event);
        self.some.store(true, Ordering::Release);
        wake(&self.wake);
    }
}

/// A request to connect. Dropping it rejects.
#[derive(Debug)]
pub struct Request {
    link: Arc<Link>,
    answered: bool,
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.answered {
            reject(&self.link, &[]);
        }
    }
}

fn reject(link: &Link, private_data: &[u8]) {
    link.refuse(|first| first.refused(private_data));
}

impl Manager {
    pub(super) fn new(device: SoftwareDevice) -> Result<Self> {
        let notices = Notices { queue: Mutex::default(), some: AtomicBool::new(false), wake: waker("manager")? };
        Ok(Self { device, notices: Arc::new(notices), listening: Vec::new() })
    }

    fn end(&self, verb: &'static str, config: &QueuePairConfig, queues: Queues<'_, SoftwareDevice>) -> Result<End> {
        let capabilities = &self.device.capabilities;
        if config.reads > capabilities.reads || (config.rnr_retry && !capabilities.rnr_retry) {
            return Err(VerbError { verb, cause: Cause::Limit });
        }
        let receives = match queues.receives {
            Some(shared) if !Arc::ptr_eq(&shared.domain, &self.device.domain) => return Err(invalid(verb)),
            Some(shared) => Receives::Shared(shared.clone()),
            None => {
                let most = config.receives as usize;
                Receives::Own { queue: VecDeque::with_capacity(most), most }
            }
        };
        let (number, completions) = (self.device.fabric.next_number(), queues.completions.shared.clone());
        let device = (self.device.domain.clone(), self.device.capabilities.clone());
        Ok(End::new(number, device, completions, receives, self.notices.clone(), config))
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        for address in &self.listening {
            self.device.fabric.unlisten(address);
        }
        // Requests that nobody takes are rejected as they are dropped; not under the lock, as they tell others.
        let left = std::mem::take(&mut *self.notices.queue.lock().unwrap_or_else(PoisonError::into_inner));
        drop(left);
    }
}

fn fits(verb: &'static str, private_data: &[u8]) -> Result<()> {
    if private_data.len() <= PRIVATE_DATA { Ok(()) } else { Err(VerbError { verb, cause: Cause::PrivateData }) }
}

impl provider::Manager<SoftwareDevice> for Manager {
    type Request = Request;

    fn listen(&mut self, address: SocketAddr) -> Result<SocketAddr> {
        let address = self.device.fabric.listen(address, &self.notices)?;
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
    ) -> Result<QueuePair> {
        fits("connect", private_data)?;
        let fabric: &Arc<Fabric> = &self.device.fabric;
        let end = self.end("connect", config, queues)?;
        let number = end.number;
        let link = Link::new(fabric.clone(), end);
        fabric.attach(&link);
        match fabric.listener(&address) {
            Some(listener) => listener.tell(ConnectionEvent::Requested {
                request: Request { link: link.clone(), answered: false },
                private_data: private_data.into(),
                peer: fabric.ephemeral(),
                listener: address,
            }),
            // As a device has it: the answer comes later.
            None => link.refuse(|first| first.failed(false, &[])),
        }
        Ok(QueuePair { link, side: 0, number })
    }

    fn prepare(
        &mut self,
        request: &Request,
        config: &QueuePairConfig,
        queues: Queues<'_, SoftwareDevice>,
    ) -> Result<QueuePair> {
        let end = self.end("prepare", config, queues)?;
        let number = end.number;
        if !request.link.join(end) {
            return Err(VerbError { verb: "prepare", cause: Cause::State });
        }
        Ok(QueuePair { link: request.link.clone(), side: 1, number })
    }

    fn accept(&mut self, mut request: Request, queue_pair: &QueuePair, private_data: &[u8]) -> Result<()> {
        fits("accept", private_data)?;
        let prepared = Arc::ptr_eq(&queue_pair.link, &request.link) && queue_pair.side == 1;
        let established = prepared
            && request.link.establish(|first, second| {
                first.established(private_data);
                second.established(&[]);
            });
        // One that could not be accepted is rejected as it is dropped.
        request.answered = established;
        if established { Ok(()) } else { Err(VerbError { verb: "accept", cause: Cause::State }) }
    }

    fn reject(&mut self, mut request: Request, private_data: &[u8]) {
        request.answered = true;
        reject(&request.link, private_data.get(..PRIVATE_DATA).unwrap_or(private_data));
    }

    fn poll(&mut self) -> Option<ConnectionEvent<Request>> {
        if !self.notices.some.load(Ordering::Acquire) {
            return None;
        }
        let mut queue = self.notices.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let event = queue.pop_front();
        if queue.is_empty() {
            self.notices.some.store(false, Ordering::Release);
            quiet(&self.notices.wake);
        }
        event
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.notices.wake.as_fd()
    }
}
