//! Tracks the position of a walk: no operation for [`skip`](crate::Decode::skip), a path for
//! [`explain`](crate::Decode::explain).
//!
//! Both walks must accept the same input, whatever the trace does. A trace is not told of a
//! failure: it keeps the steps that the walk has entered and not left.

use core::fmt;

use crate::{Decoder, Error, Result};

/// Receives the position of a walk over encoded input.
///
/// `leave` is called only after success, so that a [`Path`] is at the failure when the walk has
/// ended.
pub trait Trace {
    /// Whether to visit each field of plain data instead of skipping it by its length. Only
    /// [`NoTrace`] has `false`.
    const VISITS_PLAIN: bool = true;

    /// Enters a field.
    fn enter(&mut self, name: &'static str);
    /// Enters the element of a sequence at index `i`.
    fn index(&mut self, i: u32);
    /// Leaves the last field or element.
    fn leave(&mut self);
    /// Advances past a run of plain fields, given as names and sizes in bytes; `total` is their
    /// sum.
    ///
    /// # Errors
    /// Returns `UnexpectedEnd`, with the offset of the run for [`NoTrace`], or of the truncated
    /// field for [`Path`].
    fn run(
        &mut self,
        d: &mut Decoder<'_>,
        fields: &[(&'static str, u32)],
        total: usize,
    ) -> Result<()>;
}

/// A trace without operations or cost.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoTrace;

impl Trace for NoTrace {
    const VISITS_PLAIN: bool = false;

    #[inline(always)]
    fn enter(&mut self, _: &'static str) {}

    #[inline(always)]
    fn index(&mut self, _: u32) {}

    #[inline(always)]
    fn leave(&mut self) {}

    #[inline(always)]
    fn run(&mut self, d: &mut Decoder<'_>, _: &[(&'static str, u32)], total: usize) -> Result<()> {
        d.advance(total)
    }
}

/// One step of a [`Path`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Field(&'static str),
    Index(u32),
}

/// The number of steps that a path stores. It is enough for any type that is not recursive, and
/// needs no allocator.
const STEPS: usize = 24;

/// The fields and elements from the root inwards: `rdma_body.reads[2].position`.
///
/// A deeper path shows its first 24 steps, followed by `..`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    steps: [Step; STEPS],
    len: usize,
}

impl Path {
    /// Creates the path of the whole value.
    pub const fn new() -> Self {
        Self {
            steps: [Step::Index(0); STEPS],
            len: 0,
        }
    }

    /// Returns true for the path of the whole value.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn push(&mut self, step: Step) {
        if let Some(slot) = self.steps.get_mut(self.len) {
            *slot = step;
        }
        self.len = self.len.saturating_add(1);
    }
}

impl Default for Path {
    fn default() -> Self {
        Self::new()
    }
}

impl Trace for Path {
    fn enter(&mut self, name: &'static str) {
        self.push(Step::Field(name));
    }

    fn index(&mut self, i: u32) {
        self.push(Step::Index(i));
    }

    fn leave(&mut self) {
        self.len = self.len.saturating_sub(1);
    }

    fn run(
        &mut self,
        d: &mut Decoder<'_>,
        fields: &[(&'static str, u32)],
        total: usize,
    ) -> Result<()> {
        let before = d.offset();
        for &(name, bytes) in fields {
            self.enter(name);
            d.advance(bytes as usize)?;
            self.leave();
        }
        debug_assert_eq!(d.offset() - before, total, "fields and total differ");
        Ok(())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.steps.iter().take(self.len).enumerate() {
            match step {
                Step::Field(name) if i == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(number) => write!(f, "[{number}]")?,
            }
        }
        if self.len > STEPS {
            f.write_str("..")?;
        }
        Ok(())
    }
}

/// An [`Error`] with the path of its field: `reads[2].position: unexpected end of input at byte
/// 44`.
///
/// [`Decode::explain`](crate::Decode::explain) returns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Explanation {
    path: Path,
    error: Error,
}

impl Explanation {
    pub(crate) const fn new(path: Path, error: Error) -> Self {
        Self { path, error }
    }

    /// Returns the path of the field or element.
    pub const fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the kind and the offset of the error.
    pub const fn error(&self) -> Error {
        self.error
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        self.error.fmt(f)
    }
}

// The error is a part of the text, and so not the source, which reports print as well.
impl core::error::Error for Explanation {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use std::string::ToString;

    /// A report with the sources of an error would repeat the text.
    #[test]
    fn an_explanation_has_no_source() {
        let explained = Explanation::new(Path::new(), Error::new(ErrorKind::InvalidBool, 4));
        assert!(core::error::Error::source(&explained).is_none());
    }

    #[test]
    fn path_reads_like_rust() {
        let mut path = Path::new();
        assert_eq!(path.to_string(), "");
        path.enter("body");
        path.enter("reads");
        path.index(2);
        path.enter("position");
        assert_eq!(path.to_string(), "body.reads[2].position");
        path.leave();
        path.leave();
        path.index(3);
        assert_eq!(path.to_string(), "body.reads[3]");
    }

    #[test]
    fn deep_paths_are_elided_and_come_back() {
        let mut path = Path::new();
        for _ in 0..STEPS {
            path.index(1);
        }
        assert_eq!(path.to_string(), "[1]".repeat(STEPS));
        path.enter("deep");
        assert_eq!(path.to_string(), "[1]".repeat(STEPS) + "..");
        path.leave();
        path.leave();
        path.enter("x");
        assert_eq!(path.to_string(), "[1]".repeat(STEPS - 1) + ".x");
    }

    #[test]
    fn run_names_the_field_where_input_ends() {
        let fields = [("handle", 4), ("length", 4), ("offset", 8)];
        let (mut d, mut path) = (Decoder::new(&[0; 10]), Path::new());
        let error = path.run(&mut d, &fields, 16).unwrap_err();
        assert_eq!(error, Error::new(ErrorKind::UnexpectedEnd, 8));
        assert_eq!(path.to_string(), "offset");

        let mut d = Decoder::new(&[0; 10]);
        let error = NoTrace.run(&mut d, &fields, 16).unwrap_err();
        assert_eq!(error, Error::new(ErrorKind::UnexpectedEnd, 0));

        let (mut d, mut path) = (Decoder::new(&[0; 16]), Path::new());
        path.run(&mut d, &fields, 16).unwrap();
        assert!(path.is_empty());
        d.finish().unwrap();
    }

    #[test]
    fn explanation_of_the_whole_has_no_colon() {
        let error = Error::new(ErrorKind::TrailingBytes, 4);
        let explanation = Explanation::new(Path::new(), error);
        assert_eq!(explanation.to_string(), error.to_string());
    }
}
