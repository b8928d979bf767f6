use super::*;
use crate::ErrorKind::*;

fn error(kind: ErrorKind, offset: u32) -> Error {
    Error::new(kind, offset)
}

#[test]
fn items_advance_only_on_success() {
    let bytes: [u8; 7] = core::array::from_fn(|i| i as u8);
    let mut d = Decoder::new(&bytes);
    assert_eq!(d.fixed(), Ok(&[0, 1, 2]));
    assert_eq!(d.take(2), Ok(&bytes[3..5]));
    assert_eq!(d.fixed::<3>(), Err(error(UnexpectedEnd, 5)));
    assert_eq!(d.take(usize::MAX), Err(error(UnexpectedEnd, 5)));
    assert_eq!((d.offset(), d.remaining()), (5, &bytes[5..]));
    assert_eq!(d.advance(1), Ok(()));
    assert_eq!(d.clone().finish(), Err(error(TrailingBytes, 6)));
    assert_eq!(d.advance(2), Err(error(UnexpectedEnd, 6)));
    assert_eq!(d.advance(1), Ok(()));
    assert_eq!(d.finish(), Ok(()));
}

#[test]
fn numbers_need_all_their_bytes() {
    for len in 0..8 {
        let bytes = [1; 8];
        let mut d = Decoder::new(&bytes[..len]);
        assert_eq!(d.u64(), Err(error(UnexpectedEnd, 0)));
        assert_eq!(d.i64(), Err(error(UnexpectedEnd, 0)));
        assert!(d.f64().is_err());
        assert_eq!(d.u32().is_ok(), len >= 4);
        assert_eq!(d.i32().is_ok(), len >= 8);
    }
}

#[test]
fn padding_is_checked_for_each_length() {
    for n in 0..9usize {
        let mut bytes = [0; 12];
        bytes[..n].fill(0xff);
        let end = n.next_multiple_of(4);
        let mut d = Decoder::new(&bytes[..end]);
        assert_eq!(d.padded(n), Ok(&bytes[..n]));
        assert_eq!(d.finish(), Ok(()));
        for at in n..end {
            let mut wrong = bytes;
            wrong[at] = 0x80;
            let assert_rejected = Decoder::new(&wrong).padded(n);
            assert_eq!(assert_rejected, Err(error(InvalidPadding, n as u32)));
        }
    }
    assert_eq!(
        Decoder::new(&[0; 4]).padded(usize::MAX),
        Err(error(UnexpectedEnd, 0))
    );
}

#[test]
fn lengths_have_a_bound_and_booleans_two_values() {
    let bytes = [0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2];
    assert_eq!(Decoder::new(&bytes).length(5), Ok(5));
    let mut d = Decoder::new(&bytes);
    assert_eq!(d.length(4), Err(error(TooLong, 0)));
    assert_eq!(d.bool(), Ok(true));
    assert_eq!(d.bool(), Err(error(InvalidBool, 8)));
    assert_eq!(d.length(9), Err(error(UnexpectedEnd, 12)));
}

#[test]
fn limits_are_exact() {
    let limits = Limits {
        depth: 2,
        elements: 10,
        bytes: 4,
    };
    assert_eq!(
        Decoder::with_limits(&[0; 5], &limits).unwrap_err(),
        error(SizeLimit, 4)
    );
    let mut d = Decoder::with_limits(&[0; 4], &limits).unwrap();
    assert_eq!(d.charge_elements(6), Ok(()));
    assert_eq!(d.charge_elements(5), Err(error(ElementLimit, 0)));
    assert_eq!(d.charge_elements(4), Ok(()));
    assert_eq!(d.charge_elements(u32::MAX), Err(error(ElementLimit, 0)));

    assert_eq!(d.nested(|d| d.nested(|d| d.u32())), Ok(0));
    let deep = d.nested(|d| d.nested(|d| d.nested(|d| d.u32())));
    assert_eq!(deep, Err(error(DepthLimit, 4)));
    assert_eq!(
        d.nested(|d| d.nested(|_| Ok(1))),
        Ok(1),
        "an error leaves the open levels"
    );
    assert_eq!(
        Limits::default(),
        Limits {
            depth: 64,
            elements: 1 << 24,
            bytes: u32::MAX
        }
    );
}

#[test]
fn plain_elements_are_not_levels() {
    let limits = Limits {
        depth: 0,
        ..Limits::DEFAULT
    };
    let mut d = Decoder::with_limits(&[], &limits).unwrap();
    assert_eq!(d.element::<u32, _>(|_| Ok(())), Ok(()));
    assert_eq!(d.element::<bool, _>(|_| Ok(())), Err(error(DepthLimit, 0)));
}

#[test]
fn bytes_are_reserved_once() {
    let mut d = Decoder::new(&[0; 20]);
    assert_eq!(d.reserve_bytes(3, 4), Ok(()));
    assert_eq!(
        d.reserve_bytes(3, 4),
        Err(error(UnexpectedEnd, 0)),
        "12 of 20 are reserved"
    );
    d.release_bytes(4);
    assert_eq!(d.reserve_bytes(3, 4), Ok(()), "8 of 20 are reserved");
    assert_eq!(d.reserve_bytes(1, 1), Err(error(UnexpectedEnd, 0)));
    assert_eq!(d.reserve_bytes(u32::MAX, 0), Ok(()));
    assert_eq!(
        d.reserve_bytes(u32::MAX, usize::MAX),
        Err(error(UnexpectedEnd, 0))
    );
    d.release_bytes(usize::MAX);
    assert_eq!(d.reserve_bytes(5, 4), Ok(()));
    d.advance(16).unwrap();
    assert_eq!(
        d.reserve_bytes(0, 4),
        Ok(()),
        "more reserved than remains is no overflow"
    );
    assert_eq!(d.reserve_bytes(1, 4), Err(error(UnexpectedEnd, 16)));
}

#[test]
fn spans_and_errors_have_the_right_offsets() {
    let bytes = [1, 2, 3, 4, 5, 6];
    let mut d = Decoder::new(&bytes);
    d.advance(1).unwrap();
    let start = d.remaining();
    d.advance(3).unwrap();
    assert_eq!(d.consumed_since(start), &bytes[1..4]);
    assert_eq!(d.consumed_since(d.remaining()), &[]);
    assert_eq!(
        d.consumed_since(&bytes[5..]),
        &[],
        "from a decoder further on"
    );
    assert_eq!(d.error(InvalidEnum), error(InvalidEnum, 4));
    assert_eq!(d.error_before(InvalidEnum, 4), error(InvalidEnum, 0));
    assert_eq!(d.error_before(InvalidEnum, 9), error(InvalidEnum, 0));
    assert_eq!(
        d.error_at(InvalidDiscriminant, 2),
        error(InvalidDiscriminant, 2)
    );
}
