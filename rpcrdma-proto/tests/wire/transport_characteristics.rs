//! Transport characteristics of Version Two (xcharext-02).

use super::*;
use characteristics::{Bkreqsup, Characteristic, OptInfo, owned};

fn operation(code: &str, content: &str) -> (OptInfo<'static>, owned::OptInfo) {
    let (carrier, own) = carrier(optional(code, content));
    let (info, own) = (
        OptInfo::of(&carrier).unwrap(),
        owned::OptInfo::of(&own).unwrap(),
    );
    assert_eq!(info.encode_to_vec().unwrap(), carrier.optinfo);
    assert_eq!(own.encode_to_vec().unwrap(), carrier.optinfo);
    (info, own)
}

/// xcharext-02, section 4.1.
#[test]
fn initxch() {
    let content = "
            00000003
            00000001 00000004 00002000  # XCHAR_RBSIZ: 8192
            00000002 00000004 00000000  # XCHAR_REQREMINV: FALSE
            00000003 00000004 00000001  # XCHAR_BRS: BKREQSUP_INLINE
            00000001 00000001           # one that will not change
        ";
    let (info, own) = operation("00000001", content);
    let OptInfo::Initxch(init) = info else {
        panic!("{info:?}")
    };
    let found: Vec<_> = init
        .start
        .iter()
        .map(|value| Characteristic::of(&value).unwrap())
        .collect();
    let expected = [
        Characteristic::Rbsiz(8192),
        Characteristic::Reqreminv(false),
        Characteristic::Brs(Bkreqsup::Inline),
    ];
    assert_eq!(found, expected);
    assert_eq!(init.nochg.first(), Some(1));
    assert!(matches!(own, owned::OptInfo::Initxch(init) if init.start.len() == 3));
}

#[test]
fn reqxch_and_respxch() {
    let (info, _) = operation("00000002", "00000001 00000001 00000004 00000400");
    assert!(matches!(info, OptInfo::Reqxch(request) if request.want.len() == 1));
    let (info, own) = operation(
        "00000003",
        "00000001 00000001 00000000 00000002 00000002 00000003",
    );
    let OptInfo::Respxch(response) = info else {
        panic!("{info:?}")
    };
    assert_eq!(
        (response.done.len(), response.rej.len(), response.pend.len()),
        (1, 0, 2)
    );
    assert!(matches!(own, owned::OptInfo::Respxch(response) if response.pend == [2, 3]));
}

/// One characteristic, not a set, and a boolean after it: where xcharext-03 has another shape
/// for the same code.
#[test]
fn updxch() {
    let content = "00000001 00000004 00000800 00000001";
    let (info, _) = operation("00000004", content);
    let OptInfo::Updxch(update) = info else {
        panic!("{info:?}")
    };
    assert_eq!(
        (Characteristic::of(&update.now), update.pendclr),
        (Ok(Characteristic::Rbsiz(2048)), true)
    );
    assert!(properties::OptInfo::decode(4, hex(content)).is_err());
    // No rule of xcharext-02 gives no bytes a meaning.
    let empty = characteristics::Xcharval {
        which: 1,
        data: &[],
    };
    assert_eq!(
        Characteristic::of(&empty).unwrap_err().kind(),
        ErrorKind::UnexpectedEnd
    );
}
