//! Calls and replies as their consumers know them: lengths and positions, without a single byte.

use rpcrdma_proto::transfer::{CallSpec, DataItem, ResultItem, ResultSpec, Span};

use super::random::Random;

/// Items of a call, or results of a reply, at most.
pub(crate) const MOST: usize = 4;

/// Bytes before the first item of a call, and before the first result of a reply.
const CALL: u32 = 40;
const REPLY: u32 = 24;

/// A call.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Spec {
    pub(crate) length: u32,
    items: [(u32, u32); MOST],
    item_count: usize,
    pub(crate) largest_reply: u32,
    results: [u32; MOST],
    result_count: usize,
    /// Which operation of the call each result is of, if the call tells.
    operations: Option<[u32; MOST]>,
    pub(crate) reducible: bool,
    /// Whether it tells that its consumer takes backward calls.
    pub(crate) ready: bool,
    /// Whether it is not transmitted again when its connection was lost.
    pub(crate) once: bool,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.length)?;
        if self.item_count > 0 {
            write!(f, " with items {:?}", &self.items[..self.item_count])?;
        }
        write!(f, ", reply up to {}", self.largest_reply)?;
        if self.result_count > 0 {
            write!(f, " with results up to {:?}", self.results())?;
            self.operations
                .map_or(Ok(()), |operations| write!(f, " of {operations:?}"))?;
        }
        if !self.reducible {
            f.write_str(", not reducible")?;
        }
        if self.ready {
            f.write_str(", ready")?;
        }
        if self.once {
            f.write_str(", once")
        } else {
            Ok(())
        }
    }
}

/// Which calls a run has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    Any,
    Null,
    /// Without anything that can be moved apart.
    Inline,
    /// Around what fits, both ways.
    Long,
    /// With items and results of which some buffers hold one, and others several.
    Bulk,
}

impl Style {
    pub(crate) const ALL: [Self; 7] = [
        Self::Any,
        Self::Any,
        Self::Any,
        Self::Null,
        Self::Inline,
        Self::Long,
        Self::Bulk,
    ];
    pub(crate) const DEVOTED: [Self; 4] = [Self::Any, Self::Long, Self::Bulk, Self::Bulk];
}

fn padded(bytes: u32) -> u32 {
    bytes.next_multiple_of(4)
}

/// A length: small ones, and those around what fits inline.
fn length(random: &mut Random) -> u32 {
    match random.below(10) {
        0 => 0,
        1..5 => random.between(1, 64),
        5..8 => random.between(200, 5000),
        8 => random.between(4000, 20_000),
        _ => random.between(20_000, 200_000),
    }
}

/// A length around what a target or a buffer holds.
fn bulk(random: &mut Random) -> u32 {
    match random.below(8) {
        0 => random.between(0, 64),
        1 => random.pick(&[512, 1024, 2048, 4096, 8192]),
        2 => random.between(8000, 40_000),
        _ => random.between(500, 9000),
    }
}

impl Spec {
    pub(crate) const NULL: Self = Self {
        length: CALL,
        items: [(0, 0); MOST],
        item_count: 0,
        largest_reply: REPLY,
        results: [0; MOST],
        result_count: 0,
        operations: None,
        reducible: true,
        ready: true,
        once: false,
    };

    pub(crate) fn new(items: &[u32], tail: u32, results: &[u32], reply_tail: u32) -> Self {
        let mut spec = Self {
            item_count: items.len(),
            result_count: results.len(),
            ..Self::NULL
        };
        for (place, bytes) in spec.items.iter_mut().zip(items) {
            *place = (spec.length + 4, *bytes);
            spec.length += 4 + padded(*bytes);
        }
        for (place, bytes) in spec.results.iter_mut().zip(results) {
            *place = *bytes;
            spec.largest_reply += 4 + padded(*bytes);
        }
        spec.length += padded(tail);
        spec.largest_reply += padded(reply_tail);
        spec
    }

    pub(crate) fn draw(style: Style, random: &mut Random) -> Self {
        if style == Style::Null || random.one_in(4) {
            return Self {
                ready: random.one_in(2),
                once: random.one_in(4),
                ..Self::NULL
            };
        }
        if style == Style::Long {
            let (length, reply) = (random.between(800, 12_000), random.between(800, 12_000));
            return Self {
                ready: random.one_in(2),
                once: random.one_in(4),
                ..Self::new(&[], length, &[], reply)
            };
        }
        let length = if style == Style::Bulk { bulk } else { length };
        let few = if style == Style::Inline {
            [0; 6]
        } else {
            [0, 0, 1, 1, 2, MOST]
        };
        let (items, results) = (random.pick(&few), random.pick(&few));
        let (mut of_items, mut of_results) = ([0; MOST], [0; MOST]);
        of_items[..items].fill_with(|| length(random));
        of_results[..results].fill_with(|| length(random));
        let (tail, reply_tail) = (Self::tail(random), Self::tail(random));
        Self {
            reducible: !random.one_in(8),
            ready: random.one_in(2),
            once: random.one_in(4),
            operations: random.one_in(2).then(|| Self::some_operations(random)),
            ..Self::new(&of_items[..items], tail, &of_results[..results], reply_tail)
        }
    }

    fn tail(random: &mut Random) -> u32 {
        if random.one_in(4) {
            length(random)
        } else {
            random.between(0, 100)
        }
    }

    /// One after the other: several results may be of one.
    fn some_operations(random: &mut Random) -> [u32; MOST] {
        let mut operation = 0;
        [(); MOST].map(|()| {
            operation += random.pick(&[0, 1, 1, 2]);
            operation
        })
    }

