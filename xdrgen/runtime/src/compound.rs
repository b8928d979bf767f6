//! Booleans, tuples, fixed-length arrays and opaques, and optional data.
//!
//! `skip` must accept exactly what `decode` accepts ([`Decode::skip`]), and the constants of
//! [`Wire`] must agree with `layout` in `xdrgen-build`, which computes those of generated types: a
//! type whose bytes have invalid values (a boolean, padding) is never `PLAIN`. `u8` has no
//! [`Wire`], so that `[u8; N]` is an opaque and no array.

use core::array;

use crate::wire::{add, padding, times};
use crate::{Decode, Decoder, Encode, Result, Sink, Trace, Wire};

/// A boolean (RFC 4506, section 4.4).
impl Wire for bool {
    const MIN: usize = 4;
    const MAX: Option<usize> = Some(4);
    const PLAIN: bool = false;
}

impl<'a> Decode<'a> for bool {
    #[inline(always)]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        d.bool()
    }

    #[inline(always)]
    fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        d.bool().map(|_| ())
    }
}

impl Encode for bool {
    #[inline(always)]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.bool(*self)
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),+);)*) => {$(
        /// A structure without field names (RFC 4506, section 4.14).
        impl<$($name: Wire),+> Wire for ($($name,)+) {
            const MIN: usize = 0usize$(.saturating_add($name::MIN))+;
            const MAX: Option<usize> = {
                let max = Some(0);
                $(let max = add(max, $name::MAX);)+
                max
            };
            const PLAIN: bool = $($name::PLAIN)&&+;
        }

        impl<'a, $($name: Decode<'a>),+> Decode<'a> for ($($name,)+) {
            #[inline(always)]
            fn decode(d: &mut Decoder<'a>) -> Result<Self> {
                Ok(($($name::decode(d)?,)+))
            }

            #[inline]
            fn skip<Tr: Trace>(d: &mut Decoder<'a>, trace: &mut Tr) -> Result<()> {
                if Self::PLAIN && !Tr::VISITS_PLAIN {
                    return d.advance(Self::MIN);
                }
                $($name::skip(d, trace)?;)+
                Ok(())
            }
        }

        impl<$($name: Encode),+> Encode for ($($name,)+) {
            #[inline(always)]
            fn encode<'s, Si: Sink<'s>>(&'s self, sink: &mut Si) -> Result<()> {
                $(self.$at.encode(sink)?;)+
                Ok(())
            }
        }
    )*};
}
tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}

/// Fixed-length opaque data, with its padding (RFC 4506, section 4.9).
impl<const N: usize> Wire for [u8; N] {
    const MIN: usize = N.saturating_add(padding(N));
    const MAX: Option<usize> = N.checked_add(padding(N));
    const PLAIN: bool = padding(N) == 0;
}

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    #[inline(always)]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        let bytes = *d.fixed()?;
        d.padding_of(N)?;
        Ok(bytes)
    }

    #[inline]
    fn skip<T: Trace>(d: &mut Decoder<'a>, _: &mut T) -> Result<()> {
        d.padded(N).map(|_| ())
    }
}

impl<const N: usize> Encode for [u8; N] {
    #[inline(always)]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.padded(self)
    }
}

/// A fixed-length array (RFC 4506, section 4.12).
impl<T: Wire, const N: usize> Wire for [T; N] {
    const MIN: usize = T::MIN.saturating_mul(N);
    const MAX: Option<usize> = times(N, T::MAX);
    const PLAIN: bool = T::PLAIN;
}

impl<'a, T: Decode<'a>, const N: usize> Decode<'a> for [T; N] {
    #[inline(always)]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        let mut failure = None;
        let items: [Option<T>; N] = array::from_fn(|_| match failure {
            None => T::decode(d).map_err(|error| failure = Some(error)).ok(),
            Some(_) => None,
        });
        match failure {
            Some(error) => Err(error),
            // An item is `None` only after a failure. `array::try_from_fn` would express this in
            // types, but is not stable.
            None => Ok(items.map(|item| match item {
                Some(item) => item,
                None => unreachable!(),
            })),
        }
    }

    #[inline]
    fn skip<Tr: Trace>(d: &mut Decoder<'a>, trace: &mut Tr) -> Result<()> {
        if Self::PLAIN && !Tr::VISITS_PLAIN {
            return d.advance(Self::MIN);
        }
        for i in (0u32..).take(N) {
            trace.index(i);
            T::skip(d, trace)?;
            trace.leave();
        }
        Ok(())
    }
}

impl<T: Encode, const N: usize> Encode for [T; N] {
    #[inline(always)]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        T::encode_all(self, sink)
    }
}

