//! The memory that one end has registered: keys, bounds and rights, and which call's bytes are
//! where.

use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{CallRegion, Exposure};

use super::random::Random;

/// The keys of one call, by their numbers.
pub(crate) type Keys = std::ops::Range<usize>;

/// All registrations of one end, in the order in which they were made: a key is never given twice.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    tag: u32,
    /// The number of the first key: keys may wrap.
    base: u32,
    keys: Vec<Key>,
    ranges: Vec<Range>,
    pub(crate) live: usize,
}

#[derive(Clone, Copy, Debug)]
struct Key {
    xid: u32,
    state: State,
    first: usize,
    last: usize,
}

/// The rights of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Live,
    /// The peer has invalidated it.
    Invalidated,
    /// It was fenced after the reply arrived.
    Fenced,
    /// It was fenced without one: the peer may still try.
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    offset: u64,
    length: u32,
    region: CallRegion,
    /// Where in the region it begins.
    base: u32,
}

/// Why an access is not allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    Unknown,
    Dead(State),
    Bounds,
    Right,
}

/// Where an access goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) region: CallRegion,
    pub(crate) at: u32,
}

/// How memory is exposed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Bytes of a segment at most.
    pub(crate) segment: u32,
    /// Whether all of a call has one key.
    pub(crate) one_key: bool,
}

/// The segments of one call's exposures.
#[derive(Debug, Default)]
pub(crate) struct Exposed {
    pub(crate) segments: Vec<Segment>,
    counts: Vec<usize>,
}

impl Exposed {
    /// CallRegion by region.
    pub(crate) fn regions(&self) -> impl Iterator<Item = &[Segment]> {
        let mut from = 0;
        self.counts.iter().map(move |count| {
            from += count;
            &self.segments[from - count..from]
        })
    }

    fn clear(&mut self) {
        self.segments.clear();
        self.counts.clear();
    }
}

/// Bits of a key that name its end, and the numbers that the others hold.
const TAG: u32 = 5;
const NUMBERS: u32 = u32::MAX >> TAG;

impl Memory {
    /// The keys of an end: those of one in two wrap soon.
    pub(crate) fn new(tag: u32, random: &mut Random) -> Self {
        let base = if random.one_in(2) {
            0
        } else {
            NUMBERS - random.between(0, 4)
        };
        Self {
            tag,
            base,
            ..Self::default()
        }
    }

    fn index(&self, key: u32) -> Option<usize> {
        let index = ((key >> TAG).wrapping_sub(self.base) & NUMBERS) as usize;
        (key & ((1 << TAG) - 1) == self.tag && index < self.keys.len()).then_some(index)
    }

    fn key(&mut self, xid: u32) -> u32 {
        let first = self.ranges.len();
        self.keys.push(Key {
            xid,
            state: State::Live,
            first,
            last: first,
        });
        self.live += 1;
        // Keys wrap at 32 bits.
        (self.keys.len() as u32 - 1).wrapping_add(self.base) << TAG | self.tag
    }

    /// Exposes regions of a call, and returns their keys.
    pub(crate) fn expose(
        &mut self,
        xid: u32,
        exposures: &[Exposure],
        manner: Manner,
        random: &mut Random,
        exposed: &mut Exposed,
    ) -> Keys {
        exposed.clear();
        let first_key = self.keys.len();
        let mut key = None;
        // Each range has guards around it, within its key too.
        let mut offset = u64::from(random.word()) << 8;
        for exposure in exposures {
            let handle = match key.filter(|_| manner.one_key) {
                Some(key) => key,
                None => self.key(xid),
            };
            key = Some(handle);
            let mut base = 0;
            let before = exposed.segments.len();
            while base < exposure.length || exposed.segments.len() == before {
                let length = manner.segment.max(1).min(exposure.length - base);
                self.ranges.push(Range {
                    offset,
                    length,
                    region: exposure.region,
                    base,
                });
                exposed.segments.push(Segment {
                    handle,
                    length,
                    offset,
                });
                base += length;
                offset += u64::from(length) + 64;
            }
            exposed.counts.push(exposed.segments.len() - before);
            let at = self.index(handle).expect("it was made above");
            self.keys[at].last = self.ranges.len();
        }
        first_key..self.keys.len()
    }

    /// Takes away what a call has exposed.
    pub(crate) fn fence(&mut self, keys: Keys, state: State) {
        for key in self.keys[keys]
            .iter_mut()
            .filter(|key| key.state == State::Live)
        {
            self.live -= 1;
            key.state = state;
        }
    }

    /// The peer invalidates a key: whose it was.
    pub(crate) fn invalidate(&mut self, key: u32) -> Result<u32, Denied> {
        let index = self.index(key).ok_or(Denied::Unknown)?;
        let key = &mut self.keys[index];
        if key.state != State::Live {
            return Err(Denied::Dead(key.state));
        }
        key.state = State::Invalidated;
        self.live -= 1;
        Ok(key.xid)
    }

    /// Whether the peer has invalidated a key.
    pub(crate) fn was_invalidated(&self, key: u32) -> bool {
        self.index(key)
            .is_some_and(|index| self.keys[index].state == State::Invalidated)
    }

    /// Whether any of a call's memory can be reached.
    pub(crate) fn is_exposed(&self, keys: Keys) -> bool {
        self.keys[keys].iter().any(|key| key.state == State::Live)
    }

    /// The peer reads or writes.
    pub(crate) fn access(&self, target: &Segment, writes: bool) -> Result<Place, Denied> {
        let key = &self.keys[self.index(target.handle).ok_or(Denied::Unknown)?];
        if key.state != State::Live {
            return Err(Denied::Dead(key.state));
        }
        let end = target
            .offset
            .checked_add(target.length.into())
            .ok_or(Denied::Bounds)?;
        let holds = |range: &&Range| {
            range.offset <= target.offset && end <= range.offset + u64::from(range.length)
        };
        let range = self.ranges[key.first..key.last]
            .iter()
            .find(holds)
            .ok_or(Denied::Bounds)?;
        if range.region.is_written() != writes {
            return Err(Denied::Right);
        }
        Ok(Place {
            region: range.region,
            at: range.base + (target.offset - range.offset) as u32,
        })
    }
}
