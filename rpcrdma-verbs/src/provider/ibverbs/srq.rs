//! Shared receive queues. The ids of posted receives are in `ReceiveIds` of `outstanding`.
//!
//! An id is stored before its receive is posted, since the completion may arrive at once. It is
//! taken back only if the device has certainly taken nothing of the list; otherwise the memory is
//! kept until the end of the queue. After the last owner is gone, `ids` is closed, and late
//! completions are ignored.

#![allow(
    unsafe_code,
    reason = "posting is a promise about memory, which is the caller's"
)]

use std::sync::Arc;

use super::device_state::DeviceState;
use super::ids::Kind;
use super::outstanding::ReceiveIds;
use super::staging::{SendStaging, receive_fits, with_staging};
use super::sys;
use crate::provider::{Cause, Receive, Result, Sge, VerbError};

/// A shared receive queue.
pub(super) struct SrqInner {
    pub(super) device_state: Arc<DeviceState>,
    device: Arc<sys::SharedReceives>,
    pub(super) ids: Arc<ReceiveIds>,
    pub(super) number: u32,
}

impl SrqInner {
    pub(super) fn new(device_state: &Arc<DeviceState>, entries: u32) -> Result<Arc<Self>> {
        let slices = u32::try_from(device_state.capabilities.max_sge).unwrap_or(1);
        let device = Arc::new(sys::SharedReceives::new(
            &device_state.domain,
            entries,
            slices,
        )?);
        Ok(Arc::new(Self {
            device_state: device_state.clone(),
            device,
            ids: ReceiveIds::new(entries),
            number: device_state.next_number(),
        }))
    }

    pub(super) fn device(&self) -> &Arc<sys::SharedReceives> {
        &self.device
    }

    /// Posts receives.
    ///
    /// # Safety
    /// As for [`crate::provider::SharedReceives::post`].
    pub(super) unsafe fn post(&self, receives: &[Receive], slices: &[Sge]) -> Result<()> {
        let error = |cause| VerbError {
            verb: "post_receives",
            cause,
        };
        if !receives
            .iter()
            .all(|receive| receive_fits(receive, slices, self.device_state.capabilities.max_sge))
        {
            return Err(error(Cause::Limit));
        }
        if self.device.has_ended() {
            return Err(error(Cause::State));
        }
        if receives.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        with_staging(|staging| unsafe { self.post_staged(receives, slices, staging) })
    }

    /// Posts receives that fit.
    ///
    /// # Safety
    /// As for [`Self::post`].
    unsafe fn post_staged(
        &self,
        receives: &[Receive],
        slices: &[Sge],
        staging: &mut SendStaging,
    ) -> Result<()> {
        let SendStaging {
            receives: list,
            places,
            ..
        } = staging;
        if !self
            .ids
            .insert(receives.iter().map(|receive| receive.id), places)
        {
            return Err(VerbError {
                verb: "post_receives",
                cause: Cause::Full,
            });
        }
        let mut unused = places.iter();
        list.fill(receives, slices, |_| {
            Kind::Shared(self.number).id(unused.next().copied().unwrap_or(u32::MAX))
        });
        // SAFETY: the caller's promise.
        match unsafe { self.device.post(list, slices) } {
            Ok(()) => Ok(()),
            Err(refused) if refused.whole => {
                self.ids.take_back(places);
                Err(refused.error)
            }
            Err(refused) => {
                // It is unknown which of them the device has taken, so all memory is kept until the
                // queue ends.
                tracing::error!(error = %refused.error, "a shared queue has taken a list of \
                    receives in part");
                Ok(())
            }
        }
    }
}

impl SrqInner {
    /// Ends the queue. Returns true if nothing accesses the posted memory any more.
    pub(super) fn end(&self) -> bool {
        self.device.end()
    }
}

impl Drop for SrqInner {
    fn drop(&mut self) {
        self.ids.close();
    }
}
