//! Remote procedures.

use crate::{Decode, Encode};

/// One procedure of a version of a program (RFC 5531, section 12), for a layer above to call or serve.
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
    /// The number of the program.
    const PROGRAM: u32;
    /// The number of the version.
    const VERSION: u32;
    /// The number of the procedure.
    const NUMBER: u32;
    /// The name of the procedure in the XDR.
    const NAME: &'static str;
    /// What a call carries.
    type Args<'a>: Decode<'a> + Encode;
    /// What a reply carries.
    type Reply<'a>: Decode<'a> + Encode;
}