/// Optional data (RFC 4506, section 4.19).
impl<T: Wire> Wire for Option<T> {
    const MIN: usize = 4;
    const MAX: Option<usize> = add(Some(4), T::MAX);
    const PLAIN: bool = false;
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    #[inline(always)]
    fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        if d.bool()? {
            T::decode(d).map(Some)
        } else {
            Ok(None)
        }
    }

    #[inline]
    fn skip<Tr: Trace>(d: &mut Decoder<'a>, trace: &mut Tr) -> Result<()> {
        if d.bool()? { T::skip(d, trace) } else { Ok(()) }
    }
}

impl<T: Encode> Encode for Option<T> {
    #[inline(always)]
    fn encode<'s, S: Sink<'s>>(&'s self, sink: &mut S) -> Result<()> {
        sink.bool(self.is_some())?;
        match self {
            Some(value) => value.encode(sink),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind::*;
    use crate::testing::{
        assert_consistent, assert_rejected, assert_round_trip, encoded, explain, xdr_like,
    };
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        assert_eq!(
            (<[u8; 5]>::MIN, <[u8; 5]>::MAX, <[u8; 5]>::PLAIN),
            (8, Some(8), false)
        );
        const { assert!(<[u8; 8]>::PLAIN && <[u64; 3]>::PLAIN && <(u32, [u8; 4])>::PLAIN) };
        const { assert!(!<[bool; 3]>::PLAIN && !<(u32, bool)>::PLAIN && !<Option<u32>>::PLAIN) };
        assert_eq!((<[u64; 3]>::MIN, <[u64; 3]>::MAX), (24, Some(24)));
        assert_eq!((<Option<u64>>::MIN, <Option<u64>>::MAX), (4, Some(12)));
        assert_eq!(
            (<(u32, Option<u32>)>::MIN, <(u32, Option<u32>)>::MAX),
            (8, Some(12))
        );
        assert_eq!(<(u32, &[u8])>::MAX, None);
    }

    #[test]
    fn booleans_are_zero_or_one() {
        assert_eq!(encoded(&[true, false]), [0, 0, 0, 1, 0, 0, 0, 0]);
        assert_rejected::<bool>(&[0, 0, 0, 2], InvalidBool, 0);
        assert_rejected::<[bool; 2]>(&[0, 0, 0, 1, 1, 0, 0, 0], InvalidBool, 4);
        assert_rejected::<Option<u32>>(&[0, 0, 0, 3, 0, 0, 0, 0], InvalidBool, 0);
    }

    #[test]
    fn opaque_padding_must_be_present_and_zero() {
        assert_eq!(encoded(&[1u8, 2, 3, 4, 5]), [1, 2, 3, 4, 5, 0, 0, 0]);
        assert_rejected::<[u8; 5]>(&[1, 2, 3, 4, 5, 0, 0], UnexpectedEnd, 5);
        assert_rejected::<[u8; 5]>(&[1, 2, 3, 4], UnexpectedEnd, 0);
        for at in 5..8 {
            let mut bytes = [1, 2, 3, 4, 5, 0, 0, 0];
            bytes[at] = 1;
            assert_rejected::<[u8; 5]>(&bytes, InvalidPadding, 5);
        }
        assert_rejected::<[u8; 5]>(&[0; 9], TrailingBytes, 8);
    }

    #[test]
    fn arrays_fail_at_the_element() {
        assert_rejected::<[u32; 3]>(&[0; 11], UnexpectedEnd, 8);
        assert_eq!(
            explain::<[u32; 3]>(&[0; 11]),
            "[2]: unexpected end of input at byte 8"
        );
        assert_eq!(<[u32; 0]>::from_bytes(&[]), Ok([]));
        assert_rejected::<(u32, u64)>(&[0; 11], UnexpectedEnd, 4);
    }

    proptest! {
        #[test]
        fn round_trips(
            a: [u8; 7],
            b: [u64; 3],
            c: Option<(u32, bool)>,
            d: [Option<i64>; 2],
            e: (u32,),
        ) {
            assert_round_trip(&a);
            assert_round_trip(&b);
            assert_round_trip(&c);
            assert_round_trip(&d);
            assert_round_trip(&e);
            assert_round_trip(&(e, c, a, true, 5u32, 6u64, (), 7i32));
        }

        #[test]
        fn skip_accepts_what_decode_accepts(bytes in xdr_like()) {
            assert_consistent::<bool>(&bytes);
            assert_consistent::<[u8; 3]>(&bytes);
            assert_consistent::<[Option<(u32, [u8; 2])>; 2]>(&bytes);
            assert_consistent::<(bool, [u32; 2], Option<Option<bool>>)>(&bytes);
        }
    }
}
