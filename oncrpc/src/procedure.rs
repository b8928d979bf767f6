//! Procedures, and the limits of their replies.
//!
//! `xdrgen` generates the implementations of [`Method`] (`emit::methods`), and has a copy of
//! [`MAX_REPLY_ITEMS`] (`check::reply_items`). `call` passes the properties of a [`Method`] to a
//! transport: by idempotence, `request` decides whether a call may be retransmitted. `router`
//! decides by the same setting which replies a server caches; it reads `Dispatch::is_idempotent`.
//!
//! A transport over RDMA provides the memory for a reply before the call, by [`ReplyLimits`]. So
//! they must be upper bounds: a longer reply fails. And their items must be in the order of the
//! reply: each gets a Write chunk, and the responder matches chunks and items in order (RFC 8166,
//! section 4.3.2.1).

use std::fmt;

use xdrgen_runtime::{Procedure, Wire};

/// A procedure of a version of a program, by its numbers. The name is for messages, but counts for
/// equality: compare or index by the numbers where the name may be unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ProcedureId {
    /// The program.
    pub program: u32,
    /// The version of the program.
    pub version: u32,
    /// The procedure.
    pub number: u32,
    /// The name in XDR; empty if it is not known.
    pub name: &'static str,
}

impl ProcedureId {
    /// Returns the identity of the procedure that a generated type represents.
    #[must_use]
    pub const fn of<P: Procedure>() -> Self {
        Self {
            program: P::PROGRAM,
            version: P::VERSION,
            number: P::NUMBER,
            name: P::NAME,
        }
    }
}

impl fmt::Display for ProcedureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            write!(f, "procedure {}", self.number)?;
        } else {
            f.write_str(self.name)?;
        }
        write!(
            f,
            " of program {:#x} version {}",
            self.program, self.version
        )
    }
}

/// The properties of a procedure for a client. Generated code implements this.
pub trait Method: Procedure {
    /// The results, as a type that borrows nothing from the message.
    type Results: 'static;

    /// Whether a call may be executed twice without harm, and so may be retransmitted over another
    /// connection.
    const IDEMPOTENT: bool = false;

    /// Returns the limits of the reply to a call, which must be upper bounds. The default is for
    /// results without items.
    fn reply_limits(_args: &Self::Args<'_>) -> ReplyLimits {
        ReplyLimits::new(<Self::Reply<'static> as Wire>::MAX.map(|max| max as u64))
    }

    /// Converts results that may borrow from a received message.
    fn to_results(reply: Self::Reply<'_>) -> Self::Results;
}

/// The maximum number of items of one reply.
pub const MAX_REPLY_ITEMS: usize = 8;

/// The limits of the results in a reply, without the RPC header. A transport over RDMA provides
/// memory for the reply before the call.
///
/// An item is an opaque or a string of the results that RDMA can place separately (`ddp` in the
/// configuration of `xdrgen`). The items are added in the order of the reply.
///
/// ```
/// use oncrpc::ReplyLimits;
///
/// let limits = ReplyLimits::new(Some(100)).item(65536);
/// assert_eq!((limits.inline_max(), limits.items()), (Some(100), &[Some(65536)][..]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyLimits {
    inline_max: Option<u64>,
    items: [Option<u32>; MAX_REPLY_ITEMS],
    count: usize,
}

impl ReplyLimits {
    /// Creates limits for results with a maximum size in bytes without items; `None` if there is no
    /// bound.
    #[must_use]
    pub const fn new(inline_max: Option<u64>) -> Self {
        Self {
            inline_max,
            items: [None; MAX_REPLY_ITEMS],
            count: 0,
        }
    }

    /// Adds an item of at most `max` bytes. Items beyond [`MAX_REPLY_ITEMS`] are ignored: their
    /// bytes have no memory of their own, and need a greater `inline_max`.
    #[must_use]
    pub const fn item(self, max: u32) -> Self {
        self.with(Some(max))
    }

    /// Adds an item whose length has no bound.
    #[must_use]
    pub const fn unbounded_item(self) -> Self {
        self.with(None)
    }

    const fn with(mut self, max: Option<u32>) -> Self {
        if self.count < MAX_REPLY_ITEMS {
            self.items[self.count] = max;
            self.count += 1;
        }
        self
    }

    /// Returns the maximum size in bytes of the results without their items; `None` if there is no
    /// bound.
    #[must_use]
    pub const fn inline_max(&self) -> Option<u64> {
        self.inline_max
    }

    /// Returns the maximum size in bytes of each item, in the order of the reply. An element is
    /// `None` if the item has no bound.
    #[must_use]
    pub fn items(&self) -> &[Option<u32>] {
        self.items.get(..self.count).unwrap_or_default()
    }
}
