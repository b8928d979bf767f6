use std::vec;
use std::vec::Vec;

use super::{BufferSegment, BufferStructure, Layout, PlacedData, StructureError};
use crate::v2::rtr::{Buf, Group, Seg};

fn plain(length: u32) -> BufferSegment {
    BufferSegment {
        length,
        align: 0,
        target: false,
    }
}

fn target(length: u32) -> BufferSegment {
    BufferSegment {
        length,
        align: 4096,
        target: true,
    }
}

// spec: rtr-3.3-a, rtr-7.2-d, rtr-7.2-j
#[test]
fn structure_survives_encoding_and_decoding() {
    let made = BufferStructure::new(&[plain(4096), target(8192), target(8192), plain(64)]).unwrap();
    made.with_xdr(|told| {
        assert_eq!((told.length, told.groups.len()), (4096 + 2 * 8192 + 64, 3));
        assert_eq!(
            told.groups
                .get(1)
                .map(|group| (group.count, group.info.flags)),
            Some((2, 1))
        );
        assert_eq!(BufferStructure::from_xdr(&told), Ok(made));
    });
    assert_eq!(
        (
            made.target_count(),
            made.targets().collect::<Vec<_>>().len()
        ),
        (2, 2)
    );
}

// spec: rtr-8.1-i, rtr-8.3-d
#[test]
fn plain_structure_has_one_segment_without_targets() {
    let structure = BufferStructure::plain(4096);
    assert_eq!(
        (
            structure.length(),
            structure.segments(),
            structure.target_count()
        ),
        (4096, [plain(4096)].as_slice(), 0)
    );
}

// spec: rtr-7.2-l
#[test]
fn structure_of_a_peer_is_checked_against_its_length() {
    let info = Seg {
        length: 4096,
        align: 0,
        flags: 1,
    };
    let told = |length, count, info| {
        BufferStructure::from_xdr(&Buf {
            length,
            groups: (&[Group { count, info }]).into(),
        })
    };
    assert_eq!(told(4096, 2, info), Err(StructureError::Sum));
    assert_eq!(told(0, u32::MAX, info), Err(StructureError::Sum));
    // Of structures with too many or unusual segments only the length is used.
    assert_eq!(
        told(4096 * 100, 100, info),
        Ok(BufferStructure::plain(4096 * 100))
    );
    assert_eq!(
        told(6, 2, Seg { length: 3, ..info }),
        Ok(BufferStructure::plain(6))
    );
    assert_eq!(BufferStructure::new(&[]), Err(StructureError::Count));
    assert_eq!(
        BufferStructure::new(&[plain(3)]),
        Err(StructureError::Length)
    );
    assert_eq!(
        BufferStructure::new(&[plain(4096), plain(0)]),
        Err(StructureError::Length)
    );
    assert_eq!(
        BufferStructure::new(&[plain(1 << 31), plain(1 << 31)]),
        Err(StructureError::Length)
    );
}

// spec: rtr-6.2-g, rtr-6.2-h
#[test]
fn targets_are_counted_over_the_group() {
    let structure = BufferStructure::new(&[plain(4096), target(8192), target(8192)]).unwrap();
    assert_eq!(structure.find(0), Some((0, 4096..12288)));
    assert_eq!(structure.find(1), Some((0, 12288..20480)));
    assert_eq!(structure.find(4), Some((2, 4096..12288)));
    assert_eq!(BufferStructure::plain(4096).find(0), None);
}

/// Each announced segment has a length, an alignment, and a flag for targets.
// spec: rtr-7.2-f, rtr-7.2-g, rtr-7.2-h, rtr-7.2-i, rtr-7.2-j, rtr-7.2-k, rtr-7.2-l
#[test]
fn segments_are_decoded_with_length_alignment_and_target() {
    let info = |length, align, flags| Seg {
        length,
        align,
        flags,
    };
    let groups = [
        (1, info(64, 8, 0)),
        (3, info(4096, 4096, 1)),
        (1, info(512, 0, 0xfffe)),
    ];
    let groups = groups.map(|(count, info)| Group { count, info });
    let told = BufferStructure::from_xdr(&Buf {
        length: 64 + 3 * 4096 + 512,
        groups: (&groups).into(),
    })
    .unwrap();
    let odd = BufferSegment {
        length: 512,
        align: 0,
        target: false,
    };
    let expected = [
        BufferSegment {
            length: 64,
            align: 8,
            target: false,
        },
        target(4096),
        target(4096),
        target(4096),
        odd,
    ];
    assert_eq!(told.segments(), expected);
    // One behind the other, and numbered where data may be placed.
    assert_eq!(
        told.targets().collect::<Vec<_>>(),
        [64..4160, 4160..8256, 8256..12_352]
    );
}

