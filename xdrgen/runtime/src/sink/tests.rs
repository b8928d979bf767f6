use super::*;
use crate::Encode;
use crate::ErrorKind::*;
use crate::testing::{Segment, encoded};
use proptest::prelude::*;
use std::vec::Vec;

#[test]
fn a_full_buffer_is_an_error() {
    let mut buf = [9; 7];
    let mut encoder = Encoder::new(&mut buf);
    encoder.u32(1).unwrap();
    let full = Err(Error::new(BufferFull, 4));
    assert_eq!(encoder.u32(2), full);
    assert_eq!(encoder.u64(2), full);
    assert_eq!(encoder.raw(&[1; 4]), full);
    assert_eq!(
        encoder.fixed_all::<4, u32>(&[1], |n, out| n.write(out)),
        full
    );
    assert_eq!(
        encoder.fixed_all::<8, ()>(&[(); usize::MAX], |_, _| ()),
        full
    );
    assert_eq!(encoder.raw(&[1; 3]), Ok(()));
    assert_eq!(encoder.raw(&[]), Ok(()));
    assert_eq!(encoder.fixed_all::<4, u32>(&[], |_, _| ()), Ok(()));
    assert_eq!((encoder.position(), encoder.offset()), (7, 7));
    assert_eq!(encoder.finish(), 7);
    assert_eq!(buf, [0, 0, 0, 1, 1, 1, 1]);
}

#[test]
fn padding_overwrites_the_buffer() {
    for n in 0..6usize {
        let mut buf = [9; 12];
        let mut encoder = Encoder::new(&mut buf);
        encoder.opaque(&[1; 6][..n]).unwrap();
        let end = encoder.finish();
        assert_eq!(end, 4 + n.next_multiple_of(4));
        assert_eq!(buf[..4], [0, 0, 0, n as u8]);
        assert!(buf[4 + n..end].iter().all(|&byte| byte == 0));
        assert!(buf[end..].iter().all(|&byte| byte == 9));
    }
}

#[test]
#[cfg(target_pointer_width = "64")]
fn lengths_have_32_bits() {
    let mut counter = Counter::new();
    counter.raw(&[0; 8]).unwrap();
    assert_eq!(counter.length(u32::MAX as usize), Ok(()));
    let too_long = Err(Error::new(TooLong, 12));
    assert_eq!(counter.length(u32::MAX as usize + 1), too_long);
    let units = crate::Array::<()>::from(&[(); u32::MAX as usize + 1]);
    assert_eq!(units.encoded_len(), Err(Error::new(TooLong, 0)));
}

#[test]
fn counter_saturates() {
    let mut counter = Counter {
        bytes: usize::MAX - 3,
    };
    counter.u32(1).unwrap();
    assert_eq!(counter.position(), usize::MAX);
    counter.raw(&[1; 9]).unwrap();
    counter
        .fixed_all::<8, ()>(&[(); usize::MAX], |_, _| ())
        .unwrap();
    assert_eq!(counter.offset(), usize::MAX);
    assert_eq!(counter.error(ArmMismatch).kind(), ArmMismatch);
}

#[test]
fn references_are_transparent() {
    assert_eq!(encoded(&&&7u32), encoded(&7u32));
    assert_eq!(encoded(&&b"ab"[..]), encoded(&b"ab"[..]));
}

/// Calls each method of a sink once.
fn all<'s, S: Sink<'s>>(sink: &mut S, n: u32, items: &[Segment], bytes: &'s [u8]) -> Result<()> {
    sink.u32(n)?;
    sink.i32(-1)?;
    sink.u64(n.into())?;
    sink.i64(-1)?;
    sink.f32(1.5)?;
    sink.f64(2.5)?;
    sink.bool(true)?;
    sink.fixed_all::<12, _>(items, |item, out| item.write(out))?;
    sink.fixed_all::<0, _>(items, |_, _| ())?;
    sink.padded(bytes)?;
    sink.opaque(bytes)?;
    sink.length(bytes.len())
}

proptest! {
    #[test]
    fn counter_counts_what_the_encoder_writes(n: u32, count in 0usize..4, bytes: Vec<u8>) {
        let items = [Segment { handle: n, offset: 1 }; 4];
        let mut counter = Counter::new();
        all(&mut counter, n, &items[..count], &bytes).unwrap();
        let mut buf = std::vec![0; counter.position()];
        let mut encoder = Encoder::new(&mut buf);
        all(&mut encoder, n, &items[..count], &bytes).unwrap();
        prop_assert_eq!(encoder.finish(), counter.position());
        let mut short = std::vec![0; counter.position() - 1];
        let error = all(&mut Encoder::new(&mut short), n, &items[..count], &bytes).unwrap_err();
        prop_assert_eq!(error.kind(), BufferFull);
    }
}
