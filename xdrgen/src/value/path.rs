//! The position of a walk over a tree. `decode` and `encode` use it, and render it for errors as
//! the runtime's `Path` does.

use std::fmt;

/// One step of a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'s> {
    Field(&'s str),
    Index(u32),
}

/// The steps from the root: `rdma_reads[2].rdma_position`.
#[derive(Clone, Debug, Default)]
pub(super) struct Path<'s>(Vec<Step<'s>>);

impl<'s> Path<'s> {
    pub(super) fn enter(&mut self, step: Step<'s>) {
        self.0.push(step);
    }

    /// Removes the last step. It is not called after a failure, so that the path remains at the
    /// failed part.
    pub(super) fn leave(&mut self) {
        self.0.pop();
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if at == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(number) => write!(f, "[{number}]")?,
            }
        }
        Ok(())
    }
}
