//! A message, and every codec that reads or writes it here.

use std::cell::RefCell;
use std::hint::black_box;

use crate::codec::Codec;

/// What a job does with its message, again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Bytes to a value, or to where its parts are.
    Decode,
    /// Bytes to a sum over every field.
    Visit,
    /// A value to bytes.
    Encode,
    /// A value to a gather list.
    Gather,
    /// A value to the number of its bytes.
    Length,
}

impl Task {
    pub(crate) const ALL: [Self; 5] = [
        Self::Decode,
        Self::Visit,
        Self::Encode,
        Self::Gather,
        Self::Length,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Visit => "visit",
            Self::Encode => "encode",
            Self::Gather => "gather",
            Self::Length => "length",
        }
    }
}

/// One codec's way to do one task.
pub(crate) struct Job {
    pub(crate) task: Task,
    pub(crate) codec: Codec,
    /// Does it so many times.
    pub(crate) run: RefCell<Box<dyn FnMut(u64)>>,
}

/// A message as it travels, and its jobs.
pub(crate) struct Message {
    pub(crate) name: &'static str,
    pub(crate) bytes: &'static [u8],
    pub(crate) jobs: Vec<Job>,
    /// What each visitor must find.
    sum: Option<u64>,
}

/// What a decoder returns, as it is: to make another type of it would be part of what is measured.
pub(crate) trait Verdict {
    fn accepts(&self) -> bool;
}

impl<T> Verdict for Option<T> {
    fn accepts(&self) -> bool {
        self.is_some()
    }
}

impl<T, E> Verdict for Result<T, E> {
    fn accepts(&self) -> bool {
        self.is_ok()
    }
}

/// More than any message here takes.
const ROOM: usize = 1 << 21;

impl Message {
    /// The message that `encode` writes; this is the generated codec's job, too.
    pub(crate) fn new(name: &'static str, encode: impl Fn(&mut [u8]) -> usize + 'static) -> Self {
        let mut buffer = vec![0; ROOM];
        let used = encode(&mut buffer);
        buffer.truncate(used);
        let message = Self {
            name,
            bytes: buffer.leak(),
            jobs: Vec::new(),
            sum: None,
        };
        message.encode(Codec::Generated, move |buffer| Some(encode(buffer)))
    }

    /// A decoder.
    pub(crate) fn decode<R: Verdict>(
        self,
        codec: Codec,
        decode: impl Fn(&'static [u8]) -> R + 'static,
    ) -> Self {
        assert!(
            decode(self.bytes).accepts(),
            "{}: {} refuses it",
            self.name,
            codec.name()
        );
        let bytes = self.bytes;
        self.job(Task::Decode, codec, move || decode(black_box(bytes)))
    }

    /// A decoder which reads every field; all must find the same sum.
    pub(crate) fn visit(
        mut self,
        codec: Codec,
        visit: impl Fn(&'static [u8]) -> Option<u64> + 'static,
    ) -> Self {
        let found = visit(self.bytes);
        let sum = *self.sum.get_or_insert(found.unwrap_or_default());
        assert_eq!(
            found,
            Some(sum),
            "{}: {} reads something else",
            self.name,
            codec.name()
        );
        let bytes = self.bytes;
        self.job(Task::Visit, codec, move || visit(black_box(bytes)))
    }

    /// An encoder; all must write the same bytes.
    pub(crate) fn encode(
        self,
        codec: Codec,
        encode: impl Fn(&mut [u8]) -> Option<usize> + 'static,
    ) -> Self {
        let mut buffer = vec![0xee; self.bytes.len()];
        let used = encode(&mut buffer).unwrap_or_default();
        assert_eq!(
            buffer[..used],
            *self.bytes,
            "{}: {} writes something else",
            self.name,
            codec.name()
        );
        // A buffer for each job, as a connection has one.
        let mut buffer = vec![0; self.bytes.len() + 4096];
        self.job(Task::Encode, codec, move || encode(black_box(&mut buffer)))
    }

    /// An encoder to a list of pieces, which says how many bytes they are together.
    pub(crate) fn gather(self, codec: Codec, gather: impl Fn() -> Option<usize> + 'static) -> Self {
        self.counting(Task::Gather, codec, gather)
    }

    /// A counter of bytes.
    pub(crate) fn length(self, codec: Codec, length: impl Fn() -> Option<usize> + 'static) -> Self {
        self.counting(Task::Length, codec, length)
    }

    fn counting(
        self,
        task: Task,
        codec: Codec,
        count: impl Fn() -> Option<usize> + 'static,
    ) -> Self {
        assert_eq!(
            count(),
            Some(self.bytes.len()),
            "{}: {} counts otherwise",
            self.name,
            codec.name()
        );
        self.job(task, codec, count)
    }

    fn job<R>(mut self, task: Task, codec: Codec, mut work: impl FnMut() -> R + 'static) -> Self {
        let run = move |times| {
            for _ in 0..times {
                black_box(&once(&mut work));
            }
        };
        self.jobs.push(Job {
            task,
            codec,
            run: RefCell::new(Box::new(run)),
        });
        self
    }
}

/// A call that is not merged with its surroundings, as in a program of several modules.
#[inline(never)]
fn once<R>(work: &mut impl FnMut() -> R) -> R {
    work()
}