    /// What of the call a result answers.
    fn span(&self, number: usize) -> Span {
        self.operations.map_or(Span::CALL, |operations| {
            // Within the shortest call.
            let begin = 4 + 4 * operations[number];
            Span {
                begin,
                end: begin + 4,
            }
        })
    }

    pub(crate) fn results(&self) -> &[u32] {
        &self.results[..self.result_count]
    }

    pub(crate) fn item(&self, number: usize) -> DataItem {
        let (position, length) = self.items[number];
        DataItem { position, length }
    }

    /// Hands it over as what a session takes.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&CallSpec<'_>) -> R) -> R {
        let items = self
            .items
            .map(|(position, length)| DataItem { position, length });
        let results: [ResultSpec; MOST] = std::array::from_fn(|number| ResultSpec {
            max_length: self.results[number],
            of: self.span(number),
        });
        f(&CallSpec {
            length: self.length,
            items: &items[..self.item_count],
            max_reply: self.largest_reply,
            results: &results[..self.result_count],
            reducible: self.reducible,
        })
    }

    /// Whether bytes are padding of an item.
    pub(crate) fn is_padding(&self, at: u32, length: u32) -> bool {
        self.items[..self.item_count]
            .iter()
            .any(|(position, bytes)| {
                at == position + bytes && length == padded(*bytes) - bytes && length > 0
            })
    }
}

/// A reply.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Answer {
    pub(crate) length: u32,
    results: [(u32, u32); MOST],
    count: usize,
    /// Which of the results that were wanted each of them is; and whether its responder tells.
    wanted: [usize; MOST],
    tells: bool,
}

impl Answer {
    /// A reply to such a call; one that may not fit, if `wild`.
    pub(crate) fn draw(spec: &Spec, wild: bool, random: &mut Random) -> Self {
        let tells = spec.operations.is_some() && !random.one_in(8);
        let mut answer = Self {
            length: REPLY,
            tells,
            ..Self::default()
        };
        // Some results may be missing.
        let misses = spec.result_count > 1 && random.one_in(4);
        for (number, most) in spec.results().iter().enumerate() {
            if misses && random.one_in(3) {
                continue;
            }
            let bytes = match random.below(4) {
                0 => 0,
                1 => random.between(0, *most),
                _ if wild => most + random.between(0, 5000),
                _ => *most,
            };
            answer.results[answer.count] = (answer.length + 4, bytes);
            answer.wanted[answer.count] = number;
            answer.count += 1;
            answer.length += 4 + padded(bytes);
        }
        let left = spec.largest_reply.saturating_sub(answer.length) & !3;
        let tail = if random.one_in(2) { left.min(64) } else { left };
        answer.length += if wild {
            random.between(0, 5000) & !3
        } else {
            tail
        };
        answer
    }

    /// Whether it is what was wanted: its results, and what else it has, are no longer than was
    /// said, and it is known which is which. Where one is missing, the next may have its memory:
    /// that must be enough.
    pub(crate) fn is_wanted(&self, spec: &Spec) -> bool {
        let known = spec.operations.is_none() || self.tells || self.count == 0;
        let fits = |item: DataItem, number: usize| item.length <= spec.results[number];
        let short = self
            .items()
            .enumerate()
            .all(|(at, item)| fits(item, at) && fits(item, self.wanted[at]));
        let all = 0..spec.result_count;
        let short = short
            && all
                .into_iter()
                .all(|at| self.directed(at, spec).is_none_or(|item| fits(item, at)));
        let rest = self
            .items()
            .fold(self.length, |rest, item| rest - padded(item.length));
        let most = spec
            .results()
            .iter()
            .fold(spec.largest_reply, |rest, most| rest - padded(*most));
        known && short && rest <= most
    }

    /// All of its results.
    pub(crate) fn items(&self) -> impl Iterator<Item = DataItem> + use<'_> {
        self.results[..self.count]
            .iter()
            .map(|(position, length)| DataItem {
                position: *position,
                length: *length,
            })
    }

    pub(crate) fn item(&self, number: usize) -> Option<DataItem> {
        self.items().nth(number)
    }

    /// Hands its results over as what a session takes.
    pub(crate) fn with<R>(&self, spec: &Spec, f: impl FnOnce(&[ResultItem]) -> R) -> R {
        let asked = |number: usize| self.tells.then(|| spec.span(self.wanted[number]).begin);
        let results: Vec<ResultItem> = self
            .items()
            .enumerate()
            .map(|(number, item)| ResultItem {
                item,
                answers: asked(number),
            })
            .collect();
        f(&results)
    }

    /// The result that a direction about `wanted` is for: the first of an operation has its first
    /// direction, and so on.
    pub(crate) fn directed(&self, wanted: usize, spec: &Spec) -> Option<DataItem> {
        let Some(operations) = spec.operations else {
            return self.item(wanted);
        };
        let is_its = |number: &usize| operations[*number] == operations[wanted];
        let before = (0..wanted).filter(is_its).count();
        let of_it = self.wanted[..self.count]
            .iter()
            .zip(self.items())
            .filter(|(number, _)| is_its(number));
        of_it
            .map(|(_, item)| item)
            .nth(before)
            .filter(|_| self.tells)
    }

    /// Whether bytes are padding of a result.
    pub(crate) fn is_padding(&self, at: u32, length: u32) -> bool {
        let mut results = self.results[..self.count].iter();
        results.any(|(position, bytes)| {
            at == position + bytes && length == padded(*bytes) - bytes && length > 0
        })
    }
}
