use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::property::{Decision, PropertySupport};
use crate::v2::properties::Bkreqsup;

const BOTH: [PropertyDraft; 2] = [PropertyDraft::Properties, PropertyDraft::Characteristics];
const SIZE: u32 = 1;
const INVALIDATION: u32 = 2;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The written words after the fixed ones.
fn written(bytes: Option<usize>, buffer: &[u8]) -> Vec<u32> {
    let info = &buffer[28..bytes.unwrap()];
    info.chunks(4)
        .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
        .collect()
}

/// The number of values in an update, and whether it clears a change.
fn told(draft: PropertyDraft, info: &[u32]) -> Option<(usize, bool)> {
    let bytes = words(info);
    match draft.read(ROPT_UPDPROP, &bytes) {
        Ok(Some(PropertyOperation::Update(update))) => Some((update.now().len(), update.clears)),
        Ok(other) => panic!("{other:?} is no update"),
        Err(_) => None,
    }
}

/// The announcement and the request decode equally in both drafts.
// spec: xc2-4-a, xc2-4-b, xc2-4.1-a, xc2-4.1-e, xc2-4.2-c
#[test]
fn start_and_request_have_one_encoding_in_both_drafts() {
    let begins = words(&[2, 1, 4, 8192, 3, 4, 2, 1, 0b10]);
    let asks = words(&[1, 1, 4, 8192]);
    for draft in BOTH {
        let Ok(Some(PropertyOperation::Start(start))) = draft.read(1, &begins) else {
            panic!("{draft:?}")
        };
        assert_eq!((start.start.len(), start.nochg.first()), (2, Some(0b10)));
        let Ok(Some(PropertyOperation::Request(request))) = draft.read(2, &asks) else {
            panic!("{draft:?}")
        };
        assert_eq!(
            request.want.first(),
            Some(Propval {
                which: 1,
                data: &[0, 0, 32, 0]
            })
        );
        assert!(
            matches!(draft.read(5, &asks), Ok(None)),
            "an operation of another extension"
        );
    }
    let mut buffer = [0; 256];
    let bytes = write_request(
        &mut buffer,
        7,
        8,
        Some(BasicProperty::ReceiveBufferSize(8192)),
    );
    assert_eq!(buffer[..28], words(&[7, 2, 8, 5, 0, 2, 16]));
    assert_eq!(written(bytes, &buffer), [1, 1, 4, 8192]);
    assert_eq!(
        written(write_request(&mut buffer, 7, 8, None), &buffer),
        [0]
    );
}

// spec: xc2-4-c, xc2-4.3-a, xc2-4.3-b, xc2-4.3-c, xc2-4.3-e, xc2-4.3-i, xc2-4.3-l
#[test]
fn answers_use_the_encoding_of_their_draft() {
    let want = [SIZE, INVALIDATION, 3].map(|which| Propval {
        which,
        data: &[0, 0, 0, 1],
    });
    let request = Reqprop {
        want: (&want).into(),
    };
    let decide = |wanted| match wanted {
        BasicProperty::ReceiveBufferSize(_) => Decision::Defer,
        BasicProperty::RemoteInvalidation(_) => Decision::Accept,
        BasicProperty::BackwardSupport(_) => {
            Decision::Substitute(BasicProperty::BackwardSupport(Bkreqsup::None))
        }
    };
    let answer =
        PropertyResponse::answering(&request, PropertySupport::PROPERTIES, decide).unwrap();
    let mut buffer = [0; 256];
    for (draft, expected) in [
        (
            PropertyDraft::Properties,
            &[1, 0b010, 1, 0b001, 1, 3, 4, 0][..],
        ),
        (
            PropertyDraft::Characteristics,
            &[1, 0b010, 1, 0b100, 1, 0b001],
        ),
    ] {
        let bytes = draft.write_response(&mut buffer, 7, 8, &answer);
        assert_eq!(buffer[..24], words(&[7, 2, 8, 5, 1, 3]));
        let found = written(bytes, &buffer);
        assert_eq!(found, expected);
        let info = words(&found);
        let Ok(Some(PropertyOperation::Response(response))) = draft.read(3, &info) else {
            panic!("{draft:?}")
        };
        let first = response.disposition(&request);
        let expected = match draft {
            PropertyDraft::Properties => Disposition::Rejected(want[0]),
            PropertyDraft::Characteristics => Disposition::Pending(want[0]),
        };
        assert_eq!(first, Some(expected));
    }
}

