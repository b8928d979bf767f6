//! Whose codec it is.

/// Whose codec it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// Generated, borrowed; limits and all.
    Generated,
    /// Generated, owned.
    Owned,
    /// Generated, encoding what was decoded instead of slices.
    Again,
    /// By hand.
    Hand,
    /// By hand, with lists located but not read.
    Locating,
    /// The C of `rpcgen`, by way of libtirpc.
    Rpcgen,
    /// The crate `fastxdr`.
    Fastxdr,
    /// The crate `xdr-codec`, with what its `xdrgen` generates.
    XdrCodec,
}

impl By {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Generated => "generated",
            Self::Owned => "owned",
            Self::Again => "re-encode",
            Self::Hand => "by hand",
            Self::Locating => "locating",
            Self::Rpcgen => "rpcgen",
            Self::Fastxdr => "fastxdr",
            Self::XdrCodec => "xdr-codec",
        }
    }
}
