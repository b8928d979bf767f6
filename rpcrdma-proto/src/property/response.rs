//! The peer's answer to a request of this end to change properties, decoded. `property::answer`
//! makes the answer of this end to the peer.
//!
//! An answer identifies changes by their position in the request, so it is read with the request.
//! `connection::exchange` requests one change at a time, and reads the first disposition alone.

use super::in_subset;
use crate::v2::characteristics::Respxch;
use crate::v2::properties::{Propval, Reqprop, Resprop};

/// The outcome of one requested change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disposition<'a> {
    /// Made as requested.
    Done(Propval<'a>),
    /// Not made.
    Rejected(Propval<'a>),
    /// This other value was set.
    Other(Propval<'a>),
    /// Neither made nor rejected yet (xcharext-02). An update will follow.
    Pending(Propval<'a>),
}

/// Returns the disposition of each change that the REQPROP requested, in the order of the request.
///
/// A change that the response does not mention, or mentions twice, was rejected. Values of
/// properties that the request did not name are ignored (xcharext-03, section 4.3).
///
/// ```
/// use rpcrdma_proto::property::{Disposition, dispositions};
/// use rpcrdma_proto::v2::properties::{PROP_BRS, PROP_RBSIZ, Propval, Reqprop, Resprop};
///
/// let size = Propval { which: PROP_RBSIZ, data: &[0, 1, 0, 0] };
/// let support = Propval { which: PROP_BRS, data: &[] };
/// let smaller = Propval { data: &[0, 0, 64, 0], ..size };
/// let (want, other) = ([size, support], [smaller]);
/// let request = Reqprop { want: (&want).into() };
/// let response = Resprop { done: (&[]).into(), rej: (&[0b10]).into(), other: (&other).into() };
/// let found: Vec<_> = dispositions(&request, &response).collect();
/// assert_eq!(found, [Disposition::Other(smaller), Disposition::Rejected(support)]);
/// ```
// spec: xc3-2.1-s, xc3-4.3-c, xc3-4.3-e, xc3-4.3-i, xc3-4.3-j, xc3-4.3-l, xc3-4.3-n
pub fn dispositions<'a>(
    request: &Reqprop<'a>,
    response: &Resprop<'a>,
) -> impl Iterator<Item = Disposition<'a>> + use<'a> {
    let Resprop { done, rej, other } = *response;
    request
        .want
        .iter()
        .enumerate()
        .map(move |(position, wanted)| {
            let mut others = other.iter().filter(|value| value.which == wanted.which);
            let (set, again) = (others.next(), others.next());
            match (
                in_subset(&done, position),
                in_subset(&rej, position),
                set,
                again,
            ) {
                (true, false, None, None) => Disposition::Done(wanted),
                (false, false, Some(set), None) => Disposition::Other(set),
                _ => Disposition::Rejected(wanted),
            }
        })
}

/// Returns the disposition of each change that the REQXCH requested, in the order of the request
/// (xcharext-02, section 4.3).
///
/// A change that the response does not mention, or mentions twice, was rejected.
///
/// ```
/// use rpcrdma_proto::property::{Disposition, characteristic_dispositions};
/// use rpcrdma_proto::v2::characteristics::Respxch;
/// use rpcrdma_proto::v2::properties::{PROP_BRS, PROP_RBSIZ, Propval, Reqprop};
///
/// let size = Propval { which: PROP_RBSIZ, data: &[0, 1, 0, 0] };
/// let support = Propval { which: PROP_BRS, data: &[0, 0, 0, 2] };
/// let want = [size, support];
/// let response = Respxch { done: (&[0b10]).into(), rej: (&[]).into(), pend: (&[0b01]).into() };
/// let request = Reqprop { want: (&want).into() };
/// let found: Vec<_> = characteristic_dispositions(&request, &response).collect();
/// assert_eq!(found, [Disposition::Pending(size), Disposition::Done(support)]);
/// ```
// spec: xc2-4.3-c, xc2-4.3-d, xc2-4.3-e, xc2-4.3-i, xc2-4.3-l
pub fn characteristic_dispositions<'a>(
    request: &Reqprop<'a>,
    response: &Respxch<'a>,
) -> impl Iterator<Item = Disposition<'a>> + use<'a> {
    let Respxch { done, rej, pend } = *response;
    request
        .want
        .iter()
        .enumerate()
        .map(move |(position, wanted)| {
            match [done, rej, pend].map(|subset| in_subset(&subset, position)) {
                [true, false, false] => Disposition::Done(wanted),
                [false, false, true] => Disposition::Pending(wanted),
                _ => Disposition::Rejected(wanted),
            }
        })
}