// spec: xc2-4-d, xc2-4.4-a, xc2-4.4-c, xc2-4.4-e, xc2-4.4-f, xc2-4.4-g
#[test]
fn updates_use_the_encoding_of_their_draft() {
    let change = |value, clears| LocalChange { value, clears };
    let changed = [
        change(BasicProperty::ReceiveBufferSize(8192), true),
        change(BasicProperty::RemoteInvalidation(true), false),
    ];
    let ours = PropertyValues {
        receive_buffer_size: 12_288,
        remote_invalidation: true,
        ..PropertyValues::DEFAULT
    };
    let mut buffer = [0; 256];
    for (draft, count, expected) in [
        (
            PropertyDraft::Properties,
            2,
            &[2, 1, 4, 12_288, 2, 4, 1][..],
        ),
        (PropertyDraft::Characteristics, 1, &[1, 4, 12_288, 1]),
    ] {
        let (bytes, found) = draft
            .write_update(&mut buffer, 7, 8, &changed, &ours)
            .unwrap();
        assert_eq!(
            (buffer[..24].to_vec(), found),
            (words(&[7, 2, 8, 5, 0, 4]), count),
            "what holds is told"
        );
        let info = written(Some(bytes), &buffer);
        assert_eq!(info, expected);
        assert_eq!(
            told(draft, &info),
            Some((count, draft == PropertyDraft::Characteristics))
        );
        assert!(
            draft
                .write_update(&mut buffer[..40], 7, 8, &changed, &ours)
                .is_none(),
            "no room for it"
        );
    }
    let rest = PropertyDraft::Characteristics
        .write_update(&mut buffer, 7, 8, &changed[1..], &ours)
        .unwrap();
    assert_eq!(written(Some(rest.0), &buffer), [2, 4, 1, 0]);
}

/// A malformed operation is an error in its own draft.
// spec: xc2-2.1-d
#[test]
fn malformed_operations_are_refused() {
    for info in [
        &[][..],
        &[1],
        &[1, 4, 8192],
        &[1, 4, 8192, 2],
        &[1, 4, 8192, 0, 0],
        &[1, 64, 8192, 0],
        &[1, 3, 1, 0],
    ] {
        assert_eq!(told(PropertyDraft::Characteristics, info), None, "{info:?}");
    }
    for info in [
        &[][..],
        &[0],
        &[0, 0],
        &[0, 0, 0, 0],
        &[0, 0, 1],
        &[5, 0, 0],
    ] {
        assert!(
            PropertyDraft::Characteristics
                .read(3, &words(info))
                .is_err(),
            "{info:?}"
        );
    }
}

proptest! {
    /// No update of a known property in one draft is one in the other: a size is never taken for
    /// something else.
    #[test]
    fn an_update_of_the_other_draft_is_malformed(
        values in proptest::collection::vec((1u32..=6, 0u32..0x0100_0000), 1..4), clears: bool, empty: bool,
    ) {
        let mut update = std::vec![u32::try_from(values.len()).unwrap()];
        for (which, value) in &values {
            update.extend(if empty { std::vec![*which, 0] } else { std::vec![*which, 4, *value] });
        }
        prop_assert_eq!(told(PropertyDraft::Characteristics, &update), None);
        let (which, value) = values[0];
        // A size below 4096 is none, and no other value is as large.
        let value = if which == SIZE { value.max(4096) } else { value };
        prop_assert_eq!(told(PropertyDraft::Properties, &[which, 4, value, u32::from(clears)]), None);
    }

    /// No bytes cause a panic.
    #[test]
    fn any_bytes_are_decoded_or_refused(code in 0u32..6, info: Vec<u8>) {
        for draft in BOTH {
            let _ = draft.read(code, &info);
        }
    }
}
