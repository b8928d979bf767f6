//! The runtime of Rust code that `xdrgen-build` generates: XDR decoder and encoder (RFC 4506),
//! limits, and errors.
//!
//! Generated types implement [`Decode`] and [`Encode`] with the building blocks in this crate.
//! There are two shapes. The borrowed shape ([`Array`], [`List`], [`Opaque`], [`Text`], [`Nested`])
//! points into the input, or into slices of the caller. The owned shape (`Vec`, `ArrayBuf`,
//! `ListBuf`, `OpaqueBuf`, `TextBuf`, `Box`; feature `alloc`, on by default) owns its content.
//!
//! ```
//! use xdrgen_runtime::{Decode, Encode, Limits, List, Opaque};
//!
//! type Message<'a> = (u32, List<'a, (u32, u64)>, Option<Opaque<'a, 16>>);
//!
//! let reads = [(7, 4096), (8, 8192)];
//! let message: Message<'_> = (1, List::from(&reads), None);
//! let mut buf = [0; 64];
//! let used = message.encode_to_slice(&mut buf)?;
//!
//! let decoded = Message::from_bytes(&buf[..used])?;
//! assert_eq!(decoded, message);
//! assert_eq!(decoded.1.iter().map(|(_, length)| length).sum::<u64>(), 12288);
//!
//! let explanation = Message::explain(&buf[..used - 1], &Limits::DEFAULT).map(|e| e.to_string());
//! assert_eq!(explanation.as_deref(), Some("unexpected end of input at byte 40"));
//! # Ok::<(), xdrgen_runtime::Error>(())
//! ```
//!
//! # Guarantees
//!
//! - No input or output, no clock, no threads, no `std`. Exception: with the feature `simd`, off by
//!   default, `std` detects the vector instructions of an x86 processor, for long arrays of
//!   numbers.
//! - No `unsafe` code.
//! - No panic on any input.
//! - No allocation in the borrowed shape. In the owned shape, one exact allocation for each
//!   sequence, and none for a count that the rest of the input cannot contain
//!   ([`Decoder::reserve_bytes`]).
//! - Strict checks of padding, booleans, bounds and trailing bytes, and limits on nesting and
//!   elements ([`Limits`]).

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::cast_possible_truncation,
        reason = "a test fails by panicking, and chooses its numbers"
    )
)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod array;
mod compound;
mod decode;
mod decoder;
mod encode;
mod error;
mod fixed;
mod gather;
mod item;
#[cfg(feature = "alloc")]
mod item_list;
mod limits;
mod list;
mod nested;
mod opaque;
#[cfg(feature = "alloc")]
mod owned;
mod plain;
mod program;
mod sequence;
#[cfg(feature = "serde")]
mod serialize;
#[cfg(feature = "alloc")]
mod shared;
mod sink;
#[cfg(test)]
mod testing;
mod text;
mod trace;
mod vector;
mod wire;

pub use array::{Array, DdpArray};
pub use decode::{Decode, Visit, field};
pub use decoder::Decoder;
pub use encode::Encode;
pub use error::{Error, ErrorKind, Result, TooLong};
pub use fixed::{Fixed, part, part_mut};
pub use gather::{GatherEncoder, GatherEntry, GatherList, GatherSize};
pub use item::Item;
#[cfg(feature = "alloc")]
pub use item_list::{ItemList, MAX_LISTED_ITEMS, Matching, ReceivedItem};
pub use limits::Limits;
pub use list::{DdpList, List};
pub use nested::{DdpNested, Nested};
pub use opaque::Opaque;
#[cfg(feature = "alloc")]
pub use owned::{ArrayBuf, ListBuf, OpaqueBuf, Owned, TextBuf};
pub use plain::Quadruple;
pub use program::Procedure;
pub use sequence::Iter;
#[cfg(feature = "serde")]
#[doc(hidden)]
pub use serialize::long_array;
#[cfg(feature = "alloc")]
pub use shared::{SharedBuffer, SharedBytes};
pub use sink::{CopySink, Counter, Encoder, Sink};
pub use text::Text;
pub use trace::{Explanation, NoTrace, Path, Trace};
pub use wire::Wire;

/// The version of the contract with generated code.
pub const ABI: u32 = 1;

/// Checks at compile time that code was generated for this runtime.
///
/// ```
/// const _: () = ::xdrgen_runtime::assert_abi(1);
/// ```
///
/// ```compile_fail,E0080
/// const _: () = ::xdrgen_runtime::assert_abi(0);
/// ```
///
/// # Panics
/// Panics if the versions differ. In a constant this is a compile error.
pub const fn assert_abi(generated: u32) {
    assert!(
        generated == ABI,
        "this code was generated for another xdrgen-runtime: use the same version of xdrgen-build \
        and xdrgen-runtime"
    );
}

/// Lets generated code name these types if its crate has no `extern crate alloc`. Not part of the
/// public API.
#[cfg(feature = "alloc")]
#[doc(hidden)]
pub mod heap {
    pub use crate::owned::{boxed, ddp_nested, nested};
    pub use alloc::{boxed::Box, vec::Vec};
}

/// Lets generated code name `Option` if a document defines a type of that name. Not part of the
/// public API.
#[doc(hidden)]
pub use core::option::Option;

#[cfg(test)]
mod tests {
    /// A doctest checks that it does not compile in a constant. (The compiler's report contains
    /// lines of the standard library if they are installed.)
    #[test]
    #[should_panic = "this code was generated for another xdrgen-runtime"]
    fn other_abi_version_is_rejected() {
        super::assert_abi(0);
    }
}

/// Compiles the examples of the README.
#[cfg(all(doctest, feature = "alloc"))]
#[doc = include_str!("../README.md")]
struct Readme;
