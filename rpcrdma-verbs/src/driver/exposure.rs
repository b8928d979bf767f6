//! Memory that a peer may reach: by a window, or by a registration where there are none.

#![allow(unsafe_code, reason = "registering a part of a buffer is a promise about it, which is kept by having it lent")]

use std::ptr::NonNull;

use crate::memory::Lent;
use crate::provider::{Access, Device, Region as _, Result, Slice, Window as _};

/// A window, and the key that it has now.
#[derive(Debug)]
pub(crate) struct Bound<D: Device> {
    window: D::Window,
    key: u32,
}

impl<D: Device> Bound<D> {
    pub(crate) fn new(device: &D) -> Result<Self> {
        let window = device.window()?;
        let key = window.key();
        Ok(Self { window, key })
    }

    pub(crate) fn number(&self) -> u32 {
        self.window.number()
    }

    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    /// Its next key: another lowest octet, so that the old one means nothing.
    pub(crate) fn next_key(&mut self) -> u32 {
        self.key = self.key & !0xff | self.key.wrapping_add(1) & 0xff;
        self.key
    }
}

/// One region of a call's memory, exposed.
///
/// The key is dropped before the memory is given back.
#[derive(Debug)]
pub(crate) enum Exposed<D: Device> {
    /// Through a window.
    Window {
        /// The window, bound.
        bound: Bound<D>,
        /// The memory.
        _memory: Lent,
    },
    /// By a registration of its own.
    Region {
        /// What is registered.
        region: D::Region,
        /// The memory.
        _memory: Lent,
    },
}

impl<D: Device> Exposed<D> {
    /// Registers octets of a buffer for the peer.
    pub(crate) fn register(device: &D, slice: &Slice, access: Access, memory: Lent) -> Result<Self> {
        let Some(address) = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(slice.address as usize)) else {
            return Err(crate::provider::VerbError { verb: "register", cause: crate::provider::Cause::Limit });
        };
        // SAFETY: the octets are of a buffer that is lent until the region is dropped: both are one value, the region first.
        let region = unsafe { device.register(address, slice.length as usize, access)? };
        Ok(Self::Region { region, _memory: memory })
    }

    /// The key that the peer has.
    pub(crate) fn key(&self) -> u32 {
        match self {
            Self::Window { bound, .. } => bound.key,
            Self::Region { region, .. } => region.remote_key(),
        }
    }
}
