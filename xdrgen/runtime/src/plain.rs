//! Plain types: numbers, void, and quadruple-precision floats. They are skipped by their length.

use crate::{Decode, Decoder, Encode, Fixed, Result, Sink, Trace, Wire};

macro_rules! plain {
    ($($type:ty, $bytes:literal;)*) => {$(
        impl Wire for $type {
            const MIN: usize = $bytes;
            const MAX: Option<usize> = Some($bytes);
            const PLAIN: bool = true;
        }

        impl<'a> Decode<'a> for $type {
            #[inline(always)]
            fn decode(d: &mut Decoder<'a>) -> Result<Self> {
                d.fixed().map(Self::read)
            }

            #[inline(always)]
            fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
                d.advance($bytes)
            }

            #[inline(always)]
            fn decode_all(
                d: &mut Decoder<'a>,
                count: u32,
                items: &mut impl Extend<Self>,
            ) -> Result<()> {
                d.fixed_all(count, items)
            }
        }

        impl Encode for $type {
            #[inline(always)]
            fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
                sink.fixed(|bytes| self.write(bytes))
            }

            #[inline(always)]
            fn encode_all<'s, S: Sink<'s>>(items: &'s [Self], sink: &mut S) -> Result<()> {
                sink.fixed_all(items, Self::write)
            }
        }
    )*};
}

macro_rules! numbers {
    ($($type:ty, $bytes:literal;)*) => {
        plain! { $($type, $bytes;)* }
        $(impl Fixed<$bytes> for $type {
            #[inline(always)]
            fn read(b: &[u8; $bytes]) -> Self {
                Self::from_be_bytes(*b)
            }

            #[inline(always)]
            fn write(&self, b: &mut [u8; $bytes]) {
                *b = self.to_be_bytes();
            }
        })*
    };
}

numbers! { u32, 4; i32, 4; u64, 8; i64, 8; f32, 4; f64, 8; }
plain! { Quadruple, 16; }

/// A quadruple-precision float (RFC 4506, section 4.8), as its 16 bytes. Stable Rust has no such
/// type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Quadruple(pub [u8; 16]);

impl Fixed<16> for Quadruple {
    #[inline(always)]
    fn read(b: &[u8; 16]) -> Self {
        Self(*b)
    }

    #[inline(always)]
    fn write(&self, b: &mut [u8; 16]) {
        *b = self.0;
    }
}

/// Void (RFC 4506, section 4.16), with an encoded size of zero.
impl Wire for () {
    const MIN: usize = 0;
    const MAX: Option<usize> = Some(0);
    const PLAIN: bool = true;
}

impl<'a> Decode<'a> for () {
    #[inline(always)]
    fn decode(_: &mut Decoder<'a>) -> Result<Self> {
        Ok(())
    }

    #[inline(always)]
    fn skip<T: Trace>(_: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        Ok(())
    }
}

impl Encode for () {
    #[inline(always)]
    fn encode<'s, S: Sink<'s>>(&'s self, _: &mut S) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_round_trip, encoded};
    use proptest::prelude::*;

    #[test]
    fn numbers_are_big_endian() {
        assert_eq!(encoded(&0x0102_0304u32), [1, 2, 3, 4]);
        assert_eq!(encoded(&-2i32), [255, 255, 255, 254]);
        assert_eq!(encoded(&0x0102_0304_0506_0708u64), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(encoded(&-2i64), [255, 255, 255, 255, 255, 255, 255, 254]);
        assert_eq!(encoded(&1f32), [0x3f, 0x80, 0, 0]);
        assert_eq!(encoded(&-2f64), [0xc0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encoded(&()), []);
    }

    #[test]
    fn nan_payloads_are_preserved() {
        let bytes = 0x7fc0_1234u32.to_be_bytes();
        assert_eq!(encoded(&f32::from_bytes(&bytes).unwrap()), bytes);
        let bytes = 0xfff8_0000_0000_4321u64.to_be_bytes();
        assert_eq!(encoded(&f64::from_bytes(&bytes).unwrap()), bytes);
    }

    proptest! {
        #[test]
        fn round_trips(
            a: (u32, i32, u64, i64),
            f in proptest::num::f32::NORMAL,
            g in proptest::num::f64::NORMAL,
            q: [u8; 16],
        ) {
            assert_round_trip(&a.0);
            assert_round_trip(&a.1);
            assert_round_trip(&a.2);
            assert_round_trip(&a.3);
            assert_round_trip(&f);
            assert_round_trip(&g);
            assert_round_trip(&Quadruple(q));
            assert_round_trip(&());
        }
    }
}
