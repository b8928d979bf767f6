//! The answer to a peer's request to change our properties.

use super::{Basic, bit};
use crate::v2::properties::{Propval, Reqprop, Resprop};
use crate::xdr;

/// What is to become of a requested change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It is made.
    Accept,
    /// It is not made.
    Reject,
    /// This value of the same property is set instead.
    Instead(Basic),
}

/// Words of a subset: enough for 256 properties. Of a longer request the rest is left out, which is to reject it.
const WORDS: usize = 8;

/// The answer to a REQPROP, without any memory but its own.
///
/// ```
/// use rpcrdma_proto::property::{Answer, Basic, Decision};
/// use rpcrdma_proto::v2::properties::{PROP_RBSIZ, Propval, Reqprop};
///
/// let want = [Propval { which: 77, data: b"???" }, Propval { which: PROP_RBSIZ, data: &[0, 1, 0, 0] }];
/// let answer = Answer::to(&Reqprop { want: (&want).into() }, |wanted| match wanted {
///     Basic::ReceiveBufferSize(8193..) => Decision::Instead(Basic::ReceiveBufferSize(8192)),
///     _ => Decision::Accept,
/// })?;
/// answer.with(|response| {
///     assert_eq!((response.done.first(), response.rej.first()), (None, Some(0b01)));
///     assert_eq!(response.other.first(), Some(Propval { which: PROP_RBSIZ, data: &[0, 0, 32, 0] }));
/// });
/// # Ok::<(), rpcrdma_proto::xdr::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    done: [u32; WORDS],
    rejected: [u32; WORDS],
    /// Other values, with what they are in XDR.
    others: [Option<(Basic, [u8; 4])>; 3],
}

impl Answer {
    /// The answer to a request: `decide` is asked about each basic property once. Properties that are not known, and a
    /// property that is asked for again, are rejected (xcharext-03, section 4.3).
    ///
    /// # Errors
    /// A value is malformed; then `decide` may have been asked about those before it, and nothing is to be done
    /// (decision D15 says what becomes of the message).
    // spec: xc3-3-j, xc3-3-k, xc3-3-l, xc3-4.2-d, xc3-4.2-e, xc3-4.3-f, xc3-4.3-g, xc3-4.3-h, xc3-4.3-k, xc3-4.3-m
    pub fn to(request: &Reqprop<'_>, mut decide: impl FnMut(Basic) -> Decision) -> xdr::Result<Self> {
        let mut answer = Self { done: [0; WORDS], rejected: [0; WORDS], others: [None; 3] };
        let mut asked = 0u8;
        for (position, wanted) in request.want.iter().enumerate() {
            let decision = match Basic::of(&wanted)? {
                // What there is no bit for can't be told to have been made.
                Some(value) if asked & bit(value.code()) == 0 && position < 32 * WORDS => {
                    asked |= bit(value.code());
                    decide(value)
                }
                Some(_) | None => Decision::Reject,
            };
            match decision {
                Decision::Accept => set(&mut answer.done, position),
                // Another property's value would be an answer to nothing.
                Decision::Instead(value) if value.code() == wanted.which => answer.instead(value),
                Decision::Reject | Decision::Instead(_) => set(&mut answer.rejected, position),
            }
        }
        Ok(answer)
    }

    fn instead(&mut self, value: Basic) {
        if let Some(place) = self.others.iter_mut().find(|place| place.is_none()) {
            *place = Some((value, value.word().to_be_bytes()));
        }
    }

    /// Hands the answer as a RESPPROP to `f`, to be encoded.
    pub fn with<R>(&self, f: impl FnOnce(Resprop<'_>) -> R) -> R {
        let none = Propval { which: 0, data: &[] };
        let mut others = [none; 3];
        let mut count = 0;
        for ((value, data), place) in self.others.iter().flatten().zip(&mut others) {
            *place = Propval { which: value.code(), data };
            count += 1;
        }
        f(Resprop {
            done: trimmed(&self.done).into(),
            rej: trimmed(&self.rejected).into(),
            other: others.get(..count).unwrap_or_default().into(),
        })
    }
}

impl Basic {
    /// The value as it travels: each basic property is one word.
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

/// Without the words that are zero at the end: they go without saying (xcharext-03, section 2.1).
fn trimmed(subset: &[u32; WORDS]) -> &[u32] {
    let used = subset.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
    subset.get(..used).unwrap_or_default()
}
