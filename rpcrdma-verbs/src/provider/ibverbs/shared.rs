//! Receive queues that several queue pairs share.

#![allow(unsafe_code, reason = "posting is a promise about memory, which is the caller's")]

use std::rc::Rc;

use super::hub::{Hub, Shelf};
use super::ids::Kind;
use super::outgoing::{Outgoing, receive_fits};
use super::sys;
use crate::provider::{Cause, Receive, Result, Slice, VerbError};

/// A receive queue that several queue pairs share.
pub(super) struct Shared {
    pub(super) hub: Rc<Hub>,
    device: Rc<sys::SharedReceives>,
    shelf: Rc<Shelf>,
    number: u32,
}

impl Shared {
    pub(super) fn new(hub: &Rc<Hub>, entries: u32) -> Result<Rc<Self>> {
        let slices = u32::try_from(hub.capabilities.slices).unwrap_or(1);
        let device = Rc::new(sys::SharedReceives::new(&hub.domain, entries, slices)?);
        let (shelf, number) = (Shelf::new(entries), hub.next_number());
        hub.add_shared(number, &shelf);
        Ok(Rc::new(Self { hub: hub.clone(), device, shelf, number }))
    }

    pub(super) fn device(&self) -> &Rc<sys::SharedReceives> {
        &self.device
    }

    /// Posts receives.
    ///
    /// # Safety
    /// As [`crate::provider::SharedReceives::post`].
    pub(super) unsafe fn post(&self, receives: &[Receive], slices: &[Slice]) -> Result<()> {
        let error = |cause| VerbError { verb: "post_receives", cause };
        if !receives.iter().all(|receive| receive_fits(receive, slices, self.hub.capabilities.slices)) {
            return Err(error(Cause::Limit));
        }
        if receives.len() > self.shelf.room() {
            return Err(error(Cause::Full));
        }
        if receives.is_empty() {
            return Ok(());
        }
        let Outgoing { receives: list, places, .. } = &mut *self.hub.outgoing.borrow_mut();
        places.clear();
        list.fill(receives, slices, |receive| {
            let at = self.shelf.put(receive.id);
            places.push(at);
            Kind::Shared(self.number).id(at)
        });
        // SAFETY: the caller's promise.
        match unsafe { self.device.post(list, slices) } {
            Ok(()) => Ok(()),
            Err(refused) if refused.whole => {
                places.drain(..).rev().for_each(|at| {
                    self.shelf.take(at);
                });
                Err(refused.error)
            }
            Err(refused) => {
                // Which of them it has is not known: all keep their memory until the queue goes.
                tracing::error!(error = %refused.error, "a shared queue has taken a list of receives in part");
                Ok(())
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.hub.remove_shared(self.number);
    }
}
