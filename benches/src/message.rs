//! A message, and the codecs of this process that read or write it.
//!
//! A codec is checked when it is added: all visitors of a message return the same sum, and all
//! encoders write the same bytes. The names of tasks and messages are parts of the names of jobs
//! (`benches/instructions.txt`) and of the protocol of `peers`.

use std::cell::RefCell;
use std::hint::black_box;

use crate::codec::Codec;

/// The task that a job repeats with its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Decodes bytes to a value, or to the locations of its parts.
    Decode,
    /// Decodes bytes to the sum of all fields.
    Visit,
    /// Encodes a value to bytes.
    Encode,
    /// Encodes a value to a gather list.
    Gather,
    /// Computes the encoded length of a value.
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

/// The execution of one task by one codec.
pub(crate) struct Job {
    pub(crate) task: Task,
    pub(crate) codec: Codec,
    /// Runs the task a number of times.
    pub(crate) run: RefCell<Box<dyn FnMut(u64)>>,
}

/// An encoded message, and its jobs.
pub(crate) struct Message {
    pub(crate) name: &'static str,
    pub(crate) bytes: &'static [u8],
    pub(crate) jobs: Vec<Job>,
    /// The sum that each visitor must return.
    sum: Option<u64>,
}

/// The result of a decoder. It is not converted, because the conversion would be measured too.
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

/// More bytes than any message here takes.
const ROOM: usize = 1 << 21;

impl Message {
    /// Creates the message that `encode` writes. `encode` is also the job of the generated codec.
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

    /// Adds a decoder.
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

    /// Adds a decoder that reads every field. All such decoders must return the same sum.
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

    /// Adds an encoder. All encoders must write the same bytes.
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
        // Each job has a buffer of its own, as a connection does.
        let mut buffer = vec![0; self.bytes.len() + 4096];
        self.job(Task::Encode, codec, move || encode(black_box(&mut buffer)))
    }

    /// Adds an encoder to a list of pieces, which returns their total length.
    pub(crate) fn gather(self, codec: Codec, gather: impl Fn() -> Option<usize> + 'static) -> Self {
        self.counting(Task::Gather, codec, gather)
    }

    /// Adds a job that computes the encoded length.
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

/// Calls the work without inlining it, as in a program of several modules.
#[inline(never)]
fn once<R>(work: &mut impl FnMut() -> R) -> R {
    work()
}
