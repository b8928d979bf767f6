//! The answer to a peer's request to change our properties.
//!
//! `decide` is called in the order of the request: `connection/exchange.rs` relies on it, because
//! each decision takes the accepted changes before it into account.

use super::BasicProperty;
use super::support::{KnownProperty, PropertySupport, bit};
use crate::v2::characteristics::Respxch;
use crate::v2::properties::{Propval, Reqprop, Resprop};
use crate::xdr;

/// The decision about a requested change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Make the change.
    Accept,
    /// Reject the change.
    Reject,
    /// Set this value of the same property instead. Characteristics have no such answer; for them
    /// the change is rejected.
    Substitute(BasicProperty),
    /// Make the change later (xcharext-02, section 4.3). Properties have no such answer; for them
    /// the change is rejected.
    Defer,
}

/// The number of words of a subset: enough for 256 properties. Further properties of a longer
/// request are rejected, because no subset names them; a test requires this number.
const WORDS: usize = 8;

/// The number of basic properties: the maximum number of substitutes in an answer, since `decide`
/// is called once for each.
const BASIC_PROPERTIES: usize = 3;

/// The answer to a REQPROP or a REQXCH. It owns its content and allocates nothing.
///
/// ```
/// use rpcrdma_proto::property::{PropertyResponse, BasicProperty, Decision, PropertySupport};
/// use rpcrdma_proto::v2::properties::{PROP_RBSIZ, Propval, Reqprop};
///
/// let want = [Propval { which: 77, data: b"???" }, Propval { which: PROP_RBSIZ, data: &[0, 1, 0, 0] }];
/// let request = Reqprop { want: (&want).into() };
/// let answer = PropertyResponse::answering(&request, PropertySupport::PROPERTIES, |wanted| match wanted {
///     BasicProperty::ReceiveBufferSize(8193..) => Decision::Substitute(BasicProperty::ReceiveBufferSize(8192)),
///     _ => Decision::Accept,
/// })?;
/// answer.with_properties(|response| {
///     assert_eq!((response.done.first(), response.rej.first()), (None, Some(0b01)));
///     assert_eq!(response.other.first(), Some(Propval { which: PROP_RBSIZ, data: &[0, 0, 32, 0] }));
/// });
/// # Ok::<(), rpcrdma_proto::xdr::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PropertyResponse {
    done: [u32; WORDS],
    rejected: [u32; WORDS],
    pending: [u32; WORDS],
    /// The changes for which another value is set.
    substituted: [u32; WORDS],
    /// The values that are set instead, encoded.
    substitutes: [Option<(BasicProperty, [u8; 4])>; BASIC_PROPERTIES],
}

impl PropertyResponse {
    /// Answers a request. `decide` is called once for each basic property, in order. Unknown
    /// properties, and a property that is requested again, are rejected (xcharext-03, section 4.3).
    ///
    /// # Errors
    /// A value is malformed. `decide` may have been called for earlier values, whose changes must
    /// not be made then (decision D15 covers the message itself).
    // spec: xc3-3-j, xc3-3-k, xc3-3-l, xc3-4.2-d, xc3-4.2-e, xc3-4.3-f, xc3-4.3-g, xc3-4.3-h
    // spec: xc3-4.3-k, xc3-4.3-m
    // spec: xc2-3-f, xc2-3-g, xc2-3-h, xc2-4.2-b, xc2-4.2-c, xc2-4.3-f, xc2-4.3-g, xc2-4.3-h
    // spec: xc2-4.3-i, xc2-4.3-l
    pub fn answering(
        request: &Reqprop<'_>,
        support: PropertySupport,
        mut decide: impl FnMut(BasicProperty) -> Decision,
    ) -> xdr::Result<Self> {
        let [done, rejected, pending, substituted] = [[0; WORDS]; 4];
        let mut answer = Self {
            done,
            rejected,
            pending,
            substituted,
            substitutes: [None; BASIC_PROPERTIES],
        };
        let mut asked = 0u8;
        for (position, wanted) in request.want.iter().enumerate() {
            let decision = match support.read(&wanted)? {
                // A change without a bit in the answer must not be made.
                Some(KnownProperty::Basic(value))
                    if asked & bit(value.code()) == 0 && position < 32 * WORDS =>
                {
                    asked |= bit(value.code());
                    decide(value)
                }
                // A repeated or unknown property; or a capability, of which ours never change.
                Some(KnownProperty::Basic(_) | KnownProperty::Ability(_)) | None => {
                    Decision::Reject
                }
            };
            match decision {
                Decision::Accept => set(&mut answer.done, position),
                // A value of another property answers no request.
                Decision::Substitute(value) if value.code() == wanted.which => {
                    set(&mut answer.substituted, position);
                    answer.add_substitute(value);
                }
                Decision::Defer => set(&mut answer.pending, position),
                Decision::Reject | Decision::Substitute(_) => set(&mut answer.rejected, position),
            }
        }
        Ok(answer)
    }

    fn add_substitute(&mut self, value: BasicProperty) {
        if let Some(place) = self.substitutes.iter_mut().find(|place| place.is_none()) {
            *place = Some((value, value.word().to_be_bytes()));
        }
    }

    /// Passes the answer as a RESPPROP to `f`, which encodes it.
    pub fn with_properties<R>(&self, f: impl FnOnce(Resprop<'_>) -> R) -> R {
        let none = Propval {
            which: 0,
            data: &[],
        };
        let mut others = [none; BASIC_PROPERTIES];
        let mut count = 0;
        for ((value, data), place) in self.substitutes.iter().flatten().zip(&mut others) {
            *place = Propval {
                which: value.code(),
                data,
            };
            count += 1;
        }
        f(Resprop {
            done: trimmed(&self.done).into(),
            rej: trimmed(&union(&self.rejected, &self.pending)).into(),
            other: others.get(..count).unwrap_or_default().into(),
        })
    }

    /// Passes the answer as a RESPXCH to `f`, which encodes it.
    // spec: xc2-4.3-c, xc2-4.3-e, xc2-4.3-i, xc2-4.3-l
    pub fn with_characteristics<R>(&self, f: impl FnOnce(Respxch<'_>) -> R) -> R {
        f(Respxch {
            done: trimmed(&self.done).into(),
            rej: trimmed(&union(&self.rejected, &self.substituted)).into(),
            pend: trimmed(&self.pending).into(),
        })
    }
}

impl BasicProperty {
    /// Returns the encoded value: each basic property is one word.
    pub(crate) fn word(self) -> u32 {
        match self {
            Self::ReceiveBufferSize(size) => size,
            Self::RemoteInvalidation(on) => u32::from(on),
            Self::BackwardSupport(support) => support.value().cast_unsigned(),
        }
    }
}

fn set(subset: &mut [u32; WORDS], position: usize) {
    if let Some(word) = subset.get_mut(position / 32) {
        *word |= 1 << (position % 32);
    }
}

fn union(one: &[u32; WORDS], other: &[u32; WORDS]) -> [u32; WORDS] {
    core::array::from_fn(|at| {
        one.get(at).copied().unwrap_or_default() | other.get(at).copied().unwrap_or_default()
    })
}

/// Returns the words without trailing zeros (xcharext-03, section 2.1).
fn trimmed(subset: &[u32; WORDS]) -> &[u32] {
    let used = subset
        .iter()
        .rposition(|word| *word != 0)
        .map_or(0, |last| last + 1);
    subset.get(..used).unwrap_or_default()
}
