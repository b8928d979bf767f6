use super::*;
use std::vec::Vec;

const LIMITS: ChunkLimits = ChunkLimits {
    max_segments: 4,
    max_bytes: 1 << 20,
};

fn segment(handle: u32, length: u32) -> v2::Segment {
    v2::Segment {
        handle,
        length,
        offset: 0x1000 * u64::from(handle),
    }
}

fn chunk(target: &[v2::Segment]) -> Result<WriteChunk<'_>, ChunkError> {
    WriteChunk::v2(target.into(), &LIMITS)
}

fn lengths(segments: impl Iterator<Item = Segment>) -> Vec<u32> {
    segments.map(|segment| segment.length).collect()
}

/// RFC 8166, section 3.4.6: contiguously, in the order of the segments, all of them returned.
#[test]
fn segments_are_filled_in_order() {
    let target = [segment(1, 10), segment(2, 0), segment(3, 10)];
    let chunk = chunk(&target).unwrap();
    assert_eq!((chunk.len(), chunk.capacity()), (3, 20));
    for (length, filled) in [
        (0, [0, 0, 0]),
        (4, [4, 0, 0]),
        (10, [10, 0, 0]),
        (11, [10, 0, 1]),
        (20, [10, 0, 10]),
    ] {
        assert_eq!(lengths(chunk.fill(length)), filled);
        assert_eq!(
            check_returned(chunk.segments(), chunk.fill(length)),
            Ok(length)
        );
    }
    assert_eq!(
        lengths(chunk.fill(21)),
        [10, 0, 10],
        "no more than there is room for"
    );
    assert_eq!(
        chunk
            .fill(4)
            .map(|segment| segment.handle)
            .collect::<Vec<_>>(),
        [1, 2, 3]
    );
}

/// RFC 8166, section 4.3.2.3.
#[test]
fn empty_chunks_have_no_capacity() {
    let chunk = chunk(&[]).unwrap();
    assert_eq!(
        (chunk.is_empty(), chunk.capacity(), chunk.fill(9).count()),
        (true, 0, 0)
    );
    assert_eq!(check_returned(chunk.segments(), []), Ok(0));
}

#[test]
fn invalid_write_chunks_are_refused() {
    let beyond = v2::Segment {
        handle: 1,
        length: 2,
        offset: u64::MAX - 1,
    };
    assert_eq!(chunk(&[beyond]).unwrap_err(), ChunkError::OffsetOverflow);
    assert_eq!(
        chunk(&[segment(1, 1); 5]).unwrap_err(),
        ChunkError::TooManySegments
    );
    let vast = [segment(1, u32::MAX); 4];
    assert_eq!(chunk(&vast).unwrap().capacity(), LIMITS.max_bytes);
    let one = [v1::Segment {
        handle: 1,
        length: 7,
        offset: 0,
    }];
    assert_eq!(
        WriteChunk::v1((&one).into(), &LIMITS).unwrap().capacity(),
        7
    );
}

#[test]
fn returned_chunks_must_match_the_offered_ones() {
    let offered: Vec<Segment> = [segment(1, 10), segment(2, 10)].map(Segment::from).into();
    let back = |segments: &[(u32, u32)]| {
        let segments = segments
            .iter()
            .map(|(handle, length)| Segment::from(segment(*handle, *length)));
        check_returned(offered.iter().copied(), segments)
    };
    assert_eq!(back(&[(1, 10), (2, 3)]), Ok(13));
    assert_eq!(back(&[(1, 0), (2, 0)]), Ok(0));
    assert_eq!(back(&[(1, 11), (2, 0)]), Err(ChunkError::ReturnedTooMuch));
    assert_eq!(
        back(&[(1, 9), (2, 1)]),
        Err(ChunkError::ReturnedTooMuch),
        "a gap"
    );
    assert_eq!(back(&[(1, 10)]), Err(ChunkError::NotAsOffered));
    assert_eq!(
        back(&[(1, 10), (2, 10), (3, 0)]),
        Err(ChunkError::NotAsOffered)
    );
    assert_eq!(back(&[(2, 10), (1, 10)]), Err(ChunkError::NotAsOffered));
    let moved = offered.iter().map(|segment| Segment {
        offset: segment.offset + 1,
        ..*segment
    });
    assert_eq!(
        check_returned(offered.iter().copied(), moved),
        Err(ChunkError::NotAsOffered)
    );
}
