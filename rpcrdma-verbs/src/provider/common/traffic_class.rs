//! The traffic class of new connections.

use std::sync::atomic::{AtomicU16, Ordering};

/// The traffic class of a device's new connections, if it was set.
#[derive(Debug)]
pub(in super::super) struct TrafficClass(AtomicU16);

/// No class was set.
const UNSET: u16 = u16::MAX;

impl Default for TrafficClass {
    fn default() -> Self {
        Self(AtomicU16::new(UNSET))
    }
}

impl TrafficClass {
    pub(in super::super) fn set(&self, class: u8) {
        self.0.store(class.into(), Ordering::Relaxed);
    }

    pub(in super::super) fn get(&self) -> Option<u8> {
        u8::try_from(self.0.load(Ordering::Relaxed)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::TrafficClass;

    #[test]
    fn every_class_can_be_set() {
        let class = TrafficClass::default();
        assert_eq!(class.get(), None);
        for number in 0..=u8::MAX {
            class.set(number);
            assert_eq!(class.get(), Some(number));
        }
    }
}