/// A target counts whether it is used or not: where a transmission is short, and where the stream
/// has taken it.
// spec: rtr-6.2-i
#[test]
fn unused_targets_are_counted() {
    let structure = BufferStructure::new(&[plain(1024), target(4096), target(4096)]).unwrap();
    let layout = Layout {
        structure: &structure,
        first_header: 1100,
        header: 40,
        stream: 8_000,
        items: &[5_000],
    };
    let placed: Vec<_> = layout
        .transmissions()
        .map(|one| (one.section, one.placed.first().cloned()))
        .collect();
    let data = |target, at, bytes| {
        Some(PlacedData {
            target,
            at,
            item: 0,
            range: bytes,
        })
    };
    // The header goes into the first target, and the stream behind it; the data have the second,
    // and those of the next buffer.
    let first = (0..4020, data(1, 5120, 0..4096));
    assert_eq!(
        placed[..2],
        [first, (4020..5004, data(2, 1024, 4096..5_000))]
    );
    assert_eq!(placed[2], (5004..8_000, None));
    assert_eq!(
        (structure.find(2), structure.find(3)),
        (Some((1, 1024..5120)), Some((1, 5120..9216)))
    );
}

/// Every byte of the stream and of the items is in one place, in order, and nothing overlaps.
fn check(layout: Layout<'_>, most: u32) -> Option<u32> {
    let count = layout.count(most)?;
    let (mut stream, mut item, mut byte) = (0, 0, 0);
    let mut targets = Vec::new();
    let all: Vec<_> = layout.transmissions().take(count as usize).collect();
    for (number, one) in (0..).zip(&all) {
        assert_eq!(one.section.start, stream);
        assert!(one.section.start.is_multiple_of(4) && one.section.end.is_multiple_of(4));
        stream = one.section.end;
        let mut end = one.header + one.section.end - one.section.start;
        for PlacedData {
            target,
            at,
            item: which,
            range: bytes,
        } in &one.placed
        {
            while item < *which {
                assert_eq!(
                    byte, layout.items[item],
                    "an item is whole before the next begins"
                );
                (item, byte) = (item + 1, 0);
            }
            assert_eq!((*which, bytes.start), (item, byte));
            let (transmission, range) = layout.structure.find(*target).unwrap();
            assert_eq!((transmission, range.start), (number, *at));
            assert!(*at >= end && at + (bytes.end - bytes.start) <= range.end);
            (byte, end) = (bytes.end, at + bytes.end - bytes.start);
            targets.push(*target);
        }
        assert!(end <= layout.structure.length());
    }
    assert_eq!(stream, layout.stream);
    assert!(
        layout
            .items
            .iter()
            .skip(item)
            .enumerate()
            .all(|(at, length)| *length == if at == 0 { byte } else { 0 })
    );
    assert!(targets.is_sorted_by(|a, b| a < b));
    Some(count)
}

// spec: rtr-7.2-a, rtr-7.2-b, rtr-7.2-c
#[test]
fn layouts_contain_every_byte_once() {
    let structures: [&[BufferSegment]; 5] = [
        &[plain(4096)],
        &[plain(4096), target(65536)],
        &[
            plain(1024),
            target(4096),
            target(4096),
            plain(512),
            target(4096),
        ],
        &[target(512), plain(1024), target(8192)],
        &[plain(1024), target(4), target(8), target(12)],
    ];
    let mut possible = 0;
    for segments in structures {
        let structure = BufferStructure::new(segments).unwrap();
        for stream in (0..12_000).step_by(1012) {
            for items in [
                &[][..],
                &[0],
                &[1],
                &[5000],
                &[100_000],
                &[3, 0, 4097],
                &[4096, 4096, 1],
            ] {
                for opener in [60, 1020, 1100, 4096] {
                    let layout = Layout {
                        structure: &structure,
                        first_header: opener,
                        header: 40,
                        stream,
                        items,
                    };
                    possible += u32::from(check(layout, 64).is_some());
                }
            }
        }
    }
    assert!(possible > 900, "{possible}");
}

