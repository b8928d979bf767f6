//! Registrations of parts of buffers, with their own rights and keys.
//!
//! `driver::exposure` registers memory of calls that the peer accesses, and `queue::sinks` the
//! sinks of RDMA Reads. The callers decide the rights and the duration; this module guarantees that
//! the memory outlives the registration.

#![allow(
    unsafe_code,
    reason = "registering memory is a promise about it, which is kept by having its buffer lent"
)]

use std::ptr::NonNull;

use super::PostedBuf;
use crate::provider::{Access, Cause, Device, MemoryRegion, Result, VerbError};

/// A registration of a part of a buffer, in addition to that of its block, for temporary access by
/// a peer.
///
/// It keeps a reference to the buffer, so that safe code cannot access the bytes. The registration
/// ends before this reference is dropped. If the device refuses to end it, the reference is leaked:
/// the buffer is never reused, and never freed.
#[derive(Debug)]
pub(crate) struct Registration<D: Device> {
    region: D::Region,
    /// `None` after the registration has ended.
    buf: Option<PostedBuf>,
}

impl<D: Device> Registration<D> {
    /// Registers `length` bytes of a buffer, starting at `from`.
    ///
    /// # Errors
    /// Fails if the range exceeds the buffer, or if the device refuses.
    pub(crate) fn new(
        device: &D,
        buf: PostedBuf,
        (from, length): (u32, u32),
        access: Access,
    ) -> Result<Self> {
        let slice = buf.slice(from, length);
        let memory = slice
            .and_then(|slice| {
                NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(
                    slice.address as usize,
                ))
            })
            .ok_or(VerbError {
                verb: "register",
                cause: Cause::Limit,
            })?;
        // SAFETY: `buf` references the memory until the region has ended, or for ever, and gives no
        // access to its bytes.
        let region = unsafe { device.register(memory, length as usize, access)? };
        Ok(Self {
            region,
            buf: Some(buf),
        })
    }

    /// Returns the key for our work requests.
    pub(crate) fn local_key(&self) -> u32 {
        self.region.local_key()
    }

    /// Returns the key for the peer.
    pub(crate) fn remote_key(&self) -> u32 {
        self.region.remote_key()
    }

    /// Ends the registration. Returns false if the device refuses; the buffer is then leaked.
    pub(crate) fn end(mut self) -> bool {
        self.release()
    }

    fn release(&mut self) -> bool {
        let Some(buf) = self.buf.take() else {
            return true;
        };
        let ended = self.region.deregister();
        if !ended {
            buf.leak();
        }
        ended
    }
}

impl<D: Device> Drop for Registration<D> {
    fn drop(&mut self) {
        self.release();
    }
}
