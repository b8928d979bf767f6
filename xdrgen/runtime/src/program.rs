//! Remote procedures.

use crate::{Decode, Encode};

/// A procedure of a version of a program (RFC 5531, section 12), for an RPC layer to call or serve.
///
/// ```
/// use xdrgen_runtime::{Encode, Procedure};
///
/// struct Double;
/// impl Procedure for Double {
///     const PROGRAM: u32 = 0x2000_0001;
///     const VERSION: u32 = 1;
///     const NUMBER: u32 = 1;
///     const NAME: &'static str = "DOUBLE";
///     type Args<'a> = u32;
///     type Reply<'a> = u64;
/// }
///
/// fn args_len<P: Procedure>(args: &P::Args<'_>) -> xdrgen_runtime::Result<usize> {
///     args.encoded_len()
/// }
/// assert_eq!(args_len::<Double>(&21), Ok(4));
/// ```
pub trait Procedure {
    /// The program number.
    const PROGRAM: u32;
    /// The version number.
    const VERSION: u32;
    /// The procedure number.
    const NUMBER: u32;
    /// The procedure's name in XDR.
    const NAME: &'static str;
    /// The type of the arguments.
    type Args<'a>: Decode<'a> + Encode;
    /// The type of the reply.
    type Reply<'a>: Decode<'a> + Encode;
}