#[test]
fn layout_without_room_has_no_count() {
    let structure = BufferStructure::new(&[plain(40)]).unwrap();
    assert_eq!(
        Layout {
            structure: &structure,
            first_header: 40,
            header: 40,
            stream: 4,
            items: &[]
        }
        .count(100),
        None
    );
    assert_eq!(
        Layout {
            structure: &structure,
            first_header: 36,
            header: 40,
            stream: 4,
            items: &[]
        }
        .count(100),
        Some(1)
    );
    // Nothing can be placed where there are no targets.
    let structure = BufferStructure::plain(4096);
    assert_eq!(
        Layout {
            structure: &structure,
            first_header: 40,
            header: 40,
            stream: 4,
            items: &[4]
        }
        .count(100),
        None
    );
}

/// The targets of each transmission of a layout that hold data.
fn targets(layout: Layout<'_>) -> Vec<Vec<u32>> {
    let all = layout.transmissions().take(10);
    all.map(|one| one.placed.iter().map(|placed| placed.target).collect())
        .collect()
}

/// A gap in a Send is at most 4,096 bytes of zeros, except before its first data.
#[test]
fn large_gap_starts_another_transmission() {
    let structure = BufferStructure::new(&[
        plain(8192),
        target(4096),
        plain(4096),
        target(4096),
        plain(4100),
        target(4096),
    ])
    .unwrap();
    let layout = Layout {
        structure: &structure,
        first_header: 100,
        header: 40,
        stream: 200,
        items: &[4096, 4096, 4096],
    };
    assert_eq!(targets(layout), [vec![0, 1], vec![3]]);
}

/// A Send has three pieces of data at most. Data that go on in the next target, without a gap, are
/// one piece, and another item is another piece even there.
#[test]
fn transmission_has_at_most_three_runs_of_data() {
    let mut segments = [target(4096); 6];
    segments[0] = plain(1024);
    let structure = BufferStructure::new(&segments).unwrap();
    let layout = |header, stream, items| Layout {
        structure: &structure,
        first_header: 24,
        header,
        stream,
        items,
    };
    let apart = targets(layout(40, 200, &[1000; 5]));
    assert_eq!(apart, [vec![0, 1, 2], vec![5, 6]]);
    let joined = targets(layout(40, 200, &[8192, 1000, 1000, 1000]));
    assert_eq!(joined, [vec![0, 1, 2, 3], vec![5]]);
    // Data that continue in the next transmission are its first run.
    let continued = targets(layout(1024, 1000, &[22_480, 1000, 1000, 1000]));
    assert_eq!(
        continued,
        [vec![0, 1, 2, 3, 4], vec![5, 6, 7], vec![10]],
        "the header ends where the first target begins"
    );
}

/// A header that ends where a target begins leaves no room for the stream before it.
#[test]
fn data_may_follow_the_header_directly() {
    let structure = BufferStructure::new(&[plain(1024), target(4096), target(4096)]).unwrap();
    let layout = Layout {
        structure: &structure,
        first_header: 24,
        header: 1024,
        stream: 1004,
        items: &[10_000],
    };
    let all: Vec<_> = layout
        .transmissions()
        .map(|one| (one.section, one.placed.first().map(|placed| placed.at)))
        .collect();
    assert_eq!(
        all,
        [
            (0..1000, Some(1024)),
            (1000..1000, Some(1024)),
            (1000..1004, None)
        ]
    );
}

/// Even a message without bytes takes a transmission; its header may fill the buffer, and the
/// length of later headers does not matter then.
#[test]
fn empty_message_has_one_transmission() {
    let structure = BufferStructure::new(&[plain(40)]).unwrap();
    let layout = |first_header, header| Layout {
        structure: &structure,
        first_header,
        header,
        stream: 0,
        items: &[],
    };
    assert_eq!(layout(40, 44).transmissions().count(), 1);
    assert_eq!(layout(40, 44).count(8), Some(1));
    assert_eq!(layout(44, 44).count(8), None);
}

/// An item without bytes takes nothing from the room of the stream.
#[test]
fn empty_items_do_not_limit_the_stream() {
    let structure = BufferStructure::new(&[plain(1024), target(4096)]).unwrap();
    let sections = |items| {
        let layout = Layout {
            structure: &structure,
            first_header: 24,
            header: 24,
            stream: 5_000,
            items,
        };
        layout
            .transmissions()
            .map(|one| (one.section.start, one.section.end))
            .collect::<Vec<_>>()
    };
    assert_eq!(sections(&[0]), [(0, 5_000)]);
    assert_eq!(sections(&[]), [(0, 5_000)]);
}
