//! Whose codec it is.

/// Whose codec it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Codec {
    /// Generated, borrowed; limits and all.
    Generated,
    /// Generated, owned.
    Owned,
    /// Generated, encoding what was decoded instead of slices.
    Reencode,
    /// Codec hand.
    Hand,
    /// Codec hand, with lists located but not read.
    Locating,
    /// The same, with the elements counted against a limit.
    Limited,
    /// `memcpy` of as many bytes, to memory of the same kind.
    Memcpy,
    /// The C of `rpcgen`, by way of libtirpc.
    Rpcgen,
    /// The crate `fastxdr`.
    Fastxdr,
    /// The crate `xdr-codec`, with what its `xdrgen` generates.
    XdrCodec,
}

impl Codec {
    /// What generated code is held against: its time over theirs is told.
    pub(crate) const LIMITS: [Self; 4] = [Self::Hand, Self::Locating, Self::Limited, Self::Memcpy];
    /// What is expected to take longer: its time over that of generated code is told.
    pub(crate) const OTHERS: [Self; 5] = [
        Self::Owned,
        Self::Reencode,
        Self::Rpcgen,
        Self::Fastxdr,
        Self::XdrCodec,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Generated => "generated",
            Self::Owned => "owned",
            Self::Reencode => "re-encode",
            Self::Hand => "by hand",
            Self::Locating => "locating",
            Self::Limited => "limited",
            Self::Memcpy => "memcpy",
            Self::Rpcgen => "rpcgen",
            Self::Fastxdr => "fastxdr",
            Self::XdrCodec => "xdr-codec",
        }
    }
}
