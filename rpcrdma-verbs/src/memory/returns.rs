//! Values that return to their owner, from any thread.
//!
//! `memory::pool` returns its slots by this stack. A value that is added must have no other
//! reference, and `add` must not use the stack after its exchange, since the value may have kept
//! the stack alive. Values are only taken all at once: to take one by one would allow a value to be
//! added again meanwhile (ABA).

#![allow(
    unsafe_code,
    reason = "the values that have come back are linked by pointers"
)]

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A stack of values: any thread adds one at a time, and the owner takes all of them at once.
/// Adding takes one atomic exchange, and no lock.
#[derive(Debug)]
pub(super) struct Returns<T> {
    /// The value that was added last, which links to the one before it; null if there is none, and
    /// [`Self::closed`] after the owner is gone. Each value stands for one reference of its `Arc`.
    last: AtomicPtr<T>,
}

/// The link of a value to the next one on the stack, while it is there.
#[derive(Debug)]
pub(super) struct Link<T>(AtomicPtr<T>);

impl<T> Link<T> {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }
}

/// A value that can be on a stack.
///
/// # Safety
/// A value returns the same link each time, which no other value has.
pub(super) unsafe trait Linked: Sized {
    fn link(&self) -> &Link<Self>;
}

/// A byte whose address marks a stack as closed: no value is there.
static CLOSED: u8 = 0;

impl<T: Linked> Returns<T> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            last: AtomicPtr::new(ptr::null_mut()),
        })
    }

    /// Returns the mark of a closed stack, which is never followed.
    fn closed() -> *mut T {
        (&raw const CLOSED).cast_mut().cast()
    }

    /// Adds the only reference to a value.
    ///
    /// # Errors
    /// Returns the value if the owner is gone.
    pub(super) fn add(&self, value: Arc<T>) -> Result<(), Arc<T>> {
        let raw = Arc::into_raw(value).cast_mut();
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            if last == Self::closed() {
                // SAFETY: it is from `into_raw` above, and was not added.
                return Err(unsafe { Arc::from_raw(raw) });
            }
            // SAFETY: the value lives, because its reference is in `raw`.
            let link = unsafe { (*raw).link() };
            link.0.store(last, Ordering::Relaxed);
            // `Release` makes the link, and all changes of the value, visible to the owner. After a
            // success the value and this stack may be freed, and are not used.
            match self
                .last
                .compare_exchange_weak(last, raw, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(now) => last = now,
            }
        }
    }

    /// Returns true if there may be values to take.
    #[inline]
    pub(super) fn has_some(&self) -> bool {
        !self.last.load(Ordering::Relaxed).is_null()
    }

    /// Takes all values.
    pub(super) fn take_all(&self) -> ReturnedValues<T> {
        ReturnedValues(self.last.swap(ptr::null_mut(), Ordering::Acquire))
    }

    /// Takes all values, and refuses others from now on.
    pub(super) fn close(&self) -> ReturnedValues<T> {
        ReturnedValues(self.last.swap(Self::closed(), Ordering::Acquire))
    }
}

/// Values that were taken from a stack.
pub(super) struct ReturnedValues<T: Linked>(*mut T);

impl<T: Linked> Iterator for ReturnedValues<T> {
    type Item = Arc<T>;

    fn next(&mut self) -> Option<Arc<T>> {
        let raw = NonNull::new(self.0).filter(|raw| raw.as_ptr() != Returns::closed())?;
        // SAFETY: `add` made it of an `Arc`, whose reference it stands for. It was taken from the
        // stack once, as a whole, so that nobody else has the reference.
        let value = unsafe { Arc::from_raw(raw.as_ptr()) };
        self.0 = value.link().0.load(Ordering::Relaxed);
        Some(value)
    }
}

impl<T: Linked> Drop for ReturnedValues<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
