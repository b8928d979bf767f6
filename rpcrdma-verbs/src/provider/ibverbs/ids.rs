//! The format of the ids of work requests on a device. Bit 63 marks a receive of a shared queue,
//! whose number is in bits 32 to 61. Otherwise bit 62 marks a receive, and bit 61 a quiet request.
//! The lowest 32 bits are the number of the request in its ring, or its place in the shared queue:
//! `device_state` finds the caller's id in `outstanding` by them.

/// The kind of a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Send,
    /// A request without a completion on success.
    Quiet,
    Receive,
    /// A receive of the shared queue with this number.
    Shared(u32),
}

const SHARED: u64 = 1 << 63;
const RECEIVE: u64 = 1 << 62;
const QUIET: u64 = 1 << 61;

impl Kind {
    /// Returns the id for the device.
    pub(super) fn id(self, number: u32) -> u64 {
        let high = match self {
            Self::Send => 0,
            Self::Quiet => QUIET,
            Self::Receive => RECEIVE,
            Self::Shared(queue) => SHARED | u64::from(queue & (u32::MAX >> 2)) << 32,
        };
        high | u64::from(number)
    }

    pub(super) fn of(id: u64) -> (Self, u32) {
        let number = id as u32;
        let kind = if id & SHARED != 0 {
            Self::Shared((id >> 32) as u32 & (u32::MAX >> 2))
        } else if id & RECEIVE != 0 {
            Self::Receive
        } else if id & QUIET != 0 {
            Self::Quiet
        } else {
            Self::Send
        };
        (kind, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_identify_their_requests() {
        for kind in [
            Kind::Send,
            Kind::Quiet,
            Kind::Receive,
            Kind::Shared(0),
            Kind::Shared(u32::MAX >> 2),
        ] {
            for number in [0, 7, u32::MAX] {
                assert_eq!(Kind::of(kind.id(number)), (kind, number));
            }
        }
    }
}
