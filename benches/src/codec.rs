//! The codecs that the benchmark compares.
//!
//! `table` has a column for each codec of [`Codec::LIMITS`] and [`Codec::OTHERS`];
//! [`Codec::Generated`] is the base of its ratios. [`Codec::name`] is a part of the names of jobs,
//! which `.ci/instructions` and `benches/instructions.txt` have.

/// A codec that the benchmark compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Codec {
    /// Generated code, borrowed shape, with limits.
    Generated,
    /// Generated code, owned shape.
    Owned,
    /// Generated code that encodes a decoded value instead of slices.
    Reencode,
    /// Code written by hand.
    Hand,
    /// Code written by hand that locates lists but does not read them.
    Locating,
    /// The same, which also counts the elements against a limit.
    Limited,
    /// `memcpy` of the same number of bytes, to memory of the same kind.
    Memcpy,
    /// The C code of `rpcgen`, with libtirpc.
    Rpcgen,
    /// The crate `fastxdr`.
    Fastxdr,
    /// The crate `xdr-codec`, with code that its `xdrgen` generates.
    CrateXdr,
}

impl Codec {
    /// Codecs that are faster. The table shows the time of generated code divided by theirs.
    pub(crate) const LIMITS: [Self; 4] = [Self::Hand, Self::Locating, Self::Limited, Self::Memcpy];
    /// Codecs that are slower. The table shows their time divided by that of generated code.
    pub(crate) const OTHERS: [Self; 5] = [
        Self::Owned,
        Self::Reencode,
        Self::Rpcgen,
        Self::Fastxdr,
        Self::CrateXdr,
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
            Self::CrateXdr => "xdr-codec",
        }
    }
}
