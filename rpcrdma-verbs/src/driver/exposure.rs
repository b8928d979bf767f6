//! Memory that a peer may access, by a window or by a registration.
//!
//! This module keeps one rule: a key becomes invalid before the reference to its memory is dropped,
//! or else the memory is leaked. `WindowBinding::release_window` does not check the rule, and
//! relies on its caller, `driver::connection::exposing`, to await the invalidation. The engine
//! decides when.

use crate::memory::{PostedBuf, Registration};
use crate::provider::{Access, Device, Result, Window as _};

/// A window with its current key.
#[derive(Debug)]
pub(crate) struct KeyedWindow<D: Device> {
    window: D::Window,
    key: u32,
}

impl<D: Device> KeyedWindow<D> {
    pub(crate) fn new(device: &D) -> Result<Self> {
        let window = device.window()?;
        let key = window.key();
        Ok(Self { window, key })
    }

    pub(crate) fn number(&self) -> u32 {
        self.window.number()
    }

    #[cfg(feature = "testing")]
    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    /// Returns the key for the next bind: only its lowest byte changes. The bind makes the old key
    /// invalid.
    pub(crate) fn next_key(&mut self) -> u32 {
        self.key = self.key & !0xff | self.key.wrapping_add(1) & 0xff;
        self.key
    }
}

/// An exposed region of a call's memory.
///
/// The key becomes invalid before the memory is released. If the device refuses to end the key, the
/// memory is leaked.
#[derive(Debug)]
pub(crate) enum ExposedRegion<D: Device> {
    /// Exposed by a window.
    Window(WindowBinding<D>),
    /// Exposed by a registration of its own.
    Region(Registration<D>),
}

/// A window with the memory to which it is bound.
#[derive(Debug)]
pub(crate) struct WindowBinding<D: Device>(Option<(KeyedWindow<D>, PostedBuf)>);

impl<D: Device> WindowBinding<D> {
    /// Takes a window that is being bound to this memory.
    pub(crate) fn new(window: KeyedWindow<D>, memory: PostedBuf) -> Self {
        Self(Some((window, memory)))
    }

    /// Returns the window, and releases the memory. The window must not be bound any more: the
    /// request that invalidated its key has completed.
    pub(crate) fn release_window(mut self) -> Option<KeyedWindow<D>> {
        self.0.take().map(|(window, _)| window)
    }
}

impl<D: Device> Drop for WindowBinding<D> {
    fn drop(&mut self) {
        if let Some((mut keyed, memory)) = self.0.take()
            && !keyed.window.end()
        {
            memory.leak();
        }
    }
}

impl<D: Device> ExposedRegion<D> {
    /// Registers `length` bytes of a buffer, starting at `from`, for access by the peer.
    ///
    /// # Errors
    /// Fails if the range exceeds the buffer, or if the device refuses.
    pub(crate) fn register(
        device: &D,
        memory: PostedBuf,
        (from, length): (u32, u32),
        access: Access,
    ) -> Result<Self> {
        Ok(Self::Region(Registration::new(
            device,
            memory,
            (from, length),
            access,
        )?))
    }

    /// Returns the key that the peer has.
    pub(crate) fn key(&self) -> u32 {
        match self {
            Self::Window(WindowBinding(binding)) => {
                binding.as_ref().map_or(0, |(window, _)| window.key)
            }
            Self::Region(registration) => registration.remote_key(),
        }
    }
}
